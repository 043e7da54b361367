/* assign.c: array[key] = value. What is large is recorded where it can be; values for a mask, and
 * integer indices, are for at once. */
#include "numpy/numpy.h"
#include "small/ways.h"

#include <limits.h>
#include <string.h>

static bool ours(PyObject *o) { return Py_IS_TYPE(o, npa_array_type); }

/* Whether NumPy stores a scalar of its own without an error: in signed integers by way of Python's
 * int, which has to fit (and warns where it drops an imaginary part). A section's has no value
 * yet. */
static bool fits(const npa_value *v, PyArrayObject *target)
{
    int to = PyArray_TYPE(target), overflow;
    if (!PyTypeNum_ISSIGNED(to)) {
        return true;
    }
    if (v->array != NULL) {
        return !npa_section_is_scalar(v->array) || PyArray_CanCastSafely(v->type, to);
    }
    if (!PyArray_IsScalar(v->object, Number)) {
        return true;
    }
    PyObject *whole = PyTypeNum_ISCOMPLEX(v->type) ? NULL : PyNumber_Long(v->object);
    long long i = whole != NULL ? PyLong_AsLongLongAndOverflow(whole, &overflow) : -1;
    bool good = whole != NULL && !overflow;
    Py_XDECREF(whole);
    PyErr_Clear(); /* NumPy raises it again */
    long long most = LLONG_MAX >> (64 - 8 * PyArray_ITEMSIZE(target));
    return good && i <= most && i >= -most - 1;
}

int npa_assign_all(PyArrayObject *target, PyObject *value)
{
    npa_value v[2];
    PyObject *result;
    if (!npa_classify((PyObject *)target, &v[1]) || !npa_classify(value, &v[0]) ||
        PyArray_NDIM(target) == 0 ||
        (v[0].array != NULL && PyArray_NDIM(v[0].array) > PyArray_NDIM(target)) ||
        !fits(&v[0], target)) {
        return PyErr_Occurred() ? -1 : 0;
    }
    npa_rule *copy = npa_find_rule(npa_copy_name, &v[0].type, 1, target);
    if (copy == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int status = npa_record_map(copy, v, &target, NULL, 'K', 0, &result);
    if (status > 0) {
        Py_DECREF(result);
    }
    return status;
}

/* Whether `value` is what `view` shows, element by element: what `a[key] += x` assigns at its
 * end. */
static bool is_itself(PyArrayObject *view, PyObject *value)
{
    PyArrayObject *v = (PyArrayObject *)value;
    int nd = PyArray_NDIM(view);
    size_t bytes = sizeof(npy_intp) * (size_t)nd;
    return (PyArray_CheckExact(value) || ours(value)) && PyArray_NDIM(v) == nd &&
           PyArray_DATA(v) == PyArray_DATA(view) &&
           memcmp(PyArray_DIMS(v), PyArray_DIMS(view), bytes) == 0 &&
           memcmp(PyArray_STRIDES(v), PyArray_STRIDES(view), bytes) == 0 &&
           PyArray_DESCR(v) == PyArray_DESCR(view) && !PyDataType_REFCHK(PyArray_DESCR(v)) &&
           (PyArray_FLAGS(view) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) ==
               NPY_ARRAY_WRITEABLE;
}

/* target[mask] = number, for a mask of the target's shape, recorded. As npa_assign_all. */
static int assign_masked(PyArrayObject *target, PyObject *key, PyObject *value)
{
    PyArrayObject *mask = (PyArrayObject *)key;
    npa_value v;
    PyObject *result;
    if (!(PyArray_CheckExact(key) || ours(key)) || PyArray_TYPE(mask) != NPY_BOOL ||
        PyArray_NDIM(mask) == 0 || PyArray_NDIM(mask) != PyArray_NDIM(target) ||
        !PyArray_CompareLists(PyArray_DIMS(mask), PyArray_DIMS(target), PyArray_NDIM(mask)) ||
        (PyArray_FLAGS(target) & NPA_WARN_ON_WRITE) || !npa_classify(value, &v) ||
        (v.array != NULL && PyArray_NDIM(v.array) > 0)) {
        return PyErr_Occurred() ? -1 : 0;
    }
    npa_rule *copy = npa_find_rule(npa_copy_name, &v.type, 1, target);
    if (copy == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int status = npa_record_map(copy, &v, &target, mask, 'K', 0, &result);
    if (status > 0) {
        Py_DECREF(result);
    }
    return status;
}

/* The key as NumPy may have it, if it picks by integer arrays: a new reference; NULL, perhaps
 * without error: another kind. */
static PyObject *settled_indices(PyObject *key)
{
    bool tuple = PyTuple_CheckExact(key), any = false;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(key) : 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *part = tuple ? PyTuple_GET_ITEM(key, i) : key;
        bool indices = (PyArray_CheckExact(part) || ours(part)) &&
                       PyArray_ISINTEGER((PyArrayObject *)part);
        if (!indices && part != Py_None && part != Py_Ellipsis && !PySlice_Check(part) &&
            !PyLong_CheckExact(part)) {
            return NULL;
        }
        any |= indices;
    }
    return !any ? NULL : tuple ? npa_mapped(key, npa_settled) : npa_settled(key);
}

/* NumPy does it. 0 or -1. */
static int count_assignment(const char *reason, double seconds)
{
    static PyObject *name;
    name = name != NULL ? name : PyUnicode_InternFromString("setitem");
    PyObject *why = name != NULL ? PyUnicode_InternFromString(reason) : NULL;
    if (why != NULL) {
        npa_count_fallback(name, why, seconds);
        Py_DECREF(why);
    }
    return why != NULL ? 0 : -1;
}

/* target[key] = value by NumPy, at once, for a key with integer arrays. As npa_assign_all. */
static int assign_picked(PyArrayObject *target, PyObject *key, PyObject *value)
{
    PyObject *indices = settled_indices(key), *x = NULL;
    if (indices == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    PyObject *v = npa_settled(value);
    if (v != NULL && npa_touch(target, true) == 0) {
        x = npa_exact_view(target);
    }
    int done = x != NULL ? npa_scatter((PyArrayObject *)x, indices, v) : 0;
    if (done != 0) {
        Py_DECREF(indices), Py_XDECREF(v), Py_XDECREF(x);
        return done;
    }
    double start = npa_seconds();
    int before = npa_now(NPA_IN_NUMPY);
    npa_suspended++;
    int status = x != NULL ? npa_numpy.mapping.mp_ass_subscript(x, indices, v) : -1;
    npa_suspended--;
    npa_now(before);
    Py_DECREF(indices), Py_XDECREF(v), Py_XDECREF(x);
    return status < 0 || count_assignment("integer array index", npa_seconds() - start) < 0 ? -1
                                                                                            : 1;
}

/* target[mask] = value at once: 1 done, 0 NumPy should do it, -1 error. */
static int put_masked(PyArrayObject *target, PyObject *key, PyObject *value)
{
    PyArrayObject *mask = (PyArrayObject *)key;
    _Alignas(16) char number[16];
    if (PyArray_Check(value)) {
        return npa_put(target, key, value);
    }
    if (!(PyArray_CheckExact(key) || ours(key)) || PyArray_TYPE(mask) != NPY_BOOL ||
        !npa_take_scalar(value, PyArray_TYPE(target), number)) {
        return 0;
    }
    return npa_put_number(target, mask, number);
}

/* A few plain elements into memory of ours that shows what it has, as into a plain array's. False:
 * otherwise. */
static bool put_small(PyObject *a, PyObject *key, PyObject *value)
{
    npa_value own = {.array = (PyArrayObject *)a};
    if (npa_least == SIZE_MAX || PyArray_Check(key) || !npa_is_shown(own.array, true) ||
        npa_section_block_wants(&own, 1)) {
        return false;
    }
    return npa_small_put_element(a, key, value) || npa_small_put(a, key, value);
}

/* Values for a mask, or for elements that integers pick: 1 done, 0 not so, -1 error. */
static int assign_elements(PyObject *a, PyObject *key, PyObject *value)
{
    PyArrayObject *self = (PyArrayObject *)a;
    int before = npa_now(NPA_RECORDING), status = npa_here != NULL ? 0
                                                  : npa_q.nrequests == 0
                                                      ? put_masked(self, key, value)
                                                      : npa_put(self, key, value);
    bool few = status == 0 && npa_is_few(self, key, NPA_FEW_WRITTEN);
    if (status == 0 && !few && npa_here == NULL) {
        status = assign_masked(self, key, value);
    }
    if (status == 0 && !few && npa_here == NULL) {
        status = assign_picked(self, key, value);
    }
    if (status == 0 && !few) {
        PyObject *done = PyObject_CallFunctionObjArgs(npa_hook_setitem, a, key, value, NULL);
        status = npa_without_us(done) != NULL ? 1 : -1;
        Py_XDECREF(done);
    }
    npa_now(before);
    return status;
}

/* A part that a view shows is recorded: 1 done, 0 not so, -1 error. of: the value, if that is an
 * array. */
static int assign_part(PyObject *a, PyObject *key, PyObject *value, npa_value of, bool on_trial)
{
    PyObject *view = npa_numpy.mapping.mp_subscript(a, key);
    if (view == NULL) {
        return -1;
    }
    if (PyArray_Check(view) && is_itself((PyArrayObject *)view, value)) {
        Py_DECREF(view);
        return 1;
    }
    npa_value both[2] = {{.array = PyArray_Check(view) ? (PyArrayObject *)view : NULL}, of};
    bool at_once = both[0].array == NULL || (npa_q.nrequests == 0 && !npa_wants(both, 2));
    size_t bytes = both[0].array != NULL ? (size_t)PyArray_NBYTES(both[0].array) : 0;
    if (!at_once && on_trial && npa_is_enough(bytes)) { /* as for a plain array */
        at_once = npa_autotune_passes(npa_copy_name, bytes, true);
    }
    int status = at_once ? 0 : npa_assign_all((PyArrayObject *)view, value);
    Py_DECREF(view);
    const char *why = status == 0 && !at_once ? npa_passing_reason() : NULL;
    return why != NULL && count_assignment(why, 0.0) < 0 ? -1 : status;
}

/* By NumPy, or by loops of ours. */
static int assign_now(PyArrayObject *self, PyObject *key, PyObject *value, int kind)
{
    PyObject *v = npa_settled(value), *x = v != NULL ? npa_exact_view(self) : NULL;
    bool due = npa_look_due();
    npa_stretch s = due ? npa_stretch_begin() : (npa_stretch){0};
    int status = x == NULL ? -1 : kind == 0 ? put_masked((PyArrayObject *)x, key, v) : 0;
    status = status == 0 && kind == 0 ? npa_scatter((PyArrayObject *)x, key, v) : status;
    status = status == 0 ? npa_numpy.mapping.mp_ass_subscript(x, key, v) : status < 0 ? -1 : 0;
    if (due) {
        size_t bytes = kind == 1 && status == 0 ? npa_view_bytes(self, key) : SIZE_MAX;
        npa_stretch_end(&s, kind == 2 ? NPA_ELEMENT : NPA_SMALL, bytes == SIZE_MAX ? 0 : bytes);
    }
    Py_XDECREF(v), Py_XDECREF(x);
    return status == 0 && npa_stops > 0 && npa_stops_at(self) ? npa_stops_tell(Py_None) : status;
}

/* a[key] = value, where the key has no arrays that are numbers: 1 done, 0 NumPy is to do it, -1
 * error. */
static int assign_later(PyObject *a, PyObject *key, PyObject *value, int kind, npa_value *both)
{
    PyArrayObject *self = (PyArrayObject *)a;
    /* Who took a plain array's assignment has asked */
    bool on_trial = npa_autotune_on && npa_suspended == 0 && npa_in_block();
    bool wanted = npa_wants(both, 2);
    int status = 0;
    if (kind == 0 && (npa_wants_coarsely(both, 2) || npa_key_wants(key)) &&
        !(on_trial &&
          npa_autotune_passes_call(npa_hook_setitem, (size_t)PyArray_NBYTES(self), true))) {
        status = assign_elements(a, key, value);
    }
    if (status != 0) {
        return status;
    }
    /* A few elements with nothing pending: to record them would cost a run. */
    bool few = kind == 1 && npa_q.nrequests == 0 && npa_here == NULL &&
               npa_view_bytes(self, key) < npa_threshold_here() && !npa_wants(both + 1, 1) &&
               !npa_section_block_wants(both, 2);
    return wanted && kind == 1 && !few ? assign_part(a, key, value, both[1], on_trial) : 0;
}

/* In a section that stands aside: nothing is pending. */
static int assign_aside(PyArrayObject *self, PyObject *key, PyObject *value, int kind)
{
    PyObject *view = kind == 1 ? npa_numpy.mapping.mp_subscript((PyObject *)self, key) : NULL;
    bool itself = view != NULL && PyArray_Check(view) && is_itself((PyArrayObject *)view, value);
    Py_XDECREF(view);
    if (itself || PyErr_Occurred()) {
        return itself ? 0 : -1;
    }
    return npa_touch(self, true) < 0 ? -1 : assign_now(self, key, value, kind);
}

int npa_assign(PyObject *a, PyObject *key, PyObject *value)
{
    PyArrayObject *self = (PyArrayObject *)a;
    if (value == NULL || !PyArray_ISWRITEABLE(self)) { /* its error comes before any of the key's */
        return npa_numpy.mapping.mp_ass_subscript(a, key, value);
    }
    npa_value both[2] = {{.array = self}, {.array = NULL}};
    if (PyArray_CheckExact(value) || ours(value)) {
        both[1].array = (PyArrayObject *)value;
    }
    if (ours(a) && npa_until_look > 1 && put_small(a, key, value)) {
        npa_until_look--;
        return 0;
    }
    int kind = npa_key_kind(self, key);
    if (kind != 0 && npa_stands_aside() && npa_section_block_wants(both, 2)) {
        return assign_aside(self, key, value, kind);
    }
    PyObject *basic = kind == 0 ? npa_basic_key(key) : NULL;
    if (basic != NULL || PyErr_Occurred()) {
        int status = basic != NULL ? npa_assign(a, basic, value) : -1;
        Py_XDECREF(basic);
        return status;
    }
    int status = kind == 0 ? npa_put_places(self, key, value) : 0;
    status = status == 0 ? assign_later(a, key, value, kind, both) : status;
    status = status == 0 && kind != 0 ? npa_put_part(a, key, kind == 2, value) : status;
    status = status == 0 && kind == 2 ? npa_put_hidden(self, key, value) : status;
    bool none = status == 0 && kind == 1 && npa_q.nrequests > 0 && npa_view_bytes(self, key) == 0;
    if (status != 0 || (!none && npa_touch(self, true) < 0)) {
        return status > 0 ? 0 : -1;
    }
    return assign_now(self, key, value, kind);
}
