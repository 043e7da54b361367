/* trace.h: what is recorded and waits: requests, the buffers that they name, their keys, the queues
 * and the lock.
 *
 * Knows memory of ours and of others, rules, blocks of code, warnings to come. Must not know who
 * runs requests, or how. */
#ifndef NPA_TRACE_H
#define NPA_TRACE_H

#include "loops/loops.h"

typedef struct npa_queue npa_queue;

/* Of a buffer that nothing recorded uses, but runs in flight do. */
enum { NPA_IN_FLIGHT = INT32_MAX };

/* A piece of memory that requests name. Own ones live in a range; foreign ones keep `owner`, or
 * are copies of a small `source`. */
typedef struct npa_buffer {
    char *base;
    size_t size;
    npa_range *range;
    struct npa_spot *spot; /* of a section's array, which never gets content */
    PyObject *owner;
    npa_watch *watch; /* of foreign memory that can be protected */
    bool constant;    /* a bytes object's: nobody writes it */
    char *source;     /* of a copy: where the bytes came from; base is malloc's */
    npa_patience patience;
    char *replaced;   /* a mapping with the watched memory's bytes as they were when first read */
    bool exported;    /* of a range: somebody may have a buffer on it */
    int32_t index;   /* in the queue that is recorded into; NPA_IN_FLIGHT; -1: nothing uses it */
    int32_t number;  /* in what is left of a queue, while that is put in order; -1: not there */
    int32_t flights; /* runs in flight that use it, see flights.c */
    npa_queue *maker; /* the one of them that writes it */
    bool fresh;      /* no content yet */
    uint32_t made_at; /* number of the user's operation recorded last to write it; 0: none */
    bool unread;     /* written by a queued request, and read by none behind it */
    bool pending;    /* a queued request writes it */
    _Atomic bool dead;
    bool later;      /* used after the requests that the flush at hand runs, or by another queue */
    bool gone;       /* dead, and its range given back before the queue's end */
    char *inherited; /* then: where its content lies while the request runs whose output took it */
    uint64_t serial; /* flush that computed it */
    uint64_t born;   /* of what NumPy made: how many flushes there had been, and 1; 0: of others */
    /* How many flushes there had been when an element of it was read or written behind its
     * address */
    uint64_t peeked;
    int peeks;       /* how often since then */
    struct npa_copy *copy;    /* what of it lies on a device, see resident.c */
    struct npa_store *lost;   /* the device that failed with what it was to be computed from */
    bool unreachable;         /* its device did not give it back when last asked */
    struct npa_store *placed; /* where the user wants it to live; NULL: nowhere in particular */
    uint64_t map;             /* of a cluster: the number of the map that it was given; 0: none */
    struct npa_buffer *next; /* dead ones; foreign ones in the queue */
} npa_buffer;

/* Where one operand lies. Stride slots: `slots` per operand, the request's. */
typedef struct {
    int32_t buffer; /* -1: a scalar, its bytes in `at` */
    int32_t type;   /* NumPy type number */
    int64_t offset; /* bytes from the buffer's base */
    int64_t at[];   /* strides in bytes, or a scalar's value (16 bytes) */
} npa_operand;

/* In a request's errstate, above its eight bits: NumPy's own loop computes it, for it is too small
 * for ours, whose last bits differ. See Note [Whose bits] in record.c. Or code of the second
 * accuracy class does. */
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

/* A request as words, as key.c writes them; operands follow. Of a scalar `offset` says how many
 * words of its value follow: those that plans look at. */
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
 * many there are; 0: none. looks: what its first request is like from outside, and how many a round
 * has. */
typedef struct { int start, period, rounds; uint64_t looks; } npa_loop;

/* What moved to devices and back: bytes, and nanoseconds. */
typedef struct { uint64_t bytes_up, bytes_down, up_ns, down_ns; } npa_moved;

/* The run of a queue that is at hand, or one that stopped, for want of memory or by an interrupt.
 * It goes on where it stopped and is not begun anew: what it did may have overwritten what it read,
 * or given back intermediate results. Until it is over nothing is recorded behind it. */
typedef struct {
    PyObject *program; /* owned; NULL: request by request */
    int requests;      /* of the queue, that it is for */
    /* Of them, that the program is one of a loop's rounds of; 0: it is for all */
    int round;
    int done;          /* of its steps, or requests */
    bool stopped;
    /* Request by request, and temporary arrays piece by piece, but for those of fewer bytes, see
     * slices.c */
    bool sliced;
    size_t small;
    uint64_t ns; /* that it took, if it ran in one go */
    npa_moved moved; /* counts when it began */
    struct npa_store *there; /* the cluster that ran it, or NULL, and the number of the run there */
    uint64_t number;
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
    npa_buffer *foreign; /* shown ones and copies, newest first */
    size_t copied_bytes;
    bool repeatable; /* the run may have to be repeated: it gives nothing back before its end */
    bool urgent; /* a request reads or writes memory that others may change: run to the end */
    bool unread; /* a result died that no request reads, see unseen.c */
    bool masked; /* it has picks, or requests with twins, see masked.c */
    uint64_t serial; /* of the flush to come */
    uint64_t backend; /* that was asked for when the last request was recorded */
    uint64_t generation; /* of its latest change; no two queues have the same */
    npa_run run;
    /* What is left of its first loop, while this is its generation. end: of what goes with it,
     * another loop's beginning or all; cut: its rounds run one by one if there is code for them;
     * fuses: or several as one; apart: or several, each with kernels of its own; steady: as many
     * as ever. Note [Boundaries] in loop_detection.c */
    struct { uint64_t generation; npa_loop loop; int end; bool cut, fuses, apart, steady; } known;
    /* Since results were looked at: a loop that was met, what a limit has run */
    struct { uint64_t looks; int requests; } gone;
    int looked; /* requests before which no loop is looked for; 0: the least */
    struct { struct npa_mark *at; int n, cap; } marks; /* see warn.c */
    npa_queue *next; /* that of a younger run in flight */
};

enum { NPA_OWNERS = 8 };

typedef struct {
    uint64_t launches[NPA_OWNERS]; /* of kernels, by whose code they are; 0: the host's own */
    uint64_t requests, flushes, native_requests, dead_requests, bytes_read, bytes_written,
        plan_hits, plan_misses, kernel_requests, chained_kernels, fault_evaluations, fault_programs,
        fault_misses, rests, passed, not_deferred, snapshots, early_reads, uploads, uploads_ahead,
        downloads, looks, evictions, flights, filled, cluster_runs, cluster_requests,
        cluster_refused, sliced, pieces;
    npa_moved moved;
    uint64_t pinned_bytes; /* of what moved, through memory that the driver has pinned */
} npa_counters;

typedef struct npa_store npa_store;

/* -------------------------------------------------------------------------------------- queue.c */

/* What this thread works on: what is recorded, but while it runs what a run in flight took over. */
extern npa_queue npa_recorded, *npa_oldest_flying;
extern NPA_PER_THREAD npa_queue *npa_queue_here;
#define npa_q (*npa_queue_here)
extern npa_counters npa_count;
/* What trace/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_trace_hooks {
    struct npa_spot *(*spot_new)(size_t size);   /* for memory that a section's array is in */
    void (*spot_gone)(struct npa_spot *spot);    /* it is given back */
    /* It was read through a pointer; from any thread */
    void (*spot_read)(struct npa_spot *spot);
    int (*section_stop)(PyArrayObject *a, const char *what); /* npa_section_stop */
    void (*copy_drop)(npa_buffer *b);            /* nobody needs what a device has of it */
    void (*serve_calls)(void);                   /* system calls, before something is guarded */
    void (*redirect)(bool on);                   /* NumPy's callables, while blocks are open */
    void (*flush)(void);                         /* from where no exception may leave */
} npa_trace_hooks;
/* At its end, with the lock; NULL: no memory */
npa_request *npa_queue_room(npa_queue *q, size_t size);
/* The number of its latest change */
static inline uint64_t npa_queue_generation(void) { return npa_q.generation; }
void npa_drop_later(PyObject *o); /* a reference to drop there; with the lock, GIL not needed */
bool npa_is_garbage(void);
/* With the lock: all such references, to be dropped and freed */
PyObject **npa_take_garbage(int *n);
extern atomic_int npa_flights; /* runs that go on while the program does: how many there are */
static inline bool npa_waiting(void)
{
    return npa_recorded.nrequests > 0 ||
           atomic_load_explicit(&npa_flights, memory_order_relaxed) > 0;
}
/* All there are; of NULL the first one, which is recorded into */
npa_queue *npa_next_queue(npa_queue *q);
/* Foreign, that one uses; or NULL */
npa_buffer *npa_flights_buffer(const char *low, const char *high);
/* The first one that has it, and not so */
npa_queue *npa_flights_watch(const npa_watch *w, const npa_buffer *but);
/* That this thread is in; owned; or NULL */
extern NPA_PER_THREAD struct npa_recordings *npa_matched_block;
static inline bool npa_match_inside(void) { return npa_matched_block != NULL; }
/* The section that this thread records, or NULL */
extern NPA_PER_THREAD struct npa_section *npa_here;
/* How many pieces of memory there are that no section ever fills */
extern atomic_int npa_placeholders;
extern npa_store *npa_stores; /* the devices that have memory of their own; NULL: there are none */

/* ------------------------------------------------------------------------------------- buffer.c */

/* The one lock over queue and memory. Taken with the GIL held; released while waiting for it. */
void npa_lock(void);
void npa_unlock(void);
void npa_lock_native(void); /* from a thread without the GIL */
/* For what somebody else does with it, as npa_lock_tell says; 0: for ever */
void npa_lock_wait(int64_t at_most_ns);
void npa_lock_tell(void);
void npa_lock_forked(void); /* in the child of a fork, by the thread that has it */
int npa_buffer_init(void);
/* A new Array over a range without content. NULL, perhaps without error: no memory to defer
 * into. */
bool npa_give_memory_back(PyArrayObject *a);
PyObject *npa_new_in_order(PyArray_Descr *descr, int ndim, const npy_intp *shape, bool fortran);
PyObject *npa_new_array(PyArray_Descr *descr, int ndim, const npy_intp *shape,
                        const npy_intp *strides);
PyObject *npa_new_like(PyArrayObject *a, PyArray_Descr *descr);
bool npa_leave_shell(PyObject *o); /* without references */
PyObject *npa_exact_view(PyArrayObject *array);
npa_buffer *npa_buffer_of(PyArrayObject *array); /* of its range; NULL: foreign */
/* NumPy's default handler of memory, whatever is set at the moment; the one that is set in blocks,
 * whose large pieces are ranges; whether `handler` is one of these. */
extern PyDataMem_Handler *npa_numpy_handler;
PyObject *npa_made_handler(void);
bool npa_usual_handler(PyObject *handler);
bool npa_is_pending(PyArrayObject *array);
/* All of a result that nobody has looked at: to show it takes longer than to record an operation on
 * it. */
bool npa_is_hidden(PyArrayObject *array);
bool npa_lacks_room(void); /* for results, just now; with the GIL, once per operation */
void npa_extent(PyArrayObject *array, char **low, char **high);
bool npa_apart(PyArrayObject *a, PyArrayObject *b); /* no byte is of both */
PyArrayObject *npa_root_of(PyArrayObject *array);
npa_buffer *npa_place(PyArrayObject *array, bool later, bool read, int64_t *offset);
void npa_release(npa_buffer *b);
void npa_buffer_done(npa_buffer *b); /* no request to come uses it */
void npa_collect_dead(void);
bool npa_used_elsewhere(const npa_buffer *b); /* by another queue than this thread's */
void npa_buffer_leave(npa_buffer *b);         /* this thread's queue no longer uses it */
char *npa_buffer_pages(npa_buffer *b);        /* where the host has it, whatever is there */

/* ------------------------------------------------------------------------------------- shells.c */

enum { NPA_SHELL_DIMS = 8 };
extern destructor npa_numpy_dealloc;
void npa_shells_init(void); /* while ndarray has NumPy's */
void npa_shells_end(void);
/* Whether a dead array's header may be kept; it is, without data and base. Its dtype is dropped */
bool npa_shell_fits(PyArrayObject *a);
void npa_shell_keep(PyArrayObject *a);
/* An array of ours, or a plain one, over `data`. NULL: error set */
PyArrayObject *npa_new_header(bool ours, PyArray_Descr *descr, int ndim, const npy_intp *shape,
                              const npy_intp *strides, char *data, bool writeable);

/* ------------------------------------------------------------------------------------ foreign.c */

/* With the lock, except init. */
int npa_foreign_init(void);
npa_buffer *npa_foreign_buffer(PyArrayObject *a, bool later, bool (*enqueue)(npa_buffer *));
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
/* Somebody may write into `root`, which is not ours, from now on: its buffer, if that can be
 * watched. */
npa_watch *npa_note_export(PyArrayObject *root, char *low, char *high);

/* --------------------------------------------------------------------------------- code_block.c */

/* All with the GIL. */
extern PyTypeObject npa_code_block_type;
extern size_t npa_least;            /* no block takes arrays of fewer bytes */
extern size_t npa_least_ours;       /* nor does a function, but where operators would wait for it */
extern size_t npa_least_made;       /* and what NumPy makes of fewer lies in its memory */
extern NPA_PER_THREAD int npa_suspended;  /* above 0, this thread's calls are NumPy's */
/* Above 0, a trial has left this operation to NumPy, whose small ones are small.c's */
extern NPA_PER_THREAD int npa_passed;
/* Above 0, a function runs of which only what is larger is worth recording: npa_is_large */
extern NPA_PER_THREAD int npa_coarse;
/* Above 0, it runs a function of many small steps, whose arrays are plain */
extern NPA_PER_THREAD int npa_whole;
/* place: a DeviceMemory, or None */
PyObject *npa_code_block_new(Py_ssize_t min_size, PyObject *backend, PyObject *place, bool all);
int npa_code_block_enter(PyObject *self); /* -1: an error, and it is not open */
int npa_code_block_leave(PyObject *self); /* from anywhere; a second time is nothing */
/* Whether leaving it here undoes entering it. */
bool npa_code_block_is_mine(PyObject *self);
int npa_opener_init(PyObject *module); /* opener.c */
int npa_code_block_init(void);
/* Bytes up to which our own way to NumPy's loops wins, and memory is used again */
enum { NPA_SMALL_MOST = 1 << 18 };
static inline size_t npa_passed_below(void) { return npa_passed ? NPA_SMALL_MOST : 0; }
/* Whether an array of so many bytes is worth recording in some block; what is not is small.c's. */
static inline bool npa_is_large(size_t bytes)
{
    return bytes >= npa_least && bytes >= npa_passed_below() &&
           (npa_coarse == 0 || bytes >= npa_least_ours);
}
bool npa_in_block(void);
/* From how many bytes on an operation is recorded. SIZE_MAX without the guard */
size_t npa_threshold_here(void);
/* Whether these are as many, in fewer steps */
bool npa_is_enough(size_t bytes);
/* The same where nobody rests */
size_t npa_tried_here(void);
/* Operators leave to NumPy what is smaller than ours for so long. With the GIL */
void npa_rest(double seconds);
bool npa_rests(void);
void npa_rest_is_over(double now); /* if it is */
void npa_forget_young(void);       /* what buffer.c knows of arrays that died young */
/* Where something is known of arrays by their size */
enum { NPA_SHELVES = 64 };
static inline size_t npa_shelf_of(size_t bytes, int ndim)
{
    size_t h = (bytes >> 3) * 0x9E3779B1u + (size_t)ndim * 0x85EBCA6Bu;
    return (h ^ h >> 15) % NPA_SHELVES;
}
/* And last bits are ours, and functions are done by loops of ours: Note [Whose bits] */
size_t npa_ours_here(void);
int npa_guard_set(bool on); /* -1: error set */
PyObject *npa_py_memory(PyObject *module, PyObject *ours); /* for Python */
void npa_find_least(void);
PyObject *npa_code_block_backend(void);
npa_store *npa_place_here(void); /* where new arrays are to live, or NULL */
uint64_t npa_backend_here(void); /* a number for that, 0 for none */
bool npa_is_numpys_backend(uint64_t backend); /* or that of the setting, where none is named */

/* -------------------------------------------------------------------------------------- rules.c */

int npa_rules_init(void);
extern PyObject *npa_copy_name;
/* `ufunc`: a ufunc, or the name of an operation of the core's own (str). NULL perhaps without
 * error: never recorded. */
npa_rule *npa_find_rule(PyObject *ufunc, const int *types, int n, PyArrayObject *out);
npa_rule *npa_find_fold_rule(PyObject *ufunc, int type, int asked);
int npa_number_rule(npa_rule *rule); /* gives it its id; 0 or -1 */
PyObject *npa_rules_known(PyObject *self, PyObject *nothing);
/* The errstate as 8 bits; -1: something else than ignore and warn; -2: an exception is set. */
int npa_errstate(void);
extern PyObject *npa_errstate_var; /* NumPy's context variable */
/* What a request keeps of it, with the setting `boundscheck`; -1: it must not wait; -2: an
 * exception is set */
int npa_errstate_of(const npa_rule *rule);
/* The setting: indices out of bounds, and integers divided by 0, are told */
extern bool npa_boundscheck;
/* The same in a section of this thread; -1: the setting */
extern NPA_PER_THREAD signed char npa_boundscheck_here;
bool npa_boundscheck_now(void);
extern const char npa_raising[], npa_underflow_asked[];
bool npa_asks_underflow(void); /* floating-point operations are NumPy's, and their results plain */
/* npa_errstate, and bits for whether checks are off, and accuracy is fast */
int npa_checked_errstate(void);
extern bool npa_fast; /* the setting: functions may be of the second accuracy class */
int npa_warnings_are_errors(void); /* -1: an exception is set */
bool npa_warnings_ignored(void); /* after it: none would be shown */

/* --------------------------------------------------------------------------------------- rule.c */

extern PyTypeObject npa_rule_type;
PyObject *npa_make_rule(PyObject *self, PyObject *args, PyObject *kwargs);
bool npa_fold_has_order(const char *name, int type); /* whether its last bits depend on one */

/* ------------------------------------------------------------------------------------- scalar.c */

/* An operand as the slots see it. */
typedef struct {
    PyArrayObject *array; /* borrowed; NULL: a scalar */
    int type;             /* type number, or one of NPA_WEAK_* */
    PyObject *object;     /* the scalar */
} npa_value;
enum { NPA_WEAK_INT = 100, NPA_WEAK_FLOAT, NPA_WEAK_COMPLEX };
/* A scalar's value in the loop's dtype. 1, or 0: leave it to NumPy (range, error, warning). */
int npa_scalar_value(const npa_value *v, int to, void *out);

/* ---------------------------------------------------------------------------------------- key.c */

/* With the lock, GIL not needed. */
typedef struct { const char *bytes; size_t size; uint64_t hash; } npa_key;
uint64_t npa_hash(const char *bytes, size_t size);
/* Not that of a matched recording */
bool npa_new_key(int requests, uint64_t backend, npa_key *key);
/* Buffers are numbered by first use: how many the first requests have. */
int npa_buffers_of(const npa_queue *q, int requests);
size_t npa_words_size(npa_request *r); /* in bytes */
char *npa_words_put(npa_request *r, char *p); /* writes them; the end */
enum { NPA_KEY_END = 24 }; /* bytes of a key behind requests and buffers */
/* A key, as bytes, of a section's queue. states: of its buffers, as npa_key_state has them. */
PyObject *npa_words_with(const npa_queue *q, const uint64_t *states, int nbuffers);
void npa_key_value(int type, const void *value, char *to); /* of a scalar, 16 bytes */
/* A buffer's size and flags; after npa_mark_later. */
enum { NPA_OWNED = 1, NPA_FRESH = 2, NPA_DEAD = 4, NPA_STATE_FLAGS = 15, NPA_STATE_BITS = 4 };
uint64_t npa_key_state(const npa_buffer *b);

/* ----------------------------------------------------------------------------- loop_detection.c */

npa_loop npa_loop_find(int n); /* of the first n requests */
bool npa_loop_fuses(npa_loop loop); /* its rounds would make one kernel */
/* Where the first requests are several rounds that have kernels of their own each: requests of one,
 * else 0. */
int npa_loop_apart(int requests);
void npa_mark_later(int first);
void npa_keep_rest(int done);
void npa_rest_kept(int n);

/* ------------------------------------------------------------------------------------- unseen.c */

enum { NPA_FOR_NOTHING, NPA_FOR_WARNINGS, NPA_FOR_VALUES };
/* Per request of a queue's first ones, from the last one back, what `needed` says of it and of
 * whether its results are seen; but for NPA_FOR_NOTHING it runs, so what it reads matters. False:
 * out of memory. With the lock. */
typedef uint8_t npa_needed(const npa_request *r, bool seen);
bool npa_walk_back(const npa_queue *q, int requests, npa_needed *needed, uint8_t *told);
bool npa_find_unseen(const npa_queue *q, int requests, uint8_t *why); /* why each runs; likewise */
/* Requests that run only for warnings that would not be shown have no errstate any more. With the
 * GIL, without the lock. 0, or -1 with an exception. */
int npa_hush_unseen(void);

/* --------------------------------------------------------------------------------------- warn.c */

/* Floating-point warnings. kinds: raised, per request of the queue, which is over next. */
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

/* ----------------------------------------------------------------------------------- shortage.c */

npa_shortage npa_shortage_of(npa_queue *q, int index, int n);
void npa_shortage_error(const npa_shortage *s); /* sets MemoryError */
void npa_shortage_tell(const npa_shortage *s); /* handlers of the error that is set */
int npa_shortage_shown(PyArrayObject *array); /* sets MemoryError; -1 */
bool npa_shortage_sure(double bytes);

/* ------------------------------------------------------------------------------------- hinder.c */

/* With the GIL but for npa_hinder_touched. */
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
/* calls: that it stands for. clock: of a call on large arrays, what times.c had for the thread
 * before. */
typedef struct { double since, between; uint32_t calls; int clock; bool timed; } npa_stretch;
extern int npa_until_look, npa_look_inside; /* inside: calls of Python's code, which calls others */
/* Whether the call that NumPy is about to do is looked at: then between begin and end. */
static inline bool npa_look_due(void)
{
    return npa_look_inside == 0 && __builtin_expect(--npa_until_look <= 0, false);
}
npa_stretch npa_stretch_begin(void);
void npa_stretch_end(const npa_stretch *s, enum npa_hindrance kind, size_t bytes);
void npa_stretch_drop(const npa_stretch *s); /* instead of end: that was not the call after all */
/* A call on what is small, that may be another's after all: looked at where that is due. */
typedef struct {
    bool looked, due;
    npa_stretch stretch;
} npa_small_look;
static inline npa_small_look npa_small_look_begin(void)
{
    bool looked = npa_suspended == 0 && npa_look_inside == 0, due = looked && npa_until_look <= 1;
    return (npa_small_look){looked, due, due ? npa_stretch_begin() : (npa_stretch){0}};
}
static inline void npa_small_look_end(const npa_small_look *l, bool done, size_t bytes)
{
    if (l->due && done) {
        npa_stretch_end(&l->stretch, NPA_SMALL, bytes);
    } else if (l->due) {
        npa_stretch_drop(&l->stretch);
    } else {
        npa_until_look -= l->looked && done;
    }
}
void npa_look_next(enum npa_hindrance kind); /* the next call is looked at, and is that */
void npa_run_because(enum npa_hindrance kind); /* what this thread runs next; else it is read */
void npa_hinder_ran(int requests, double seconds);
void npa_hinder_touched(int requests, uint64_t ns); /* with the lock, perhaps without the GIL */
/* Something is recorded: the runs of touches since were before its line */
void npa_hinder_found(void);
int npa_hinder_init(void);

#endif
