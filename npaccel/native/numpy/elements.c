/* elements.c: subscripts of Array: what is read and written at once, and what is recorded. */
#include "numpy/numpy.h"
#include "numpy/array.h"
#include "small/ways.h"

#include <string.h>

/* Whether NumPy takes it for an integer; of 64 bits without sign some are none. */
static bool is_whole(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return (PyArray_CheckExact(o) || ours(o)) && PyArray_NDIM(a) == 0 && PyArray_ISINTEGER(a) &&
           !(PyArray_ISUNSIGNED(a) && PyArray_ITEMSIZE(a) == sizeof(npy_intp));
}

/* What NumPy takes it for. */
static PyObject *basic(PyObject *part)
{
    return is_whole(part) ? PyNumber_Index(part) : Py_NewRef(part);
}

PyObject *npa_basic_key(PyObject *key)
{
    bool tuple = PyTuple_CheckExact(key), any = false;
    Py_ssize_t n = tuple ? PyTuple_GET_SIZE(key) : 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *part = tuple ? PyTuple_GET_ITEM(key, i) : key;
        bool whole = is_whole(part);
        if (!whole && part != Py_None && part != Py_Ellipsis && !PySlice_Check(part) &&
            !PyLong_CheckExact(part) && !PyArray_IsScalar(part, Integer)) {
            return NULL;
        }
        any |= whole;
    }
    /* A section asks for the value itself, so that it is looked up again */
    if (!any || npa_here != NULL) {
        return NULL;
    }
    return tuple ? npa_mapped(key, basic) : basic(key);
}

/* A copy of what `view` shows, its axes as NumPy's copy has them: 1 recorded, 0 NumPy should do it,
 * -1. */
static int record_copy(PyArrayObject *view, PyObject **result)
{
    npa_value value;
    if (!npa_classify((PyObject *)view, &value) || !npa_wants(&value, 1) ||
        (npa_autotune_on && npa_in_block() &&
         npa_autotune_passes(npa_copy_name, (size_t)PyArray_NBYTES(view), true))) {
        return PyErr_Occurred() ? -1 : 0;
    }
    PyObject *made = npa_new_like(view, PyArray_DESCR(view));
    int status = made != NULL ? npa_record_copy(view, (PyArrayObject *)made, result)
                 : PyErr_Occurred() ? -1 : 0;
    Py_XDECREF(made);
    return status;
}

PyObject *npa_get_by_scalars(PyArrayObject *a, PyObject *key)
{
    PyObject *basic = npa_basic_key(key), *view = NULL, *result = NULL;
    if (basic == NULL) {
        return NULL;
    }
    if (npa_key_kind(a, basic) == 2) {
        view = npa_touch(a, false) == 0 ? npa_exact_view(a) : NULL;
        result = view != NULL ? npa_numpy.mapping.mp_subscript(view, key) : NULL;
    } else if ((view = npa_numpy.mapping.mp_subscript((PyObject *)a, basic)) != NULL) {
        int status = record_copy((PyArrayObject *)view, &result);
        PyObject *x = status == 0 ? npa_settled(view) : NULL;
        bool due = x != NULL && npa_look_due();
        npa_stretch s = due ? npa_stretch_begin() : (npa_stretch){0};
        result = x != NULL ? npa_adopted(PyArray_NewCopy((PyArrayObject *)x, NPY_KEEPORDER))
                 : status > 0 ? result : NULL;
        if (due) {
            npa_stretch_end(&s, NPA_SMALL, npa_result_bytes(x, NULL));
        }
        Py_XDECREF(x);
    }
    Py_DECREF(basic), Py_XDECREF(view);
    return result;
}

bool npa_wants_coarsely(const npa_value *values, int n)
{
    bool any = false;
    for (int k = 0; k < n && !any; k++) {
        PyArrayObject *a = values[k].array;
        any = a != NULL && ((size_t)PyArray_NBYTES(a) >= npa_ours_here() || npa_is_pending(a) ||
                            npa_is_hidden(a));
    }
    return any && npa_wants(values, n);
}

/* Whether an array in a key is pending or large: a small table may have a large result. */
bool npa_key_wants(PyObject *key)
{
    Py_ssize_t n = PyTuple_CheckExact(key) ? PyTuple_GET_SIZE(key) : 1;
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *part = PyTuple_CheckExact(key) ? PyTuple_GET_ITEM(key, i) : key;
        npa_value v = {.array = PyArray_Check(part) ? (PyArrayObject *)part : NULL};
        if (npa_wants_coarsely(&v, 1)) {
            return true;
        }
    }
    return false;
}

PyObject *npa_element_view(PyObject *a, PyObject *key)
{
    PyObject *whole = PyTuple_CheckExact(key) ? Py_NewRef(key) : PyTuple_Pack(1, key);
    PyObject *rest = PyTuple_Pack(1, Py_Ellipsis), *longer = NULL, *view = NULL;
    if (whole != NULL && rest != NULL && (longer = PySequence_Concat(whole, rest)) != NULL) {
        view = npa_numpy.mapping.mp_subscript(a, longer);
    }
    Py_XDECREF(whole), Py_XDECREF(rest), Py_XDECREF(longer);
    return view;
}

/* One element in a section: a copy that stays deferred. NULL perhaps without error. */
static PyObject *element(PyObject *a, PyObject *key)
{
    PyObject *view = npa_element_view(a, key), *result = NULL;
    npa_value value;
    if (view != NULL && npa_classify(view, &value)) {
        npa_rule *copy = npa_find_rule(npa_copy_name, &value.type, 1, value.array);
        if (copy == NULL || npa_record_map(copy, &value, NULL, NULL, 'K', 0, &result) <= 0) {
            result = NULL;
        } else {
            npa_section_set_scalar((PyArrayObject *)result);
        }
    }
    Py_XDECREF(view);
    return result;
}

bool npa_is_shown(PyArrayObject *a, bool write)
{
    if (npa_recorded.nrequests > 0 || npa_here != NULL || npa_placeholders > 0 ||
        npa_copies_exist() || npa_warnings_found() ||
        (write && (npa_stops > 0 || npa_flights > 0))) {
        return false;
    }
    npa_buffer *b = npa_buffer_of(a);
    return b == NULL || (b->range->work == b->range->home && !b->pending && b->lost == NULL &&
                         !(write && b->range->sealed));
}

static bool waits(const npa_buffer *b)
{
    return b != NULL && (b->index >= 0 || b->pending || b->copy != NULL || b->lost != NULL);
}

/* In a block, a few elements that nothing waits for are shown by a plain array, as a small result
 * is one: operations on it are NumPy's, at NumPy's price. Many are an array of ours. New reference;
 * NULL perhaps without error. */
static PyObject *part_at_once(PyArrayObject *a, PyObject *key)
{
    npa_value own = {.array = a};
    npa_basic_part p;
    if (npa_suspended || npa_here != NULL || npa_section_block_wants(&own, 1) || !npa_in_block() ||
        !npa_find_part(a, key, &p)) {
        return NULL;
    }
    size_t bytes = (size_t)PyArray_ITEMSIZE(a);
    for (int i = 0; i < p.ndim; i++) {
        bytes *= (size_t)p.shape[i];
    }
    bool small = bytes < npa_threshold_here();
    if (small && !npa_is_shown(a, false) && (waits(npa_buffer_of(a)) || npa_touch(a, false) < 0)) {
        return NULL; /* what was computed may be hidden */
    }
    return npa_part_view(a, &p, !small);
}

/* Where the element at these integers lies, in bytes from the array's first; false: NumPy
 * raises. */
static bool element_offset(PyArrayObject *a, PyObject *key, npy_intp *offset)
{
    bool several = PyTuple_CheckExact(key);
    if ((several ? PyTuple_GET_SIZE(key) : 1) != PyArray_NDIM(a)) {
        return false;
    }
    *offset = 0;
    for (int i = 0; i < PyArray_NDIM(a); i++) {
        PyObject *item = several ? PyTuple_GET_ITEM(key, i) : key;
        npy_intp extent = PyArray_DIM(a, i);
        Py_ssize_t k = PyLong_CheckExact(item) ? PyLong_AsSsize_t(item) : -1 - extent;
        if (k == -1 && PyErr_Occurred()) {
            PyErr_Clear();
            return false;
        }
        k += k < 0 ? extent : 0;
        if (k < 0 || k >= extent) {
            return false;
        }
        *offset += k * PyArray_STRIDE(a, i);
    }
    return true;
}

enum { MOST_PEEKS = 16 };

static bool is_behind(PyArrayObject *a)
{
    npa_buffer *b = npa_is_home(PyArray_DATA(a)) ? npa_buffer_of(a) : NULL;
    return b != NULL && b->range->work != b->range->home;
}

/* Whether it is hidden, and a few of its elements only were asked for since the latest flush: to
 * show it costs some twenty µs, but each element less from then on. */
static bool may_peek(PyArrayObject *a, int elements)
{
    if (!is_behind(a) || npa_here != NULL || npa_placeholders > 0) {
        return false;
    }
    npa_buffer *b = npa_buffer_of(a);
    b->peeks = (b->peeked == npa_count.flushes ? b->peeks : 0) + elements;
    b->peeked = npa_count.flushes;
    return b->peeks <= MOST_PEEKS;
}

/* Whether the elements of a hidden array, at these bytes from its first, are in `to`: `size` bytes
 * each. Else there is an error, or it has to be shown. */
static bool copy_hidden(PyArrayObject *a, const npy_intp *offsets, int n, char *to)
{
    size_t size = (size_t)PyArray_ITEMSIZE(a);
    npa_buffer *b = npa_buffer_of(a);
    if (b->pending &&
        (npa_flights_let_go(b, false) < 0 || (b->pending && npa_flush_recorded() < 0))) {
        return false;
    }
    npa_lock();
    bool there = b->index < 0 && b->range->work != NULL && b->copy == NULL && b->lost == NULL;
    for (int i = 0; there && i < n; i++) {
        memcpy(to + (size_t)i * size,
               b->range->work + (PyArray_BYTES(a) - b->range->home) + offsets[i], size);
    }
    npa_unlock();
    return there;
}

PyObject *npa_hidden_element(PyArrayObject *a, PyObject *key)
{
    char value[16] __attribute__((aligned(16)));
    npy_intp offset;
    return PyArray_ITEMSIZE(a) <= 16 && may_peek(a, 1) && element_offset(a, key, &offset) &&
                   copy_hidden(a, &offset, 1, value)
               ? PyArray_Scalar(value, PyArray_DESCR(a), NULL) : NULL;
}

/* Of integers, as many as there are axes; of one, an element in C order. NULL, perhaps without
 * error: NumPy has the words. */
static PyObject *key_of_item(PyArrayObject *a, PyObject *const *args, Py_ssize_t n)
{
    int ndim = PyArray_NDIM(a);
    if (n == 1 && (ndim == 1 || PyTuple_CheckExact(args[0]))) {
        return Py_NewRef(args[0]);
    }
    npy_intp size = PyArray_SIZE(a);
    Py_ssize_t at = n == 1 && PyLong_CheckExact(args[0]) ? PyLong_AsSsize_t(args[0]) : size;
    if (at == -1 && PyErr_Occurred()) {
        PyErr_Clear();
        return NULL;
    }
    at += at < 0 ? size : 0;
    PyObject *key = n == ndim || (at >= 0 && at < size) ? PyTuple_New(ndim) : NULL;
    for (int i = ndim - 1; key != NULL && i >= 0; i--) {
        npa_fill_in(&key, i, n == ndim ? Py_NewRef(args[i])
                                       : PyLong_FromSsize_t(at % PyArray_DIM(a, i)));
        at /= PyArray_DIM(a, i);
    }
    return key;
}

/* Whether a method of an array of ours reads a few elements of it behind its address. */
static bool reads_behind(PyObject *self, PyObject *names)
{
    npa_value own = {.array = (PyArrayObject *)self};
    return names == NULL && ours(self) && is_behind(own.array) &&
           PyArray_ITEMSIZE(own.array) <= 16 && !npa_section_block_wants(&own, 1);
}

PyObject *npa_item_behind(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *names)
{
    (void)what;
    PyObject *key = reads_behind(self, names) ? key_of_item((PyArrayObject *)self, args, n) : NULL;
    PyObject *element = key != NULL ? npa_hidden_element((PyArrayObject *)self, key) : NULL;
    PyObject *found = element != NULL ? PyObject_CallMethod(element, "item", NULL) : NULL;
    Py_XDECREF(key), Py_XDECREF(element);
    return found;
}

/* A few elements of it, in C order. */
PyObject *npa_list_behind(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *names)
{
    (void)what, (void)args;
    PyArrayObject *a = (PyArrayObject *)self;
    npy_intp offsets[MOST_PEEKS] = {0};
    if (n > 0 || !reads_behind(self, names) || PyArray_SIZE(a) == 0 ||
        PyArray_SIZE(a) > MOST_PEEKS || !may_peek(a, (int)PyArray_SIZE(a))) {
        return NULL;
    }
    int count = (int)PyArray_SIZE(a);
    for (int i = 0; i < count; i++) {
        for (int axis = PyArray_NDIM(a) - 1, rest = i; axis >= 0; axis--) {
            offsets[i] += rest % PyArray_DIM(a, axis) * PyArray_STRIDE(a, axis);
            rest /= (int)PyArray_DIM(a, axis);
        }
    }
    PyObject *copy = PyArray_NewLikeArray(a, NPY_CORDER, NULL, 0), *found = NULL;
    if (copy != NULL && copy_hidden(a, offsets, count, PyArray_BYTES((PyArrayObject *)copy))) {
        found = PyArray_ToList((PyArrayObject *)copy);
    }
    Py_XDECREF(copy);
    return found;
}

int npa_put_hidden(PyArrayObject *a, PyObject *key, PyObject *value)
{
    char number[16] __attribute__((aligned(16)));
    npy_intp offset;
    npa_opened o;
    if (npa_stops > 0 ||
        (PyArray_FLAGS(a) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE ||
        !npa_small_type(PyArray_DESCR(a)) || !may_peek(a, 1) || !element_offset(a, key, &offset) ||
        !npa_take_scalar(value, PyArray_TYPE(a), number)) {
        return 0;
    }
    if (npa_open(&o, &a, 1, 1) < 0) {
        return -1;
    }
    memcpy(o.at[0] + offset, number, (size_t)PyArray_ITEMSIZE(a));
    npa_close(&o);
    return 1;
}

/* An array that a key other than a view's picks from a large one: at once, or recorded. False:
 * NumPy's to pick. */
static bool pick_large(PyObject *a, PyObject *key, PyObject **result)
{
    PyArrayObject *array = (PyArrayObject *)a;
    *result = npa_pick_places(array, key);
    if (*result != NULL || PyErr_Occurred()) {
        return true;
    }
    int done = npa_here == NULL ? npa_pick(array, key, result) : 0;
    if (done != 0) {
        *result = done > 0 ? *result : NULL;
        return true;
    }
    if (npa_is_few(array, key, NPA_FEW_READ) || npa_pick_passes(array, key)) {
        return false;
    }
    int before = npa_now(NPA_RECORDING);
    *result = PyObject_CallFunctionObjArgs(npa_hook_getitem, a, key, NULL);
    npa_now(before);
    *result = npa_without_us(*result);
    return true;
}

/* An element that a device has, or a page that nobody shows. NULL without error: neither. */
static PyObject *element_elsewhere(PyObject *a, PyObject *key)
{
    if (npa_here == NULL && npa_section_stop((PyArrayObject *)a, "an element") < 0) {
        return NULL;
    }
    PyObject *found = npa_fetched_element(a, key);
    return found == NULL && !PyErr_Occurred() ? npa_hidden_element((PyArrayObject *)a, key) : found;
}

static PyObject *subscript(PyObject *a, PyObject *key, int kind)
{
    npa_value own = {.array = (PyArrayObject *)a};
    if (npa_here != NULL && kind != 1 && npa_section_wants(&own, 1)) {
        PyObject *result = kind == 2 ? element(a, key)
            : npa_without_us(PyObject_CallFunctionObjArgs(npa_hook_getitem, a, key, NULL));
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    if (kind == 0) {
        PyObject *result = npa_get_by_scalars((PyArrayObject *)a, key);
        if (result != NULL || PyErr_Occurred()) {
            return result;
        }
    }
    bool large = kind == 0 && (npa_is_pending((PyArrayObject *)a) || npa_key_wants(key) ||
                               (size_t)PyArray_NBYTES((PyArrayObject *)a) >= npa_ours_here());
    PyObject *picked;
    if (large && pick_large(a, key, &picked)) {
        return picked;
    }
    PyObject *found = kind == 2 ? element_elsewhere(a, key) : NULL;
    if (found != NULL || PyErr_Occurred()) {
        return found;
    }
    PyObject *x = kind != 1 ? npa_settled(a) : NULL;
    if (kind != 1 && x == NULL) {
        return NULL;
    }
    if (kind != 1) {
        PyObject *result = npa_numpy.mapping.mp_subscript(x, key);
        Py_DECREF(x);
        if (kind == 0 && result != NULL && PyArray_CheckExact(result) &&
            (size_t)PyArray_NBYTES((PyArrayObject *)result) >= npa_ours_here()) {
            Py_SETREF(result, PyArray_View((PyArrayObject *)result, NULL, npa_array_type));
        }
        return result;
    }
    return npa_numpy.mapping.mp_subscript(a, key);
}

PyObject *npa_array_subscript(PyObject *a, PyObject *key)
{
    int kind = npa_key_kind((PyArrayObject *)a, key);
    if (kind == 1 && npa_least != SIZE_MAX) {
        PyObject *view = part_at_once((PyArrayObject *)a, key);
        if (view != NULL || PyErr_Occurred()) {
            return view;
        }
    }
    if (kind == 2 && npa_until_look > 1 && npa_is_shown((PyArrayObject *)a, false)) {
        PyObject *element = npa_small_element(a, key);
        if (element != NULL || PyErr_Occurred()) {
            npa_until_look--;
            return element;
        }
    }
    /* What runs for it is told as a run */
    if (kind != 2 || npa_recorded.nrequests > 0 || !npa_look_due()) {
        return subscript(a, key, kind);
    }
    npa_stretch s = npa_stretch_begin();
    PyObject *result = subscript(a, key, kind);
    npa_stretch_end(&s, NPA_ELEMENT, 0);
    return result;
}

PyObject *npa_array_item(PyObject *a, Py_ssize_t i)
{
    if (PyArray_NDIM((PyArrayObject *)a) == 1) {
        if (npa_here == NULL && npa_section_stop((PyArrayObject *)a, "an element") < 0) {
            return NULL;
        }
        PyObject *key = npa_copies_exist() ? PyLong_FromSsize_t(i) : NULL;
        PyObject *found = key != NULL ? npa_fetched_element(a, key) : NULL;
        Py_XDECREF(key);
        if (found != NULL || PyErr_Occurred() || npa_touch((PyArrayObject *)a, false) < 0) {
            return found;
        }
    }
    return npa_numpy.sequence.sq_item(a, i);
}

int npa_array_assign_item(PyObject *a, Py_ssize_t i, PyObject *value)
{
    if (PyArray_NDIM((PyArrayObject *)a) == 0) {
        return npa_numpy.sequence.sq_ass_item(a, i, value); /* its error */
    }
    i -= i < 0 ? PyArray_DIM((PyArrayObject *)a, 0) : 0; /* as NumPy: Python has added the length */
    PyObject *key = PyLong_FromSsize_t(i);
    int status = key != NULL ? npa_assign(a, key, value) : -1;
    Py_XDECREF(key);
    return status;
}
