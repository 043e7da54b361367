/* program_run.c: runs the steps of a program: kernels, chains of them, and requests by NumPy's
 * loops. */
#include "run/run.h"
#include "run/program.h"
#include "run/group.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* What one set of arguments is for: the whole domain, or a part of it between cuts. */
typedef struct {
    const int64_t *words;
    int64_t band, inner, inner_tasks, first; /* first: number of its first task */
} box;

typedef struct {
    const step *s;
    const box *boxes;
    int nboxes;
    uint32_t *flags;
} launch;

static void run_task(void *context, int64_t task, int worker)
{
    launch *l = context;
    const step *s = l->s;
    const box *x = &l->boxes[l->nboxes - 1];
    while (x->first > task) {
        x--;
    }
    int64_t at = task - x->first;
    int64_t b = at / x->inner_tasks * s->band_step, i = at % x->inner_tasks * s->inner_step;
    int64_t b_end = b + s->band_step < x->band ? b + s->band_step : x->band;
    int64_t i_end = i + s->inner_step < x->inner ? i + s->inner_step : x->inner;
    int64_t range[4] = {s->band_low + b, s->band_low + b_end, s->inner_low + i,
                        s->inner_low + i_end};
    npa_step_call(s, x->words, range, worker, l->flags);
}

/* Puts its tasks behind those there are; returns how many there are then. */
static int64_t add_box(const step *s, box *x, const int64_t *words, int64_t band, int64_t inner,
                       int64_t first)
{
    int64_t inner_tasks = (inner + s->inner_step - 1) / s->inner_step;
    *x = (box){words, band, inner, inner_tasks, first};
    return first + (band + s->band_step - 1) / s->band_step * inner_tasks;
}

/* Where a box begins along the axis that `index` counts, and where the next one does; -1: there is
 * none. */
static int64_t cut_of(const step *s, int axis, int index)
{
    int64_t at = 0;
    for (int k = 0; k <= index; k++) {
        int64_t next = s->words[axis];
        for (int i = 0; i < s->nwraps; i++) {
            const wrap *w = &s->wraps[i];
            next = w->axis == axis && w->cut > at && w->cut < next ? w->cut : next;
        }
        if (k == index) {
            return at;
        }
        if (next == s->words[axis]) {
            return -1;
        }
        at = next;
    }
    return -1;
}

/* The words of the box that is the index-th along each axis; *band, *inner: what its grid is of. */
static void bind_box(const step *s, const int64_t *words, const int *index, int64_t *w,
                     int64_t *band, int64_t *inner)
{
    memcpy(w, words, 8 * (size_t)s->nwords);
    *band = *inner = 1;
    for (int d = 0; d < s->rank; d++) {
        int64_t begin = cut_of(s, d, index[d]), end = cut_of(s, d, index[d] + 1);
        w[d] = (end < 0 ? s->words[d] : end) - begin;
        *band *= d < s->band_rank ? w[d] : 1;
        for (int k = 0; k < s->narrays; k++) {
            int64_t *address = w + s->rank + k * (1 + s->rank);
            *address += begin * address[1 + d];
        }
        for (int i = 0; i < s->nwraps; i++) {
            const wrap *x = &s->wraps[i];
            w[s->rank + x->array * (1 + s->rank)] += x->axis == d && begin >= x->cut ? x->bytes : 0;
        }
    }
    if (s->inner > 1) { /* then it is one axis, which may be cut into tasks */
        *inner = w[s->rank - 1];
    }
}

/* The boxes of a step with wraps, and behind each other in `more` their words; NULL: counts them
 * only. *tasks: how many they have. Note [Boxes] */
static int make_boxes(const step *s, const int64_t *words, box *boxes, int64_t *more,
                      int64_t *tasks)
{
    int index[NPA_MAX_DIMS] = {0}, n = 0, axis = 0;
    *tasks = 0;
    while (axis >= 0) {
        if (boxes != NULL) {
            int64_t band, inner, *w = more + (int64_t)n * s->nwords;
            bind_box(s, words, index, w, &band, &inner);
            *tasks = add_box(s, &boxes[n], w, band, inner, *tasks);
        }
        n++;
        for (axis = s->rank - 1; axis >= 0 && cut_of(s, axis, ++index[axis]) < 0; axis--) {
            index[axis] = 0;
        }
    }
    return n;
}

/* The host's code: 0, 1 if it was cancelled, or -1: out of memory. */
static int run_here(const step *s, int64_t *words, uint32_t *flags, int (*poll)(void *), void *arg,
                    int64_t *took)
{
    box whole, *boxes = &whole;
    int64_t tasks = 0, *more = NULL;
    int n = 1;
    if (s->nwraps == 0) {
        tasks = add_box(s, &whole, words, s->band, s->inner, 0);
    } else {
        n = make_boxes(s, words, NULL, NULL, &tasks);
        boxes = malloc((size_t)n * (sizeof *boxes + 8 * (size_t)s->nwords));
        if (boxes == NULL) {
            return -1;
        }
        more = (int64_t *)(boxes + n);
        make_boxes(s, words, boxes, more, &tasks);
    }
    launch l = {.s = s, .boxes = boxes, .nboxes = n, .flags = flags};
    int status = npa_pool_run_polled(run_task, &l, tasks, poll, arg, took);
    if (more != NULL) {
        free(boxes);
    }
    if (status == 0 && s->finish != NULL) {
        npa_step_finish(s, words, flags);
    }
    return status;
}

/* poll: NULL where it is carried to its end. */
typedef struct {
    const step *s;
    uint32_t *flags;
    int (*poll)(void *);
    void *arg;
} part_run;

static bool run_part_here(void *context, int64_t *words, const npa_device_grid *grid)
{
    part_run *r = context;
    step part = *r->s;
    if (grid == NULL) {
        npa_step_finish(&part, words, r->flags);
        return true;
    }
    part.band = grid->band, part.inner = grid->inner;
    part.band_low = grid->band_low, part.inner_low = grid->inner_low;
    part.finish = NULL; /* when all parts are through */
    return run_here(&part, words, r->flags, r->poll, r->arg, &part.took) == 0;
}

/* With the host's memory. */
static enum npa_ran run_shared(const step *s, npa_queue *q, int64_t *words, char *partials,
                               uint32_t *flags)
{
    npa_device *d = s->device;
    bool begun = false;
    if (npa_device_run(d, words, &s->device_grid, partials, flags, false, &begun) == 0) {
        return NPA_THERE;
    }
    if (begun && npa_writes_over(q, s->accesses, d->narrays)) {
        npa_lost_results(q, s->accesses, d->narrays, d->store);
        return NPA_LOST;
    }
    return NPA_HOST_MUST;
}

/* With memory of its own. */
static enum npa_ran run_apart(const step *s, const step *next, npa_launch *l, part_run *here)
{
    npa_device *d = s->device;
    const npa_device *after = next != NULL ? next->device : NULL;
    bool same = after != NULL && after->store == d->store && !after->failed;
    l->ahead = same ? next->accesses : NULL, l->nahead = same ? after->narrays : 0;
    here->poll = NULL; /* a part that the device began is carried to its end */
    enum npa_ran ran = npa_store_run(d, l);
    return ran == NPA_HOST_MUST ? npa_tiling_run(d, l, s->may_cut, run_part_here, here) : ran;
}

/* Trials of a step: the first ones show what each side does. */
static const npa_choice_rules divisions = {.first = 2, .turn = 1, .kept = 32, .most = {1024, 256}};

/* Whether it is divided this time. */
static bool divides(step *s)
{
    return npa_divide == NPA_DIVIDE_ALL ||
           (npa_divide == NPA_DIVIDE_TRIED && s->device->host_memory &&
            npa_choice_way(&s->division, &divisions) == NPA_WAY_OTHER);
}

/* It went so, and took so long. */
static void note_division(step *s, bool divided, enum npa_ran ran, uint64_t ns)
{
    bool compared = ran == (divided ? NPA_DIVIDED : NPA_THERE);
    enum npa_way way = divided ? NPA_WAY_OTHER : NPA_WAY_USUAL;
    if (npa_divide == NPA_DIVIDE_TRIED && s->device->host_memory &&
        npa_choice_took(&s->division, &divisions, way, ns, compared)) {
        npa_choice_decide(&s->division, &divisions, true);
    }
}

/* On the step's device, or there and here; the evaluator's thread never asks. */
static enum npa_ran run_there(step *s, const step *next, npa_queue *q, int64_t *words,
                              char *partials, part_run *here)
{
    npa_device *d = npa_guard_evaluates() ? NULL : s->device;
    if (d == NULL || npa_step_bind(s, q, words, partials, !d->host_memory) != 0) {
        return NPA_HOST_MUST;
    }
    npa_launch l = {.q = q,
                    .accesses = s->accesses,
                    .words = words,
                    .grid = s->device_grid,
                    .partial_bytes = s->partial_bytes,
                    .partials = partials,
                    .flags = here->flags,
                    .nslots = s->nslots};
    enum npa_ran ran = NPA_HOST_MUST;
    bool divided = divides(s);
    int64_t began = npa_clock_ns();
    if (divided) {
        ran = npa_divided_run(d, &l, s->may_cut, run_part_here, here, &s->shares);
    }
    if (ran == NPA_HOST_MUST) {
        ran = d->host_memory ? run_shared(s, q, words, partials, here->flags)
                             : run_apart(s, next, &l, here);
    }
    note_division(s, divided, ran, (uint64_t)(npa_clock_ns() - began));
    if (ran != NPA_HOST_MUST) {
        npa_spread_place(q, s->accesses, d->narrays);
    }
    return ran;
}

static void count_run(const step *s, int owner)
{
    npa_count.launches[owner]++;
    npa_count.bytes_read += s->bytes_read;
    npa_count.bytes_written += s->bytes_written;
    npa_count.kernel_requests += (uint64_t)s->nrequests;
}

/* 0 done, -1 out of memory and nothing done, 1 cancelled. */
static int run_kernel(step *s, const step *next, npa_queue *q, uint8_t *kinds,
                      int (*poll)(void *), void *arg, enum npa_ran *ran)
{
    int64_t *words = malloc(8 * (size_t)(s->nwords + 2));
    uint32_t *flags = calloc((size_t)s->nslots + 1, sizeof *flags);
    char *partials = s->partial_bytes ? npa_aligned(64, s->partial_bytes)
                                      : NULL;
    int status = -1, before = npa_now(NPA_IN_KERNELS);
    bool ready = words != NULL && flags != NULL && (partials != NULL || !s->partial_bytes) &&
                 npa_step_reserve(s->scratch_bytes + 64);
    part_run here = {s, flags, poll, arg};
    *ran = ready ? run_there(s, next, q, words, partials, &here) : NPA_HOST_MUST;
    bool there = *ran != NPA_HOST_MUST;
    if (there || (ready && npa_step_bind(s, q, words, partials, false) == 0)) {
        int64_t took = s->took; /* others may run it meanwhile */
        if (!there) {
            npa_compute_begin();
            status = run_here(s, words, flags, poll, arg, &took);
            npa_compute_end();
            s->took = took;
        } else {
            status = *ran == NPA_STOPPED;
        }
        for (int i = 0; i < s->nslots; i++) {
            kinds[s->slots[i]] |= (uint8_t)flags[i];
        }
        count_run(s, s->device == NULL || there ? s->owner : 0);
    }
    npa_now(before);
    free(words), free(flags), npa_aligned_free(partials);
    return status;
}

/* What explain() says of how the step ran. */
static uint8_t told(const step *s, enum npa_ran ran)
{
    return s->device == NULL || ran == NPA_THERE ? DONE_THERE
           : ran == NPA_IN_PARTS                 ? IN_PARTS
           : ran == NPA_DIVIDED                  ? DIVIDED
           : npa_guard_evaluates()               ? WAS_TOUCHED
           : s->device->failed                   ? LAUNCH_FAILED
                                                 : NO_ROOM;
}

/* Whether it needs what was lost with a device. Then all that it writes is: what is fused with such
 * a request can't be computed alone any more. */
static bool step_is_lost(const step *s, npa_queue *q)
{
    if (s->request >= 0) {
        return npa_lost_request(q, s->request);
    }
    bool lost = false;
    for (int i = 0; i < s->npatches && !lost; i++) {
        lost = s->patches[i].kind == PATCH_ADDRESS &&
               npa_lost_step(q, &s->patches[i].a, 1, s->writes, s->nwrites);
    }
    return lost;
}

/* Whether it writes over what was there, perhaps by an earlier step: it can't be done twice. */
static bool writes_content(const step *s, npa_queue *q)
{
    bool content = false;
    for (int i = 0; i < s->nwrites; i++) {
        const npa_buffer *b = q->buffers[s->writes[i]];
        content |= !b->fresh || (b->range != NULL && b->range->work != NULL);
    }
    return content;
}

/* Where NumPy's loop has other bits than ours, it is one of ours; but for underflow, which only
 * NumPy's tells. */
static bool goes_by_blocks(const npa_request *r)
{
    enum { OF_UNDERFLOW = 3 << 4 };
    return r->rule->kind == NPA_MAP && r->rule->own == NPA_UFUNC &&
           (!r->rule->inexact || (npa_has_primitive(r) && !(r->errstate & OF_UNDERFLOW)));
}

/* A request that no kernel has: in blocks on all threads where it is a loop over elements, as where
 * nothing is compiled, so its bits are the same. Kinds raised; -1: no memory. */
static int run_loop(npa_queue *q, int index, uint8_t *kinds)
{
    const npa_request *r = (const npa_request *)(q->arena + q->at[index]);
    size_t buffers = (size_t)q->nbuffers + 1;
    if (!goes_by_blocks(r)) {
        return npa_evaluate_request(q, index);
    }
    npa_group *g = malloc(sizeof *g);
    int *last = malloc(sizeof *last * buffers);
    int32_t *heads = malloc(sizeof *heads * buffers);
    npa_tape tape = {0};
    int status = -1;
    bool formed = false;
    if (g != NULL && last != NULL && heads != NULL) {
        memset(heads, -1, sizeof *heads * buffers);
        for (size_t k = 0; k < buffers; k++) {
            last[k] = INT_MAX; /* what it writes is stored, whoever sees it */
        }
        g->heads = heads;
        formed = npa_group_form(g, q, index, index + 1, last);
        status = formed && npa_group_lower(g, &tape) == 0 ? npa_group_run(g, &tape, kinds) : -1;
    }
    npa_tape_free(&tape);
    free(g), free(last), free(heads);
    return formed ? status : npa_evaluate_request(q, index);
}

/* Steps from number i on that run together; how many they are; -1: cancelled. */
static int run_chain(npa_program *program, int i, npa_queue *q, uint8_t *kinds, int (*poll)(void *),
                     void *arg)
{
    step *s = &program->steps[i];
    bool content[NPA_LONGEST_CHAIN];
    if (s->request >= 0 || s->chain_took < 0 || npa_losses) {
        return 0;
    }
    for (int k = 0; poll != NULL && k < NPA_LONGEST_CHAIN; k++) { /* before they get memory */
        content[k] = i + k < program->nsteps && writes_content(s + k, q);
    }
    int before = npa_now(NPA_IN_KERNELS), n = 0;
    npa_chain *chain = npa_chain_form(s, program->nsteps - i, q);
    if (chain == NULL) {
        s->chain_took = -1;
    } else {
        n = npa_chain_length(chain);
        int64_t took = s->chain_took; /* others may run it meanwhile */
        for (int k = 0; poll != NULL && k < n; k++) {
            poll = content[k] || npa_chain_lasts(chain) ? NULL : poll;
        }
        npa_compute_begin();
        int status = npa_chain_run(chain, &took, kinds, poll, arg);
        npa_compute_end();
        if (status == 1) {
            npa_now(before);
            return -1;
        }
        s->chain_took = took;
        npa_count.chained_kernels += (uint64_t)n;
        for (int k = 0; k < n; k++) {
            count_run(&s[k], 0);
        }
    }
    npa_now(before);
    return n;
}

static void give_back(const step *s, npa_queue *q)
{
    for (int k = 0; k < s->nreleases; k++) {
        npa_buffer_done(q->buffers[s->releases[k]]);
    }
}

/* A request by its loop. -1: no memory. */
static int run_request(npa_queue *q, int request, uint8_t *kinds)
{
    int status = run_loop(q, request, kinds);
    npa_log_request(q, request);
    npa_count.native_requests++;
    ((npa_request *)(q->arena + q->at[request]))->rule->looped++;
    if (status > 0) {
        kinds[request] |= (uint8_t)status;
    }
    return status;
}

/* Step number i, a kernel's; one that writes over what was there is carried to its end. As
 * run_kernel. */
static int run_kernel_step(npa_program *program, int i, npa_queue *q, uint8_t *kinds,
                           int (*poll)(void *), void *arg)
{
    step *s = &program->steps[i];
    enum npa_ran ran = NPA_HOST_MUST;
    const step *next = i + 1 < program->nsteps ? s + 1 : NULL;
    int status = run_kernel(s, next, q, kinds, writes_content(s, q) ? NULL : poll, arg, &ran);
    s->missed = told(s, ran);
    program->missed |= NO_ROOM <= s->missed && s->missed <= WAS_TOUCHED;
    return status;
}

/* Whether a step's result can be on its device as a whole; else all parts of it come here. */
static bool stays_there(const step *s, const npa_buffer *b)
{
    return s->device != NULL && !s->device->host_memory && !s->device->failed &&
           b->size <= npa_store_limit(s->device->store) / 2;
}

/* Bytes that what a step makes needs here. counted: the buffers of which that is so. */
static size_t made_by(const step *s, const npa_queue *q, bool *counted)
{
    size_t bytes = 0;
    npa_request *r = s->request >= 0 ? (npa_request *)(q->arena + q->at[s->request]) : NULL;
    int n = r != NULL ? r->nout : s->nwrites;
    for (int k = 0; k < n; k++) {
        int i = r != NULL ? npa_operand_at(r, r->nin + k)->buffer : s->writes[k];
        const npa_buffer *b = i >= 0 && !counted[i] ? q->buffers[i] : NULL;
        if (b != NULL && b->range != NULL && b->range->work == NULL && b->copy == NULL &&
            !stays_there(s, b)) {
            counted[i] = true;
            bytes += b->range->span;
        }
    }
    return bytes;
}

/* Bytes of all that is written, at most; mostly there is room for them. */
static size_t written_in_all(const npa_program *program, const npa_queue *q)
{
    size_t bytes = 0;
    for (int i = 0; i < program->nsteps; i++) {
        const step *s = &program->steps[i];
        npa_request *r = s->request >= 0 ? (npa_request *)(q->arena + q->at[s->request]) : NULL;
        for (int k = 0; k < (r != NULL ? r->nout : s->nwrites); k++) {
            int b = r != NULL ? npa_operand_at(r, r->nin + k)->buffer : s->writes[k];
            npa_range *range = b >= 0 && q->buffers[b] != NULL ? q->buffers[b]->range : NULL;
            bytes += range != NULL ? range->span : 0;
        }
    }
    return bytes;
}

size_t npa_program_needs(const npa_program *program, const npa_queue *q, size_t room)
{
    size_t now = 0, most = 0;
    if (npa_program_single(program) || written_in_all(program, q) <= room) {
        return 0;
    }
    bool *counted = calloc((size_t)q->nbuffers + 1, 1);
    for (int i = 0; counted != NULL && i < program->nsteps; i++) {
        const step *s = &program->steps[i];
        now += made_by(s, q, counted);
        most = now > most ? now : most;
        for (int k = 0; k < s->nreleases; k++) {
            const npa_buffer *b = q->buffers[s->releases[k]];
            now -= counted[s->releases[k]] && b->range != NULL ? b->range->span : 0;
            counted[s->releases[k]] = false;
        }
    }
    free(counted);
    return most;
}

int npa_program_run(npa_program *program, npa_queue *q, uint8_t *kinds, int (*poll)(void *),
                    void *arg, bool *interrupted, int *done)
{
    for (int i = *done; i < program->nsteps; i++) {
        step *s = &program->steps[i];
        *done = i;
        int status = 0, together = run_chain(program, i, q, kinds, poll, arg);
        if (together < 0) {
            *interrupted = true;
            return 1;
        }
        if (together > 0) {
            for (int k = 1; k < together; k++, i++, s++) {
                give_back(s, q);
            }
        } else if (npa_losses && step_is_lost(s, q)) {
            /* what it writes is lost, too */
        } else if (s->request >= 0) {
            status = run_request(q, s->request, kinds);
        } else if ((status = run_kernel_step(program, i, q, kinds, poll, arg)) == 1) {
            *interrupted = true;
            return 1;
        }
        if (status < 0) {
            return -1;
        }
        if (npa_profiling) {
            npa_profile_step(i, together > 0 ? together : 1,
                             s->request >= 0 ? NPA_STEP_LOOP : NPA_STEP_KERNEL);
        }
        give_back(s, q);
        *done = i + 1;
        *interrupted = poll != NULL && poll(arg);
        if (*interrupted && *done < program->nsteps) {
            return 1;
        }
    }
    npa_count.dead_requests += program->dropped;
    return 0;
}
