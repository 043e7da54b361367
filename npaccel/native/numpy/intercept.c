/* intercept.c: builtins of others that can't be left to run without our knowing of it.
 *
 * ndarray.tofile hands the pointer to a system call, and those do not fault: they fail on guarded
 * pages. faulthandler.enable, disable and signal.signal set handlers of SIGSEGV: ours goes on top
 * again at once, as the next touch may come before the next recorded operation. They are replaced
 * where every reference to them looks: in their method definitions.
 *
 * ctypes has the addresses of functions: those of the C library that syscalls.c replaces are
 * exchanged when they are called. A library that ctypes loads is seen at once.
 *
 * Some libraries' threads block SIGSEGV; where it is blocked, a touch ends the process. Objects
 * that hand arrays to such threads get everything evaluated, and opened, before they are called. */
#include "numpy/numpy.h"

#include <errno.h>

static PyCFunctionWithKeywords numpy_tofile, faulthandler_enable;
static PyCFunction faulthandler_disable;
static _PyCFunctionFast signal_signal;

static PyObject *tofile(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return npa_touch((PyArrayObject *)self, false) < 0 ? NULL : numpy_tofile(self, args, kwargs);
}

/* Where our handler can't be put back, nothing may stay pending. */
static PyObject *back_on_top(PyObject *result)
{
    if (npa_guard_on && !npa_guard_check() && !npa_guard_check()) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        npa_guard_set(false);
        if (npa_flush() < 0) {
            PyErr_WriteUnraisable(NULL);
        }
        PyErr_Restore(type, error, trace);
    }
    return result;
}

static PyObject *enable(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return back_on_top(faulthandler_enable(self, args, kwargs));
}

static PyObject *disable(PyObject *self, PyObject *nothing)
{
    return back_on_top(faulthandler_disable(self, nothing));
}

static PyObject *set_signal(PyObject *self, PyObject *const *args, Py_ssize_t n)
{
    return back_on_top(signal_signal(self, args, n));
}

enum { MOST_SETTLED = 8 };
static struct { PyTypeObject *type; ternaryfunc call; } settled[MOST_SETTLED];
static int nsettled;

static int settle(PyObject *o)
{
    return !PyArray_Check(o) ? 0 : npa_touch((PyArrayObject *)o, true);
}

static PyObject *call_settled(PyObject *self, PyObject *args, PyObject *kwargs)
{
    PyObject *value;
    Py_ssize_t at = 0;
    int status = npa_flush(), k = 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_GET_SIZE(args); i++) {
        status = settle(PyTuple_GET_ITEM(args, i));
    }
    while (status == 0 && kwargs != NULL && PyDict_Next(kwargs, &at, NULL, &value)) {
        status = settle(value);
    }
    if (status < 0) {
        return NULL;
    }
    npa_lock();
    npa_open_all(); /* it may write into one of them */
    npa_unlock();
    while (k < nsettled && !PyType_IsSubtype(Py_TYPE(self), settled[k].type)) {
        k++;
    }
    return settled[k].call(self, args, kwargs);
}

PyObject *npa_settle_calls(PyObject *module, PyObject *o)
{
    (void)module;
    PyTypeObject *type = (PyTypeObject *)o;
    if (!PyType_Check(o) || type->tp_call == NULL || nsettled == MOST_SETTLED) {
        PyErr_SetString(PyExc_TypeError, "settle_calls() takes a class of callable objects");
        return NULL;
    }
    if (type->tp_call != call_settled) {
        settled[nsettled].type = (PyTypeObject *)Py_NewRef(o);
        settled[nsettled++].call = type->tp_call;
        type->tp_call = call_settled;
        PyType_Modified(type);
    }
    Py_RETURN_NONE;
}

/* The definition behind module.name, if its flags are as expected; NULL without error if not. */
static PyMethodDef *definition_of(const char *module_name, const char *name, int flags)
{
    PyObject *module = PyImport_ImportModule(module_name);
    PyObject *function = module != NULL ? PyObject_GetAttrString(module, name) : NULL;
    PyMethodDef *found = NULL;
    if (function != NULL && PyCFunction_CheckExact(function)) {
        found = ((PyCFunctionObject *)function)->m_ml; /* of a module: lives as long as we do */
    }
    Py_XDECREF(function), Py_XDECREF(module);
    PyErr_Clear();
    return found != NULL && found->ml_flags == flags ? found : NULL;
}

/* ------------------------------------------------------------------------------ system calls */

static int calls_error;
static PyCFunction ctypes_dlopen;
static ternaryfunc ctypes_call;

static PyObject *load_library(PyObject *self, PyObject *args)
{
    PyObject *handle = ctypes_dlopen(self, args);
    if (npa_calls_tried) {
        npa_imports_check();
    }
    return handle;
}

/* What all objects of ctypes begin with. */
typedef struct {
    PyObject_HEAD
    void *content;
} ctypes_object;

static PyObject *call_function(PyObject *self, PyObject *args, PyObject *kwargs)
{
    void **function = ((ctypes_object *)self)->content;
    void *ours = npa_calls_tried ? npa_imports_instead_of(*function) : NULL;
    if (ours != NULL) {
        *function = ours;
    }
    return ctypes_call(self, args, kwargs);
}

/* A type has its own copy of what it inherits. */
static int hook_calls(PyTypeObject *type)
{
    if (type->tp_call != ctypes_call) {
        return 0;
    }
    type->tp_call = call_function;
    PyObject *below = PyObject_CallMethod((PyObject *)type, "__subclasses__", NULL);
    int status = below != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(below); i++) {
        status = hook_calls((PyTypeObject *)PyList_GET_ITEM(below, i));
    }
    Py_XDECREF(below);
    return status;
}

/* Whether an object of ctypes is laid out as we think. */
static bool is_as_expected(PyObject *ctypes, PyObject *module)
{
    PyObject *o = PyObject_CallMethod(module, "c_void_p", "i", 7);
    PyObject *address = o != NULL ? PyObject_CallMethod(ctypes, "addressof", "O", o) : NULL;
    bool same = address != NULL && PyLong_AsVoidPtr(address) == ((ctypes_object *)o)->content;
    Py_XDECREF(o), Py_XDECREF(address);
    return same;
}

/* Of types that are made later the functions are looked up later, too: through
 * npa_imports_dlsym. */
static void hook_ctypes(void)
{
    PyObject *modules = PyImport_GetModuleDict();
    PyObject *ctypes = PyDict_GetItemString(modules, "_ctypes");
    PyObject *module = PyDict_GetItemString(modules, "ctypes");
    PyMethodDef *d = ctypes != NULL ? definition_of("_ctypes", "dlopen", METH_VARARGS) : NULL;
    if (d != NULL && ctypes_dlopen == NULL) {
        ctypes_dlopen = d->ml_meth;
        d->ml_meth = load_library;
    }
    if (ctypes == NULL || module == NULL || ctypes_call != NULL) {
        return;
    }
    PyObject *type = PyObject_GetAttrString(ctypes, "CFuncPtr");
    if (type != NULL && PyType_Check(type) && is_as_expected(ctypes, module)) {
        ctypes_call = ((PyTypeObject *)type)->tp_call;
        hook_calls((PyTypeObject *)type);
    }
    Py_XDECREF(type);
}

/* Nothing may stay pending from now on. */
static int give_up(void *unused)
{
    (void)unused;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    if (npa_guard_on && (npa_flush() < 0 || npa_guard_set(false) < 0)) {
        PyErr_WriteUnraisable(NULL);
    }
    npa_lock();
    npa_open_all();
    npa_unlock();
    PyErr_Restore(type, error, trace);
    return 0;
}

/* Address space is about to be limited, perhaps by code without the interpreter's lock. */
static void limited(size_t to)
{
    npa_lock_native();
    bool enough = npa_memory_make_way(to);
    npa_unlock();
    if (!enough && PyGILState_Check()) {
        give_up(NULL);
    } else if (!enough) {
        Py_AddPendingCall(give_up, NULL);
    }
}

void npa_serve_calls(void)
{
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    calls_error = npa_calls_serve(limited, &PyArray_Type);
    npa_calls_tried = calls_error != EBUSY; /* else another time */
    hook_ctypes();
    PyErr_Clear(); /* ctypes is of another make: its functions are called as they are */
    PyErr_Restore(type, error, trace);
}

void npa_leave_calls(void)
{
    npa_memory_stats m;
    npa_lock();
    npa_memory_read_stats(&m);
    npa_unlock();
    if (npa_calls_tried && m.live_ranges == 0) { /* others may be hidden still */
        npa_imports_restore();
        npa_calls_tried = false;
    }
}

PyObject *npa_system_calls(PyObject *self, PyObject *nothing)
{
    (void)self, (void)nothing;
    npa_imports_stats s;
    if (npa_guard_on && !npa_calls_tried) {
        npa_serve_calls();
    }
    npa_imports_read_stats(&s);
    return Py_BuildValue("iiiii", calls_error, s.functions, s.libraries, s.entries, s.refused);
}

int npa_intercept_init(void)
{
    PyObject *method = PyDict_GetItemString(PyArray_Type.tp_dict, "tofile");
    PyMethodDef *d = method != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type)
                         ? ((PyMethodDescrObject *)method)->d_method : NULL;
    if (d != NULL && d->ml_flags == (METH_VARARGS | METH_KEYWORDS)) {
        numpy_tofile = (PyCFunctionWithKeywords)(void (*)(void))d->ml_meth;
        d->ml_meth = (PyCFunction)(void (*)(void))tofile;
    }
    if ((d = definition_of("faulthandler", "enable", METH_VARARGS | METH_KEYWORDS)) != NULL) {
        faulthandler_enable = (PyCFunctionWithKeywords)(void (*)(void))d->ml_meth;
        d->ml_meth = (PyCFunction)(void (*)(void))enable;
    }
    if ((d = definition_of("faulthandler", "disable", METH_NOARGS)) != NULL) {
        faulthandler_disable = d->ml_meth;
        d->ml_meth = disable;
    }
    if ((d = definition_of("_signal", "signal", METH_FASTCALL)) != NULL) {
        signal_signal = (_PyCFunctionFast)(void (*)(void))d->ml_meth;
        d->ml_meth = (PyCFunction)(void (*)(void))set_signal;
    }
    return 0;
}
