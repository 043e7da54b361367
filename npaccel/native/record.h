/* record.h: buffers, rules, requests and the queue, for the files that know Python. */
#ifndef NPACCEL_RECORD_H
#define NPACCEL_RECORD_H

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

/* PICK: array[mask], which no plan sees, with the number of the mask's axes in `axes`; see masked.c. */
enum npa_kind { NPA_MAP, NPA_REDUCE, NPA_SCAN, NPA_ARG, NPA_IOTA, NPA_GATHER, NPA_PICK };
enum npa_own { NPA_UFUNC, NPA_COPY, NPA_WHERE, NPA_FILL_RANGE, NPA_ARGPICK, NPA_TAKE };

enum { NPA_MOST_PRIMITIVES = 16 };

/* How one combination of function and operand types runs. Immortal once made. */
typedef struct {
    PyObject_HEAD
    PyObject *name;
    uint32_t id;
    uint8_t kind, own, nin, nout;
    bool value_in_key; /* values of scalars are part of keys, of floats those that rewrites use */
    bool may_warn, floating, idempotent; /* floating: over floats or complex numbers */
    bool ordered; /* a sum or product whose last bits depend on the order, see fold.h */
    uint64_t recorded, looped, touched; /* requests; run by loops: as planned, without a plan */
    uint64_t points; /* of the requests that were recorded, together */
    PyUFuncGenericFunction loop;
    void *loop_data;
    int8_t identity;                        /* 0, 1, -1 (all ones); 100: none */
    int loop_type[NPA_MAX_ARGS];            /* NumPy type numbers, inputs then outputs */
    PyArray_Descr *loop_descr[NPA_MAX_ARGS];
    PyArray_Descr *result[NPA_MAX_ARGS];    /* dtypes of new outputs */
    void *argpick;
    bool inexact;    /* that has other bits than NumPy's loop */
    bool fast;       /* it has code of the second accuracy class, too */
    bool counts;     /* a sum of integers of 8 bytes; of bools: how many are true */
    int nprimitives; /* our own code for blocks, in the order in which it is to be tried */
    const struct npa_primitive *primitives[NPA_MOST_PRIMITIVES];
} npa_rule;

typedef struct npa_queue npa_queue;

/* Of a buffer that nothing recorded uses, but runs in flight do. */
enum { NPA_IN_FLIGHT = INT32_MAX };

/* A block of memory that requests name. Own ones live in a range; foreign ones keep `owner`, or
 * are copies of a small `source`. */
typedef struct npa_buffer {
    char *base;
    size_t size;
    npa_range *range;
    struct npa_spot *spot; /* of a section's array, which never gets content */
    PyObject *owner;
    npa_watch *watch; /* of a foreign block that can be protected */
    bool constant;    /* a bytes object's: nobody writes it */
    char *source;     /* of a copy: where the bytes came from; base is malloc's */
    npa_patience patience;
    char *replaced;   /* a mapping with the watched block's bytes as they were when first read */
    bool exported;    /* of a range: somebody may have a buffer on it */
    int32_t index;   /* in the queue that is recorded into; NPA_IN_FLIGHT; -1: nothing uses it */
    int32_t number;  /* in what is left of a queue, while that is put in order; -1: not there */
    int32_t flights; /* runs in flight that use it, see flights.c */
    npa_queue *maker; /* the one of them that writes it */
    bool fresh;      /* no content yet */
    bool truths;     /* what was recorded last to be written to it is a mask */
    bool unread;     /* written by a queued request, and read by none behind it */
    bool pending;    /* a queued request writes it */
    _Atomic bool dead;
    bool later;      /* used after the requests that the flush at hand runs, or by another queue */
    bool gone;       /* dead, and its range given back before the queue's end */
    char *inherited; /* then: where its content lies while the request runs whose output took it */
    uint64_t serial; /* flush that computed it */
    uint64_t peeked; /* how many flushes there had been when an element of it was read or written behind its address */
    int peeks;       /* how often since then */
    struct npa_copy *copy;    /* what of it lies on a device, see resident.c */
    struct npa_store *lost;   /* the device that failed with what it was to be computed from */
    bool unreachable;         /* its device did not give it back when last asked */
    struct npa_store *placed; /* where the user wants it to live; NULL: nowhere in particular */
    struct npa_buffer *next; /* dead ones; foreign ones in the queue */
} npa_buffer;

/* Where one operand lies. Stride slots: `slots` per operand, the request's. */
typedef struct {
    int32_t buffer; /* -1: a scalar, its bytes in `at` */
    int32_t type;   /* NumPy type number */
    int64_t offset; /* bytes from the buffer's base */
    int64_t at[];   /* strides in bytes, or a scalar's value (16 bytes) */
} npa_operand;

/* In a request's errstate, above its eight bits: NumPy's own loop computes it, for it is too small for
 * ours, whose last bits differ. See Note [Whose bits] in record.c. Or code of the second accuracy class does. */
enum { NPA_NUMPYS = 1 << 8, NPA_FAST = 1 << 9 };

typedef struct {
    npa_rule *rule;
    PyObject *code, *globals; /* the user's line; owned */
    int32_t lasti;
    uint32_t axes; /* bit per axis */
    uint16_t errstate;
    uint8_t ndim, nin, nout, mask, initial, slots;
    uint32_t size; /* bytes of the whole record */
    int32_t twin;  /* 1 + the request that computes the same under a mask, see masked.c; 0: none */
    int64_t shape[];
} npa_request;

/* A request as words, as key.c writes them; operands follow. Of a scalar `offset` says how many words of
 * its value follow: those that plans look at. */
typedef struct {
    uint32_t rule, axes; /* rule: its id */
    uint8_t ndim, nin, nout, mask;
    uint16_t errstate, initial;
    int64_t shape[];
} npa_words;

static inline npa_operand *npa_operand_at(npa_request *r, int k)
{
    char *first = (char *)(r->shape + r->ndim);
    return (npa_operand *)(first + (size_t)k * (sizeof(npa_operand) + 8 * r->slots));
}
static inline int npa_operand_count(const npa_request *r) { return r->nin + r->nout + r->mask; }

/* What memory did not suffice for, see shortage.c. */
typedef struct {
    npa_rule *rule; /* NULL: nothing is known but perhaps `bytes` */
    PyObject *code; /* borrowed */
    size_t bytes;
    int lasti, type, ndim, nover;
    npy_intp shape[NPA_MAX_DIMS], over[NPA_MAX_DIMS]; /* of the result; over which it runs */
} npa_shortage;

/* A loop that a queue ends with: where its first whole round begins, how many requests one has, how
 * many there are; 0: none. looks: what its first request is like from outside, and how many a round has. */
typedef struct { int start, period, rounds; uint64_t looks; } npa_loop;

/* What moved to devices and back: bytes, and nanoseconds. */
typedef struct { uint64_t bytes_up, bytes_down, up_ns, down_ns; } npa_moved;

/* The run of a queue that is at hand, or one that stopped, for want of memory or by an interrupt. It goes on
 * where it stopped and is not begun anew: what it did may have overwritten what it read, or given back
 * intermediate results. Until it is over nothing is recorded behind it. */
typedef struct {
    PyObject *program; /* owned; NULL: request by request */
    int requests;      /* of the queue, that it is for */
    int round;         /* of them, that the program is one of a loop's rounds of; 0: it is for all */
    int done;          /* of its steps, or requests */
    bool stopped;
    uint64_t ns; /* that it took, if it ran in one go */
    npa_moved moved; /* counts when it began */
    int failed;  /* the last request that memory did not suffice for */
    npa_shortage unseen; /* the first result that could not be shown */
} npa_run;

/* Requests and what they name: what is recorded, or what a run in flight took over (flights.c). */
struct npa_queue {
    npa_buffer **buffers;
    int nbuffers, buffers_cap;
    char *arena;
    size_t used, cap;
    size_t *at; /* offset of each request */
    int nrequests, requests_cap;
    size_t fresh_bytes;
    int small; /* how many of the last requests are on small arrays only */
    npa_buffer *foreign; /* blocks and copies, newest first */
    size_t copied_bytes;
    bool repeatable; /* the run may have to be repeated: it gives nothing back before its end */
    bool urgent; /* a request reads or writes memory that others may change: run to the end */
    bool unread; /* a result died that no request reads, see unseen.c */
    bool masked; /* it has picks, or requests with twins, see masked.c */
    uint64_t serial; /* of the flush to come */
    uint64_t backend; /* that was asked for when the last request was recorded */
    uint64_t generation; /* of its latest change; no two queues have the same */
    npa_run run;
    /* What is left of the loop that it ends with, while this is its generation. cut: its rounds run one by one
     * if there is code for them; fuses: or several as one; steady: as many as ever. Note [Boundaries] in boundary.c */
    struct { uint64_t generation; npa_loop loop; bool cut, fuses, steady; } known;
    struct { uint64_t looks; int requests; } gone; /* since results were looked at: a loop that was met, what a limit has run */
    int looked; /* requests before which no loop is looked for; 0: the least */
    struct { struct npa_mark *at; int n, cap; } marks; /* see warn.c */
    npa_queue *next; /* that of a younger run in flight */
};

typedef struct npa_program npa_program;

enum { NPA_OWNERS = 8 };
typedef struct {
    uint64_t launches[NPA_OWNERS]; /* of kernels, by whose code they are; 0: the host's own */
    uint64_t requests, flushes, native_requests, dead_requests, bytes_read,
        bytes_written, plan_hits, plan_misses, kernel_requests, chained_kernels, fault_evaluations, fault_programs,
        fault_misses, rests, passed, not_deferred, snapshots, early_reads, uploads, uploads_ahead,
        downloads, looks, evictions, flights;
    npa_moved moved;
} npa_counters;

/* What this thread works on: what is recorded, but while it runs what a run in flight took over. */
extern npa_queue npa_recorded, *npa_oldest_flying;
extern __thread npa_queue *npa_queue_here __attribute__((tls_model("initial-exec")));
#define npa_q (*npa_queue_here)
extern npa_counters npa_count;

/* What trace/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_trace_hooks {
    struct npa_spot *(*spot_new)(size_t size);   /* for memory that a section's array is in */
    void (*spot_gone)(struct npa_spot *spot);    /* it is given back */
    void (*spot_read)(struct npa_spot *spot);    /* it was read through a pointer; from any thread */
    int (*section_stop)(PyArrayObject *a, const char *what); /* npa_section_stop */
    void (*copy_drop)(npa_buffer *b);            /* nobody needs what a device has of it */
    void (*serve_calls)(void);                   /* system calls, before something is guarded */
    void (*redirect)(bool on);                   /* NumPy's callables, while blocks are open */
    void (*flush)(void);                         /* from where no exception may leave */
} npa_trace_hooks;
extern PyTypeObject *npa_array_type; /* npaccel.Array */
extern PyTypeObject npa_rule_type, npa_program_type;
PyObject *npa_make_rule(PyObject *self, PyObject *args, PyObject *kwargs);
extern PyObject *npa_hook_rule, *npa_hook_fold, *npa_hook_ufunc, *npa_hook_getitem, *npa_hook_setitem,
    *npa_hook_plan, *npa_hook_warn, *npa_hook_filters, *npa_hook_shown;
extern size_t npa_threshold;
extern int npa_queue_limit;
/* What run/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_run_hooks {
    bool (*settle_masks)(void);        /* npa_masked_settle */
    bool (*waits)(PyArrayObject *a);   /* npa_waits */
} npa_run_hooks;
extern size_t npa_memory_limit;
extern bool npa_guard_on, npa_check_mode;
int npa_numpy_init(void); /* 0 or -1 */
extern int npa_check_every;                 /* of so many runs one is compared */
bool npa_check_due(void);                   /* the next one is */
PyObject *npa_check_busy_py(PyObject *module, PyObject *on);

/* A flag of NumPy's own, in no header: see broadcast_arrays. */
#define NPA_WARN_ON_WRITE ((int)(1u << 31))

/* An operand as the slots see it. */
typedef struct {
    PyArrayObject *array; /* borrowed; NULL: a scalar */
    int type;             /* type number, or one of NPA_WEAK_* */
    PyObject *object;     /* the scalar */
} npa_value;

/* The one lock over queue and memory. Taken with the GIL held; released while waiting for it. */
void npa_lock(void);
void npa_unlock(void);
void npa_lock_native(void); /* from a thread without the GIL */
void npa_lock_wait(long at_most_ns); /* for what somebody else does with it, as npa_lock_tell says; 0: for ever */
void npa_lock_tell(void);
void npa_lock_forked(void);

/* buffer.c */
int npa_buffer_init(void);
int npa_watch_forks(void); /* 0 or an errno */
/* A new Array over a range without content. NULL, perhaps without error: no memory to defer into. */
PyObject *npa_new_array(PyArray_Descr *descr, int ndim, const npy_intp *shape,
                        const npy_intp *strides);
PyObject *npa_new_like(PyArrayObject *a, PyArray_Descr *descr);
PyObject *npa_exact_view(PyArrayObject *array);
npa_buffer *npa_buffer_of(PyArrayObject *array); /* of its range; NULL: foreign */
/* NumPy's default handler of memory, whatever is set at the moment; the one that is set in blocks, whose large
 * pieces are ranges; whether `handler` is one of these. */
extern PyDataMem_Handler *npa_numpy_handler;
PyObject *npa_made_handler(void);
bool npa_usual_handler(PyObject *handler);
bool npa_is_pending(PyArrayObject *array);
/* All of a result that nobody has looked at: to show it takes longer than to record an operation on it. */
bool npa_is_hidden(PyArrayObject *array);
bool npa_lacks_room(void); /* for results, just now; with the GIL, once per operation */
void npa_extent(PyArrayObject *array, char **low, char **high);
bool npa_apart(PyArrayObject *a, PyArrayObject *b); /* no byte is of both */
PyArrayObject *npa_root_of(PyArrayObject *array);
npa_buffer *npa_place(PyArrayObject *array, bool later, bool read, int64_t *offset);
void npa_release(npa_buffer *b);
void npa_buffer_done(npa_buffer *b); /* no request to come uses it */
void npa_collect_dead(void);

/* block.c: all with the GIL */
extern PyTypeObject npa_block_type;
extern size_t npa_least;            /* no block takes arrays of fewer bytes */
extern size_t npa_least_made;       /* and what NumPy makes of fewer lies in its memory */
extern __thread int npa_suspended;  /* above 0, this thread's calls are NumPy's */
extern __thread int npa_passed;     /* above 0, a trial has left this operation to NumPy, whose small ones are small.c's */
extern __thread int npa_whole;      /* above 0, it runs a function of many small steps, whose arrays are plain */
int npa_block_init(void);
enum { NPA_SMALL_MOST = 1 << 18 }; /* bytes up to which our own way to NumPy's loops wins, and memory is used again */
static inline size_t npa_passed_below(void) { return npa_passed ? NPA_SMALL_MOST : 0; }
/* Whether an array of so many bytes is worth recording in some block; what is not is small.c's. */
static inline bool npa_is_large(size_t bytes) { return bytes >= npa_least && bytes >= npa_passed_below(); }
bool npa_in_block(void);
size_t npa_threshold_here(void); /* SIZE_MAX without the guard */
int npa_guard_set(bool on); /* -1: error set */
PyObject *npa_py_memory(PyObject *module, PyObject *ours); /* for Python */
void npa_find_least(void);
PyObject *npa_block_backend(void);
uint64_t npa_backend_here(void); /* a number for that, 0 for none */
bool npa_is_numpys_backend(uint64_t backend); /* or that of the setting, where none is named */

PyObject *npa_prove(PyObject *module, PyObject *ufunc); /* prove.c */

/* loops.c: that for exactly these types, NumPy's or one that gives the same faster; false: there is none */
bool npa_find_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop, void **data);
/* Of a loop of NumPy's: one that is a primitive with the same bits where it can be, and at least so many elements are to
 * be computed. It may not tell of underflow. False: there is none. */
enum { NPA_LEAST_DENSE = 16 };
bool npa_find_dense_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop, void **data);

/* scan.c: a loop for accumulate by `op` that is faster than `numpys`, or that one */
PyUFuncGenericFunction npa_scan_loop(const char *op, int type, PyUFuncGenericFunction numpys);

/* spawn.c */
PyObject *npa_spawn(PyObject *module, PyObject *args);
PyObject *npa_spawned(PyObject *module, PyObject *capsule);

/* ahead.c */
PyObject *npa_prepare(PyObject *module, PyObject *args);
PyObject *npa_prepare_end(PyObject *module, PyObject *nothing);
PyObject *npa_new_sizes(PyObject *module, PyObject *nothing);

/* times.c */
enum { NPA_USER, NPA_RECORDING, NPA_PLANNING, NPA_RUNNING, NPA_IN_KERNELS, NPA_IN_LOOPS, NPA_IN_NUMPY,
       NPA_ACTIVITIES }; /* NPA_RUNNING: what a run does besides kernels and loops */
double npa_seconds(void);
int npa_now(int activity);
uint64_t npa_switched_ns(void); /* when this thread's activity began */
enum { NPA_FOR_REPORT = 1, NPA_FOR_PROFILE = 2 };
void npa_count_times(unsigned whom, bool on);
PyObject *npa_times(PyObject *module, PyObject *on);

/* profile.c */
extern bool npa_profiling;
/* What base/ asks rooms above it, while npa_profiling; filled in by numpy/hooks.c. */
extern struct npa_base_hooks {
    void (*spent)(int activity, uint64_t ns);
    void (*now)(int activity);
    void (*settle)(void);
} npa_base_hooks;
enum { NPA_RUN_KERNELS = NPA_ACTIVITIES, NPA_RUN_SINGLE, NPA_STEP_KERNEL, NPA_STEP_BLOCKS, NPA_STEP_LOOP };
void npa_profile_resolve(void); /* with the GIL, before references of requests go */
void npa_profile_spent(int activity, uint64_t ns);
void npa_profile_now(int activity);
void npa_profile_settle(void);
/* A run begins, or goes on; one of its steps is over; it is. With the lock, perhaps without the GIL. */
void npa_profile_run(npa_queue *q, npa_program *program, int requests, bool single, bool begins);
void npa_profile_step(int step, int count, int kind);
void npa_profile_ran(void);
bool npa_alone(void); /* no other thread runs Python, but for the one that looks at lines */
void npa_profile_touch(void); /* the evaluator begins to serve one, and has */
void npa_profile_touched(uint64_t ns); /* on the evaluator's thread */
PyObject *npa_profile_begin(PyObject *module, PyObject *nothing);
PyObject *npa_profile_end(PyObject *module, PyObject *nothing);

/* peek.c */
extern __thread int npa_stepping;

/* stops.c */
extern int npa_stops;
bool npa_stops_at(PyArrayObject *a); /* some of its memory is */
int npa_stops_tell(PyObject *name);
bool npa_bodies_run(void);
PyObject *npa_stops_py(PyObject *module, PyObject *arrays);
PyObject *npa_bodies_run_py(PyObject *module, PyObject *nothing);

/* until.c */
extern int64_t npa_until;
void npa_until_count(void);
bool npa_until_over(void);  /* the next operation is behind those that are recorded as ever */
bool npa_until_loops(void); /* what is in the queue is */
int npa_until_stop(void);
PyObject *npa_until_py(PyObject *module, PyObject *args);
PyObject *npa_until_counted_py(PyObject *module, PyObject *nothing);

PyObject *npa_place_py(PyObject *module, PyObject *array);
PyObject *npa_contents_py(PyObject *module, PyObject *which);
PyObject *npa_stepping_py(PyObject *module, PyObject *on);

/* fallbacks.c */
void npa_count_fallback(PyObject *name, PyObject *reason, double seconds); /* name: or a ufunc */
void npa_pass_because(const char *reason); /* what is being recorded is left to NumPy; a constant */
const char *npa_passing_reason(void);      /* why the last one was, once; NULL: for its operands */
PyObject *npa_take_fallbacks(PyObject *module, PyObject *nothing);
void npa_count_home(PyObject *device, PyObject *reason, uint64_t bytes);
PyObject *npa_take_counted_homes(void);
void npa_count_hindrance(PyObject *kind, uint64_t calls, double seconds, double size);
PyObject *npa_take_hindrances(PyObject *module, PyObject *nothing);

/* hinder.c. With the GIL but for npa_hinder_touched */
enum npa_hindrance {
    NPA_SMALL,     /* NumPy's, on arrays below the threshold */
    NPA_ELEMENT,   /* single elements, read or written */
    NPA_AT_ONCE,   /* large, and NumPy's at once, since it takes no longer */
    NPA_SLOWER,    /* the same, by a trial */
    NPA_RARE,      /* the same, since it was met too rarely */
    NPA_SUBCLASS,  /* large ones of a class of its own, as memmap's */
    NPA_WRITTEN,   /* a run at once, since it writes memory that is not ours */
    NPA_EXPORTED,  /* since it writes memory that others hold a buffer on */
    NPA_WATCHED,   /* since it reads memory that others may change unseen */
    NPA_STRICT,    /* since warnings are errors */
    NPA_READ,      /* a run, since a result was read */
    NPA_POINTER,   /* since it was read through a pointer */
    NPA_ASKED,     /* since it was asked for */
    NPA_FULL,      /* since a limit was reached */
    NPA_HINDRANCES
};
/* calls: that it stands for. clock: of a call on large arrays, what times.c had for the thread before. */
typedef struct { double since, between; uint32_t calls; int clock; bool timed; } npa_stretch;
extern int npa_until_look, npa_look_inside; /* inside: calls of Python's code, which calls others */
/* Whether the call that NumPy is about to do is looked at: then between begin and end. */
static inline bool npa_look_due(void)
{
    return npa_look_inside == 0 && __builtin_expect(--npa_until_look <= 0, false);
}
npa_stretch npa_stretch_begin(void);
void npa_stretch_end(const npa_stretch *s, enum npa_hindrance kind, size_t bytes);
void npa_look_next(enum npa_hindrance kind); /* the next call is looked at, and is that */
void npa_run_because(enum npa_hindrance kind); /* what this thread runs next; else it is read */
void npa_hinder_ran(int requests, double seconds);
void npa_hinder_touched(int requests, uint64_t ns); /* with the lock, perhaps without the GIL */
void npa_hinder_found(void); /* something is recorded: the runs of touches since were before its line */
int npa_hinder_init(void);

/* at_once.c */
bool npa_waits(PyArrayObject *a);
/* Whether NumPy may have a call on these, of at most so many bytes, at once. */
bool npa_at_once(PyObject *const *args, Py_ssize_t n, size_t most);
/* Whether fold(array, axis, ...), where `out` is at that place, takes less than recording it. first:
 * without an axis it is the first one. And whether NumPy may have it. */
bool npa_fold_is_brief(const char *fold, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       Py_ssize_t out_place, bool first);
bool npa_folds_at_once(const char *fold, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       Py_ssize_t out_place, bool first);
bool npa_fold_is_ours(const char *fold, PyArrayObject *a);
/* Of `most` bytes, up to which a function runs as one, those up to which one may that sums floats: sums that are ours by
 * their size would be NumPy's in it, where it is not in a block that takes them (npa_fold_in_whole). */
size_t npa_most_summed(size_t most, PyObject *names);
/* Whether a trial, or that it is new, leaves ufunc.reduce(a, ...), which would be recorded, to who does it at once. */
bool npa_fold_passes(PyObject *ufunc, PyArrayObject *a, uint32_t axes);

/* folds.c. 1: done, *result is new; 2: NumPy is to do it at once; 0: not for here; -1: error set. */
int npa_fold_call(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                  PyObject **result);
/* In a function that NumPy runs as one: a sum or product whose last bits would be ours, were it recorded. */
int npa_fold_in_whole(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject **result);
int npa_out_call(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                 PyObject **result);
int npa_folds_init(void);
extern PyObject *npa_no_value; /* np._NoValue */
enum { NPA_WHOLE_BYTES = 4 << 20 }; /* of methods that are many small steps */

/* redirect.c */
size_t npa_most_whole(PyObject *function, PyObject *names); /* bytes up to which it runs as one; 0: not known */
/* The call of a function that NumPy writes in Python, recorded without that code: a new reference. NULL, perhaps
 * without error: not for here. */
typedef PyObject *npa_recorder(PyObject *const *args, Py_ssize_t n, PyObject *names);
npa_recorder *npa_recorder_of(PyObject *function, PyObject *const *args, Py_ssize_t all); /* or NULL */
void npa_hooks_fill(void); /* before anything else */
int npa_redirect_init(PyObject *module);
void npa_redirect_install(void);
void npa_redirect_look(bool begin); /* a section is there, or is over, that looks at plain arrays' subscripts */
void npa_redirect_restore(void);
PyObject *npa_adopted(PyObject *result);

/* few.c: times the threshold of bytes below which NumPy picks, or assigns, at once; see Note
 * [Worthwhile] in dispatch/gather.py */
enum { NPA_FEW_READ = 4, NPA_FEW_ROWS = 16, NPA_FEW_WRITTEN = 1 }; /* rows: read, one behind the other */
size_t npa_view_bytes(PyArrayObject *a, PyObject *key);
bool npa_is_few(PyArrayObject *a, PyObject *key, int times);
bool npa_pick_passes(PyArrayObject *a, PyObject *key);
bool npa_takes_few(PyArrayObject *a, PyObject *const *args, Py_ssize_t n, PyObject *names);

/* pick.c: for a mask over contiguous arrays. 1 done; 0 NumPy must, or another way be found; -1 error */
int64_t npa_count_true(const char *mask, int64_t n);
int npa_pick(PyArrayObject *a, PyObject *mask, PyObject **result);
int npa_put(PyArrayObject *a, PyObject *mask, PyObject *values);
int npa_put_number(PyArrayObject *a, PyArrayObject *mask, const char *number); /* for all; of a's type */
/* `size` bytes of each of the n places of `from` that are in. With the lock. */
void npa_pick_into(char *to, const char *from, const char *mask, int64_t n, size_t size);

/* compress.c: elements that are in from there to *to, which moves on, or from *from to there, up to `end` or until few
 * places are left. How many places that was. */
/* Of n places those in [low, high), and which of them they are; where fast, without a branch. What is written has
 * room for NPA_KEPT_ROOM more. */
enum { NPA_KEPT_ROOM = 8 };
bool npa_keeps_fast(void);
int64_t npa_keep_between(const int64_t *places, int64_t n, int64_t low, int64_t high, int64_t *to, int64_t *which);
int64_t npa_compress(char **to, const char *end, const char *from, const char *mask, int64_t n, size_t size);
int64_t npa_expand(char *to, const char **from, const char *end, const char *mask, int64_t n, size_t size);

/* masked.c: the same, recorded; for a mask in C order that covers the first axes of an array in C order, and has
 * `count` elements in. 1 done; 0 it is to be done at once; -1 error. */
int npa_pick_later(PyArrayObject *a, PyArrayObject *mask, int64_t count, PyObject **result);
void npa_picked(PyArrayObject *result); /* that was done at once */
int npa_put_later(PyArrayObject *target, PyArrayObject *mask, PyArrayObject *values);
/* Before what is pending is planned or run, with the lock, perhaps without the GIL: it has neither picks nor twins
 * any more. False: out of memory, and nothing has changed. */
bool npa_masked_settle(void);

/* array.c: whether results have the same bits, whoever computes them; of operators it is told. */
typedef enum { NPA_INEXACT, NPA_EXACT_IF_REAL, NPA_EXACT, NPA_FOREIGN } npa_exactness; /* foreign: not NumPy's */
void npa_operator_is_exact(PyObject *ufunc, npa_exactness how);
bool npa_is_exact(npa_exactness how, const npa_value *values, int n);
/* array.c: ndarray's slots as NumPy made them; plain ones may be redirected */
typedef struct {
    PyNumberMethods number;
    PyMappingMethods mapping;
    PySequenceMethods sequence;
    richcmpfunc compare;
} npa_slots;
extern npa_slots npa_numpy;
void npa_restore_sequence(PyTypeObject *type);
/* Whether nothing is to be seen to before an element is read, or written, and its memory shows it. */
bool npa_is_shown(PyArrayObject *a, bool write);
int npa_key_kind(PyArrayObject *a, PyObject *key);
/* The key with integers in place of arrays of integers without dimensions, which is what NumPy takes them
 * for; a new reference. NULL, perhaps without error: it is not basic otherwise, or has none. */
PyObject *npa_basic_key(PyObject *key);
PyObject *npa_get_by_scalars(PyArrayObject *a, PyObject *key); /* a[key] for such a key; NULL likewise */
/* Elements that nobody has looked at, and that stay so: a[key], new, and a[key] = value, 1: done, -1: error. NULL or 0, perhaps
 * without error: it is not for here. */
PyObject *npa_hidden_element(PyArrayObject *a, PyObject *key);
int npa_put_hidden(PyArrayObject *a, PyObject *key, PyObject *value);
PyObject *npa_element_view(PyObject *a, PyObject *key); /* a[key + (...,)], without dimensions */
PyObject *npa_settled(PyObject *o); /* as ndarray's own slots take it: evaluated, exact; new */
bool npa_key_wants(PyObject *key);
int npa_assign(PyObject *a, PyObject *key, PyObject *value); /* assign.c */
PyObject *npa_ufunc_call(PyObject *ufunc, const npa_value *values, PyArrayObject **out,
                         int *status);

/* small.c: u(*args), where no array is large. NULL, perhaps without error: NumPy's to do */
PyObject *npa_small_call(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, npa_exactness how);
extern PyUFuncObject *npa_small_refused; /* the operator that NumPy's slot calls this for, after it was tried */
void npa_small_operator(PyUFuncObject *u, npa_exactness how); /* perhaps one that ndarray's slots stand for */
void npa_small_install(bool on); /* ndarray's slots; restores them */
/* small_views.c: a[key]. NULL, perhaps without error: NumPy's to do */
PyObject *npa_small_get(PyObject *a, PyObject *key);
/* Whether a basic key is understood: *view is a plain view of fewer bytes than `most`; NULL: of more, or an error. */
bool npa_puts_itself(PyArrayObject *a, PyObject *key, PyArrayObject *value); /* whether a[key] = value changes nothing, as after a[key] += ... */
bool npa_small_part(PyArrayObject *a, PyObject *key, size_t most, PyObject **view);
bool npa_small_put(PyObject *a, PyObject *key, PyObject *value); /* false: NumPy's to do */
PyObject *npa_small_element(PyObject *a, PyObject *key); /* of arrays of any size, where one is meant */
bool npa_small_put_element(PyObject *a, PyObject *key, PyObject *value);

/* small_functions.c: NumPy's functions where no array is large. Results are NULL, perhaps without error, where
 * NumPy must. */
typedef struct npa_small_function npa_small_function;
int npa_small_init(void);
const npa_small_function *npa_small_find(PyObject *name); /* of a function, or "ndarray.method"; or NULL */
PyObject *npa_small_function_call(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names);
PyObject *npa_small_reduce(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names);
void npa_small_ufunc(PyUFuncObject *u, npa_exactness how); /* perhaps one that these use */

/* foreign.c: with the lock, except npa_export and init */
int npa_foreign_init(void);
npa_buffer *npa_foreign_block(PyArrayObject *a, bool later, bool (*enqueue)(npa_buffer *));
/* A copy of what our own published memory holds now; NULL: it is not small enough. */
npa_buffer *npa_own_copy(npa_buffer *own, bool (*enqueue)(npa_buffer *));
/* From now on nobody changes unnoticed what `a`, in `b`, shows. False: read it before the call
 * returns. */
bool npa_hold(npa_buffer *b, PyArrayObject *a);
/* Before a run: what it writes is writable, what it reads is as it was. alone: no other thread. */
int npa_foreign_settle(bool alone);
/* After one: somebody wrote meanwhile into bytes that it read. Settle, and run it again. */
bool npa_foreign_disturbed(void);
bool npa_foreign_waits(PyArrayObject *a); /* whether a request in the queue names its memory */
void npa_open_all(void); /* all that is protected from writes, with the lock */
void npa_foreign_end(npa_buffer *b); /* after it; frees b, not its owner */
/* A buffer on `a` is about to be handed out. 0 or -1. */
int npa_export(PyArrayObject *a, int flags);
int npa_exports_init(void);
/* Somebody may write into `root`, which is not ours, from now on: its block, if that can be watched. */
npa_watch *npa_note_export(PyArrayObject *root, char *low, char *high);

/* rules.c */
int npa_rules_init(void);
extern PyObject *npa_copy_name;
/* `ufunc`: a ufunc, or the name of an operation of the core's own (str). NULL perhaps without
 * error: never recorded. */
npa_rule *npa_find_rule(PyObject *ufunc, const int *types, int n, PyArrayObject *out, bool in_place);
npa_rule *npa_find_fold_rule(PyObject *ufunc, int type, int asked);
int npa_number_rule(npa_rule *rule); /* gives it its id; 0 or -1 */
PyObject *npa_rules_known(PyObject *self, PyObject *nothing);
/* The errstate as 8 bits; -1: something else than ignore and warn; -2: an exception is set. */
int npa_errstate(void);
extern PyObject *npa_errstate_var; /* NumPy's context variable */
/* What a request keeps of it, with the setting `boundscheck`; -1: it must not wait; -2: an exception is set */
int npa_errstate_of(const npa_rule *rule);
extern bool npa_numpy_chosen; /* the setting: NumPy's loops run everything */
extern bool npa_checks; /* the setting: indices out of bounds, and integers divided by 0, are told */
extern __thread signed char npa_checks_here; /* the same in a section of this thread; -1: the setting */
bool npa_checks_now(void);
extern const char npa_raising[], npa_underflow_asked[];
bool npa_asks_underflow(void); /* floating-point operations are NumPy's, and their results plain */
int npa_checked_errstate(void); /* npa_errstate, and bits for whether checks are off, and accuracy is fast */
extern bool npa_fast; /* the setting: functions may be of the second accuracy class */
extern PyObject *npa_errstate_var; /* NumPy's context variable */
int npa_warnings_are_errors(void); /* -1: an exception is set */
bool npa_warnings_ignored(void); /* after it: none would be shown */
typedef struct { PyObject *code, *globals; int32_t lasti; } npa_site;
void npa_capture_site(npa_site *site); /* the user's line; new references or NULL */
void npa_site_of(PyFrameObject *frame, npa_site *site); /* that of a frame, which it takes; or NULL */
void npa_internal_prefixes(PyObject *tuple);
int npa_site_init(void);

/* shortage.c */
npa_shortage npa_shortage_of(npa_queue *q, int index, int n);
void npa_shortage_error(const npa_shortage *s); /* sets MemoryError */
void npa_shortage_tell(const npa_shortage *s); /* handlers of the error that is set */
int npa_shortage_shown(PyArrayObject *array); /* sets MemoryError; -1 */
bool npa_shortage_sure(double bytes);

/* traceback.c */
PyObject *npa_without_us(PyObject *result);
PyObject *npa_without(PyObject *result, bool thin);

/* record.c */
npa_request *npa_queue_room(npa_queue *q, size_t size); /* at its end, with the lock; NULL: no memory */
enum { NPA_WEAK_INT = 100, NPA_WEAK_FLOAT, NPA_WEAK_COMPLEX };
bool npa_classify(PyObject *object, npa_value *out);
/* Bytes (in the widest operand's items) of what operands broadcast to; an outer product of two small
 * vectors is large. */
size_t npa_broadcast_bytes(const npa_value *values, int n);
bool npa_wants(const npa_value *values, int n);
bool npa_type_known(int type);
bool npa_array_known(PyArrayObject *a);
/* Record; 1 done, 0 not recordable (NumPy should do it), -1 error set. New references in results.
 * axes: 0, or for a scan the bit of its axis. */
int npa_record_map(npa_rule *rule, npa_value *in, PyArrayObject **out, PyArrayObject *mask,
                   char order, uint32_t axes, PyObject **results);
int npa_record_copy(PyArrayObject *in, PyArrayObject *out, PyObject **result);
int npa_record_reduce(npa_rule *rule, PyArrayObject *in, uint32_t axes, bool keepdims,
                      PyArrayObject *out, PyArrayObject *mask, PyObject *initial, PyObject **result);
/* out[i] = base[i + index[i] * step]; base: of source, at index 0, broadcasts to out. Indices were
 * found to lie in [-extent, extent). */
int npa_record_gather(npa_rule *rule, PyArrayObject *source, PyArrayObject *base,
                      PyArrayObject *index, npy_intp extent, npy_intp step, PyArrayObject *out,
                      PyObject **result);
int npa_record_pick(npa_rule *rule, PyArrayObject *a, PyArrayObject *mask, PyArrayObject *out, PyObject **result);
int npa_record_iota(npa_rule *rule, npy_intp n, PyObject *start, PyObject *step, PyObject **result);
/* A scalar's value in the loop's dtype. 1, or 0: leave it to NumPy (range, error, warning). */
int npa_scalar_value(const npa_value *v, int to, void *out);

/* index.c */
typedef struct {
    int type, size, ndim; /* canonical; bytes of an element */
    npy_intp extent;
    npy_intp lengths[2 * NPA_MAX_DIMS]; /* shape, then strides */
} npa_indices;
bool npa_indices_of(PyArrayObject *index, npy_intp extent, npa_indices *of); /* false: not integers */
/* Where the indices lie: 0 in [0, extent), 1 some of them below but none below -extent, 2 elsewhere,
 * -1 not integers. Nothing may be pending on them. */
int npa_bounds_of(const npa_indices *of, const char *first);
int npa_index_bounds(PyArrayObject *index, npy_intp extent);

/* flush.c */
uint64_t npa_queue_commit(npa_request *r); /* its number */
static inline uint64_t npa_queue_generation(void) { return npa_q.generation; } /* the number of its latest change */
bool npa_over_limit(void);           /* what is pending should run */
int npa_flush(void);          /* all that is pending, and all runs in flight are over */
int npa_flush_recorded(void); /* what is recorded, and the runs that it needs something of */
int npa_flush_rounds(void); /* if a limit is reached; perhaps not the last ones, see boundary.c */
/* A new reference: what the plan hook, or that method of it, has for what is pending. */
PyObject *npa_plan(PyObject *pending, const char *how);
PyObject *npa_pending_now(PyObject *module, PyObject *nothing);
void npa_finish_first(int done); /* with the lock: these are over, though no run was for them */
void npa_drop_garbage(void); /* references that evaluations left */
void npa_drop_later(PyObject *o); /* a reference to drop there; with the lock, GIL not needed */
bool npa_is_garbage(void);
PyObject **npa_take_garbage(int *n); /* with the lock: all such references, to be dropped and freed */
/* Run what must run before `array`'s memory is read (write: written) by others. 0 or -1. */
int npa_touch(PyArrayObject *array, bool write);
void npa_serve_fault(npa_range *range);
void npa_serve_write(const void *address);
bool npa_run_stopped(void); /* for want of memory or by an interrupt: run to its end, then record */
void npa_queue_withdraw(uint64_t serial); /* what npa_queue_commit numbered so, as if never recorded */
void npa_flush_natively(void); /* from where no exception may leave */
int npa_launch_recorded(uint64_t *flight, uint64_t least_ns); /* what is recorded runs from now on; 0: it has run */
/* Without Python, with the lock: what this thread's queue holds, by known programs; `program`: the first of them, taken
 * over, or NULL. 0, or -1 out of memory, 1 poll said so; then it is stopped. */
int npa_run_known(PyObject *program, int (*poll)(void *));
bool npa_run_loops(void); /* the same by NumPy's loops; false: out of memory */
void npa_announce_garbage(void);
PyObject *npa_history_entry(uint64_t serial);
void npa_history_lend(void); /* its lines to programs that know none yet; with the GIL and the lock */
void npa_note_home(uint64_t serial, uint64_t ns); /* bringing home a result of that flush took so long */

/* flights.c: runs that go on while the program does. */
extern atomic_int npa_flights; /* how many there are */
static inline bool npa_waiting(void)
{
    return npa_recorded.nrequests > 0 || atomic_load_explicit(&npa_flights, memory_order_relaxed) > 0;
}
/* With the lock. Everything recorded becomes a run in flight, `program` its first one. 0: no memory, or no thread. */
uint64_t npa_flight_begin(PyObject *program);
npa_queue *npa_next_queue(npa_queue *q); /* all there are; of NULL the first one, which is recorded into */
bool npa_used_elsewhere(const npa_buffer *b); /* by another queue than this thread's */
void npa_buffer_leave(npa_buffer *b);         /* this thread's queue no longer uses it */
npa_buffer *npa_flights_block(const char *low, const char *high); /* foreign, that one uses; or NULL */
npa_queue *npa_flights_watch(const npa_watch *w, const npa_buffer *but); /* the first one that has it, and not so */
/* With the GIL, without the lock: 0; -1: an exception; 1: it is not over yet at that time, see npa_seconds. */
int npa_flight_join(uint64_t flight, double until);
int npa_flights_join(double until);       /* all there are */
int npa_flights_let_go(npa_buffer *b, bool write); /* those that make it; that use it, if `write` */
int npa_flights_let_go_of(PyArrayObject *a); /* the same, of memory that is not ours and is to be written */
int npa_join_makers(void);                /* what this thread's queue needs of them */
/* With the lock, which is given back meanwhile, perhaps without the GIL. False: out of memory. */
bool npa_await_makers(void);
bool npa_await_flights(const npa_buffer *b); /* those that use it; NULL: all */
bool npa_await_watch(const npa_watch *w);
uint64_t npa_flight_of(const npa_buffer *b); /* one that uses it; with the lock */
bool npa_flights_may(void);  /* they may be begun, here and now */
int npa_flights_room(void);  /* for one more: 0, or -1 with an exception */
void npa_flights_forked(void);
bool npa_flying(void);       /* this thread is one's own */
void npa_compute_begin(void); /* then others may have the lock until the end; nothing for other threads */
void npa_compute_end(void);
void npa_own_blocks(char *memory); /* evaluate.c: of this thread; NULL: the common ones */
size_t npa_own_blocks_bytes(void);
PyObject *npa_launch_py(PyObject *module, PyObject *args);
PyObject *npa_sleep_py(PyObject *module, PyObject *args);
PyObject *npa_resume_py(PyObject *module, PyObject *flights);
PyObject *npa_wake_py(PyObject *module, PyObject *nothing);
PyObject *npa_landed_py(PyObject *module, PyObject *array);
PyObject *npa_issue_py(PyObject *module, PyObject *nothing);
PyObject *npa_flights_end_py(PyObject *module, PyObject *cancel);

/* scatter.c: target[key] = value, by integers: 1 done, 0 NumPy should do it, -1 error. */
int npa_scatter(PyArrayObject *target, PyObject *key, PyObject *value);

/* opened.c: arrays that are read and written at once, by all threads. What lies hidden stays so. */
enum { NPA_MOST_OPENED = 6 };
typedef struct {
    char *at[NPA_MOST_OPENED]; /* their first elements */
    bool locked;
} npa_opened;
int npa_open(npa_opened *o, PyArrayObject *const *arrays, int n, unsigned written); /* bits; 0, or -1: error set */
void npa_close(const npa_opened *o); /* nothing that needs the GIL may happen before */
/* A new array for such a result, and where it is to be written: in our memory where it is large, so that
 * operations on it in place may wait. NULL: error set. */
PyObject *npa_new_result(int type, int ndim, npy_intp *dims, char **place);

/* check.c: for check mode. Of each buffer its bytes; with the lock. after: a run, of what it wrote,
 * where somebody sees it. */
typedef struct {
    int n;
    struct { char *bytes; size_t size; } *of;
} npa_contents;
void npa_contents_copy(npa_contents *c, bool after);
void npa_contents_drop(npa_contents *c);
/* Between begin and end of a run that is `wanted`: what a request made that NumPy's loop has run. */
void npa_log_begin(bool wanted);
void npa_log_request(npa_queue *q, int request);
void npa_log_end(void);
/* Without the lock: 0 or -1. Of the buffers as they were before the run, and after it. */
int npa_check_run(PyObject *pending, const npa_contents *before, const npa_contents *after);

/* key.c: with the lock, GIL not needed */
typedef struct { const char *bytes; size_t size; uint64_t hash; } npa_key;
uint64_t npa_hash(const char *bytes, size_t size);
/* Of the first requests of the queue; valid while the lock is held. False: out of memory. */
bool npa_make_key(int requests, uint64_t backend, npa_key *key);
bool npa_new_key(int requests, uint64_t backend, npa_key *key); /* not that of a matched recording */
/* Buffers are numbered by first use: how many the first requests have. */
int npa_buffers_of(const npa_queue *q, int requests);
size_t npa_words_size(npa_request *r); /* in bytes */
char *npa_words_put(npa_request *r, char *p); /* writes them; the end */
enum { NPA_KEY_END = 16 }; /* bytes of a key behind requests and buffers */
/* A key, as bytes, of a section's queue. states: of its buffers, as npa_key_state has them. */
PyObject *npa_words_with(const npa_queue *q, const uint64_t *states, int nbuffers);
void npa_key_value(int type, const void *value, char *to); /* of a scalar, 16 bytes */
/* A buffer's size and flags; after npa_mark_later. */
enum { NPA_OWNED = 1, NPA_FRESH = 2, NPA_DEAD = 4, NPA_STATE_FLAGS = 15, NPA_STATE_BITS = 4 };
uint64_t npa_key_state(const npa_buffer *b);

/* match.c: a block's requests, matched against those of earlier times. With the lock but for map,
 * settle, begin and end */
int npa_match_init(PyObject *module);

/* philox.c */
int npa_philox_init(PyObject *module);
PyObject *npa_match_begin(PyObject *recordings); /* borrowed; NULL: error set */
void npa_match_end(void);
int npa_match_map(npa_rule *rule, const npa_value *in, PyArrayObject *out, PyObject **results);
extern __thread struct npa_recordings *npa_matched_block; /* that this thread is in; owned; or NULL */
static inline bool npa_match_inside(void) { return npa_matched_block != NULL; }
uint64_t npa_match_commit(npa_request *r, PyObject *made); /* npa_queue_commit; made: its one result */
void npa_match_settle(void); /* after a run */

/* plans.c */
int npa_plans_init(void);
PyObject *npa_plans(void); /* the table as Python sees it */
/* The program of the pending requests, which have this key; borrowed. With the lock. */
npa_program *npa_plans_find(const npa_key *key);

/* touched.c. find and ran: with the lock, on the evaluator's thread, or that of a run in flight */
npa_program *npa_touched_find(int requests); /* of the first ones; a reference. NULL: none is known */
void npa_touched_ran(uint64_t ns);
bool npa_touched_waits(void); /* something is to be planned */
int npa_touched_plan(void);   /* with the GIL, without the lock. 0, or -1 with an exception */
void npa_touched_forget(void); /* all that was touched so far */

/* unseen.c: what nobody sees. */
enum { NPA_FOR_NOTHING, NPA_FOR_WARNINGS, NPA_FOR_VALUES };
bool npa_find_unseen(const npa_queue *q, int requests, uint8_t *why);
/* Requests that run only for warnings that would not be shown have no errstate any more. With the GIL, without
 * the lock. 0, or -1 with an exception. */
int npa_hush_unseen(void);

/* warn.c: floating-point warnings. kinds: raised, per request of the queue, which is over next. */
void npa_note_warnings(const uint8_t *kinds);
int npa_heard(const npa_request *r, int kinds); /* which of these its errstate warns of */
PyObject *npa_scope_of(int request); /* with the lock; NULL: the filters in force */
void npa_end_scopes(int done); /* the first requests are over */
void npa_trim_scopes(void); /* it ends earlier */
bool npa_warnings_found(void);
int npa_issue_warnings(void); /* 0, or -1 with an exception */
/* Whether something pending, or found and not issued, may be heard; or what has no scope yet. */
bool npa_may_warn(bool without_scope);
int npa_give_scope(PyObject *scope); /* to all that has none */
/* at.c: u.at(*args), of three, where that is the common case. False: NumPy's to do, nothing was written. */
/* scatter.c: ufunc.at of elements; as npa_scatter. */
int npa_at_elements(PyUFuncObject *u, PyObject *const *args);
bool npa_at_rows(PyUFuncObject *u, npa_exactness how, PyObject *const *args);
/* u.reduceat(*args), stretches on all threads. NULL, perhaps with an error: NumPy's to do. */
PyObject *npa_reduceat(PyUFuncObject *u, npa_exactness how, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* products.c: matrices whose extents are no more than that. extents: rows, terms, columns; else as a ufunc's loop. */
enum { NPA_SMALL_MATRIX = 6 };
bool npa_small_product(int type, const npy_intp *extents);
void npa_multiply_small(int type, char *const *args, npy_intp n, const npy_intp *extents, const npy_intp *steps,
                        const npy_intp *core);
/* rows.c: a generalised ufunc on many rows. NULL, perhaps with an error: NumPy's to do. */
PyObject *npa_rows(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *npa_rows_forget(PyObject *module, PyObject *nothing); /* how long they took; for tests */
/* search.c, draws.c, sort.c, parts.c, bins.c, pick.c, correlate.c, scatter.c: what NumPy's function or method gives. NULL,
 * perhaps with an error: its own to do. */
typedef PyObject *npa_own(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
npa_own npa_put_flat;
npa_own npa_interp, npa_search, npa_draws, npa_shuffle, npa_random_bytes, npa_sort, npa_bincount, npa_nonzero,
    npa_where, npa_correlate, npa_correlate2;
npa_own npa_sort_parts, npa_argsort_parts, npa_partition_parts, npa_argpartition_parts; /* what: NumPy's function */
/* Numbers that wait for nothing as an array of that type in C order, if NumPy casts them to it by itself: an array's,
 * or a list's. NULL, without an error: they are others. */
PyArrayObject *npa_line_as(PyObject *o, int type);
/* A sorted table of doubles in buckets of equal width, so that a search begins next to where it ends: whatever
 * rounding does, of two numbers the greater one is in no bucket before the other's. */
typedef struct {
    double *places; /* the table, and two infinities; NULL: there are no buckets */
    int32_t *first; /* of each bucket: how many are in those before it */
    npy_intp length;
    double low, high, scale;
} npa_buckets;
/* Of a table of any numbers; free(places) ends it. False: there are none. n: numbers that are looked for. */
bool npa_make_buckets(npa_buckets *t, int type, const void *table, npy_intp length, npy_intp n);
/* How many of the table are less than each, or not greater. NaN: all. */
void npa_find_in_buckets(const npa_buckets *t, const double *x, npy_intp n, bool right, npy_intp *at);
void *npa_draws_method(const char *name); /* `what` npa_draws is given for "Generator.normal", say; NULL: nothing */
/* boxes.c */
npa_recorder npa_record_roll, npa_record_pad, npa_record_repeat, npa_record_tile, npa_record_concatenate;
size_t npa_repeated_bytes(PyObject *const *args, Py_ssize_t n); /* of what `repeat`, `tile` give; 0: not known */
/* bins.c: not recorded, but done. */
npa_recorder npa_histogram;
/* boundary.c */
npa_loop npa_loop_find(void);
bool npa_loop_fuses(npa_loop loop); /* its rounds would make one kernel */
void npa_mark_later(int first);
void npa_keep_rest(int done);
void npa_rest_kept(int n);

/* interrupt.c. begin: with the GIL; true: end must follow, and npa_interrupted says whether SIGINT
 * came since. */
bool npa_interrupts_begin(void);
void npa_interrupts_end(void);
int npa_interrupted(void *unused);

/* turn.c. A run, with its planning, lies between begin and end; one that stopped may go on in another. */
void npa_turn_begin(void);
void npa_turn_end(void);
void npa_turn_expect(uint64_t ns); /* it takes so long from now on; 0: nobody knows */
void npa_turn_recorded(void);      /* a request, by this thread */
void npa_turn_forked(void);
/* Whether NumPy is to do an operation that reads these (NULL: a scalar) and makes new arrays, since it
 * is another thread's turn. With the GIL. */
bool npa_turn_passes(PyArrayObject *const *inputs, int n);
bool npa_turn_crowded(void);   /* in a block: several threads record by turns, so that all is to be NumPy's */
void npa_turn_uncrowded(void); /* from now on they do not */

/* trial.c: with the GIL, but for ran */
extern bool npa_trials_on;
/* Whether NumPy is to do `what` on operands of at most so many bytes. It would be recorded, and its
 * result has the same bits either way. may: it could be done so. */
bool npa_trial_passes(const void *what, size_t bytes, bool may);
bool npa_trial_passes_call(const void *what, size_t bytes, bool may); /* the same of NumPy's functions and methods */
void npa_trial_recorded(bool first);
/* With the lock, after a run; loops_ns: what NumPy's loops take for it, 0: not known. */
void npa_trial_ran(uint64_t requests, uint64_t ns, bool single, uint64_t loops_ns);
uint64_t npa_trial_weight(void);
PyObject *npa_trials(PyObject *module, PyObject *args);
PyObject *npa_looked_up(PyObject *module, PyObject *found);

int npa_intercept_init(void); /* intercept.c */
PyObject *npa_settle_calls(PyObject *module, PyObject *type);
extern bool npa_calls_tried; /* to serve system calls: before anything is guarded */
void npa_serve_calls(void);
void npa_leave_calls(void);
PyObject *npa_system_calls(PyObject *self, PyObject *nothing);

/* evaluate.c: without the GIL, with the lock */
int npa_evaluate_request(npa_queue *q, int index); /* returns FP kinds raised, -1: out of memory */
char *npa_buffer_address(npa_buffer *b); /* for the host to read and write: no copy is elsewhere */
char *npa_buffer_pages(npa_buffer *b);   /* the same place, whatever is there */
void npa_identity_bytes(const npa_rule *rule, char *out); /* of a reduction: 16 bytes */
int npa_canonical(int type);
int npa_raised(void);
void npa_cast(int from_type, const char *from, int64_t from_step, int to_type, char *to,
              int64_t to_step, int64_t n); /* cast.c; steps in bytes */
int npa_cast_value(int from, const void *value, int to, void *out); /* 0, or FP kinds */

/* moves.c; steps in bytes */
extern int npa_item_sizes[NPY_NTYPES_LEGACY]; /* bytes, by type number */
int npa_evaluate_init(void);
void npa_move(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int size);
void npa_pack(char *to, const char *from, int64_t stride, int64_t n, int size); /* to contiguous */
/* Rows of n elements each. */
void npa_pack_rows(char *to, const char *from, int64_t rows, int64_t row_step, int64_t n,
                   int64_t step, int size);
void npa_unpack(char *to, int64_t stride, const char *from, int64_t n, int size); /* from it */
/* p: mask, one, other, out. */
void npa_select_line(char **p, int64_t n, const npy_intp *steps, int size);
void npa_own_loop(const npa_rule *rule, char **p, int64_t n, const npy_intp *steps); /* COPY, WHERE */
void npa_fill_range(int type, const char *start, const char *step, int64_t first, char *to,
                    int64_t to_stride, int64_t n);
void npa_take_line(int size, char **p, const npy_intp *steps, int64_t n);

/* primitive.c */
PyObject *npa_primitives_py(PyObject *self, PyObject *args);
int npa_rule_primitives(npa_rule *rule);
/* That for inputs of which these are still; last: the value of the last one if it is a scalar. */
const struct npa_primitive *npa_find_primitive(const npa_rule *rule, bool fast, unsigned still, const char *last);

/* ledger.c */
typedef struct {
    npa_rule *rule;
    PyObject *code; /* owned; of the user's line */
    int32_t lasti;
} npa_asked; /* an operation that ran */
/* What a program ran since counts were reset. */
typedef struct npa_ledger {
    struct npa_ledger *next, **at; /* at: what points to it; NULL: it is on no list */
    PyObject *program;
    uint64_t epoch, runs, ns; /* runs and ns hold if epoch is today's */
    npa_asked *asked; /* by one of its runs; NULL: not known yet */
    int n;
    bool elsewhere; /* other lines ran it, too */
} npa_ledger;
void npa_ledger_begin(npa_ledger *l, PyObject *program); /* with the GIL, as is the end */
void npa_ledger_end(npa_ledger *l);
void npa_ledger_count(npa_ledger *l, uint64_t ns); /* with the lock. NULL: of a run without a program */
bool npa_ledger_keep(npa_ledger *l, npa_asked *asked, int n); /* with the lock. Whether these are its own now */
void npa_ledger_reset(void);
PyObject *npa_ledger_told(PyObject *module, PyObject *nothing);
PyObject *npa_asked_told(const npa_asked *asked, int n);

/* program.c */
int npa_program_ready(void);
npa_ledger *npa_program_ledger(npa_program *program); /* of NULL: NULL */
void npa_program_note_use(PyObject *program); /* for whoever drops the oldest ones */
/* A reference without the GIL, to a program that somebody keeps alive: with the lock. Before he drops
 * it, or it is dropped, whoever has both makes it a real one. */
npa_program *npa_program_lend(npa_program *program);
void npa_program_settle(PyObject *object); /* of any type */
/* Whether it (or NULL) runs request by request, which flush.c does. */
int npa_program_steps(const npa_program *p);
bool npa_program_single(const npa_program *program);
int npa_program_request(const npa_program *program, int number);
/* It has run, so briefly that Ctrl-C may wait for its end. */
bool npa_program_brief(const npa_program *program);
uint64_t npa_program_expected(const npa_program *program); /* ns that a run takes; 0: not known */
uint64_t npa_program_rival(const npa_program *program); /* ns of NumPy's loops; 0: not known */
bool npa_program_compares(const npa_program *program);  /* they are to run once, to show it */
void npa_program_note_rival(npa_program *program, uint64_t ns);
bool npa_program_moves(const npa_program *program); /* some step uses a device's own memory */
bool npa_program_foreign(const npa_program *program); /* other packages' code may want the GIL */
/* Of a whole run, and of all that were not noted yet. */
void npa_program_note_time(npa_program *program, uint64_t ns, uint64_t total_ns);
void npa_program_note_home(npa_program *program, uint64_t ns); /* its results came home */
bool npa_program_due(const npa_program *program); /* Python is asked whether another one is faster */
/* It runs NumPy's loops, and Python is not asked about it before it has taken so many seconds more. */
bool npa_program_waits(const npa_program *program); /* nobody has planned it: it runs block by block */
/* From step *done on. 0 done; -1 out of memory, 1 interrupted: *done steps are done, and to go on
 * with the next is safe. Fills kinds[request]. Needs no GIL. */
int npa_program_run(npa_program *program, npa_queue *q, uint8_t *kinds, int (*poll)(void *),
                    void *arg, bool *interrupted, int *done);

/* section.c: a macro section while its body runs */
typedef struct npa_spot npa_spot;
typedef struct {
    PyObject_HEAD
    PyObject *value; /* a float or an int */
    int slot;
} npa_runtime; /* a Python number that a section takes anew at each call */
extern PyTypeObject npa_section_type, npa_runtime_type;
extern __thread struct npa_section *npa_here; /* the section that this thread records, or NULL */
extern atomic_int npa_placeholders; /* how many blocks of memory there are that no section ever fills */
int npa_section_init(PyObject *module);
/* What macro/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_macro_hooks {
    void (*look)(bool begin); /* npa_redirect_look */
} npa_macro_hooks;
/* `a` is a section's array, which has no values: an exception that says so, -1. Else 0.
 * what: how it is read ("bool"); NULL: NumPy is to compute with it. */
int npa_section_stop(PyArrayObject *a, const char *what);
/* While one looks at subscripts of plain arrays: -1 where its values would be read, or written elsewhere. */
int npa_section_sees_read(PyObject *a, PyObject *key);
int npa_section_sees_write(PyObject *a, PyObject *value);
bool npa_section_wants(const npa_value *values, int n);
bool npa_section_block_wants(const npa_value *values, int n); /* in a block: ours, of any size */
npa_spot *npa_spot_new(size_t size);
void npa_spot_gone(npa_spot *spot);     /* its memory is */
void npa_spot_read_raw(npa_spot *spot); /* by a fault; from any thread */
/* Which of the section's blocks `a` lies in, and how far. False: exception set. */
bool npa_section_place(PyArrayObject *a, bool write, int32_t *block, int64_t *offset);
/* A section's array without dimensions that is a scalar in NumPy: nothing may change it. */
bool npa_section_is_scalar(PyArrayObject *a);
void npa_section_set_scalar(PyArrayObject *a);
npa_queue *npa_section_queue(void);
bool npa_section_bind(int request, int operand, int slot);

/* calls.c: from now on this thread's hook(frame, function or None) hears of Python code that is entered
 * and of C functions that it calls; an exception of its is raised there. 0 or -1 */
bool npa_internal_code(void); /* whether what runs is Python of NumPy's or ours */
int npa_calls_listen(PyObject *hook);
void npa_calls_end(void);

/* pending.c: the first requests of a queue, and what is known of them at one moment. */
struct npa_line {
    npa_rule *rule;
    PyObject *code;
    int32_t lasti;
    uint32_t scalars; /* that come before this request's */
    size_t words;     /* bytes of the key before it */
};
typedef struct {
    const char *words; /* the key's */
    size_t end;        /* bytes of it that are requests */
    struct npa_line *lines; /* one block of memory with scalars, of 16 bytes each */
    char *scalars;
    size_t nscalars;
    int nrequests, nbuffers, nresident;
    bool sites; /* their code is owned */
    uint64_t serial;  /* of the flush to come */
    struct npa_store *place; /* that the user gave to their data */
    struct npa_resident *resident;
} npa_snapshot;
extern PyTypeObject npa_pending_type; /* a snapshot and its key, for Python */
/* With the lock; sites: with the GIL. False: no memory. */
bool npa_snapshot_take(npa_snapshot *s, const npa_queue *q, int requests, int nbuffers, bool sites);
void npa_snapshot_drop(npa_snapshot *s);
PyObject *npa_pending_new(PyObject *key, npa_snapshot *s); /* takes it over; key NULL: error set */
PyObject *npa_pending_take(int requests, const npa_key *key); /* of npa_q; with lock and GIL */
void npa_pending_forget(PyObject *pending, int request, int input); /* a float that will be another */

/* A request of it, which a key has as words, and its operands. */
static inline const npa_words *npa_snapshot_request(const npa_snapshot *s, int i)
{
    return (const npa_words *)(s->words + s->lines[i].words);
}
static inline uint64_t npa_snapshot_state(const npa_snapshot *s, int buffer)
{
    return ((const uint64_t *)(s->words + s->end))[buffer];
}
static inline int npa_words_count(const npa_words *r) { return r->nin + r->nout + r->mask; }
static inline const npa_operand *npa_words_first(const npa_words *r)
{
    return (const npa_operand *)(r->shape + r->ndim);
}
static inline const npa_operand *npa_words_next(const npa_words *r, const npa_operand *o)
{
    return (const npa_operand *)(o->at + (o->buffer >= 0 ? r->ndim : o->offset));
}

/* structure.c */
PyObject *npa_structure(const npa_snapshot *s, PyObject *limits);
PyObject *npa_numbers(const npa_snapshot *s, PyObject *places);

/* macro.c */
int npa_macro_init(PyObject *module);
/* device.c: kernels that an OpenCL driver runs. */
enum { NPA_DEVICE_FUNCTIONS = 5, NPA_DEVICE_WORDS = 7 }; /* words beyond those of other backends */
typedef struct npa_store npa_store;
typedef struct {
    void *functions[NPA_DEVICE_FUNCTIONS]; /* clSetKernelArgSVMPointer, clEnqueueNDRangeKernel,
                                              clWaitForEvents, clGetEventInfo, clReleaseEvent */
    void *queue, *run, *finish;            /* finish NULL: without one */
    npa_store *store;                      /* of its device */
    bool host_memory;                      /* it is given the host's addresses, and nothing is moved */
    int rank, narrays, nwords;
    int64_t groups;    /* work groups at most */
    size_t group_size; /* work items of each */
    int32_t error;
    bool failed;
} npa_device;
typedef struct {
    int64_t band, band_step, inner, inner_step;
    size_t scratch_bytes;
    int64_t band_low, inner_low; /* where they begin; 0 but in parts */
} npa_device_grid;
extern PyTypeObject npa_device_type;
int npa_device_ready(void);
npa_device *npa_device_of(PyObject *object); /* borrowed; NULL with an exception */
/* The whole step; 0, or the error's number. begun: it may have written. Needs no GIL. */
int32_t npa_device_run(npa_device *d, const int64_t *words, const npa_device_grid *grid,
                       char *partials, uint32_t *flags, bool *begun);
bool npa_device_trouble(void); /* a launch failed, and Python does not know yet */
PyObject *npa_device_errors(void);
void npa_device_inject(int launches, int reads, int midway, int after, size_t room);
size_t npa_device_groups(const npa_device *d, const npa_device_grid *grid);
/* What only this backend's kernels know goes behind `words`. Work groups of the finish function. */
size_t npa_device_words(const npa_device *d, int64_t *own, const int64_t *words,
                        const npa_device_grid *grid, bool finish);
int32_t npa_device_injected(void); /* an error, when a test wants one; or 0 */
int32_t npa_device_injected_read(void);
int32_t npa_device_injected_midway(void);
bool npa_device_injected_room(size_t bytes); /* whether the driver has no room for so many in all */
void npa_device_note_failure(npa_device *d, int32_t error);

/* resident.c: what of buffers lies in a device's own memory; with the lock, GIL not needed */
typedef struct {
    int32_t buffer; /* of the queue */
    bool read, written;
    bool looped; /* false: only what follows the loops of a split reduction uses it */
    int64_t low, high; /* bytes of it that are read or written; high < 0: to its end */
} npa_access;

/* A step as its device gets it. words: as for npa_device_run, with offsets for addresses. ahead: what the
 * next step uses, which may move meanwhile. partials: on the host. in_parts: these are left to the host. */
typedef struct {
    npa_queue *q;
    const npa_access *accesses; /* one per array */
    const int64_t *words;
    npa_device_grid grid;
    size_t partial_bytes;
    char *partials;
    bool in_parts;
    uint32_t *flags;
    int nslots;
    const npa_access *ahead;
    int nahead;
} npa_launch;

/* HOST_MUST: nothing was done. PARTLY: it is done, the host helped. LOST: a launch failed when it had
 * written over what it reads; its results are lost. */
enum npa_ran { NPA_HOST_MUST, NPA_THERE, NPA_IN_PARTS, NPA_PARTLY, NPA_LOST };
extern PyTypeObject npa_store_type;
extern npa_store *npa_stores; /* all there are */
/* What place/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_place_hooks {
    void (*came_home)(uint64_t serial, uint64_t ns);  /* npa_note_home */
    int (*touch)(PyArrayObject *array, bool write);   /* npa_touch */
} npa_place_hooks;

/* Whether a device holds data of any array; a hint, without the lock. */
bool npa_copies_exist(void);
/* The step on its device, whose memory is not the host's. */
enum npa_ran npa_store_run(npa_device *d, const npa_launch *l);
/* Why: what a step of the host's uses; to make room; who read through a pointer; a fork or a setting. Who
 * called is counted by line (CALL). */
enum npa_home { NPA_HOME_STEP, NPA_HOME_ROOM, NPA_HOME_POINTER, NPA_HOME_ALL, NPA_HOME_CALL, NPA_HOMES };
enum npa_home npa_home_because(enum npa_home why); /* until set again; what it was */
bool npa_copy_home(npa_buffer *b);  /* all of it is on the host, and there alone; or the device is lost */
void npa_copy_drop(npa_buffer *b);  /* nobody needs what is there */
bool npa_copy_stays(npa_buffer *b); /* it may stay hidden after a run */
void npa_copies_home(void);
bool npa_copy_lost(void);           /* that could not be done for want of the device; told once */
bool npa_copy_is_lost(void);        /* the same, still to be told */
npa_store *npa_copy_store(const npa_buffer *b); /* where it has a copy, or NULL */
/* What is computed from data that lives somewhere lives there. */
void npa_spread_place(npa_queue *q, const npa_access *accesses, int n);
npa_store *npa_store_of(const npa_queue *q, int requests); /* where these are to run, or NULL */
npa_store *npa_store_of_array(PyArrayObject *array);       /* where it lives, or NULL */
PyObject *npa_place_of(PyObject *self, PyObject *arrays);
uint64_t npa_place_number(const npa_store *s);             /* 0 for NULL: part of keys */
bool npa_store_here(const npa_store *s); /* not in a forked process, which lacks the driver's threads */
PyObject *npa_store_name(const npa_store *s); /* a new reference; None for NULL */

/* look.c. With the lock: these bytes of what lies on a device, which stays there; false: it would not pay,
 * or can't be. */
bool npa_copy_look(npa_buffer *b, size_t low, size_t high, char *to);
bool npa_copy_put(npa_buffer *b, size_t low, size_t high, const char *from); /* the same, written */
/* With the GIL. Whether npa_fetched gives something; write: of an array that is to be written. */
npa_buffer *npa_there(PyArrayObject *a); /* its buffer, if a device has something of it; or NULL */
bool npa_may_fetch(PyArrayObject *a, bool write);
int npa_put_back(PyArrayObject *a, PyArrayObject *part); /* what was written to that; 0 or -1 */
int npa_put_part(PyObject *a, PyObject *key, bool element, PyObject *value);
/* Whether work on it is best done on a device, where its data lies. */
bool npa_is_far(PyArrayObject *a);
/* A plain copy of what it shows, all of which stays on a device; a[key], one element, from there. NULL
 * without error: it is not there, or not worth it. */
PyObject *npa_fetched(PyArrayObject *a);
PyObject *npa_fetched_element(PyObject *a, PyObject *key);
void npa_count_shown(const npa_store *from, bool write, uint64_t moved); /* home, for the user's line */
PyObject *npa_take_homes(PyObject *module, PyObject *nothing);
PyObject *npa_fetched_py(PyObject *module, PyObject *array);
PyObject *npa_copies_exist_py(PyObject *module, PyObject *nothing);
PyObject *npa_put_back_py(PyObject *module, PyObject *args);
PyObject *npa_rebased_py(PyObject *module, PyObject *args);
PyObject *npa_is_far_py(PyObject *module, PyObject *array);

/* cut.c: a step whose operands do not fit, in parts that do. The band's axes may be cut, and so many of
 * the inner ones, into multiples of `step`. here: runs a part with the host's code, or (grid NULL) what
 * follows the loops of a split reduction. */
typedef struct { int band_rank, inner_axes; long long step; } npa_cut;
typedef void npa_run_here(void *context, int64_t *words, const npa_device_grid *grid);
enum npa_ran npa_cut_run(npa_device *d, const npa_launch *l, npa_cut may, npa_run_here *here,
                         void *context);
/* Whether it reads bytes that it writes, perhaps. */
bool npa_writes_over(const npa_queue *q, const npa_access *accesses, int n);

/* lost.c: with the lock but for error */
extern bool npa_losses; /* something was lost with a device, ever */
bool npa_lost_pending(void); /* something in the queue is; the devices are asked again */
/* Whether a request, or a step with such buffers, needs what is lost; then so is what it writes. */
bool npa_lost_request(npa_queue *q, int index);
bool npa_lost_step(npa_queue *q, const int32_t *used, int nused, const int32_t *written, int nwritten);
/* A kernel with these accesses failed there, and can't be repeated: what it writes is lost. */
void npa_lost_results(npa_queue *q, const npa_access *accesses, int n, npa_store *s);
bool npa_lost_hide(npa_buffer *b); /* after the run; false: it can't be */
int npa_lost_error(PyArrayObject *array, const npa_buffer *b); /* -1 */

/* direct.c */
extern PyTypeObject npa_direct_type;
#define NPA_ANY_SIZE PY_SSIZE_T_MAX
int npa_direct_call(PyObject *function, PyObject *const *args, Py_ssize_t n, PyObject *names,
                    Py_ssize_t written, Py_ssize_t any, bool apart, PyObject **result);
PyObject *npa_direct_new(PyObject *module, PyObject *args);
PyObject *npa_composites_py(PyObject *module, PyObject *dict);
/* code.c */
extern PyTypeObject npa_code_type;
PyObject *npa_cpu(PyObject *self, PyObject *nothing);

#endif
