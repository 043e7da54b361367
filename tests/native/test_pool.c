/* test_pool.c: every task runs once, whoever launches, nests, cancels, forks or comes late. */
#define _GNU_SOURCE
#include "check.h"

#include "../../npaccel/native/system/system.h"

#include <dlfcn.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MANY = 2000 };

typedef struct {
    atomic_int runs[MANY];
    atomic_int threads[256]; /* tasks by worker */
    int pause_us;
    atomic_int *cancel; /* set by task 10 */
} record;

static void
count(void *context, int64_t task, int worker)
{
    record *r = context;
    atomic_fetch_add(&r->runs[task], 1);
    atomic_fetch_add(&r->threads[worker], 1);
    CHECK((worker != 0) == npa_pool_on_worker() || worker == 0);
    if (r->pause_us) {
        usleep((unsigned)r->pause_us);
    }
    if (r->cancel && task == 10) {
        atomic_store(r->cancel, 1);
    }
}

static void
check_all(record *r, int64_t tasks, int times)
{
    for (int64_t i = 0; i < MANY; i++) {
        CHECK(atomic_load(&r->runs[i]) == (i < tasks ? times : 0));
    }
}

static void
test_runs_each_once(void)
{
    for (int threads = 1; threads <= 5; threads++) {
        npa_pool_threads(threads);
        CHECK(npa_pool_size() == threads);
        for (int64_t tasks = 0; tasks <= MANY; tasks = 3 * tasks + 1) {
            record r = {0};
            CHECK(npa_pool_run(count, &r, tasks, NULL) == 0);
            check_all(&r, tasks, 1);
        }
    }
    record r = {.pause_us = 1000};
    npa_pool_threads(3);
    npa_pool_run(count, &r, 200, NULL);
    CHECK(r.threads[0] && r.threads[1] && r.threads[2] && !r.threads[3]); /* all helped */
    npa_pool_threads(1);
    record alone = {.pause_us = 100};
    npa_pool_run(count, &alone, 60, NULL);
    CHECK(alone.threads[0] == 60);
}

/* The context dies at once and is overwritten: a late worker must not see it. */
static void *
launch_often(void *rounds)
{
    for (int i = 0; i < *(int *)rounds; i++) {
        struct {
            record r;
        } *c = calloc(1, sizeof *c);
        int64_t tasks = 2 + i % 7;
        CHECK(npa_pool_run(count, &c->r, tasks, NULL) == 0);
        for (int64_t k = 0; k < 9; k++) {
            CHECK(atomic_load(&c->r.runs[k]) == (k < tasks));
        }
        memset((void *)c, 0xff, sizeof *c);
        free(c);
    }
    return NULL;
}

static void
test_concurrent(int rounds)
{
    pthread_t launchers[20]; /* more than there are slots */
    npa_pool_threads(4);
    launch_often(&rounds);
    rounds /= 10;
    for (int i = 0; i < 20; i++) {
        CHECK(pthread_create(&launchers[i], NULL, launch_often, &rounds) == 0);
    }
    for (int i = 0; i < 20; i++) {
        pthread_join(launchers[i], NULL);
    }
}

static void
nest(void *context, int64_t task, int worker)
{
    char *outer = npa_pool_scratch(worker, 1000);
    CHECK(outer && (uintptr_t)outer % 64 == 0);
    memset(outer, (int)task, 1000);
    CHECK(npa_pool_run(count, context, MANY, NULL) == 0);
    CHECK(npa_pool_scratch(worker, 10) == outer && outer[0] == (char)task &&
          outer[999] == (char)task);
}

static void
scribble(void *context, int64_t task, int worker)
{
    (void)context, (void)task;
    memset(npa_pool_scratch(worker, 1000), 0x55, 1000);
}

static void
nest_scratch(void *context, int64_t task, int worker)
{
    char *outer = npa_pool_scratch(worker, 1000);
    memset(outer, (int)task, 1000);
    npa_pool_run(scribble, context, 4, NULL);
    CHECK(outer[0] == (char)task && outer[999] == (char)task);
}

static void
test_nested(void)
{
    npa_pool_threads(3);
    record r = {0};
    CHECK(npa_pool_run(nest, &r, 20, NULL) == 0);
    check_all(&r, MANY, 20);
    npa_pool_run(nest_scratch, NULL, 50, NULL);
    CHECK(npa_pool_scratch(0, SIZE_MAX) == NULL && npa_pool_scratch(0, 0) != NULL);
}

static void
test_cancel(void)
{
    atomic_int cancel = 0;
    record r = {.pause_us = 50, .cancel = &cancel};
    npa_pool_threads(3);
    CHECK(npa_pool_run(count, &r, MANY, &cancel) == 1);
    int sum = 0;
    for (int i = 0; i < MANY; i++) {
        sum += r.runs[i];
        CHECK(r.runs[i] <= 1);
    }
    CHECK(sum >= 11 && sum < 100);
    record none = {0};
    CHECK(npa_pool_run(count, &none, MANY, &cancel) == 1);
    check_all(&none, 0, 1);
}

static int polls, stop_at;
static int64_t took;
static pthread_t poller;

static int
poll(void *arg)
{
    CHECK(arg == &polls && pthread_equal(pthread_self(), poller));
    return ++polls == stop_at;
}

/* Task 1 is long, wherever it runs: it is the waiting thread that polls, or between tasks. */
static void
slow(void *context, int64_t task, int worker)
{
    (void)worker;
    atomic_fetch_add((atomic_int *)context, 1);
    usleep(task < 2 ? 110000 : 1000);
}

static void
test_polled(void)
{
    atomic_int runs = 0;
    poller = pthread_self();
    npa_pool_threads(2);
    CHECK(npa_pool_run_polled(slow, &runs, 100, poll, &polls, &took) == 0);
    CHECK(runs == 100 && polls >= 1 && polls < 60);
    runs = polls = 0;
    stop_at = 1;
    CHECK(npa_pool_run_polled(slow, &runs, 100, poll, &polls, &took) == 1);
    CHECK(runs < 100 && polls == 1);
}

/* The caller has nothing left while a worker takes long: poll is called every 20 ms. */
static void
worker_is_slow(void *context, int64_t task, int worker)
{
    (void)context, (void)task;
    usleep(worker ? 150000 : 20000);
}

static void
test_polled_waiting(void)
{
    polls = stop_at = 0;
    for (int tries = 0; tries < 10 && polls < 4; tries++) {
        polls = 0;
        npa_pool_run_polled(worker_is_slow, NULL, 2, poll, &polls, &took);
    }
    CHECK(polls >= 4 && polls <= 40);
}

static atomic_bool stop;

static void *
launch_until_stop(void *unused)
{
    (void)unused;
    int rounds = 20;
    while (!atomic_load(&stop)) {
        launch_often(&rounds);
    }
    return NULL;
}

static void
test_fork(void)
{
#ifdef __SANITIZE_THREAD__
    return; /* it can't follow threads made after a fork */
#endif
#ifdef NPA_EMULATED
    return; /* QEMU ends in a fork beside threads that are at work */
#endif
    pthread_t other;
    npa_pool_threads(3);
    for (int busy = 0; busy < 2; busy++) {
        if (busy) {
            CHECK(pthread_create(&other, NULL, launch_until_stop, NULL) == 0);
        }
        for (int i = 0; i < 20; i++) {
            pid_t child = fork();
            if (child == 0) {
                record r = {.pause_us = 1000};
                CHECK(npa_pool_run(count, &r, 60, NULL) == 0);
                check_all(&r, 60, 1);
                _exit(r.threads[1] || r.threads[2] ? 0 : 1); /* new workers */
            }
            /* Workers ended before the fork; the kernel lists one a moment longer than it lives. */
            for (int k = 0; !busy && k < 2000 && count_threads() != 1; k++) {
                usleep(1000);
            }
            CHECK(busy || count_threads() == 1);
            int status;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
            record r = {0};
            CHECK(npa_pool_run(count, &r, MANY, NULL) == 0);
            check_all(&r, MANY, 1);
        }
    }
    atomic_store(&stop, true);
    pthread_join(other, NULL);
}

/* Sleepers are woken when what is left pays for it; most of these are over by then. */
static void
test_short_launches_wake_nobody(void)
{
    int alone = 0;
    npa_pool_threads(3);
    for (int i = 0; i < 60; i++) {
        record r = {0};
        usleep(2000); /* they fall asleep */
        CHECK(npa_pool_run(count, &r, 20, NULL) == 0);
        alone += r.threads[0] == 20;
    }
    CHECK(alone > 30);
}

static atomic_bool held; /* who is woken does not come */
static atomic_int calls; /* to wake somebody meanwhile */
static _Atomic long called;

long
syscall(long number, ...)
{
    static long (*_Atomic real)(long, ...); /* threads come at once */
    long a[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++) {
        a[i] = va_arg(list, long);
    }
    va_end(list);
    if (real == NULL) {
        real = (long (*)(long, ...))(uintptr_t)dlsym(RTLD_NEXT, "syscall");
    }
    if (number == SYS_futex && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAKE && atomic_load(&held)) {
        atomic_fetch_add(&calls, 1), atomic_store(&called, a[0]);
        return 1;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* One who is on the way is not woken again after each task. */
static void
test_nobody_is_woken_twice(void)
{
    npa_pool_threads(2);
    record r = {.pause_us = 500};
    CHECK(npa_pool_run(count, &r, 20, NULL) == 0); /* there is a worker */
    usleep(20000);
    atomic_store(&held, true);
    CHECK(npa_pool_run(count, &r, 20, NULL) == 0);
    check_all(&r, 20, 2);
    atomic_store(&held, false);
    CHECK(atomic_load(&calls) == 1);
    syscall(SYS_futex, atomic_load(&called), FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
    record again = {.pause_us = 500};
    CHECK(npa_pool_run(count, &again, 40, NULL) == 0 && again.threads[1] > 0);
}

/* In a child, since the default is found once: one allowed CPU means one thread. */
static void
test_affinity(void)
{
#ifdef __SANITIZE_THREAD__
    return;
#endif
    pid_t child = fork();
    if (child == 0) {
        cpu_set_t one, all;
        CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
        CPU_ZERO(&one);
        for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
            if (CPU_ISSET(i, &all)) {
                CPU_SET(i, &one);
            }
        }
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        _exit(npa_pool_size() == 1 ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void *
tell_where(void *told)
{
    cpu_set_t mine;
    CHECK(sched_getaffinity(0, sizeof mine, &mine) == 0);
    memcpy(told, &mine, sizeof mine);
    return NULL;
}

static void *
wait_for(void *word)
{
    while (atomic_load((atomic_int *)word) == 0) {
        usleep(100);
    }
    return NULL;
}

/* A thread that is kept apart may run wherever this one may, but not where it is. */
static void
test_threads_apart(void)
{
    cpu_set_t all, its, told;
    atomic_int over = 0;
    pthread_t thread;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    CHECK(pthread_create(&thread, NULL, wait_for, &over) == 0);
    int here = npa_threads_apart(&thread, 1, -1);
    CHECK(pthread_getaffinity_np(thread, sizeof its, &its) == 0);
    if (CPU_COUNT(&all) < 2) {
        CHECK(here == -1 && CPU_EQUAL(&its, &all));
    } else {
        CHECK(CPU_ISSET(here, &all) && !CPU_ISSET(here, &its));
        CHECK(CPU_COUNT(&its) == CPU_COUNT(&all) - 1);
    }
    atomic_store(&over, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, tell_where, &told) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(CPU_EQUAL(&told, &all)); /* what others start is as ever */
}

int
main(void)
{
    test_threads_apart();
    test_affinity();
    test_nobody_is_woken_twice();
    test_runs_each_once();
    test_short_launches_wake_nobody();
    test_concurrent(20000);
    test_nested();
    test_cancel();
    test_polled();
    test_polled_waiting();
    test_fork();
    printf("pool: ok\n");
    return 0;
}
