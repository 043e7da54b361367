/* shortage.c: what memory did not suffice for, in words. */
#include "trace/trace.h"

#include <stdio.h>
#include <string.h>

/* A request, of the first n, that could not be computed, or whose result could not be shown. With
 * the lock. */
npa_shortage npa_shortage_of(npa_queue *q, int index, int n)
{
    npa_shortage s = {.rule = NULL};
    if (index < 0 || index >= n) {
        return s;
    }
    npa_request *r = (npa_request *)(q->arena + q->at[index]);
    npa_operand *out = r->nout > 0 ? npa_operand_at(r, r->nin) : NULL;
    if (out == NULL || out->buffer < 0) {
        return s;
    }
    s.nover = r->ndim;
    for (int i = 0; i < r->ndim; i++) {
        s.over[i] = (npy_intp)r->shape[i];
    }
    bool folds = r->rule->kind == NPA_REDUCE || r->rule->kind == NPA_ARG;
    for (int i = 0; i < r->ndim; i++) {
        if (!folds || !(r->axes >> i & 1)) {
            s.shape[s.ndim++] = (npy_intp)r->shape[i];
        }
    }
    s.rule = r->rule, s.type = out->type, s.lasti = r->lasti;
    s.code = r->code;
    return s;
}

static void in_units(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
    int unit = 0;
    for (; bytes >= 1024 && unit < 5; unit++) {
        bytes /= 1024;
    }
    snprintf(text, size, unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

/* Tell the handlers of the error that is set; what they raise replaces it. With the GIL, without
 * the lock. */
void npa_shortage_tell(const npa_shortage *s)
{
    PyObject *type, *error, *trace, *told = NULL;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject *over = PyArray_IntTupleFromIntp(s->nover, s->over);
    PyObject *result = PyArray_IntTupleFromIntp(s->ndim, s->shape);
    if (npa_hook_plan != NULL && error != NULL && over != NULL && result != NULL) {
        told = npa_without_us(PyObject_CallMethod(npa_hook_plan, "failed", "OO(Oi)OO", error,
                                                  s->rule != NULL ? (PyObject *)s->rule : Py_None,
                                                  s->code != NULL ? s->code : Py_None, s->lasti,
                                                  over, result));
    }
    Py_XDECREF(over), Py_XDECREF(result);
    if (told == NULL && PyErr_Occurred()) {
        Py_XDECREF(type), Py_XDECREF(error), Py_XDECREF(trace);
    } else {
        PyErr_Restore(type, error, trace);
    }
    Py_XDECREF(told);
}

/* As NumPy says it, with the operation and the user's line. With the GIL, without the lock. */
void npa_shortage_error(const npa_shortage *s)
{
    char size[32];
    if (s->rule == NULL) {
        in_units((double)s->bytes, size, sizeof size);
        PyErr_Format(PyExc_MemoryError,
                     s->bytes > 0
                         ? "Unable to allocate memory to show a result of %s, which is computed"
                         : "Unable to allocate memory for what is pending",
                     size);
        npa_shortage_tell(s);
        return;
    }
    bool reduces = s->rule->kind == NPA_REDUCE, scans = s->rule->kind == NPA_SCAN;
    PyArray_Descr *descr = PyArray_DescrFromType(s->type);
    PyObject *shape = PyArray_IntTupleFromIntp(s->ndim, s->shape), *place = NULL;
    if (s->code != NULL) {
        PyCodeObject *code = (PyCodeObject *)s->code;
        place = PyUnicode_FromFormat("%U:%d", code->co_filename, PyCode_Addr2Line(code, s->lasti));
    } else {
        place = PyUnicode_FromString("an unknown line");
    }
    if (descr != NULL && shape != NULL && place != NULL) {
        in_units((double)PyArray_MultiplyList(s->shape, s->ndim) * (double)PyDataType_ELSIZE(descr),
                 size, sizeof size);
        PyErr_Format(
            PyExc_MemoryError,
            "Unable to allocate memory for %S%s at %U: its result is an array of %s with shape "
            "%R and data type %S",
            s->rule->name,
            reduces ? ".reduce"
            : scans ? ".accumulate"
                    : "",
            place, size, shape, descr);
    }
    Py_XDECREF(descr), Py_XDECREF(shape), Py_XDECREF(place);
    npa_shortage_tell(s);
}

/* An array that is computed, but not even its pages can be moved to where it is looked at. */
int npa_shortage_shown(PyArrayObject *array)
{
    char size[32];
    in_units((double)PyArray_NBYTES(array), size, sizeof size);
    PyObject *shape = PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array));
    if (shape != NULL) {
        PyErr_Format(
            PyExc_MemoryError,
            "Unable to allocate memory to show an array of %s with shape %R and data type %S, "
            "which is computed",
            size, shape, PyArray_DESCR(array));
    }
    Py_XDECREF(shape);
    npa_shortage_tell(&(npa_shortage){.rule = NULL});
    return -1;
}

/* Whether the machine has less memory than this: NumPy then says at once that there is not so
 * much. */
bool npa_shortage_sure(double bytes)
{
    static double all;
    if (all == 0) {
        all = npa_limit_machine();
    }
    return bytes > all;
}
