/* times.c: where the time goes, for `npaccel run --report`. Each thread is in one activity at a
 * time; entering another one stops the clock of the one before. Off unless asked for. */
#include "record.h"

#include <time.h>

static bool timing;
static double totals[NPA_ACTIVITIES];
static __thread int current; /* NPA_USER first */
static __thread double since;

double npa_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* From now on this thread does `activity`; returns what it did. With the GIL. */
int npa_now(int activity)
{
    if (!timing) {
        return NPA_USER;
    }
    double t = npa_seconds();
    int before = current;
    if (before != NPA_USER) {
        totals[before] += t - since;
    }
    current = activity, since = t;
    return before;
}

PyObject *npa_times(PyObject *module, PyObject *on)
{
    (void)module;
    timing = PyObject_IsTrue(on) > 0;
    return Py_BuildValue("{sdsdsdsd}", "recording", totals[NPA_RECORDING], "planning",
                         totals[NPA_PLANNING], "kernels", totals[NPA_RUNNING], "numpy",
                         totals[NPA_IN_NUMPY]);
}
