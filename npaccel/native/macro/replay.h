/* replay.h: a recorded section as it is run again; what the files of the replay promise each
 * other. */
#ifndef NPA_REPLAY_H
#define NPA_REPLAY_H

#include "macro/macro.h"

/* How an argument, or a part of one, must look; how a result is made. Preorder. */
enum npa_node_kind {
    NPA_IN_ARRAY, NPA_IN_NUMBER, NPA_IN_SCALAR, NPA_IN_CONTROL, NPA_TUPLE, NPA_LIST, NPA_DICT,
    NPA_OUT_ROOT, NPA_OUT_INPUT, NPA_OUT_VIEW, NPA_OUT_SCALAR, NPA_OUT_NUMBER, NPA_OUT_CONSTANT,
    NPA_OUT_COPY, NPA_IN_GENERATOR
};
typedef struct {
    uint8_t kind;
    bool flag;         /* IN_ARRAY: writable. OUT_VIEW: of an input, not of a root; writable: `n` */
    int n;             /* children; dimensions; OUT_VIEW: 1 if writable */
    int slot;          /* array, number, root, or buffer */
    int type;          /* type number */
    PyObject *object;  /* owned: the control value; keys; scalar's type; dtype; constant */
    npy_intp offset;   /* OUT_VIEW: from its buffer's base */
    npy_intp *lengths; /* shape, then strides */
} npa_node;

/* Where a buffer's memory is during a replay. */
enum npa_buffer_kind {
    NPA_BUFFER_INPUT, NPA_BUFFER_OUTSIDE, NPA_BUFFER_CELL, NPA_BUFFER_ROOT, NPA_BUFFER_TEMPORARY,
    NPA_BUFFER_UNUSED
};
typedef struct {
    uint8_t kind;
    bool written;
    int slot;         /* cell or root; INPUT: first member */
    size_t size, at;  /* at: of a temporary in the frame's */
    char *base;       /* OUTSIDE */
    PyObject *owner;  /* OUTSIDE: borrowed from the section */
} npa_buffer_spec;

typedef struct {
    int ndim;
    bool large;
    PyArray_Descr *descr;
    npy_intp *lengths;
} npa_root;

typedef struct { int32_t request, operand, slot; } npa_use;
typedef struct { char op; int32_t a, b; double value; } npa_step_of_number;
/* What is found there: under a name in a dict, of a class, or as an attribute; in a cell. Without a
 * name: a list's items, a dict's keys and values, an array's bytes. */
typedef struct { PyObject *where, *name, *object; } npa_trace_guard;
typedef struct { int32_t slot, buffer; npy_intp offset; } npa_member;

enum { NPA_CELL = 16 }; /* bytes of a scalar in a frame */

enum { NPA_MOST_KEPT = 1 << 20 }; /* bytes of temporaries that a frame keeps */

/* What one call needs; the replay keeps one for the next. */
typedef struct npa_frame {
    npa_queue q;
    npa_buffer *buffers;
    uint8_t *kinds;
    PyArrayObject **arrays; /* arguments, borrowed */
    PyObject **numbers;     /* arguments, borrowed */
    PyObject **generators;  /* the same */
    PyObject *drawn;        /* (arrays, states before them): owned during the call */
    PyObject **roots;       /* results, owned during the call */
    double *values;
    char *cells, *temporaries;
    npa_range *large; /* temporaries that are not kept */
    bool lost;        /* a device failed that had alone what the run needs */
} npa_frame;

typedef struct {
    PyObject_HEAD
    PyObject *section, *program, *names, *info; /* names: of keywords */
    npa_node *in, *out, *drawn; /* drawn: arrays that generators among the arguments give */
    int nin, nout, nargs, ndrawn, ngenerators;
    PyObject *draws; /* draw(generators), undo(states); NULL: nothing is drawn */
    npa_buffer_spec *buffers;
    int nbuffers, narrays, nnumbers, ncells, nroots;
    npa_member *members;
    int nmembers;
    npa_root *roots;
    npa_use *uses;
    int nuses;
    npa_step_of_number *numbers; /* the first `nleaves` are arguments */
    int nleaves;
    npa_trace_guard *guards;
    int nguards;
    size_t temporary_bytes;
    int errstate;
    bool may_warn, writes, heavy;
    bool moves, anywhere; /* steps use a device's own memory; wherever the arguments live */
    npa_store *place;     /* else where they live; NULL: on the host */
    uint64_t used, hits, backend; /* backend: that its recording was asked for */
    npa_frame *spare;
} npa_replay;

extern PyTypeObject npa_replay_type;
int npa_replay_ready(void);
/* 1: *result is new; 0: another signature; -1: error set; 2: the body must run, *why says why. */
int npa_replay_try(npa_replay *r, PyObject *const *args, Py_ssize_t n, PyObject *names,
                   PyObject **result, const char **why);
void npa_frame_free(npa_frame *f);
npa_queue *npa_queue_of(PyObject *section);
/* Whether the indices of gathers are in bounds: those that are there before the run, or, computed,
 * those that it made. */
bool npa_section_indices_fit(PyObject *section, const npa_buffer *buffers, bool computed);
/* One of those that are there before the run */
bool npa_section_is_index(PyObject *section, int buffer);
/* replay_match.c */
bool npa_replay_matches(npa_replay *r, PyObject *const *args, Py_ssize_t n, PyObject *names,
                        npa_frame *f);
bool npa_replay_holds(const npa_replay *r); /* what the body found under names is there now */
PyObject *npa_guard_holds(PyObject *module, PyObject *args); /* (where, name, object) */
bool npa_same_array(const npa_node *node, PyObject *o);
/* replay_memory.c. All but the last with the lock. */
/* Of a buffer in memory of ours, that memory's own, where a device may leave what it makes; else
 * NULL. */
npa_buffer *npa_frame_buffer(const npa_replay *r, const npa_frame *f, int buffer);
/* 1: all arguments can be read, and written where they are; 0: what is pending must run first; -1:
 * out of memory. */
int npa_frame_inputs_ready(const npa_replay *r, npa_frame *f);
void npa_frame_take_buffers(const npa_replay *r, npa_frame *f); /* which ones the run uses */
bool npa_frame_take_pages(const npa_replay *r, npa_frame *f);   /* for what is not small */
bool npa_frame_give_pages(const npa_replay *r, npa_frame *f);   /* temporaries go, results appear */
/* Where the first argument that lives on a device does, or else array that the body has by another
 * name; or NULL. */
npa_store *npa_frame_place(const npa_replay *r, const npa_frame *f);
/* replay_draw.c: 1 drawn, into f->arrays; 2 the body must run; -1 error set. */
int npa_replay_draw(const npa_replay *r, npa_frame *f);
void npa_replay_undraw(const npa_replay *r, npa_frame *f); /* as if it had not been */
/* replay_result.c */
PyObject *npa_replay_result(const npa_replay *r, npa_frame *f);
/* replay_make.c */
PyObject *npa_replay_new(PyTypeObject *type, PyObject *args, PyObject *kwargs);
void npa_replay_clear(npa_replay *r);

#endif
