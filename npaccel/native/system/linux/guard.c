/* guard.c: who touches a guarded range waits while the evaluator thread fills it.
 *
 * The fault handler puts a note on a list and sleeps; the evaluator, a thread with a stack of its
 * own, calls serve(range) and wakes it; the touch is then repeated. Faults that are not ours go to
 * the handler that was there before us. Linux only: a guarded page is always SIGSEGV here (SIGBUS
 * is a real error, such as broken memory, and is not taken). */
#define _GNU_SOURCE
#include "system/linux/linux.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HANDLERS = 8, MOST_REPEATS = 1000, LOOP_NS = 100000, SLICE_NS = 100000000 };
static const size_t stack_bytes = (size_t)8 << 20;

/* On the stack of the thread that waits. */
typedef struct note note;
struct note {
    npa_range *range;    /* NULL: a write into watched memory, at */
    const void *address; /* that was touched; NULL: all of the range is needed */
    unsigned shown;      /* parts of it that had appeared */
    note *next;
    atomic_int served;
};

static struct {
    void (*serve)(npa_range *range, const void *touched);
    void (*served)(void);
    int (*watched)(const void *address);
    void (*serve_write)(const void *address);
    _Atomic(note *) notes; /* newest first */
    atomic_int posts;      /* what the evaluator sleeps on */
    atomic_int evaluator;  /* 1: it runs; 0: there is none */
    atomic_bool busy, quit;
    _Atomic uint64_t faults, successes;
    pthread_t thread;
    bool detached; /* nobody will join it */
    pthread_mutex_t lock; /* of the evaluator's start and end */
    pthread_once_t once;
    /* Handlers that were in force before ours, oldest first. Written before they are counted. */
    struct sigaction before[HANDLERS];
    atomic_int handlers;
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* initial-exec: the handler must not allocate to find them. */
static NPA_PER_THREAD const void *last_address;
static NPA_PER_THREAD uint64_t last_successes;
static NPA_PER_THREAD int repeats;
static NPA_PER_THREAD const void *chained_address;
static NPA_PER_THREAD int64_t chained_at; /* when the last of them returned */
static NPA_PER_THREAD int returns; /* how often they did so in vain */
static NPA_PER_THREAD bool never_waits; /* see npa_guard_never_waits */
static NPA_PER_THREAD bool evaluates; /* this thread is the evaluator */
static NPA_PER_THREAD int chained; /* handlers before ours that are running on this thread, */
static NPA_PER_THREAD uintptr_t chain_base; /* called from a frame at this place */

/* --------------------------------------------------------------------------- the evaluator */

/* Another part has appeared since, perhaps the one that was touched: that is tried first. */
static bool outdated(const note *n)
{
    return n->address != NULL && n->shown != npa_range_shown_parts(n->range);
}

static void serve_notes(void)
{
    note *newest = atomic_exchange_explicit(&guard.notes, NULL, memory_order_acq_rel);
    note *oldest = NULL;
    while (newest) {
        note *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        note *next = oldest->next; /* the note is gone once its thread has seen `served` */
        if (oldest->range == NULL) {
            guard.serve_write(oldest->address);
        } else if (!npa_range_serves(oldest->range, true) && !outdated(oldest)) {
            guard.serve(oldest->range, oldest->address);
        }
        atomic_int *served = &oldest->served;
        atomic_store_explicit(served, 1, memory_order_release);
        npa_word_wake(served, INT_MAX); /* at worst whoever uses that stack now wakes in vain */
        oldest = next;
    }
}

static void *evaluate(void *unused)
{
    (void)unused;
    evaluates = true;
    for (;;) {
        int posts = atomic_load(&guard.posts);
        atomic_store(&guard.busy, true);
        serve_notes();
        atomic_store(&guard.busy, false);
        if (atomic_load(&guard.quit)) {
            atomic_store(&guard.evaluator, 0);
            return NULL;
        }
        npa_word_wait(&guard.posts, posts, 0);
    }
}

/* Start the evaluator if there is none. The lock is held. */
static int start_evaluator(void)
{
    if (atomic_load(&guard.evaluator)) {
        return 0;
    }
    atomic_store(&guard.quit, false);
    atomic_store(&guard.evaluator, 1);
    int error = npa_thread_start(&guard.thread, evaluate, NULL, stack_bytes);
    if (error) {
        atomic_store(&guard.evaluator, 0);
    }
    guard.detached = false;
    return error;
}

/* ----------------------------------------------------------------------------- the handler */

static void give_up(int number, const siginfo_t *info)
{
    struct sigaction standard = {.sa_handler = SIG_DFL};
    sigaction(number, &standard, NULL);
    if (info->si_code <= 0) { /* sent by a process: it would not recur on return */
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
    }
}

/* Call the handler before ours as the kernel would have: with its mask, and once if it asked so. */
static void call_before(struct sigaction *old, int number, siginfo_t *info, void *context)
{
    const struct sigaction now = *old;
    if (!(old->sa_flags & SA_SIGINFO) && old->sa_handler == SIG_IGN && info->si_code <= 0) {
        return;
    }
    if (!(old->sa_flags & SA_SIGINFO) &&
        (old->sa_handler == SIG_DFL || old->sa_handler == SIG_IGN)) {
        give_up(number, info); /* a fault can't be ignored */
        return;
    }
    sigset_t mask, before = ((ucontext_t *)context)->uc_sigmask;
    sigorset(&mask, &before, &old->sa_mask);
    if (!(old->sa_flags & SA_NODEFER)) {
        sigaddset(&mask, number);
    }
    if (old->sa_flags & SA_RESETHAND) {
        old->sa_handler = SIG_DFL;
        old->sa_flags = 0;
    }
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
    if (now.sa_flags & SA_SIGINFO) {
        now.sa_sigaction(number, info, context);
    } else {
        now.sa_handler(number);
    }
}

/* Not ours. A handler that was installed over ours and kept it as its predecessor may call us
 * again from within: then the one before that is meant. One that merely returns (faulthandler, once
 * it is disabled) is not called for ever. */
static void chain(int number, siginfo_t *info, void *context)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    if (chained && here >= chain_base) {
        chained = 0; /* that handler never returned: it jumped out */
    }
    int newest = atomic_load_explicit(&guard.handlers, memory_order_acquire) - 1;
    bool again = info->si_addr == chained_address && npa_clock_ns() - chained_at < LOOP_NS;
    returns = again ? returns + 1 : 0;
    if (chained > newest || returns > MOST_REPEATS) {
        give_up(number, info);
        return;
    }
    uintptr_t base_before = chain_base;
    chain_base = here;
    chained++;
    call_before(&guard.before[newest - (chained - 1)], number, info, context);
    chained -= chained > 0;
    chain_base = base_before;
    chained_address = info->si_addr;
    chained_at = npa_clock_ns();
}

static void post_and_wait(npa_range *range, const void *address, unsigned shown)
{
    note mine = {.range = range, .address = address, .shown = shown};
    mine.next = atomic_load_explicit(&guard.notes, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&guard.notes, &mine.next, &mine,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
    }
    atomic_fetch_add(&guard.posts, 1);
    npa_word_wake(&guard.posts, INT_MAX);
    while (!atomic_load_explicit(&mine.served, memory_order_acquire)) {
        npa_word_wait(&mine.served, 0, SLICE_NS);
        if (atomic_load(&guard.evaluator) == 0) {
            serve_notes(); /* it ended, for a fork, when we had just seen it */
        }
    }
    if (guard.served != NULL) {
        guard.served();
    }
}

/* Whether this thread faults here for ever: again and again, and nothing was served meanwhile. */
static bool is_stuck(const void *address)
{
    uint64_t successes = atomic_load_explicit(&guard.successes, memory_order_relaxed);
    repeats = address == last_address && successes == last_successes ? repeats + 1 : 0;
    last_address = address;
    last_successes = successes;
    return repeats > MOST_REPEATS;
}

/* An evaluation would wait for itself: rather a crash that can be seen. */
static bool may_not_wait(void)
{
    return never_waits || evaluates || npa_pool_on_worker();
}

/* Whether the write should be repeated. */
static bool serve_write(const void *address)
{
    int found = guard.watched ? guard.watched(address) : NPA_NOT_WATCHED;
    if (found == NPA_NOT_WATCHED || is_stuck(address)) {
        return false;
    }
    if (found == NPA_WATCH_PENDING) {
        if (may_not_wait()) {
            return false;
        }
        if (atomic_load(&guard.evaluator) == 0) {
            guard.serve_write(address);
        } else {
            post_and_wait(NULL, address, 0);
        }
        if (guard.watched(address) == NPA_WATCH_PENDING) {
            return true; /* for want of memory, say: it faults again, a bounded number of times */
        }
    }
    atomic_fetch_add_explicit(&guard.successes, 1, memory_order_relaxed);
    return true;
}

/* Whether the touch should be repeated. address: of it; NULL: all of the range is needed. */
static bool serve_fault(npa_range *range, const void *address)
{
    unsigned shown = npa_range_shown_parts(range);
    if (npa_range_serves(range, true)) {
        return true; /* another thread's touch, or a withdrawal between fault and handler */
    }
    if (may_not_wait()) {
        return false;
    }
    atomic_fetch_add_explicit(&guard.faults, 1, memory_order_relaxed);
    if (atomic_load(&guard.evaluator) == 0) {
        guard.serve(range, address); /* between a fork and the next npa_guard_check */
    } else {
        post_and_wait(range, address, shown);
    }
    if (npa_range_serves(range, true) || npa_range_shown_parts(range) != shown) {
        atomic_fetch_add_explicit(&guard.successes, 1, memory_order_relaxed);
    }
    return true; /* if it does not serve it faults again, a bounded number of times */
}

static void handle(int number, siginfo_t *info, void *context)
{
    int error = errno;
    bool guarded = info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR;
    npa_range *range = guarded ? npa_range_find(info->si_addr) : NULL;
    bool served = range != NULL && !is_stuck(info->si_addr) &&
                  serve_fault(range, info->si_addr);
    if (range == NULL && info->si_code == SEGV_ACCERR) {
        served = serve_write(info->si_addr);
    }
    if (!served) {
        chain(number, info, context);
    }
    errno = error;
}

void npa_guard_settle(const char *low, const char *high, bool written)
{
    int error = errno;
    const char *at = low;
    /* After what the caller did to be seen, syscalls.c */
    atomic_thread_fence(memory_order_seq_cst);
    repeats = 0; /* a call that gave up is no crash: the next one tries again */
    for (npa_range *r; at < high && (r = npa_range_find(at)) != NULL; at = r->home + r->span) {
        while (!npa_range_serves(r, written) && !is_stuck(at) &&
               serve_fault(r, NULL)) {
        }
    }
    while (written && (at = npa_watch_armed(low, high)) != NULL && serve_write(at)) {
    }
    errno = error;
}

/* ----------------------------------------------------------------------------------- fork */

/* An idle evaluator ends before a fork (Python warns about forking with threads); the next
 * npa_guard_check starts it again, in both processes. */
static void before_fork(void)
{
    pthread_mutex_lock(&guard.lock);
    if (atomic_load(&guard.evaluator) && !guard.detached && !atomic_load(&guard.busy) &&
        atomic_load(&guard.notes) == NULL) {
        atomic_store(&guard.quit, true);
        atomic_fetch_add(&guard.posts, 1);
        npa_word_wake(&guard.posts, INT_MAX);
        struct timespec end;
        clock_gettime(CLOCK_REALTIME, &end);
        end.tv_sec++;
        if (pthread_timedjoin_np(guard.thread, NULL, &end) != 0) {
            /* A touch came in between, and its evaluation waits, perhaps for this very thread. */
            atomic_store(&guard.quit, false);
            pthread_detach(guard.thread);
            guard.detached = true;
        }
    }
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&guard.lock);
}

static void after_fork_in_child(void)
{
    atomic_store(&guard.evaluator, 0);
    atomic_store(&guard.notes, NULL); /* of threads that are not here */
    atomic_store(&guard.busy, false);
    npa_calls_forked();
    pthread_mutex_unlock(&guard.lock);
}

/* --------------------------------------------------------------------------------- install */

static void watch_forks(void)
{
    npa_at_fork(before_fork, after_fork_in_parent, after_fork_in_child);
}

/* Put our handler in force if it is not. Returns whether it was, or -1 with errno. */
static int take_over(void)
{
    struct sigaction now;
    if (sigaction(SIGSEGV, NULL, &now) != 0) {
        return -1;
    }
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == handle) {
        return 1;
    }
    int count = atomic_load(&guard.handlers);
    if (count == HANDLERS) {
        errno = EAGAIN; /* somebody takes it from us again and again: let them */
        return -1;
    }
    if (count == 0 || now.sa_sigaction != guard.before[count - 1].sa_sigaction) {
        guard.before[count] = now;
        atomic_store_explicit(&guard.handlers, count + 1, memory_order_release);
    }
    struct sigaction ours = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    return sigaction(SIGSEGV, &ours, NULL);
}

int npa_guard_install(void (*serve)(npa_range *range, const void *touched), void (*served)(void))
{
    pthread_once(&guard.once, watch_forks);
    pthread_mutex_lock(&guard.lock);
    guard.serve = serve, guard.served = served;
    int error = start_evaluator();
    if (error == 0 && take_over() < 0) {
        error = errno;
    }
    pthread_mutex_unlock(&guard.lock);
    return error;
}

bool npa_guard_check(void)
{
    struct sigaction now;
    bool in_force = sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
                    now.sa_sigaction == handle;
    if (in_force && atomic_load_explicit(&guard.evaluator, memory_order_relaxed)) {
        return true;
    }
    pthread_mutex_lock(&guard.lock);
    start_evaluator(); /* without one a touch is served where it happens */
    take_over();
    pthread_mutex_unlock(&guard.lock);
    return in_force;
}

void npa_guard_watch(int (*watched)(const void *address), void (*serve)(const void *address))
{
    guard.serve_write = serve;
    guard.watched = watched;
}

bool npa_guard_evaluates(void)
{
    return evaluates;
}

void npa_guard_never_waits(void)
{
    never_waits = true;
}

uint64_t npa_guard_faults(void)
{
    return atomic_load_explicit(&guard.faults, memory_order_relaxed);
}
