/* times.c: where the time goes, for `npaccel run --report`. Each thread is in one activity at a
 * time; entering another one stops the clock of the one before. Off unless asked for. */
#include "record.h"

#include <stdatomic.h>
#include <time.h>

static bool timing;
static _Atomic uint64_t totals[NPA_ACTIVITIES]; /* nanoseconds */
static __thread int current; /* NPA_USER first */
static __thread double since;

double npa_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* From now on this thread does `activity`; returns what it did. */
int npa_now(int activity)
{
    if (!timing) {
        return NPA_USER;
    }
    double t = npa_seconds();
    int before = current;
    if (before != NPA_USER) {
        totals[before] += (uint64_t)(1e9 * (t - since));
    }
    current = activity, since = t;
    return before;
}

PyObject *npa_times(PyObject *module, PyObject *on)
{
    static const char *const names[] = {
        [NPA_RECORDING] = "recording", [NPA_PLANNING] = "planning", [NPA_RUNNING] = "running",
        [NPA_IN_KERNELS] = "kernels", [NPA_IN_LOOPS] = "loops", [NPA_IN_NUMPY] = "numpy"};
    (void)module;
    timing = PyObject_IsTrue(on) > 0;
    PyObject *found = PyDict_New();
    for (int k = NPA_USER + 1; found != NULL && k < NPA_ACTIVITIES; k++) {
        PyObject *seconds = PyFloat_FromDouble(1e-9 * (double)totals[k]);
        if (seconds == NULL || PyDict_SetItemString(found, names[k], seconds) < 0) {
            Py_CLEAR(found);
        }
        Py_XDECREF(seconds);
    }
    return found;
}
