/* store.c: where the user wants data to live, and what Python sees of a device's memory. */
#include "place/channel.h"
#include "native_docs.h"

#include <stdlib.h>

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
        /* Where it is a cluster, what is new begins there */
        bool there = b->placed != NULL && (!b->fresh || b->placed->channel != NULL);
        if (b->copy != NULL || there) {
            return b->placed != NULL ? b->placed : b->copy->store;
        }
    }
    return NULL;
}

npa_store *npa_store_of_array(PyArrayObject *array)
{
    npa_buffer *b = npa_stores != NULL ? npa_buffer_of(array) : NULL;
    if (b != NULL && b->pending && b->fresh) { /* it will live where what is pending runs */
        return npa_store_of(&npa_q, npa_q.nrequests);
    }
    bool there = b != NULL && (b->copy != NULL || (b->placed != NULL && !b->fresh));
    return !there ? NULL : b->placed != NULL ? b->placed : b->copy->store;
}

/* place_of(arrays): where the first of them that lives on a device does, a DeviceMemory, or
 * None. */
PyObject *npa_place_of(PyObject *self, PyObject *arrays)
{
    (void)self;
    npa_store *place = NULL;
    if (!PyList_Check(arrays)) {
        return PyErr_Format(PyExc_TypeError, "a list is needed");
    }
    npa_lock();
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arrays) && place == NULL; i++) {
        PyObject *o = PyList_GET_ITEM(arrays, i);
        place = PyArray_Check(o) ? npa_store_of_array((PyArrayObject *)o) : NULL;
    }
    npa_unlock();
    return Py_NewRef(place != NULL ? (PyObject *)place : Py_None);
}

static int32_t write_bytes(npa_store *s, void *memory, size_t at, size_t size, const char *from,
                           bool staged)
{
    s->moving = true;
    return staged ? npa_staged_write(s, memory, at, size, from)
                  : ((write_function *)s->functions[WRITE])(s->transfers, memory, 1, at, size, from,
                                                            0, NULL, NULL);
}

int32_t npa_store_write(npa_store *s, void *memory, size_t at, size_t size, const char *from)
{
    bool staged = npa_staging_serves(s, size);
    double begin = npa_seconds();
    int32_t error = write_bytes(s, memory, at, size, from, staged);
    if (error == 0) {
        npa_count.uploads++;
        npa_count.moved.bytes_up += size;
        npa_count.pinned_bytes += staged ? size : 0;
        npa_count.moved.up_ns += (uint64_t)(1e9 * (npa_seconds() - begin));
    }
    return error;
}

int32_t npa_store_read(npa_store *s, void *memory, size_t at, size_t size, char *to)
{
    bool staged = npa_staging_serves(s, size);
    double begin = npa_seconds();
    int32_t error = staged ? npa_staged_read(s, memory, at, size, to)
                           : ((read_function *)s->functions[READ])(s->transfers, memory, 1, at,
                                                                   size, to, 0, NULL, NULL);
    if (error == 0) {
        npa_count.downloads++;
        npa_count.moved.bytes_down += size;
        npa_count.pinned_bytes += staged ? size : 0;
        npa_count.moved.down_ns += (uint64_t)(1e9 * (npa_seconds() - begin));
    }
    return error;
}

size_t npa_store_limit(const npa_store *s) { return s->limit; }

uint64_t npa_places_number(const npa_queue *q, int requests)
{
    const npa_store *first = npa_store_of(q, requests);
    uint64_t number = first != NULL ? first->number : 0;
    int n = first != NULL && npa_stores->next != NULL ? npa_buffers_of(q, requests) : 0;
    for (int i = 0; i < n; i++) { /* several devices: which has what */
        const npa_buffer *b = q->buffers[i];
        const npa_store *s = b->placed != NULL && !b->fresh ? b->placed
                             : b->copy != NULL ? b->copy->store : NULL;
        number += s != NULL && s != first ? s->number * 0x100000001b3u * (uint64_t)(i + 2) : 0;
    }
    return number;
}

bool npa_store_here(const npa_store *s) { return s->pid == npa_process_here(); }

PyObject *npa_store_name(const npa_store *s) { return Py_NewRef(s != NULL ? s->name : Py_None); }

/* With the lock: one more that the engine looks at. */
static void join(npa_store *s)
{
    npa_store *one = npa_stores;
    while (one != NULL && one != s) {
        one = one->next;
    }
    if (one == NULL) {
        s->next = npa_stores, npa_stores = s;
    }
}

/* An Array with the content of `a`, in its order, in memory of ours, still hidden. NULL, perhaps
 * without error: there is nothing to hide in. */
static PyObject *hidden_copy(PyArrayObject *a)
{
    PyArrayObject *like = PyDataType_REFCHK(PyArray_DESCR(a))
        ? NULL
        : (PyArrayObject *)PyArray_NewLikeArray(a, NPY_KEEPORDER, NULL, 0);
    PyObject *made = like == NULL ? NULL
                                  : npa_new_array(PyArray_DESCR(a), PyArray_NDIM(a),
                                                  PyArray_DIMS(a), PyArray_STRIDES(like));
    Py_XDECREF(like);
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
                                                          PyArray_NDIM(a), PyArray_DIMS(a),
                                                          PyArray_STRIDES((PyArrayObject *)made),
                                                          pages, NPY_ARRAY_WRITEABLE, NULL);
    int status = view == NULL ? -1 : PyArray_CopyInto((PyArrayObject *)view, a);
    Py_XDECREF(view);
    b->fresh = status < 0;
    if (status < 0) {
        Py_CLEAR(made);
    }
    return made;
}

/* place(array, map=0, copy=False): an Array with that content, which is to live there: the same,
 * where it lies in memory of ours and need not be a copy. */
static PyObject *store_place(PyObject *self, PyObject *args)
{
    npa_store *s = (npa_store *)self;
    PyObject *object;
    unsigned long long map = 0;
    int copy = false;
    if (!PyArg_ParseTuple(args, "O!|Kp", &PyArray_Type, &object, &map, &copy)) {
        return NULL;
    }
    PyArrayObject *a = (PyArrayObject *)object;
    bool ours = !copy && Py_IS_TYPE(object, npa_array_type) && npa_buffer_of(a) != NULL;
    if (!ours && npa_place_hooks.touch(a, false) < 0) {
        return NULL;
    }
    PyObject *placed = ours ? Py_NewRef(object) : hidden_copy(a);
    if (placed == NULL) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    npa_lock();
    npa_buffer *b = npa_buffer_of((PyArrayObject *)placed);
    b->placed = s, b->map = map;
    s->wanted = true;
    join(s);
    npa_unlock();
    return placed;
}

/* The reference that buffers may have lives for ever. */
static PyObject *number_store(npa_store *s)
{
    static uint64_t last;
    npa_lock();
    s->number = ++last;
    if (s->channel != NULL) {
        join(s);
    }
    npa_unlock();
    return Py_NewRef((PyObject *)s);
}

/* want(whether): something is to lie there; or no longer. */
static PyObject *store_want(PyObject *self, PyObject *whether)
{
    npa_store *s = (npa_store *)self;
    npa_lock();
    s->wanted = whether == Py_True;
    if (s->wanted) {
        join(s);
    } else {
        npa_store_leave(s);
    }
    npa_unlock();
    Py_RETURN_NONE;
}

/* DeviceMemory(functions, context, queue, transfers, name, limit, largest). Lives as long as the
 * process: buffers name it. */
static PyObject *store_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned long long f[FUNCTIONS], context, queue, transfers, limit, largest;
    PyObject *name;
    static char *names[] = {"functions", "context", "queue",   "transfers",
                            "name",      "limit",   "largest", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "(KKKKKKKKKKK)KKKUKK", names, &f[0], &f[1],
                                     &f[2], &f[3], &f[4], &f[5], &f[6], &f[7], &f[8], &f[9], &f[10],
                                     &context, &queue, &transfers, &name, &limit, &largest)) {
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
    s->name = Py_NewRef(name), s->limit = limit, s->largest = largest, s->pid = npa_process_here();
    return number_store(s);
}

/* cluster_memory(socket, name): that of the cluster whose driver is at the socket's other end. */
PyObject *npa_cluster_memory(PyObject *module, PyObject *args)
{
    (void)module;
    int socket;
    PyObject *name;
    if (!PyArg_ParseTuple(args, "iU", &socket, &name)) {
        return NULL;
    }
    npa_store *s = (npa_store *)npa_store_type.tp_alloc(&npa_store_type, 0);
    if (s == NULL || (s->channel = npa_channel_new(socket, s->functions)) == NULL) {
        Py_XDECREF(s);
        return PyErr_NoMemory();
    }
    s->context = s->channel, s->limit = s->largest = SIZE_MAX / 2;
    s->name = Py_NewRef(name), s->pid = npa_process_here();
    return number_store(s);
}

/* echo(socket): a thread that needs no interpreter sends back what comes there. */
PyObject *npa_echo(PyObject *module, PyObject *socket)
{
    (void)module;
    long number = PyLong_AsLong(socket);
    if (number == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (!npa_socket_echo((int)number)) {
        npa_socket_close((int)number);
        return PyErr_Format(PyExc_OSError, "no thread can be started");
    }
    Py_RETURN_NONE;
}

/* clusters(): those that are open. */
PyObject *npa_clusters(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    PyObject *list = PyList_New(0);
    for (npa_store *s = npa_stores; list != NULL && s != NULL; s = s->next) {
        if (s->channel != NULL && !s->channel->closed && PyList_Append(list, (PyObject *)s) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* call(bytes): what the driver answers: (0 or not, bytes). */
static PyObject *store_call(PyObject *self, PyObject *body)
{
    return npa_channel_call((npa_store *)self, body);
}

/* number(array): that of the piece there which has the array's memory; 0: it is not there. */
static PyObject *store_number(PyObject *self, PyObject *array)
{
    uint64_t row[2] = {0, 0};
    npa_lock();
    npa_buffer *b = PyArray_Check(array) ? npa_there((PyArrayObject *)array) : NULL;
    if (b != NULL && b->copy->store == (npa_store *)self && b->copy->store->channel != NULL) {
        npa_channel_row(b->copy->at.memory, row);
    }
    npa_unlock();
    return PyLong_FromUnsignedLongLong(row[0]);
}

/* Buffers may name it yet; what has a copy there that is lost still asks for it. */
void npa_store_leave(npa_store *s)
{
    npa_store **at = &npa_stores;
    while (*at != NULL && *at != s) {
        at = &(*at)->next;
    }
    if (*at != NULL && s->copies == NULL) {
        *at = s->next;
    }
}

/* write(memory, array): its bytes go to memory of the driver's as those of arrays do. For
 * measurements. */
static PyObject *store_write(PyObject *self, PyObject *args)
{
    npa_store *s = (npa_store *)self;
    unsigned long long memory;
    Py_buffer from;
    if (!PyArg_ParseTuple(args, "Ky*", &memory, &from)) {
        return NULL;
    }
    size_t size = (size_t)from.len;
    npa_lock();
    int32_t error = write_bytes(s, (void *)(uintptr_t)memory, 0, size, (const char *)from.buf,
                                npa_staging_serves(s, size));
    npa_unlock();
    PyBuffer_Release(&from);
    if (error != 0) {
        return PyErr_Format(PyExc_RuntimeError, "%U did not take %zu bytes: error %d of its driver",
                            s->name, size, error);
    }
    Py_RETURN_NONE;
}

/* close(): all of it comes home, and the driver ends. */
static PyObject *store_close(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    npa_channel_close((npa_store *)self);
    npa_lock();
    npa_store_leave((npa_store *)self);
    npa_unlock();
    Py_RETURN_NONE;
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
    while (s->used > limit && npa_store_make_room(s)) {
    }
    npa_unlock();
    return 0;
}

static PyObject *store_largest(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((npa_store *)self)->largest);
}

static int store_set_largest(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    size_t largest = value != NULL ? PyLong_AsSize_t(value) : 0;
    if (!PyErr_Occurred()) {
        ((npa_store *)self)->largest = largest;
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *store_used(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromSize_t(((npa_store *)self)->used);
}

static PyObject *store_get_name(PyObject *self, void *closure)
{
    (void)closure;
    return npa_store_name((npa_store *)self);
}

static PyMethodDef store_methods[] = {
    {"want", store_want, METH_O, NPA_DOC_DeviceMemory_want},
    {"place", store_place, METH_VARARGS, NPA_DOC_DeviceMemory_place},
    {"call", store_call, METH_O, NPA_DOC_DeviceMemory_call},
    {"number", store_number, METH_O, NPA_DOC_DeviceMemory_number},
    {"write", store_write, METH_VARARGS, NPA_DOC_DeviceMemory_write},
    {"close", store_close, METH_NOARGS, NPA_DOC_DeviceMemory_close},
    {NULL}};

static PyGetSetDef store_getset[] = {
    {"limit", store_limit, store_set_limit, "Bytes that may be used.", NULL},
    {"largest", store_largest, store_set_largest, "Bytes of the largest piece.", NULL},
    {"name", store_get_name, NULL, "The device's, as backends have it.", NULL},
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
