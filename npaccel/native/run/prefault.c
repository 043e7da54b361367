/* prefault.c: what the last process with this command needed is made ready by a thread, meanwhile.
 *
 *     import ──► prepare(sizes) ──► thread: worker threads; new pages, touched, to the nursery
 *                                           until a program lacks pages, a fork, or KEEP_S later:
 *                                           what nobody took is given back
 *
 * The first touch of memory is most of a first call. Here it costs nobody anything who is not
 * computing yet: a program of half a second takes 3 to 7 % less. */
#include "run/run.h"

#include <errno.h>

enum { STACK_BYTES = 64 << 10, PAGE_BYTES = 4096, KEEP_S = 2 };

static struct {
    pthread_t thread;
    bool running; /* it has not been joined; with the GIL */
    size_t sizes[NPA_NEW];
    int n;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool end; /* with `lock` */
} ahead = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool is_over(void)
{
    pthread_mutex_lock(&ahead.lock);
    bool end = ahead.end;
    pthread_mutex_unlock(&ahead.lock);
    return end || atomic_load_explicit(&npa_memory_lacks, memory_order_relaxed);
}

static bool touch(size_t size)
{
    npa_lock_native();
    npa_range *range = npa_range_ahead(size);
    npa_unlock();
    if (range == NULL) {
        return false;
    }
    bool over = false;
    for (size_t at = 0; at < size && !over; at += PAGE_BYTES) {
        ((volatile char *)range->work)[at] = 0;
        over = atomic_load_explicit(&npa_memory_lacks, memory_order_relaxed);
    }
    npa_lock_native();
    npa_range_lend(range);
    npa_unlock();
    return true;
}

static void *prepare(void *unused)
{
    (void)unused;
    struct timespec until;
    npa_pool_start();
    for (int i = 0; i < ahead.n && !is_over() && touch(ahead.sizes[i]); i++) {
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += KEEP_S;
    pthread_mutex_lock(&ahead.lock);
    while (!ahead.end && pthread_cond_timedwait(&ahead.changed, &ahead.lock, &until) != ETIMEDOUT) {
    }
    pthread_mutex_unlock(&ahead.lock);
    npa_lock_native();
    npa_nursery_trim_ahead();
    npa_unlock();
    return NULL;
}

PyObject *npa_prepare(PyObject *module, PyObject *args)
{
    PyObject *sizes;
    Py_ssize_t most;
    size_t total = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!n", &PyTuple_Type, &sizes, &most)) {
        return NULL;
    }
    /* Not where others need the memory, nor where it would take the only processor. */
    size_t free_bytes = npa_limit_free();
    size_t allowed = npa_limit_memory();
    free_bytes = free_bytes < allowed ? free_bytes : allowed;
    most = (size_t)most > free_bytes / 8 ? (Py_ssize_t)(free_bytes / 8) : most;
    if (ahead.running || !npa_guard_on || npa_pool_size() < 2) {
        Py_RETURN_FALSE;
    }
    ahead.n = 0, ahead.end = false;
    atomic_store(&npa_memory_lacks, false);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes) && ahead.n < NPA_NEW; i++) {
        size_t size = PyLong_AsSize_t(PyTuple_GET_ITEM(sizes, i));
        if (PyErr_Occurred()) {
            return NULL;
        }
        if (size <= (size_t)most - total) {
            ahead.sizes[ahead.n++] = size;
            total += size;
        }
    }
    ahead.running = npa_thread_start(&ahead.thread, prepare, NULL, STACK_BYTES) == 0;
    return PyBool_FromLong(ahead.running);
}

/* Before a fork, for Python warns about forking with threads. */
PyObject *npa_prepare_end(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    if (ahead.running) {
        ahead.running = false;
        pthread_mutex_lock(&ahead.lock);
        ahead.end = true;
        pthread_cond_signal(&ahead.changed);
        pthread_mutex_unlock(&ahead.lock);
        Py_BEGIN_ALLOW_THREADS /* it may wait for who waits for the GIL */
        pthread_join(ahead.thread, NULL);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

PyObject *npa_new_sizes(PyObject *module, PyObject *nothing)
{
    const size_t *sizes;
    (void)module, (void)nothing;
    npa_lock();
    int n = npa_memory_new(&sizes);
    npa_unlock();
    PyObject *found = PyTuple_New(n); /* those that are there stay as they are */
    for (int i = 0; found != NULL && i < n; i++) {
        npa_fill_in(&found, i, PyLong_FromSize_t(sizes[i]));
    }
    return found;
}
