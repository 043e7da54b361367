/* until_stop.c: where the operations end that are recorded as ever, Python is told. */
#include "run/run.h"

static PyObject *reached; /* called when the first one behind them comes */

/* Before the first one behind them is recorded: all before is computed, and told. */
int npa_until_stop(void)
{
    PyObject *told = reached, *done = NULL;
    if (told == NULL) {
        return 0;
    }
    reached = NULL;
    if (npa_flush() == 0) {
        done = npa_without_us(PyObject_CallNoArgs(told));
    }
    Py_DECREF(told);
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* until(limit, reached): from now on. */
PyObject *npa_until_py(PyObject *module, PyObject *args)
{
    (void)module;
    long long limit;
    PyObject *call;
    if (!PyArg_ParseTuple(args, "LO", &limit, &call) || npa_flush() < 0) {
        return NULL;
    }
    Py_XSETREF(reached, Py_NewRef(call));
    npa_until_set(limit);
    Py_RETURN_NONE;
}
