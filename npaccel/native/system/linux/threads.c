/* threads.c: threads of ours, the words that they sleep on, and how many there may be. */
#define _GNU_SOURCE
#include "system/system.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

int npa_thread_start(pthread_t *thread, void *(*body)(void *), void *context, size_t stack_bytes)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) {
        return error;
    }
    if (stack_bytes > 0) {
        pthread_attr_setstacksize(&attributes, stack_bytes);
    }
    sigfillset(&all);
    for (const int *s = (const int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, 0}; *s; s++) {
        sigdelset(&all, *s); /* crashes are reported as anywhere */
    }
    pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, &attributes, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

int npa_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    return pthread_atfork(before, in_parent, in_child);
}

bool npa_word_wait(atomic_int *word, int value, int64_t most_ns)
{
    struct timespec most = {.tv_sec = most_ns / 1000000000, .tv_nsec = most_ns % 1000000000};
    return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, most_ns > 0 ? &most : NULL, NULL,
                   0) == 0;
}

int npa_word_wake(atomic_int *word, int most)
{
    long woken = syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, most, NULL, NULL, 0);
    return woken > 0 ? (int)woken : 0;
}

/* CPUs that a control group's quota amounts to, rounded up; `otherwise` when there is none. */
static int read_quota(int otherwise)
{
    long long quota = 0, period = 0;
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    if (file) {
        int read = fscanf(file, "%lld %lld", &quota, &period); /* "max 100000": no number */
        fclose(file);
        return read == 2 && quota > 0 && period > 0 ? (int)((quota + period - 1) / period)
                                                    : otherwise;
    }
    const char *names[] = {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us",
                           "/sys/fs/cgroup/cpu/cpu.cfs_period_us"};
    long long *values[] = {&quota, &period};
    for (int i = 0; i < 2; i++) {
        file = fopen(names[i], "re");
        if (file == NULL) {
            return otherwise;
        }
        int read = fscanf(file, "%lld", values[i]);
        fclose(file);
        if (read != 1 || *values[i] <= 0) {
            return otherwise;
        }
    }
    return (int)((quota + period - 1) / period);
}

/* What the process's affinity and its control group's quota allow. */
int npa_threads_allowed(void)
{
    cpu_set_t cpus;
    long n = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus)
                                                           : sysconf(_SC_NPROCESSORS_ONLN);
    int quota = read_quota(INT_MAX);
    n = n > quota ? quota : n;
    return n < 1 ? 1 : (int)n;
}

int npa_threads_apart(const pthread_t *threads, int n, int before)
{
    cpu_set_t cpus;
    int here = sched_getcpu();
    if (here < 0 || here == before || sched_getaffinity(0, sizeof cpus, &cpus) != 0 ||
        CPU_COUNT(&cpus) <= n) { /* there is not one for each of them beside this one */
        return before;
    }
    CPU_CLR(here, &cpus);
    for (int i = 0; i < n; i++) {
        pthread_setaffinity_np(threads[i], sizeof cpus, &cpus);
    }
    return here;
}

void npa_yield(void) { sched_yield(); }

long npa_process_here(void) { return getpid(); }

bool npa_say(const char *text, size_t length) { return write(STDERR_FILENO, text, length) >= 0; }
