/* macro.h: macro sections: a body is recorded once, and run again on other arrays.
 *
 * Knows queues and programs. Must not know which calls the body makes. */
#ifndef NPA_MACRO_H
#define NPA_MACRO_H

#include "run/run.h"

/* ------------------------------------------------------------------------------ traced_scalar.c */

typedef struct {
    PyObject_HEAD
    PyObject *value; /* a float or an int */
    int slot;
} npa_runtime; /* a Python number that a section takes anew at each call */
extern PyTypeObject npa_runtime_type;

/* ------------------------------------------------------------------------------------ section.c */

/* A macro section while its body runs. */
typedef struct npa_spot npa_spot;
/* What macro/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_macro_hooks {
    void (*look)(bool begin); /* npa_redirect_look */
} npa_macro_hooks;
/* `a` is a section's array, which has no values: an exception that says so, -1. Else 0.
 * what: how it is read ("bool"); NULL: NumPy is to compute with it. */
int npa_section_stop(PyArrayObject *a, const char *what);
/* While one looks at subscripts of plain arrays: -1 where its values would be read, or written
 * elsewhere. */
int npa_section_sees_read(PyObject *a, PyObject *key);
int npa_section_sees_write(PyObject *a, PyObject *value);
bool npa_section_wants(const npa_value *values, int n);
bool npa_section_block_wants(const npa_value *values, int n); /* in a block: ours, of any size */
npa_spot *npa_spot_new(size_t size);
void npa_spot_gone(npa_spot *spot);     /* its memory is */
void npa_spot_read_raw(npa_spot *spot); /* by a fault; from any thread */
/* Which of the section's buffers `a` lies in, and how far. False: exception set. */
bool npa_section_place(PyArrayObject *a, bool write, int32_t *buffer, int64_t *offset);
/* A section's array without dimensions that is a scalar in NumPy: nothing may change it. */
bool npa_section_is_scalar(PyArrayObject *a);
void npa_section_set_scalar(PyArrayObject *a);
npa_queue *npa_section_queue(void);
bool npa_section_bind(int request, int operand, int slot);

/* ------------------------------------------------------------------------------- section_told.c */

int npa_section_init(PyObject *module);

/* -------------------------------------------------------------------------------- macro_block.c */

int npa_macro_block_init(PyObject *module);
/* Whether nothing small is recorded that is done at once with the same bits: this thread's block
 * stands aside. Its results are arrays of ours, as if it were recorded. */
bool npa_stands_aside(void);
static inline bool npa_in_section(void) { return npa_here != NULL || npa_stands_aside(); }
void npa_aside_end(void); /* everything is recorded from now on; not inside: nothing */

/* ----------------------------------------------------------------------------- section_python.c */

extern PyTypeObject npa_section_type;

/* -------------------------------------------------------------------------------------- calls.c */

/* From now on this thread's hook(frame, function or None) hears of Python code that is entered
 * and of C functions that it calls; an exception of its is raised there. 0 or -1 */
bool npa_internal_code(void); /* whether what runs is Python of NumPy's or ours */
int npa_calls_listen(PyObject *hook);
void npa_calls_end(void);

/* -------------------------------------------------------------------------------------- macro.c */

int npa_macro_init(PyObject *module);

#endif
