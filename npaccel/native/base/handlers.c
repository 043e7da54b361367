/* handlers.c: the program's signal handlers wait while Python code of ours runs. */
#include "base/base.h"

static PyObject *getsignal, *of_ctrl_c;

/* What a handler in Python would be called for. Ctrl-C is not held up: what it raises nobody takes
 * for an error, and where a compiler runs in this process the user need not wait for it. */
static bool is_handled(int number)
{
    PyObject *asked = PyLong_FromLong(number);
    PyObject *handler = asked != NULL ? PyObject_CallOneArg(getsignal, asked) : NULL;
    bool handled = handler != NULL && handler != of_ctrl_c && PyCallable_Check(handler);
    PyErr_Clear();
    Py_XDECREF(asked), Py_XDECREF(handler);
    return handled;
}

bool npa_hold_signals(void)
{
    if (of_ctrl_c == NULL) {
        PyObject *module = PyImport_ImportModule("_signal");
        Py_XSETREF(getsignal, module != NULL ? PyObject_GetAttrString(module, "getsignal") : NULL);
        of_ctrl_c = module != NULL ? PyObject_GetAttrString(module, "default_int_handler") : NULL;
        Py_XDECREF(module);
        PyErr_Clear();
    }
    return of_ctrl_c != NULL && npa_signals_hold(is_handled);
}

void npa_release_signals(bool held)
{
    if (held) {
        npa_signals_release();
    }
}
