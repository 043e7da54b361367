/* threads.c: threads of ours, the words that they sleep on, and how many there may be. */
#include "system/system.h"

#include <stdio.h>
#include <unistd.h>

int npa_thread_start(pthread_t *thread, void *(*body)(void *), void *context, size_t stack_bytes)
{
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error) {
        return error;
    }
    if (stack_bytes > 0) {
        pthread_attr_setstacksize(&attributes, stack_bytes); /* else it is the usual one */
    }
    error = pthread_create(thread, &attributes, body, context);
    pthread_attr_destroy(&attributes);
    return error;
}

int npa_at_fork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void))
{
    (void)before, (void)in_parent, (void)in_child; /* a macro of nothing on Windows */
    return pthread_atfork(before, in_parent, in_child);
}

/* ------------------------------------------------------------------------------------- words */

/* On the stack of a thread that sleeps. */
typedef struct sleeper sleeper;
struct sleeper {
    atomic_int *word;
    bool woken;
    sleeper *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
static sleeper *sleepers; /* with `lock` */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Those that sleep are not in the child, nor who had the lock. */
static void forked(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&woken, NULL);
    sleepers = NULL;
}

static void watch_forks(void) { npa_at_fork(NULL, NULL, forked); }

static struct timespec in(int64_t ns)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    ns += end.tv_nsec;
    end.tv_sec += ns / 1000000000, end.tv_nsec = ns % 1000000000;
    return end;
}

static void leave(sleeper *mine)
{
    sleeper **at = &sleepers;
    while (*at != NULL && *at != mine) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = mine->next;
    }
}

bool npa_word_wait(atomic_int *word, int value, int64_t most_ns)
{
    struct timespec end = in(most_ns);
    sleeper mine = {.word = word};
    int error = 0;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    if (atomic_load(word) == value) {
        mine.next = sleepers, sleepers = &mine;
        while (!mine.woken && error == 0) {
            error = most_ns > 0 ? pthread_cond_timedwait(&woken, &lock, &end)
                                : pthread_cond_wait(&woken, &lock);
        }
        leave(&mine);
    }
    pthread_mutex_unlock(&lock);
    return mine.woken;
}

int npa_word_wake(atomic_int *word, int most)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (sleeper *s = sleepers; s != NULL && n < most; s = s->next) {
        n += s->word == word && !s->woken;
        s->woken |= s->word == word;
    }
    if (n > 0) {
        pthread_cond_broadcast(&woken);
    }
    pthread_mutex_unlock(&lock);
    return n;
}

/* -------------------------------------------------------------------------------- the process */

int npa_threads_allowed(void)
{
#ifdef _SC_NPROCESSORS_ONLN
    long n = sysconf(_SC_NPROCESSORS_ONLN);
#else
    long n = pthread_num_processors_np(); /* of Windows' POSIX threads */
#endif
    return n < 1 ? 1 : (int)n;
}

int npa_threads_apart(const pthread_t *threads, int n, int before)
{
    (void)threads, (void)n;
    return before;
}

void npa_yield(void) { sched_yield(); }

long npa_process_here(void) { return getpid(); }

bool npa_say(const char *text, size_t length) { return fwrite(text, 1, length, stderr) == length; }
