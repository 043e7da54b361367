/* process.c: a process is started by a thread, so that nobody waits for it.
 *
 *     start ──► two pipes ──► thread ──► a process between ──► posix_spawn, which lasts until the
 *       │                                                      new process runs its program; what
 *       │                                                      the pipe holds by then waits for it
 *       └──► ends of the pipes, at once          wait ──► its number, or why there is none
 *
 * The new process is no child of this one: a program that waits for its children, or is told of
 * their ends, would meet one that it does not know. Its parent is a process between, which ends at
 * once. Of that end the program hears nothing either: the process between was made with no signal
 * for it, so that only who waits with __WCLONE meets it.
 *
 * Whoever calls posix_spawn stands still until the new process has got a processor and given the
 * memory back that it shares with its parent: some tenths of a millisecond, or ten where other
 * programs run. A fork waits for the thread: Python >= 3.12 warns about forking with threads, and
 * the child would have ends of the pipes that nobody closes. */
#define _GNU_SOURCE
#include "system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10, BETWEEN_BYTES = 64 << 10, PIPE_BYTES = 1 << 20 };

struct npa_process {
    pthread_t thread;
    npa_process *next; /* under way, too */
    bool under_way;    /* the thread has not been joined; with `lock` */
    int in, out;       /* the new process's ends */
    pid_t pid;
    uint64_t since; /* when it began, by which no other one is met that has its number later */
    int error;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char *const *arguments;
    char **environment;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static npa_process *all_under_way; /* with `lock` */

/* In the process between, whose descriptors are a copy of ours: of those that the program lets its
 * children have, the new process gets none. A pipe would have no end, a lock no release. */
static void keep_descriptors(void)
{
    enum { CLOSED_BY_EXEC = 4, SEARCHED = 1 << 16 };
#ifdef SYS_close_range
    if (syscall(SYS_close_range, 3u, ~0u, CLOSED_BY_EXEC) == 0) {
        return;
    }
#endif
    long most = sysconf(_SC_OPEN_MAX); /* Linux before 5.11 */
    for (int fd = 3; fd < most && fd < SEARCHED; fd++) {
        fcntl(fd, F_SETFD, FD_CLOEXEC);
    }
}

/* It has our memory, as long as the thread stands still. */
static int spawn_between(void *given)
{
    npa_process *p = given;
    keep_descriptors();
    p->error = posix_spawn(&p->pid, p->arguments[0], &p->actions, &p->attributes, p->arguments,
                           p->environment);
    _exit(0);
}

/* When a process began, in ticks of the system; 0: there is none. */
static uint64_t began(pid_t pid)
{
    char path[32], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file != NULL) {
        fclose(file);
    }
    line[length] = '\0';
    const char *at = strrchr(line, ')'); /* behind its name, in which there may be anything */
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtoull(at, NULL, 10) : 0;
}

static void spawn(npa_process *p)
{
    _Alignas(16) char stack[BETWEEN_BYTES];
    pid_t between = clone(spawn_between, stack + sizeof stack, CLONE_VM | CLONE_VFORK, p);
    if (between < 0) {
        p->error = errno;
        return;
    }
    while (waitpid(between, NULL, __WCLONE) < 0 && errno == EINTR) {
    }
    if (p->error == 0) {
        p->since = began(p->pid);
    }
}

static void *run(void *given)
{
    npa_process *p = given;
    /* Of either end; a large message is then written at once. */
    fcntl(p->in, F_SETPIPE_SZ, PIPE_BYTES);
    fcntl(p->out, F_SETPIPE_SZ, PIPE_BYTES);
    spawn(p);
    /* Without a process, reading ends now; writing does not: it would be a SIGPIPE */
    close(p->out);
    if (p->error == 0) {
        close(p->in);
        p->in = -1;
    }
    return NULL;
}

/* With `lock`. */
static void join(npa_process *p)
{
    npa_process **at = &all_under_way;
    if (p->under_way) {
        pthread_join(p->thread, NULL);
        p->under_way = false;
        while (*at != p) {
            at = &(*at)->next;
        }
        *at = p->next;
    }
}

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    while (all_under_way != NULL) {
        join(all_under_way);
    }
}

static void after_fork(void) { pthread_mutex_unlock(&lock); }

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int cannot_watch_forks;

static void watch_forks(void)
{
    cannot_watch_forks = npa_at_fork(before_fork, after_fork, after_fork);
}

static void begin(npa_process *p)
{
    sigset_t here;
    pthread_sigmask(SIG_SETMASK, NULL, &here);
    posix_spawnattr_setsigmask(&p->attributes, &here); /* the caller's, not the thread's */
    pthread_mutex_lock(&lock);
    p->under_way = npa_thread_start(&p->thread, run, p, STACK_BYTES) == 0;
    if (p->under_way) {
        p->next = all_under_way;
        all_under_way = p;
    }
    pthread_mutex_unlock(&lock);
    if (!p->under_way) {
        run(p); /* which says why, where there can be no process either */
    }
}

void npa_process_free(npa_process *p)
{
    if (p->in >= 0) {
        close(p->in);
    }
    posix_spawn_file_actions_destroy(&p->actions);
    posix_spawnattr_destroy(&p->attributes);
    free(p->environment);
    free(p);
}

/* A copy of ours but for what begins with `left_out`, and these; NULL: no memory. */
static char **environment_of(const char *left_out, char *const *added)
{
    size_t count = 0, more = 0, bytes = 0, length = strlen(left_out);
    for (char **at = environ; at != NULL && *at != NULL; at++, count++) {
        bytes += strlen(*at) + 1;
    }
    while (added[more] != NULL) {
        more++;
    }
    char **list = malloc((count + more + 1) * sizeof *list + bytes), **next = list;
    if (list == NULL) {
        return NULL;
    }
    char *text = (char *)(list + count + more + 1);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], left_out, length) != 0) {
            *next++ = text;
            text = stpcpy(text, environ[i]) + 1;
        }
    }
    memcpy(next, added, (more + 1) * sizeof *next);
    return list;
}

static npa_process *prepare(char *const *arguments, const char *left_out, char *const *added)
{
    npa_process *p = calloc(1, sizeof *p);
    if (p == NULL) {
        return NULL;
    }
    p->in = -1, p->arguments = arguments;
    posix_spawn_file_actions_init(&p->actions);
    posix_spawnattr_init(&p->attributes);
    /* A session of its own: Ctrl-C is not for it. */
    posix_spawnattr_setflags(&p->attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    p->environment = environment_of(left_out, added);
    if (p->environment == NULL) {
        npa_process_free(p);
        return NULL;
    }
    return p;
}

/* A pipe that no other process inherits; not where the program has closed its standard streams,
 * whose numbers others go by. 0, or an error's number. */
static int make_pipe(int ends[2])
{
    int made[2];
    if (pipe2(made, O_CLOEXEC) < 0) {
        return errno;
    }
    for (int i = 0; i < 2; i++) {
        ends[i] = made[i] < 3 ? fcntl(made[i], F_DUPFD_CLOEXEC, 3) : made[i];
    }
    int error = ends[0] < 0 || ends[1] < 0 ? errno : 0;
    for (int i = 0; i < 2; i++) {
        if (ends[i] != made[i]) {
            close(made[i]);
        }
        if (error && ends[i] >= 0) {
            close(ends[i]);
        }
    }
    return error;
}

/* Two pipes; our ends do not wait. errors: the file for its standard error. 0, or an error's
 * number. */
static int connect_to(npa_process *p, const char *errors, int *to, int *from)
{
    int there[2], back[2], failed = make_pipe(there);
    if (failed) {
        return failed;
    }
    failed = make_pipe(back);
    if (failed) {
        close(there[0]), close(there[1]);
        return failed;
    }
    p->in = there[0], *to = there[1];
    *from = back[0], p->out = back[1];
    fcntl(*to, F_SETFL, O_NONBLOCK);
    fcntl(*from, F_SETFL, O_NONBLOCK);
    int error = posix_spawn_file_actions_adddup2(&p->actions, p->in, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(&p->actions, p->out, 1);
    error = error ? error : posix_spawn_file_actions_addopen(&p->actions, 2, errors, O_WRONLY, 0);
    if (error) {
        close(p->out), close(*to), close(*from);
    }
    return error;
}

int npa_process_start(char *const *arguments, const char *left_out, char *const *added,
                      const char *errors, npa_process **process, int *to, int *from)
{
    pthread_once(&once, watch_forks);
    npa_process *p = prepare(arguments, left_out, added);
    int error = p == NULL            ? ENOMEM
                : cannot_watch_forks ? cannot_watch_forks
                                     : connect_to(p, errors, to, from);
    if (error) {
        if (p != NULL) {
            npa_process_free(p);
        }
        return error;
    }
    begin(p);
    *process = p;
    return 0;
}

int npa_process_wait(npa_process *p, int64_t *number)
{
    pthread_mutex_lock(&lock);
    join(p);
    pthread_mutex_unlock(&lock);
    *number = p->pid;
    return p->error;
}

void npa_process_kill(npa_process *p)
{
    if (p->error == 0 && p->since != 0 && began(p->pid) == p->since) {
        kill(p->pid, SIGKILL);
    }
}
