/* prove.c: that NumPy and Python are laid out as redirect.c assumes, shown on objects of our own
 * before anything of NumPy's is touched. What can't be shown is not redirected. */
#include "numpy/numpy.h"

static int seen; /* calls that came to a probe */
static vectorcallfunc ufunc_call;

static PyObject *ufunc_probe(PyObject *self, PyObject *const *args, size_t n, PyObject *names)
{
    seen++;
    return ufunc_call(self, args, n, names);
}

static PyObject *probe(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    seen++;
    Py_RETURN_NONE;
}

static PyObject *nothing_done(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    Py_RETURN_NONE;
}

/* A ufunc is called through the field that the header names, each time. */
static bool ufuncs_hold(PyObject *ufunc)
{
    PyUFuncObject *u = (PyUFuncObject *)ufunc;
    if (!Py_IS_TYPE(ufunc, &PyUFunc_Type) ||
        !PyType_HasFeature(&PyUFunc_Type, Py_TPFLAGS_HAVE_VECTORCALL) ||
        PyUFunc_Type.tp_vectorcall_offset != (Py_ssize_t)offsetof(PyUFuncObject, vectorcall) ||
        u->vectorcall == NULL) {
        return false;
    }
    ufunc_call = u->vectorcall;
    PyObject *one = PyLong_FromLong(1);
    seen = 0;
    u->vectorcall = ufunc_probe;
    PyObject *done = PyObject_CallOneArg(ufunc, one);
    u->vectorcall = ufunc_call;
    Py_XDECREF(one), Py_XDECREF(done);
    PyErr_Clear();
    return done != NULL && seen == 1;
}

/* What is in a method definition when a function is called is what runs. */
static bool functions_hold(void)
{
    static PyMethodDef definition = {"probe", nothing_done, METH_NOARGS, NULL};
    PyObject *function = PyCFunction_New(&definition, NULL), *done = NULL;
    if (function != NULL && ((PyCFunctionObject *)function)->m_ml == &definition) {
        seen = 0;
        definition.ml_meth = probe;
        done = PyObject_CallNoArgs(function);
        definition.ml_meth = nothing_done;
    }
    Py_XDECREF(done), Py_XDECREF(function);
    return done != NULL && seen == 1;
}

static bool methods_hold(void)
{
    static PyMethodDef definition = {"probe", nothing_done, METH_NOARGS, NULL};
    PyObject *method = PyDescr_NewMethod(&npa_code_block_type, &definition), *done = NULL;
    PyObject *self = npa_code_block_new(-1, Py_None, Py_None, false);
    if (method != NULL && self != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type) &&
        ((PyMethodDescrObject *)method)->d_method == &definition) {
        seen = 0;
        definition.ml_meth = probe;
        done = PyObject_CallOneArg(method, self);
        definition.ml_meth = nothing_done;
    }
    Py_XDECREF(done), Py_XDECREF(method), Py_XDECREF(self);
    return done != NULL && seen == 1;
}

/* prove(ufunc of nobody else's) -> (ufuncs, functions, methods) */
PyObject *npa_prove(PyObject *module, PyObject *ufunc)
{
    (void)module;
    bool ufuncs = ufuncs_hold(ufunc), functions = functions_hold(), methods = methods_hold();
    PyErr_Clear();
    return Py_BuildValue("(NNN)", PyBool_FromLong(ufuncs), PyBool_FromLong(functions),
                         PyBool_FromLong(methods));
}
