/* cuda.c: NVIDIA's driver behind the functions that a device's memory is used by (store.h).
 *
 * The driver's own functions come as addresses from Python, which loaded it. A piece of memory, a
 * queue and a kernel are structures here, since the driver's numbers say neither which context they
 * belong to nor whether memory is pinned. All of it with the lock, and without Python. */
#include "place/store.h"
#include "native_docs.h"

#include <stdlib.h>
#include <string.h>

/* In the order in which Python names them; see the driver's manual for their meaning. */
enum {
    PUSH, POP, ALLOCATE, FREE, ALLOCATE_HOST, FREE_HOST, COPY_HOME, COPY_THERE,
    SYNCHRONIZE, LAUNCH, CREATE_EVENT, RECORD, AWAIT, DESTROY_EVENT, DRIVERS
};
enum { OUT_OF_MEMORY = 2, DISABLE_TIMING = 2, ALLOC_HOST_PTR = 1 << 4 };
enum { INVALID = 1 }; /* CUDA_ERROR_INVALID_VALUE */

typedef int32_t launch_function(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                unsigned block_x, unsigned block_y, unsigned block_z,
                                unsigned shared_bytes, void *stream, void **arguments,
                                void **extra);

static void *driver[DRIVERS];

typedef struct { void *context, *stream; } queue_object;
typedef struct { void *context, *event; } event_object;
typedef struct {
    void *context;
    uint64_t device; /* its address there */
    char *pinned;    /* or on the host, for both to use */
} piece;
typedef struct {
    void *function;
    uint32_t narguments;
    uint64_t values[]; /* of the next launch; behind them, their addresses */
} kernel_object;

/* The thread may be using another context, which it has again afterwards. */
static int32_t enter(void *context)
{
    return ((int32_t (*)(void *))driver[PUSH])(context);
}

static int32_t leave(int32_t error)
{
    void *context;
    int32_t its = ((int32_t (*)(void **))driver[POP])(&context);
    return error != 0 ? error : its;
}

static int32_t allocate(piece *p, bool pinned, size_t size)
{
    return pinned ? ((int32_t (*)(char **, size_t, unsigned))driver[ALLOCATE_HOST])(&p->pinned,
                                                                                    size, 0)
                  : ((int32_t (*)(uint64_t *, size_t))driver[ALLOCATE])(&p->device, size);
}

static void *create(void *context, uint64_t flags, size_t size, void *host, int32_t *error)
{
    (void)host;
    piece *p = calloc(1, sizeof *p);
    *error = p == NULL ? NO_HOST_MEMORY : enter(context);
    if (*error == 0) {
        p->context = context;
        *error = leave(allocate(p, flags & ALLOC_HOST_PTR, size));
    }
    if (*error != 0) {
        *error = *error == OUT_OF_MEMORY ? NO_OBJECT : *error;
        free(p);
        return NULL;
    }
    return p;
}

static int32_t release(void *object)
{
    piece *p = object;
    int32_t error = enter(p->context);
    if (error == 0) {
        error = leave(p->pinned != NULL ? ((int32_t (*)(void *))driver[FREE_HOST])(p->pinned)
                                        : ((int32_t (*)(uint64_t))driver[FREE])(p->device));
    }
    free(p);
    return error;
}

static int32_t synchronize(const queue_object *q)
{
    return ((int32_t (*)(void *))driver[SYNCHRONIZE])(q->stream);
}

static int32_t finish(void *queue)
{
    const queue_object *q = queue;
    int32_t error = enter(q->context);
    return error != 0 ? error : leave(synchronize(q));
}

static int32_t nothing(void *queue)
{
    (void)queue;
    return 0;
}

static int32_t release_event(void *object)
{
    event_object *e = object;
    int32_t error = enter(e->context);
    if (error == 0) {
        error = leave(((int32_t (*)(void *))driver[DESTROY_EVENT])(e->event));
    }
    free(e);
    return error;
}

static int32_t record(const queue_object *q, void **event)
{
    event_object *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NO_HOST_MEMORY;
    }
    made->context = q->context;
    int32_t error =
        ((int32_t (*)(void **, unsigned))driver[CREATE_EVENT])(&made->event, DISABLE_TIMING);
    if (error != 0) {
        free(made);
        return error;
    }
    error = ((int32_t (*)(void *, void *))driver[RECORD])(made->event, q->stream);
    if (error != 0) {
        release_event(made);
        return error;
    }
    *event = made;
    return 0;
}

/* What was asked for of a queue, whose context was entered: to its end, or with an event that tells
 * when. */
static int32_t asked(const queue_object *q, int32_t error, uint32_t wait, void **event)
{
    error = error == 0 && wait ? synchronize(q) : error;
    error = error == 0 && event != NULL ? record(q, event) : error;
    return leave(error);
}

static int32_t read_piece(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                          void *host, uint32_t nevents, void *const *events, void **event)
{
    (void)nevents, (void)events;
    const queue_object *q = queue;
    int32_t error = enter(q->context);
    return error != 0
        ? error
        : asked(q,
                ((int32_t (*)(void *, uint64_t, size_t, void *))driver[COPY_HOME])(
                    host, ((piece *)memory)->device + offset, size, q->stream),
                wait, event);
}

static int32_t write_piece(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                           const void *host, uint32_t nevents, void *const *events, void **event)
{
    (void)nevents, (void)events;
    const queue_object *q = queue;
    int32_t error = enter(q->context);
    return error != 0
        ? error
        : asked(q,
                ((int32_t (*)(uint64_t, const void *, size_t, void *))driver[COPY_THERE])(
                    ((piece *)memory)->device + offset, host, size, q->stream),
                wait, event);
}

/* All that kernels are given are pieces of memory. */
static int32_t set_argument(void *kernel, uint32_t index, size_t size, const void *value)
{
    kernel_object *k = kernel;
    if (index >= k->narguments || size != sizeof(piece *)) {
        return INVALID;
    }
    k->values[index] = (*(piece *const *)value)->device;
    return 0;
}

static int32_t launch(void *queue, void *kernel, uint32_t rank, const size_t *offset,
                      const size_t *global, const size_t *local, uint32_t nevents,
                      void *const *events, void **event)
{
    (void)rank, (void)offset, (void)nevents, (void)events;
    const queue_object *q = queue;
    kernel_object *k = kernel;
    void **addresses = (void **)(k->values + k->narguments);
    int32_t error = enter(q->context);
    return error != 0
        ? error
        : asked(q,
                ((launch_function *)driver[LAUNCH])(k->function, (unsigned)(*global / *local), 1, 1,
                                                    (unsigned)*local, 1, 1, 0, q->stream, addresses,
                                                    NULL),
                0, event);
}

static void *map(void *queue, void *memory, uint32_t wait, uint64_t flags, size_t offset,
                 size_t size, uint32_t nevents, void *const *events, void **event, int32_t *error)
{
    (void)queue, (void)wait, (void)flags, (void)size, (void)nevents, (void)events, (void)event;
    char *pinned = ((piece *)memory)->pinned;
    *error = pinned != NULL ? 0 : INVALID;
    return pinned != NULL ? pinned + offset : NULL;
}

static int32_t wait_for(uint32_t n, void *const *events)
{
    int32_t error = 0;
    for (uint32_t i = 0; error == 0 && i < n; i++) {
        event_object *e = events[i];
        error = enter(e->context);
        error = error != 0 ? error : leave(((int32_t (*)(void *))driver[AWAIT])(e->event));
    }
    return error;
}

/* ------------------------------------------------------------------------------- for Python */

/* cuda_functions(addresses): the driver's, as DRIVERS names them; those for a DeviceMemory. */
PyObject *npa_cuda_functions(PyObject *module, PyObject *addresses)
{
    (void)module;
    void *const functions[FUNCTIONS] = {
        [CREATE] = (void *)create, [RELEASE] = (void *)release, [READ] = (void *)read_piece,
        [WRITE] = (void *)write_piece, [SET] = (void *)set_argument, [ENQUEUE] = (void *)launch,
        [FINISH] = (void *)finish, [FLUSH] = (void *)nothing, [MAP] = (void *)map,
        [WAIT] = (void *)wait_for, [RELEASE_EVENT] = (void *)release_event};
    if (!PyTuple_Check(addresses) || PyTuple_GET_SIZE(addresses) != DRIVERS) {
        return PyErr_Format(PyExc_TypeError, "a tuple of %d addresses is needed", DRIVERS);
    }
    for (int i = 0; i < DRIVERS; i++) {
        driver[i] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, i));
    }
    PyObject *result = PyErr_Occurred() ? NULL : PyTuple_New(FUNCTIONS);
    for (int i = 0; result != NULL && i < FUNCTIONS; i++) {
        npa_fill_in(&result, i, PyLong_FromVoidPtr(functions[i]));
    }
    return result;
}

/* cuda_queue(context, stream): its address; it lives as long as the process. */
PyObject *npa_cuda_queue(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long context, stream;
    if (!PyArg_ParseTuple(args, "KK", &context, &stream)) {
        return NULL;
    }
    queue_object *made = malloc(sizeof *made);
    if (made == NULL) {
        return PyErr_NoMemory();
    }
    *made = (queue_object){(void *)(uintptr_t)context, (void *)(uintptr_t)stream};
    return PyLong_FromVoidPtr(made);
}

/* cuda_kernel(function, narguments): what a launch of it needs, and its address is a device's
 * kernel. */
PyObject *npa_cuda_kernel(PyObject *module, PyObject *args)
{
    (void)module;
    unsigned long long function;
    unsigned narguments;
    if (!PyArg_ParseTuple(args, "KI", &function, &narguments)) {
        return NULL;
    }
    size_t each = sizeof(uint64_t) + sizeof(void *);
    PyObject *made = PyByteArray_FromStringAndSize(
        NULL, (Py_ssize_t)(sizeof(kernel_object) + narguments * each));
    if (made == NULL) {
        return NULL;
    }
    kernel_object *k = (kernel_object *)(void *)PyByteArray_AS_STRING(made);
    k->function = (void *)(uintptr_t)function, k->narguments = narguments;
    void **addresses = (void **)(k->values + narguments);
    for (unsigned i = 0; i < narguments; i++) {
        addresses[i] = &k->values[i];
    }
    PyObject *address = PyLong_FromVoidPtr(k);
    return address == NULL ? (Py_DECREF(made), NULL) : Py_BuildValue("NN", address, made);
}
