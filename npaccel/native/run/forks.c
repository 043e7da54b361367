/* forks.c: a process may fork while something is pending or runs: the child has it, too, on the
 * host. */
#include "run/run.h"

static void before_fork(void)
{
    if (Py_IsInitialized() && PyGILState_Check()) {
        npa_lock(); /* who holds it may be waiting for the GIL */
    } else {
        npa_lock_native();
    }
    npa_await_flights(NULL);
    npa_copies_home(); /* the child has no devices */
}

static void after_fork_in_child(void)
{
    npa_lock_forked();
    npa_flights_forked();
    npa_contention_forked();
    npa_signals_forked();
    npa_unlock();
}

/* The queue is whole in the child. After the guard's own, since those run in reverse before a
 * fork. */
int npa_watch_forks(void)
{
    static bool done;
    int error = done ? 0 : npa_at_fork(before_fork, npa_unlock, after_fork_in_child);
    done = error == 0;
    return error;
}
