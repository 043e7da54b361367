/* until.c: only the first operations are recorded as ever, for `npaccel bisect`. Those behind them
 * run at their line, each by NumPy's own loop, and no section is replayed. */
#include "run/run.h"

int64_t npa_until = -1; /* so many; -1: all */
static int64_t recorded;

void npa_until_set(int64_t limit) { npa_until = limit, recorded = 0; }

void npa_until_count(void) { recorded++; }

bool npa_until_over(void) { return npa_until >= 0 && recorded >= npa_until; }

/* With at least one of those behind them in the queue, which then holds nothing else. */
bool npa_until_loops(void) { return npa_until >= 0 && recorded > npa_until; }

/* counted(): how many operations have been recorded since; None: there is no limit. */
PyObject *npa_until_counted_py(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    if (npa_until < 0) {
        Py_RETURN_NONE;
    }
    return PyLong_FromLongLong(recorded);
}
