/* foreign.c: memory that is not ours and that pending requests read. Nobody may change it unseen.
 *
 *   at most SMALL bytes                         copied when the request is recorded; our own, if
 *                                               smaller still: protecting them costs more
 *   NumPy's own (its default handler's)         write-protected, see watch.c; our own, where it is
 *                                               shown, see npa_range_seal
 *   all else (files, shared memory, other libraries', exported as a writable buffer,
 *   written again and again: npa_patience)      read before the call returns
 *
 * A system call that writes into protected pages fails instead of faulting, so writable buffers
 * are noticed as they are handed out: ndarray's slot is ours. Memory that is watched has a NumPy
 * memory handler that forgets it in time and then does what NumPy's own would. */
#include "trace/trace.h"

#include <string.h>

enum { SMALL = 64 << 10, OWN_SMALL = 16 << 10, MOST_COPIES = 16 << 20 };

static bool exports_unknown; /* one could not be noted */

/* ------------------------------------------------------------------------ NumPy's handler */

static PyObject *watched_capsule;

static void forget(void *p)
{
    npa_watch *w = npa_watch_find(p);
    if (w == NULL) {
        return;
    }
    if (npa_watch_held(w)) { /* resize without refcheck, a.data = ...: what waits keeps the array */
        npa_trace_hooks.flush();
    }
    npa_lock();
    for (npa_buffer *b = npa_q.foreign; b != NULL; b = b->next) {
        b->watch = b->watch == w ? NULL : b->watch;
    }
    npa_watch_drop(w);
    npa_unlock();
}

#define NUMPY(call) (npa_numpy_handler->allocator.call)
static void *watched_malloc(void *ctx, size_t n)
{
    (void)ctx;
    return NUMPY(malloc)(NUMPY(ctx), n);
}
static void *watched_calloc(void *ctx, size_t n, size_t size)
{
    (void)ctx;
    return NUMPY(calloc)(NUMPY(ctx), n, size);
}
static void *watched_realloc(void *ctx, void *p, size_t n)
{
    (void)ctx;
    forget(p);
    return NUMPY(realloc)(NUMPY(ctx), p, n);
}
static void watched_free(void *ctx, void *p, size_t size)
{
    (void)ctx;
    forget(p);
    NUMPY(free)(NUMPY(ctx), p, size);
}
static PyDataMem_Handler watched_handler = {
    "npaccel_watched", 1, {NULL, watched_malloc, watched_calloc, watched_realloc, watched_free}};

/* Whether `root` owns memory that NumPy's default handler gave, and from now on tells us its
 * end. */
static bool adopt(PyArrayObject *root)
{
    PyArrayObject_fields *f = (PyArrayObject_fields *)root;
    if (f->mem_handler == watched_capsule) {
        return true;
    }
    if (!PyArray_CHKFLAGS(root, NPY_ARRAY_OWNDATA) || !npa_usual_handler(f->mem_handler)) {
        return false;
    }
    Py_SETREF(f->mem_handler, Py_NewRef(watched_capsule));
    return true;
}

/* -------------------------------------------------------------------------------- buffers */

/* How the buffer of `root`, which covers [low, high), is watched. NULL: it can't be. */
static npa_watch *watch_of(PyArrayObject *root, char *low, char *high)
{
    npa_watch *w = npa_watch_find(low);
    if (w == NULL && PyArray_BASE(root) == NULL && PyArray_BYTES(root) == low && adopt(root)) {
        w = npa_watch_new(low, (size_t)(high - low));
        for (npa_buffer *b = npa_q.foreign; b != NULL; b = b->next) {
            b->watch = b->watch == w ? NULL : b->watch; /* was given up, so it is open */
        }
    } else if (w == NULL) {
        w = npa_watch_around(low, high); /* such as as_strided's, whose base is no array */
    }
    return w != NULL && high <= w->base + w->size ? w : NULL;
}

static bool is_copy_of(const npa_buffer *b, const char *low, const char *from, size_t size)
{
    return b->source == low && b->size == size && memcmp(b->base, from, size) == 0;
}

/* A copy of what a small array can reach: as it is now, at `from`. */
static npa_buffer *copy_of(char *low, const char *from, size_t size)
{
    int n = 0;
    for (npa_buffer *b = npa_q.foreign; b != NULL && n < 16; b = b->next, n++) {
        if (is_copy_of(b, low, from, size)) {
            return b;
        }
    }
    npa_buffer *b = npa_q.copied_bytes + size <= MOST_COPIES ? calloc(1, sizeof *b) : NULL;
    if (b == NULL || (b->base = npa_aligned(64, size)) == NULL) {
        free(b);
        return NULL;
    }
    memcpy(b->base, from, size);
    b->source = low, b->size = size, b->index = -1;
    npa_q.copied_bytes += size;
    npa_count.snapshots++;
    return b;
}

/* The buffer in the queue, or of a run in flight, that contains these bytes; *clash: one that does
 * in part. */
static npa_buffer *buffer_in_queue(const char *low, const char *high, bool *clash)
{
    npa_buffer *b = npa_q.foreign;
    while (b != NULL && (b->source != NULL || low >= b->base + b->size || b->base >= high)) {
        b = b->next;
    }
    b = b == NULL && npa_flights > 0 ? npa_flights_buffer(low, high) : b;
    *clash = b != NULL && (low < b->base || high > b->base + b->size);
    return b;
}

static npa_buffer *new_buffer(PyArrayObject *root, char *low, char *high)
{
    npa_buffer *b = calloc(1, sizeof *b);
    if (b != NULL) {
        b->base = low, b->size = (size_t)(high - low), b->index = -1;
        b->owner = Py_NewRef((PyObject *)root);
        /* What was unpickled shows bytes, too, and writes them */
        b->constant = PyArray_BASE(root) != NULL && PyBytes_CheckExact(PyArray_BASE(root)) &&
                      !PyArray_ISWRITEABLE(root);
        b->watch = npa_guard_on && b->size > SMALL ? watch_of(root, low, high) : NULL;
    }
    return b;
}

/* It is in the queue from now on, if it was not. */
static npa_buffer *entered(npa_buffer *b, bool (*enqueue)(npa_buffer *))
{
    if (b != NULL && (b->index < 0 || b->index == NPA_IN_FLIGHT)) {
        if (!enqueue(b)) {
            if (b->index < 0) {
                npa_foreign_end(b);
            }
            return NULL;
        }
        b->next = npa_q.foreign, npa_q.foreign = b;
    }
    return b;
}

npa_buffer *npa_own_copy(npa_buffer *own, bool (*enqueue)(npa_buffer *))
{
    const char *from = own->range->work; /* whether it is shown or not: one key for both */
    bool computed = own->index < 0 && !own->fresh && from != NULL && own->copy == NULL &&
                    own->lost == NULL;
    return computed && own->size <= OWN_SMALL
               ? entered(copy_of(own->base, from, own->size), enqueue) : NULL;
}

/* A foreign array's buffer: what its root covers, or a copy of what it shows. NULL: the queue must
 * run first, since buffers overlap in part or bytes changed that requests in it read. */
npa_buffer *npa_foreign_buffer(PyArrayObject *a, bool later, bool (*enqueue)(npa_buffer *))
{
    char *low, *high;
    bool clash = false;
    PyArrayObject *root = npa_root_of(a);
    npa_buffer *b;
    npa_extent(a, &low, &high);
    bool small = high - low <= SMALL;
    char *first = low, *last = high;
    npa_extent(root, &low, &high);
    bool whole = high - low <= SMALL; /* then its views are views of one buffer */
    b = later && small && whole ? NULL : buffer_in_queue(low, high, &clash);
    bool held = b != NULL && b->watch != NULL && npa_watch_held(b->watch);
    bool stale = held && npa_watch_changed(b->watch);
    /* An edge of what is held is read where it lies */
    if (later && small && (!held || clash || stale)) {
        low = whole ? low : first, high = whole ? high : last;
        b = copy_of(low, low, (size_t)(high - low));
    } else if (b != NULL) {
        return clash || stale ? NULL : entered(b, enqueue);
    } else {
        b = new_buffer(root, low, high);
    }
    return entered(b, enqueue);
}

/* Whether a request that has not run names memory that `a` shows; copies don't count. With the
 * lock. */
bool npa_foreign_waits(PyArrayObject *a)
{
    char *low, *high;
    bool clash;
    npa_extent(a, &low, &high);
    return buffer_in_queue(low, high, &clash) != NULL;
}

/* --------------------------------------------------------------------------- while pending */

/* Ours, and shown. A copy on a device stays where the array is hidden. */
static bool keep(npa_buffer *b)
{
    return npa_patience_left(&b->patience) &&
           (npa_stores != NULL ? npa_range_withdraw(b->range) : npa_range_seal(b->range)) == 0;
}

bool npa_hold(npa_buffer *b, PyArrayObject *a)
{
    if (b->source != NULL || b->constant) {
        return true;
    }
    if (b->range != NULL) { /* what a run in flight uses is hidden or sealed already */
        return b->fresh || b->flights > 0 || b->range->work != b->range->home ||
               (!b->exported && keep(b));
    }
    npa_watch *w = b->watch;
    if (w == NULL || !npa_guard_on || w->exported || exports_unknown ||
        !npa_patience_left(&w->patience)) {
        return false;
    }
    char *low, *high;
    npa_extent(a, &low, &high);
    return npa_watch_hold(w, low, high, (size_t)PyArray_NBYTES(a));
}

/* Whether a run changes what it may read, so that it can't be repeated. */
static bool overwrites(void)
{
    for (int i = 0; i < npa_q.nbuffers; i++) {
        if (npa_q.buffers[i]->pending && !npa_q.buffers[i]->fresh) {
            return true;
        }
    }
    return false;
}

static bool is_as_it_was(const npa_buffer *b)
{
    return b->watch == NULL || b->pending || b->replaced != NULL || !npa_watch_held(b->watch) ||
           !npa_watch_changed(b->watch);
}

/* From the number *at on, the next buffer of this thread's queue that is not ours; NULL: there is
 * none. */
static npa_buffer *next_foreign(int *at)
{
    while (*at < npa_q.nbuffers && npa_q.buffers[*at]->range != NULL) {
        ++*at;
    }
    return *at < npa_q.nbuffers ? npa_q.buffers[(*at)++] : NULL;
}

bool npa_foreign_disturbed(void)
{
    bool as_it_was = true;
    int at = 0;
    for (npa_buffer *b; npa_q.repeatable && (b = next_foreign(&at)) != NULL;) {
        as_it_was &= is_as_it_was(b);
    }
    return !as_it_was;
}

int npa_foreign_settle(bool alone)
{
    bool only_once = !alone && overwrites();
    int at = 0;
    npa_q.repeatable = false;
    for (npa_buffer *b; (b = next_foreign(&at)) != NULL;) {
        if (b->watch == NULL) {
            continue;
        }
        if (b->pending) {
            npa_watch_open(b->watch);
            continue;
        }
        bool changed = !is_as_it_was(b);
        if (changed || (only_once && b->replaced == NULL && npa_watch_held(b->watch) &&
                        npa_watch_has_ends(b->watch))) {
            char *copy = npa_watch_copy(b->watch);
            if (copy == NULL) {
                return -1;
            }
            b->replaced = copy;
            if (changed) {
                npa_patience_tried(&b->watch->patience);
            }
        } else if (!alone && b->replaced == NULL && npa_watch_has_ends(b->watch)) {
            npa_q.repeatable |= npa_watch_held(b->watch);
        }
    }
    return 0;
}

/* A buffer of which one buffer stays must not be released by another. */
static bool is_watched_otherwise(const npa_buffer *b)
{
    npa_buffer *other = npa_recorded.foreign;
    while (other != NULL && (other == b || other->watch != b->watch)) {
        other = other->next;
    }
    return other != NULL || (npa_flights > 0 && npa_flights_watch(b->watch, b) != NULL);
}

void npa_foreign_end(npa_buffer *b)
{
    if (b->source != NULL) {
        npa_aligned_free(b->base);
    }
    if (b->replaced != NULL) {
        npa_watch_copy_free(b->watch, b->replaced);
    }
    if (b->watch != NULL && !is_watched_otherwise(b)) {
        npa_watch_release(b->watch);
    }
    free(b);
}

void npa_open_all(void)
{
    npa_watch_open_all();
    npa_ranges_unseal();
}

npa_watch *npa_note_export(PyArrayObject *root, char *low, char *high)
{
    if (!npa_guard_on || high - low <= SMALL) {
        return NULL;
    }
    npa_lock();
    npa_watch *w = watch_of(root, low, high);
    if (w == NULL) {
        exports_unknown |= adopt(root);
    } else {
        w->exported = true;
    }
    npa_unlock();
    return w;
}

int npa_foreign_init(void)
{
    watched_capsule = PyCapsule_New(&watched_handler, "mem_handler", NULL);
    return watched_capsule != NULL ? 0 : -1;
}
