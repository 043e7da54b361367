/* commit.c: a request enters the queue; or leaves it again, as if never recorded. */
#include "run/flush.h"
#include "run/run.h"

/* With the lock: the request at the end of the arena counts from now on. */
uint64_t npa_queue_commit(npa_request *r)
{
    npa_q.at[npa_q.nrequests++] = npa_q.used;
    npa_q.used += r->size;
    npa_q.backend = npa_backend_here();
    npa_count.requests++;
    npa_until_count();
    r->rule->recorded++;
    uint64_t points = 1;
    for (int i = 0; i < r->ndim; i++) {
        points *= (uint64_t)r->shape[i];
    }
    r->rule->points += points;
    npa_contention_recorded();
    return npa_change();
}

/* What it writes must not be looked at before it has run. */
static void mark_pending(npa_request *r)
{
    for (int k = r->nin; k < r->nin + r->nout; k++) {
        npa_q.buffers[npa_operand_at(r, k)->buffer]->pending = true;
    }
}

/* Memory did not suffice for a request that must not wait: the exception says so, and it is
 * over. */
void npa_queue_withdraw(uint64_t serial)
{
    npa_lock();
    int last = npa_q.nrequests - 1;
    bool single = npa_program_single((npa_program *)npa_q.run.program);
    if (npa_q.generation == serial && last >= 0 &&
        !(npa_q.run.stopped && (!single || npa_q.run.done > last))) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[last]);
        npa_q.nrequests = last, npa_q.used = npa_q.at[last];
        npa_q.run.requests = npa_q.run.requests < last ? npa_q.run.requests : last;
        npa_trim_scopes();
        npa_drop_later(r->code), npa_drop_later(r->globals);
        for (int k = r->nin; k < r->nin + r->nout; k++) {
            npa_q.buffers[npa_operand_at(r, k)->buffer]->pending = false;
        }
        for (int i = 0; i < last; i++) {
            mark_pending((npa_request *)(npa_q.arena + npa_q.at[i]));
        }
        npa_change();
        if (last == 0) {
            npa_finish_queue(NULL, 0);
        }
    }
    npa_unlock();
}
