/* device.c: kernels that a device's driver runs, launched without Python.
 *
 * In OpenCL's terms, which cuda.c has over CUDA's for devices with memory of their own.
 *
 * The driver's functions come as addresses from Python, which loaded it: nothing here is linked
 * with it. A launch runs one kernel over the whole domain and waits for it. The device sees the
 * host's memory: arrays are passed as the host's pointers. */
#include "place/place.h"
#include "native_docs.h"

#include <stdlib.h>
#include <string.h>

/* The parts of OpenCL's interface that are needed; see the specification for their meaning. */
typedef int32_t set_pointer_function(void *kernel, uint32_t index, const void *pointer);
typedef int32_t enqueue_function(void *queue, void *kernel, uint32_t rank, const size_t *offset,
                                 const size_t *global, const size_t *local, uint32_t nevents,
                                 void *const *events, void **event);
typedef int32_t wait_function(uint32_t n, void *const *events);
typedef int32_t event_info_function(void *event, uint32_t what, size_t size, void *value,
                                    size_t *size_out);
typedef int32_t release_function(void *object);

enum { EXECUTION_STATUS = 0x11D3, FIXED_ARGUMENTS = 4 };
enum { FORKED = -10001, NO_MEMORY = -10002, INJECTED = -10003 };

typedef struct {
    PyObject_HEAD
    npa_device device;
} device_object;

/* Tests: so many of the next launches, of transfers home, and of launches that are through fail; of
 * launches after so many that do not. */
static int inject, inject_reads, inject_midway, inject_after;
static size_t inject_room; /* and the driver has no more memory than this; 0: than it has */
static npa_device *trouble;   /* the last whose launch failed; owned; told to Python soon */

static int32_t launch(npa_device *d, void *kernel, const int64_t *words, const void *scratch,
                      const void *partials, const void *flags, char *const *arrays, size_t groups,
                      bool *begun)
{
    set_pointer_function *set = (set_pointer_function *)d->functions[0];
    enqueue_function *enqueue = (enqueue_function *)d->functions[1];
    wait_function *wait = (wait_function *)d->functions[2];
    event_info_function *ask = (event_info_function *)d->functions[3];
    release_function *release = (release_function *)d->functions[4];
    const void *fixed[FIXED_ARGUMENTS] = {words, scratch, partials, flags};
    int32_t error = 0, state = 0;
    for (uint32_t k = 0; error == 0 && k < FIXED_ARGUMENTS; k++) {
        error = set(kernel, k, fixed[k]);
    }
    for (int k = 0; error == 0 && k < d->narrays; k++) {
        error = set(kernel, (uint32_t)(FIXED_ARGUMENTS + k), arrays[k]);
    }
    void *event = NULL;
    size_t items = groups * d->group_size;
    if (error == 0) {
        error = enqueue(d->queue, kernel, 1, NULL, &items, &d->group_size, 0, NULL, &event);
    }
    if (error == 0) {
        *begun = true;
        error = wait(1, &event);
        if (ask(event, EXECUTION_STATUS, sizeof state, &state, NULL) == 0 && state < 0) {
            error = state;
        }
        release(event);
    }
    return error;
}

size_t npa_device_groups(const npa_device *d, const npa_device_grid *grid)
{
    int64_t tasks = (grid->band + grid->band_step - 1) / grid->band_step *
                    ((grid->inner + grid->inner_step - 1) / grid->inner_step);
    return (size_t)(tasks < d->groups ? tasks : d->groups);
}

size_t npa_device_words(const npa_device *d, int64_t *own, const int64_t *words,
                        const npa_device_grid *grid, bool finish)
{
    int64_t points = grid->band < d->groups ? grid->band : d->groups;
    const int64_t of_run[NPA_DEVICE_WORDS] = {
        grid->band, grid->band_step, grid->inner, grid->inner_step, (int64_t)grid->scratch_bytes,
        grid->band_low, grid->inner_low};
    const int64_t of_finish[NPA_DEVICE_WORDS] = {grid->band, (grid->band + points - 1) / points, 1,
                                                 1, (int64_t)grid->scratch_bytes, 0, 0};
    memcpy(own, words, 8 * (size_t)d->nwords);
    memcpy(own + d->nwords, finish ? of_finish : of_run, sizeof of_run);
    return (size_t)points;
}

int32_t npa_device_injected(void)
{
    int *count = inject_after > 0 ? &inject_after : &inject;
    int32_t error = count == &inject && inject > 0 ? INJECTED : 0;
    *count -= *count > 0;
    return error;
}
int32_t npa_device_injected_read(void) { return inject_reads > 0 ? (inject_reads--, INJECTED) : 0; }
int32_t npa_device_injected_midway(void)
{
    return inject_midway > 0 ? (inject_midway--, INJECTED) : 0;
}

bool npa_device_injected_room(size_t bytes) { return inject_room != 0 && bytes > inject_room; }

/* The arrays' addresses, which are arguments here, out of their words. */
static void take_addresses(const npa_device *d, int64_t *words, char **arrays)
{
    for (int k = 0; k < d->narrays; k++) {
        int64_t *at = &words[d->rank + k * (d->rank + 1)];
        arrays[k] = (char *)(intptr_t)*at;
        *at = 0;
    }
}

static int32_t run(npa_device *d, const int64_t *words, const npa_device_grid *grid,
                   char *partials, uint32_t *flags, bool in_parts, bool *begun)
{
    int32_t error = npa_device_injected();
    if (error != 0) {
        return error;
    }
    int64_t *own = malloc(8 * (size_t)(d->nwords + NPA_DEVICE_WORDS));
    char **arrays = malloc(sizeof *arrays * (size_t)(d->narrays + 1));
    size_t groups = npa_device_groups(d, grid);
    char *scratch = npa_aligned(64, groups * grid->scratch_bytes + 64);
    error = NO_MEMORY;
    if (own != NULL && arrays != NULL && scratch != NULL) {
        const void *parts = partials != NULL ? partials : scratch;
        npa_device_words(d, own, words, grid, false);
        take_addresses(d, own, arrays);
        error = launch(d, d->run, own, scratch, parts, flags, arrays, groups, begun);
        if (error == 0 && d->finish != NULL && !in_parts) {
            groups = npa_device_words(d, own, words, grid, true);
            take_addresses(d, own, arrays);
            error = launch(d, d->finish, own, scratch, parts, flags, arrays, groups, begun);
        }
    }
    free(own), free(arrays), npa_aligned_free(scratch);
    return error != 0 ? error : npa_device_injected_midway();
}

int32_t npa_device_run(npa_device *d, const int64_t *words, const npa_device_grid *grid,
                       char *partials, uint32_t *flags, bool in_parts, bool *begun)
{
    if (d->failed) {
        return d->error;
    }
    if (!npa_store_here(d->store)) {
        return FORKED; /* no failure of the device's */
    }
    int32_t error = run(d, words, grid, partials, flags, in_parts, begun);
    if (error != 0) {
        npa_device_note_failure(d, error);
    }
    return error;
}

void npa_device_note_failure(npa_device *d, int32_t error)
{
    d->error = error;
    d->failed = true;
    trouble = d;
}

bool npa_device_trouble(void) { return trouble != NULL; }

/* Once: (the error's number, the device's name), or None. */
PyObject *npa_device_errors(void)
{
    npa_device *d = trouble;
    trouble = NULL;
    return d == NULL ? Py_NewRef(Py_None)
                     : Py_BuildValue("iN", (int)d->error, npa_store_name(d->store));
}

void npa_device_inject(int launches, int reads, int midway, int after, size_t room)
{
    inject_room = room;
    npa_losses &= launches >= 0;
    inject = launches > 0 ? launches : 0, inject_reads = reads;
    inject_midway = midway, inject_after = after;
}

npa_device *npa_device_of(PyObject *object)
{
    if (!Py_IS_TYPE(object, &npa_device_type)) {
        PyErr_SetString(PyExc_TypeError, "a DeviceKernel is needed");
        return NULL;
    }
    return &((device_object *)object)->device;
}

/* DeviceKernel(functions, queue, run, finish, rank, arrays, words, groups, group_size, memory,
 * host_memory). memory: the DeviceMemory of its device, used unless host_memory. */
static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    unsigned long long f[NPA_DEVICE_FUNCTIONS], queue, run_kernel, finish;
    PyObject *memory;
    int rank, narrays, nwords, host_memory;
    long long groups, group_size;
    static char *names[] = {"functions", "queue", "run", "finish", "rank", "arrays", "words",
                            "groups", "group_size", "memory", "host_memory", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "(KKKKK)KKKiiiLLO!p", names, &f[0], &f[1], &f[2],
                                     &f[3], &f[4], &queue, &run_kernel, &finish, &rank, &narrays,
                                     &nwords, &groups, &group_size, &npa_store_type, &memory,
                                     &host_memory)) {
        return NULL;
    }
    device_object *self = (device_object *)type->tp_alloc(type, 0);
    if (self == NULL) {
        return NULL;
    }
    npa_device *d = &self->device;
    for (int i = 0; i < NPA_DEVICE_FUNCTIONS; i++) {
        d->functions[i] = (void *)(uintptr_t)f[i];
    }
    d->queue = (void *)(uintptr_t)queue, d->run = (void *)(uintptr_t)run_kernel;
    d->finish = (void *)(uintptr_t)finish;
    d->rank = rank, d->narrays = narrays, d->nwords = nwords;
    d->groups = groups < 1 ? 1 : groups, d->group_size = group_size < 1 ? 1 : (size_t)group_size;
    d->store = (npa_store *)memory; /* which lives for ever */
    d->host_memory = host_memory;
    return (PyObject *)self;
}

static void device_free(PyObject *self)
{
    if (trouble == &((device_object *)self)->device) {
        trouble = NULL;
    }
    Py_TYPE(self)->tp_free(self);
}

/* launch(words, (band, band_step, inner, inner_step, scratch_bytes), partials, flags): addresses.
 * Without the queue, for tests and measurements; the error's number, 0 if there was none. */
static PyObject *device_launch(PyObject *self, PyObject *args)
{
    npa_device *d = &((device_object *)self)->device;
    unsigned long long words, partials, flags;
    long long band, band_step, inner, inner_step, scratch;
    if (!PyArg_ParseTuple(args, "K(LLLLL)KK", &words, &band, &band_step, &inner, &inner_step,
                          &scratch, &partials, &flags)) {
        return NULL;
    }
    npa_device_grid grid = {band, band_step, inner, inner_step, (size_t)scratch, 0, 0};
    int32_t error;
    bool begun = false;
    Py_BEGIN_ALLOW_THREADS
    error = run(d, (const int64_t *)(uintptr_t)words, &grid, (char *)(uintptr_t)partials,
                (uint32_t *)(uintptr_t)flags, false, &begun);
    Py_END_ALLOW_THREADS
    return PyLong_FromLong(error);
}

static PyMethodDef device_methods[] = {
    {"launch", device_launch, METH_VARARGS, NPA_DOC_DeviceKernel_launch}, {NULL}};

PyTypeObject npa_device_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.DeviceKernel",
    .tp_basicsize = sizeof(device_object),
    .tp_dealloc = device_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "A kernel that a device's driver runs, with what a launch needs to know.",
    .tp_methods = device_methods,
    .tp_new = device_new,
};

int npa_device_ready(void)
{
    return PyType_Ready(&npa_device_type) < 0 ? -1 : PyType_Ready(&npa_store_type);
}
