/* pool.c: worker threads that help a launching thread with its tasks.
 *
 * A launch opens a job slot, runs tasks like any worker, closes the slot when no task is left to
 * claim, and waits for the workers that are inside. See Note [Life of a job] at the end, and
 * Note [Lanes]: who runs which task. */
#include "system/system.h"

#include <limits.h>
#include <stdlib.h>

enum { JOBS = 16, THREADS = 256, DEPTHS = 8, LANES = 16 };
enum { SPIN_NS = 15000, SLICE_NS = 20000000 };
enum { USUAL_WAKE_NS = 30000, MOST_WAKE_NS = 1000000 };
/* So many workers are kept away from the processor of who wakes them. Where there are more, each of
 * them would cost a call, and another processor is more often idle. */
enum { APART = 8 };
enum { WORTH = 3 }; /* times what waking takes must be left to do, for each that is woken */
enum { OPEN = 1 << 30, WAITED = 1 << 29, TAKEN = 1 << 28, SEAT = 1 << 12, INSIDE = SEAT - 1 };
enum { SEATS = TAKEN - SEAT };

typedef struct {
    _Alignas(64) _Atomic int64_t next; /* the first of its tasks that nobody has claimed */
    int64_t end;
} lane;

typedef struct {
    _Alignas(64) atomic_int state; /* INSIDE: workers in it; SEATS: that may yet enter if OPEN */
    atomic_int stop;
    int lanes;
    int64_t tasks;
    npa_task task;
    void *context;
    const atomic_int *cancel;
    lane lane[LANES];
} job;

static struct {
    _Alignas(64) atomic_int epoch; /* changes with each launch; what workers sleep on */
    _Alignas(64) atomic_int sleepers;
    atomic_int waking; /* of them, who was woken and has not come to it yet */
    /* When sleepers were last woken; 0: one of them has said how long ago */
    _Atomic int64_t called;
    _Atomic int64_t wake_ns; /* that this takes, of late */
    /* When a launch was last over; what it and those before it took, see burst */
    _Atomic int64_t ended, burst_ns;
    int apart; /* with the lock: the processor that workers keep away from; -1: none yet */
    atomic_int threads; /* asked for; 0 not yet known */
    atomic_int started; /* workers that exist */
    atomic_int quit;
    pthread_mutex_t lock; /* of started and the next line */
    pthread_t workers[THREADS];
    pthread_once_t once;
    pthread_key_t scratch_key;
    job jobs[JOBS];
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT, .wake_ns = USUAL_WAKE_NS,
          .apart = -1};

typedef struct {
    char *data[DEPTHS];
    size_t size[DEPTHS];
} scratch;

/* initial-exec: the guard's handler reads worker_here, and must not allocate to find it. */
static NPA_PER_THREAD int worker_here; /* its number, from 1 on; 0: no worker */
static NPA_PER_THREAD int depth; /* of launches on this thread: a nested one has its own scratch */
static NPA_PER_THREAD scratch *my_scratch;

/* Spin until *word differs from `value` in `mask`, for a short while at most. */
static bool spin_while_equal(atomic_int *word, int value, int mask)
{
    int64_t end = npa_clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < 32; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) ^ value) & mask) {
                return false;
            }
            npa_relax();
        }
    } while (npa_clock_ns() < end);
    return true;
}

/* -------------------------------------------------------------------------------- workers */

static void set_lanes(job *j, int threads)
{
    int n = threads < LANES ? threads : LANES;
    for (int i = 0; i < n; i++) {
        atomic_store_explicit(&j->lane[i].next, j->tasks * i / n, memory_order_relaxed);
        j->lane[i].end = j->tasks * (i + 1) / n;
    }
    j->lanes = n;
}

/* Of the lane that this thread keeps to. */
static int my_lane(const job *j)
{
    return worker_here == 0 || j->lanes == 1 ? 0 : 1 + (worker_here - 1) % (j->lanes - 1);
}

static int64_t unclaimed(const lane *l)
{
    return l->end - atomic_load_explicit(&l->next, memory_order_relaxed);
}

/* A task of lane *at, or of those behind it where that has none. */
static bool claim(job *j, int *at, int64_t *task)
{
    if (atomic_load_explicit(&j->stop, memory_order_relaxed) ||
        (j->cancel && atomic_load_explicit(j->cancel, memory_order_relaxed))) {
        return false;
    }
    for (int i = 0; i < j->lanes; i++, *at = *at + 1 < j->lanes ? *at + 1 : 0) {
        lane *l = &j->lane[*at];
        if (unclaimed(l) > 0) {
            *task = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed);
            if (*task < l->end) {
                return true;
            }
        }
    }
    return false;
}

static void run_tasks(job *j, int worker)
{
    int at = my_lane(j);
    depth++;
    for (int64_t task; claim(j, &at, &task);) {
        j->task(j->context, task, worker);
    }
    depth--;
}

/* Take a seat, if the job is open and has one: then its fields are alive until we leave. The
 * seat's number, from 1 to the helpers that the launch allows, is who we are to the task. */
static int enter(job *j)
{
    int state = atomic_load_explicit(&j->state, memory_order_relaxed);
    while ((state & OPEN) && (state & SEATS)) {
        if (atomic_compare_exchange_weak_explicit(&j->state, &state, state - SEAT + 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
            return (state & SEATS) / SEAT;
        }
    }
    return 0;
}

static void leave(job *j)
{
    int left = atomic_fetch_sub_explicit(&j->state, 1, memory_order_acq_rel) - 1;
    if ((left & WAITED) && (left & INSIDE) == 0) {
        npa_word_wake(&j->state, 1);
    }
}

static bool help(void)
{
    bool helped = false;
    for (job *j = pool.jobs; j < pool.jobs + JOBS; j++) {
        int seat = enter(j);
        if (seat) {
            run_tasks(j, seat);
            leave(j);
            helped = true;
        }
    }
    return helped;
}

/* A worker is awake: how long that took. What is out of all proportion counts as the most there
 * is. */
static void note_wake(void)
{
    int64_t called = atomic_exchange_explicit(&pool.called, 0, memory_order_relaxed);
    if (called != 0) {
        int64_t took = npa_clock_ns() - called;
        int64_t was = atomic_load_explicit(&pool.wake_ns, memory_order_relaxed);
        took = took < MOST_WAKE_NS ? took : MOST_WAKE_NS;
        atomic_store_explicit(&pool.wake_ns, was + (took - was) / 8, memory_order_relaxed);
    }
}

static void *work(void *number)
{
    worker_here = (int)(intptr_t)number;
    for (;;) {
        int epoch = atomic_load(&pool.epoch);
        if (atomic_load(&pool.quit)) {
            return NULL;
        }
        if (help() || !spin_while_equal(&pool.epoch, epoch, -1)) {
            continue;
        }
        atomic_fetch_add(&pool.sleepers, 1);
        /* Fails if the epoch has changed */
        bool woken = npa_word_wait(&pool.epoch, epoch, 0);
        note_wake();
        atomic_fetch_sub(&pool.waking, woken);
        atomic_fetch_sub(&pool.sleepers, 1);
    }
}

static void start_workers(int wanted)
{
    if (pthread_mutex_trylock(&pool.lock) != 0) {
        /* Others do, or a fork waits for this very launch: it goes on with those there are */
        return;
    }
    int n = atomic_load(&pool.started);
    while (n < wanted) {
        void *number = (void *)(intptr_t)(n + 1);
        if (npa_thread_start(&pool.workers[n], work, number, 0) != 0) {
            break;
        }
        n++;
        pool.apart = -1;
    }
    atomic_store(&pool.started, n);
    pthread_mutex_unlock(&pool.lock);
}

/* ----------------------------------------------------------------------------------- fork */

/* Idle workers end before a fork: Python warns about forking with threads. */
static void before_fork(void)
{
    pthread_mutex_lock(&pool.lock);
    for (int i = 0; i < JOBS; i++) {
        if (atomic_load(&pool.jobs[i].state)) {
            return; /* somebody is launching; the child forgets it */
        }
    }
    atomic_store(&pool.quit, 1);
    atomic_fetch_add(&pool.epoch, 1);
    npa_word_wake(&pool.epoch, INT_MAX);
    for (int i = 0; i < atomic_load(&pool.started); i++) {
        pthread_join(pool.workers[i], NULL);
    }
    atomic_store(&pool.started, 0);
    atomic_store(&pool.waking, 0);
    atomic_store(&pool.quit, 0);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&pool.lock);
}

static void after_fork_in_child(void)
{
    for (int i = 0; i < JOBS; i++) {
        atomic_store(&pool.jobs[i].state, 0);
    }
    atomic_store(&pool.started, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.waking, 0);
    pthread_mutex_unlock(&pool.lock);
}

/* ---------------------------------------------------------------------------------- launch */

static void free_scratch(void *of)
{
    scratch *s = of;
    for (int i = 0; i < DEPTHS; i++) {
        npa_aligned_free(s->data[i]);
    }
    free(s);
    my_scratch = NULL;
}

static int allowed_threads(void)
{
    int n = npa_threads_allowed();
    return n > THREADS ? THREADS : n;
}

static void start_pool(void)
{
    int expected = 0;
    atomic_compare_exchange_strong(&pool.threads, &expected, allowed_threads());
    pthread_key_create(&pool.scratch_key, free_scratch);
    npa_at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static job *take_slot(void)
{
    for (int i = 0; i < JOBS; i++) {
        int free_state = 0;
        if (atomic_compare_exchange_strong(&pool.jobs[i].state, &free_state, TAKEN)) {
            return &pool.jobs[i];
        }
    }
    return NULL;
}

static void open_job(job *j, int helpers)
{
    atomic_store_explicit(&j->state, OPEN | TAKEN | helpers * SEAT, memory_order_release);
    atomic_fetch_add(&pool.epoch, 1);
}

/* What launches took that followed each other so closely that a worker stays awake in between: as
 * much is to be expected of those that come. (Without this exp of 512 KB, again and again, takes
 * 53 us, not 33.) */
static int64_t burst(int64_t now)
{
    bool closely = now - atomic_load_explicit(&pool.ended, memory_order_relaxed) < SPIN_NS;
    return closely ? atomic_load_explicit(&pool.burst_ns, memory_order_relaxed) : 0;
}

static void add_to_burst(int64_t before, int64_t begun)
{
    int64_t now = npa_clock_ns();
    atomic_store_explicit(&pool.burst_ns, before + now - begun, memory_order_relaxed);
    atomic_store_explicit(&pool.ended, now, memory_order_relaxed);
}

/* Linux wakes a thread where it slept, or beside who wakes it, often enough on one processor with
 * him, and lets the two take turns there for milliseconds while another processor is idle. (Without
 * this five operations on 8 MB take 606 us, not 198, on two processors.) */
static void keep_apart(void)
{
    if (atomic_load(&pool.started) <= APART && pthread_mutex_trylock(&pool.lock) == 0) {
        pool.apart = npa_threads_apart(pool.workers, atomic_load(&pool.started), pool.apart);
        pthread_mutex_unlock(&pool.lock);
    }
}

static int64_t tasks_left(const job *j)
{
    int64_t n = 0;
    for (int i = 0; i < j->lanes; i++) {
        int64_t left = unclaimed(&j->lane[i]);
        n += left > 0 ? left : 0;
    }
    return n;
}

/* Wake sleepers as soon as what is left pays for it: `ahead` nanoseconds of one thread, and what is
 * unclaimed at `each` a task. Where nobody sleeps the lanes, which others write to, are not looked
 * at. */
static void wake_if_worth_it(job *j, int64_t ahead, int64_t each)
{
    int seats = (atomic_load_explicit(&j->state, memory_order_relaxed) & SEATS) / SEAT;
    int sleepers = seats > 0 ? atomic_load(&pool.sleepers) : 0;
    int coming = sleepers > 0 ? atomic_load(&pool.waking) : 0;
    if (sleepers <= coming) {
        return;
    }
    int64_t left = each > 0 ? ahead + each * tasks_left(j) : ahead;
    int64_t takes = atomic_load_explicit(&pool.wake_ns, memory_order_relaxed);
    int64_t worth = left / (WORTH * takes), wanted = (worth < seats ? worth : seats) - coming;
    if (worth == 0 && takes > USUAL_WAKE_NS) {
        /* What was measured on a busy machine need not hold for good */
        atomic_store_explicit(&pool.wake_ns, takes - takes / 256, memory_order_relaxed);
    }
    if (wanted > 0) {
        keep_apart();
        atomic_store_explicit(&pool.called, npa_clock_ns(), memory_order_relaxed);
        atomic_fetch_add(&pool.epoch, 1); /* who is falling asleep stays awake */
        atomic_fetch_add(&pool.waking, npa_word_wake(&pool.epoch, (int)wanted));
    }
}

typedef struct {
    int (*poll)(void *);
    void *arg;
    int64_t due;
} poller;

static void poll_if_due(job *j, poller *p)
{
    if (p && !atomic_load_explicit(&j->stop, memory_order_relaxed) && npa_clock_ns() >= p->due) {
        if (p->poll(p->arg)) {
            atomic_store_explicit(&j->stop, 1, memory_order_relaxed);
        }
        p->due = npa_clock_ns() + SLICE_NS;
    }
}

/* No task is left: nobody may enter any more, and those inside are waited for. */
static void close_job(job *j, poller *p)
{
    int state = atomic_fetch_and(&j->state, ~OPEN) & ~OPEN;
    while ((state & INSIDE) && !spin_while_equal(&j->state, state, INSIDE)) {
        state = atomic_load(&j->state);
    }
    if (state & INSIDE) {
        state = atomic_fetch_or(&j->state, WAITED) | WAITED;
    }
    while (state & INSIDE) {
        npa_word_wait(&j->state, state, p ? SLICE_NS : 0);
        poll_if_due(j, p);
        state = atomic_load(&j->state);
    }
}

/* The launching thread's own part, as worker 0. 1: cancelled. Most launches are over before a
 * sleeper is awake. How long one takes is known from the last one, or shown by its own first
 * tasks. */
static int take_part(job *j, poller *p, int64_t *took)
{
    int64_t begun = npa_clock_ns(), before = burst(begun), done = 0, each = 0;
    wake_if_worth_it(j, before + *took, 0);
    int at = my_lane(j);
    depth++;
    for (int64_t task; claim(j, &at, &task);) {
        j->task(j->context, task, 0);
        poll_if_due(j, p);
        each = (npa_clock_ns() - begun) / ++done;
        wake_if_worth_it(j, before, each);
    }
    depth--;
    *took = done > 0 ? each * j->tasks : *took;
    if (atomic_load_explicit(&j->state, memory_order_relaxed)) {
        close_job(j, p);
    }
    add_to_burst(before, begun);
    return atomic_load(&j->stop) || (j->cancel && atomic_load(j->cancel));
}

static int run(npa_task task, void *context, int64_t tasks, const atomic_int *cancel, poller *p,
               int64_t *took)
{
    int helpers = npa_pool_size() - 1 - npa_pool_lends();
    helpers = tasks - 1 < helpers ? (int)(tasks - 1) : helpers;
    if (helpers > atomic_load_explicit(&pool.started, memory_order_relaxed)) {
        start_workers(helpers);
        int started = atomic_load(&pool.started);
        helpers = started < helpers ? started : helpers;
    }
    job *j = helpers > 0 ? take_slot() : NULL;
    if (j == NULL) {
        job alone;
        alone.tasks = tasks, alone.task = task, alone.context = context, alone.cancel = cancel;
        atomic_init(&alone.state, 0);
        atomic_init(&alone.stop, 0);
        set_lanes(&alone, 1);
        return take_part(&alone, p, took);
    }
    j->tasks = tasks;
    j->task = task;
    j->context = context;
    j->cancel = cancel;
    atomic_store_explicit(&j->stop, 0, memory_order_relaxed);
    set_lanes(j, 1 + helpers);
    open_job(j, helpers);
    int result = take_part(j, p, took);
    atomic_store_explicit(&j->state, 0, memory_order_release);
    return result;
}

static _Atomic int64_t jobs; /* that nobody polls for: of our own loops */

void npa_pool_count_job(void)
{
    atomic_fetch_add_explicit(&jobs, 1, memory_order_relaxed);
}

int64_t npa_pool_jobs(void)
{
    return atomic_load_explicit(&jobs, memory_order_relaxed);
}

int npa_pool_run(npa_task task, void *context, int64_t tasks, const atomic_int *cancel)
{
    int64_t unknown = 0;
    npa_pool_count_job();
    if (tasks == 1 && cancel == NULL) { /* which may take less time than looking at the clock */
        depth++;
        task(context, 0, 0);
        depth--;
        return 0;
    }
    return run(task, context, tasks, cancel, NULL, &unknown);
}

int npa_pool_run_polled(npa_task task, void *context, int64_t tasks, int (*poll)(void *), void *arg,
                        int64_t *took)
{
    poller p = {.poll = poll, .arg = arg, .due = npa_clock_ns() + SLICE_NS};
    return run(task, context, tasks, NULL, poll != NULL ? &p : NULL, took);
}

void npa_pool_threads(int threads)
{
    threads = threads < 1 ? allowed_threads() : threads > THREADS ? THREADS : threads;
    pthread_once(&pool.once, start_pool);
    atomic_store(&pool.threads, threads);
}

void npa_pool_start(void)
{
    start_workers(npa_pool_size() - 1);
}

int npa_pool_size(void)
{
    pthread_once(&pool.once, start_pool);
    return atomic_load_explicit(&pool.threads, memory_order_relaxed);
}

bool npa_pool_on_worker(void)
{
    return worker_here != 0;
}

char *npa_pool_scratch(int worker, size_t bytes)
{
    (void)worker; /* a task runs on its worker's own thread */
    pthread_once(&pool.once, start_pool);
    if (my_scratch == NULL) {
        my_scratch = calloc(1, sizeof *my_scratch);
        if (my_scratch == NULL || pthread_setspecific(pool.scratch_key, my_scratch) != 0) {
            free(my_scratch);
            my_scratch = NULL;
            return NULL;
        }
    }
    scratch *s = my_scratch;
    if (depth >= DEPTHS || bytes > SIZE_MAX - 64) {
        return NULL;
    }
    if (s->data[depth] == NULL || s->size[depth] < bytes) {
        size_t rounded = (bytes + 63 + (bytes == 0)) & ~(size_t)63;
        npa_aligned_free(s->data[depth]);
        s->data[depth] = npa_aligned(64, rounded);
        s->size[depth] = s->data[depth] ? rounded : 0;
    }
    return s->data[depth];
}

/* Note [Life of a job]
 *
 * Slots are static, so a worker that comes late reads memory that is there; what it must not do is
 * to act on a job that is over, or on the next one in the slot with the fields of the last. `state`
 * decides: only while OPEN can a worker turn a seat into itself INSIDE, in one
 * compare-and-exchange, and the launching thread gives the slot back only when OPEN is gone and
 * nobody is INSIDE. Fields are written before OPEN and read after entering. A worker that has not
 * entered is not waited for, so a launch among busy workers costs what it costs alone, and nesting
 * can't deadlock: a thread waits only for tasks that are running.
 *
 * Sleeping: a worker counts itself in `sleepers`, then sleeps if `epoch` is unchanged; a launch
 * changes `epoch`, then looks at `sleepers`. One of the two sees the other. */

/* Note [Lanes]
 *
 * The tasks of a launch are cut into as many stretches as it has threads. Each thread begins with
 * its own, the launching one with the first, a worker with the one of its number, and goes on with
 * what the others have left. So of kernels that follow each other over the same arrays a thread
 * works on the same parts each time, which its own cache holds. Handed out one by one, they go now
 * to this thread, now to that one, and each kernel begins by fetching lines from the other
 * processors' caches. Which thread runs a task decides no bits. */
