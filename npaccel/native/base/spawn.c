/* spawn.c: a process is started by a thread, so that nobody waits for it.
 *
 *     spawn ──► two pipes ──► thread: posix_spawn, which lasts until the new process runs its
 *       │                     program; what the pipe holds by then waits for it
 *       └──► ends of the pipes, at once          spawned ──► its number, or why there is none
 *
 * Whoever calls posix_spawn stands still until the new process has got a processor and given the
 * memory back that it shares with its parent: some tenths of a millisecond, or ten where other
 * programs run. A fork waits for the thread: Python >= 3.12 warns about forking with threads, and
 * the child would have ends of the pipes that nobody closes. */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#define CAPSULE "npaccel.start"

enum { STACK_BYTES = 256 << 10, PIPE_BYTES = 1 << 20 };

typedef struct start {
    pthread_t thread;
    struct start *next; /* under way, too */
    bool under_way;     /* the thread has not been joined; with `lock` */
    int in, out;        /* the new process's ends */
    pid_t pid;
    int error;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char **arguments, **environment; /* as `exec` takes them */
    PyObject *texts[2];              /* tuples of bytes objects, to which they point */
} start;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static start *all_under_way; /* with `lock` */

static void *run(void *given)
{
    start *s = given;
    /* Of either end; a large message is then written at once. */
    fcntl(s->in, F_SETPIPE_SZ, PIPE_BYTES);
    fcntl(s->out, F_SETPIPE_SZ, PIPE_BYTES);
    s->error = posix_spawn(&s->pid, s->arguments[0], &s->actions, &s->attributes, s->arguments,
                           s->environment);
    /* Without a process, reading ends now; writing does not: it would be a SIGPIPE */
    close(s->out);
    if (s->error == 0) {
        close(s->in);
        s->in = -1;
    }
    return NULL;
}

/* With `lock`. */
static void join(start *s)
{
    start **at = &all_under_way;
    if (s->under_way) {
        pthread_join(s->thread, NULL);
        s->under_way = false;
        while (*at != s) {
            at = &(*at)->next;
        }
        *at = s->next;
    }
}

static void wait_for(start *s)
{
    Py_BEGIN_ALLOW_THREADS
    pthread_mutex_lock(&lock);
    join(s);
    pthread_mutex_unlock(&lock);
    Py_END_ALLOW_THREADS
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
    cannot_watch_forks = pthread_atfork(before_fork, after_fork, after_fork);
}

static void begin(start *s)
{
    sigset_t all, before;
    pthread_attr_t small;
    sigfillset(&all);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    posix_spawnattr_setsigmask(&s->attributes, &before); /* the caller's, not the thread's */
    pthread_mutex_lock(&lock);
    s->under_way = pthread_create(&s->thread, &small, run, s) == 0;
    if (s->under_way) {
        s->next = all_under_way;
        all_under_way = s;
    }
    pthread_mutex_unlock(&lock);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&small);
    if (!s->under_way) {
        run(s); /* which says why, where there can be no process either */
    }
}

static void drop(start *s)
{
    if (s->in >= 0) {
        close(s->in);
    }
    posix_spawn_file_actions_destroy(&s->actions);
    posix_spawnattr_destroy(&s->attributes);
    PyMem_Free(s->arguments);
    PyMem_Free(s->environment);
    Py_XDECREF(s->texts[0]);
    Py_XDECREF(s->texts[1]);
    PyMem_Free(s);
}

static void forget(PyObject *capsule)
{
    start *s = PyCapsule_GetPointer(capsule, CAPSULE);
    wait_for(s);
    drop(s);
}

/* Where the texts of bytes objects lie, and NULL behind the last. */
static bool point_to(PyObject *texts, char **at)
{
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(texts); i++) {
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(texts, i), at++, NULL) < 0) {
            return false; /* no bytes object, or one with a zero inside */
        }
    }
    *at = NULL;
    return true;
}

static char **arguments_of(PyObject *texts)
{
    char **list = PyMem_Calloc((size_t)PyTuple_GET_SIZE(texts) + 1, sizeof *list);
    if (list == NULL) {
        return (char **)PyErr_NoMemory();
    }
    if (!point_to(texts, list)) {
        PyMem_Free(list);
        return NULL;
    }
    return list;
}

/* A copy of ours but for what begins with `left_out`, and these. With the GIL, without which Python
 * does not change it. */
static char **environment_of(const char *left_out, PyObject *added)
{
    size_t count = 0, bytes = 0, length = strlen(left_out);
    for (char **at = environ; at != NULL && *at != NULL; at++, count++) {
        bytes += strlen(*at) + 1;
    }
    size_t places = count + (size_t)PyTuple_GET_SIZE(added) + 1;
    char **list = PyMem_Malloc(places * sizeof *list + bytes), **next = list;
    if (list == NULL) {
        return (char **)PyErr_NoMemory();
    }
    char *text = (char *)(list + places);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(environ[i], left_out, length) != 0) {
            *next++ = text;
            text = stpcpy(text, environ[i]) + 1;
        }
    }
    if (!point_to(added, next)) {
        PyMem_Free(list);
        return NULL;
    }
    return list;
}

static start *prepare(PyObject *arguments, const char *left_out, PyObject *added)
{
    start *s = PyMem_Calloc(1, sizeof *s);
    if (s == NULL) {
        return (start *)PyErr_NoMemory();
    }
    s->in = -1;
    posix_spawn_file_actions_init(&s->actions);
    posix_spawnattr_init(&s->attributes);
    /* A session of its own: Ctrl-C is not for it. */
    posix_spawnattr_setflags(&s->attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    s->texts[0] = Py_NewRef(arguments), s->texts[1] = Py_NewRef(added);
    s->arguments = arguments_of(arguments);
    s->environment = s->arguments != NULL ? environment_of(left_out, added) : NULL;
    if (s->environment == NULL) {
        drop(s);
        return NULL;
    }
    return s;
}

/* Two pipes that no other process inherits; our ends do not wait. errors: the file for its standard
 * error. 0, or an error's number. */
static int connect_to(start *s, const char *errors, int *to, int *from)
{
    int there[2], back[2];
    if (pipe2(there, O_CLOEXEC) < 0) {
        return errno;
    }
    if (pipe2(back, O_CLOEXEC) < 0) {
        int error = errno;
        close(there[0]), close(there[1]);
        return error;
    }
    s->in = there[0], *to = there[1];
    *from = back[0], s->out = back[1];
    fcntl(*to, F_SETFL, O_NONBLOCK);
    fcntl(*from, F_SETFL, O_NONBLOCK);
    int error = posix_spawn_file_actions_adddup2(&s->actions, s->in, 0);
    error = error ? error : posix_spawn_file_actions_adddup2(&s->actions, s->out, 1);
    error = error ? error : posix_spawn_file_actions_addopen(&s->actions, 2, errors, O_WRONLY, 0);
    if (error) {
        close(s->out), close(*to), close(*from);
    }
    return error;
}

PyObject *npa_spawn(PyObject *module, PyObject *args)
{
    PyObject *arguments, *added;
    const char *left_out, *errors;
    int to = -1, from = -1;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!yO!y", &PyTuple_Type, &arguments, &left_out, &PyTuple_Type,
                          &added, &errors)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(arguments) == 0) {
        PyErr_SetString(PyExc_ValueError, "a process needs the name of its program");
        return NULL;
    }
    pthread_once(&once, watch_forks);
    start *s = prepare(arguments, left_out, added);
    if (s == NULL) {
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(s, CAPSULE, forget);
    if (capsule == NULL) {
        drop(s);
        return NULL;
    }
    errno = cannot_watch_forks ? cannot_watch_forks : connect_to(s, errors, &to, &from);
    if (errno) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(capsule);
        return NULL;
    }
    begin(s);
    return Py_BuildValue("Nii", capsule, to, from);
}

PyObject *npa_spawned(PyObject *module, PyObject *capsule)
{
    (void)module;
    start *s = PyCapsule_GetPointer(capsule, CAPSULE);
    if (s == NULL) {
        return NULL;
    }
    wait_for(s);
    if (s->error) {
        errno = s->error;
        return PyErr_SetFromErrnoWithFilename(PyExc_OSError, s->arguments[0]);
    }
    return PyLong_FromLong(s->pid);
}
