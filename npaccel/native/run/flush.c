/* flush.c: from pending requests to results: key, plan, run, publish, warn. */
#include "run/run.h"
#include "run/group.h"

#include <limits.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct npa_run_hooks npa_run_hooks;
int npa_queue_limit = 4096;
size_t npa_memory_limit = (size_t)1 << 30;

/* With the lock, or the GIL: this thread's queue has changed. */
static uint64_t change(void)
{
    static _Atomic uint64_t last;
    return npa_q.generation = atomic_fetch_add(&last, 1) + 1;
}

/* The number of a flush to come: no two queues have the same. */
static uint64_t next_serial(void)
{
    static uint64_t last; /* of the flush that the recorded requests are for, at first */
    return ++last;
}

/* With the lock: the request at the end of the arena counts from now on. */
uint64_t npa_queue_commit(npa_request *r)
{
    npa_q.at[npa_q.nrequests++] = npa_q.used;
    npa_q.used += r->size;
    npa_q.backend = npa_backend_here();
    npa_count.requests++;
    npa_until_count();
    r->rule->recorded++;
    uint64_t points = 1;
    for (int i = 0; i < r->ndim; i++) {
        points *= (uint64_t)r->shape[i];
    }
    r->rule->points += points;
    npa_turn_recorded();
    return change();
}

/* --------------------------------------------------------------------------------- flush */

/* Sites of recent flushes, for explain(); replaced ones are released with the GIL. */
typedef struct {
    uint64_t serial;
    PyObject *program;
    npa_moved moved; /* to devices and back for it */
    int n;
    npa_asked *asked;
} npa_flush_record;
#define HISTORY 16
static npa_flush_record history[HISTORY];
static atomic_bool garbage_announced; /* the interpreter will do it by itself */

/* With the GIL, without the lock; objects may die, so anything may run. */
void npa_drop_garbage(void)
{
    atomic_store(&garbage_announced, false);
    if (npa_profiling && npa_is_garbage()) {
        npa_profile_resolve();
    }
    while (npa_is_garbage()) {
        int n;
        npa_lock();
        PyObject **mine = npa_take_garbage(&n);
        for (int i = 0; i < n; i++) {
            npa_program_settle(mine[i]);
        }
        npa_unlock();
        for (int i = 0; i < n; i++) {
            Py_DECREF(mine[i]);
        }
        free(mine);
    }
}

static int drop_garbage(void *unused)
{
    (void)unused;
    npa_drop_garbage();
    return 0;
}

/* With the lock, without the GIL: what an evaluation for a touch left goes when Python runs next
 * (before 3.13: when it takes its lock next), though the program may never record or evaluate
 * anything again. */
void npa_announce_garbage(void)
{
    if (npa_is_garbage() && Py_IsInitialized() && !atomic_exchange(&garbage_announced, true) &&
        Py_AddPendingCall(drop_garbage, NULL) < 0) {
        atomic_store(&garbage_announced, false); /* too many wait: the next recording does it */
    }
}

/* Its lines go to its program, which may know none yet. */
static void forget(npa_flush_record *h)
{
    npa_ledger *ledger = npa_program_ledger((npa_program *)h->program);
    if (ledger != NULL && npa_ledger_keep(ledger, h->asked, h->n)) {
        h->asked = NULL, h->n = 0;
    }
    for (int i = 0; i < h->n; i++) {
        npa_drop_later(h->asked[i].code);
    }
    npa_drop_later(h->program);
}

/* What explain() will ask of these requests; their references go, but for those it keeps. */
static void remember(PyObject *program, int done)
{
    npa_flush_record *h = &history[npa_q.serial % HISTORY];
    forget(h);
    h->program = program;
    h->serial = npa_q.serial;
    npa_moved before = npa_q.run.moved, now = npa_count.moved;
    h->moved = (npa_moved){now.bytes_up - before.bytes_up, now.bytes_down - before.bytes_down,
                           now.up_ns - before.up_ns, now.down_ns - before.down_ns};
    npa_asked *asked = realloc(h->asked, sizeof *asked * (size_t)done + 1);
    h->asked = asked != NULL ? asked : h->asked;
    h->n = asked != NULL ? done : 0;
    for (int i = 0; i < done; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        if (i < h->n) {
            h->asked[i] = (npa_asked){r->rule, r->code, r->lasti};
        } else {
            npa_drop_later(r->code);
        }
        npa_drop_later(r->globals);
    }
}

/* What lay on a device alone can't be had any more. */
static void lost_device(void)
{
    static const char text[] = "npaccel: an array that is being read was lost with its device\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) >= 0) {
        abort();
    }
}

/* Showing a page costs microseconds, and what others know of addresses is lost by it. So a result
 * of some size appears when somebody looks at its address; requests read it where it is. Masks are
 * what operations look at, as a rule, and have fewer bytes. */
enum { LEAST_HIDDEN = 64 << 10, LEAST_MASK = 8 << 10 };

static bool stays_hidden(const npa_buffer *b)
{
    const npa_range *range = b->range;
    return b->size >= (b->truths ? LEAST_MASK : LEAST_HIDDEN) && range->work != NULL &&
           range->work != range->home && b->copy == NULL && b->lost == NULL && !b->exported;
}

/* Nothing uses the buffer any more; its results appear, or stay hidden until somebody looks. 0, or
 * -1 if they could not. */
static int dequeue(npa_buffer *b)
{
    int status = 0;
    if (b->gone && b->range == NULL) {
        npa_copy_drop(b);
        free(b);
    } else if (b->range == NULL) {
        if (!npa_copy_home(b)) {
            npa_copy_drop(b);
            b->lost = NULL; /* told now; nobody can be kept from looking */
            status = -1;
        }
        npa_drop_later(b->owner);
        npa_foreign_end(b);
    } else if (b->next == b) { /* dead and off the list */
        npa_release(b);
    } else if (b->lost != NULL) {
        if (!npa_lost_hide(b)) {
            lost_device();
        }
    } else if (npa_copy_stays(b) || stays_hidden(b)) {
        b->fresh = false;
    } else {
        bool home = npa_copy_home(b);
        b->fresh = home && b->range->work == NULL; /* read before anything was written to it */
        if (!b->fresh && !atomic_load(&b->dead) && !(home && npa_range_publish(b->range) == 0)) {
            status = -1;
        }
    }
    return status;
}

/* Which of the `done` requests that have run wrote the buffer last; they lie there still where none
 * is left behind them. */
static npa_shortage written_by(int buffer, int done, size_t bytes)
{
    for (int i = done - 1; i >= 0 && npa_q.nrequests == 0; i--) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        for (int k = r->nin; k < r->nin + r->nout; k++) {
            if (npa_operand_at(r, k)->buffer == buffer) {
                return npa_shortage_of(&npa_q, i, done);
            }
        }
    }
    return (npa_shortage){.bytes = bytes};
}

/* The first `done` requests have run. Their results appear and they leave the queue, with all that
 * no other one uses. With the lock, perhaps without the GIL. */
static int finish_queue(PyObject *program, int done)
{
    int status = 0, kept = 0, before = npa_q.nbuffers;
    npa_q.run.unseen = (npa_shortage){.rule = NULL};
    npa_collect_dead();
    remember(program, done);
    npa_keep_rest(done);
    npa_q.fresh_bytes = 0, npa_q.small = 0;
    for (int i = 0; i < before; i++) {
        npa_buffer *b = npa_q.buffers[i];
        bool made = b->pending && (b->maker == NULL || b->maker == &npa_q);
        b->serial = made ? npa_q.serial : b->serial;
        b->pending &= !made;
        if (b->number < 0) {
            npa_buffer_leave(b);
            npa_q.buffers[i] = NULL;
        }
        if (b->number < 0 && b->index < 0) {
            size_t bytes = b->size;
            int shown = dequeue(b);
            npa_run *r = &npa_q.run;
            r->unseen = shown < 0 && r->unseen.rule == NULL ? written_by(i, done, bytes)
                                                            : r->unseen;
            status |= shown;
            continue;
        }
        b->fresh = b->range != NULL && b->range->work == NULL && b->copy == NULL;
        if (b->number >= 0) {
            npa_q.fresh_bytes += b->fresh && b->next != b ? b->size : 0;
            npa_q.buffers[kept++] = b;
        }
    }
    npa_rest_kept(kept);
    npa_end_scopes(done);
    npa_q.urgent = npa_q.repeatable = false;
    npa_q.unread &= npa_q.nrequests > 0;
    npa_q.serial = next_serial();
    change();
    return status;
}

void npa_finish_first(int done)
{
    bool urgent = npa_q.urgent, repeatable = npa_q.repeatable;
    npa_q.run.moved = npa_count.moved;
    finish_queue(NULL, done);
    npa_q.urgent = urgent && npa_q.nrequests > 0;
    npa_q.repeatable = repeatable && npa_q.nrequests > 0;
}

typedef int (*poll_function)(void *);

bool npa_run_stopped(void) { return npa_q.run.stopped; }

static bool same_place(const npa_request *r, npa_operand *a, npa_operand *b)
{
    return a->offset == b->offset && a->type == b->type &&
           memcmp(a->at, b->at, 8u * r->ndim) == 0;
}

/* An input that nobody sees and no later request reads gives its memory to the output, element for
 * element: a chain run request by request takes no second temporary. */
static npa_buffer *inherit(npa_request *r, int index, const int *last)
{
    int n = r->nin + r->nout;
    npa_operand *out = npa_operand_at(r, r->nin);
    npa_buffer *heir = npa_q.buffers[out->buffer < 0 ? 0 : out->buffer];
    if (r->rule->kind != NPA_MAP || r->axes || r->mask || r->nout != 1 || npa_q.repeatable ||
        out->buffer < 0 || heir->range == NULL || heir->range->work != NULL) {
        return NULL;
    }
    for (int k = 0; k < n; k++) {
        if (npa_operand_at(r, k)->type != r->rule->loop_type[k]) {
            return NULL; /* goes through a buffer, in an order of its own */
        }
    }
    for (int k = 0; k < r->nin; k++) {
        npa_operand *in = npa_operand_at(r, k);
        npa_buffer *b = in->buffer >= 0 ? npa_q.buffers[in->buffer] : NULL;
        bool fits = b != NULL && b->range != NULL && b->next == b && last[in->buffer] == index &&
                    b->size == heir->size && b->copy == NULL && heir->copy == NULL;
        for (int other = 0; fits && other < r->nin; other++) {
            npa_operand *o = npa_operand_at(r, other);
            fits = o->buffer != in->buffer || same_place(r, o, out);
        }
        char *content = fits ? b->range->work : NULL;
        if (content != NULL && npa_range_inherit(heir->range, b->range)) {
            b->range = NULL;
            b->gone = true;
            b->inherited = content;
            return b;
        }
    }
    return NULL;
}

/* Whether the request need not run: see unseen.c. why: NULL where all are to. */
static bool is_idle(const uint8_t *why, int i) { return why != NULL && why[i] == NPA_FOR_NOTHING; }

/* Per buffer the last request that uses it; -1: none that runs. */
static void find_last_uses(int *last, const uint8_t *why)
{
    for (int b = 0; b < npa_q.nbuffers; b++) {
        last[b] = -1;
    }
    for (int i = 0; i < npa_q.nrequests; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        bool idle = i < npa_q.run.requests && is_idle(why, i);
        for (int k = 0; !idle && k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            if (buffer >= 0) {
                last[buffer] = i;
            }
        }
    }
}

/* These requests have run. */
static void note_done(int first, int count, const int *last)
{
    npa_q.run.done = first + count;
    for (int i = first; i < first + count; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        npa_count.native_requests++;
        r->rule->touched++;
        for (int k = 0; k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            if (buffer >= 0 && last[buffer] == i) {
                npa_buffer_done(npa_q.buffers[buffer]);
            }
        }
    }
}

/* One request alone. 0, or -1: out of memory, and nothing was written. */
static int run_single(int index, const int *last, uint8_t *kinds)
{
    npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[index]);
    bool lost = npa_losses && npa_lost_request(&npa_q, index);
    npa_buffer *dead = lost ? NULL : inherit(r, index, last);
    int raised = lost ? 0 : npa_evaluate_request(&npa_q, index);
    if (raised < 0) {
        return -1; /* `dead` may be set: it is read there again */
    }
    if (dead != NULL) {
        dead->inherited = NULL;
    }
    kinds[index] = (uint8_t)raised;
    return 0;
}

/* The run's requests without a compiler: groups block by block, others by themselves. */
static int run_groups(const int *last, const uint8_t *why, npa_group *g, npa_tape *tape,
                      uint8_t *kinds, poll_function poll, bool *interrupted)
{
    while (npa_q.run.done < npa_q.run.requests) {
        int first = npa_q.run.done, count = 1, end = first, status;
        bool grouped = false;
        if (is_idle(why, first)) {
            npa_count.dead_requests++;
            npa_q.run.done++;
            continue;
        }
        while (end < npa_q.run.requests && !is_idle(why, end)) {
            end++;
        }
        if (npa_group_form(g, &npa_q, first, end, last)) {
            count = g->count;
            status = npa_group_lower(g, tape) < 0 ? -1 : npa_group_run(g, tape, kinds);
            grouped = true;
        } else {
            status = run_single(first, last, kinds);
        }
        if (status < 0) {
            return -1;
        }
        if (npa_profiling) {
            npa_profile_step(first, count, grouped ? NPA_STEP_BLOCKS : NPA_STEP_LOOP);
        }
        npa_log_request(&npa_q, first); /* in check mode a group is one */
        note_done(first, count, last);
        *interrupted = poll != NULL && poll(NULL);
        if (*interrupted && npa_q.run.done < npa_q.run.requests) {
            return 1;
        }
    }
    return 0;
}

static int run_once(uint8_t *kinds, poll_function poll, bool *interrupted)
{
    size_t buffers = (size_t)npa_q.nbuffers + 1;
    int *last = malloc(sizeof *last * buffers);
    npa_group *g = malloc(sizeof *g);
    int32_t *heads = malloc(sizeof *heads * buffers);
    uint8_t *why = npa_q.unread && !npa_check_mode ? malloc((size_t)npa_q.run.requests + 1) : NULL;
    npa_tape tape = {0};
    int status = -1;
    if (why != NULL) {
        /* Another queue may use what it makes, since it was planned */
        npa_mark_later(npa_q.run.requests);
    }
    if (why != NULL && !npa_find_unseen(&npa_q, npa_q.run.requests, why)) {
        free(why), why = NULL;
    }
    if (last != NULL && g != NULL && heads != NULL) {
        memset(heads, -1, sizeof *heads * buffers);
        g->heads = heads;
        find_last_uses(last, why);
        status = run_groups(last, why, g, &tape, kinds, poll, interrupted);
    }
    npa_tape_free(&tape);
    free(last), free(g), free(heads), free(why);
    return status;
}

static int go_on(uint8_t *kinds, poll_function poll, bool *interrupted)
{
    npa_program *program = (npa_program *)npa_q.run.program;
    struct timespec begin, end;
    bool whole = npa_q.run.done == 0;
    if (npa_profiling) {
        npa_profile_run(&npa_q, program, npa_q.run.requests, npa_program_single(program), whole);
    }
    clock_gettime(CLOCK_MONOTONIC, &begin);
    int status = npa_program_single(program)
        ? run_once(kinds, poll, interrupted)
        : npa_program_run(program, &npa_q, kinds, poll, NULL, interrupted, &npa_q.run.done);
    clock_gettime(CLOCK_MONOTONIC, &end);
    bool tried = !npa_flying(); /* trials are of what the program waits for */
    if (npa_profiling) {
        npa_profile_ran();
    }
    if (whole && status == 0) {
        npa_q.run.ns =
            (uint64_t)(1000000000 * (end.tv_sec - begin.tv_sec) + end.tv_nsec - begin.tv_nsec);
        npa_ledger_count(npa_program_ledger(program), npa_q.run.ns);
        if (program != NULL) {
            uint64_t of_round = npa_q.run.round > 0 ? npa_q.run.ns * (uint64_t)npa_q.run.round /
                                                          (uint64_t)npa_q.run.requests
                                                    : npa_q.run.ns;
            npa_program_note_time(program, of_round,
                                  npa_q.run.ns * (tried ? npa_trial_weight() : 1));
        }
        /* Kernels': this run may have been disturbed */
        uint64_t best = npa_program_expected(program);
        if (tried) {
            npa_trial_ran((uint64_t)npa_q.run.requests, best != 0 ? best : npa_q.run.ns,
                          npa_program_single(program),
                          program != NULL ? npa_program_rival(program) : 0);
        }
    }
    return status;
}

/* The run, which has not begun, goes request by request. */
static void one_by_one(void)
{
    npa_drop_later(npa_q.run.program);
    npa_q.run.program = NULL;
}

/* To the end, again if somebody wrote meanwhile into what it read. With the lock; needs no GIL.
 * 0 done, -1 out of memory, 1 interrupted. */
static int run_to_end(bool alone, poll_function poll, bool *interrupted)
{
    uint8_t *kinds = calloc((size_t)npa_q.nrequests + 1, 1);
    npa_copy_lost(); /* what was not told was not needed */
    int status = kinds == NULL || npa_foreign_settle(alone) < 0 ? -1
                                                                : go_on(kinds, poll, interrupted);
    if (status < 0 && kinds != NULL && !npa_copy_is_lost()) {
        npa_nursery_trim(0); /* memory that only we could use */
        status = npa_foreign_settle(alone) < 0 ? -1 : go_on(kinds, poll, interrupted);
    }
    while (status < 0 && npa_copy_lost()) { /* what does not need it runs */
        if (npa_q.run.done == 0) {
            one_by_one();
        }
        status = go_on(kinds, poll, interrupted);
    }
    while (status == 0 && npa_foreign_disturbed()) {
        npa_drop_later(npa_q.run.program);
        npa_q.run.program = NULL, npa_q.run.done = 0;
        status = npa_foreign_settle(alone) < 0 ? -1 : run_once(kinds, NULL, interrupted);
    }
    if (kinds != NULL) {
        npa_note_warnings(kinds);
    }
    free(kinds);
    return status;
}

/* Run what is pending; `program` (the run's from here on) and the number of `requests` that it is
 * for, perhaps each `round` of them, are those of a run that has not begun. As run_to_end; after 0,
 * finish_run. */
static int run_queue(PyObject *program, int requests, int round, bool alone, poll_function poll,
                     bool *interrupted)
{
    if (npa_q.run.stopped) {
        npa_drop_later(program);
    } else {
        npa_q.run.program = program, npa_q.run.requests = requests, npa_q.run.round = round;
        npa_q.run.done = 0;
        npa_q.run.moved = npa_count.moved;
        if (npa_losses && npa_lost_pending()) {
            one_by_one(); /* of requests that share a kernel some may need it */
        }
    }
    if (!npa_flying()) {
        npa_turn_expect(npa_program_expected((npa_program *)npa_q.run.program));
    }
    int status = run_to_end(alone, poll, interrupted);
    npa_q.run.failed =
        status < 0 ? npa_program_request((npa_program *)npa_q.run.program, npa_q.run.done) : -1;
    npa_q.run.stopped = status != 0 && npa_q.run.done > 0;
    if (status != 0 && !npa_q.run.stopped) {
        npa_drop_later(npa_q.run.program);
        npa_q.run.program = NULL;
    }
    return status;
}

static int finish_run(void)
{
    PyObject *program = npa_q.run.program;
    npa_q.run.program = NULL;
    npa_count.flushes++;
    return finish_queue(program, npa_q.run.requests);
}

/* All that is pending, a run that stopped may have been for a part of it. Where there is no GIL, or
 * may be none. `program`: of a run that begins; NULL: NumPy's loops. False: out of memory. */
static bool run_everything(npa_program *program)
{
    bool interrupted = false;
    npa_collect_dead(); /* their pages serve the results */
    while (npa_q.nrequests > 0) {
        if (!npa_await_makers() || !npa_run_hooks.settle_masks()) {
            return false;
        }
        if (npa_q.nrequests == 0) {
            break; /* somebody else ran it meanwhile */
        }
        if (run_queue((PyObject *)program, npa_q.nrequests, 0, false, NULL, &interrupted) != 0) {
            return false;
        }
        finish_run();
        program = NULL;
    }
    return true;
}

bool npa_run_loops(void) { return run_everything(NULL); }

/* On the evaluator's thread: what is pending, as a touch needs it; by its program where one is
 * known, see touched.c. False: out of memory. */
static bool run_touched(void)
{
    if (!npa_await_makers()) {
        return false;
    }
    npa_count.fault_evaluations++;
    npa_turn_begin();
    npa_collect_dead(); /* the key says who is */
    if (!npa_run_hooks.settle_masks()) {
        npa_turn_end();
        return false;
    }
    npa_program *program = npa_q.run.stopped ? NULL : npa_touched_find(npa_q.nrequests);
    bool begun = !npa_q.run.stopped;
    int requests = npa_q.nrequests;
    if (npa_profiling) {
        npa_profile_touch();
    }
    int before = npa_now(NPA_RUNNING);
    double start = npa_seconds();
    bool done = run_everything(program);
    uint64_t ns = (uint64_t)(1e9 * (npa_seconds() - start));
    npa_hinder_touched(requests, ns);
    npa_now(before);
    if (npa_profiling) {
        npa_profile_touched(ns);
    }
    if (done && begun) {
        npa_touched_ran(npa_q.run.ns);
    }
    npa_announce_garbage();
    npa_turn_end();
    return done;
}

/* A touch can't be told: it is repeated, and after a while a crash. Others may free memory
 * first. */
static void no_memory(void)
{
    static const char text[] =
        "npaccel: out of memory while computing an array that is being read\n";
    static bool told;
    const struct timespec pause = {.tv_nsec = 1000000};
    if (!told && write(STDERR_FILENO, text, sizeof text - 1) >= 0) {
        told = true;
    }
    nanosleep(&pause, NULL);
}

/* On the evaluator's thread: somebody touched a guarded page. */
void npa_serve_fault(npa_range *range)
{
    npa_lock_native();
    npa_buffer *b = range->buffer;
    if (b != NULL && b->index >= 0 && npa_waiting()) { /* written, or must not change */
        if (range->sealed) {
            npa_patience_tried(&b->patience);
        }
        bool done = npa_await_flights(b);
        b = range->buffer;
        if (!done || (b != NULL && b->index >= 0 && npa_q.nrequests > 0 && !run_touched())) {
            no_memory();
        }
        b = range->buffer;
    }
    if (b != NULL && b->index < 0 && range->work != range->home) {
        /* A result that nobody has looked at; or nothing was ever written to it, so any content
         * will do; or it could not be shown. */
        if (b->spot != NULL) {
            npa_trace_hooks.spot_read(b->spot);
        }
        enum npa_home before = npa_home_because(NPA_HOME_POINTER);
        bool home = npa_range_work(range) != NULL && npa_copy_home(b);
        npa_home_because(before);
        if (npa_range_work(range) == NULL) {
            no_memory();
        } else if (!home) { /* or `lost` */
            lost_device();
        } else if (npa_range_publish(range) == 0) {
            b->fresh = false;
        } else {
            no_memory();
        }
    }
    if (b == NULL || b->index < 0) { /* a write, of what requests only read */
        npa_range_break(range);
    }
    npa_unlock();
}

/* On the evaluator's thread: somebody writes into watched memory that requests are to read. */
void npa_serve_write(const void *address)
{
    npa_lock_native();
    npa_watch *w = npa_watch_around(address, (const char *)address + 1);
    bool done = w == NULL || npa_await_watch(w);
    w = npa_watch_around(address, (const char *)address + 1);
    if (!done) {
        no_memory();
    } else if (w != NULL && npa_watch_held(w)) {
        npa_patience before = w->patience;
        if (run_touched()) {
            w->patience = before; /* once, though its ends may have been found changed too */
            npa_patience_tried(&w->patience);
        } else {
            no_memory();
        }
    }
    if (w != NULL && !npa_watch_held(w)) {
        npa_watch_open(w);
    }
    npa_unlock();
}

/* What it writes must not be looked at before it has run. */
static void mark_pending(npa_request *r)
{
    for (int k = r->nin; k < r->nin + r->nout; k++) {
        npa_q.buffers[npa_operand_at(r, k)->buffer]->pending = true;
    }
}

/* Memory did not suffice for a request that must not wait: the exception says so, and it is
 * over. */
void npa_queue_withdraw(uint64_t serial)
{
    npa_lock();
    int last = npa_q.nrequests - 1;
    bool single = npa_program_single((npa_program *)npa_q.run.program);
    if (npa_q.generation == serial && last >= 0 &&
        !(npa_q.run.stopped && (!single || npa_q.run.done > last))) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[last]);
        npa_q.nrequests = last, npa_q.used = npa_q.at[last];
        npa_q.run.requests = npa_q.run.requests < last ? npa_q.run.requests : last;
        npa_trim_scopes();
        npa_drop_later(r->code), npa_drop_later(r->globals);
        for (int k = r->nin; k < r->nin + r->nout; k++) {
            npa_q.buffers[npa_operand_at(r, k)->buffer]->pending = false;
        }
        for (int i = 0; i < last; i++) {
            mark_pending((npa_request *)(npa_q.arena + npa_q.at[i]));
        }
        change();
        if (last == 0) {
            finish_queue(NULL, 0);
        }
    }
    npa_unlock();
}

void npa_flush_natively(void)
{
    npa_lock();
    npa_await_flights(NULL);
    run_everything(NULL);
    npa_unlock();
}

/* No plan, an exception is set, and something must not wait: NumPy's loops do it. */
static int fail(void)
{
    if (npa_q.urgent) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        npa_flush_natively();
        PyErr_Restore(type, error, trace);
    }
    return -1;
}

PyObject *npa_plan(PyObject *pending, const char *how)
{
    int before = npa_now(NPA_PLANNING);
    PyObject *program = how == NULL ? PyObject_CallOneArg(npa_hook_plan, pending)
                                    : PyObject_CallMethod(npa_hook_plan, how, "O", pending);
    npa_now(before);
    return npa_without_us(program);
}

/* The backend that is asked for, with the place of the data of the first requests. */
static uint64_t with_place(uint64_t backend, int requests)
{
    return backend ^ npa_place_number(npa_store_of(&npa_q, requests)) * 0x9e3779b97f4a7c15;
}

PyObject *npa_pending_now(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    npa_key key;
    uint64_t backend = npa_backend_here();
    npa_lock();
    npa_run_hooks.settle_masks();
    int requests = npa_q.nrequests;
    PyObject *found = npa_new_key(requests, with_place(backend, requests), &key)
        ? npa_pending_take(requests, &key) : PyErr_NoMemory();
    npa_unlock();
    return found;
}

/* Fewer requests are one program, whatever they are; a run of a loop has so many rounds, or
 * requests. */
enum { LEAST_LOOPED = 64, LEAST_ROUNDS = 3, BITTEN_ROUNDS = 4, BITTEN = 256, LEAST_COMPARED = 16 };
/* Requests of rounds that run as one, at most; the same, with what comes before, of a loop that has
 * as many rounds each time. */
enum { TOGETHER = 64, TOGETHER_STEADY = 256 };

/* Of `left` rounds those that run as one. */
static int together(int left)
{
    int n = 1, period = npa_q.known.loop.period;
    if (npa_q.known.steady) {
        int most = period < TOGETHER_STEADY ? TOGETHER_STEADY / period : 1;
        return most < left ? most : left;
    }
    while (npa_q.known.fuses && 2 * n <= left && 2 * n * period <= TOGETHER) {
        n *= 2;
    }
    return n;
}

/* Of loops that fuse, by what they look like: requests from look to look at results, and whether
 * these were as many the last times (1), not (less), or were met once (0). With the lock. */
static struct { uint64_t looks; int requests, same; } met_loops[64];

static bool is_steady(uint64_t looks)
{
    int k = (int)(looks % (sizeof met_loops / sizeof *met_loops));
    return met_loops[k].looks == looks && met_loops[k].same > 0;
}

/* Somebody looks at results: so many requests since the last time. */
static void note_end(uint64_t looks, int requests)
{
    enum { SETTLED = 4 };
    int k = (int)(looks % (sizeof met_loops / sizeof *met_loops)), same = met_loops[k].same;
    bool known = met_loops[k].looks == looks;
    met_loops[k].same = !known                              ? 0
                        : met_loops[k].requests != requests ? -SETTLED
                                                            : same + (same < 1);
    met_loops[k].looks = looks, met_loops[k].requests = requests;
}

/* How many requests it takes until a loop is looked for. */
static int next_look(void) { return npa_q.looked > 0 ? npa_q.looked : LEAST_LOOPED; }

static bool is_full(void)
{
    return npa_q.nrequests >= npa_queue_limit || npa_q.fresh_bytes > npa_memory_limit;
}
bool npa_over_limit(void) { return npa_q.nrequests >= next_look() || is_full(); }
static bool is_known(void) { return npa_q.known.generation == npa_q.generation; }

/* A run that a limit forces goes on while there are two rounds: the last one may show more than
 * others. */
static bool goes_on(bool rounds)
{
    return !rounds || npa_over_limit() ||
           (is_known() && npa_q.known.cut && npa_q.known.loop.start == 0 &&
            npa_q.known.loop.rounds > together(INT_MAX));
}

static void find_loop(bool rounds)
{
    int n = npa_q.nrequests;
    bool long_enough = n >= LEAST_LOOPED && !npa_match_inside() && !npa_check_mode;
    npa_q.known.generation = npa_q.generation;
    npa_q.known.loop = long_enough || (rounds && !npa_check_mode) ? npa_loop_find() : (npa_loop){0};
    npa_q.known.cut = long_enough && npa_q.known.loop.rounds >= LEAST_ROUNDS;
    npa_q.known.fuses = npa_q.known.cut && npa_loop_fuses(npa_q.known.loop);
    uint64_t looks = npa_q.known.fuses ? npa_q.known.loop.looks : 0;
    if (rounds && looks != 0 && looks != npa_q.gone.looks) {
        npa_q.gone.looks = looks, npa_q.gone.requests = 0;
    } else if (!rounds) {
        looks = npa_q.gone.looks != 0 ? npa_q.gone.looks : looks;
        if (looks != 0) {
            note_end(looks, npa_q.gone.requests + n);
        }
        npa_q.gone.looks = 0, npa_q.gone.requests = 0;
    }
    npa_q.known.steady = npa_q.known.fuses && is_steady(looks);
}

/* How many requests run next; *round > 0: those are of a loop with so many a round, of which one
 * runs if there is code for it. rounds: a limit forces it, and the end of a loop's last round may
 * wait; as may all where there is no loop, and room (0). */
static int next_to_run(bool rounds, int *round)
{
    *round = 0;
    if (npa_q.urgent || npa_q.run.stopped) {
        return npa_q.nrequests;
    }
    if (!is_known() || (!rounds && npa_q.gone.looks != 0)) {
        find_loop(rounds);
    }
    npa_loop *loop = &npa_q.known.loop;
    if (rounds && !is_full() &&
        (!npa_q.known.cut || (npa_q.known.fuses && loop->rounds <= together(INT_MAX)))) {
        npa_q.looked = 2 * next_look();
        return 0;
    }
    int end = loop->start + loop->rounds * loop->period;
    if (npa_q.known.cut && loop->start > 0 && !(npa_q.known.steady && end <= TOGETHER_STEADY)) {
        return loop->start;
    }
    int run = npa_q.known.steady ? together(loop->rounds) : together(loop->rounds - 1);
    *round = npa_q.known.cut && loop->rounds > run ? loop->period * run : 0;
    return rounds && loop->rounds > 0 ? end : npa_q.nrequests;
}

/* How many requests of rounds show what `period` of them take block by block, in chains as long as
 * they may be. */
static int to_compare(int period)
{
    int least = 2 * period < LEAST_COMPARED ? LEAST_COMPARED / period : 2;
    int left = (npa_q.known.loop.rounds - 1) * npa_q.known.loop.period / period;
    return period * (least < left ? least : left);
}

/* So many requests have run, and left the queue; compiled: by code for one round of `period`, if
 * that is not 0. before: the generation until then. limited: nobody has looked at results. */
static void note_ran(int requests, int period, bool compiled, uint64_t before, bool limited)
{
    npa_loop *loop = &npa_q.known.loop;
    npa_q.gone.requests += limited ? requests : 0;
    bool first = loop->start > 0 && requests == loop->start;
    bool some = loop->start == 0 && requests < loop->rounds * loop->period &&
                requests % loop->period == 0;
    if (npa_q.known.generation == before && npa_q.known.cut && (first || some)) {
        loop->rounds -= some ? requests / loop->period : 0;
        loop->start = 0;
        npa_q.known.generation = npa_q.generation;
    }
    if (period > 0) {
        int least = compiled ? LEAST_LOOPED : BITTEN;
        npa_q.looked = BITTEN_ROUNDS * period > least ? BITTEN_ROUNDS * period : least;
    } else if (npa_q.nrequests == 0) {
        npa_q.looked = LEAST_LOOPED;
    }
}

/* With the lock and the GIL: new references to the Program of the first requests and, where none is
 * known or they are to be compared, to what they are. Neither: error set. */
static void find_program(int requests, uint64_t backend, bool check, PyObject **program,
                         PyObject **pending)
{
    npa_key key;
    if ((check && npa_foreign_settle(false) < 0) ||
        !npa_make_key(requests, with_place(backend, requests), &key)) {
        PyErr_NoMemory();
        return;
    }
    npa_program *found = npa_plans_find(&key);
    *program = found != NULL && !npa_program_due(found) ? Py_NewRef((PyObject *)found) : NULL;
    if (*program != NULL) {
        npa_program_note_use(*program);
        *(npa_program_waits(found) ? &npa_count.rests : &npa_count.plan_hits) += 1;
    } else {
        npa_count.plan_misses++;
    }
    if (*program == NULL || check) {
        *pending = npa_pending_take(requests, &key);
    }
    if (*pending == NULL && check) {
        Py_CLEAR(*program);
    }
}

/* A run ended for want of memory, or of a device that had the only copy of something. */
static void set_error(void)
{
    if (npa_copy_lost()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "data that lay on a device alone can't be brought back");
        npa_shortage_tell(&(npa_shortage){.rule = NULL});
    } else {
        npa_lock();
        npa_shortage found = npa_q.run.failed < 0
                                 ? npa_q.run.unseen
                                 : npa_shortage_of(&npa_q, npa_q.run.failed, npa_q.nrequests);
        /* It is in the queue, or in the history */
        Py_XINCREF(found.rule != NULL ? found.code : NULL);
        npa_unlock();
        npa_shortage_error(&found);
        Py_XDECREF(found.rule != NULL ? found.code : NULL);
    }
}

static int flush_queue(bool rounds)
{
    while (npa_q.nrequests > 0 && goes_on(rounds)) {
        uint64_t backend = npa_backend_here();
        if (npa_flights > 0 && npa_join_makers() < 0) {
            return -1;
        }
        npa_lock();
        bool settled = npa_run_hooks.settle_masks();
        npa_unlock();
        if (!settled) {
            PyErr_NoMemory();
            return fail();
        }
        if (!npa_q.run.stopped && npa_hush_unseen() < 0) {
            return fail();
        }
        npa_lock();
        if (npa_q.nrequests == 0) {
            npa_unlock();
            break;
        }
        /* Who waits for the lock gives up the GIL: another thread has recorded a pick. */
        if (npa_q.masked && !npa_q.run.stopped) {
            npa_unlock();
            continue;
        }
        npa_collect_dead();
        uint64_t seen = npa_q.generation;
        bool going_on = npa_q.run.stopped || npa_until_loops();
        int round, requests = next_to_run(rounds, &round);
        if (requests == 0) {
            npa_unlock();
            break;
        }
        PyObject *program = going_on ? Py_NewRef(Py_None) : NULL, *pending = NULL;
        bool check = !going_on && npa_check_due();
        if (!going_on) {
            find_program(round > 0 ? round : requests, backend, check, &program, &pending);
        }
        npa_unlock();
        if (program == NULL && pending != NULL) {
            program = npa_plan(pending, NULL);
        }
        if (!check) {
            Py_CLEAR(pending);
        }
        if (program == NULL) {
            Py_XDECREF(pending);
            return fail();
        }
        if (program == Py_None) {
            Py_CLEAR(program);
        }
        npa_lock();
        /* Somebody else ran or added requests: the plan is kept for its own */
        if (npa_q.generation != seen) {
            npa_unlock();
            Py_XDECREF(program), Py_XDECREF(pending);
            continue;
        }
        bool compiled = !npa_program_single((npa_program *)program);
        bool compared = round > 0 && compiled && npa_program_compares((npa_program *)program);
        requests = compared ? to_compare(round) : round > 0 && compiled ? round : requests;
        bool interrupted = false;
        npa_log_begin(check);
        bool alone = npa_alone();
        bool watched = !npa_program_brief((npa_program *)program) && npa_interrupts_begin();
        PyThreadState *mine = PyEval_SaveThread();
        npa_contents contents = {0}, results = {0};
        if (check && npa_foreign_settle(false) == 0) {
            npa_contents_copy(&contents, false);
        }
        int status = run_queue(compared ? NULL : program, requests, compiled ? 0 : round, alone,
                               watched && !npa_q.urgent ? npa_interrupted : NULL, &interrupted);
        if (status == 0) {
            if (check) {
                npa_contents_copy(&results, true);
            }
            if (compared) {
                npa_program_note_rival((npa_program *)program,
                                       npa_q.run.ns * (uint64_t)round / (uint64_t)requests);
            }
            status = finish_run();
            note_ran(requests, round, compiled, seen, rounds);
        }
        npa_unlock();
        PyEval_RestoreThread(mine);
        if (watched) {
            npa_interrupts_end();
        }
        if (compared) {
            Py_DECREF(program);
        }
        if (check && status == 0) {
            status = npa_check_run(pending, &contents, &results) < 0 ? 1 : 0;
        }
        npa_contents_drop(&contents), npa_contents_drop(&results);
        npa_log_end();
        Py_XDECREF(pending);
        npa_drop_garbage();
        if (status < 0 && !PyErr_Occurred()) {
            set_error();
        }
        if (interrupted && !PyErr_Occurred() && PyErr_CheckSignals() == 0 && status == 1) {
            continue; /* the handler raised nothing: the rest of the work is done after it */
        }
        if (PyErr_Occurred()) {
            return -1; /* after an interrupt what was pending stays pending */
        }
    }
    if (npa_device_trouble()) { /* its work was done on the host */
        PyObject *told = PyObject_CallMethod(npa_hook_plan, "device_failed", NULL);
        if (told == NULL) {
            return -1;
        }
        Py_DECREF(told);
    }
    npa_drop_garbage(); /* of evaluations that faults began */
    return npa_issue_warnings();
}

/* The first of them, whose program is known, has no GIL to ask for another; the others are looked
 * up. */
int npa_run_known(PyObject *program, poll_function poll)
{
    for (bool first = true; npa_q.nrequests > 0; first = false) {
        bool interrupted = false;
        npa_collect_dead();
        uint64_t seen = npa_q.generation;
        int round, requests = next_to_run(false, &round);
        if (!first) {
            program = (PyObject *)npa_touched_find(round > 0 ? round : requests);
        }
        bool compiled = !npa_program_single((npa_program *)program);
        requests = round > 0 && compiled ? round : requests;
        int status = run_queue(program, requests, compiled ? 0 : round, false, poll, &interrupted);
        if (status != 0) {
            return status;
        }
        if (!first) {
            npa_touched_ran(npa_q.run.ns);
        }
        finish_run(); /* what can't be shown stays hidden: who looks at it is told */
        note_ran(requests, round, compiled, seen, false);
    }
    return 0;
}

/* Whether this program of the first requests may run without Python, beside the program; one that
 * is known to take less than that long is not worth handing over. */
static bool may_fly(const npa_program *program, int requests, uint64_t least_ns)
{
    bool whole = requests == npa_q.nrequests;
    uint64_t expected = npa_program_expected(program);
    return !(program != NULL && npa_program_foreign(program)) && (whole || npa_stores == NULL) &&
           !(whole && expected > 0 && expected < least_ns);
}

/* The program of what is recorded first, or NULL: that of NumPy's loops. *seen: for this
 * generation. */
static int plan_first(PyObject **program, int *requests, uint64_t *seen)
{
    PyObject *pending = NULL;
    uint64_t backend = npa_backend_here();
    int round;
    npa_lock();
    npa_collect_dead();
    if (!npa_run_hooks.settle_masks()) {
        npa_unlock();
        PyErr_NoMemory();
        return -1;
    }
    *seen = npa_q.generation, *program = NULL;
    *requests = npa_q.nrequests > 0 ? next_to_run(false, &round) : 0;
    if (*requests > 0) {
        *requests = round > 0 ? round : *requests;
        find_program(*requests, backend, false, program, &pending);
    }
    npa_unlock();
    if (*program == NULL && pending != NULL) {
        *program = npa_plan(pending, NULL);
    }
    Py_XDECREF(pending);
    if (*program == NULL && *requests > 0) {
        return -1;
    }
    if (*program == Py_None) {
        Py_CLEAR(*program);
    }
    return 0;
}

static int launch(uint64_t *flight, uint64_t least_ns)
{
    *flight = 0;
    while (npa_q.nrequests > 0) {
        PyObject *program;
        int requests;
        uint64_t seen;
        if (!npa_flights_may() || npa_q.urgent || npa_q.run.stopped) {
            return npa_flush_recorded();
        }
        if (npa_hush_unseen() < 0 || npa_flights_room() < 0 ||
            plan_first(&program, &requests, &seen) < 0) {
            return -1;
        }
        npa_lock();
        bool same = requests > 0 && npa_q.generation == seen;
        bool flies = same && may_fly((npa_program *)program, requests, least_ns);
        *flight = flies ? npa_flight_begin(program) : 0;
        if (*flight != 0) { /* what is recorded now is another queue */
            npa_count.flights++;
            npa_q.serial = next_serial();
            change();
        }
        npa_unlock();
        if (*flight != 0) {
            return 0;
        }
        Py_XDECREF(program);
        if (same) {
            return npa_flush_recorded();
        }
    }
    return 0;
}

int npa_launch_recorded(uint64_t *flight, uint64_t least_ns)
{
    npa_suspended++;
    int status = launch(flight, least_ns);
    npa_suspended--;
    return status;
}

/* What runs here of Python is ours: its arrays are NumPy's. */
static int suspended_flush(bool rounds)
{
    int before = npa_now(NPA_RUNNING);
    int requests = npa_q.nrequests;
    double start = npa_seconds();
    npa_suspended++;
    npa_turn_begin();
    int status = flush_queue(rounds);
    npa_turn_end();
    npa_suspended--;
    npa_hinder_ran(requests - npa_q.nrequests, npa_seconds() - start);
    npa_match_settle();
    npa_now(before);
    return status;
}

int npa_flush_recorded(void) { return suspended_flush(false); }
int npa_flush(void)
{
    int status = npa_flush_recorded();
    return status < 0 || npa_flights == 0 ? status : npa_flights_join(-1);
}

int npa_flush_rounds(void)
{
    if (!npa_over_limit()) {
        return 0;
    }
    npa_run_because(NPA_FULL);
    return suspended_flush(true);
}

/* A result that could not be shown may be by now; one that lies on a device comes back; what holds
 * nothing yet is shown with any content. */
static int show(PyArrayObject *array, bool write)
{
    npa_lock();
    npa_buffer *b = npa_buffer_of(array);
    const npa_store *from = b != NULL ? npa_copy_store(b) : NULL;
    enum npa_home because = npa_home_because(NPA_HOME_CALL);
    uint64_t before = npa_count.moved.bytes_down;
    bool hidden = b != NULL && b->index < 0 && b->range->work != b->range->home;
    bool there = b == NULL || b->lost == NULL;
    npa_copy_lost(); /* of something else */
    bool shown = there && (!hidden || (npa_range_work(b->range) != NULL && npa_copy_home(b) &&
                                       npa_range_publish(b->range) == 0));
    bool lost = !shown && (!there || npa_copy_lost());
    if (shown && hidden) {
        b->fresh = false; /* whoever asked may write there */
    }
    uint64_t moved = npa_count.moved.bytes_down - before;
    npa_home_because(because);
    npa_unlock();
    npa_count_shown(from, write, moved);
    return shown ? 0 : lost ? npa_lost_error(array, b) : npa_shortage_shown(array);
}

static bool away(PyArrayObject *array)
{
    npa_range *range = npa_range_find(PyArray_DATA(array));
    return range != NULL && range->work != range->home;
}

/* It may be written: what reads it has run. */
static int open_sealed(npa_buffer *b)
{
    if (npa_q.nrequests > 0 && b->index >= 0 && npa_flush_recorded() < 0) {
        return -1;
    }
    npa_lock();
    npa_range_unseal(b->range);
    npa_unlock();
    return 0;
}

int npa_touch(PyArrayObject *array, bool write)
{
    if (npa_placeholders > 0 && npa_trace_hooks.section_stop(array, NULL) < 0) {
        return -1;
    }
    npa_buffer *b = npa_buffer_of(array);
    if (npa_flights > 0 && (b != NULL ? npa_flights_let_go(b, write || away(array))
                            : write   ? npa_flights_let_go_of(array)
                                      : 0) < 0) {
        return -1;
    }
    if (away(array) && show(array, write) < 0) {
        return -1;
    }
    if (write && b != NULL && b->range->sealed && open_sealed(b) < 0) {
        return -1;
    }
    if (npa_q.nrequests == 0) {
        return npa_warnings_found() ? npa_issue_warnings() : 0;
    }
    if (b != NULL) {
        bool hidden = b->range->work != b->range->home;
        if (!b->pending && (b->index < 0 || !(write || hidden))) {
            return 0;
        }
        return npa_flush_recorded() < 0 || (away(array) && show(array, write) < 0) ? -1 : 0;
    }
    if (!write) {
        return 0;
    }
    npa_lock();
    bool waits = npa_foreign_waits(array);
    npa_unlock();
    return waits ? npa_flush_recorded() : 0;
}

/* --------------------------------------------------------------------------- for Python */

void npa_note_home(uint64_t serial, uint64_t ns)
{
    npa_flush_record *h = &history[serial % HISTORY];
    if (h->serial == serial && h->program != NULL) {
        npa_program_note_home((npa_program *)h->program, ns);
    }
}

/* A copy of what is remembered of a run; NULL: no memory. */
static npa_asked *copied(const npa_flush_record *h)
{
    npa_asked *copy = malloc(sizeof *copy * (size_t)h->n + 1);
    for (int i = 0; copy != NULL && i < h->n; i++) {
        copy[i] = h->asked[i];
        Py_XINCREF(copy[i].code);
    }
    return copy;
}

void npa_history_lend(void)
{
    for (int i = 0; i < HISTORY; i++) {
        npa_ledger *ledger = npa_program_ledger((npa_program *)history[i].program);
        npa_asked *copy = ledger != NULL && ledger->asked == NULL ? copied(&history[i]) : NULL;
        if (copy != NULL) {
            npa_ledger_keep(ledger, copy, history[i].n);
        }
    }
}

PyObject *npa_history_entry(uint64_t serial)
{
    npa_lock(); /* a run in flight may end meanwhile */
    npa_flush_record found = history[serial % HISTORY], *h = &found;
    bool known = npa_q.serial != 0 && h->serial == serial && h->asked != NULL;
    h->asked = known ? copied(h) : NULL;
    Py_XINCREF(known ? h->program : NULL);
    npa_unlock();
    if (!known) {
        Py_RETURN_NONE;
    }
    PyObject *told = h->asked != NULL ? npa_asked_told(h->asked, h->n) : PyErr_NoMemory();
    for (int i = 0; h->asked != NULL && i < h->n; i++) {
        Py_XDECREF(h->asked[i].code);
    }
    free(h->asked);
    PyObject *entry = told == NULL ? NULL
                                   : Py_BuildValue("(KON(KKdd))", (unsigned long long)h->serial,
                                                   h->program ? h->program : Py_None, told,
                                                   (unsigned long long)h->moved.bytes_up,
                                                   (unsigned long long)h->moved.bytes_down,
                                                   1e-9 * (double)h->moved.up_ns,
                                                   1e-9 * (double)h->moved.down_ns);
    Py_XDECREF(h->program);
    return entry;
}

