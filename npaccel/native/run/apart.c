/* apart.c: threads of runs in flight give the lock back while they compute. See Note [In flight] in
 * flights.c. */
#include "run/run.h"

static __thread bool flying, apart; /* this thread is a runner; it has given the lock back */

void npa_fly(void) { flying = true; }

bool npa_flying(void) { return flying; }

void npa_compute_begin(void)
{
    if (flying && !apart) {
        apart = true;
        npa_unlock();
    }
}

void npa_compute_end(void)
{
    if (apart) {
        npa_lock_native();
        apart = false;
    }
}
