/* flush.c: from pending requests to results: key, plan, run, publish, warn. */
#include "run/run.h"
#include "run/flush.h"
#include "run/group.h"

void npa_flush_natively(void)
{
    npa_lock();
    npa_await_flights(NULL);
    npa_run_everything(NULL);
    npa_unlock();
}

/* No plan, an exception is set, and something must not wait: NumPy's loops do it. */
static int fail(void)
{
    if (npa_q.urgent) {
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        npa_flush_natively();
        PyErr_Restore(type, error, trace);
    }
    return -1;
}

/* The backend that is asked for, with the place of the data of the first requests. */
static uint64_t with_place(uint64_t backend, int requests)
{
    return backend ^ npa_places_number(&npa_q, requests) * 0x9e3779b97f4a7c15;
}

PyObject *npa_pending_now(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    npa_key key;
    uint64_t backend = npa_backend_here();
    npa_lock();
    npa_run_hooks.settle_masks();
    int requests = npa_q.nrequests;
    PyObject *found = npa_new_key(requests, with_place(backend, requests), &key)
        ? npa_pending_take(requests, &key) : PyErr_NoMemory();
    npa_unlock();
    return found;
}

/* With the lock and the GIL: new references to the Program of the first requests and, where none is
 * known or they are to be compared, to what they are. Neither: error set. */
static void find_program(int requests, uint64_t backend, bool check, PyObject **program,
                         PyObject **pending)
{
    npa_key key;
    if ((check && npa_foreign_settle(false) < 0) ||
        !npa_make_key(requests, with_place(backend, requests), &key)) {
        PyErr_NoMemory();
        return;
    }
    npa_program *found = npa_program_cache_find(&key, true);
    *program = found != NULL && !npa_program_due(found) ? Py_NewRef((PyObject *)found) : NULL;
    if (*program != NULL) {
        npa_program_note_use(*program);
        *(npa_program_waits(found) ? &npa_count.rests : &npa_count.plan_hits) += 1;
    } else {
        npa_count.plan_misses++;
    }
    if (*program == NULL || check) {
        *pending = npa_pending_take(requests, &key);
    }
    if (*pending == NULL && check) {
        Py_CLEAR(*program);
    }
}

/* A run ended for want of memory, or of a device that had the only copy of something. */
static void set_error(void)
{
    if (npa_copy_lost()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "data that lay on a device alone can't be brought back");
        npa_shortage_tell(&(npa_shortage){.rule = NULL});
    } else {
        npa_lock();
        npa_shortage found = npa_q.run.failed < 0
                                 ? npa_q.run.unseen
                                 : npa_shortage_of(&npa_q, npa_q.run.failed, npa_q.nrequests);
        /* It is in the queue, or in the history */
        Py_XINCREF(found.rule != NULL ? found.code : NULL);
        npa_unlock();
        npa_shortage_error(&found);
        Py_XDECREF(found.rule != NULL ? found.code : NULL);
    }
}

/* One run of a flush: which requests, and by what. */
typedef struct {
    PyObject *program, *pending; /* owned; program NULL: NumPy's loops */
    int requests, round;         /* as npa_next_to_run has them */
    uint64_t seen;               /* the queue's generation when this was chosen */
    bool rounds, check, interrupted;
    npa_contents before, after;  /* for check mode */
    npa_log log;
} stage;

/* What the queue needs before it can be looked at. 0, or -1 with an exception. */
static int settle_queue(void)
{
    if (npa_flights > 0 && npa_join_makers() < 0) {
        return -1;
    }
    npa_lock();
    bool settled = npa_run_hooks.settle_masks();
    npa_unlock();
    if (!settled) {
        PyErr_NoMemory();
        return fail();
    }
    return !npa_q.run.stopped && npa_hush_unseen() < 0 ? fail() : 0;
}

/* CHOSEN: with the lock. AGAIN: the queue is another one by now. OVER: nothing is to run. FAILED:
 * with an exception. */
enum choice { CHOSEN, AGAIN, OVER, FAILED };

/* With the lock, which is given back. The program of what is chosen, planned perhaps; NULL for
 * NumPy's loops, as where the run goes on. False: with an exception. */
static bool find_or_plan(stage *s, uint64_t backend, bool going_on)
{
    s->program = going_on ? Py_NewRef(Py_None) : NULL;
    s->check = !going_on && npa_check_due();
    if (!going_on) {
        find_program(s->round > 0 ? s->round : s->requests, backend, s->check, &s->program,
                     &s->pending);
    }
    npa_unlock();
    if (s->program == NULL && s->pending != NULL) {
        s->program = npa_plan(s->pending, NULL);
    }
    if (!s->check || s->program == NULL) {
        Py_CLEAR(s->pending);
    }
    bool found = s->program != NULL;
    if (s->program == Py_None) {
        Py_CLEAR(s->program);
    }
    return found;
}

static enum choice choose(stage *s, uint64_t backend)
{
    npa_lock();
    /* Who waits for the lock gives up the GIL: another thread has recorded a pick. */
    bool again = npa_q.nrequests > 0 && npa_q.masked && !npa_q.run.stopped;
    if (npa_q.nrequests == 0 || again) {
        npa_unlock();
        return again ? AGAIN : OVER;
    }
    npa_collect_dead();
    s->seen = npa_q.generation;
    bool going_on = npa_q.run.stopped || npa_until_loops();
    s->requests = npa_next_to_run(s->rounds, &s->round);
    going_on |= s->requests > 0 && npa_cluster_wants(&npa_q, s->requests);
    if (s->requests == 0) {
        npa_unlock();
        return OVER;
    }
    if (!find_or_plan(s, backend, going_on)) {
        return FAILED;
    }
    npa_lock();
    if (npa_q.generation == s->seen) {
        return CHOSEN;
    }
    npa_unlock(); /* somebody else ran or added requests: the plan is kept for its own */
    Py_XDECREF(s->program), Py_XDECREF(s->pending);
    return AGAIN;
}

/* With the lock, which is given back, as is the GIL meanwhile. As npa_run_queue; the program is the
 * run's. */
static int run_stage(stage *s)
{
    npa_program *program = (npa_program *)s->program;
    int requests = s->requests, round = s->round;
    bool compiled = !npa_program_single(program);
    bool compared = round > 0 && compiled && npa_program_compares(program);
    requests = compared                ? npa_to_compare(round)
               : round > 0 && compiled ? round
                                       : npa_to_run_uncompiled(requests, round);
    npa_log_begin(s->check ? &s->log : NULL);
    bool alone = npa_alone();
    bool watched = !npa_program_brief(program) && npa_interrupts_begin();
    PyThreadState *mine = PyEval_SaveThread();
    if (s->check && npa_foreign_settle(false) == 0) {
        npa_contents_copy(&s->before, false);
    }
    int status = npa_run_queue(compared ? NULL : s->program, requests, compiled ? 0 : round, alone,
                               watched && !npa_q.urgent ? npa_interrupted : NULL, &s->interrupted);
    if (status == 0) {
        if (s->check) {
            npa_contents_copy(&s->after, true);
        }
        if (compared) {
            npa_program_note_baseline(program, npa_q.run.ns * (uint64_t)round / (uint64_t)requests);
        }
        status = npa_finish_run();
        npa_note_ran(requests, round, compiled, s->seen, s->rounds);
    }
    npa_log_end();
    npa_unlock();
    PyEval_RestoreThread(mine);
    if (watched) {
        npa_interrupts_end();
    }
    if (compared) {
        Py_DECREF(s->program);
    }
    return status;
}

/* What it leaves; in check mode it is compared. Its status. */
static int end_stage(stage *s, int status)
{
    if (s->check && status == 0) {
        status = npa_check_run(s->pending, &s->before, &s->after, &s->log) < 0 ? 1 : 0;
    }
    npa_contents_drop(&s->before), npa_contents_drop(&s->after), npa_log_drop(&s->log);
    Py_XDECREF(s->pending);
    npa_drop_garbage();
    if (status < 0 && !PyErr_Occurred()) {
        set_error();
    }
    return status;
}

static int end_flush(void)
{
    if (npa_device_trouble()) { /* its work was done on the host */
        PyObject *told = PyObject_CallMethod(npa_hook_plan, "device_failed", NULL);
        if (told == NULL) {
            return -1;
        }
        Py_DECREF(told);
    }
    npa_drop_garbage(); /* of evaluations that faults began */
    return npa_issue_warnings();
}

/* Memory did not suffice: runs in flight have some, or had (beside) when it was asked for, so it
 * goes on after them. *waited: it did. */
static bool waits_for_memory(int status, bool beside, bool *waited)
{
    beside |= npa_flights > 0;
    if (status >= 0 || *waited || !beside || &npa_q != &npa_recorded ||
        npa_copy_is_lost() || PyErr_Occurred()) {
        return false;
    }
    *waited = true;
    if (npa_flights_join(-1) < 0 && PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear(); /* whoever needs that run is told */
    }
    return true;
}

static int flush_queue(bool rounds)
{
    bool waited = false;
    while (npa_q.nrequests > 0 && npa_goes_on(rounds)) {
        stage s = {.rounds = rounds};
        uint64_t backend = npa_backend_here();
        if (settle_queue() < 0) {
            return -1;
        }
        enum choice next = choose(&s, backend);
        if (next == OVER) {
            break;
        }
        if (next == FAILED) {
            return fail();
        }
        if (next == AGAIN) {
            continue;
        }
        bool beside = npa_flights > 0;
        int status = run_stage(&s);
        bool again = waits_for_memory(status, beside, &waited);
        status = end_stage(&s, again ? 1 : status);
        if (s.interrupted && !PyErr_Occurred() && PyErr_CheckSignals() == 0 && status == 1) {
            continue; /* the handler raised nothing: the rest of the work is done after it */
        }
        if (again && !PyErr_Occurred()) {
            continue;
        }
        if (PyErr_Occurred()) {
            return -1; /* after an interrupt what was pending stays pending */
        }
    }
    return end_flush();
}

/* The first of them, whose program is known, has no GIL to ask for another; the others are looked
 * up. */
int npa_run_known(PyObject *program, poll_function poll)
{
    for (bool first = true; npa_q.nrequests > 0; first = false) {
        bool interrupted = false;
        npa_collect_dead();
        uint64_t seen = npa_q.generation;
        int round, requests = npa_next_to_run(false, &round);
        if (!first) {
            program = (PyObject *)npa_fault_find(round > 0 ? round : requests);
        }
        bool compiled = !npa_program_single((npa_program *)program);
        requests = round > 0 && compiled ? round : npa_to_run_uncompiled(requests, round);
        int status =
            npa_run_queue(program, requests, compiled ? 0 : round, false, poll, &interrupted);
        if (status != 0) {
            return status;
        }
        if (!first) {
            npa_fault_ran(npa_q.run.ns);
        }
        npa_finish_run(); /* what can't be shown stays hidden: who looks at it is told */
        npa_note_ran(requests, round, compiled, seen, false);
    }
    return 0;
}

/* Whether this program of the first requests may run without Python, beside the program; one that
 * is known to take less than that long is not worth handing over. */
static bool may_fly(const npa_program *program, int requests, uint64_t least_ns)
{
    bool whole = requests == npa_q.nrequests;
    uint64_t expected = npa_program_expected(program);
    return !(program != NULL && npa_program_foreign(program)) && (whole || npa_stores == NULL) &&
           !(whole && expected > 0 && expected < least_ns);
}

/* The program of what is recorded first, or NULL: that of NumPy's loops. *seen: for this
 * generation. */
static int plan_first(PyObject **program, int *requests, uint64_t *seen)
{
    PyObject *pending = NULL;
    uint64_t backend = npa_backend_here();
    int round;
    npa_lock();
    npa_collect_dead();
    if (!npa_run_hooks.settle_masks()) {
        npa_unlock();
        PyErr_NoMemory();
        return -1;
    }
    *seen = npa_q.generation, *program = NULL;
    *requests = npa_q.nrequests > 0 ? npa_next_to_run(false, &round) : 0;
    if (*requests > 0) {
        *requests = round > 0 ? round : *requests;
        find_program(*requests, backend, false, program, &pending);
    }
    npa_unlock();
    if (*program == NULL && pending != NULL) {
        *program = npa_plan(pending, NULL);
    }
    Py_XDECREF(pending);
    if (*program == NULL && *requests > 0) {
        return -1;
    }
    if (*program == Py_None) {
        Py_CLEAR(*program);
    }
    return 0;
}

/* A run in flight may begin, here and now. */
static bool may_launch(void)
{
    return npa_guard_on && !npa_check_mode && !npa_profiling && !npa_flights_ended() &&
           npa_here == NULL && npa_until < 0 && npa_stops == 0 && npa_stepping == 0 &&
           !npa_losses && !npa_match_inside() && &npa_q == &npa_recorded &&
           !npa_cluster_wants(&npa_q, npa_q.nrequests);
}

static int launch(uint64_t *flight, uint64_t least_ns)
{
    *flight = 0;
    while (npa_q.nrequests > 0) {
        PyObject *program;
        int requests;
        uint64_t seen;
        if (!may_launch() || npa_q.urgent || npa_q.run.stopped) {
            return npa_flush_recorded();
        }
        if (npa_hush_unseen() < 0 || npa_flights_room() < 0 ||
            plan_first(&program, &requests, &seen) < 0) {
            return -1;
        }
        npa_lock();
        bool same = requests > 0 && npa_q.generation == seen;
        bool flies = same && may_fly((npa_program *)program, requests, least_ns);
        *flight = flies ? npa_flight_begin(program) : 0;
        if (*flight != 0) { /* what is recorded now is another queue */
            npa_count.flights++;
            npa_q.serial = npa_next_serial();
            npa_change();
        }
        npa_unlock();
        if (*flight != 0) {
            return 0;
        }
        Py_XDECREF(program);
        if (same) {
            return npa_flush_recorded();
        }
    }
    return 0;
}

int npa_launch_recorded(uint64_t *flight, uint64_t least_ns)
{
    npa_suspended++;
    int status = launch(flight, least_ns);
    npa_suspended--;
    return status;
}

/* What runs here of Python is ours: its arrays are NumPy's. */
static int suspended_flush(bool rounds)
{
    int before = npa_now(NPA_RUNNING);
    int requests = npa_q.nrequests;
    double start = npa_seconds();
    npa_suspended++;
    npa_contention_begin();
    int status = flush_queue(rounds);
    npa_contention_end();
    npa_suspended--;
    npa_hinder_ran(requests - npa_q.nrequests, npa_seconds() - start);
    npa_match_settle();
    npa_now(before);
    return status;
}

int npa_flush_recorded(void) { return suspended_flush(false); }

int npa_flush(void)
{
    int status = npa_flush_recorded();
    return status < 0 || npa_flights == 0 ? status : npa_flights_join(-1);
}

int npa_flush_rounds(void)
{
    if (!npa_over_limit()) {
        return 0;
    }
    npa_run_because(NPA_FULL);
    int before = npa_q.nrequests, status = suspended_flush(true);
    if (npa_q.nrequests < before) {
        npa_autotune_full();
    }
    return status;
}

/* --------------------------------------------------------------------------- for Python */
