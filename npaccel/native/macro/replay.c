/* replay.c: one recorded variant of a macro section, run again on other arrays.
 *
 *   match the arguments  ->  where every buffer lies  ->  numbers into the requests
 *   ->  allocate results  ->  run the Program  ->  warnings  ->  results as the body returns them
 */
#include "macro/macro.h"
#include "macro/replay.h"
#include "native_docs.h"

#include <string.h>

enum { ALIGNMENT = 64 };

static uint64_t clock_of_uses;

/* ---------------------------------------------------------------------------------- frames */

void npa_frame_free(npa_frame *f)
{
    if (f != NULL) {
        free(f->q.arena), free(f->q.buffers), free(f->buffers), free(f->kinds), free(f->arrays);
        free(f->numbers), free(f->generators), free(f->roots), free(f->values),
            npa_aligned_free(f->cells), npa_aligned_free(f->temporaries);
        free(f);
    }
}

static npa_frame *frame_new(const npa_replay *r)
{
    const npa_queue *q = npa_queue_of(r->section);
    npa_frame *f = calloc(1, sizeof *f);
    if (f == NULL) {
        return NULL;
    }
    size_t nbuffers = (size_t)r->nbuffers + 1;
    f->q.arena = malloc(q->used + 1);
    f->q.at = q->at, f->q.nrequests = q->nrequests, f->q.used = q->used;
    f->q.buffers = calloc(nbuffers, sizeof *f->q.buffers), f->q.nbuffers = r->nbuffers;
    f->buffers = calloc(nbuffers, sizeof *f->buffers);
    f->kinds = calloc((size_t)q->nrequests + 1, 1);
    f->arrays = calloc((size_t)r->narrays + 1, sizeof *f->arrays);
    f->numbers = calloc((size_t)r->nnumbers + 1, sizeof *f->numbers);
    f->generators = calloc((size_t)r->ngenerators + 1, sizeof *f->generators);
    f->values = calloc((size_t)r->nnumbers + 1, sizeof *f->values);
    f->roots = calloc((size_t)r->nroots + 1, sizeof *f->roots);
    f->cells = npa_aligned(NPA_CELL, NPA_CELL * ((size_t)r->ncells + 1));
    bool kept = r->temporary_bytes > 0 && r->temporary_bytes <= NPA_MOST_KEPT;
    f->temporaries = kept ? npa_aligned(ALIGNMENT, r->temporary_bytes) : NULL;
    if (!f->q.arena || !f->q.buffers || !f->buffers || !f->kinds || !f->arrays || !f->numbers ||
        !f->generators || !f->values || !f->roots || !f->cells || (kept && !f->temporaries)) {
        npa_frame_free(f);
        return NULL;
    }
    memcpy(f->q.arena, q->arena, q->used);
    for (int i = 0; i < r->nbuffers; i++) {
        const npa_buffer_spec *b = &r->buffers[i];
        f->q.buffers[i] = &f->buffers[i];
        f->buffers[i].index = i, f->buffers[i].size = b->size;
        f->buffers[i].base = b->kind == NPA_BUFFER_OUTSIDE ? b->base
                             : b->kind == NPA_BUFFER_CELL ? f->cells + NPA_CELL * b->slot
                             : kept ? f->temporaries + b->at : NULL;
    }
    return f;
}

/* --------------------------------------------------------------------------------- memory */

static bool apart(const npa_buffer *a, const npa_buffer *b)
{
    return a->base + a->size <= b->base || b->base + b->size <= a->base;
}

/* Buffers of the arguments: those that lay in one still do; what is written is nobody else's. */
static bool place_inputs(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; i < r->nmembers; i++) {
        const npa_member *m = &r->members[i];
        char *base = PyArray_BYTES(f->arrays[m->slot]) - m->offset;
        npa_buffer *b = &f->buffers[m->buffer];
        if (r->buffers[m->buffer].slot == m->slot) {
            b->base = base;
        } else if (b->base != base) {
            return false;
        }
    }
    for (int i = 0; r->writes && i < r->nbuffers; i++) {
        if (r->buffers[i].kind != NPA_BUFFER_INPUT || !r->buffers[i].written) {
            continue;
        }
        for (int k = 0; k < r->nbuffers; k++) {
            if (k != i && r->buffers[k].kind <= NPA_BUFFER_OUTSIDE &&
                !apart(&f->buffers[i], &f->buffers[k])) {
                return false;
            }
        }
    }
    for (int i = 0; i < r->nbuffers; i++) { /* an array may have been given other memory */
        const npa_buffer_spec *b = &r->buffers[i];
        if (b->kind == NPA_BUFFER_OUTSIDE) {
            char *low, *high;
            npa_extent((PyArrayObject *)b->owner, &low, &high);
            if (low != b->base || (size_t)(high - low) != b->size) {
                return false;
            }
        }
    }
    return true;
}

/* Python numbers that the body computed from its arguments. False: it would have raised. */
static bool compute_numbers(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; i < r->nnumbers; i++) {
        const npa_step_of_number *s = &r->numbers[i];
        double a = s->op ? f->values[s->a] : 0, b = s->op ? f->values[s->b] : 0;
        switch (s->op) {
        case '\0':
            f->values[i] = PyFloat_CheckExact(f->numbers[i]) ? PyFloat_AS_DOUBLE(f->numbers[i]) : 0;
            break;
        case '+': f->values[i] = a + b; break;
        case '-': f->values[i] = a - b; break;
        case '*': f->values[i] = a * b; break;
        case '/':
            if (b == 0) {
                return false;
            }
            f->values[i] = a / b;
            break;
        default: f->values[i] = s->value;
        }
    }
    return true;
}

/* Numbers in the requests. False: one does not fit, and NumPy has something to say about it. */
static bool place_numbers(const npa_replay *r, npa_frame *f)
{
    if (!compute_numbers(r, f)) {
        return false;
    }
    for (int i = 0; i < r->nuses; i++) {
        const npa_use *u = &r->uses[i];
        npa_request *q = (npa_request *)(f->q.arena + f->q.at[u->request]);
        npa_operand *o = npa_operand_at(q, u->operand);
        int to = q->rule->loop_type[u->operand];
        if (q->initial) {
            to = q->rule->loop_type[0];
        }
        PyObject *number = u->slot < r->nleaves ? f->numbers[u->slot] : NULL;
        if (number != NULL && PyLong_CheckExact(number)) {
            npa_value v = {.type = NPA_WEAK_INT, .object = number};
            if (!npa_scalar_value(&v, to, o->at)) {
                return false;
            }
        } else if (to == NPY_DOUBLE) {
            memcpy(o->at, &f->values[u->slot], sizeof(double));
        } else {
            memset(o->at, 0, 16);
            if (npa_cast_value(NPY_DOUBLE, &f->values[u->slot], to, o->at) != 0) {
                return false;
            }
        }
    }
    return true;
}

static bool make_roots(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; i < r->nroots; i++) {
        const npa_root *root = &r->roots[i];
        const npy_intp *strides = root->lengths + root->ndim;
        PyObject *made = root->large
            ? npa_new_array(root->descr, root->ndim, root->lengths, strides)
            : PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(root->descr),
                                   root->ndim, root->lengths, strides, NULL, 0, NULL);
        if (made == NULL) {
            return false;
        }
        f->roots[i] = made;
    }
    for (int i = 0; i < r->nbuffers; i++) {
        if (r->buffers[i].kind == NPA_BUFFER_ROOT) {
            f->buffers[i].base = PyArray_BYTES((PyArrayObject *)f->roots[r->buffers[i].slot]);
        }
    }
    return true;
}

static void drop_roots(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; i < r->nroots; i++) {
        Py_CLEAR(f->roots[i]);
    }
}

/* -------------------------------------------------------------------------------- running */

/* A device lost what is needed; or memory did not suffice behind so many steps, or behind all, to
 * show what they computed. */
static int failed(const npa_replay *r, npa_frame *f, int done)
{
    if (f->lost || npa_copy_lost()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "data that lay on a device alone can't be brought back");
        npa_shortage_tell(&(npa_shortage){.rule = NULL});
        return -1;
    }
    int request = npa_program_request((npa_program *)r->program, done), n = f->q.nrequests;
    npa_shortage found = npa_shortage_of(&f->q, request < n ? request : n - 1, n);
    npa_shortage_error(&found);
    return -1;
}

/* Arrays that others wait for are computed. False: error set. */
static bool touch_members(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; i < r->nmembers; i++) {
        const npa_member *m = &r->members[i];
        if (npa_frame_buffer(r, f, m->buffer) == NULL &&
            npa_touch(f->arrays[m->slot], r->buffers[m->buffer].written) < 0) {
            return false;
        }
    }
    return true;
}

/* Takes the lock once all that is read is there. False: error set, and the lock is not taken. */
static bool lock_with_inputs(const npa_replay *r, npa_frame *f)
{
    for (;;) {
        if (npa_waiting() && !touch_members(r, f)) {
            return false;
        }
        npa_lock();
        int ready = npa_frame_inputs_ready(r, f);
        if (ready > 0) {
            return true;
        }
        npa_unlock();
        if (ready < 0 || npa_flush() < 0) {
            if (!PyErr_Occurred()) {
                failed(r, f, 0);
            }
            return false;
        }
    }
}

/* With the lock and all pages, which are given back. As npa_program_run. */
static inline int run_program(npa_replay *r, npa_frame *f, int *done)
{
    npa_program *program = (npa_program *)r->program;
    bool interrupted = false;
    if (npa_profiling) {
        npa_profile_run(&f->q, program, f->q.nrequests, npa_program_single(program), true);
    }
    PyThreadState *mine = r->heavy ? PyEval_SaveThread() : NULL;
    int status = npa_program_run(program, &f->q, f->kinds, NULL, NULL, &interrupted, done);
    if (npa_profiling) {
        npa_profile_ran();
    }
    status |= npa_frame_give_pages(r, f) ? 0 : -1;
    npa_unlock();
    if (mine != NULL) {
        PyEval_RestoreThread(mine);
    }
    return status;
}

/* 0 done, -1 error set, 2 an index is out of bounds, and nothing was done. */
static int run(npa_replay *r, npa_frame *f)
{
    npa_copy_lost(); /* what was not told was not needed */
    f->lost = false;
    if (!lock_with_inputs(r, f)) {
        return -1;
    }
    int status = -1, done = 0;
    if (!npa_section_indices_fit(r->section, f->buffers, false)) {
        npa_unlock();
        return 2;
    }
    npa_frame_take_buffers(r, f);
    if (npa_frame_take_pages(r, f)) {
        status = run_program(r, f, &done);
    } else {
        npa_frame_give_pages(r, f);
        npa_unlock();
    }
    return status == 0 ? 0 : failed(r, f, done);
}

/* What the requests raised, as the warn hook takes it; NULL without error: nothing. */
static PyObject *found(npa_frame *f)
{
    PyObject *list = NULL;
    for (int i = 0; i < f->q.nrequests; i++) {
        npa_request *q = (npa_request *)(f->q.arena + f->q.at[i]);
        int kinds = f->kinds[i] ? npa_heard(q, f->kinds[i]) : 0;
        if (kinds == 0 || (list == NULL && (list = PyList_New(0)) == NULL)) {
            continue;
        }
        PyObject *item = Py_BuildValue("(iOOiOiO)", kinds, (PyObject *)q->rule,
                                       q->code ? q->code : Py_None, (int)q->lasti,
                                       q->globals ? q->globals : Py_None, (int)q->errstate,
                                       Py_None);
        npa_append(&list, item);
    }
    return list;
}

/* -------------------------------------------------------------------------------- the whole */

/* As npa_replay_try, once the arguments are known to match. */
static int go(npa_replay *r, npa_frame *f, bool strict, PyObject **result, const char **why)
{
    if (!place_numbers(r, f)) {
        *why = "a number does not fit";
        return 2;
    }
    memset(f->kinds, 0, (size_t)f->q.nrequests);
    if (!make_roots(r, f)) {
        *why = "no guarded memory is left";
        return PyErr_Occurred() ? -1 : 2;
    }
    int ran = run(r, f);
    if (ran < 0) {
        return -1;
    }
    if (ran > 0 || !npa_section_indices_fit(r->section, f->buffers, true)) {
        *why = "an index is out of bounds";
        return 2;
    }
    PyObject *warnings = r->may_warn ? found(f) : NULL;
    if (warnings != NULL && strict) { /* the body raises it at its line */
        Py_DECREF(warnings);
        *why = "a warning is an error";
        return 2;
    }
    *result = PyErr_Occurred() ? NULL : npa_replay_result(r, f);
    if (warnings != NULL) {
        PyObject *done = npa_without_us(PyObject_CallOneArg(npa_hook_warn, warnings));
        Py_DECREF(warnings);
        if (done == NULL) {
            Py_CLEAR(*result);
        }
        Py_XDECREF(done);
    }
    return *result != NULL ? 1 : -1;
}

/* As npa_replay_try, of arguments that look as recorded. */
static int try_placed(npa_replay *r, npa_frame *f, PyObject **result, const char **why)
{
    if (!place_inputs(r, f)) {
        return 0;
    }
    int errstate = npa_checked_errstate();
    int strict = errstate >= 0 && r->may_warn ? npa_warnings_are_errors() : 0;
    if (errstate < -1 || strict < 0) {
        return -1;
    }
    if (errstate < 0) {
        *why = npa_raising;
        return 2;
    }
    if (errstate != r->errstate || r->backend != npa_backend_here() ||
        (!r->anywhere && npa_frame_place(r, f) != r->place)) {
        return 0;
    }
    if (strict && r->writes) {
        *why = "warnings are errors";
        return 2;
    }
    r->used = ++clock_of_uses;
    int status = go(r, f, strict, result, why);
    r->hits += status == 1;
    drop_roots(r, f);
    return status;
}

int npa_replay_try(npa_replay *r, PyObject *const *args, Py_ssize_t n, PyObject *names,
                   PyObject **result, const char **why)
{
    npa_frame *f = r->spare != NULL ? r->spare : frame_new(r);
    if (f == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    r->spare = NULL;
    int status = npa_replay_matches(r, args, n, names, f) && npa_replay_holds(r);
    if (status && r->draws != NULL && (status = npa_replay_draw(r, f)) == 2) {
        *why = "other random numbers are drawn";
    }
    if (status == 1) {
        status = try_placed(r, f, result, why);
    }
    if (f->drawn != NULL && (status == 0 || status == 2)) {
        npa_replay_undraw(r, f); /* the body, or another variant, draws them */
    }
    Py_CLEAR(f->drawn);
    if (r->spare == NULL) {
        r->spare = f;
    } else {
        npa_frame_free(f);
    }
    return PyErr_Occurred() ? -1 : status;
}

/* run(args, names) -> (status, result, or why the body must run); names: of the last arguments */
static PyObject *replay_run(PyObject *self, PyObject *given)
{
    PyObject *args, *names, *result = NULL;
    const char *why = NULL;
    if (!PyArg_ParseTuple(given, "O!O!", &PyTuple_Type, &args, &PyTuple_Type, &names)) {
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(args) - PyTuple_GET_SIZE(names);
    int status = npa_replay_try((npa_replay *)self, &PyTuple_GET_ITEM(args, 0), n, names, &result,
                                &why);
    return status < 0    ? NULL
           : status == 1 ? Py_BuildValue("(iN)", status, result)
                         : Py_BuildValue("(iz)", status, why);
}
static PyMethodDef replay_methods[] = {
    {"run", replay_run, METH_VARARGS, NPA_DOC_Replay_run},
    {NULL}};

static void replay_free(PyObject *self)
{
    npa_replay_clear((npa_replay *)self);
    Py_TYPE(self)->tp_free(self);
}

static PyObject *replay_get(PyObject *self, void *what)
{
    npa_replay *r = (npa_replay *)self;
    const char *name = what;
    return strcmp(name, "info") == 0      ? Py_NewRef(r->info)
           : strcmp(name, "program") == 0 ? Py_NewRef(r->program)
           : strcmp(name, "section") == 0 ? Py_NewRef(r->section)
           : PyLong_FromUnsignedLongLong(strcmp(name, "used") == 0 ? r->used : r->hits);
}
static PyGetSetDef replay_getset[] = {
    {"info", replay_get, NULL, "Whatever Python wants to remember.", "info"},
    {"program", replay_get, NULL, "The Program that it runs.", "program"},
    {"section", replay_get, NULL, "The Section it was recorded in.", "section"},
    {"used", replay_get, NULL, "The higher, the later it was used.", "used"},
    {"hits", replay_get, NULL, "Calls that it served.", "hits"},
    {NULL}};

PyTypeObject npa_replay_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Replay",
    .tp_basicsize = sizeof(npa_replay),
    .tp_dealloc = replay_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "One recorded variant of a macro section.",
    .tp_methods = replay_methods,
    .tp_getset = replay_getset,
    .tp_new = npa_replay_new,
};

int npa_replay_ready(void) { return PyType_Ready(&npa_replay_type); }
