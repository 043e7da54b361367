/* base.h: what all rooms above share: settings, the user's line, clocks, counts of what NumPy did,
 * processes, signals.
 *
 * Knows Python's and NumPy's interfaces. Must not know operations, requests, or what waits. */
#ifndef NPA_BASE_H
#define NPA_BASE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL npaccel_array_api
#define PY_UFUNC_UNIQUE_SYMBOL npaccel_ufunc_api
#ifndef NPACCEL_IMPORT
#define NO_IMPORT_ARRAY
#define NO_IMPORT_UFUNC
#endif
#include <numpy/arrayobject.h>
#include <numpy/ufuncobject.h>

#include "system/system.h"

#define NPA_MAX_DIMS 16 /* more dimensions: NumPy does it */

#define NPA_MAX_ARGS 8  /* operands of one request, mask included */

/* Whether that is a dtype as NumPy's own of its type: in the processor's order, with nothing noted.
 * Arrays that were pickled have dtypes that are not NumPy's objects. */
static inline bool npa_is_usual_dtype(const PyArray_Descr *d)
{
    return PyDataType_ISNOTSWAPPED(d) && PyDataType_METADATA(d) == NULL;
}

/* Whether two dtypes of numbers are one for whoever looks at elements and results; none is one with
 * b NULL. */
static inline bool npa_same_dtype(PyArray_Descr *a, PyArray_Descr *b)
{
    return a == b || (b != NULL && a->type_num == b->type_num &&
                      (PyTypeNum_ISNUMBER(a->type_num) || PyTypeNum_ISBOOL(a->type_num)) &&
                      npa_is_usual_dtype(a) && npa_is_usual_dtype(b));
}

/* Put an item, which is taken, at the end of a list. False, with an error set: there is no item, or
 * no memory; then there is no list any more. */
static inline bool npa_append(PyObject **list, PyObject *item)
{
    bool good = *list != NULL && item != NULL && PyList_Append(*list, item) == 0;
    if (!good) {
        Py_CLEAR(*list);
    }
    Py_XDECREF(item);
    return good;
}

/* Room in *array, which has room for *cap, for element number n, of `size` bytes. False: out of
 * memory, and all is as it was. */
static inline bool npa_grow(void *array, int n, int *cap, size_t size)
{
    void **at = array;
    int more = n < *cap ? *cap : *cap > 0 ? 2 * *cap : 64;
    void *grown = more > *cap ? realloc(*at, size * (size_t)more) : *at;
    if (grown != NULL) {
        *at = grown, *cap = more;
    }
    return n < *cap;
}

/* References to n objects. */
static inline PyObject *npa_tuple_of(PyObject *const *items, Py_ssize_t n)
{
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple != NULL && i < n; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(items[i]));
    }
    return tuple;
}

/* Item number i of a tuple that is made, of which nobody else knows; NULL, with an error set, for
 * its items: the tuple goes. As above. */
static inline bool npa_fill_in(PyObject **tuple, Py_ssize_t i, PyObject *item)
{
    if (item == NULL) {
        Py_CLEAR(*tuple);
    } else {
        PyTuple_SET_ITEM(*tuple, i, item);
    }
    return item != NULL;
}

/* A tuple of what a function gives for each item of another one: new references. */
static inline PyObject *npa_mapped(PyObject *items, PyObject *(*each)(PyObject *))
{
    PyObject *tuple = PyTuple_New(PyTuple_GET_SIZE(items));
    for (Py_ssize_t i = 0; tuple != NULL && i < PyTuple_GET_SIZE(items); i++) {
        npa_fill_in(&tuple, i, each(PyTuple_GET_ITEM(items, i)));
    }
    return tuple;
}

/* The arguments of a call in a tuple and a dict; with them Python's function is called. false: an
 * error. */
static inline bool npa_packed(PyObject *const *args, Py_ssize_t n, PyObject *names,
                              PyObject **tuple, PyObject **kwargs)
{
    *tuple = npa_tuple_of(args, n), *kwargs = PyDict_New();
    bool good = *tuple != NULL && *kwargs != NULL;
    for (Py_ssize_t i = 0; good && names != NULL && i < PyTuple_GET_SIZE(names); i++) {
        good = PyDict_SetItem(*kwargs, PyTuple_GET_ITEM(names, i), args[n + i]) == 0;
    }
    return good;
}

static inline bool npa_is_listed(PyObject *o)
{
    return PyList_CheckExact(o) || PyTuple_CheckExact(o);
}

static inline bool npa_is_text(PyObject *o, const char *text)
{
    return PyUnicode_CheckExact(o) && PyUnicode_CompareWithASCIIString(o, text) == 0;
}

/* A call's arguments in the order of these names; what is not given stays. False: another name, or
 * too many. */
static inline bool npa_read_call(PyObject *const *args, Py_ssize_t n, PyObject *names,
                                 const char *const *known, int most, PyObject **given)
{
    if (n > most) {
        return false;
    }
    for (Py_ssize_t k = 0; k < n; k++) {
        given[k] = args[k];
    }
    for (Py_ssize_t k = 0; names != NULL && k < PyTuple_GET_SIZE(names); k++) {
        int slot = (int)n; /* a name for what is in place is NumPy's error to tell */
        while (slot < most &&
               PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, k), known[slot]) != 0) {
            slot++;
        }
        if (slot == most) {
            return false;
        }
        given[slot] = args[n + k];
    }
    return true;
}

/* An array of that class over memory of `base`, which it keeps. */
static inline PyObject *npa_view_over(PyArrayObject *base, PyTypeObject *type, PyArray_Descr *descr,
                                      int ndim, const npy_intp *shape, const npy_intp *strides,
                                      char *data, int flags)
{
    Py_INCREF(descr);
    PyObject *view = PyArray_NewFromDescr(type, descr, ndim, shape, strides, data, flags, NULL);
    if (view != NULL &&
        PyArray_SetBaseObject((PyArrayObject *)view, Py_NewRef((PyObject *)base)) < 0) {
        Py_CLEAR(view);
    }
    return view;
}

/* A flag of NumPy's own, in no header: see broadcast_arrays. */
#define NPA_WARN_ON_WRITE ((int)(1u << 31))

/* ----------------------------------------------------------------------------------- settings.c */

extern PyTypeObject *npa_array_type; /* npaccel.Array */
extern PyObject *npa_hook_rule, *npa_hook_fold, *npa_hook_ufunc, *npa_hook_getitem,
    *npa_hook_setitem, *npa_hook_plan, *npa_hook_warn, *npa_hook_filters, *npa_hook_shown;
extern size_t npa_threshold;
extern bool npa_guard_on, npa_check_mode;
extern PyObject *npa_no_value; /* np._NoValue */
/* ndarray's slots as NumPy made them; plain ones may be redirected */
typedef struct {
    PyNumberMethods number;
    PyMappingMethods mapping;
    PySequenceMethods sequence;
    richcmpfunc compare;
} npa_slots;
extern npa_slots npa_numpy;
extern bool npa_numpy_chosen; /* the setting: NumPy's loops run everything */
extern bool npa_autotune_on;   /* the setting, or one of its values: see autotune.c */
extern bool npa_calls_tried; /* to serve system calls: before anything is guarded */
int npa_numpy_init(void);    /* NumPy's interface, before anything of it is used. 0 or -1 */

/* --------------------------------------------------------------------------------------- site.c */

typedef struct { PyObject *code, *globals; int32_t lasti; } npa_site;
/* The user's line; new references or NULL. Whether its frame is the innermost one */
bool npa_capture_site(npa_site *site);
/* That of a frame, which it takes; or NULL */
bool npa_site_of(PyFrameObject *frame, npa_site *site);
/* The innermost frame of a thread's program itself, which does not lie in files whose names begin
 * so; of a library's where there is none. Or NULL */
PyFrameObject *npa_program_frame(PyThreadState *thread, PyObject *libraries);
int32_t npa_call_at(const npa_site *site); /* where a call is, whatever it calls */
int npa_line_of(PyCodeObject *code, int32_t lasti); /* of the source */
void npa_internal_prefixes(PyObject *tuple);
int npa_site_init(void);

/* ---------------------------------------------------------------------------------- subscript.c */

/* 0: other; 1: basic, gives a view; 2: basic, names one element. */
int npa_key_kind(PyArrayObject *a, PyObject *key);

/* ---------------------------------------------------------------------------------- traceback.c */

PyObject *npa_without_us(PyObject *result);
PyObject *npa_without(PyObject *result, bool thin);

/* -------------------------------------------------------------------------------------- times.c */

enum {
    NPA_USER,
    NPA_RECORDING,
    NPA_PLANNING,
    NPA_RUNNING,
    NPA_IN_KERNELS,
    NPA_IN_LOOPS,
    NPA_IN_NUMPY,
    NPA_ACTIVITIES
}; /* NPA_RUNNING: what a run does besides kernels and loops */
double npa_seconds(void);
int npa_now(int activity);
uint64_t npa_switched_ns(void); /* when this thread's activity began */
enum { NPA_FOR_REPORT = 1, NPA_FOR_PROFILE = 2 };
void npa_count_times(unsigned whom, bool on);
PyObject *npa_times(PyObject *module, PyObject *on);
extern bool npa_profiling;
/* What base/ asks rooms above it, while npa_profiling; filled in by numpy/hooks.c. */
extern struct npa_base_hooks {
    void (*spent)(int activity, uint64_t ns);
    void (*now)(int activity);
    void (*settle)(void);
    void (*small)(void); /* a small call is over */
} npa_base_hooks;

/* ------------------------------------------------------------------------------------- choice.c */

/* Between two ways that give the same: which one takes less time. Zeros are one that nothing is
 * known of. */
enum npa_way { NPA_WAY_USUAL, NPA_WAY_OTHER };
typedef struct {
    uint32_t first;   /* rounds of the usual way before there is a trial */
    uint32_t turn;    /* rounds of one way before it is the other's turn */
    uint32_t kept;    /* rounds that a decision is for */
    uint32_t most[2]; /* by way; at most, where it is made again and again */
} npa_choice_rules;
typedef struct {
    uint64_t best[2]; /* ns of a round, in the latest trial; UINT64_MAX: not known */
    uint32_t left;    /* rounds until there is something to decide */
    uint32_t kept;    /* rounds that the latest decision is for; 0: there was none */
    uint32_t patience; /* rounds that a trial may wait for ones that can be compared */
    uint8_t way;      /* that decision */
    bool on_trial;
    bool is_long;     /* its rounds take a millisecond or more */
} npa_choice;
enum { NPA_MARGIN = 32 }; /* part by which the way that is not kept has to win */
/* Of the round to come */
enum npa_way npa_choice_way(npa_choice *c, const npa_choice_rules *rules);
/* A round went that way. True: npa_choice_decide is to be called; worth: the other way may win. */
bool npa_choice_took(npa_choice *c, const npa_choice_rules *rules, enum npa_way way, uint64_t ns,
                     bool compared);
void npa_choice_decide(npa_choice *c, const npa_choice_rules *rules, bool worth);
/* (seconds of a round the usual way, the other way, whether the other one is kept), or None: there
 * was no trial */
PyObject *npa_choice_told(const npa_choice *c);

/* ---------------------------------------------------------------------------------- fallbacks.c */

void npa_count_fallback(PyObject *name, PyObject *reason, double seconds); /* name: or a ufunc */
/* 0, or -1 for want of memory */
int npa_note_fallback(PyObject *name, const char *reason, double seconds);
PyObject *npa_held_up(PyObject *module, PyObject *args);
void npa_pass_because(const char *reason); /* what is being recorded is left to NumPy; a constant */
const char *npa_passing_reason(void);      /* why the last one was, once; NULL: for its operands */
PyObject *npa_take_fallbacks(PyObject *module, PyObject *nothing);
void npa_count_home(PyObject *device, PyObject *reason, uint64_t bytes);
PyObject *npa_take_counted_homes(void);
void npa_count_hindrance(PyObject *kind, uint64_t calls, double seconds, double size);
PyObject *npa_take_hindrances(PyObject *module, PyObject *nothing);

/* ----------------------------------------------------------------------------------- handlers.c */

/* Between these, on the main thread, no signal handler in Python runs, but Ctrl-C's own: around
 * Python code of ours that calls nothing of the program's. With the GIL. */
bool npa_hold_signals(void);
void npa_release_signals(bool held);

/* -------------------------------------------------------------------------------------- spawn.c */

PyObject *npa_spawn(PyObject *module, PyObject *args);
PyObject *npa_spawned(PyObject *module, PyObject *capsule);
PyObject *npa_kill_spawned(PyObject *module, PyObject *capsule);

/* --------------------------------------------------------------------------------------- code.c */

extern PyTypeObject npa_code_type;
PyObject *npa_cpu(PyObject *self, PyObject *nothing);

#endif
