/* subscripts.c: subscripts of plain arrays, while they are redirected. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"

#include <numpy/arrayscalars.h>

/* A small table picked from by large indices. */
static inline bool large_key(PyObject *key)
{
    if (PyTuple_CheckExact(key)) {
        Py_ssize_t n = PyTuple_GET_SIZE(key), k = 0;
        while (k < n && !plain(PyTuple_GET_ITEM(key, k)) && !ours(PyTuple_GET_ITEM(key, k))) {
            k++;
        }
        return k < n && npa_any_large(&PyTuple_GET_ITEM(key, 0), n, false);
    }
    return (plain(key) || ours(key)) && large(key);
}

/* Whether what arrays pick of it, or put there, is worth taking. */
static inline bool is_coarse(PyObject *a, PyObject *key)
{
    npa_coarse++;
    bool is = large(a) || large_key(key);
    npa_coarse--;
    return is;
}

/* Sections that are recorded or are blocks: they look at subscripts of plain arrays, too. */
static int looking;

static PyObject *looked_at_subscript(PyObject *a, PyObject *key)
{
    return npa_section_sees_read(a, key) < 0 ? NULL : npa_numpy.mapping.mp_subscript(a, key);
}

static int looked_at_assign(PyObject *a, PyObject *key, PyObject *value)
{
    return npa_section_sees_write(a, value) < 0 ? -1
                                                : npa_numpy.mapping.mp_ass_subscript(a, key, value);
}

static enum npa_hindrance picked_kind(PyObject *a, PyObject *key)
{
    return npa_key_kind((PyArrayObject *)a, key) == 2 ? NPA_ELEMENT : NPA_SMALL;
}

/* A part of a plain array, of which no array of ours is to be made. */
static PyObject *pick_in_numpy(PyObject *a, PyObject *key)
{
    if (npa_suspended > 0 || !npa_look_due()) {
        PyObject *found = npa_small_get(a, key);
        found = found != NULL || PyErr_Occurred() ? found : npa_gather(a, key);
        return found != NULL || PyErr_Occurred() ? found : npa_numpy.mapping.mp_subscript(a, key);
    }
    npa_stretch s = npa_stretch_begin();
    PyObject *result = npa_numpy.mapping.mp_subscript(a, key);
    bool array = result != NULL && PyArray_Check(result);
    size_t bytes = array ? (size_t)PyArray_NBYTES((PyArrayObject *)result) : 0;
    npa_stretch_end(&s, picked_kind(a, key), bytes < npa_least ? bytes : 0); /* else it is a view */
    return result;
}

static int put_in_numpy(PyObject *a, PyObject *key, PyObject *value)
{
    if (npa_suspended > 0 || !npa_look_due()) {
        int done = npa_small_put(a, key, value) ? 1 : npa_scatter((PyArrayObject *)a, key, value);
        return done == 0 ? npa_numpy.mapping.mp_ass_subscript(a, key, value) : done < 0 ? -1 : 0;
    }
    npa_stretch s = npa_stretch_begin();
    int status = npa_numpy.mapping.mp_ass_subscript(a, key, value);
    size_t bytes = status == 0 ? npa_view_bytes((PyArrayObject *)a, key) : SIZE_MAX;
    npa_stretch_end(&s, picked_kind(a, key), bytes == SIZE_MAX ? 0 : bytes);
    return status;
}

static inline bool is_hidden(PyArrayObject *a)
{
    return npa_is_home(PyArray_DATA(a)) && npa_is_hidden(a);
}

/* Whether an element is to be read or written at once, by our own code. */
static inline bool at_once(PyObject *a, PyObject *key)
{
    bool whole = PyLong_CheckExact(key) || PyTuple_CheckExact(key) || PyArray_IsScalar(key, Long);
    return whole && plain(a) && !looking && quiet() && npa_until_look > 1 &&
           !is_hidden((PyArrayObject *)a);
}

/* What a key other than a view's picks from a large array, or by one: at once, recorded, or by
 * NumPy. */
static PyObject *pick_large(PyObject *a, PyObject *key)
{
    PyArrayObject *array = (PyArrayObject *)a;
    PyObject *few_places = npa_pick_places(array, key);
    if (few_places != NULL || PyErr_Occurred()) {
        return few_places;
    }
    int before = npa_now(NPA_RECORDING);
    npa_suspended++;
    PyObject *result = npa_get_by_scalars(array, key);
    int done = result != NULL ? 1 : PyErr_Occurred() ? -1 : npa_pick(array, key, &result);
    npa_suspended--;
    bool few = done == 0 && npa_is_few(array, key, NPA_FEW_READ);
    bool passes = done == 0 && !few && npa_pick_passes(array, key);
    npa_suspended++, npa_passed += passes;
    if (few || passes) {
        done = npa_touch(array, false);
        result = done == 0 ? npa_adopted(pick_in_numpy(a, key)) : NULL;
    } else if (done == 0) {
        result = npa_without_us(PyObject_CallFunctionObjArgs(npa_hook_getitem, a, key, NULL));
    }
    npa_suspended--, npa_passed -= passes;
    npa_now(before);
    return done < 0 ? NULL : result;
}

static PyObject *subscript_stub(PyObject *a, PyObject *key)
{
    if (at_once(a, key)) {
        PyObject *element = npa_small_element(a, key);
        if (element != NULL || PyErr_Occurred()) {
            npa_until_look -= npa_suspended == 0;
            return element;
        }
    }
    if (looking && npa_section_sees_read(a, key) < 0) {
        return NULL;
    }
    if (!plain(a)) {
        return npa_numpy.mapping.mp_subscript(a, key);
    }
    if (!is_coarse(a, key)) {
        return pick_in_numpy(a, key);
    }
    int kind = npa_key_kind((PyArrayObject *)a, key);
    bool shown = kind == 2 && quiet() && !is_hidden((PyArrayObject *)a);
    if (kind == 1 || shown || npa_suspended || !npa_in_block()) {
        return pick_in_numpy(a, key);
    }
    if (kind == 0) {
        return pick_large(a, key);
    }
    PyObject *element = kind == 2 ? npa_hidden_element((PyArrayObject *)a, key) : NULL;
    if (element != NULL || PyErr_Occurred() ||
        (kind == 2 && npa_touch((PyArrayObject *)a, false) < 0)) {
        return element;
    }
    return npa_numpy.mapping.mp_subscript(a, key);
}

/* As ufunc_passes. */
static bool assignment_passes(PyArrayObject *a, PyObject *key, int kind)
{
    if (!npa_autotune_on || kind != 1) {
        return false; /* masks and integers are ours at once where nothing waits */
    }
    size_t bytes = npa_view_bytes(a, key);
    bytes = bytes == SIZE_MAX ? (size_t)PyArray_NBYTES(a) : bytes;
    bool passes = bytes >= npa_threshold_here() && npa_autotune_passes(npa_copy_name, bytes, true);
    if (passes && bytes >= NPA_SMALL_MOST && npa_range_find(PyArray_DATA(a)) == NULL) {
        npa_look_next(NPA_WRITTEN);
    }
    return passes;
}

static int assign_element(PyObject *a, PyObject *key, PyObject *value)
{
    int put = npa_put_hidden((PyArrayObject *)a, key, value);
    if (put != 0) {
        return put > 0 ? 0 : -1;
    }
    return npa_touch((PyArrayObject *)a, true) < 0 || npa_settle_all(&value, 1, false, false) < 0
               ? -1
               : npa_numpy.mapping.mp_ass_subscript(a, key, value);
}

/* Of a plain array that is large, or by what is: at once, recorded, or by NumPy. */
static int assign_large(PyObject *a, PyObject *key, PyObject *value, bool large_value)
{
    int kind = npa_key_kind((PyArrayObject *)a, key);
    if (kind == 1 && large_value &&
        npa_puts_itself((PyArrayObject *)a, key, (PyArrayObject *)value)) {
        return 0; /* x[1:] += y, which has written it */
    }
    if (assignment_passes((PyArrayObject *)a, key, kind)) {
        npa_passed++;
        int status = put_in_numpy(a, key, value);
        npa_passed--;
        return status;
    }
    if (kind == 2) {
        return assign_element(a, key, value);
    }
    int before = npa_now(NPA_RECORDING);
    npa_suspended++;
    int status = npa_assign(a, key, value);
    npa_suspended--;
    npa_now(before);
    return status;
}

static int assign_stub(PyObject *a, PyObject *key, PyObject *value)
{
    if (at_once(a, key) && value != NULL && npa_small_put_element(a, key, value)) {
        npa_until_look -= npa_suspended == 0;
        return 0;
    }
    if (looking && npa_section_sees_write(a, value) < 0) {
        return -1;
    }
    if (!plain(a) || value == NULL) {
        return npa_numpy.mapping.mp_ass_subscript(a, key, value);
    }
    bool large_value = (plain(value) || ours(value)) && large(value);
    bool taken = is_coarse(a, key) || ((large(a) || large_value) &&
                                       npa_key_kind((PyArrayObject *)a, key) == 1);
    if (!taken ||
        (!large_value && !ours(value) && quiet() && !is_hidden((PyArrayObject *)a) &&
         npa_view_bytes((PyArrayObject *)a, key) < npa_least) ||
        npa_suspended || !npa_in_block()) {
        return put_in_numpy(a, key, value);
    }
    return assign_large(a, key, value, large_value);
}

void npa_set_subscripts(void)
{
    PyArray_Type.tp_as_mapping->mp_subscript = npa_installed ? subscript_stub
                                               : looking     ? looked_at_subscript
                                                             : npa_numpy.mapping.mp_subscript;
    PyArray_Type.tp_as_mapping->mp_ass_subscript = npa_installed ? assign_stub
                                                   : looking ? looked_at_assign
                                                             : npa_numpy.mapping.mp_ass_subscript;
}

void npa_redirect_look(bool begin)
{
    looking += begin ? 1 : -1;
    npa_set_subscripts();
}
