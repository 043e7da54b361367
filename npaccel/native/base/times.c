/* times.c: where the time goes, for `npaccel run --report` and profiles. Each thread is in one
 * activity at a time; entering another one stops the clock of the one before. Off unless asked
 * for. */
#include "base/base.h"

bool npa_profiling;
struct npa_base_hooks npa_base_hooks;
static unsigned timing; /* for whom, as bits */
static _Atomic uint64_t totals[NPA_ACTIVITIES]; /* nanoseconds */
static __thread int current; /* NPA_USER first */
static __thread double since;

double npa_seconds(void)
{
    return 1e-9 * (double)npa_clock_ns();
}

/* From now on this thread does `activity`; returns what it did. */
int npa_now(int activity)
{
    if (timing == 0) {
        return NPA_USER;
    }
    double t = npa_seconds();
    int before = current;
    if (before != NPA_USER) {
        uint64_t ns = (uint64_t)(1e9 * (t - since));
        atomic_fetch_add_explicit(&totals[before], ns, memory_order_relaxed);
        if (npa_profiling) {
            npa_base_hooks.spent(before, ns);
        }
    }
    current = activity, since = t;
    if (npa_profiling) {
        npa_base_hooks.now(activity);
        if (activity == NPA_USER && before != NPA_USER) {
            npa_base_hooks.settle();
        }
    }
    return before;
}

uint64_t npa_switched_ns(void) { return (uint64_t)(1e9 * since); }

void npa_count_times(unsigned whom, bool on) { timing = on ? timing | whom : timing & ~whom; }

PyObject *npa_times(PyObject *module, PyObject *on)
{
    static const char *const names[] = {
        [NPA_RECORDING] = "recording", [NPA_PLANNING] = "planning", [NPA_RUNNING] = "running",
        [NPA_IN_KERNELS] = "kernels", [NPA_IN_LOOPS] = "loops", [NPA_IN_NUMPY] = "numpy"};
    (void)module;
    if (on != Py_None) {
        npa_count_times(NPA_FOR_REPORT, PyObject_IsTrue(on) > 0);
    }
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
