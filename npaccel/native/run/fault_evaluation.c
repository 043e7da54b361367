/* fault_evaluation.c: what a touch begins runs by its program; and gets one where none is known.
 *
 *     touch ──► key ──known──► program          (evaluator's thread, without Python)
 *                │ unknown, or block by block for long enough
 *                └── a copy of the requests is taken; block by block
 *                                   │
 *     next recording ──► planned for the copy ──► found by the next touch    (user's thread)
 *
 * The copy is made before the run: who is dead and what is fresh is known then, and not later. */
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

/* What was found for the run at hand. */
static __thread enum { NOT_ASKED, UNKNOWN, WAITS, PLANNED } found;

/* What is to be planned; one at a time. With the lock. */
typedef struct {
    npa_snapshot s; /* without lines: there is no GIL */
    char *key; /* NULL: there is nothing */
    size_t key_size;
    uint64_t backend; /* that was asked for */
    uint64_t ns; /* that it took; 0: its program knows */
} note;
static __thread note running; /* of the run at hand */
static note waiting;       /* of one that is over */
static atomic_bool is_any; /* waiting is set */

static void drop(note *n)
{
    npa_snapshot_drop(&n->s);
    free(n->key);
    *n = (note){0};
}

static void note_requests(note *n, int requests, const npa_key *key)
{
    *n = (note){.key = malloc(key->size), .key_size = key->size, .backend = npa_q.backend};
    if (n->key == NULL ||
        !npa_snapshot_take(&n->s, &npa_q, requests, npa_buffers_of(&npa_q, requests), false)) {
        drop(n); /* some other time */
    } else {
        memcpy(n->key, key->bytes, key->size);
    }
}

npa_program *npa_fault_find(int requests)
{
    npa_key key;
    drop(&running); /* of a run that failed */
    found = NOT_ASKED;
    /* Elsewhere, after a fork, the stack may be a small one; check mode compares planned runs. */
    if (npa_check_mode || !(npa_guard_evaluates() || npa_flying()) ||
        npa_store_of(&npa_q, requests) != NULL || !npa_make_key(requests, npa_q.backend, &key)) {
        return NULL;
    }
    npa_program *program = npa_program_cache_find(&key, false);
    if (program != NULL && npa_program_foreign(program)) {
        return NULL;
    }
    found = program == NULL ? UNKNOWN : npa_program_waits(program) ? WAITS : PLANNED;
    bool ask = found == UNKNOWN || (found == WAITS && npa_program_due(program));
    if (ask && waiting.key == NULL) {
        note_requests(&running, requests, &key);
    }
    if (program != NULL) {
        npa_program_note_use((PyObject *)program);
        npa_program_lend(program);
    }
    return program;
}

void npa_fault_ran(uint64_t ns)
{
    npa_count.fault_programs += found == PLANNED && npa_guard_evaluates();
    npa_count.plan_hits += found == PLANNED;
    npa_count.rests += found == WAITS;
    npa_count.plan_misses += found == UNKNOWN;
    npa_count.fault_misses += found == UNKNOWN;
    if (running.key != NULL && waiting.key == NULL) {
        waiting = running;
        waiting.ns = found == UNKNOWN ? ns : 0;
        running = (note){0};
        atomic_store(&is_any, true);
    }
}

bool npa_fault_waits(void) { return atomic_load_explicit(&is_any, memory_order_relaxed); }

static note take(void)
{
    npa_lock();
    note mine = waiting;
    waiting = (note){0};
    atomic_store(&is_any, false);
    npa_unlock();
    return mine;
}

void npa_fault_forget(void)
{
    note mine = take();
    drop(&mine);
}

int npa_fault_plan(void)
{
    note mine = take();
    PyObject *key = NULL, *program = NULL;
    bool here = mine.key != NULL && mine.backend == npa_backend_here(); /* the planner asks, too */
    if (here) {
        key = PyBytes_FromStringAndSize(mine.key, (Py_ssize_t)mine.key_size);
        PyObject *pending = npa_pending_new(key, &mine.s);
        npa_suspended++;
        program = pending != NULL ? npa_plan(pending, "touched") : NULL;
        npa_suspended--;
        Py_XDECREF(pending);
    }
    if (program != NULL && Py_IS_TYPE(program, &npa_program_type) && mine.ns > 0 &&
        npa_program_single((npa_program *)program)) {
        npa_lock();
        npa_program_note_time((npa_program *)program, mine.ns, mine.ns);
        npa_unlock();
    }
    drop(&mine);
    Py_XDECREF(key), Py_XDECREF(program);
    return here && program == NULL ? -1 : 0;
}
