/* chain.h: kernels that follow each other, in step through memory. */
#ifndef NPACCEL_CHAIN_H
#define NPACCEL_CHAIN_H

#include "run/step.h"

enum { NPA_LONGEST_CHAIN = 32 };
typedef struct npa_chain npa_chain;
/* Those of `nsteps` steps from steps[0] on that gain from it, with all the memory that they need.
 * NULL: none. */
npa_chain *npa_chain_form(const step *steps, int nsteps, npa_queue *q);
int npa_chain_length(const npa_chain *c);
bool npa_chain_lasts(const npa_chain *c); /* it can't be begun anew */
void npa_chain_drop(npa_chain *c); /* NULL: nothing */
/* To the end, and the chain is over. took and what it returns: as npa_pool_run_polled has them. */
int npa_chain_run(npa_chain *c, int64_t *took, uint8_t *kinds, int (*poll)(void *), void *arg);

#endif
