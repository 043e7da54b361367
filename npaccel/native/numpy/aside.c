/* aside.c: operations in a macro section that stands aside (macro_block.c), done at once by the
 * ways of small arrays. What hangs on who computes it is not among them. */
#include "numpy/aside.h"
#include "numpy/redirect.h"

bool npa_aside_ufunc(PyUFuncObject *u, npa_exactness how, const npa_value *values,
                     PyObject *const *args, int n, PyObject **result)
{
    if (!npa_stands_aside() || !npa_is_exact(how, values, u->nin) ||
        !npa_section_block_wants(values, u->nin)) {
        return false;
    }
    *result = npa_small_call_ours(u, args, n, how, true);
    return *result != NULL || PyErr_Occurred();
}

bool npa_aside_in_place(PyUFuncObject *u, npa_exactness how, const npa_value *values,
                        PyObject *const *args, PyObject **result)
{
    PyArrayObject *a = values[0].array;
    if (npa_aside_ufunc(u, how, values, args, 3, result)) {
        return true;
    }
    if (!npa_stands_aside() || !PyArray_ISWRITEABLE(a) || values[1].array == NULL ||
        npa_apart(a, values[1].array) || !npa_aside_ufunc(u, how, values, args, 2, result)) {
        return false;
    }
    PyArrayObject *made = (PyArrayObject *)*result;
    bool fits = made != NULL && npa_same_dtype(PyArray_DESCR(made), PyArray_DESCR(a)) &&
                PyArray_SAMESHAPE(made, a);
    int status = fits ? PyArray_CopyInto(a, made) : 0;
    Py_XDECREF(made);
    *result = fits && status == 0 ? Py_NewRef((PyObject *)a) : NULL;
    return fits || PyErr_Occurred();
}

int npa_aside_function(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                       PyObject *names, PyObject **result)
{
    *result = f != NULL && npa_stands_aside() ? npa_small_function_ours(f, args, n, names) : NULL;
    return *result != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

const npa_small_function *npa_aside_find(PyObject *function)
{
    uint8_t *place = npa_whole_place(function);
    return *place != 0 ? npa_wholes[*place - 1].small : NULL;
}

const npa_small_function *npa_aside_find_method(PyObject *method)
{
    if (!Py_IS_TYPE(method, &PyMethodDescr_Type)) {
        return NULL;
    }
    PyObject *name =
        PyUnicode_FromFormat("ndarray.%s", ((PyMethodDescrObject *)method)->d_method->ml_name);
    const npa_small_function *found = name != NULL ? npa_small_find(name) : NULL;
    Py_XDECREF(name);
    return found;
}
