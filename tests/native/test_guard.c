/* test_guard.c: who touches a range gets its full content; who crashes, crashes. */
#include "check.h"

#include "../../npaccel/native/system/system.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int served, serve_fails, in_parts;
enum { PART = 64 << 10 };

/* Where it was touched for the first time 64 KiB appear. */
static bool
serve_part(npa_range *range, const void *touched)
{
    size_t at = touched == NULL ? 0 : (size_t)((const char *)touched - range->home), low, high;
    if (touched == NULL || (npa_range_part(range, at, &low, &high) && low <= at)) {
        return false;
    }
    long *pages = (long *)npa_part_new(PART);
    for (size_t i = 0; i < PART / sizeof(long); i++) {
        pages[i] = (long)(intptr_t)range->buffer;
    }
    return npa_range_show_part(range, at / PART * PART, (char *)pages, PART) == 0;
}

/* Fill a range with the number that it was made for, and publish it. */
static void
serve(npa_range *range, const void *touched)
{
    pthread_mutex_lock(&lock);
    if (atomic_load(&in_parts) && range->work != range->home && serve_part(range, touched)) {
        pthread_mutex_unlock(&lock);
        return;
    }
    if (range->work != range->home && !atomic_load(&serve_fails)) {
        long *work = (long *)npa_range_work(range);
        for (size_t i = 0; i < range->size / sizeof(long); i++) {
            work[i] = (long)(intptr_t)range->buffer;
        }
        CHECK(npa_range_publish(range) == 0);
        atomic_fetch_add(&served, 1);
    }
    npa_range_break(range);
    pthread_mutex_unlock(&lock);
}

static npa_range *
new_range(size_t size, long number)
{
    pthread_mutex_lock(&lock);
    npa_range *range = npa_range_new(size);
    CHECK(range);
    range->buffer = (void *)(intptr_t)number;
    pthread_mutex_unlock(&lock);
    return range;
}

static void
free_range(npa_range *range)
{
    pthread_mutex_lock(&lock);
    npa_range_free(range);
    pthread_mutex_unlock(&lock);
}

static void
test_touch(void)
{
    for (long i = 0; i < 3000; i++) { /* one recycled home: more touches there than repeats */
        npa_range *r = new_range(256 * KIB, i);
        errno = 77;
        CHECK(*(volatile long *)(r->home + 8 * (i % 4000)) == i && errno == 77);
        CHECK(r->work == r->home);
        *(volatile long *)r->home = 5;
        free_range(r);
    }
    CHECK(npa_guard_faults() == 3000 && npa_guard_check());
}

enum { READERS = 5, RANGES = 400 };
static _Atomic(npa_range *) shared[RANGES];
static pthread_barrier_t barrier;

/* All readers touch each range at once, and add up all of it. */
static void *
read_all(void *number)
{
    for (int i = 0; i < RANGES; i++) {
        pthread_barrier_wait(&barrier);
        npa_range *r = atomic_load(&shared[i]);
        size_t n = r->size / sizeof(long), first = (size_t)(intptr_t)number * n / READERS;
        for (size_t k = 0; k < n; k++) {
            CHECK(((volatile long *)r->home)[(first + k) % n] == i);
        }
    }
    return NULL;
}

static void
test_readers(void)
{
    pthread_t readers[READERS];
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * KIB);
    pthread_barrier_init(&barrier, NULL, READERS);
    for (int i = 0; i < RANGES; i++) {
        atomic_store(&shared[i], new_range(i % 20 ? 64 * KIB : 2100 * KIB, i));
    }
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_create(&readers[i], &small, read_all, (void *)(intptr_t)i) == 0);
    }
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i], NULL);
    }
    for (int i = 0; i < RANGES; i++) {
        free_range(shared[i]);
    }
}

static void *
write_one(void *place)
{
    *(volatile long *)place = 77;
    return NULL;
}

/* Reads of a sealed range are no faults; a write breaks the seal first, on whatever thread. */
static void
test_seal(void)
{
    npa_range *r = new_range(700 * KIB, 5);
    volatile long *home = (volatile long *)r->home;
    size_t n = r->size / sizeof(long);
    CHECK(home[0] == 5);
    for (int i = 1; i < 300; i++) {
        npa_memory_stats before, after;
        pthread_mutex_lock(&lock);
        CHECK(npa_range_seal(r) == 0);
        npa_memory_read_stats(&before);
        pthread_mutex_unlock(&lock);
        uint64_t faults = npa_guard_faults();
        CHECK(home[n - 1] == 5 && home[i] == 5 && npa_guard_faults() == faults);
        if (i % 2) {
            write_one((void *)&home[i]);
        }
        else {
            pthread_t other;
            CHECK(pthread_create(&other, NULL, write_one, (void *)&home[i]) == 0);
            pthread_join(other, NULL);
        }
        npa_memory_read_stats(&after);
        CHECK(home[i] == 77 && npa_guard_faults() == faults + 1);
        CHECK(after.broken == before.broken + 1 && after.sealed == before.sealed - 1);
    }
    free_range(r);
}

static atomic_bool stop;

/* Reads one range that is withdrawn, changed and published under its eyes. The thread sanitizer
 * takes the mmap in npa_range_withdraw for a write to home, which nothing orders with the reads. */
__attribute__((no_sanitize_thread)) static void *
read_changing(void *range)
{
    volatile long *home = (volatile long *)((npa_range *)range)->home;
    size_t n = ((npa_range *)range)->size / sizeof(long);
    for (size_t i = 0; !atomic_load(&stop); i += 4099) {
        CHECK(home[i % n] > 0); /* never zero, never what is being written */
    }
    return NULL;
}

static void
test_withdraw(int rounds)
{
    pthread_t readers[3];
    npa_range *r = new_range(3000 * KIB, 1);
    atomic_store(&stop, false);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&readers[i], NULL, read_changing, r) == 0);
    }
    for (int i = 2; i < rounds; i++) {
        pthread_mutex_lock(&lock);
        CHECK(r->work == NULL || npa_range_withdraw(r) == 0);
        memset(npa_range_work(r), 0x80, 4 * KIB); /* negative */
        r->buffer = (void *)(intptr_t)i;
        pthread_mutex_unlock(&lock);
        if (i % 3) {
            serve(r, NULL);
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(readers[i], NULL);
    }
    free_range(r);
}

/* Parts appear as they are read; a write has all of it appear; so has a system call. */
static void
test_parts(void)
{
    atomic_store(&in_parts, 1);
    npa_range *r = new_range(3000 * KIB, 6);
    volatile long *home = (volatile long *)r->home;
    size_t n = r->size / sizeof(long), step = PART / sizeof(long);
    uint64_t faults = npa_guard_faults();
    for (size_t i = 0; i < n; i += step / 4) {
        CHECK(home[i] == 6 && r->work == NULL && npa_guard_faults() - faults == i / step + 1);
    }
    write_one((void *)&home[step + 1]);
    CHECK(r->work == r->home && home[step + 1] == 77 && home[step] == 6 && home[n - 1] == 6);
    pthread_mutex_lock(&lock);
    CHECK(npa_range_withdraw(r) == 0);
    pthread_mutex_unlock(&lock);
    CHECK(home[0] == 6 && r->work != r->home);
    npa_guard_settle(r->home, r->home + 8, false);
    CHECK(r->work == r->home);
    free_range(r);
    test_readers();
    test_withdraw(2000);
    atomic_store(&in_parts, 0);
}

#ifndef NPA_SANITIZED /* sanitizers have crash handlers of their own */

static char *
bad_page(void)
{
    char *p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static void
crash(void)
{
    *(volatile char *)bad_page() = 1;
}

static void
crash_at_null(void)
{
    *(volatile char *)(uintptr_t)getpagesize() = 1;
}

static void
send_to_self(void)
{
    kill(getpid(), SIGSEGV);
}

static void
never_served(void)
{
    atomic_store(&serve_fails, 1);
    *(volatile char *)new_range(4096, 1)->home = 1;
}

static void
touch_freed(void)
{
    npa_range *r = new_range(4096, 1);
    char *home = r->home;
    free_range(r);
    *(volatile char *)home = 1;
}

static npa_range *volatile inner;

static void
serve_by_touching(npa_range *range, const void *touched)
{
    (void)range, (void)touched;
    *(volatile char *)inner->home = 1;
}

static void
evaluator_faults(void)
{
    inner = new_range(4096, 1);
    CHECK(npa_guard_install(serve_by_touching, NULL) == 0);
    *(volatile char *)new_range(4096, 1)->home = 1;
}

static void
touch_in_task(void *range, int64_t task, int worker)
{
    (void)task;
    usleep(1000);
    if (worker) {
        *(volatile char *)((npa_range *)range)->home = 1;
    }
}

static void
worker_faults(void)
{
    npa_pool_threads(3);
    npa_pool_run(touch_in_task, new_range(4096, 1), 100, NULL);
}

static sigjmp_buf jump;
static char *volatile protected_page;
static volatile int calls;

static void
repair(int number, siginfo_t *info, void *context)
{
    (void)context;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    CHECK(number == SIGSEGV && info->si_addr == protected_page && sigismember(&now, SIGUSR1) &&
          sigismember(&now, SIGSEGV) && !sigismember(&now, SIGUSR2));
    calls++;
    mprotect(protected_page, 4096, PROT_READ | PROT_WRITE);
}

/* A handler before ours repairs its own faults, with its own mask. */
static void
chain_to_repair(void)
{
    struct sigaction before = {.sa_sigaction = repair, .sa_flags = SA_SIGINFO};
    sigaddset(&before.sa_mask, SIGUSR1);
    sigaction(SIGSEGV, &before, NULL);
    CHECK(!npa_guard_check() && npa_guard_check());
    for (int i = 0; i < 3; i++) {
        protected_page = bad_page();
        *(volatile char *)protected_page = 1;
        CHECK(*(volatile long *)new_range(4096, i)->home == i);
    }
    CHECK(calls == 3);
}

static void
leave_by_jump(int number)
{
    (void)number;
    calls++;
    siglongjmp(jump, 1);
}

static void
chain_to_jump(void)
{
    signal(SIGSEGV, leave_by_jump);
    npa_guard_check();
    for (volatile int i = 0; i < 10; i++) {
        if (sigsetjmp(jump, 1) == 0) {
            crash();
        }
    }
    CHECK(calls == 10);
}

static struct sigaction kept;

static void
pass_on(int number, siginfo_t *info, void *context)
{
    CHECK(++calls == 1);
    kept.sa_sigaction(number, info, context); /* ours, which must not call us again */
}

static void
chain_in_a_ring(void)
{
    struct sigaction after = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &after, &kept);
    npa_guard_check();
    crash();
}

static void
only_return(int number)
{
    (void)number;
}

static void
chain_to_one_that_returns(void)
{
    signal(SIGSEGV, only_return);
    npa_guard_check();
    crash();
}

static void
survive_fork(void)
{
    npa_range *r = new_range(256 * KIB, 3), *s = new_range(256 * KIB, 4);
    if (in_child(crash) != SIGSEGV) { /* a child of a child */
        _exit(1);
    }
    CHECK(*(volatile long *)r->home == 3); /* with no evaluator: served in place */
    npa_guard_check();
    CHECK(*(volatile long *)s->home == 4);
}

static void
test_crashes(void)
{
    CHECK(WTERMSIG(in_child(crash)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(crash_at_null)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(send_to_self)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(never_served)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(touch_freed)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(evaluator_faults)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(worker_faults)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(chain_in_a_ring)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(chain_to_one_that_returns)) == SIGSEGV);
    CHECK(in_child(chain_to_repair) == 0);
    CHECK(in_child(chain_to_jump) == 0);
    CHECK(count_threads() == 1 && npa_guard_check() && count_threads() == 2);
    for (int i = 0; i < 20; i++) {
        CHECK(in_child(survive_fork) == 0);
    }
}

/* Other threads touch ranges while this one forks. */
static void *
touch_until_stop(void *unused)
{
    (void)unused;
    for (long i = 0; !atomic_load(&stop); i++) {
        npa_range *r = new_range(64 * KIB, i);
        CHECK(*(volatile long *)r->home == i);
        free_range(r);
    }
    return NULL;
}

static void
nothing(void)
{
}

static void
test_fork_while_touched(void)
{
#ifdef NPA_EMULATED
    return; /* QEMU ends in a fork beside threads that are at work */
#endif
    pthread_t other[2];
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&other[i], NULL, touch_until_stop, NULL) == 0);
    }
    for (int i = 0; i < 100; i++) {
        CHECK(in_child(nothing) == 0);
        if (i % 2) {
            npa_guard_check();
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(other[i], NULL);
    }
}

#else
static void
test_crashes(void)
{
}

static void
test_fork_while_touched(void)
{
}
#endif

int
main(void)
{
    CHECK(npa_memory_init() == 0 && npa_guard_install(serve, NULL) == 0);
    npa_nursery_limit((size_t)64 << 20);
    test_touch();
    test_readers();
    test_seal();
    test_withdraw(2000);
    test_parts();
    test_crashes();
    test_fork_while_touched();
    printf("guard: ok (%d served, %lu faults)\n", atomic_load(&served),
           (unsigned long)npa_guard_faults());
    return 0;
}
