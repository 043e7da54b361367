/* queue.c: the queues of requests, one that is recorded into and one for each run in flight; and
 * references that go when the GIL is there. */
#include "trace/trace.h"

npa_queue npa_recorded, *npa_oldest_flying;
__thread npa_queue *npa_queue_here = &npa_recorded;
npa_counters npa_count;
atomic_int npa_flights, npa_placeholders;
__thread struct npa_section *npa_here;
__thread struct npa_recordings *npa_matched_block;
struct npa_store *npa_stores;
struct npa_trace_hooks npa_trace_hooks;

/* Space for one more request at the end of q; the caller holds the lock. NULL: out of memory. */
npa_request *npa_queue_room(npa_queue *q, size_t size)
{
    if (q->used + size > q->cap) {
        size_t cap = q->cap ? 2 * q->cap : 1 << 16;
        char *grown = realloc(q->arena, cap);
        if (grown == NULL) {
            return NULL;
        }
        q->arena = grown, q->cap = cap;
    }
    return npa_grow(&q->at, q->nrequests, &q->requests_cap, sizeof *q->at)
               ? (npa_request *)(q->arena + q->used)
               : NULL;
}

static PyObject **garbage; /* references to drop once the GIL is ours */
static int ngarbage, garbage_cap;

void npa_drop_later(PyObject *o)
{
    /* Without memory it leaks a reference rather than dropping it without the GIL. */
    if (o != NULL && npa_grow(&garbage, ngarbage, &garbage_cap, sizeof *garbage)) {
        garbage[ngarbage++] = o;
    }
}

PyObject **npa_take_garbage(int *n)
{
    PyObject **all = garbage;
    *n = ngarbage;
    garbage = NULL, ngarbage = garbage_cap = 0;
    return all;
}

bool npa_is_garbage(void) { return ngarbage > 0; }

npa_queue *npa_next_queue(npa_queue *q)
{
    return q == NULL ? &npa_recorded : q == &npa_recorded ? npa_oldest_flying : q->next;
}

npa_buffer *npa_flights_buffer(const char *low, const char *high)
{
    for (npa_queue *q = npa_oldest_flying; q != NULL; q = q->next) {
        for (int i = 0; i < q->nbuffers; i++) {
            npa_buffer *b = q->buffers[i];
            if (b != NULL && b->range == NULL && !b->gone && b->source == NULL &&
                low < b->base + b->size && b->base < high) {
                return b;
            }
        }
    }
    return NULL;
}

npa_queue *npa_flights_watch(const npa_watch *w, const npa_buffer *but)
{
    for (npa_queue *q = npa_oldest_flying; q != NULL; q = q->next) {
        for (int i = 0; i < q->nbuffers; i++) {
            npa_buffer *b = q->buffers[i];
            if (b != NULL && b != but && b->range == NULL && b->watch == w) {
                return q;
            }
        }
    }
    return NULL;
}
