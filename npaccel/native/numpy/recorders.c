/* recorders.c: operations that Python records, and what it asks of arrays that wait. */
#include "numpy/numpy.h"
#include "numpy/module.h"
#include "small/functions.h"
#include "small/ways.h"

#include <string.h>

static PyObject *finish(int status, PyObject **results, int n)
{
    if (status < 0) {
        return NULL;
    }
    if (status == 0) {
        Py_RETURN_NONE;
    }
    if (n == 1) {
        return results[0];
    }
    PyObject *tuple = PyTuple_New(n);
    for (int k = 0; tuple != NULL && k < n; k++) {
        PyTuple_SET_ITEM(tuple, k, results[k]);
    }
    return tuple;
}

static bool as_array(PyObject *o, PyArrayObject **out, const char *what)
{
    *out = NULL;
    if (o == NULL || o == Py_None) {
        return true;
    }
    if (!PyArray_CheckExact(o) && !Py_IS_TYPE(o, npa_array_type)) {
        PyErr_Format(PyExc_TypeError, "%s must be an array", what);
        return false;
    }
    *out = (PyArrayObject *)o;
    return true;
}

/* What NumPy's iterator takes order "A" for. */
static char order_of_all(const npa_value *values, int n)
{
    for (int k = 0; k < n; k++) {
        if (values[k].array != NULL && !PyArray_IS_F_CONTIGUOUS(values[k].array)) {
            return 'C';
        }
    }
    return 'K'; /* which finds Fortran's */
}

PyObject *npa_py_map(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"rule", "inputs", "out", "mask", "order", NULL};
    npa_rule *rule;
    PyObject *inputs, *out = Py_None, *mask_object = Py_None, *results[NPA_MAX_ARGS];
    const char *order = "K";
    PyArrayObject *mask, *outs[NPA_MAX_ARGS] = {NULL};
    npa_value values[NPA_MAX_ARGS];
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|OOs", names, &npa_rule_type, &rule,
                                     &PyTuple_Type, &inputs, &out, &mask_object, &order) ||
        !as_array(mask_object, &mask, "mask")) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(inputs) != rule->nin) {
        PyErr_SetString(PyExc_ValueError, "map: as many inputs as the rule has are needed");
        return NULL;
    }
    for (int k = 0; k < rule->nin; k++) {
        if (!npa_classify(PyTuple_GET_ITEM(inputs, k), &values[k])) {
            return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
        }
    }
    if (PyTuple_Check(out)) {
        for (int k = 0; k < rule->nout && k < PyTuple_GET_SIZE(out); k++) {
            if (!as_array(PyTuple_GET_ITEM(out, k), &outs[k], "out")) {
                return NULL;
            }
        }
    } else if (!as_array(out, &outs[0], "out")) {
        return NULL;
    }
    char how = order[0] == 'A' ? order_of_all(values, rule->nin) : order[0];
    int status = npa_record_map(rule, values, out != Py_None ? outs : NULL, mask, how, 0, results);
    return finish(status, results, rule->nout);
}

PyObject *npa_py_reduce(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"rule", "array", "axes", "keepdims", "out", "mask", "initial", NULL};
    npa_rule *rule;
    PyObject *array, *axes, *out = Py_None, *mask = Py_None, *initial = Py_None, *result;
    PyArrayObject *in, *target, *where;
    int keepdims = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!OO|pOOO", names, &npa_rule_type, &rule,
                                     &array, &axes, &keepdims, &out, &mask, &initial) ||
        !as_array(array, &in, "array") || !as_array(out, &target, "out") ||
        !as_array(mask, &where, "mask")) {
        return NULL;
    }
    uint32_t bits = 0;
    PyObject *fast = PySequence_Fast(axes, "axes must be a sequence");
    for (Py_ssize_t i = 0; fast != NULL && i < PySequence_Fast_GET_SIZE(fast); i++) {
        long axis = PyLong_AsLong(PySequence_Fast_GET_ITEM(fast, i));
        if (axis < 0 || in == NULL || axis >= PyArray_NDIM(in)) {
            PyErr_SetString(PyExc_ValueError, "axes must be normalised");
        } else {
            bits |= 1u << axis;
        }
    }
    Py_XDECREF(fast);
    if (PyErr_Occurred() || in == NULL) {
        return NULL;
    }
    int status = npa_record_reduce(rule, in, bits, keepdims, target, where,
                                   initial == Py_None ? NULL : initial, &result);
    return finish(status, &result, 1);
}

PyObject *npa_py_scan(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"rule", "array", "axis", "out", NULL};
    npa_rule *rule;
    PyObject *array, *out = Py_None, *result;
    PyArrayObject *target;
    npa_value value;
    int axis;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!Oi|O", names, &npa_rule_type, &rule, &array,
                                     &axis, &out) ||
        !as_array(out, &target, "out")) {
        return NULL;
    }
    if (!npa_classify(array, &value) || value.array == NULL || axis < 0 ||
        axis >= PyArray_NDIM(value.array)) {
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    }
    int status = npa_record_map(rule, &value, target != NULL ? &target : NULL, NULL, 'K',
                                1u << axis, &result);
    return finish(status, &result, 1);
}

PyObject *npa_py_iota(PyObject *self, PyObject *args)
{
    (void)self;
    npa_rule *rule;
    PyObject *start, *step, *result;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "O!nOO", &npa_rule_type, &rule, &n, &start, &step)) {
        return NULL;
    }
    int status = npa_record_iota(rule, n, start, step, &result);
    return finish(status, &result, 1);
}

PyObject *npa_py_gather(PyObject *self, PyObject *args)
{
    (void)self;
    npa_rule *rule;
    PyObject *objects[4], *result;
    PyArrayObject *arrays[4];
    Py_ssize_t extent, step;
    if (!PyArg_ParseTuple(args, "O!OOOnnO", &npa_rule_type, &rule, &objects[0], &objects[1],
                          &objects[2], &extent, &step, &objects[3])) {
        return NULL;
    }
    for (int k = 0; k < 4; k++) {
        if (!as_array(objects[k], &arrays[k], "a gather's operand") || arrays[k] == NULL) {
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "an array is needed");
        }
    }
    if (rule->kind != NPA_GATHER) {
        return PyErr_Format(PyExc_ValueError, "gather: the rule is of another kind");
    }
    int status = npa_record_gather(rule, arrays[0], arrays[1], arrays[2], extent, step, arrays[3],
                                   &result);
    return finish(status, &result, 1);
}

PyObject *npa_py_index_bounds(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object;
    PyArrayObject *index;
    Py_ssize_t extent;
    if (!PyArg_ParseTuple(args, "On", &object, &extent) || !as_array(object, &index, "index")) {
        return NULL;
    }
    if (index == NULL || npa_touch(index, false) < 0) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "an array is needed");
    }
    return PyLong_FromLong(npa_index_bounds(index, extent));
}

PyObject *npa_py_empty(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *shape;
    PyArray_Descr *descr;
    const char *order = "C";
    npy_intp dims[NPA_MAX_DIMS];
    if (!PyArg_ParseTuple(args, "O!O!|s", &PyTuple_Type, &shape, &PyArrayDescr_Type, &descr,
                          &order)) {
        return NULL;
    }
    int n = (int)PyTuple_GET_SIZE(shape);
    if (n > NPA_MAX_DIMS || !npa_type_known(descr->type_num)) {
        Py_RETURN_NONE;
    }
    for (int i = 0; i < n; i++) {
        dims[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
    }
    PyObject *made = PyErr_Occurred() ? NULL : npa_new_in_order(descr, n, dims, order[0] == 'F');
    return made != NULL || PyErr_Occurred() ? made : Py_NewRef(Py_None);
}

PyObject *npa_py_empty_like(PyObject *self, PyObject *args)
{
    (void)self;
    PyArrayObject *prototype;
    PyArray_Descr *descr;
    if (!PyArg_ParseTuple(args, "O!O!", &PyArray_Type, &prototype, &PyArrayDescr_Type, &descr)) {
        return NULL;
    }
    bool known = PyArray_NDIM(prototype) <= NPA_MAX_DIMS && npa_type_known(descr->type_num) &&
                 PyArray_SIZE(prototype) > 0;
    PyObject *made = known ? npa_new_like(prototype, descr) : NULL;
    return made != NULL || PyErr_Occurred() ? made : Py_NewRef(Py_None);
}

/* Memory for a copy of an array, whose axes lie as there. NULL: no room, or an error. */
static PyObject *new_copy(PyArrayObject *a, PyArray_Descr *descr)
{
    bool c = PyArray_IS_C_CONTIGUOUS(a), either = c || PyArray_IS_F_CONTIGUOUS(a);
    return either ? npa_new_in_order(descr, PyArray_NDIM(a), PyArray_DIMS(a), !c)
                  : npa_new_like(a, descr);
}

/* A copy of the array as that dtype, its axes as there. NULL, perhaps without error: another way */
static PyObject *recorded_copy(PyObject *object, PyArray_Descr *descr)
{
    PyObject *made = NULL, *result;
    npa_value value;
    bool usual = npa_classify(object, &value) && value.array != NULL && npa_wants(&value, 1) &&
                 PyArray_NDIM(value.array) > 0 && PyArray_NDIM(value.array) <= NPA_MAX_DIMS &&
                 PyArray_SIZE(value.array) > 0 && npa_dtype_known(descr) && npa_here == NULL &&
                 npa_errstate() >= 0 && !npa_asks_underflow();
    if (!usual || (made = new_copy(value.array, descr)) == NULL) {
        return NULL;
    }
    PyArrayObject *to = (PyArrayObject *)made;
    npa_rule *rule = npa_find_rule(npa_copy_name, &value.type, 1, to);
    int status = rule != NULL ? npa_record_map(rule, &value, &to, NULL, 'K', 0, &result) : 0;
    if (status > 0) {
        Py_DECREF(result);
        return made;
    }
    Py_DECREF(made);
    return NULL;
}

PyObject *npa_py_copy(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object;
    PyArray_Descr *descr;
    if (!PyArg_ParseTuple(args, "OO!", &object, &PyArrayDescr_Type, &descr)) {
        return NULL;
    }
    PyObject *made = recorded_copy(object, descr);
    return made != NULL || PyErr_Occurred() ? made : Py_NewRef(Py_None);
}

PyObject *npa_record_cast(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *names)
{
    (void)what;
    PyArrayObject *a = (PyArrayObject *)self;
    if (n == 1 && args[0] != Py_None && npa_comes_back(self, args, n, names)) {
        return Py_NewRef(self);
    }
    bool usual = n == 1 && names == NULL && npa_small_type(PyArray_DESCR(a)) &&
                 !PyArray_ISCOMPLEX(a);
    int type = usual ? npa_small_type_named(args[0]) : -1;
    PyArray_Descr *descr = type >= 0 && type != NPY_CDOUBLE ? PyArray_DescrFromType(type) : NULL;
    npa_suspended++;
    PyObject *made = descr != NULL ? recorded_copy(self, descr) : NULL;
    npa_suspended--;
    Py_XDECREF(descr);
    return made;
}

static PyArrayObject *need_array(PyObject *o)
{
    if (!PyArray_Check(o)) {
        PyErr_Format(PyExc_TypeError, "an ndarray is needed, not %s", Py_TYPE(o)->tp_name);
        return NULL;
    }
    return (PyArrayObject *)o;
}

PyObject *npa_py_wrap(PyObject *self, PyObject *o)
{
    (void)self;
    PyArrayObject *a = need_array(o);
    return a == NULL ? NULL : PyArray_View(a, NULL, npa_array_type);
}

PyObject *npa_py_view_plain(PyObject *self, PyObject *o)
{
    (void)self;
    PyArrayObject *a = need_array(o);
    return a == NULL ? NULL : npa_exact_view(a);
}

PyObject *npa_py_plain(PyObject *self, PyObject *o)
{
    (void)self;
    PyArrayObject *a = need_array(o);
    return a == NULL || npa_touch(a, false) < 0 ? NULL : npa_exact_view(a);
}

PyObject *npa_py_number(PyObject *self, PyObject *o)
{
    (void)self;
    PyArrayObject *a = need_array(o);
    return a == NULL ? NULL : npa_number_of(a);
}

PyObject *npa_py_touch(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"array", "write", NULL};
    PyObject *o;
    int write = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|p", names, &o, &write)) {
        return NULL;
    }
    PyArrayObject *a = need_array(o);
    return a == NULL || npa_touch(a, write) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *npa_py_wants(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    (void)self;
    bool wanted = false;
    for (Py_ssize_t i = 0; i < n && !wanted; i++) {
        npa_value v = {.array = PyArray_Check(args[i]) ? (PyArrayObject *)args[i] : NULL};
        wanted = npa_wants(&v, 1);
    }
    return PyBool_FromLong(wanted);
}

PyObject *npa_py_is_pending(PyObject *self, PyObject *o)
{
    (void)self;
    PyArrayObject *a = need_array(o);
    return a == NULL ? NULL : PyBool_FromLong(npa_is_pending(a));
}

PyObject *npa_py_evaluate(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    npa_run_because(NPA_ASKED);
    return npa_flush() < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *npa_py_may_warn(PyObject *self, PyObject *without_scope)
{
    (void)self;
    return PyBool_FromLong(npa_may_warn(without_scope == Py_True));
}

PyObject *npa_py_give_scope(PyObject *self, PyObject *scope)
{
    (void)self;
    return npa_give_scope(scope) < 0 ? NULL : Py_NewRef(Py_None);
}

PyObject *npa_py_plans(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    return Py_NewRef(npa_program_cache());
}

PyObject *npa_py_history(PyObject *self, PyObject *serial)
{
    (void)self;
    unsigned long long n = PyLong_AsUnsignedLongLong(serial);
    return PyErr_Occurred() ? NULL : npa_history_entry(n);
}

/* The number of the flush that computed an array, or that is to come; None: not ours. */
PyObject *npa_py_serial(PyObject *self, PyObject *o)
{
    (void)self;
    PyArrayObject *a = o == Py_None ? NULL : need_array(o);
    if (a == NULL) {
        return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(npa_q.serial);
    }
    npa_lock();
    npa_buffer *b = npa_buffer_of(a);
    npa_queue *q = b != NULL && b->maker != NULL ? b->maker : &npa_q;
    unsigned long long serial = b == NULL ? 0 : b->pending ? q->serial : b->serial;
    npa_unlock();
    return b == NULL ? Py_NewRef(Py_None) : PyLong_FromUnsignedLongLong(serial);
}
