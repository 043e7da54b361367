/* guard.c: no fault is handled, no signal is noticed, and no call of the system is served. */
#include "system/system.h"

#include <errno.h>

int npa_guard_install(void (*serve)(npa_range *range, const void *touched), void (*served)(void))
{
    (void)serve, (void)served;
    return ENOSYS;
}

bool npa_guard_check(void) { return false; }

uint64_t npa_guard_faults(void) { return 0; }

void npa_guard_never_waits(void) {}

bool npa_guard_evaluates(void) { return false; }

void npa_guard_watch(int (*watched)(const void *address), void (*serve)(const void *address))
{
    (void)watched, (void)serve;
}

/* Ctrl-C is Python's, once the call is over. */

bool npa_on_main_thread(void) { return true; }

bool npa_interrupts_begin(void) { return false; }

void npa_interrupts_end(void) {}

int npa_interrupted(void *unused)
{
    (void)unused;
    return 0;
}

bool npa_signals_hold(bool (*handled)(int number))
{
    (void)handled;
    return false;
}

void npa_signals_release(void) {}

void npa_signals_forked(void) {}

/* ---------------------------------------------------------------------- calls of the system */

int npa_calls_serve(void (*limited)(size_t to), const void *numpys)
{
    (void)limited, (void)numpys;
    return ENOSYS;
}

void npa_imports_check(void) {}

void npa_imports_restore(void) {}

void npa_imports_read_stats(npa_imports_stats *out) { *out = (npa_imports_stats){0}; }

void *npa_imports_instead_of(const void *function)
{
    (void)function;
    return NULL;
}
