/* reflected.c: who goes first where an operator has an array of ours on its left, and one of
 * another subclass of ndarray on its right.
 *
 * Python asks the right one first if its class is derived from that of the left one and has its own
 * operators. So matrices and masked arrays go before ndarrays, but not before Array. */
#include "numpy/array.h"

bool npa_goes_second(PyObject *a, PyObject *b)
{
    return ours(a) && PyArray_Check(b) && !PyArray_CheckExact(b) &&
           !PyObject_TypeCheck(b, npa_array_type);
}

PyObject *npa_operate_second(PyObject *a, PyObject *b, binaryfunc in_python)
{
    PyObject *plain = npa_settled(a);
    PyObject *result = plain != NULL ? in_python(plain, b) : NULL;
    Py_XDECREF(plain);
    return npa_adopted(result);
}

PyObject *npa_compare_second(PyObject *a, PyObject *b, int how)
{
    PyObject *plain = npa_settled(a);
    PyObject *result = plain != NULL ? PyObject_RichCompare(plain, b, how) : NULL;
    Py_XDECREF(plain);
    return npa_adopted(result);
}
