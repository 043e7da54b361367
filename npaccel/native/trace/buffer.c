/* buffer.c: the memory that requests name: our ranges, behind NumPy's memory handler. */
#include "trace/trace.h"

#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t told = PTHREAD_COND_INITIALIZER;
static atomic_int waiting; /* threads that want the mutex and the GIL */
static _Atomic(npa_buffer *) dead_list;
static PyObject *mem_handler;
PyDataMem_Handler *npa_numpy_handler;

void npa_lock_native(void) { pthread_mutex_lock(&mutex); }

void npa_lock_wait(int64_t at_most_ns)
{
    struct timespec end;
    if (at_most_ns == 0) {
        pthread_cond_wait(&told, &mutex);
        return;
    }
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += at_most_ns % 1000000000, end.tv_sec += at_most_ns / 1000000000;
    end.tv_sec += end.tv_nsec >= 1000000000, end.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&told, &mutex, &end);
}

void npa_lock_tell(void) { pthread_cond_broadcast(&told); }

static bool any_dead(void)
{
    return atomic_load_explicit(&dead_list, memory_order_relaxed) != NULL;
}

/* What died while the lock was held gives its memory back. */
void npa_unlock(void)
{
    do {
        if (any_dead()) {
            npa_collect_dead();
        }
        pthread_mutex_unlock(&mutex);
    } while (any_dead() && pthread_mutex_trylock(&mutex) == 0);
}

/* Others can work while we wait. The lock is never held while waiting for the GIL: its holder may
 * be in a fault, which needs the lock, and a daemon thread that asks for the GIL when the
 * interpreter ends is never seen again. So whoever waited may find the lock taken anew; lest a
 * thread that evaluates all the time keeps it for ever, one that comes while others wait lets them
 * go first. */
void npa_lock(void)
{
    if (atomic_load(&waiting) == 0 && pthread_mutex_trylock(&mutex) == 0) {
        return;
    }
    const struct timespec turn = {.tv_nsec = atomic_fetch_add(&waiting, 1) > 0 ? 50000 : 0};
    do {
        Py_BEGIN_ALLOW_THREADS
        pthread_mutex_lock(&mutex);
        pthread_mutex_unlock(&mutex);
        if (turn.tv_nsec > 0) {
            nanosleep(&turn, NULL);
        }
        Py_END_ALLOW_THREADS
    } while (pthread_mutex_trylock(&mutex) != 0);
    atomic_fetch_sub(&waiting, 1);
}

/* ------------------------------------------------------------------------------ our memory */

enum { MOST_MADE = 1 << 30 }; /* of more NumPy may never touch most */

static npa_buffer *buffer_over(npa_range *range)
{
    npa_buffer *b = malloc(sizeof *b); /* unlike calloc it has those of the same size at hand */
    if (b != NULL) {
        memset(b, 0, sizeof *b);
        b->base = range->home, b->size = range->size, b->range = range, b->index = -1;
        b->serial = UINT64_MAX; /* no flush yet */
        range->buffer = b;
    }
    return b;
}

/* Arrays below the threshold that NumPy makes by the thousand, of a size, die before many flushes:
 * they are steps of a loop. To write into them later would cost more than to write at once, since
 * their pages come and go (`z = np.zeros(n); z += 1`, 128 KiB: 50 us, and 7 in NumPy's memory). So
 * where many of a size have died young the next ones lie there, until a rest begins or is over, as
 * nothing is run in it. A loop has made that many before it is worth a trial, and what a program
 * begins with seldom is as much. */
enum { MANY = 16, OLD = 3 };
static _Atomic uint8_t young[NPA_SHELVES];

static bool dies_young(size_t bytes)
{
    return atomic_load_explicit(&young[npa_shelf_of(bytes, 0)], memory_order_relaxed) >= MANY;
}

void npa_forget_young(void)
{
    for (int k = 0; k < NPA_SHELVES; k++) {
        atomic_store_explicit(&young[k], 0, memory_order_relaxed);
    }
}

/* What NumPy made is over. Perhaps without the GIL: then some may be counted once. */
static void note_age(const npa_buffer *b)
{
    _Atomic uint8_t *died = &young[npa_shelf_of(b->size, 0)];
    uint8_t before = atomic_load_explicit(died, memory_order_relaxed);
    bool old = npa_count.flushes + 1 - b->born >= OLD;
    uint8_t now = old ? 0 : before < MANY ? before + 1 : MANY;
    atomic_store_explicit(died, now, memory_order_relaxed);
}

/* Memory for what NumPy makes: ours, so that what is written into it in a block may wait. NULL:
 * NumPy's own will do. Perhaps without the GIL; nobody waits. */
static char *made(size_t n, bool *zero)
{
    bool steps = n < npa_threshold && dies_young(n);
    if (n < npa_least_made || n < npa_passed_below() || n > MOST_MADE || steps ||
        npa_shortage_sure((double)n) || pthread_mutex_trylock(&mutex) != 0) {
        return NULL;
    }
    npa_range *range = npa_range_shown(n, zero);
    npa_buffer *b = range != NULL ? buffer_over(range) : NULL;
    if (b != NULL) {
        b->born = npa_count.flushes + 1;
    } else if (range != NULL) {
        npa_range_free(range);
        range = NULL;
    }
    npa_unlock();
    return range != NULL ? range->home : NULL;
}

#define NUMPY(call) (npa_numpy_handler->allocator.call)
static void *handler_malloc(void *ctx, size_t n)
{
    (void)ctx;
    bool zero;
    char *place = made(n, &zero);
    return place != NULL ? place : NUMPY(malloc)(NUMPY(ctx), n);
}

static void *handler_calloc(void *ctx, size_t n, size_t size)
{
    (void)ctx;
    size_t bytes;
    bool zero, fits = !__builtin_mul_overflow(n, size, &bytes);
    char *place = fits ? made(bytes, &zero) : NULL;
    if (place != NULL && !zero) {
        memset(place, 0, bytes);
    }
    return place != NULL ? place : NUMPY(calloc)(NUMPY(ctx), n, size);
}

/* The last header over this memory is gone: nobody can see the result any more. Its memory is given
 * back here, or by whoever has the lock, perhaps this thread: nobody waits. */
static void handler_free(void *ctx, void *p, size_t size)
{
    (void)ctx;
    npa_range *range = npa_range_find(p);
    if (range == NULL) {
        NUMPY(free)(NUMPY(ctx), p, size);
        return;
    }
    npa_buffer *b = range->buffer;
    if (b->born > 0 && b->size < npa_threshold) {
        note_age(b);
    }
    atomic_store(&b->dead, true);
    b->next = atomic_load(&dead_list);
    while (!atomic_compare_exchange_weak(&dead_list, &b->next, b)) {
    }
    if (pthread_mutex_trylock(&mutex) == 0) {
        npa_unlock();
    }
}

static void *handler_realloc(void *ctx, void *p, size_t n)
{
    npa_range *range = npa_range_find(p);
    if (range == NULL) {
        return NUMPY(realloc)(NUMPY(ctx), p, n);
    }
    void *fresh = NUMPY(malloc)(NUMPY(ctx), n); /* resize() evaluated before it came here */
    if (fresh != NULL) {
        memcpy(fresh, p, n < range->size ? n : range->size);
        handler_free(ctx, p, 0);
    }
    return fresh;
}

/* It is NumPy's default one to whoever asks (get_handler_name), as arrays of it are ndarrays. */
static PyDataMem_Handler handler = {
    "default_allocator", 1, {NULL, handler_malloc, handler_calloc, handler_realloc, handler_free}};

/* What a device has of it. */
static void drop_copy(npa_buffer *b)
{
    if (b->copy != NULL) {
        npa_trace_hooks.copy_drop(b);
    }
    b->unreachable = false;
}

/* With the lock: its pages go back to the nursery. */
void npa_release(npa_buffer *b)
{
    drop_copy(b);
    if (b->range != NULL) {
        npa_range_free(b->range);
    }
    if (b->spot != NULL) {
        npa_trace_hooks.spot_gone(b->spot);
    }
    free(b);
}

/* With the lock: the last request that uses it has run. What nobody sees gives its pages back. */
void npa_buffer_done(npa_buffer *b)
{
    if (b->range != NULL && b->next == b && !npa_q.repeatable) {
        drop_copy(b);
        npa_range_free(b->range);
        b->range = NULL;
        b->gone = true;
    }
}

/* Dead and off the list, but several queues use it: none of them may take its memory. */
static npa_buffer shared;

/* With the lock: give back what died and is in no queue; what is in the queue waits for it. */
void npa_collect_dead(void)
{
    npa_buffer *b = atomic_exchange(&dead_list, NULL);
    while (b != NULL) {
        npa_buffer *next = b->next;
        bool recorded = b->index != NPA_IN_FLIGHT;
        b->next = b->flights + recorded > 1 ? &shared : b; /* mark: off the list */
        if (b->index < 0) {
            npa_release(b);
        } else if (recorded) {
            npa_recorded.fresh_bytes -= b->fresh ? b->size : 0;
            npa_recorded.unread |= b->unread;
        }
        b = next;
    }
}

bool npa_used_elsewhere(const npa_buffer *b)
{
    return &npa_q == &npa_recorded ? b->flights > 0 : b->flights > 1 || b->index != NPA_IN_FLIGHT;
}

void npa_buffer_leave(npa_buffer *b)
{
    if (&npa_q == &npa_recorded) {
        b->index = b->flights > 0 ? NPA_IN_FLIGHT : -1;
    } else {
        b->flights--;
        b->maker = b->maker == &npa_q ? NULL : b->maker;
        b->index = b->flights == 0 && b->index == NPA_IN_FLIGHT ? -1 : b->index;
    }
    if (b->next == &shared && b->flights + (b->index >= 0 && b->index != NPA_IN_FLIGHT) < 2) {
        b->next = b;
    }
}

char *npa_buffer_pages(npa_buffer *b)
{
    if (b->inherited != NULL) {
        return b->inherited;
    }
    if (b->gone && b->range == NULL) { /* an earlier attempt ran out of memory further on */
        b->range = npa_range_new(b->size);
        if (b->range == NULL) {
            return NULL;
        }
        b->range->buffer = b;
    }
    return b->range != NULL      ? npa_range_work(b->range)
           : b->replaced != NULL ? b->replaced + (b->base - b->watch->base)
                                 : b->base;
}

/* Where there is no room for a result, because address space or mappings are limited, asking costs
 * more than NumPy saves: so many operations are NumPy's then, twice as many each time it happens
 * again. */
enum { LEAST_SKIPPED = 16, MOST_SKIPPED = 1024 };
static int to_skip, next_skip = LEAST_SKIPPED;

bool npa_lacks_room(void)
{
    to_skip -= to_skip > 0;
    return to_skip > 0;
}

static void note_room(bool there)
{
    if (there) {
        next_skip = next_skip > LEAST_SKIPPED ? next_skip / 2 : LEAST_SKIPPED;
        return;
    }
    npa_pass_because("no room to defer into (address space or mappings are limited)");
    npa_count.not_deferred++;
    to_skip = next_skip;
    next_skip = next_skip < MOST_SKIPPED ? 2 * next_skip : MOST_SKIPPED;
}

enum { TRACE_DOMAIN = 389047 }; /* np.lib.tracemalloc_domain, of all versions */

/* Have the array own its memory, of which tracemalloc hears from us, and of its end from NumPy. */
static void give_memory(PyArrayObject *a, size_t bytes)
{
    ((PyArrayObject_fields *)a)->mem_handler = Py_NewRef(mem_handler);
    PyArray_ENABLEFLAGS(a, NPY_ARRAY_OWNDATA);
    PyTraceMalloc_Track(TRACE_DOMAIN, (uintptr_t)PyArray_DATA(a), bytes);
}

/* The array ends before its header does, which has no elements then. False: others see its memory,
 * or nothing is pending on it. */
bool npa_give_memory_back(PyArrayObject *a)
{
    static max_align_t nothing;
    PyArrayObject_fields *f = (PyArrayObject_fields *)a;
    if (!PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA) || f->mem_handler != mem_handler ||
        f->weakreflist != NULL || PyArray_NDIM(a) == 0 || !npa_is_pending(a)) {
        return false;
    }
    PyTraceMalloc_Untrack(TRACE_DOMAIN, (uintptr_t)f->data);
    handler_free(NULL, f->data, (size_t)PyArray_NBYTES(a));
    PyArray_CLEARFLAGS(a, NPY_ARRAY_OWNDATA);
    Py_CLEAR(f->mem_handler);
    f->data = (char *)&nothing, f->dimensions[0] = 0;
    return true;
}

/* An array of ours has died: whether its memory is given back, and its header is kept. */
bool npa_leave_shell(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    PyArrayObject_fields *f = (PyArrayObject_fields *)o;
    if (!PyArray_CHKFLAGS(a, NPY_ARRAY_OWNDATA) || f->mem_handler != mem_handler ||
        f->base != NULL || !npa_shell_fits(a)) {
        return false;
    }
    PyTraceMalloc_Untrack(TRACE_DOMAIN, (uintptr_t)f->data);
    handler_free(NULL, f->data, (size_t)PyArray_NBYTES(a));
    PyArray_CLEARFLAGS(a, NPY_ARRAY_OWNDATA);
    Py_CLEAR(f->mem_handler);
    npa_shell_keep(a);
    return true;
}

/* A new Array over a range without content. NULL without error set: no memory to defer into. */
PyObject *npa_new_array(PyArray_Descr *descr, int ndim, const npy_intp *shape,
                        const npy_intp *strides)
{
    size_t bytes = (size_t)PyDataType_ELSIZE(descr);
    double about = (double)bytes; /* the product may be too large for an integer */
    for (int i = 0; i < ndim; i++) {
        bytes *= (size_t)shape[i];
        about *= (double)shape[i];
    }
    if (npa_shortage_sure(about)) {
        npa_count.not_deferred++;
        return NULL;
    }
    if (npa_guard_on && !npa_calls_tried) {
        npa_trace_hooks.serve_calls();
    }
    npa_lock();
    npa_range *range = npa_guard_on ? npa_range_new(bytes ? bytes : 1) : NULL;
    npa_buffer *b = range != NULL ? buffer_over(range) : NULL;
    if (range != NULL && b == NULL) {
        npa_range_free(range);
    }
    npa_unlock();
    note_room(b != NULL);
    if (b == NULL) {
        return NULL;
    }
    b->size = bytes, b->fresh = true;
    b->placed = npa_place_here();
    b->spot = npa_here != NULL ? npa_trace_hooks.spot_new(bytes) : NULL;
    PyArrayObject *array = npa_new_header(true, descr, ndim, shape, strides, range->home, true);
    if (array == NULL) {
        npa_lock();
        npa_release(b);
        npa_unlock();
        return NULL;
    }
    give_memory(array, bytes);
    return (PyObject *)array;
}

PyObject *npa_new_in_order(PyArray_Descr *descr, int ndim, const npy_intp *shape, bool fortran)
{
    npy_intp strides[NPA_MAX_DIMS], stride = PyDataType_ELSIZE(descr);
    for (int i = 0; i < ndim; i++) {
        int axis = fortran ? i : ndim - 1 - i;
        strides[axis] = stride;
        stride *= shape[axis] > 0 ? shape[axis] : 1;
    }
    return npa_new_array(descr, ndim, shape, strides);
}

/* The same whose axes lie as NumPy has them in a copy of `a` (order "K"). */
PyObject *npa_new_like(PyArrayObject *a, PyArray_Descr *descr)
{
    /* Axes, the one of the longest steps first */
    int ndim = PyArray_NDIM(a), inwards[NPA_MAX_DIMS];
    npy_intp strides[NPA_MAX_DIMS], stride = PyDataType_ELSIZE(descr);
    bool fortran = PyArray_IS_F_CONTIGUOUS(a) && !PyArray_IS_C_CONTIGUOUS(a);
    for (int i = 0; i < ndim; i++) {
        int to = fortran ? 0 : i;
        npy_intp step = Py_ABS(PyArray_STRIDE(a, i));
        for (; !fortran && !PyArray_IS_C_CONTIGUOUS(a) && to > 0 &&
               step > Py_ABS(PyArray_STRIDE(a, inwards[to - 1])); to--) {
        }
        memmove(inwards + to + 1, inwards + to, sizeof *inwards * (size_t)(i - to));
        inwards[to] = i;
    }
    for (int i = ndim - 1; i >= 0; i--) {
        strides[inwards[i]] = stride;
        stride *= PyArray_DIM(a, inwards[i]);
    }
    return npa_new_array(descr, ndim, PyArray_DIMS(a), strides);
}

PyObject *npa_exact_view(PyArrayObject *array)
{
    return PyArray_View(array, NULL, &PyArray_Type);
}

npa_buffer *npa_buffer_of(PyArrayObject *array)
{
    npa_range *range = npa_range_find(PyArray_DATA(array));
    return range != NULL ? range->buffer : NULL;
}

bool npa_is_pending(PyArrayObject *array)
{
    npa_buffer *b = npa_buffer_of(array);
    return b != NULL && b->pending;
}

bool npa_is_hidden(PyArrayObject *array)
{
    npa_buffer *b = npa_buffer_of(array);
    return b != NULL && npa_range_is_hidden(b->range) &&
           (size_t)PyArray_NBYTES(array) == b->size;
}

/* ------------------------------------------------------------------------ where arrays lie */

/* The bytes an array can reach: [low, high). */
void npa_extent(PyArrayObject *a, char **low, char **high)
{
    *low = *high = PyArray_BYTES(a);
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        npy_intp reach = PyArray_STRIDE(a, i) * (PyArray_DIM(a, i) - 1);
        *low += reach < 0 ? reach : 0;
        *high += reach > 0 ? reach : 0;
    }
    *high += PyArray_ITEMSIZE(a);
}

bool npa_apart(PyArrayObject *a, PyArrayObject *b)
{
    char *low[2], *high[2];
    npa_extent(a, &low[0], &high[0]), npa_extent(b, &low[1], &high[1]);
    return high[0] <= low[1] || high[1] <= low[0];
}

/* The array whose memory `a` shows, perhaps itself. Not simply the last base: a base may be there
 * for something else than its memory, such as to be written back to, or to stay alive. */
PyArrayObject *npa_root_of(PyArrayObject *a)
{
    char *low, *high, *first, *last;
    PyObject *base;
    npa_extent(a, &low, &high);
    while ((base = PyArray_BASE(a)) != NULL && PyArray_Check(base)) {
        npa_extent((PyArrayObject *)base, &first, &last);
        if (low < first || last < high) {
            break;
        }
        a = (PyArrayObject *)base;
    }
    return a;
}

/* Into the queue. False: out of memory. */
static bool enqueue(npa_buffer *b)
{
    if (!npa_grow(&npa_q.buffers, npa_q.nbuffers, &npa_q.buffers_cap, sizeof *npa_q.buffers)) {
        return false;
    }
    b->index = npa_q.nbuffers;
    npa_q.buffers[npa_q.nbuffers++] = b;
    npa_q.fresh_bytes += b->fresh ? b->size : 0;
    return true;
}

/* The memory an array lies in and how far into it, entered in the queue. `later`: it will be read,
 * perhaps after the call; `read`: it is not written. With the lock. NULL: the queue must run first
 * (then ask again), or out of memory. */
npa_buffer *npa_place(PyArrayObject *a, bool later, bool read, int64_t *offset)
{
    npa_range *range = npa_range_find(PyArray_DATA(a));
    npa_buffer *b = range == NULL ? npa_foreign_buffer(a, later, enqueue)
                    : read        ? npa_own_copy(range->buffer, enqueue) : NULL;
    if (b == NULL && range != NULL) {
        b = range->buffer;
    }
    if (b == NULL || ((b->index < 0 || b->index == NPA_IN_FLIGHT) && !enqueue(b))) {
        return NULL;
    }
    *offset = PyArray_BYTES(a) - (b->source != NULL ? b->source : b->base);
    return b;
}

/* In the child of a fork, by the thread that has the lock. */
void npa_lock_forked(void)
{
    atomic_store(&waiting, 0); /* those threads are not here */
    pthread_cond_init(&told, NULL);
}

PyObject *npa_made_handler(void) { return mem_handler; }

bool npa_usual_handler(PyObject *handler)
{
    return handler == PyDataMem_DefaultHandler || handler == mem_handler;
}

int npa_buffer_init(void)
{
    npa_numpy_handler = PyCapsule_GetPointer(PyDataMem_DefaultHandler, "mem_handler");
    if (npa_numpy_handler == NULL) {
        return -1;
    }
    mem_handler = PyCapsule_New(&handler, "mem_handler", NULL);
    return mem_handler != NULL ? 0 : -1;
}
