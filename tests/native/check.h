/* check.h: what the C tests share. A failed check names its place and ends the program. */
#ifndef NPA_CHECK_H
#define NPA_CHECK_H

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../npaccel/native/system/system.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* VMAs of this process, to hold against what the core counts. */
static inline size_t
count_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    CHECK(maps);
    size_t lines = 0;
    for (int c; (c = getc(maps)) != EOF;) {
        lines += c == '\n';
    }
    fclose(maps);
    return lines;
}

static inline npa_memory_stats
memory(void)
{
    npa_memory_stats now;
    npa_memory_read_stats(&now);
    return now;
}

static inline double
now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Threads of this process, counted as Python does before it warns about a fork. */
static inline int
count_threads(void)
{
    int n = 0;
    DIR *tasks = opendir("/proc/self/task");
    CHECK(tasks);
    for (const struct dirent *e; (e = readdir(tasks));) {
        n += e->d_name[0] != '.';
    }
    closedir(tasks);
#ifdef NPA_EMULATED
    n--; /* the emulator's own */
#endif
    return n;
}

/* Status of a child that runs `body`. */
static inline int
in_child(void (*body)(void))
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        npa_guard_check();
        alarm(20);
        body();
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

/* xorshift: the same numbers in each run */
static inline unsigned long
next_random(unsigned long *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
