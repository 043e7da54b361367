/* resident.c: devices with memory of their own; what of a buffer lies there.
 *
 *     host    |#######........######|    right but for `newer`
 *     device  |...###############...|    right in `valid`; `newer` is part of it
 *
 * A buffer whose newest bytes lie on a device is hidden, as a pending one is: whoever touches it has
 * them brought back, natively. A run moves what its kernels use there and leaves it there; the host's
 * code for a buffer (npa_buffer_address) brings it back first. What is shown to anybody has no copy on a
 * device, since it could be written unseen. All with the lock. */
#include "record.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The parts of OpenCL's interface that are needed; see the specification for their meaning. */
typedef void *create_function(void *context, uint64_t flags, size_t size, void *host, int32_t *error);
typedef int32_t release_function(void *object);
typedef int32_t read_function(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                              void *host, uint32_t nevents, void *const *events, void **event);
typedef int32_t write_function(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                               const void *host, uint32_t nevents, void *const *events,
                               void **event);
typedef int32_t set_function(void *kernel, uint32_t index, size_t size, const void *value);
typedef int32_t enqueue_function(void *queue, void *kernel, uint32_t rank, const size_t *offset,
                                 const size_t *global, const size_t *local, uint32_t nevents,
                                 void *const *events, void **event);
typedef int32_t finish_function(void *queue);

enum { CREATE, RELEASE, READ, WRITE, SET, ENQUEUE, FINISH, FLUSH, FUNCTIONS };
enum { READ_WRITE = 1 };
enum { WORDS, SCRATCH, PARTIALS, FLAGS, AUXILIARY }; /* a launch's own memory, in argument order */
/* Freed memory serves what is nearly as large; sizes are multiples of a page. */
enum { GRAIN = 4096, SLACK = 8, MOST_FREE = 64 };

typedef struct { size_t low, high; } span;
typedef struct { void *memory; size_t size; } piece;

struct npa_store {
    PyObject_HEAD
    void *functions[FUNCTIONS];
    void *context, *queue, *transfers; /* queues: of kernels; of data that moves */
    size_t limit, used; /* bytes: that may be used; that are, those of `free` included */
    int pid;
    uint64_t launches, number;
    PyObject *name;
    piece free[MOST_FREE], own[AUXILIARY];
    int nfree;
    struct npa_copy *copies;
    npa_store *next;
};

struct npa_copy {
    npa_store *store;
    npa_buffer *buffer;
    piece at;
    span valid, newer;
    uint64_t used; /* the last launch that needed it */
    struct npa_copy *before, *after;
};

npa_store *npa_stores;

static bool empty(span s) { return s.low >= s.high; }

static size_t length(span s) { return empty(s) ? 0 : s.high - s.low; }

static span hull(span a, span b)
{
    return empty(a)   ? b
           : empty(b) ? a
                      : (span){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

bool npa_copies_exist(void)
{
    const npa_store *s = npa_stores;
    while (s != NULL && s->copies == NULL) {
        s = s->next;
    }
    return s != NULL;
}

/* --------------------------------------------------------------------------------- memory there */

static void release(npa_store *s, piece p)
{
    ((release_function *)s->functions[RELEASE])(p.memory);
    s->used -= p.size;
}

static void give(npa_store *s, piece p)
{
    if (p.memory == NULL || s->pid != getpid()) {
        return;
    }
    if (s->nfree == MOST_FREE) {
        release(s, s->free[0]);
        memmove(s->free, s->free + 1, sizeof *s->free * (size_t)--s->nfree);
    }
    s->free[s->nfree++] = p;
}

static void drop(struct npa_copy *c)
{
    give(c->store, c->at);
    *(c->before != NULL ? &c->before->after : &c->store->copies) = c->after;
    if (c->after != NULL) {
        c->after->before = c->before;
    }
    c->buffer->copy = NULL;
    free(c);
}

/* What was used longest ago goes back to the host. False: there is none but the launch's own. */
static bool evict(npa_store *s)
{
    struct npa_copy *oldest = NULL;
    for (struct npa_copy *c = s->copies; c != NULL; c = c->after) {
        if (c->used != s->launches && (oldest == NULL || c->used < oldest->used)) {
            oldest = c;
        }
    }
    if (oldest == NULL || !npa_copy_home(oldest->buffer)) {
        return false;
    }
    npa_count.evictions++;
    return true;
}

static bool make_room(npa_store *s)
{
    if (s->nfree > 0) {
        release(s, s->free[--s->nfree]);
        return true;
    }
    return evict(s);
}

static bool reuse(npa_store *s, piece *p)
{
    for (int i = s->nfree; i-- > 0;) {
        if (s->free[i].size >= p->size && s->free[i].size - p->size <= p->size / SLACK) {
            *p = s->free[i];
            memmove(s->free + i, s->free + i + 1, sizeof *s->free * (size_t)(--s->nfree - i));
            return true;
        }
    }
    return false;
}

/* memory NULL: there is not enough. */
static piece take(npa_store *s, size_t size)
{
    piece p = {NULL, (size + GRAIN - 1) / GRAIN * GRAIN};
    while (p.size <= s->limit && !reuse(s, &p)) {
        int32_t error = -1;
        if (s->used + p.size <= s->limit) {
            p.memory = ((create_function *)s->functions[CREATE])(s->context, READ_WRITE, p.size,
                                                                 NULL, &error);
        }
        if (error == 0) {
            s->used += p.size;
            break;
        }
        p.memory = NULL;
        if (!make_room(s)) {
            break;
        }
    }
    return p;
}

/* --------------------------------------------------------------------------------- moving */

static bool upload(struct npa_copy *c, size_t low, size_t high)
{
    char *host = npa_buffer_pages(c->buffer);
    npa_store *s = c->store;
    if (host == NULL ||
        ((write_function *)s->functions[WRITE])(s->transfers, c->at.memory, 1, low, high - low,
                                                host + low, 0, NULL, NULL) != 0) {
        return false;
    }
    npa_count.uploads++;
    npa_count.bytes_up += high - low;
    return true;
}

/* Whether the host has anything that the device may need: a new array's pages are made when first
 * written. */
static bool host_has(npa_buffer *b) { return b->range == NULL || b->range->work != NULL; }

/* `need` becomes right on the device; and what lies between it and what was. */
static bool bring(struct npa_copy *c, span need)
{
    span all = hull(c->valid, need), old = c->valid;
    if (host_has(c->buffer)) {
        if (empty(old)) {
            old = (span){all.high, all.high};
        }
        if ((all.low < old.low && !upload(c, all.low, old.low)) ||
            (old.high < all.high && !upload(c, old.high, all.high))) {
            return false;
        }
    }
    c->valid = all;
    return true;
}

static bool lost; /* the last one that was to come home could not */

bool npa_copy_is_lost(void) { return lost; }

bool npa_copy_lost(void)
{
    bool was = lost;
    lost = false;
    return was;
}

npa_store *npa_copy_store(const npa_buffer *b) { return b->copy != NULL ? b->copy->store : NULL; }

static int32_t read_home(struct npa_copy *c, char *host)
{
    npa_store *s = c->store;
    int32_t error = npa_device_injected_read();
    return error != 0 ? error
                      : ((read_function *)s->functions[READ])(s->transfers, c->at.memory, 1,
                                                              c->newer.low, length(c->newer),
                                                              host + c->newer.low, 0, NULL, NULL);
}

bool npa_copy_home(npa_buffer *b)
{
    struct npa_copy *c = b->copy;
    if (b->lost != NULL) {
        lost = true;
        return false;
    }
    if (c == NULL) {
        return true;
    }
    if (!empty(c->newer)) {
        char *host = npa_buffer_pages(b);
        double begin = npa_seconds();
        if (host == NULL) {
            return false;
        }
        if (c->store->pid != getpid() || read_home(c, host) != 0) {
            lost = npa_losses = b->unreachable = true;
            return false;
        }
        npa_count.downloads++;
        npa_count.bytes_down += length(c->newer);
        npa_note_home(b->serial, (uint64_t)(1e9 * (npa_seconds() - begin)));
    }
    drop(c);
    b->unreachable = false;
    return true;
}

void npa_copy_drop(npa_buffer *b)
{
    if (b->copy != NULL) {
        drop(b->copy);
    }
    b->unreachable = false;
}

bool npa_copy_stays(npa_buffer *b)
{
    return b->copy != NULL && b->range != NULL && b->range->work != b->range->home &&
           !b->exported && npa_guard_on && !npa_check_mode;
}

void npa_copies_home(void)
{
    for (npa_store *s = npa_stores; s != NULL; s = s->next) {
        for (struct npa_copy *c = s->copies, *after; c != NULL; c = after) {
            after = c->after;
            npa_copy_home(c->buffer);
        }
    }
}

static struct npa_copy *copy_of(npa_store *s, npa_buffer *b)
{
    if (b->lost != NULL || (b->copy != NULL && b->copy->store != s && !npa_copy_home(b))) {
        return NULL;
    }
    if (b->copy == NULL) {
        struct npa_copy *c = calloc(1, sizeof *c);
        piece p = c != NULL ? take(s, b->size ? b->size : 1) : (piece){NULL, 0};
        if (p.memory == NULL) {
            free(c);
            return NULL;
        }
        *c = (struct npa_copy){.store = s, .buffer = b, .at = p, .after = s->copies};
        if (c->after != NULL) {
            c->after->before = c;
        }
        s->copies = b->copy = c;
    }
    b->copy->used = s->launches;
    return b->copy;
}

/* --------------------------------------------------------------------------------- launching */

static span span_of(const npa_access *a, const npa_buffer *b)
{
    return (span){(size_t)a->low, a->high < 0 ? b->size : (size_t)a->high};
}

static bool bring_all(npa_store *s, npa_queue *q, const npa_access *accesses, int n)
{
    s->launches++;
    for (int k = 0; k < n; k++) { /* these are not to make room for each other */
        npa_buffer *b = q->buffers[accesses[k].buffer];
        if (b->copy != NULL && b->copy->store == s) {
            b->copy->used = s->launches;
        }
    }
    for (int k = 0; k < n; k++) {
        npa_buffer *b = q->buffers[accesses[k].buffer];
        struct npa_copy *c = b->inherited == NULL ? copy_of(s, b) : NULL;
        if (c == NULL || !bring(c, span_of(&accesses[k], b))) {
            return false;
        }
    }
    return true;
}

static bool uses(const npa_access *accesses, int n, int32_t buffer)
{
    for (int k = 0; k < n; k++) {
        if (accesses[k].buffer == buffer) {
            return true;
        }
    }
    return false;
}

/* While a kernel runs: what the next one reads and this one does not use moves there, if there is room
 * anyway. */
static void bring_ahead(npa_store *s, npa_queue *q, const npa_access *accesses, int n,
                        const npa_access *ahead, int nahead)
{
    for (int k = 0; k < nahead; k++) {
        npa_buffer *b = q->buffers[ahead[k].buffer];
        span need = span_of(&ahead[k], b);
        bool elsewhere = b->copy != NULL ? b->copy->store != s : s->used + b->size + GRAIN > s->limit;
        if (elsewhere || b->inherited != NULL || b->gone || b->lost != NULL || !host_has(b) ||
            uses(accesses, n, ahead[k].buffer)) {
            continue;
        }
        uint64_t before = npa_count.uploads;
        struct npa_copy *c = copy_of(s, b);
        if (c != NULL && bring(c, need)) {
            npa_count.uploads_ahead += npa_count.uploads - before;
        }
    }
}

static bool own_memory(npa_store *s, const size_t *sizes)
{
    for (int k = 0; k < AUXILIARY; k++) {
        if (s->own[k].size < sizes[k] || s->own[k].memory == NULL) {
            give(s, s->own[k]);
            s->own[k] = take(s, sizes[k] ? sizes[k] : 1);
            if (s->own[k].memory == NULL) {
                s->own[k].size = 0;
                return false;
            }
        }
    }
    return true;
}

static int32_t write_own(npa_store *s, int which, const void *data, size_t size)
{
    return size == 0 ? 0
                     : ((write_function *)s->functions[WRITE])(s->queue, s->own[which].memory, 1, 0,
                                                               size, data, 0, NULL, NULL);
}

static int32_t launch(npa_device *d, void *kernel, npa_queue *q, const npa_access *accesses,
                      const int64_t *words, size_t groups)
{
    npa_store *s = d->store;
    set_function *set = (set_function *)s->functions[SET];
    int32_t error = write_own(s, WORDS, words, 8 * (size_t)(d->nwords + NPA_DEVICE_WORDS));
    for (uint32_t k = 0; error == 0 && k < AUXILIARY; k++) {
        error = set(kernel, k, sizeof(void *), &s->own[k].memory);
    }
    for (int k = 0; error == 0 && k < d->narrays; k++) {
        npa_buffer *b = q->buffers[accesses[k].buffer];
        error = set(kernel, (uint32_t)(AUXILIARY + k), sizeof(void *), &b->copy->at.memory);
    }
    size_t items = groups * d->group_size;
    return error != 0 ? error
                      : ((enqueue_function *)s->functions[ENQUEUE])(s->queue, kernel, 1, NULL,
                                                                    &items, &d->group_size, 0, NULL, NULL);
}

int npa_store_run(npa_device *d, npa_queue *q, const npa_access *accesses, const int64_t *words,
                  const npa_device_grid *grid, size_t partial_bytes, uint32_t *flags, int nslots,
                  const npa_access *ahead, int nahead)
{
    npa_store *s = d->store;
    if (d->failed || s->pid != getpid() || !bring_all(s, q, accesses, d->narrays)) {
        return -1;
    }
    size_t groups = npa_device_groups(d, grid), flag_bytes = sizeof *flags * (size_t)nslots;
    const size_t sizes[AUXILIARY] = {8 * (size_t)(d->nwords + NPA_DEVICE_WORDS),
                                     groups * grid->scratch_bytes, partial_bytes, flag_bytes};
    int64_t *own = malloc(sizes[WORDS]);
    if (own == NULL || !own_memory(s, sizes)) {
        free(own);
        return -1;
    }
    int32_t error = npa_device_injected();
    error = error != 0 ? error : write_own(s, FLAGS, flags, flag_bytes);
    if (error == 0) {
        npa_device_words(d, own, words, grid, false);
        error = launch(d, d->run, q, accesses, own, groups);
    }
    if (error == 0 && d->finish != NULL) {
        size_t points = npa_device_words(d, own, words, grid, true);
        error = launch(d, d->finish, q, accesses, own, points);
    }
    if (error == 0 && nahead > 0 && ((finish_function *)s->functions[FLUSH])(s->queue) == 0) {
        bring_ahead(s, q, accesses, d->narrays, ahead, nahead);
    }
    int32_t over = ((finish_function *)s->functions[FINISH])(s->queue);
    error = error != 0 ? error : over;
    if (error == 0 && nslots > 0) {
        error = ((read_function *)s->functions[READ])(s->queue, s->own[FLAGS].memory, 1, 0,
                                                      flag_bytes, flags, 0, NULL, NULL);
    }
    free(own);
    for (int k = 0; k < d->narrays; k++) {
        npa_buffer *b = q->buffers[accesses[k].buffer];
        if (error == 0 && accesses[k].written) {
            b->copy->newer = hull(b->copy->newer, span_of(&accesses[k], b));
        } else if (accesses[k].written && b->copy != NULL && empty(b->copy->newer)) {
            drop(b->copy); /* nobody knows what is there; the host does */
        }
    }
    if (error != 0) {
        npa_device_note_failure(d, error);
        memset(flags, 0, flag_bytes);
    }
    return error == 0 ? 0 : -1;
}

/* --------------------------------------------------------------------------------- placement */

void npa_spread_place(npa_queue *q, const npa_access *accesses, int n)
{
    npa_store *place = NULL;
    for (int k = 0; k < n && place == NULL; k++) {
        place = q->buffers[accesses[k].buffer]->placed;
    }
    for (int k = 0; k < n && place != NULL; k++) {
        npa_buffer *b = q->buffers[accesses[k].buffer];
        b->placed = accesses[k].written && b->placed == NULL ? place : b->placed;
    }
}

npa_store *npa_store_of(const npa_queue *q, int requests)
{
    for (int i = 0, n = npa_stores == NULL ? 0 : npa_buffers_of(q, requests); i < n; i++) {
        npa_buffer *b = q->buffers[i];
        if (b->copy != NULL || (b->placed != NULL && !b->fresh)) {
            return b->placed != NULL ? b->placed : b->copy->store;
        }
    }
    return NULL;
}

uint64_t npa_place_number(const npa_store *s) { return s != NULL ? s->number : 0; }

PyObject *npa_store_name(const npa_store *s) { return Py_NewRef(s != NULL ? s->name : Py_None); }

/* The device that the user has given to the data of the requests that a plan is made for, or None. */
PyObject *npa_placement(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    npa_store *place = NULL;
    npa_lock();
    const npa_queue *q = npa_planned_queue();
    int n = q == &npa_q && npa_stores != NULL ? npa_buffers_of(q, npa_planned_requests()) : 0;
    for (int i = 0; i < n && place == NULL; i++) {
        place = q->buffers[i]->fresh ? NULL : q->buffers[i]->placed;
    }
    npa_unlock();
    return npa_store_name(place);
}

/* Of each of their buffers that lies on a device: (buffer, device, bytes right there, bytes right there
 * alone). */
PyObject *npa_residence(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    struct row { int buffer; npa_store *store; unsigned long long valid, newer; } *rows = NULL;
    int nrows = 0;
    npa_lock();
    const npa_queue *q = npa_planned_queue();
    int n = q == &npa_q && npa_stores != NULL ? npa_buffers_of(q, npa_planned_requests()) : 0;
    rows = calloc((size_t)n + 1, sizeof *rows);
    for (int i = 0; rows != NULL && i < n; i++) {
        const struct npa_copy *c = q->buffers[i]->copy;
        if (c != NULL) {
            rows[nrows++] = (struct row){i, c->store, length(c->valid), length(c->newer)};
        }
    }
    npa_unlock();
    PyObject *list = rows != NULL ? PyList_New(nrows) : PyErr_NoMemory();
    for (int i = 0; list != NULL && i < nrows; i++) {
        PyObject *item = Py_BuildValue("(iOKK)", rows[i].buffer, rows[i].store->name, rows[i].valid,
                                       rows[i].newer);
        if (item == NULL) {
            Py_CLEAR(list);
            break;
        }
        PyList_SET_ITEM(list, i, item);
    }
    free(rows);
    return list;
}

/* An Array with the content of `a` in memory of ours, still hidden. NULL, perhaps without error: there
 * is nothing to hide in. */
static PyObject *hidden_copy(PyArrayObject *a)
{
    PyObject *made = PyDataType_REFCHK(PyArray_DESCR(a))
        ? NULL
        : npa_new_array(PyArray_DESCR(a), PyArray_NDIM(a), PyArray_DIMS(a), NULL);
    if (made == NULL) {
        return NULL;
    }
    npa_buffer *b = npa_buffer_of((PyArrayObject *)made);
    npa_lock();
    char *pages = npa_range_work(b->range);
    npa_unlock();
    Py_INCREF(PyArray_DESCR(a));
    PyObject *view = pages == NULL ? PyErr_NoMemory()
                                   : PyArray_NewFromDescr(&PyArray_Type, PyArray_DESCR(a),
                                                          PyArray_NDIM(a), PyArray_DIMS(a), NULL,
                                                          pages, NPY_ARRAY_WRITEABLE, NULL);
    int status = view == NULL ? -1 : PyArray_CopyInto((PyArrayObject *)view, a);
    Py_XDECREF(view);
    b->fresh = status < 0;
    if (status < 0) {
        Py_CLEAR(made);
    }
    return made;
}

/* place(array): an Array with that content, which is to live there: the same, where it lies in memory of
 * ours, or a copy. */
static PyObject *store_place(PyObject *self, PyObject *object)
{
    npa_store *s = (npa_store *)self;
    if (!PyArray_Check(object)) {
        return PyErr_Format(PyExc_TypeError, "an array is needed");
    }
    PyArrayObject *a = (PyArrayObject *)object;
    bool ours = Py_IS_TYPE(object, npa_array_type) && npa_buffer_of(a) != NULL;
    if (!ours && npa_touch(a, false) < 0) {
        return NULL;
    }
    PyObject *placed = ours ? Py_NewRef(object) : hidden_copy(a);
    if (placed == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    npa_lock();
    npa_buffer_of((PyArrayObject *)placed)->placed = s;
    npa_unlock();
    return placed;
}

/* DeviceMemory(functions, context, queue, transfers, name, limit). Lives as long as the process: buffers name it. */
static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned long long f[FUNCTIONS], context, queue, transfers, limit;
    PyObject *name;
    static char *names[] = {"functions", "context", "queue", "transfers", "name", "limit", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "(KKKKKKKK)KKKUK", names, &f[0], &f[1], &f[2], &f[3],
                                     &f[4], &f[5], &f[6], &f[7], &context, &queue, &transfers,
                                     &name, &limit)) {
        return NULL;
    }
    npa_store *s = (npa_store *)type->tp_alloc(type, 0);
    if (s == NULL) {
        return NULL;
    }
    for (int i = 0; i < FUNCTIONS; i++) {
        s->functions[i] = (void *)(uintptr_t)f[i];
    }
    s->context = (void *)(uintptr_t)context, s->queue = (void *)(uintptr_t)queue;
    s->transfers = (void *)(uintptr_t)transfers;
    s->name = Py_NewRef(name), s->limit = limit, s->pid = getpid();
    npa_lock();
    s->number = npa_stores != NULL ? npa_stores->number + 1 : 1;
    s->next = npa_stores, npa_stores = s;
    npa_unlock();
    return Py_NewRef((PyObject *)s);
}

static PyObject *store_limit(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((npa_store *)self)->limit);
}

static int store_set_limit(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    size_t limit = value != NULL ? PyLong_AsSize_t(value) : 0;
    npa_store *s = (npa_store *)self;
    if (PyErr_Occurred()) {
        return -1;
    }
    npa_lock();
    s->limit = limit;
    s->launches++;
    while (s->used > limit && make_room(s)) {
    }
    npa_unlock();
    return 0;
}

static PyObject *store_used(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((npa_store *)self)->used);
}

static PyMethodDef store_methods[] = {
    {"place", store_place, METH_O, "An array that lives there; None: it can't be hidden."}, {NULL}};

static PyGetSetDef store_getset[] = {
    {"limit", store_limit, store_set_limit, "Bytes that may be used.", NULL},
    {"used", store_used, NULL, "Bytes that are, those kept for reuse included.", NULL}, {NULL}};

PyTypeObject npa_store_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.DeviceMemory",
    .tp_basicsize = sizeof(npa_store),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The memory of a device: what lies there of which buffers.",
    .tp_methods = store_methods,
    .tp_getset = store_getset,
    .tp_new = store_new,
};
