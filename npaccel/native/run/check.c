/* check.c: what check mode compares: the content of buffers, and what NumPy's loops made. */
#include "run/run.h"

#include <string.h>

int npa_check_every = 1;
static bool comparing; /* in another thread: what runs meanwhile is left out */
static unsigned passed;

bool npa_check_due(void)
{
    return npa_check_mode && !comparing && passed++ % (unsigned)npa_check_every == 0;
}

/* check_busy(on): whether a run is being compared beside the program. */
PyObject *npa_check_busy_py(PyObject *module, PyObject *on)
{
    (void)module;
    comparing = PyObject_IsTrue(on) > 0;
    Py_RETURN_NONE;
}

/* A copy that memory does not suffice for stays NULL. */
void npa_contents_copy(npa_contents *c, bool after)
{
    c->of = calloc((size_t)npa_q.nbuffers + 1, sizeof *c->of);
    for (; c->of != NULL && c->n < npa_q.nbuffers; c->n++) {
        npa_buffer *b = npa_q.buffers[c->n];
        npa_copy_home(b);
        const char *from = b->range == NULL ? npa_buffer_address(b) : b->range->work;
        bool wanted = !after || (b->pending && !atomic_load(&b->dead) && from != NULL);
        c->of[c->n].bytes = wanted ? calloc(b->size, 1) : NULL;
        c->of[c->n].size = b->size;
        if (c->of[c->n].bytes != NULL && from != NULL && !(b->fresh && !after)) {
            memcpy(c->of[c->n].bytes, from, b->size);
        }
    }
}

void npa_contents_drop(npa_contents *c)
{
    for (int i = 0; i < c->n; i++) {
        free(c->of[i].bytes);
    }
    free(c->of);
}

static PyObject *bytes_or_none(const char *bytes, size_t size)
{
    return bytes == NULL ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(bytes, (Py_ssize_t)size);
}

/* Bytes per buffer, None for one that is not compared. */
static PyObject *contents_list(const npa_contents *c)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < c->n; i++) {
        npa_append(&list, bytes_or_none(c->of[i].bytes, c->of[i].size));
    }
    return list;
}

/* That of the run at hand, which has the lock. */
static npa_log *log_here;

void npa_log_begin(npa_log *log)
{
    log_here = log;
}

void npa_log_end(void)
{
    log_here = NULL;
}

void npa_log_drop(npa_log *log)
{
    for (int i = 0; i < log->n; i++) {
        free(log->of[i].bytes);
    }
    free(log->of);
}

/* Where the copy ends. */
static char *copy_dense(char *to, const char *from, int ndim, const int64_t *shape,
                        const int64_t *strides, size_t item)
{
    if (ndim == 0) {
        memcpy(to, from, item);
        return to + item;
    }
    for (int64_t i = 0; i < shape[0]; i++) {
        to = copy_dense(to, from + i * strides[0], ndim - 1, shape + 1, strides + 1, item);
    }
    return to;
}

static void log_output(npa_log *log, npa_queue *q, npa_request *r, int request, int output)
{
    npa_operand *o = npa_operand_at(r, r->nin + output);
    char *base = npa_buffer_address(q->buffers[o->buffer]);
    bool folds = r->rule->kind == NPA_REDUCE || r->rule->kind == NPA_ARG;
    int64_t shape[NPA_MAX_DIMS], strides[NPA_MAX_DIMS];
    size_t item = (size_t)npa_item_sizes[o->type], size = item;
    int ndim = 0;
    for (int axis = 0; axis < r->ndim; axis++) {
        if (!folds || !(r->axes >> axis & 1)) {
            shape[ndim] = r->shape[axis], strides[ndim++] = o->at[axis];
            size *= (size_t)r->shape[axis];
        }
    }
    char *bytes = base != NULL ? malloc(size + 1) : NULL;
    if (bytes != NULL && size > 0) {
        copy_dense(bytes, base + o->offset, ndim, shape, strides, item);
    }
    log->of[log->n].request = request, log->of[log->n].output = output;
    log->of[log->n].bytes = bytes, log->of[log->n++].size = size;
}

void npa_log_request(npa_queue *q, int request)
{
    npa_request *r = (npa_request *)(q->arena + q->at[request]);
    npa_log *log = log_here;
    if (log == NULL || npa_guard_evaluates()) {
        return;
    }
    if (!npa_grow(&log->of, log->n + r->nout - 1, &log->cap, sizeof *log->of)) {
        return; /* then NumPy computes it once more */
    }
    for (int output = 0; output < r->nout; output++) {
        log_output(log, q, r, request, output);
    }
}

/* {(request, output): bytes}. One that ran twice is there as it was at last. */
static PyObject *logged_dict(const npa_log *log)
{
    PyObject *dict = PyDict_New();
    for (int i = 0; dict != NULL && i < log->n; i++) {
        PyObject *key = Py_BuildValue("(ii)", log->of[i].request, log->of[i].output);
        PyObject *value = key != NULL ? bytes_or_none(log->of[i].bytes, log->of[i].size) : NULL;
        if (value == NULL || PyDict_SetItem(dict, key, value) < 0) {
            Py_CLEAR(dict);
        }
        Py_XDECREF(key), Py_XDECREF(value);
    }
    return dict;
}

int npa_check_run(PyObject *pending, const npa_contents *before, const npa_contents *after,
                  const npa_log *log)
{
    PyObject *type, *error, *trace;
    npa_issue_warnings(); /* those that are errors are the run's, and raised after the comparison */
    PyErr_Fetch(&type, &error, &trace);
    PyObject *lists[2] = {contents_list(before), contents_list(after)}, *loops = logged_dict(log);
    PyObject *verdict = !lists[0] || !lists[1] || !loops ? NULL
        : npa_without_us(PyObject_CallMethod(npa_hook_plan, "check", "OOOO", pending, lists[0],
                                             lists[1], loops));
    int status = verdict != NULL ? 0 : -1;
    Py_XDECREF(lists[0]), Py_XDECREF(lists[1]), Py_XDECREF(loops), Py_XDECREF(verdict);
    if (status == 0) {
        PyErr_Restore(type, error, trace);
    } else {
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    }
    return status;
}
