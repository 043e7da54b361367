/* calls.c: which Python code runs, and which C functions are called, while a section is recorded.
 *
 * A profiling function of our own; one that was there before is called all the same. Calls by code
 * of NumPy's and ours are not told, but for `open`. */
#include "macro/macro.h"

#include <string.h>

static __thread struct {
    PyObject *hook; /* hook(frame, function or None); owned; NULL: nobody listens */
    Py_tracefunc before;
    PyObject *before_object;
} listener;

static bool is_internal(PyFrameObject *frame)
{
    PyObject *globals = PyFrame_GetGlobals(frame);
    PyObject *name = PyDict_GetItemString(globals, "__name__");
    const char *text = name != NULL && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;
    bool internal = text != NULL;
    if (internal) {
        size_t n = strcspn(text, ".");
        internal = (n == 5 && strncmp(text, "numpy", n) == 0) ||
                   (n == 7 && strncmp(text, "npaccel", n) == 0);
    }
    Py_DECREF(globals);
    return internal;
}

bool npa_internal_code(void)
{
    PyFrameObject *frame = PyEval_GetFrame(); /* borrowed */
    return frame != NULL && is_internal(frame);
}

static bool opens_file(PyObject *function)
{
    return PyCFunction_Check(function) &&
           strcmp(((PyCFunctionObject *)function)->m_ml->ml_name, "open") == 0;
}

static int tell_call(PyObject *unused, PyFrameObject *frame, int what, PyObject *function)
{
    (void)unused;
    if (listener.before != NULL &&
        listener.before(listener.before_object, frame, what, function) < 0) {
        return -1;
    }
    if (listener.hook == NULL || (what != PyTrace_CALL && what != PyTrace_C_CALL)) {
        return 0;
    }
    bool calls = what == PyTrace_C_CALL;
    if (is_internal(frame) && !(calls && opens_file(function))) {
        return 0;
    }
    npa_suspended++;
    PyObject *done = PyObject_CallFunctionObjArgs(listener.hook, (PyObject *)frame,
                                                  calls ? function : Py_None, NULL);
    npa_suspended--;
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

int npa_calls_listen(PyObject *hook)
{
    PyThreadState *mine = PyThreadState_Get();
    listener.before = mine->c_profilefunc;
    listener.before_object = Py_XNewRef(mine->c_profileobj);
    listener.hook = Py_NewRef(hook);
    PyEval_SetProfile(tell_call, hook);
    if (mine->c_profilefunc != tell_call) { /* an audit hook refused, with an exception */
        npa_calls_end();
        return PyErr_Occurred() ? -1 : 0;
    }
    return 0;
}

void npa_calls_end(void)
{
    if (listener.hook == NULL) {
        return;
    }
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    if (PyThreadState_Get()->c_profilefunc == tell_call) { /* else the body set another */
        PyEval_SetProfile(listener.before, listener.before_object);
    }
    Py_CLEAR(listener.before_object);
    Py_CLEAR(listener.hook);
    listener.before = NULL;
    PyErr_Restore(type, error, trace);
}
