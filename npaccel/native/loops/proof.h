/* proof.h: whether a loop of ours has a library's bits, which is found out once, when it is first
 * asked. */
#ifndef NPA_LOOPS_PROOF_H
#define NPA_LOOPS_PROOF_H

#include <fenv.h>
#include <stdatomic.h>

/* What is known: NPA_OTHER, that it has not; from NPA_PROVED on, how it has. */
enum { NPA_UNTRIED, NPA_TRYING, NPA_OTHER, NPA_PROVED };
typedef int npa_proof(const void *what); /* NPA_OTHER, or from NPA_PROVED on */

/* While one thread finds out, to others nothing is known. The processor's flags stay. */
static inline int npa_proved(atomic_int *known, npa_proof *prove, const void *what)
{
    int found = atomic_load_explicit(known, memory_order_acquire);
    if (found == NPA_UNTRIED && atomic_compare_exchange_strong(known, &found, NPA_TRYING)) {
        fenv_t flags;
        feholdexcept(&flags);
        found = prove(what);
        fesetenv(&flags);
        atomic_store_explicit(known, found, memory_order_release);
    }
    return found;
}

#endif
