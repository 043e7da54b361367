/* program.c: the native form of a plan; running one needs no Python.
 *
 * for each step:  words <- template, addresses, scalars
 *                 for each task of the grid (parallel):  main(words, range, scratch, flags)
 *                 finish(words, range, scratch, flags)   for split reductions */
#include "run/chain.h"
#include "run/group.h"
#include "run/run.h"

#include <limits.h>
#include <pthread.h>
#include <string.h>

/* Why a device did not do it; IN_PARTS: it did. */
enum { DONE_THERE, NO_ROOM, LAUNCH_FAILED, WAS_TOUCHED, IN_PARTS };

struct npa_program {
    PyObject_HEAD
    step *steps;
    int nsteps;
    uint64_t dropped, used; /* used: number of the last flush that looked it up */
    uint64_t runs, best_ns, last_ns, total_ns; /* whole runs of it, and how long they took */
    uint64_t rival_ns; /* the best time of NumPy's loops for the same; 0: not known */
    bool compares;     /* those are to run once, to show it, where it is a loop's round */
    uint64_t lost_ns;  /* and of its kernels, where they were given up for that */
    uint64_t home_ns;  /* bringing home what it left on a device, of all runs */
    /* Runs, and total_ns, from which it is reviewed; runs 0: never */
    uint64_t review_runs, review_ns;
    bool single; /* request by request with NumPy's loops */
    bool foreign; /* has kernels for the host that are not of our making */
    bool missed;  /* in the run at hand the host did what a device was to do */
    int lent;    /* references beyond those that Python counts */
    npa_ledger ledger;
    PyObject *keep, *devices, *info; /* compiled code; kernels; whatever Python wants to remember */
};

static void program_free(npa_program *p)
{
    for (int i = 0; i < p->nsteps; i++) {
        free(p->steps[i].words), free(p->steps[i].patches), free(p->steps[i].accesses);
        free(p->steps[i].slots), free(p->steps[i].writes), free(p->steps[i].releases),
            free(p->steps[i].wraps);
        free(p->steps[i].uses);
    }
    free(p->steps);
    npa_ledger_end(&p->ledger);
    Py_XDECREF(p->keep), Py_XDECREF(p->devices), Py_XDECREF(p->info);
    Py_TYPE(p)->tp_free((PyObject *)p);
}

/* Steps are words of 32 or 64 bits, which are read without an object each (runtime/packed.py): a
 * recipe from the helper or from disk has some thousands of numbers. */
typedef struct {
    const char *at, *end;
    int bytes; /* of a word */
    bool failed;
} packed;

static int64_t unpack(packed *p)
{
    int32_t half = 0;
    int64_t word = 0;
    if (p->end - p->at < p->bytes) {
        p->failed = true;
        return 0;
    }
    if (p->bytes == 4) {
        memcpy(&half, p->at, 4);
        word = half;
    } else {
        memcpy(&word, p->at, 8);
    }
    p->at += p->bytes;
    return word;
}

/* How many of something follow, each of them at least a word. */
static int unpack_count(packed *p)
{
    int64_t n = unpack(p);
    p->failed |= n < 0 || n > (p->end - p->at) / p->bytes;
    return p->failed ? 0 : (int)n;
}

static void unpack_ints(packed *p, int32_t **to, int *n)
{
    *n = unpack_count(p);
    *to = calloc((size_t)*n + 1, sizeof **to);
    for (int i = 0; *to != NULL && i < *n; i++) {
        (*to)[i] = (int32_t)unpack(p);
    }
    p->failed |= *to == NULL;
}

/* Who runs it that is not the host's own backend: whose launches they are; its kernel among
 * `devices`, or -1: the step's code is the owner's; its grid's steps and scratch memory; how it may
 * be cut; accesses. */
static void unpack_elsewhere(packed *p, step *s, PyObject *devices)
{
    int64_t owner = unpack(p);
    if (owner == 0) {
        return;
    }
    int64_t kernel = unpack(p), band_step = unpack(p), inner_step = unpack(p), scratch = unpack(p);
    s->may_cut.band_rank = (int)unpack(p), s->may_cut.inner_axes = (int)unpack(p);
    s->may_cut.step = unpack(p);
    int n = unpack_count(p);
    s->owner = (int)owner;
    s->accesses = calloc((size_t)n + 1, sizeof *s->accesses);
    for (int i = 0; s->accesses != NULL && i < n; i++) {
        npa_access *a = &s->accesses[i];
        a->buffer = (int32_t)unpack(p), a->read = unpack(p) != 0, a->written = unpack(p) != 0;
        a->looped = unpack(p) != 0, a->low = unpack(p), a->high = unpack(p);
    }
    p->failed |= owner < 0 || owner >= NPA_OWNERS || s->accesses == NULL || kernel < -1 ||
                 kernel >= PyTuple_GET_SIZE(devices);
    if (p->failed || kernel < 0) {
        return;
    }
    s->device_grid =
        (npa_device_grid){s->band, band_step, s->inner, inner_step, (size_t)scratch, 0, 0};
    s->device = npa_device_of(PyTuple_GET_ITEM(devices, kernel));
    p->failed |= s->device == NULL || n != s->device->narrays;
}

/* A kernel's arguments: extents; per array its address and strides; scalars; partial results, and
 * how many. backends/layout.py has the same. */
static void unpack_arguments(packed *p, step *s, int nscalars)
{
    int rank = unpack_count(p), narrays = unpack_count(p);
    s->rank = rank, s->narrays = narrays;
    s->words =
        calloc((size_t)rank + (size_t)narrays * (1 + (size_t)rank) + 2 * (size_t)nscalars + 2, 8);
    s->patches = calloc((size_t)narrays + (size_t)nscalars + 1, sizeof *s->patches);
    if (s->words == NULL || s->patches == NULL) {
        p->failed = true;
        return;
    }
    patch *next = s->patches;
    for (int i = 0; i < rank; i++) {
        s->words[s->nwords++] = unpack(p);
    }
    for (int k = 0; k < narrays; k++) {
        int32_t buffer = (int32_t)unpack(p);
        *next++ = (patch){s->nwords++, PATCH_ADDRESS, buffer, unpack(p)};
        for (int i = 0; i < rank; i++) {
            s->words[s->nwords++] = unpack(p);
        }
    }
    for (int k = 0; k < nscalars; k++, s->nwords += 2) {
        int32_t request = (int32_t)unpack(p);
        *next++ = (patch){s->nwords, PATCH_SCALAR, request, unpack(p)};
    }
    *next++ = (patch){s->nwords++, PATCH_PARTIALS, 0, 0};
    s->words[s->nwords++] = s->parts;
    s->npatches = (int)(next - s->patches);
}

static void unpack_wraps(packed *p, step *s)
{
    s->nwraps = unpack_count(p);
    s->band_rank = s->nwraps > 0 ? (int)unpack(p) : 0;
    s->wraps = calloc((size_t)s->nwraps + 1, sizeof *s->wraps);
    p->failed |= s->wraps == NULL;
    for (int i = 0; s->wraps != NULL && i < s->nwraps; i++) {
        wrap *w = &s->wraps[i];
        w->array = unpack(p), w->axis = unpack(p);
        w->cut = unpack(p), w->bytes = unpack(p);
        p->failed |= s->words == NULL || w->axis < 0 || w->axis >= s->rank || w->array < 0 ||
                     w->array >= s->narrays || w->cut < 1 || w->cut >= s->words[w->axis];
    }
}

static void unpack_kernel(packed *p, step *s, const uint64_t *code, int ncode)
{
    int64_t kernel = unpack(p);
    s->nrequests = (int)unpack(p);
    int nscalars = unpack_count(p);
    if (kernel < 0 || kernel >= ncode) {
        p->failed = true;
        return;
    }
    s->main = (kernel_function *)(uintptr_t)code[2 * kernel];
    s->finish = (kernel_function *)(uintptr_t)code[2 * kernel + 1];
    s->band = unpack(p), s->band_step = unpack(p), s->inner = unpack(p), s->inner_step = unpack(p);
    s->parts = unpack(p), s->scratch_bytes = (size_t)unpack(p);
    s->partial_bytes = (size_t)unpack(p);
    s->bytes_read = (size_t)unpack(p), s->bytes_written = (size_t)unpack(p);
    p->failed |= s->band < 1 || s->band_step < 1 || s->inner < 1 || s->inner_step < 1;
    unpack_arguments(p, s, nscalars);
    unpack_ints(p, &s->slots, &s->nslots);
    unpack_ints(p, &s->writes, &s->nwrites);
    unpack_wraps(p, s);
    unpack_ints(p, &s->uses, &s->nuses);
}

/* bytes: how long a word is, in a word of eight bytes; the number of steps; per step a request, or
 * -1 and a kernel, and the releases. code: per kernel its main and finish. -1 with an exception. */
static int unpack_steps(npa_program *to, PyObject *bytes, PyObject *code, PyObject *devices)
{
    int64_t width = 0;
    int ncode = (int)(PyBytes_GET_SIZE(code) / 16);
    packed p = {PyBytes_AS_STRING(bytes), PyBytes_AS_STRING(bytes) + PyBytes_GET_SIZE(bytes), 8,
                false};
    width = unpack(&p);
    p.failed |= width != 4 && width != 8;
    p.bytes = width == 4 ? 4 : 8;
    int n = unpack_count(&p);
    to->steps = calloc((size_t)n + 1, sizeof *to->steps);
    for (int i = 0; to->steps != NULL && i < n && !p.failed; i++) {
        step *s = &to->steps[to->nsteps++];
        s->request = (int32_t)unpack(&p);
        if (s->request < 0) {
            unpack_kernel(&p, s, (const uint64_t *)PyBytes_AS_STRING(code), ncode);
            unpack_elsewhere(&p, s, devices);
            to->foreign |= s->owner != 0 && s->device == NULL;
        }
        if (!p.failed) {
            unpack_ints(&p, &s->releases, &s->nreleases);
        }
    }
    if (to->steps == NULL) {
        return PyErr_NoMemory(), -1;
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    if (p.failed || p.at != p.end) {
        PyErr_SetString(PyExc_ValueError, "steps: these bytes are not packed steps");
        return -1;
    }
    return 0;
}

/* Program(steps, dropped, keep, info, code=b"", devices=()); steps None: request by request */
static PyObject *program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    PyObject *steps, *keep, *info, *code = NULL, *devices = NULL;
    unsigned long long dropped;
    static char *names[] = {"steps", "dropped", "keep", "info", "code", "devices", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OKOO|SO!", names, &steps, &dropped, &keep,
                                     &info, &code, &PyTuple_Type, &devices)) {
        return NULL;
    }
    if (steps != Py_None && !PyBytes_Check(steps)) {
        return PyErr_Format(PyExc_TypeError, "steps: bytes are needed, or None");
    }
    npa_program *p = (npa_program *)type->tp_alloc(type, 0);
    PyObject *no_code = PyBytes_FromString(""), *no_devices = PyTuple_New(0);
    if (p == NULL || no_code == NULL || no_devices == NULL) {
        Py_XDECREF(p), Py_XDECREF(no_code), Py_XDECREF(no_devices);
        return NULL;
    }
    code = code != NULL ? code : no_code, devices = devices != NULL ? devices : no_devices;
    p->dropped = dropped, p->used = npa_q.serial, p->info = Py_NewRef(info);
    p->keep = Py_NewRef(keep), p->devices = Py_NewRef(devices);
    p->single = steps == Py_None;
    int status = p->single ? 0 : unpack_steps(p, steps, code, devices);
    Py_DECREF(no_code), Py_DECREF(no_devices);
    if (status < 0) {
        Py_CLEAR(p);
    } else {
        npa_ledger_begin(&p->ledger, (PyObject *)p);
    }
    return (PyObject *)p;
}

static PyObject *program_info(PyObject *self, void *closure)
{
    (void)closure;
    return Py_NewRef(((npa_program *)self)->info);
}

static PyObject *program_used(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((npa_program *)self)->used);
}

static int program_set_info(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    Py_XSETREF(((npa_program *)self)->info, Py_NewRef(value != NULL ? value : Py_None));
    return 0;
}

/* (runs, best seconds, all seconds) */
static PyObject *program_timing(PyObject *self, void *closure)
{
    (void)closure;
    npa_program *p = (npa_program *)self;
    return Py_BuildValue("(Kdd)", (unsigned long long)p->runs, 1e-9 * (double)p->best_ns,
                         1e-9 * (double)p->total_ns);
}

static PyObject *program_last(PyObject *self, void *closure)
{
    (void)closure;
    return PyFloat_FromDouble(1e-9 * (double)((npa_program *)self)->last_ns);
}

static PyObject *program_rival(PyObject *self, void *closure)
{
    (void)closure;
    return PyFloat_FromDouble(1e-9 * (double)((npa_program *)self)->rival_ns);
}

static PyObject *program_lost(PyObject *self, void *closure)
{
    (void)closure;
    return PyFloat_FromDouble(1e-9 * (double)((npa_program *)self)->lost_ns);
}

static int program_set_rival(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    double seconds = value != NULL ? PyFloat_AsDouble(value) : 0;
    if (PyErr_Occurred()) {
        return -1;
    }
    ((npa_program *)self)->rival_ns = (uint64_t)(1e9 * seconds);
    return 0;
}

static PyObject *program_compares(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((npa_program *)self)->compares);
}

static int program_set_compares(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    ((npa_program *)self)->compares = value == Py_True;
    return 0;
}

static PyObject *program_home(PyObject *self, void *closure)
{
    (void)closure;
    return PyFloat_FromDouble(1e-9 * (double)((npa_program *)self)->home_ns);
}

/* Per step why its device did not run it the last time; 0: it did, or there is none. */
static PyObject *program_missed(PyObject *self, void *closure)
{
    (void)closure;
    const npa_program *p = (npa_program *)self;
    PyObject *all = PyTuple_New(p->nsteps);
    for (int i = 0; all != NULL && i < p->nsteps; i++) {
        PyObject *why = PyLong_FromLong(p->steps[i].missed);
        if (why == NULL) {
            Py_CLEAR(all);
            break;
        }
        PyTuple_SET_ITEM(all, i, why);
    }
    return all;
}

static PyObject *program_due(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(npa_program_due((npa_program *)self));
}

/* review(runs, seconds): Python is asked for another one after so many more of both; (0, 0):
 * never. */
static PyObject *program_review(PyObject *self, PyObject *args)
{
    npa_program *p = (npa_program *)self;
    unsigned long long runs;
    double seconds;
    if (!PyArg_ParseTuple(args, "Kd", &runs, &seconds)) {
        return NULL;
    }
    p->review_ns = p->total_ns + (uint64_t)(seconds > 0 ? seconds < 1e6 ? 1e9 * seconds : 1e15 : 0);
    p->review_runs = runs > 0 ? p->runs + runs : 0;
    Py_RETURN_NONE;
}

static PyMethodDef program_methods[] = {
    {"review", program_review, METH_VARARGS, "When to ask whether another one does it faster."},
    {NULL}};

static PyObject *program_is_single(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(((npa_program *)self)->single);
}

static PyObject *program_planned(PyObject *self, void *closure)
{
    (void)closure;
    return PyBool_FromLong(!npa_program_waits((npa_program *)self));
}

static PyGetSetDef program_getset[] = {
    {"planned", program_planned, NULL,
     "Whether it is a plan's, and not any requests' block by block.", NULL},
    {"used", program_used, NULL, "Number of the last flush that looked it up.", NULL},
    {"info", program_info, program_set_info, "What the planner attached.", NULL},
    {"timing", program_timing, NULL, "Whole runs, seconds of the best one, of all.", NULL},
    {"last", program_last, NULL, "Seconds of the last whole run.", NULL},
    {"rival", program_rival, program_set_rival, "Seconds that NumPy's loops take; 0: unknown.",
     NULL},
    {"compares", program_compares, program_set_compares,
     "Whether NumPy's loops are to show once what they take for it, as a loop's round.", NULL},
    {"lost", program_lost, NULL, "Seconds that kernels took which were given up; 0: none.", NULL},
    {"home", program_home, NULL, "Seconds that bringing its results home took, of all runs.", NULL},
    {"missed", program_missed, NULL, "Per step why its device did not run it.", NULL},
    {"due", program_due, NULL, "Whether it is to be reviewed.", NULL},
    {"single", program_is_single, NULL, "Whether it runs request by request.", NULL},
    {NULL}};

PyTypeObject npa_program_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Program",
    .tp_basicsize = sizeof(npa_program),
    .tp_dealloc = (destructor)program_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Native form of a Plan: what a flush with a known key runs.",
    .tp_getset = program_getset,
    .tp_methods = program_methods,
    .tp_new = program_new,
};

void npa_program_note_use(PyObject *program)
{
    if (Py_IS_TYPE(program, &npa_program_type)) {
        ((npa_program *)program)->used = npa_q.serial;
    }
}

npa_program *npa_program_lend(npa_program *program)
{
    program->lent++;
    return program;
}

void npa_program_settle(PyObject *object)
{
    if (Py_IS_TYPE(object, &npa_program_type)) {
        npa_program *program = (npa_program *)object;
        for (; program->lent > 0; program->lent--) {
            Py_INCREF(object);
        }
    }
}

npa_ledger *npa_program_ledger(npa_program *p) { return p != NULL ? &p->ledger : NULL; }

int npa_program_steps(const npa_program *p) { return p->nsteps; }

bool npa_program_single(const npa_program *p) { return p == NULL || p->single; }

/* Of the step of that number the request that gives its result. */
int npa_program_request(const npa_program *p, int number)
{
    if (npa_program_single(p) || number >= p->nsteps) {
        return number;
    }
    const step *s = &p->steps[number];
    return s->request >= 0 ? s->request : s->nslots > 0 ? s->slots[s->nslots - 1] : -1;
}

enum { BRIEF_NS = 500000 };

bool npa_program_brief(const npa_program *p)
{
    return p != NULL && p->runs > 0 && p->best_ns < BRIEF_NS;
}

uint64_t npa_program_expected(const npa_program *p)
{
    return npa_program_single(p) ? 0 : p->best_ns;
}

uint64_t npa_program_rival(const npa_program *p) { return p->rival_ns; }

bool npa_program_compares(const npa_program *p) { return p->compares; }

void npa_program_note_rival(npa_program *p, uint64_t ns)
{
    p->rival_ns = ns;
    p->compares = false;
}

bool npa_program_foreign(const npa_program *p) { return p->foreign; }

bool npa_program_moves(const npa_program *p)
{
    bool moves = false;
    for (int i = 0; i < p->nsteps && !moves; i++) {
        moves = p->steps[i].device != NULL && !p->steps[i].device->host_memory;
    }
    return moves;
}

/* Runs after which kernels that NumPy's loops beat in each of them are given up. */
enum { TRIALS = 8 };

void npa_program_note_time(npa_program *p, uint64_t ns, uint64_t total_ns)
{
    if (p->missed) { /* not the time of what it says it is */
        p->missed = false;
        return;
    }
    p->best_ns = p->runs == 0 || ns < p->best_ns ? ns : p->best_ns;
    p->last_ns = ns;
    p->total_ns += total_ns;
    p->runs++;
    if (p->runs >= TRIALS && !p->single && p->rival_ns != 0 && p->best_ns > p->rival_ns) {
        p->single = true;
        p->lost_ns = p->best_ns; /* from now on it is the loops that run */
    }
}

void npa_program_note_home(npa_program *p, uint64_t ns) { p->home_ns += ns; }

bool npa_program_due(const npa_program *p)
{
    return p->review_runs > 0 && p->runs >= p->review_runs && p->total_ns >= p->review_ns;
}

bool npa_program_waits(const npa_program *p) { return p->single && p->steps == NULL; }

int npa_program_ready(void) { return PyType_Ready(&npa_program_type); }

/* --------------------------------------------------------------------------------- running */

/* Scratch for a task that can't have its own: once a kernel has begun, it is carried to its end.
 * One at a time uses it. */
static struct {
    pthread_mutex_t lock;
    char *data;
    size_t size;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool reserve_spare(size_t bytes)
{
    pthread_mutex_lock(&spare.lock);
    char *larger = spare.size < bytes ? aligned_alloc(64, (bytes + 63) & ~(size_t)63) : NULL;
    if (larger != NULL) {
        free(spare.data);
        spare.data = larger, spare.size = bytes;
    }
    bool enough = spare.size >= bytes;
    pthread_mutex_unlock(&spare.lock);
    return enough;
}

/* What one set of arguments is for: the whole domain, or a part of it between cuts. */
typedef struct {
    const int64_t *words;
    int64_t band, inner, inner_tasks, first; /* first: number of its first task */
} box;

typedef struct {
    const step *s;
    const box *boxes;
    int nboxes;
    uint32_t *flags;
} launch;

void npa_step_call(const step *s, const int64_t *words, const int64_t *range, int worker,
                   uint32_t *flags)
{
    char *scratch = npa_pool_scratch(worker, s->scratch_bytes + 64);
    if (scratch != NULL) {
        s->main(words, range, scratch, flags);
        return;
    }
    pthread_mutex_lock(&spare.lock);
    s->main(words, range, spare.data, flags);
    pthread_mutex_unlock(&spare.lock);
}

static void run_task(void *context, int64_t task, int worker)
{
    launch *l = context;
    const step *s = l->s;
    const box *x = &l->boxes[l->nboxes - 1];
    while (x->first > task) {
        x--;
    }
    int64_t at = task - x->first;
    int64_t b = at / x->inner_tasks * s->band_step, i = at % x->inner_tasks * s->inner_step;
    int64_t b_end = b + s->band_step < x->band ? b + s->band_step : x->band;
    int64_t i_end = i + s->inner_step < x->inner ? i + s->inner_step : x->inner;
    int64_t range[4] = {s->band_low + b, s->band_low + b_end, s->inner_low + i,
                        s->inner_low + i_end};
    npa_step_call(s, x->words, range, worker, l->flags);
}

/* Puts its tasks behind those there are; returns how many there are then. */
static int64_t add_box(const step *s, box *x, const int64_t *words, int64_t band, int64_t inner,
                       int64_t first)
{
    int64_t inner_tasks = (inner + s->inner_step - 1) / s->inner_step;
    *x = (box){words, band, inner, inner_tasks, first};
    return first + (band + s->band_step - 1) / s->band_step * inner_tasks;
}

/* Where a box begins along the axis that `index` counts, and where the next one does; -1: there is
 * none. */
static int64_t cut_of(const step *s, int axis, int index)
{
    int64_t at = 0;
    for (int k = 0; k <= index; k++) {
        int64_t next = s->words[axis];
        for (int i = 0; i < s->nwraps; i++) {
            const wrap *w = &s->wraps[i];
            next = w->axis == axis && w->cut > at && w->cut < next ? w->cut : next;
        }
        if (k == index) {
            return at;
        }
        if (next == s->words[axis]) {
            return -1;
        }
        at = next;
    }
    return -1;
}

/* The words of the box that is the index-th along each axis; *band, *inner: what its grid is of. */
static void bind_box(const step *s, const int64_t *words, const int *index, int64_t *w,
                     int64_t *band, int64_t *inner)
{
    memcpy(w, words, 8 * (size_t)s->nwords);
    *band = *inner = 1;
    for (int d = 0; d < s->rank; d++) {
        int64_t begin = cut_of(s, d, index[d]), end = cut_of(s, d, index[d] + 1);
        w[d] = (end < 0 ? s->words[d] : end) - begin;
        *band *= d < s->band_rank ? w[d] : 1;
        for (int k = 0; k < s->narrays; k++) {
            int64_t *address = w + s->rank + k * (1 + s->rank);
            *address += begin * address[1 + d];
        }
        for (int i = 0; i < s->nwraps; i++) {
            const wrap *x = &s->wraps[i];
            w[s->rank + x->array * (1 + s->rank)] += x->axis == d && begin >= x->cut ? x->bytes : 0;
        }
    }
    if (s->inner > 1) { /* then it is one axis, which may be cut into tasks */
        *inner = w[s->rank - 1];
    }
}

/* The boxes of a step with wraps, and behind each other in `more` their words; NULL: counts them
 * only. *tasks: how many they have. Note [Boxes] */
static int make_boxes(const step *s, const int64_t *words, box *boxes, int64_t *more,
                      int64_t *tasks)
{
    int index[NPA_MAX_DIMS] = {0}, n = 0, axis = 0;
    *tasks = 0;
    while (axis >= 0) {
        if (boxes != NULL) {
            int64_t band, inner, *w = more + (int64_t)n * s->nwords;
            bind_box(s, words, index, w, &band, &inner);
            *tasks = add_box(s, &boxes[n], w, band, inner, *tasks);
        }
        n++;
        for (axis = s->rank - 1; axis >= 0 && cut_of(s, axis, ++index[axis]) < 0; axis--) {
            index[axis] = 0;
        }
    }
    return n;
}

int npa_step_bind(const step *s, npa_queue *q, int64_t *words, char *partials, bool there)
{
    memcpy(words, s->words, 8 * (size_t)s->nwords);
    for (int i = 0; i < s->npatches; i++) {
        const patch *p = &s->patches[i];
        if (p->kind == PATCH_ADDRESS) {
            npa_memory_notes = true;
            char *base = there ? NULL : npa_buffer_address(q->buffers[p->a]);
            npa_memory_notes = false;
            if (base == NULL && !there) {
                return -1;
            }
            words[p->word] = (int64_t)(intptr_t)base + p->b;
        } else if (p->kind == PATCH_SCALAR) {
            npa_request *r = (npa_request *)(q->arena + q->at[p->a]);
            memcpy(words + p->word, npa_operand_at(r, (int)p->b)->at, 16);
        } else {
            words[p->word] = (int64_t)(intptr_t)partials;
        }
    }
    return 0;
}

static void run_finish(const step *s, const int64_t *words, uint32_t *flags)
{
    int64_t range[4] = {0, s->band, s->parts, 0};
    pthread_mutex_lock(&spare.lock);
    s->finish(words, range, spare.data, flags);
    pthread_mutex_unlock(&spare.lock);
}

/* The host's code: 0, 1 if it was cancelled, or -1: out of memory. */
static int run_here(const step *s, int64_t *words, uint32_t *flags, int (*poll)(void *), void *arg,
                    int64_t *took)
{
    box whole, *boxes = &whole;
    int64_t tasks = 0, *more = NULL;
    int n = 1;
    if (s->nwraps == 0) {
        tasks = add_box(s, &whole, words, s->band, s->inner, 0);
    } else {
        n = make_boxes(s, words, NULL, NULL, &tasks);
        boxes = malloc((size_t)n * (sizeof *boxes + 8 * (size_t)s->nwords));
        if (boxes == NULL) {
            return -1;
        }
        more = (int64_t *)(boxes + n);
        make_boxes(s, words, boxes, more, &tasks);
    }
    launch l = {.s = s, .boxes = boxes, .nboxes = n, .flags = flags};
    int status = npa_pool_run_polled(run_task, &l, tasks, poll, arg, took);
    if (more != NULL) {
        free(boxes);
    }
    if (status == 0 && s->finish != NULL) {
        run_finish(s, words, flags);
    }
    return status;
}

typedef struct {
    const step *s;
    uint32_t *flags;
} part_run;

static void run_part_here(void *context, int64_t *words, const npa_device_grid *grid)
{
    part_run *r = context;
    step part = *r->s;
    if (grid == NULL) {
        run_finish(&part, words, r->flags);
        return;
    }
    part.band = grid->band, part.inner = grid->inner;
    part.band_low = grid->band_low, part.inner_low = grid->inner_low;
    part.finish = NULL; /* when all parts are through */
    run_here(&part, words, r->flags, NULL, NULL, &part.took);
}

/* With the host's memory. */
static enum npa_ran run_shared(const step *s, npa_queue *q, int64_t *words, char *partials,
                               uint32_t *flags)
{
    npa_device *d = s->device;
    bool begun = false;
    if (npa_step_bind(s, q, words, partials, false) == 0 &&
        npa_device_run(d, words, &s->device_grid, partials, flags, &begun) == 0) {
        return NPA_THERE;
    }
    if (begun && npa_writes_over(q, s->accesses, d->narrays)) {
        npa_lost_results(q, s->accesses, d->narrays, d->store);
        return NPA_LOST;
    }
    return NPA_HOST_MUST;
}

/* On the step's device; the evaluator's thread never asks. */
static enum npa_ran run_there(const step *s, const step *next, npa_queue *q, int64_t *words,
                              char *partials, uint32_t *flags)
{
    npa_device *d = npa_guard_evaluates() ? NULL : s->device;
    if (d == NULL) {
        return NPA_HOST_MUST;
    }
    const npa_device *after = next != NULL ? next->device : NULL;
    bool same = after != NULL && after->store == d->store && !after->failed;
    enum npa_ran ran;
    if (d->host_memory) {
        ran = run_shared(s, q, words, partials, flags);
    } else {
        npa_launch l = {.q = q,
                        .accesses = s->accesses,
                        .words = words,
                        .grid = s->device_grid,
                        .partial_bytes = s->partial_bytes,
                        .partials = partials,
                        .flags = flags,
                        .nslots = s->nslots,
                        .ahead = same ? next->accesses : NULL,
                        .nahead = same ? after->narrays : 0};
        part_run here = {s, flags};
        npa_step_bind(s, q, words, partials, true);
        ran = npa_store_run(d, &l);
        ran = ran == NPA_HOST_MUST ? npa_cut_run(d, &l, s->may_cut, run_part_here, &here) : ran;
    }
    if (ran != NPA_HOST_MUST) {
        npa_spread_place(q, s->accesses, d->narrays);
    }
    return ran;
}

static void count_run(const step *s, int owner)
{
    npa_count.launches[owner]++;
    npa_count.bytes_read += s->bytes_read;
    npa_count.bytes_written += s->bytes_written;
    npa_count.kernel_requests += (uint64_t)s->nrequests;
}

/* 0 done, -1 out of memory and nothing done, 1 cancelled. */
static int run_kernel(step *s, const step *next, npa_queue *q, uint8_t *kinds,
                      int (*poll)(void *), void *arg, enum npa_ran *ran)
{
    int64_t *words = malloc(8 * (size_t)(s->nwords + 2));
    uint32_t *flags = calloc((size_t)s->nslots + 1, sizeof *flags);
    char *partials = s->partial_bytes ? aligned_alloc(64, (s->partial_bytes + 63) & ~(size_t)63)
                                      : NULL;
    int status = -1, before = npa_now(NPA_IN_KERNELS);
    bool ready = words != NULL && flags != NULL && (partials != NULL || !s->partial_bytes) &&
                 reserve_spare(s->scratch_bytes + 64);
    *ran = ready ? run_there(s, next, q, words, partials, flags) : NPA_HOST_MUST;
    bool there = *ran != NPA_HOST_MUST;
    if (there || (ready && npa_step_bind(s, q, words, partials, false) == 0)) {
        int64_t took = s->took; /* others may run it meanwhile */
        if (!there) {
            npa_compute_begin();
            status = run_here(s, words, flags, poll, arg, &took);
            npa_compute_end();
            s->took = took;
        } else {
            status = 0;
        }
        for (int i = 0; i < s->nslots; i++) {
            kinds[s->slots[i]] |= (uint8_t)flags[i];
        }
        count_run(s, s->device == NULL || there ? s->owner : 0);
    }
    npa_now(before);
    free(words), free(flags), free(partials);
    return status;
}

/* What explain() says of how the step ran. */
static uint8_t told(const step *s, enum npa_ran ran)
{
    return s->device == NULL || ran == NPA_THERE ? DONE_THERE
           : ran == NPA_IN_PARTS                 ? IN_PARTS
           : npa_guard_evaluates()               ? WAS_TOUCHED
           : s->device->failed                   ? LAUNCH_FAILED
                                                 : NO_ROOM;
}

/* Whether it needs what was lost with a device. Then all that it writes is: what is fused with such
 * a request can't be computed alone any more. */
static bool step_is_lost(const step *s, npa_queue *q)
{
    if (s->request >= 0) {
        return npa_lost_request(q, s->request);
    }
    bool lost = false;
    for (int i = 0; i < s->npatches && !lost; i++) {
        lost = s->patches[i].kind == PATCH_ADDRESS &&
               npa_lost_step(q, &s->patches[i].a, 1, s->writes, s->nwrites);
    }
    return lost;
}

/* Whether it writes over what was there, perhaps by an earlier step: it can't be done twice. */
static bool writes_content(const step *s, npa_queue *q)
{
    bool content = false;
    for (int i = 0; i < s->nwrites; i++) {
        const npa_buffer *b = q->buffers[s->writes[i]];
        content |= !b->fresh || (b->range != NULL && b->range->work != NULL);
    }
    return content;
}

/* Where NumPy's loop has other bits than ours, it is one of ours; but for underflow, which only
 * NumPy's tells. */
static bool goes_by_blocks(const npa_request *r)
{
    enum { UNDERFLOW = 3 << 4 };
    return r->rule->kind == NPA_MAP && r->rule->own == NPA_UFUNC &&
           (!r->rule->inexact || (npa_has_primitive(r) && !(r->errstate & UNDERFLOW)));
}

/* A request that no kernel has: in blocks on all threads where it is a loop over elements, as where
 * nothing is compiled, so its bits are the same. Kinds raised; -1: no memory. */
static int run_loop(npa_queue *q, int index, uint8_t *kinds)
{
    const npa_request *r = (const npa_request *)(q->arena + q->at[index]);
    size_t buffers = (size_t)q->nbuffers + 1;
    if (!goes_by_blocks(r)) {
        return npa_evaluate_request(q, index);
    }
    npa_group *g = malloc(sizeof *g);
    int *last = malloc(sizeof *last * buffers);
    int32_t *heads = malloc(sizeof *heads * buffers);
    npa_tape tape = {0};
    int status = -1;
    bool formed = false;
    if (g != NULL && last != NULL && heads != NULL) {
        memset(heads, -1, sizeof *heads * buffers);
        for (size_t k = 0; k < buffers; k++) {
            last[k] = INT_MAX; /* what it writes is stored, whoever sees it */
        }
        g->heads = heads;
        formed = npa_group_form(g, q, index, index + 1, last);
        status = formed && npa_group_lower(g, &tape) == 0 ? npa_group_run(g, &tape, kinds) : -1;
    }
    npa_tape_free(&tape);
    free(g), free(last), free(heads);
    return formed ? status : npa_evaluate_request(q, index);
}

/* Steps from number i on that run together; how many they are; -1: cancelled. */
static int run_chain(npa_program *program, int i, npa_queue *q, uint8_t *kinds, int (*poll)(void *),
                     void *arg)
{
    step *s = &program->steps[i];
    bool content[NPA_LONGEST_CHAIN];
    if (s->request >= 0 || s->chain_took < 0 || npa_losses) {
        return 0;
    }
    for (int k = 0; poll != NULL && k < NPA_LONGEST_CHAIN; k++) { /* before they get memory */
        content[k] = i + k < program->nsteps && writes_content(s + k, q);
    }
    int before = npa_now(NPA_IN_KERNELS), n = 0;
    npa_chain *chain = npa_chain_form(s, i, program->nsteps - i, q);
    if (chain == NULL || !reserve_spare(npa_chain_scratch(chain) + 64)) {
        s->chain_took = chain == NULL ? -1 : s->chain_took;
        npa_chain_drop(chain);
    } else {
        n = npa_chain_length(chain);
        int64_t took = s->chain_took; /* others may run it meanwhile */
        for (int k = 0; poll != NULL && k < n; k++) {
            poll = content[k] ? NULL : poll;
        }
        npa_compute_begin();
        int status = npa_chain_run(chain, &took, kinds, poll, arg);
        npa_compute_end();
        if (status == 1) {
            npa_now(before);
            return -1;
        }
        s->chain_took = took;
        npa_count.chained_kernels += (uint64_t)n;
        for (int k = 0; k < n; k++) {
            count_run(&s[k], 0);
        }
    }
    npa_now(before);
    return n;
}

static void give_back(const step *s, npa_queue *q)
{
    for (int k = 0; k < s->nreleases; k++) {
        npa_buffer_done(q->buffers[s->releases[k]]);
    }
}

int npa_program_run(npa_program *program, npa_queue *q, uint8_t *kinds, int (*poll)(void *),
                    void *arg, bool *interrupted, int *done)
{
    for (int i = *done; i < program->nsteps; i++) {
        step *s = &program->steps[i];
        *done = i;
        int status = 0, together = run_chain(program, i, q, kinds, poll, arg);
        if (together < 0) {
            *interrupted = true;
            return 1;
        }
        if (together > 0) {
            for (int k = 1; k < together; k++, i++, s++) {
                give_back(s, q);
            }
        } else if (npa_losses && step_is_lost(s, q)) {
            /* what it writes is lost, too */
        } else if (s->request >= 0) {
            status = run_loop(q, s->request, kinds);
            npa_log_request(q, s->request);
            npa_count.native_requests++;
            ((npa_request *)(q->arena + q->at[s->request]))->rule->looped++;
            if (status > 0) {
                kinds[s->request] |= (uint8_t)status;
            }
        } else { /* one that writes over what was there is carried to its end */
            enum npa_ran ran = NPA_HOST_MUST;
            const step *next = i + 1 < program->nsteps ? s + 1 : NULL;
            status = run_kernel(s, next, q, kinds, writes_content(s, q) ? NULL : poll, arg,
                                &ran);
            program->steps[i].missed = told(s, ran);
            program->missed |= s->missed != DONE_THERE && s->missed != IN_PARTS;
            if (status == 1) {
                *interrupted = true;
                return 1;
            }
        }
        if (status < 0) {
            return -1;
        }
        if (npa_profiling) {
            npa_profile_step(i, together > 0 ? together : 1,
                             s->request >= 0 ? NPA_STEP_LOOP : NPA_STEP_KERNEL);
        }
        give_back(s, q);
        *done = i + 1;
        *interrupted = poll != NULL && poll(arg);
        if (*interrupted && *done < program->nsteps) {
            return 1;
        }
    }
    npa_count.dead_requests += program->dropped;
    return 0;
}

/* Note [Boxes]
 *
 * A stencil that goes around (np.roll) reads an array at i - 1, and at n - 1 where i is 0. The
 * kernel knows nothing of that. Such an array has a cut along an axis, from which on it lies
 * somewhere else; between the cuts of all arrays the domain consists of boxes, nine for neighbours
 * in two dimensions. Each has its own words: extents, and addresses of where it begins. Their tasks
 * are one launch. Only maps may have wraps (ir/passes/shifts.py). */
