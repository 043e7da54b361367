/* run.h: what waits is run: plans and programs, groups of requests block by block, runs in flight,
 * turns and trials.
 *
 * Knows requests and where their data lie. Must not know how calls of NumPy came to be requests. */
#ifndef NPA_RUN_H
#define NPA_RUN_H

#include "place/place.h"

typedef struct npa_program npa_program;

/* ----------------------------------------------------------------------------------- settings.c */

/* What run/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_run_hooks {
    bool (*settle_masks)(void);        /* npa_masked_settle */
    bool (*waits)(PyArrayObject *a);   /* npa_waits */
} npa_run_hooks;
extern int npa_queue_limit;
extern size_t npa_memory_limit;

/* ------------------------------------------------------------------------------------- commit.c */

uint64_t npa_queue_commit(npa_request *r); /* its number */
/* What npa_queue_commit numbered so, as if never recorded */
void npa_queue_withdraw(uint64_t serial);

/* -------------------------------------------------------------------------------------- flush.c */

int npa_flush(void);          /* all that is pending, and all runs in flight are over */
int npa_flush_recorded(void); /* what is recorded, and the runs that it needs something of */
int npa_flush_rounds(void); /* if a limit is reached; perhaps not the last: loop_detection.c */
PyObject *npa_pending_now(PyObject *module, PyObject *nothing);
void npa_flush_natively(void); /* from where no exception may leave */
/* What is recorded runs from now on; 0: it has run */
int npa_launch_recorded(uint64_t *flight, uint64_t least_ns);
/* Without Python, with the lock: what this thread's queue holds, by known programs; `program`: the
 * first of them, taken over, or NULL. 0, or -1 out of memory, 1 poll said so; then it is
 * stopped. */
int npa_run_known(PyObject *program, int (*poll)(void *));

/* ------------------------------------------------------------------------------------ history.c */

PyObject *npa_history_entry(uint64_t serial);
/* Its lines to programs that know none yet; with the GIL and the lock */
void npa_history_lend(void);
/* Bringing home a result of that flush took so long */
void npa_note_home(uint64_t serial, uint64_t ns);

/* ------------------------------------------------------------------------------------ running.c */

/* For want of memory or by an interrupt: run to its end, then record */
static inline bool npa_run_stopped(void) { return npa_q.run.stopped; }
bool npa_run_loops(void); /* the same by NumPy's loops; false: out of memory */

/* -------------------------------------------------------------------------------------- touch.c */

/* Run what must run before `array`'s memory is read (write: written) by others. 0 or -1. */
int npa_touch(PyArrayObject *array, bool write);
void npa_serve_fault(npa_range *range, const void *touched);
void npa_serve_write(const void *address);

/* ------------------------------------------------------------------------------------- finish.c */

void npa_finish_first(int done); /* with the lock: these are over, though no run was for them */
void npa_drop_garbage(void); /* references that evaluations left */
void npa_announce_garbage(void);
void npa_touch_served(void); /* for npa_guard_install */

/* ------------------------------------------------------------------------------------- rounds.c */

bool npa_over_limit(void);           /* what is pending should run */

/* ------------------------------------------------------------------------------------ flights.c */

/* With the lock. Everything recorded becomes a run in flight, `program` its first one. 0: no
 * memory, or no thread. */
uint64_t npa_flight_begin(PyObject *program);
/* With the GIL, without the lock: 0; -1: an exception; 1: it is not over yet at that time, see
 * npa_seconds. */
int npa_flight_join(uint64_t flight, double until);
int npa_flights_join(double until);       /* all there are */
int npa_flights_let_go(npa_buffer *b, bool write); /* those that make it; that use it, if `write` */
/* The same, of memory that is not ours and is to be written */
int npa_flights_let_go_of(PyArrayObject *a);
int npa_join_makers(void);                /* what this thread's queue needs of them */
/* With the lock, which is given back meanwhile, perhaps without the GIL. False: out of memory. */
bool npa_await_makers(void);
bool npa_await_flights(const npa_buffer *b); /* those that use it; NULL: all */
bool npa_await_watch(const npa_watch *w);
/* With the lock */
uint64_t npa_flight_of(const npa_buffer *b);     /* one that uses it */
uint64_t npa_flight_making(const npa_buffer *b); /* the one that makes it; 0: none */
bool npa_flight_runs(uint64_t flight); /* it goes on without anybody's help; not: over, stopped */
bool npa_flights_ended(void); /* nothing is begun any more */
int npa_flights_room(void);  /* for one more: 0, or -1 with an exception */
/* With the GIL: nothing is begun any more; cancel: what runs stops where it can, and stays. */
void npa_flights_end(bool cancel);
void npa_flights_forked(void);
enum { NPA_FLIGHT_SLICE_NS = 20000000 }; /* who waits for one looks at signals after that */

/* -------------------------------------------------------------------------------------- apart.c */

void npa_fly(void);    /* this thread is a run's in flight from now on */
bool npa_flying(void); /* it is */
/* Then others may have the lock until the end; nothing for other threads */
void npa_compute_begin(void);
void npa_compute_end(void);

/* ----------------------------------------------------------------------------- flights_python.c */

PyObject *npa_launch_py(PyObject *module, PyObject *args);
PyObject *npa_sleep_py(PyObject *module, PyObject *args);
PyObject *npa_resume_py(PyObject *module, PyObject *flights);
PyObject *npa_wake_py(PyObject *module, PyObject *nothing);
PyObject *npa_landed_py(PyObject *module, PyObject *array);
PyObject *npa_issue_py(PyObject *module, PyObject *nothing);
PyObject *npa_flights_end_py(PyObject *module, PyObject *cancel);

/* ----------------------------------------------------------------------------------- evaluate.c */

void npa_own_blocks(char *memory); /* of this thread; NULL: the common ones */
size_t npa_own_blocks_bytes(void);
/* Without the GIL, with the lock. */
int npa_evaluate_request(npa_queue *q, int index); /* returns FP kinds raised, -1: out of memory */
void npa_identity_bytes(const npa_rule *rule, char *out); /* of a reduction: 16 bytes */

/* ------------------------------------------------------------------------------------- ledger.c */

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
/* With the lock. NULL: of a run without a program */
void npa_ledger_count(npa_ledger *l, uint64_t ns);
/* With the lock. Whether these are its own now */
bool npa_ledger_keep(npa_ledger *l, npa_asked *asked, int n);
void npa_ledger_pass(npa_ledger *from, npa_ledger *to); /* its counts; with the lock */
void npa_ledger_reset(void);
PyObject *npa_ledger_told(PyObject *module, PyObject *nothing);
PyObject *npa_asked_told(const npa_asked *asked, int n);

/* ------------------------------------------------------------------------------------ program.c */

extern PyTypeObject npa_program_type;
int npa_program_ready(void);
npa_ledger *npa_program_ledger(npa_program *program); /* of NULL: NULL */
void npa_program_note_use(PyObject *program); /* for whoever drops the oldest ones */
/* A reference without the GIL, to a program that somebody keeps alive: with the lock. Before he
 * drops it, or it is dropped, whoever has both makes it a real one. */
npa_program *npa_program_lend(npa_program *program);
void npa_program_settle(PyObject *object); /* of any type */
/* Whether it (or NULL) runs request by request, which flush.c does. */
int npa_program_steps(const npa_program *p);
bool npa_program_single(const npa_program *program);
int npa_program_request(const npa_program *program, int number);
/* It has run, so briefly that Ctrl-C may wait for its end. */
bool npa_program_brief(const npa_program *program);
uint64_t npa_program_expected(const npa_program *program); /* ns that a run takes; 0: not known */
uint64_t npa_program_baseline(const npa_program *program); /* ns of NumPy's loops; 0: not known */
bool npa_program_compares(const npa_program *program);  /* they are to run once, to show it */
void npa_program_note_baseline(npa_program *program, uint64_t ns);
bool npa_program_moves(const npa_program *program); /* some step uses a device's own memory */
bool npa_program_foreign(const npa_program *program); /* other packages' code may want the GIL */
/* Of a whole run, and of all that were not noted yet. */
void npa_program_note_time(npa_program *program, uint64_t ns, uint64_t total_ns);
void npa_program_note_home(npa_program *program, uint64_t ns); /* its results came home */
/* Python is asked whether another one is faster */
bool npa_program_due(const npa_program *program);
/* It runs NumPy's loops, and Python is not asked about it before it has taken so many seconds
 * more. */
/* Nobody has planned it: it runs block by block */
bool npa_program_waits(const npa_program *program);

/* -------------------------------------------------------------------------------- program_run.c */

/* Bytes of memory that it takes beside what is there, at most; 0: unknown, or less than room. */
size_t npa_program_needs(const npa_program *program, const npa_queue *q, size_t room);
/* From step *done on. 0 done; -1 out of memory, 1 interrupted: *done steps are done, and to go on
 * with the next is safe. Fills kinds[request]. Needs no GIL. */
int npa_program_run(npa_program *program, npa_queue *q, uint8_t *kinds, int (*poll)(void *),
                    void *arg, bool *interrupted, int *done);

/* ------------------------------------------------------------------------------ program_cache.c */

int npa_program_cache_init(void);
PyObject *npa_program_cache(void); /* the table as Python sees it */
/* The program of the pending requests, which have this key; borrowed. With the lock; python: and
 * the GIL. */
npa_program *npa_program_cache_find(const npa_key *key, bool python);
/* template.c: the same, of a template; NULL: none fits, or there is no GIL to make it. */
npa_program *npa_template_find(const npa_key *key, bool python);
void npa_templates_clear(void); /* with the GIL */
void npa_templates_prepare(void); /* for when there is none: with the GIL */
/* A new reference: what the plan hook, or that method of it, has for what is pending. */
PyObject *npa_plan(PyObject *pending, const char *how);

/* ------------------------------------------------------------------------------------ pending.c */

/* The first requests of a queue, and what is known of them at one moment. */
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
    struct npa_line *lines; /* one piece of memory with scalars, of 16 bytes each */
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
const npa_snapshot *npa_pending_of(PyObject *pending);
/* A float that will be another */
void npa_pending_forget(PyObject *pending, int request, int input);
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

/* ------------------------------------------------------------------------------------ cluster.c */

/* With the lock. Whether the first requests are to run on a cluster, from their beginning. */
bool npa_cluster_wants(npa_queue *q, int requests);
/* They have run there; perhaps what they write is lost. False: nothing was done. */
bool npa_cluster_run(npa_queue *q, int requests, uint8_t *kinds);

/* ---------------------------------------------------------------------------------- structure.c */

PyObject *npa_structure(const npa_snapshot *s, PyObject *limits);
PyObject *npa_numbers(const npa_snapshot *s, PyObject *places);

/* -------------------------------------------------------------------------------------- match.c */

/* Of the first requests of the queue; valid while the lock is held. False: out of memory. */
bool npa_make_key(int requests, uint64_t backend, npa_key *key);
/* A block's requests, matched against those of earlier times. With the lock but for map,
 * settle, begin and end */
int npa_match_init(PyObject *module);
PyObject *npa_match_begin(PyObject *recordings); /* borrowed; NULL: error set */
void npa_match_end(void);
int npa_match_map(npa_rule *rule, const npa_value *in, PyArrayObject *out, PyObject **results);
/* npa_queue_commit; made: its one result */
uint64_t npa_match_commit(npa_request *r, PyObject *made);
void npa_match_settle(void); /* after a run */

/* --------------------------------------------------------------------------- fault_evaluation.c */

/* Find and ran: with the lock, on the evaluator's thread, or that of a run in flight */
/* Of the first ones; a reference. NULL: none is known */
npa_program *npa_fault_find(int requests);
void npa_fault_ran(uint64_t ns);
bool npa_fault_waits(void); /* something is to be planned */
int npa_fault_plan(void);   /* with the GIL, without the lock. 0, or -1 with an exception */
void npa_fault_forget(void); /* all that was touched so far */

/* --------------------------------------------------------------------------------- contention.c */

/* A run, with its planning, lies between begin and end; one that stopped may go on in another. */
void npa_contention_begin(void);
void npa_contention_end(void);
void npa_contention_expect(uint64_t ns); /* it takes so long from now on; 0: nobody knows */
void npa_contention_recorded(void);      /* a request, by this thread */
void npa_contention_forked(void);
/* Whether NumPy is to do an operation that reads these (NULL: a scalar) and makes new arrays, since
 * it is another thread's turn. With the GIL. */
bool npa_contention_passes(PyArrayObject *const *inputs, int n);
/* In a block: several threads record by turns, so that all is to be NumPy's */
bool npa_contention_crowded(void);
void npa_contention_uncrowded(void); /* from now on they do not */

/* ----------------------------------------------------------------------------------- autotune.c */

/* Whether NumPy is to do `what` on operands of at most so many bytes. It would be recorded, and its
 * result has the same bits either way. may: it could be done so. */
bool npa_autotune_passes(const void *what, size_t bytes, bool may);
/* The same of NumPy's functions and methods */
bool npa_autotune_passes_call(const void *what, size_t bytes, bool may);
/* A request was recorded; first: nothing was pending before it. Whether all is to run now */
bool npa_autotune_recorded(bool first);
/* A limit has made rounds of a loop run, before the operation that is about to be recorded */
void npa_autotune_full(void);
/* At the line so many small operations were recorded in a row, as they need what is pending, that
 * the next ones are better done at once; and whether that was so. */
void npa_autotune_note_many(const npa_site *site);
bool npa_autotune_sees_many(const npa_site *site);
/* With the lock, after a run; loops_ns: what NumPy's loops take for it, 0: not known. */
void npa_autotune_ran(uint64_t requests, uint64_t ns, bool single, uint64_t loops_ns);
uint64_t npa_autotune_weight(void); /* how many rounds a run stands for */
void npa_autotune_weigh(uint64_t rounds);
/* What runs took so far, and what they must take less than half of to be ahead of NumPy. */
typedef struct { uint64_t runs, requests, ns, clear_ns; } npa_spending;
npa_spending npa_autotune_spent(void);
enum npa_way npa_autotune_way(npa_choice *c); /* of the round to come: recorded is usual */
/* A round took so long; alike: it may be compared. before: what was spent when it began. */
void npa_autotune_took(npa_choice *c, enum npa_way way, uint64_t ns, bool alike,
                       npa_spending before);
PyObject *npa_forget_looks(PyObject *module, PyObject *nothing);
PyObject *npa_autotune_trials(PyObject *module, PyObject *args);
PyObject *npa_tried(PyObject *module, PyObject *nothing);
PyObject *npa_looked_up(PyObject *module, PyObject *found);
PyObject *npa_smaller(PyObject *module, PyObject *known);

/* -------------------------------------------------------------------------------------- check.c */

extern int npa_check_every;                 /* of so many runs one is compared */
bool npa_check_due(void);                   /* the next one is */
PyObject *npa_check_busy_py(PyObject *module, PyObject *on);
/* For check mode. Of each buffer its bytes; with the lock. after: a run, of what it wrote,
 * where somebody sees it. */
typedef struct {
    int n;
    struct { char *bytes; size_t size; } *of;
} npa_contents;
void npa_contents_copy(npa_contents *c, bool after);
void npa_contents_drop(npa_contents *c);
/* What the requests of one run made that NumPy's loops have run: each output without gaps, in C
 * order. */
typedef struct {
    int n, cap;
    struct { int request, output; char *bytes; size_t size; } *of;
} npa_log;
/* With the lock, around a run; of a run that has no log nothing is noted. */
void npa_log_begin(npa_log *log);
void npa_log_request(npa_queue *q, int request);
void npa_log_end(void);
void npa_log_drop(npa_log *log);
/* Without the lock: 0 or -1. Of the buffers as they were before the run, and after it. */
int npa_check_run(PyObject *pending, const npa_contents *before, const npa_contents *after,
                  const npa_log *log);

/* ------------------------------------------------------------------------------------ profile.c */

enum {
    NPA_RUN_KERNELS = NPA_ACTIVITIES,
    NPA_RUN_SINGLE,
    NPA_STEP_KERNEL,
    NPA_STEP_BLOCKS,
    NPA_STEP_LOOP
};
void npa_profile_resolve(void); /* with the GIL, before references of requests go */
void npa_profile_spent(int activity, uint64_t ns);
void npa_profile_now(int activity);
void npa_profile_settle(void);
void npa_profile_small(void);
/* A run begins, or goes on; one of its steps is over; it is. With the lock, perhaps without the
 * GIL. */
void npa_profile_run(npa_queue *q, npa_program *program, int requests, bool single, bool begins);
void npa_profile_step(int step, int count, int kind);
void npa_profile_ran(void);
bool npa_alone(void); /* no other thread runs Python, but for the one that looks at lines */
void npa_profile_touch(void); /* the evaluator begins to serve one, and has */
void npa_profile_touched(uint64_t ns); /* on the evaluator's thread */
PyObject *npa_profile_begin(PyObject *module, PyObject *libraries);
PyObject *npa_profile_end(PyObject *module, PyObject *nothing);

/* --------------------------------------------------------------------------------------- peek.c */

PyObject *npa_place_py(PyObject *module, PyObject *array);
PyObject *npa_contents_py(PyObject *module, PyObject *which);

/* -------------------------------------------------------------------------------------- stops.c */

extern NPA_PER_THREAD int npa_stepping;
PyObject *npa_stepping_py(PyObject *module, PyObject *on);
extern int npa_stops;
bool npa_stops_at(PyArrayObject *a); /* some of its memory is */
int npa_stops_tell(PyObject *name);
bool npa_bodies_run(void);
PyObject *npa_stops_py(PyObject *module, PyObject *arrays);
PyObject *npa_bodies_run_py(PyObject *module, PyObject *nothing);

/* -------------------------------------------------------------------------------------- until.c */

extern int64_t npa_until;
void npa_until_set(int64_t limit); /* from now on; -1: all */
void npa_until_count(void);
bool npa_until_over(void);  /* the next operation is behind those that are recorded as ever */
bool npa_until_loops(void); /* what is in the queue is */
PyObject *npa_until_counted_py(PyObject *module, PyObject *nothing);

/* --------------------------------------------------------------------------------- until_stop.c */

int npa_until_stop(void);
PyObject *npa_until_py(PyObject *module, PyObject *args);

/* -------------------------------------------------------------------------------------- forks.c */

int npa_watch_forks(void); /* 0 or an errno */

/* ----------------------------------------------------------------------------------- prefault.c */

PyObject *npa_prepare(PyObject *module, PyObject *args);
PyObject *npa_prepare_end(PyObject *module, PyObject *nothing);
PyObject *npa_new_sizes(PyObject *module, PyObject *nothing);

#endif
