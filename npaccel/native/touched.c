/* touched.c: what a touch begins runs by its program; and gets one where none is known.
 *
 *     touch ──► key ──known──► program          (evaluator's thread, without Python)
 *                │ unknown
 *                ├── first time: its hash is kept; NumPy's loops
 *                └── again: a copy of the requests is taken; NumPy's loops
 *                                   │
 *     next recording ──► planned for the copy ──► found by the next touch    (user's thread)
 *
 * The copy is made before the run: who is dead and what is fresh is known then, and not later. */
#include "record.h"

#include <stdlib.h>
#include <string.h>

/* The keys that nothing was found for, the latest ones. Asking the planner costs some 15 us, so what
 * is not compiled after FIRST times is asked for less often. */
enum { KEYS = 256, FIRST = 8, PAUSE_NS = 500000 };
typedef struct {
    uint64_t hash;
    uint64_t flush; /* the last one that missed it */
    uint64_t times;
    uint64_t ns; /* that NumPy's loops took since it was last planned */
} miss;
static miss misses[KEYS];
static __thread miss *here; /* of the run at hand; NULL: its program is known, or not to be looked for */

static miss *miss_of(uint64_t hash)
{
    miss *oldest = misses;
    for (miss *m = misses; m < misses + KEYS; m++) {
        if (m->hash == hash) {
            return m;
        }
        oldest = m->flush < oldest->flush ? m : oldest;
    }
    *oldest = (miss){.hash = hash};
    return oldest;
}

/* What is to be planned; one at a time. With the lock. */
typedef struct {
    npa_snapshot s; /* without lines: there is no GIL */
    char *key; /* NULL: there is nothing */
    size_t key_size;
    uint64_t backend; /* that was asked for */
    uint64_t ns, total_ns; /* that NumPy's loops took: this time, and since it was last planned */
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
    if (n->key == NULL || !npa_snapshot_take(&n->s, &npa_q, requests, npa_buffers_of(&npa_q, requests), false)) {
        drop(n); /* some other time */
    } else {
        memcpy(n->key, key->bytes, key->size);
    }
}

npa_program *npa_touched_find(int requests)
{
    npa_key key;
    drop(&running); /* of a run that failed */
    here = NULL;
    /* Elsewhere, after a fork, the stack may be a small one; check mode compares planned runs. */
    if (npa_check_mode || !(npa_guard_evaluates() || npa_flying()) ||
        npa_store_of(&npa_q, requests) != NULL || !npa_make_key(requests, npa_q.backend, &key)) {
        return NULL;
    }
    npa_program *program = npa_plans_find(&key);
    if (program != NULL && npa_program_foreign(program)) {
        return NULL;
    }
    if (program != NULL) {
        npa_program_note_use((PyObject *)program);
        return npa_program_lend(program);
    }
    here = miss_of(key.hash);
    here->flush = npa_q.serial;
    here->times++;
    bool turn = here->times <= FIRST || here->times % FIRST == 0 || here->ns > PAUSE_NS;
    if (here->times > 1 && turn && waiting.key == NULL) {
        note_requests(&running, requests, &key);
    }
    return NULL;
}

void npa_touched_ran(bool program, uint64_t ns)
{
    npa_count.fault_programs += program && npa_guard_evaluates();
    npa_count.plan_hits += program;
    if (here != NULL) {
        npa_count.plan_misses++;
        npa_count.fault_misses++;
        here->ns += ns;
    }
    if (running.key != NULL && waiting.key == NULL) {
        waiting = running;
        waiting.ns = ns, waiting.total_ns = here->ns;
        here->ns = 0;
        running = (note){0};
        atomic_store(&is_any, true);
    }
}

bool npa_touched_waits(void) { return atomic_load_explicit(&is_any, memory_order_relaxed); }

static note take(void)
{
    npa_lock();
    note mine = waiting;
    waiting = (note){0};
    atomic_store(&is_any, false);
    npa_unlock();
    return mine;
}

void npa_touched_forget(void)
{
    note mine = take();
    drop(&mine);
    npa_lock();
    memset(misses, 0, sizeof misses);
    npa_unlock();
}

int npa_touched_plan(void)
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
    if (program != NULL && Py_IS_TYPE(program, &npa_program_type) &&
        npa_program_single((npa_program *)program)) {
        npa_lock();
        npa_program_note_time((npa_program *)program, mine.ns, mine.total_ns);
        npa_unlock();
    }
    drop(&mine);
    Py_XDECREF(key), Py_XDECREF(program);
    return here && program == NULL ? -1 : 0;
}
