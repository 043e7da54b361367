/* profile.c: the time of each activity (times.c) by the user's line, of each run by its program and
 * step, and when; for observe/profile.py. Off unless asked for. Note [Whose time] */
#include "run/run.h"
#include "run/profile.h"

#include <stdlib.h>
#include <string.h>

enum {
    LINES = 8192,
    MOST_LINES = LINES / 2,
    MOST_RUNS = 1024,
    MOST_EVENTS = 1 << 16,
    MOST_STEPS_TOLD = 256
};
enum { MOST_REQUESTS = 1 << 17 }; /* of all runs */
enum { TICK_NS = 20000000, LEAST_EVENT_NS = 20000, LEAST_STEP_NS = 2000, LEAST_SETTLED_NS = 10000 };

typedef npa_profiled_line line;
typedef npa_profiled_run ran;

typedef struct {
    uint64_t start, ns, live; /* live: bytes of arrays; of runs only */
    int32_t line, run;        /* run: -1 for calls */
    int16_t step;
    uint8_t kind, thread;
} event;

/* Nothing of Python's runs while it is held */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static line *lines;
static int32_t *slots; /* of LINES: a line, or 0 */
static int nlines;
static ran *runs;
static int nruns, unresolved, nrequests;
static event *events;
static int nevents;
static uint64_t groups, every = 1; /* one group of events in so many is kept */
static uint64_t epoch, begun_ns;
static _Atomic uint64_t ended_ns; /* 0: not yet */
static uint64_t lost_runs;
/* The evaluator's, while whoever touched something waits; since when it does so now, or 0. */
static _Atomic uint64_t served_ns, serving_since;
static atomic_int threads;
static atomic_int watched_activity;
/* That the thread which is looked at has spent in any activity */
static _Atomic uint64_t watched_ns;
static _Atomic uint64_t watched_since; /* when its activity began, if that is ours */

/* Of this thread. */
static __thread struct {
    uint64_t epoch, spent, settled; /* in any activity, ever; until it was settled last */
    uint64_t ns[NPA_ACTIVITIES];
    uint8_t number;
    bool watched;
} mine;

/* The run at hand, of which there is one at a time: with the queue's lock. */
static struct {
    ran *of;
    uint64_t start, before[2];
} now;

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1000000000u * (uint64_t)t.tv_sec + (uint64_t)t.tv_nsec;
}

static void begin_thread(void)
{
    if (mine.epoch != epoch) {
        memset(&mine, 0, sizeof mine);
        mine.epoch = epoch;
        mine.number = (uint8_t)atomic_fetch_add(&threads, 1);
    }
}

/* ---------------------------------------------------------------------------------- tables */

/* With the mutex: which line that is. may_add: with the GIL. */
static int32_t line_of(PyObject *code, int32_t lasti, bool may_add)
{
    uint64_t h = ((uintptr_t)code >> 4) * 31 ^ (uint64_t)(uint32_t)lasti * 127;
    size_t i = (size_t)(h * 0x9E3779B97F4A7C15u >> 40);
    while (code != NULL) {
        int32_t *slot = &slots[i++ % LINES];
        if (*slot != 0 && lines[*slot].code == code && lines[*slot].lasti == lasti) {
            return *slot;
        }
        if (*slot == 0) {
            if (may_add && nlines < MOST_LINES) {
                lines[nlines] = (line){.code = Py_NewRef(code), .lasti = lasti};
                *slot = nlines++;
            }
            return *slot;
        }
    }
    return 0;
}

/* With the mutex. Of a group all events are kept, or none. */
static void add_event(event e)
{
    if (groups % every != 0) {
        return;
    }
    if (nevents == MOST_EVENTS) { /* every second group goes; a group is told by its run's start */
        uint64_t group = 0;
        int kept = 0;
        for (int i = 0; i < nevents; i++) {
            group += i > 0 && events[i].step < 0;
            if (group % 2 == 0) {
                events[kept++] = events[i];
            }
        }
        nevents = kept < MOST_EVENTS ? kept : MOST_EVENTS - 1;
        every *= 2;
        return;
    }
    e.thread = mine.number;
    events[nevents++] = e;
}

static void free_run(ran *r)
{
    if (r->program != NULL) {
        npa_lock();
        npa_program_settle((PyObject *)r->program);
        npa_unlock();
        Py_DECREF((PyObject *)r->program);
    }
    free(r->took);
}

/* A new one, with the mutex; NULL: no memory. */
static ran *make_run(uint64_t hash, npa_program *program, npa_queue *q, int n, bool single)
{
    ran *r = &runs[nruns];
    if (!npa_profile_fill_run(r, program, q, n, single)) {
        return NULL;
    }
    r->hash = hash;
    nruns++, unresolved++, nrequests += n;
    return r;
}

/* With the GIL, before references of requests that have run go: from now on their lines are known
 * by number. */
void npa_profile_resolve(void)
{
    pthread_mutex_lock(&mutex);
    for (int i = nruns - 1; i >= 0 && unresolved > 0; i--) {
        ran *r = &runs[i];
        for (int k = 0; r->codes != NULL && k < r->n; k++) {
            r->lines[k] = line_of(r->codes[k], r->lines[k], true);
        }
        unresolved -= r->codes != NULL;
        r->codes = NULL;
    }
    pthread_mutex_unlock(&mutex);
}

/* The same program from the same lines, or the same operations where there is none. */
static uint64_t hash_of(const npa_program *program, npa_queue *q, int n, bool single)
{
    uint64_t hash = (uintptr_t)program * 31 + (uint64_t)n * 2 + single;
    for (int i = 0; i < n; i++) {
        npa_request *r = (npa_request *)(q->arena + q->at[i]);
        uint64_t line = ((uintptr_t)r->code >> 4) ^ (uint64_t)(uint32_t)r->lasti << 40;
        hash = (hash ^ line ^ (program == NULL ? (uint64_t)r->rule->id << 8 : 0)) *
               0x9E3779B97F4A7C15u;
        hash ^= hash >> 29;
    }
    return hash;
}

static ran *find_run(npa_program *program, npa_queue *q, int n, bool single)
{
    uint64_t hash = hash_of(program, q, n, single);
    for (int i = nruns - 1; i >= 0; i--) {
        if (runs[i].hash == hash && runs[i].program == program && runs[i].n == n) {
            return &runs[i];
        }
    }
    bool room = nruns < MOST_RUNS && nrequests + n <= MOST_REQUESTS;
    return room ? make_run(hash, program, q, n, single) : NULL;
}

/* --------------------------------------------------------------------------------- counting */

void npa_profile_spent(int activity, uint64_t ns)
{
    begin_thread();
    mine.ns[activity] += ns;
    mine.spent += ns;
    if (mine.watched) { /* nobody else writes it */
        atomic_store_explicit(&watched_ns, mine.spent, memory_order_relaxed);
    }
}

void npa_profile_now(int activity)
{
    if (mine.watched && mine.epoch == epoch) {
        if (activity != NPA_USER) {
            atomic_store_explicit(&watched_since, npa_switched_ns(), memory_order_relaxed);
        }
        atomic_store_explicit(&watched_activity, activity, memory_order_release);
    }
}

/* The thread is back in the user's code: what it did since was that line's, but for what steps have
 * taken. */
void npa_profile_settle(void)
{
    if (mine.epoch != epoch || mine.spent - mine.settled < LEAST_SETTLED_NS ||
        !PyGILState_Check()) {
        return; /* recording takes less: one line stands for some */
    }
    mine.settled = mine.spent;
    npa_site site;
    npa_capture_site(&site);
    uint64_t total = 0;
    int most = NPA_RECORDING;
    pthread_mutex_lock(&mutex);
    int32_t at = line_of(site.code, site.lasti, true);
    for (int k = 0; k < NPA_ACTIVITIES; k++) {
        lines[at].ns[k] += mine.ns[k], total += mine.ns[k];
        most = mine.ns[k] > mine.ns[most] ? k : most;
    }
    lines[at].calls++;
    if (total >= LEAST_EVENT_NS) {
        groups++;
        add_event((event){.start = npa_switched_ns() - total,
                          .ns = total,
                          .line = at,
                          .run = -1,
                          .step = -1,
                          .kind = (uint8_t)most});
    }
    pthread_mutex_unlock(&mutex);
    memset(mine.ns, 0, sizeof mine.ns);
    Py_XDECREF(site.code), Py_XDECREF(site.globals);
}

void npa_profile_run(npa_queue *q, npa_program *program, int requests, bool single, bool begins)
{
    begin_thread();
    pthread_mutex_lock(&mutex);
    now.of = find_run(program, q, requests, single);
    now.start = clock_ns();
    now.before[0] = mine.ns[NPA_IN_KERNELS], now.before[1] = mine.ns[NPA_IN_LOOPS];
    lost_runs += now.of == NULL;
    if (now.of != NULL) {
        npa_memory_stats m;
        npa_memory_read_stats(&m);
        now.of->runs += begins;
        groups++;
        add_event((event){.start = now.start, .live = m.live_bytes,
                          .run = (int32_t)(now.of - runs), .step = -1,
                          .kind = single ? NPA_RUN_SINGLE : NPA_RUN_KERNELS});
    }
    pthread_mutex_unlock(&mutex);
    /* A section's, which may go before the next flush */
    if (unresolved > 0 && PyGILState_Check()) {
        npa_profile_resolve();
    }
}

void npa_profile_step(int step, int count, int kind)
{
    ran *r = now.of;
    uint64_t kernels = mine.ns[NPA_IN_KERNELS] - now.before[0],
             loops = mine.ns[NPA_IN_LOOPS] - now.before[1];
    if (r == NULL || step >= r->nsteps) {
        return;
    }
    mine.ns[NPA_IN_KERNELS] = now.before[0], mine.ns[NPA_IN_LOOPS] = now.before[1];
    uint64_t ns = kernels + loops;
    r->took[step] += ns, r->counts[step] = count, r->kinds[step] = (uint8_t)kind;
    if (step < MOST_STEPS_TOLD && ns >= LEAST_STEP_NS) {
        pthread_mutex_lock(&mutex);
        add_event((event){.start = npa_switched_ns() - ns,
                          .ns = ns,
                          .run = (int32_t)(r - runs),
                          .step = (int16_t)step,
                          .kind = (uint8_t)kind});
        pthread_mutex_unlock(&mutex);
    }
}

void npa_profile_ran(void)
{
    pthread_mutex_lock(&mutex);
    uint64_t ns = clock_ns() - now.start;
    if (now.of != NULL) {
        now.of->ns += ns;
        for (int i = nevents - 1; i >= 0; i--) {
            if (events[i].step < 0 && events[i].run == now.of - runs) {
                events[i].ns = events[i].start == now.start ? ns : events[i].ns;
                break;
            }
        }
    }
    now.of = NULL;
    pthread_mutex_unlock(&mutex);
}

/* The evaluator has served a touch; without the GIL. What steps did not take is nobody's line. */
void npa_profile_touched(uint64_t ns)
{
    begin_thread();
    pthread_mutex_lock(&mutex);
    for (int k = 0; k < NPA_ACTIVITIES; k++) {
        lines[0].ns[k] += mine.ns[k];
        mine.ns[k] = 0;
    }
    pthread_mutex_unlock(&mutex);
    atomic_store(&serving_since, 0);
    atomic_fetch_add(&served_ns, ns);
}

void npa_profile_touch(void) { atomic_store(&serving_since, clock_ns()); }

/* ---------------------------------------------------------------------- what is not our time */

/* Of the thread that began the profile, as another thread reads it. */
static struct {
    pthread_t thread;
    PyThreadState *state, *watched; /* the ticker's own; whose lines it looks at */
    PyObject *libraries; /* tuple of str: where files lie that are not the program's */
    atomic_bool due;     /* it is time for a look */
    pthread_mutex_t mutex; /* of `on` */
    pthread_cond_t ended;
    bool on;
    uint64_t last, spent, served; /* at the last look */
    int64_t owed;
} ticker = {.mutex = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* Whether it was. */
static bool set_ticking(bool on)
{
    pthread_mutex_lock(&ticker.mutex);
    bool before = ticker.on;
    ticker.on = on;
    pthread_cond_signal(&ticker.ended);
    pthread_mutex_unlock(&ticker.mutex);
    return before;
}

static bool is_there(const PyThreadState *thread)
{
    PyThreadState *at = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    while (at != NULL && at != thread) {
        at = PyThreadState_Next(at);
    }
    return at != NULL;
}

/* With the GIL, which the other thread has given up: at a call, between two instructions, or in an
 * activity of ours. What the user's code took until then is its line's. */
static void look(void)
{
    bool ours = atomic_load_explicit(&watched_activity, memory_order_acquire) != NPA_USER;
    uint64_t spent = atomic_load(&watched_ns), since = atomic_load(&serving_since);
    uint64_t end = atomic_load(&ended_ns), t = ours ? atomic_load(&watched_since) : clock_ns();
    t = end != 0 && t > end ? end : t;
    uint64_t served = atomic_load(&served_ns) + (since != 0 && t > since ? t - since : 0);
    if (t <= ticker.last || !is_there(ticker.watched)) {
        return;
    }
    int64_t user = ticker.owed + (int64_t)(t - ticker.last) -
                   (int64_t)(spent - ticker.spent + served - ticker.served);
    ticker.last = t, ticker.spent = spent, ticker.served = served;
    ticker.owed = user < 0 ? user : 0; /* where the clocks were read a little apart */
    npa_site site;
    npa_site_of(npa_program_frame(ticker.watched, ticker.libraries), &site);
    pthread_mutex_lock(&mutex);
    lines[line_of(site.code, site.lasti, true)].ns[NPA_USER] += (uint64_t)(user > 0 ? user : 0);
    pthread_mutex_unlock(&mutex);
    Py_XDECREF(site.code), Py_XDECREF(site.globals);
}

void npa_profile_small(void)
{
    if (mine.watched && mine.epoch == epoch &&
        atomic_load_explicit(&ticker.due, memory_order_relaxed) &&
        atomic_exchange(&ticker.due, false)) {
        look();
    }
}

/* Until it is time for a look; false: for none any more. */
static bool wait_for_tick(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TICK_NS;
    until.tv_sec += until.tv_nsec / 1000000000, until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&ticker.mutex);
    if (ticker.on) {
        pthread_cond_timedwait(&ticker.ended, &ticker.mutex, &until);
    }
    bool on = ticker.on;
    pthread_mutex_unlock(&ticker.mutex);
    return on;
}

static void *tick(void *unused)
{
    (void)unused;
    PyGILState_STATE before = PyGILState_Ensure();
    ticker.state = PyThreadState_Get();
    PyEval_SaveThread();
    while (wait_for_tick()) {
        atomic_store(&ticker.due, true);
        PyEval_RestoreThread(ticker.state);
        if (atomic_exchange(&ticker.due, false)) {
            look();
        }
        PyEval_SaveThread();
    }
    PyEval_RestoreThread(ticker.state);
    look();
    ticker.state = NULL;
    PyGILState_Release(before);
    return NULL;
}

bool npa_alone(void)
{
    int others = -1;
    PyThreadState *at = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; at != NULL; at = PyThreadState_Next(at)) {
        others += at != ticker.state;
    }
    return others == 0;
}

static void begin_ticking(void)
{
    ticker.last = begun_ns, ticker.spent = ticker.served = 0, ticker.owed = 0;
    ticker.watched = PyThreadState_Get();
    atomic_store(&watched_activity, NPA_USER);
    mine.watched = true;
    atomic_store(&watched_ns, 0), atomic_store(&watched_since, 0);
    set_ticking(true);
    if (npa_thread_start(&ticker.thread, tick, NULL, 0) != 0) {
        set_ticking(false); /* Python's time is told of no line */
    }
}

static void end_ticking(void)
{
    if (set_ticking(false)) {
        PyThreadState *mine_here = PyEval_SaveThread();
        pthread_join(ticker.thread, NULL);
        PyEval_RestoreThread(mine_here);
    }
}

/* A child is not profiled: its threads are not there. */
static void forked(void)
{
    npa_profiling = false;
    ticker.on = false;
    ticker.state = NULL; /* Python frees it */
    pthread_mutex_init(&mutex, NULL), pthread_mutex_init(&ticker.mutex, NULL);
    pthread_cond_init(&ticker.ended, NULL);
    npa_count_times(NPA_FOR_PROFILE, false);
}

/* ------------------------------------------------------------------------------- for Python */

static void forget(void)
{
    for (int i = 0; i < nruns; i++) {
        free_run(&runs[i]);
    }
    for (int i = 1; i < nlines; i++) {
        Py_DECREF(lines[i].code);
    }
    free(lines), free(slots), free(runs), free(events);
    lines = NULL, slots = NULL, runs = NULL, events = NULL;
    nlines = nruns = nevents = unresolved = nrequests = 0;
}

PyObject *npa_profile_begin(PyObject *module, PyObject *libraries)
{
    (void)module;
    static bool watched;
    if (npa_profiling) {
        return PyErr_Format(PyExc_RuntimeError, "a profile is being taken already");
    }
    lines = calloc(MOST_LINES + 1, sizeof *lines), slots = calloc(LINES, sizeof *slots);
    runs = calloc(MOST_RUNS, sizeof *runs), events = calloc(MOST_EVENTS, sizeof *events);
    if (lines == NULL || slots == NULL || runs == NULL || events == NULL) {
        forget();
        return PyErr_NoMemory();
    }
    Py_XSETREF(ticker.libraries, Py_NewRef(libraries));
    watched = watched || npa_at_fork(NULL, NULL, forked) == 0;
    nlines = 1, groups = 0, every = 1, lost_runs = 0, epoch++;
    atomic_store(&threads, 0);
    atomic_store(&served_ns, 0), atomic_store(&ended_ns, 0);
    begin_thread();
    begun_ns = clock_ns();
    npa_profiling = true;
    npa_count_times(NPA_FOR_PROFILE, true);
    begin_ticking();
    Py_RETURN_NONE;
}

/* (nanoseconds, lines, runs, events as bytes, one kept in so many, runs of no table) */
PyObject *npa_profile_end(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    if (!npa_profiling) {
        return PyErr_Format(PyExc_RuntimeError, "no profile is being taken");
    }
    atomic_store(&ended_ns, clock_ns());
    uint64_t took = ended_ns - begun_ns;
    npa_profiling = false;
    end_ticking();
    npa_count_times(NPA_FOR_PROFILE, false);
    npa_profile_resolve();
    PyObject *told = npa_profile_told_lines(lines, nlines),
             *all = npa_profile_told_runs(runs, nruns);
    for (int i = 0; i < nevents; i++) {
        events[i].start -= begun_ns;
    }
    PyObject *bytes =
        PyBytes_FromStringAndSize((char *)events, (Py_ssize_t)sizeof *events * nevents);
    forget();
    if (all == NULL || told == NULL || bytes == NULL) {
        Py_XDECREF(all), Py_XDECREF(told), Py_XDECREF(bytes);
        return NULL;
    }
    return Py_BuildValue("(KNNNKK)", (unsigned long long)took, told, all, bytes,
                         (unsigned long long)every, (unsigned long long)lost_runs);
}

/* Note [Whose time]
 *
 * A thread's clock (times.c) is in one activity at a time. What it spends in a step of a run
 * belongs to the run's requests, whose lines Python shares it out among when all is over
 * (observe/profile.py). All other time of ours is the line's that is being run when the thread
 * comes back to the user's code: recording it, planning and memory of the runs that it caused,
 * NumPy's functions that it called. The rest is Python's, other libraries' and small arrays': a
 * thread that takes the interpreter lock for a look, fifty times a second, gives the line that is
 * there what has passed since the last look, less what was ours: that of the program which called
 * the library, if one is being run. Python changes threads at calls and where loops go on, not
 * between operators: so a small operation, when it is over, looks itself once it is time. Nothing
 * is counted twice. */
