/* program.c: the native form of a plan; running one needs no Python.
 *
 * for each step:  words <- template, addresses, scalars
 *                 for each task of the grid (parallel):  main(words, range, scratch, flags)
 *                 finish(words, range, scratch, flags)   for split reductions */
#include "run/chain.h"
#include "run/group.h"
#include "run/run.h"
#include "run/program.h"
#include "native_docs.h"

#include <limits.h>
#include <string.h>

static void program_free(npa_program *p)
{
    for (int i = 0; i < p->nsteps; i++) {
        free(p->steps[i].words), free(p->steps[i].patches), free(p->steps[i].accesses);
        free(p->steps[i].slots), free(p->steps[i].writes), free(p->steps[i].releases),
            free(p->steps[i].wraps);
        free(p->steps[i].uses);
    }
    free(p->steps), free(p->key);
    npa_ledger_end(&p->ledger);
    Py_XDECREF(p->keep), Py_XDECREF(p->devices), Py_XDECREF(p->info);
    Py_TYPE(p)->tp_free((PyObject *)p);
}

/* Steps are words of 32 or 64 bits, which are read without an object each
 * (runtime/programs/wire_format.py): a recipe from the helper or from disk has some thousands of
 * numbers. */
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
        *next++ = (patch){s->nwords++, PATCH_ADDRESS, buffer, -1, 0, unpack(p)};
        for (int i = 0; i < rank; i++) {
            s->words[s->nwords++] = unpack(p);
        }
    }
    for (int k = 0; k < nscalars; k++, s->nwords += 2) {
        int32_t request = (int32_t)unpack(p);
        *next++ = (patch){s->nwords, PATCH_SCALAR, request, -1, 0, unpack(p)};
    }
    *next++ = (patch){s->nwords++, PATCH_PARTIALS, 0, -1, 0, 0};
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
    for (int i = 0; s->uses != NULL && i < s->nuses; i++) {
        s->crossed |= s->rank > 1 && s->uses[i] & NPA_USE_ACROSS;
    }
    p->failed |= s->nuses > s->narrays;
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

static void *copied(const void *from, size_t size, bool *failed)
{
    void *to = from != NULL ? malloc(size + 1) : NULL;
    *failed |= from != NULL && to == NULL;
    return to != NULL ? memcpy(to, from, size) : NULL;
}

/* Of the host's. */
static void copy_step(step *to, const step *s, bool *failed)
{
    *to = *s;
    to->words = copied(s->words, 8 * (size_t)s->nwords, failed);
    to->patches = copied(s->patches, (size_t)s->npatches * sizeof *s->patches, failed);
    to->slots = copied(s->slots, (size_t)s->nslots * sizeof *s->slots, failed);
    to->writes = copied(s->writes, (size_t)s->nwrites * sizeof *s->writes, failed);
    to->releases = copied(s->releases, (size_t)s->nreleases * sizeof *s->releases, failed);
    to->uses = copied(s->uses, (size_t)s->nuses * sizeof *s->uses, failed);
    to->wraps = NULL, to->accesses = NULL;
}

npa_program *npa_program_copy(const npa_program *of)
{
    npa_program *p = (npa_program *)npa_program_type.tp_alloc(&npa_program_type, 0);
    bool failed = p == NULL;
    if (failed) {
        return NULL;
    }
    p->dropped = of->dropped, p->used = npa_q.serial;
    p->keep = Py_NewRef(of->keep), p->devices = Py_NewRef(of->devices);
    p->info = Py_NewRef(of->info);
    p->steps = calloc((size_t)of->nsteps + 1, sizeof *p->steps);
    failed |= p->steps == NULL;
    for (int i = 0; !failed && i < of->nsteps; i++, p->nsteps++) {
        copy_step(&p->steps[i], &of->steps[i], &failed);
    }
    if (failed) {
        Py_DECREF(p);
        return (npa_program *)PyErr_NoMemory();
    }
    npa_ledger_begin(&p->ledger, (PyObject *)p);
    return p;
}

static PyObject *program_info(PyObject *self, void *closure)
{
    (void)closure;
    const npa_program *p = (npa_program *)self;
    return p->key == NULL ? Py_NewRef(p->info)
                          : PyObject_CallMethod(p->info, "at", "y#", p->key,
                                                (Py_ssize_t)p->key_size);
}

static PyObject *program_used(PyObject *self, void *closure)
{
    (void)closure;
    return PyLong_FromUnsignedLongLong(((npa_program *)self)->used);
}

static int program_set_info(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    npa_program *p = (npa_program *)self;
    Py_XSETREF(p->info, Py_NewRef(value != NULL ? value : Py_None));
    free(p->key);
    p->key = NULL;
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

/* Of the time that lies there in a program. */
static PyObject *program_seconds(PyObject *self, void *offset)
{
    uint64_t ns;
    memcpy(&ns, (char *)self + (uintptr_t)offset, sizeof ns);
    return PyFloat_FromDouble(1e-9 * (double)ns);
}
#define SECONDS(of) (void *)offsetof(npa_program, of##_ns)

static int program_set_baseline(PyObject *self, PyObject *value, void *closure)
{
    (void)closure;
    double seconds = value != NULL ? PyFloat_AsDouble(value) : 0;
    if (PyErr_Occurred()) {
        return -1;
    }
    ((npa_program *)self)->baseline_ns = (uint64_t)(1e9 * seconds);
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

/* Per step why its device did not run it the last time, 0: it did, or there is none; which part
 * of it that did when it was divided, and how that was decided, as npa_choice_told has it. */
static PyObject *program_missed(PyObject *self, void *closure)
{
    (void)closure;
    const npa_program *p = (npa_program *)self;
    PyObject *all = PyTuple_New(p->nsteps);
    for (int i = 0; all != NULL && i < p->nsteps; i++) {
        const step *s = &p->steps[i];
        npa_fill_in(&all, i, Py_BuildValue("(idN)", (int)s->missed, s->shares.there,
                                           npa_choice_told(&s->division)));
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

/* Per kernel what sizes decide: how it is cut into tasks, bytes, and its first words. */
static PyObject *program_layout(PyObject *self, PyObject *nothing)
{
    (void)nothing;
    const npa_program *p = (npa_program *)self;
    PyObject *all = PyList_New(0);
    for (int i = 0; all != NULL && i < p->nsteps; i++) {
        const step *s = &p->steps[i];
        int n = s->request < 0 ? s->rank + s->narrays * (1 + s->rank) : 0;
        PyObject *words = PyList_New(0);
        for (int k = 0; words != NULL && k < n; k++) {
            int array = (k - s->rank) / (1 + s->rank);
            bool begins = k >= s->rank && (k - s->rank) % (1 + s->rank) == 0;
            npa_append(&words, PyLong_FromLongLong(begins ? s->patches[array].b : s->words[k]));
        }
        npa_append(&all, words == NULL ? NULL : Py_BuildValue(
            "(iLLLLLnnnnN)", s->request, (long long)s->band, (long long)s->band_step,
            (long long)s->inner, (long long)s->inner_step, (long long)s->parts,
            (Py_ssize_t)s->scratch_bytes, (Py_ssize_t)s->partial_bytes,
            (Py_ssize_t)s->bytes_read, (Py_ssize_t)s->bytes_written, words));
    }
    return all;
}

static PyMethodDef program_methods[] = {
    {"review", program_review, METH_VARARGS, NPA_DOC_Program_review},
    {"fill", npa_program_fill, METH_VARARGS, NPA_DOC_Program_fill},
    {"layout", program_layout, METH_NOARGS, NPA_DOC_Program_layout},
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
    {"last", program_seconds, NULL, "Seconds of the last whole run.", SECONDS(last)},
    {"baseline", program_seconds, program_set_baseline,
     "Seconds that NumPy's loops take; 0: unknown.", SECONDS(baseline)},
    {"compares", program_compares, program_set_compares,
     "Whether NumPy's loops are to show once what they take for it, as a loop's round.", NULL},
    {"lost", program_seconds, NULL, "Seconds that kernels took which were given up; 0: none.",
     SECONDS(lost)},
    {"home", program_seconds, NULL, "Seconds that bringing its results home took, of all runs.",
     SECONDS(home)},
    {"missed", program_missed, NULL, "Per step how its device ran it.", NULL},
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
    program->borrowed++;
    return program;
}

void npa_program_settle(PyObject *object)
{
    if (Py_IS_TYPE(object, &npa_program_type)) {
        npa_program *program = (npa_program *)object;
        for (; program->borrowed > 0; program->borrowed--) {
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

uint64_t npa_program_baseline(const npa_program *p) { return p->baseline_ns; }
bool npa_program_compares(const npa_program *p) { return p->compares; }

void npa_program_note_baseline(npa_program *p, uint64_t ns)
{
    p->baseline_ns = ns;
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
    uint64_t near = p->baseline_ns + p->baseline_ns / NPA_MARGIN;
    if (p->runs >= TRIALS && !p->single && p->baseline_ns != 0 && p->best_ns > near) {
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

/* Note [Boxes]
 *
 * A stencil that goes around (np.roll) reads an array at i - 1, and at n - 1 where i is 0. The
 * kernel knows nothing of that. Such an array has a cut along an axis, from which on it lies
 * somewhere else; between the cuts of all arrays the domain consists of boxes, nine for neighbours
 * in two dimensions. Each has its own words: extents, and addresses of where it begins. Their tasks
 * are one launch. Only maps may have wraps (ir/passes/shifts.py). */
