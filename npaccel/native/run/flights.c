/* flights.c: runs that go on while the program does, on native threads, without Python.
 *
 *     recorded ──launch──► a run's own queue ──► thread: kernels without the lock, all else with it
 *         │                     │ stops: no memory, Ctrl-C at the end
 *         ▼                     ▼
 *     an empty queue       whoever needs it goes on with it, as with what is recorded
 *
 * A buffer knows how many runs use it and which one makes it. Note [In flight] */
#define _GNU_SOURCE
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RUNNERS = 4, MOST_FLIGHTS = 64, SLICE_NS = NPA_FLIGHT_SLICE_NS };
static const size_t stack_bytes = (size_t)8 << 20;

/* RUNS: a runner has it; STOPPED: whoever has the lock may */
typedef enum { WAITS, RUNS, STOPPED } state;
typedef struct flight flight;
struct flight {
    npa_queue q; /* first, see flight_of */
    uint64_t id;
    state state;
    PyObject *program; /* of what runs first; owned */
    size_t bytes;      /* that its results take */
    bool scarce;       /* memory did not suffice while others ran: it goes on when none does */
    int holders;       /* threads that go on with it, and may not have seen that it is over */
    bool over;
};

static int runners;          /* threads */
static int idle;             /* of them, that wait for something to do */
static bool ended;           /* nothing is begun any more */
static atomic_int cancelled; /* runs stop where they can */

/* ------------------------------------------------------------------------ with the lock: which */

static flight *flight_of(npa_queue *q) { return (flight *)q; }

static flight *oldest(void) { return flight_of(npa_oldest_flying); }

static flight *after(const flight *f) { return flight_of(f->q.next); } /* a younger one */

static flight *find(uint64_t id)
{
    flight *f = oldest();
    while (f != NULL && f->id != id) {
        f = after(f);
    }
    return f;
}

static bool uses(const flight *f, const npa_buffer *b)
{
    bool found = false;
    for (int i = 0; i < f->q.nbuffers && !found; i++) {
        found = f->q.buffers[i] == b;
    }
    return found;
}

uint64_t npa_flight_of(const npa_buffer *b)
{
    flight *f = b->flights > 0 ? oldest() : NULL;
    while (f != NULL && !uses(f, b)) {
        f = after(f);
    }
    return f != NULL ? f->id : 0;
}

uint64_t npa_flight_making(const npa_buffer *b)
{
    return b->maker != NULL ? flight_of(b->maker)->id : 0;
}

/* It goes on without anybody's help. */
static bool runs(const flight *f)
{
    return f->state == RUNS || (f->state == WAITS && runners > 0);
}

bool npa_flight_runs(uint64_t id)
{
    const flight *f = find(id);
    return f != NULL && runs(f);
}

/* The run that makes something that this queue uses; NULL: there is none. */
static flight *maker_of(const npa_queue *q)
{
    for (int i = 0; i < q->nbuffers; i++) {
        npa_queue *maker = q->buffers[i] != NULL ? q->buffers[i]->maker : NULL;
        if (maker != NULL && maker != q) {
            return flight_of(maker);
        }
    }
    return NULL;
}

/* ---------------------------------------------------------------------- with the lock: running */

static void free_flight(flight *f)
{
    free(f->q.buffers), free(f->q.arena), free(f->q.at), free(f->q.marks.at);
    free(f);
}

static void note_over(flight *f)
{
    npa_queue **at = &npa_oldest_flying;
    while (*at != &f->q) {
        at = &(*at)->next;
    }
    *at = f->q.next;
    f->over = true;
    npa_drop_later(f->program);
    atomic_fetch_sub(&npa_flights, 1);
    if (f->holders == 0) {
        free_flight(f);
    }
}

/* Somebody has worked on it. */
static void put_down(flight *f)
{
    if (!f->over && f->q.nrequests == 0) {
        note_over(f);
    } else if (!f->over) {
        f->state = STOPPED;
    } else if (f->holders == 0) {
        free_flight(f);
    }
    npa_lock_tell();
}

static bool others_run(const flight *but)
{
    bool run = false;
    for (flight *f = oldest(); f != NULL && !run; f = after(f)) {
        run = f != but && f->state == RUNS;
    }
    return run;
}

/* A runner has; what it lacked others may give back. */
static void put_back(flight *f, int status)
{
    put_down(f);
    if (status < 0 && others_run(f)) {
        f->scarce = true, f->state = WAITS;
    }
}

static int poll_cancelled(void *unused)
{
    (void)unused;
    return atomic_load_explicit(&cancelled, memory_order_relaxed);
}

/* The oldest one that needs nothing of another. What needs something of one that stopped stops,
 * too. */
static flight *pick(bool *waits)
{
    flight *found = NULL;
    *waits = false;
    for (flight *f = oldest(); f != NULL; f = after(f)) {
        flight *maker = f->state == WAITS ? maker_of(&f->q) : NULL;
        if (maker != NULL && maker->state == STOPPED) {
            f->state = STOPPED;
            npa_lock_tell();
        }
        *waits |= f->state == WAITS;
        bool ready = f->state == WAITS && maker == NULL && !(f->scarce && others_run(f));
        found = found == NULL && ready ? f : found;
    }
    return found;
}

static void *run_flights(void *blocks)
{
    flight *f;
    bool waits;
    npa_fly();
    npa_guard_never_waits();
    npa_own_blocks(blocks);
    npa_lock_native();
    while ((f = pick(&waits)) != NULL || waits) {
        if (f == NULL) {
            idle++;
            npa_lock_wait(0);
            idle--;
            continue;
        }
        PyObject *program = f->program;
        f->program = NULL, f->state = RUNS;
        npa_queue_here = &f->q;
        int status = npa_run_known(program, poll_cancelled);
        npa_queue_here = &npa_recorded;
        put_back(f, status);
        npa_announce_garbage();
    }
    runners--;
    npa_lock_tell();
    npa_unlock();
    npa_aligned_free(blocks);
    return NULL;
}

/* Whether there is, or is now, a thread that will run what waits. */
static bool find_runner(void)
{
    pthread_t thread;
    int waiting = 0; /* others, that an idle one is there for */
    for (flight *f = oldest(); f != NULL; f = after(f)) {
        waiting += f->state == WAITS;
    }
    if (idle > waiting || runners == MOST_RUNNERS) {
        return true;
    }
    char *blocks = npa_aligned(64, npa_own_blocks_bytes());
    if (blocks == NULL || npa_thread_start(&thread, run_flights, blocks, stack_bytes) != 0) {
        npa_aligned_free(blocks);
        return runners > 0;
    }
    pthread_detach(thread);
    runners++;
    return runners > 0;
}

uint64_t npa_flight_begin(PyObject *program)
{
    static uint64_t last;
    flight *f = calloc(1, sizeof *f);
    npa_queue **at = &npa_oldest_flying;
    if (f == NULL || !find_runner()) {
        free(f);
        return 0;
    }
    f->q = npa_recorded, f->id = ++last, f->program = program, f->bytes = npa_recorded.fresh_bytes;
    npa_recorded = (npa_queue){.backend = f->q.backend};
    f->q.foreign = NULL; /* `next` is for what is recorded */
    for (int i = 0; i < f->q.nbuffers; i++) {
        npa_buffer *b = f->q.buffers[i];
        b->index = NPA_IN_FLIGHT;
        b->flights++;
        b->maker = b->pending && b->maker == NULL ? &f->q : b->maker;
    }
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = &f->q;
    atomic_fetch_add(&npa_flights, 1);
    npa_lock_tell();
    return f->id;
}

/* -------------------------------------------------- with the lock, waiting without Python */

/* Until it is over. False: it stopped, and memory does not suffice to go on. */
static bool await(uint64_t id)
{
    flight *f;
    while ((f = find(id)) != NULL) {
        if (runs(f)) {
            npa_lock_wait(0);
            continue;
        }
        f->holders++;
        f->state = STOPPED;
        npa_queue *before = npa_queue_here;
        npa_queue_here = &f->q;
        bool done = npa_run_loops();
        npa_queue_here = before;
        f->holders--;
        put_down(f);
        if (!done) {
            return false;
        }
    }
    return true;
}

bool npa_await_makers(void)
{
    flight *maker;
    while (npa_flights > 0 && (maker = maker_of(&npa_q)) != NULL) {
        if (!await(maker->id)) {
            return false;
        }
    }
    return true;
}

bool npa_await_flights(const npa_buffer *b)
{
    if (b != NULL) {
        npa_range *range = b->range;
        for (uint64_t id; b != NULL && (id = npa_flight_of(b)) != 0; b = range->buffer) {
            if (!await(id)) {
                return false;
            }
        }
        return true;
    }
    bool all = true;
    flight *f = oldest();
    while (f != NULL) { /* those that run are waited for, whatever became of others */
        uint64_t id = f->id;
        all &= await(id);
        for (f = oldest(); f != NULL && f->id <= id; f = after(f)) {
        }
    }
    while (runners > 0) { /* they are about to end */
        npa_lock_wait(0);
    }
    return all;
}

bool npa_await_watch(const npa_watch *w)
{
    flight *f;
    while (npa_flights > 0 && (f = flight_of(npa_flights_watch(w, NULL))) != NULL) {
        if (!await(f->id)) {
            return false;
        }
    }
    return true;
}

/* ------------------------------------------------------------------------ with the GIL, waiting */

/* It has stopped: go on with it, as with what is recorded. 0, or -1 with an exception. */
static int go_on(flight *f)
{
    npa_queue *before = npa_queue_here;
    npa_queue_here = &f->q;
    int status = npa_flush_recorded();
    npa_queue_here = before;
    npa_lock();
    f->holders--;
    put_down(f);
    npa_unlock();
    return status;
}

/* Sleep until something has changed, or for a moment, unless it is over. */
static void wait_for(uint64_t id)
{
    npa_lock_native();
    if (npa_flight_runs(id)) {
        npa_lock_wait(SLICE_NS);
    }
    npa_unlock();
}

int npa_flight_join(uint64_t id, double until)
{
    for (;;) {
        npa_lock();
        flight *f = find(id);
        bool ours = f != NULL && !runs(f);
        if (ours) {
            f->state = STOPPED;
            f->holders++;
        }
        npa_unlock();
        if (f == NULL) {
            return 0;
        }
        if (ours) {
            if (go_on(f) < 0) {
                return -1;
            }
            continue;
        }
        if (until >= 0 && npa_seconds() >= until) {
            return 1;
        }
        Py_BEGIN_ALLOW_THREADS
        wait_for(id);
        Py_END_ALLOW_THREADS
        if (PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
}

int npa_flights_join(double until)
{
    npa_lock();
    uint64_t last = 0;
    for (flight *f = oldest(); f != NULL; f = after(f)) {
        last = f->id;
    }
    npa_unlock();
    for (;;) {
        npa_lock();
        uint64_t id = oldest() != NULL && oldest()->id <= last ? oldest()->id : 0;
        npa_unlock();
        int status = id != 0 ? npa_flight_join(id, until) : 0;
        if (id == 0 || status != 0) {
            return status;
        }
    }
}

int npa_flights_let_go(npa_buffer *b, bool write)
{
    for (;;) {
        npa_lock();
        uint64_t id = write ? npa_flight_of(b) : npa_flight_making(b);
        npa_unlock();
        if (id == 0) {
            return 0;
        }
        if (npa_flight_join(id, -1) < 0) {
            return -1;
        }
    }
}

int npa_flights_let_go_of(PyArrayObject *a)
{
    char *low, *high;
    npa_extent(a, &low, &high);
    for (;;) {
        npa_lock();
        npa_buffer *b = npa_flights_buffer(low, high);
        uint64_t id = b != NULL ? npa_flight_of(b) : 0;
        npa_unlock();
        if (id == 0) {
            return 0;
        }
        if (npa_flight_join(id, -1) < 0) {
            return -1;
        }
    }
}

int npa_join_makers(void)
{
    for (;;) {
        npa_lock();
        flight *maker = maker_of(&npa_q);
        uint64_t id = maker != NULL ? maker->id : 0;
        npa_unlock();
        if (id == 0) {
            return 0;
        }
        if (npa_flight_join(id, -1) < 0) {
            return -1;
        }
    }
}

/* Nobody queues without end: memory is used from when a run begins. */
int npa_flights_room(void)
{
    for (;;) {
        npa_lock();
        size_t bytes = npa_recorded.fresh_bytes;
        int n = 0;
        for (flight *f = oldest(); f != NULL; f = after(f)) {
            bytes += f->bytes, n++;
        }
        uint64_t id = n > 0 && (n >= MOST_FLIGHTS || bytes > npa_memory_limit) ? oldest()->id : 0;
        npa_unlock();
        if (id == 0) {
            return 0;
        }
        if (npa_flight_join(id, -1) < 0) {
            return -1;
        }
    }
}

bool npa_flights_ended(void) { return ended; }

void npa_flights_end(bool cancel)
{
    ended = true;
    atomic_store(&cancelled, cancel);
    Py_BEGIN_ALLOW_THREADS
    npa_lock_native();
    for (flight *f = oldest(); cancel && f != NULL; f = after(f)) {
        f->state = f->state == WAITS ? STOPPED : f->state;
    }
    npa_lock_tell();
    while (cancel && runners > 0) {
        npa_lock_wait(0);
    }
    npa_unlock();
    Py_END_ALLOW_THREADS
}

/* In a child: what stopped is there, threads are not. */
void npa_flights_forked(void)
{
    runners = idle = 0;
    for (flight *f = oldest(); f != NULL; f = after(f)) {
        f->state = STOPPED;
        f->holders = 0;
    }
}

/* Note [In flight]
 *
 * What is recorded when a run begins becomes its own: requests, buffers, marks of warnings. What is
 * recorded is empty then, and the program goes on. Rules, by what it does next:
 *
 *     reads what a run makes               is recorded; that run is over before this one begins
 *     reads what a run reads               is recorded; both share the buffer, the last shows it
 *     writes what a run makes or reads     waits for that run, and is recorded then
 *     looks at what a run makes            waits for that run, and for no other
 *     looks at what a run reads            no waiting, unless it was never shown, as pages go
 *     other memory, small arrays           no waiting
 *     begins another run                   no waiting; it begins when what it reads is made
 *     fork, settings, evaluate()           wait for all
 *
 * Touches, raw writes, and memory that is freed while a run reads it, wait on the evaluator's
 * thread or with the interpreter lock in hand: a runner never needs that. A run that stops, for
 * want of memory, keeps what it has not done. It is as what is recorded, then: whoever needs it
 * goes on with it, with Python where there is Python, and is told why it can't; whoever wants
 * something else does not notice.
 *
 * A runner has the lock but while it computes (npa_compute_begin): memory is found, given back and
 * shown with it. Steps on devices keep it. What is run by the thread that waits for it, as ever,
 * keeps it throughout, and is the only one then; runs in flight go on computing, and stop at their
 * next step until it is through.
 *
 * A recorded request on a buffer that a run makes, or that dies meanwhile, has it treated as used
 * later (npa_used_elsewhere): nobody drops its values or takes its pages. */
