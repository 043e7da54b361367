/* running.c: what is recorded, or the first part of it, is run: by a program, or request by
 * request. */
#include "run/run.h"
#include "run/flush.h"
#include "run/group.h"
#include "run/slices.h"

#include <limits.h>
#include <string.h>

static bool same_place(const npa_request *r, npa_operand *a, npa_operand *b)
{
    return a->offset == b->offset && a->type == b->type &&
           memcmp(a->at, b->at, 8u * r->ndim) == 0;
}

/* An input that nobody sees and no later request reads gives its memory to the output, element for
 * element: a chain run request by request takes no second temporary. */
static npa_buffer *inherit(npa_request *r, int index, const int *last)
{
    int n = r->nin + r->nout;
    npa_operand *out = npa_operand_at(r, r->nin);
    npa_buffer *heir = npa_q.buffers[out->buffer < 0 ? 0 : out->buffer];
    if (r->rule->kind != NPA_MAP || r->axes || r->mask || r->nout != 1 || npa_q.repeatable ||
        out->buffer < 0 || heir->range == NULL || heir->range->work != NULL) {
        return NULL;
    }
    for (int k = 0; k < n; k++) {
        if (npa_operand_at(r, k)->type != r->rule->loop_type[k]) {
            return NULL; /* goes through a buffer, in an order of its own */
        }
    }
    for (int k = 0; k < r->nin; k++) {
        npa_operand *in = npa_operand_at(r, k);
        npa_buffer *b = in->buffer >= 0 ? npa_q.buffers[in->buffer] : NULL;
        bool fits = b != NULL && b->range != NULL && b->next == b && last[in->buffer] == index &&
                    b->size == heir->size && b->copy == NULL && heir->copy == NULL;
        for (int other = 0; fits && other < r->nin; other++) {
            npa_operand *o = npa_operand_at(r, other);
            fits = o->buffer != in->buffer || same_place(r, o, out);
        }
        char *content = fits ? b->range->work : NULL;
        if (content != NULL && npa_range_inherit(heir->range, b->range)) {
            b->range = NULL;
            b->gone = true;
            b->inherited = content;
            return b;
        }
    }
    return NULL;
}

/* Whether the request need not run: see unseen.c. why: NULL where all are to. */
static bool is_idle(const uint8_t *why, int i) { return why != NULL && why[i] == NPA_FOR_NOTHING; }

/* Per buffer the last request that uses it; -1: none that runs. */
static void find_last_uses(int *last, const uint8_t *why)
{
    for (int b = 0; b < npa_q.nbuffers; b++) {
        last[b] = -1;
    }
    for (int i = 0; i < npa_q.nrequests; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        bool idle = i < npa_q.run.requests && is_idle(why, i);
        for (int k = 0; !idle && k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            if (buffer >= 0) {
                last[buffer] = i;
            }
        }
    }
}

/* These requests have run. */
static void note_done(int first, int count, const int *last)
{
    npa_q.run.done = first + count;
    for (int i = first; i < first + count; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        npa_count.native_requests++;
        r->rule->touched++;
        for (int k = 0; k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            if (buffer >= 0 && last[buffer] == i) {
                npa_buffer_done(npa_q.buffers[buffer]);
            }
        }
    }
}

/* One request alone. 0, or -1: out of memory, and nothing was written. */
static int run_single(int index, const int *last, uint8_t *kinds)
{
    npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[index]);
    bool lost = npa_losses && npa_lost_request(&npa_q, index);
    npa_buffer *dead = lost ? NULL : inherit(r, index, last);
    int raised = lost ? 0 : npa_evaluate_request(&npa_q, index);
    if (raised < 0) {
        return -1; /* `dead` may be set: it is read there again */
    }
    if (dead != NULL) {
        dead->inherited = NULL;
    }
    kinds[index] = (uint8_t)raised;
    return 0;
}

/* The run's requests without a compiler: groups block by block, others by themselves. */
static int run_groups(const int *last, const uint8_t *why, npa_group *g, npa_tape *tape,
                      uint8_t *kinds, poll_function poll, bool *interrupted)
{
    while (npa_q.run.done < npa_q.run.requests) {
        int first = npa_q.run.done, count = 1, end = first, status;
        bool grouped = false;
        if (is_idle(why, first)) {
            npa_count.dead_requests++;
            npa_q.run.done++;
            continue;
        }
        while (end < npa_q.run.requests && !is_idle(why, end)) {
            end++;
        }
        if (npa_group_form(g, &npa_q, first, end, last)) {
            count = g->count;
            status = npa_group_lower(g, tape) < 0 ? -1 : npa_group_run(g, tape, kinds);
            grouped = true;
        } else {
            status = run_single(first, last, kinds);
        }
        if (status < 0) {
            return -1;
        }
        if (npa_profiling) {
            npa_profile_step(first, count, grouped ? NPA_STEP_BLOCKS : NPA_STEP_LOOP);
        }
        npa_log_request(&npa_q, first); /* in check mode a group is one */
        note_done(first, count, last);
        *interrupted = poll != NULL && poll(NULL);
        if (*interrupted && npa_q.run.done < npa_q.run.requests) {
            return 1;
        }
    }
    return 0;
}

static int run_once(uint8_t *kinds, poll_function poll, bool *interrupted)
{
    size_t buffers = (size_t)npa_q.nbuffers + 1;
    int *last = malloc(sizeof *last * buffers);
    npa_group *g = malloc(sizeof *g);
    int32_t *heads = malloc(sizeof *heads * buffers);
    uint8_t *why = npa_q.unread && !npa_check_mode ? malloc((size_t)npa_q.run.requests + 1) : NULL;
    npa_tape tape = {0};
    int status = -1;
    if (why != NULL) {
        /* Another queue may use what it makes, since it was planned */
        npa_mark_later(npa_q.run.requests);
    }
    if (why != NULL && !npa_find_unseen(&npa_q, npa_q.run.requests, why)) {
        free(why), why = NULL;
    }
    if (last != NULL && g != NULL && heads != NULL) {
        memset(heads, -1, sizeof *heads * buffers);
        g->heads = heads;
        find_last_uses(last, why);
        status = npa_q.run.sliced
            ? npa_run_slices(kinds, why, g, poll, interrupted)
            : run_groups(last, why, g, &tape, kinds, poll, interrupted);
    }
    npa_tape_free(&tape);
    free(last), free(g), free(heads), free(why);
    return status;
}

/* The run is done by a cluster's workers, where its data lives. */
static bool run_there(uint8_t *kinds)
{
    int requests = npa_q.run.requests;
    if (!npa_cluster_wants(&npa_q, requests)) {
        return false;
    }
    if (npa_profiling) {
        npa_profile_run(&npa_q, NULL, requests, true, true);
    }
    int64_t begin = npa_clock_ns();
    int before = npa_now(NPA_IN_KERNELS);
    bool done = npa_cluster_run(&npa_q, requests, kinds);
    npa_now(before);
    if (npa_profiling && done) {
        npa_profile_step(0, requests, NPA_STEP_KERNEL);
    }
    if (npa_profiling) {
        npa_profile_ran();
    }
    if (done) {
        npa_q.run.done = requests;
        npa_q.run.ns = (uint64_t)(npa_clock_ns() - begin);
    }
    return done;
}

static int go_on(uint8_t *kinds, poll_function poll, bool *interrupted)
{
    npa_program *program = (npa_program *)npa_q.run.program;
    bool whole = npa_q.run.done == 0;
    if (run_there(kinds)) {
        return 0;
    }
    if (npa_profiling) {
        npa_profile_run(&npa_q, program, npa_q.run.requests, npa_program_single(program), whole);
    }
    int64_t begin = npa_clock_ns();
    int status = npa_program_single(program)
        ? run_once(kinds, poll, interrupted)
        : npa_program_run(program, &npa_q, kinds, poll, NULL, interrupted, &npa_q.run.done);
    int64_t took = npa_clock_ns() - begin;
    bool tried = !npa_flying(); /* trials are of what the program waits for */
    if (npa_profiling) {
        npa_profile_ran();
    }
    if (whole && status == 0) {
        npa_q.run.ns = (uint64_t)took;
        npa_ledger_count(npa_program_ledger(program), npa_q.run.ns);
        if (program != NULL) {
            uint64_t of_round = npa_q.run.round > 0 ? npa_q.run.ns * (uint64_t)npa_q.run.round /
                                                          (uint64_t)npa_q.run.requests
                                                    : npa_q.run.ns;
            npa_program_note_time(program, of_round,
                                  npa_q.run.ns * (tried ? npa_autotune_weight() : 1));
        }
        /* Kernels': this run may have been disturbed */
        uint64_t best = npa_program_expected(program);
        if (tried) {
            npa_autotune_ran((uint64_t)npa_q.run.requests, best != 0 ? best : npa_q.run.ns,
                          npa_program_single(program),
                          program != NULL ? npa_program_baseline(program) : 0);
        }
    }
    return status;
}

/* The run, which has not begun, goes request by request. */
static void one_by_one(void)
{
    npa_drop_later(npa_q.run.program);
    npa_q.run.program = NULL;
}

/* From here on temporary arrays are computed piece by piece. False: so they are, or it is too late:
 * steps of a program are not requests. */
static bool save_memory(void)
{
    npa_run *r = &npa_q.run;
    bool may = !npa_check_mode && !r->sliced &&
               (npa_program_single((npa_program *)r->program) || r->done == 0);
    if (may) {
        one_by_one();
        if (r->done == 0) { /* what rounds to come use is no temporary array of one round's */
            r->requests = npa_q.nrequests, r->round = 0;
        }
        r->sliced = true, r->small = npa_slices_small();
        npa_count.sliced++;
    }
    return may;
}

/* To the end, again if somebody wrote meanwhile into what it read. With the lock; needs no GIL.
 * 0 done, -1 out of memory, 1 interrupted. */
static int run_to_end(bool alone, poll_function poll, bool *interrupted)
{
    uint8_t *kinds = calloc((size_t)npa_q.nrequests + 1, 1);
    npa_copy_lost(); /* what was not told was not needed */
    size_t room = npa_memory_room();
    if (npa_q.run.done == 0 &&
        npa_program_needs((npa_program *)npa_q.run.program, &npa_q, room) > room) {
        save_memory();
    }
    int status = kinds == NULL || npa_foreign_settle(alone) < 0 ? -1
                                                                : go_on(kinds, poll, interrupted);
    for (bool more = true; status < 0 && more && kinds != NULL && !npa_copy_is_lost();) {
        npa_nursery_trim(0); /* memory that only we could use */
        more = save_memory();
        status = npa_foreign_settle(alone) < 0 ? -1 : go_on(kinds, poll, interrupted);
    }
    while (status < 0 && npa_copy_lost()) { /* what does not need it runs */
        if (npa_q.run.done == 0) {
            one_by_one();
        }
        status = go_on(kinds, poll, interrupted);
    }
    while (status == 0 && npa_foreign_disturbed()) {
        npa_drop_later(npa_q.run.program);
        npa_q.run.program = NULL, npa_q.run.done = 0;
        status = npa_foreign_settle(alone) < 0 ? -1 : run_once(kinds, NULL, interrupted);
    }
    if (kinds != NULL) {
        npa_note_warnings(kinds);
    }
    free(kinds);
    return status;
}

/* Run what is pending; `program` (the run's from here on) and the number of `requests` that it is
 * for, perhaps each `round` of them, are those of a run that has not begun. As run_to_end; after 0,
 * npa_finish_run. */
int npa_run_queue(PyObject *program, int requests, int round, bool alone, poll_function poll,
                  bool *interrupted)
{
    if (npa_q.run.stopped) {
        npa_drop_later(program);
    } else {
        npa_q.run.program = program, npa_q.run.requests = requests, npa_q.run.round = round;
        npa_q.run.done = 0, npa_q.run.sliced = false;
        npa_q.run.moved = npa_count.moved;
        if (npa_losses && npa_lost_pending()) {
            one_by_one(); /* of requests that share a kernel some may need it */
        }
    }
    if (!npa_flying()) {
        npa_contention_expect(npa_program_expected((npa_program *)npa_q.run.program));
    }
    int status = run_to_end(alone, poll, interrupted);
    npa_q.run.failed =
        status < 0 ? npa_program_request((npa_program *)npa_q.run.program, npa_q.run.done) : -1;
    npa_q.run.stopped = status != 0 && npa_q.run.done > 0;
    if (status != 0 && !npa_q.run.stopped) {
        npa_drop_later(npa_q.run.program);
        npa_q.run.program = NULL;
    }
    return status;
}

int npa_finish_run(void)
{
    PyObject *program = npa_q.run.program;
    npa_q.run.program = NULL;
    npa_count.flushes++;
    return npa_finish_queue(program, npa_q.run.requests);
}

/* All that is pending, a run that stopped may have been for a part of it. Where there is no GIL, or
 * may be none. `program`: of a run that begins; NULL: NumPy's loops. False: out of memory. */
bool npa_run_everything(npa_program *program)
{
    bool interrupted = false;
    npa_collect_dead(); /* their pages serve the results */
    while (npa_q.nrequests > 0) {
        if (!npa_await_makers() || !npa_run_hooks.settle_masks()) {
            return false;
        }
        if (npa_q.nrequests == 0) {
            break; /* somebody else ran it meanwhile */
        }
        if (npa_run_queue((PyObject *)program, npa_q.nrequests, 0, false, NULL, &interrupted) !=
            0) {
            return false;
        }
        npa_finish_run();
        program = NULL;
    }
    return true;
}

bool npa_run_loops(void) { return npa_run_everything(NULL); }

/* On the evaluator's thread: what is pending, as a touch needs it; by its program where one is
 * known, see fault_evaluation.c. False: out of memory. */
bool npa_run_touched(void)
{
    if (!npa_await_makers()) {
        return false;
    }
    npa_count.fault_evaluations++;
    npa_contention_begin();
    npa_collect_dead(); /* the key says who is */
    if (!npa_run_hooks.settle_masks()) {
        npa_contention_end();
        return false;
    }
    npa_program *program = npa_q.run.stopped ? NULL : npa_fault_find(npa_q.nrequests);
    bool begun = !npa_q.run.stopped;
    int requests = npa_q.nrequests;
    if (npa_profiling) {
        npa_profile_touch();
    }
    int before = npa_now(NPA_RUNNING);
    double start = npa_seconds();
    bool done = npa_run_everything(program);
    uint64_t ns = (uint64_t)(1e9 * (npa_seconds() - start));
    npa_hinder_touched(requests, ns);
    npa_now(before);
    if (npa_profiling) {
        npa_profile_touched(ns);
    }
    if (done && begun) {
        npa_fault_ran(npa_q.run.ns);
    }
    npa_contention_end();
    return done;
}
