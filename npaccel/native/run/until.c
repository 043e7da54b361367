/* until.c: only the first operations are recorded as ever, for `npaccel bisect`. Those behind them
 * run at their line, each by NumPy's own loop, and no section is replayed. */
#include "run/run.h"

int64_t npa_until = -1; /* so many; -1: all */
static int64_t recorded;
static PyObject *reached; /* called when the first one behind them comes */

void npa_until_count(void) { recorded++; }

bool npa_until_over(void) { return npa_until >= 0 && recorded >= npa_until; }

/* With at least one of those behind them in the queue, which then holds nothing else. */
bool npa_until_loops(void) { return npa_until >= 0 && recorded > npa_until; }

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
    npa_until = limit, recorded = 0;
    Py_RETURN_NONE;
}

/* counted(): how many operations have been recorded since; None: there is no limit. */
PyObject *npa_until_counted_py(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    if (npa_until < 0) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLongLong(recorded);
}
