/* resident.c: devices with memory of their own; what of a buffer lies there.
 *
 *     host    |#######........######|    right but for `newer`
 *     device  |...###############...|    right in `valid`; `newer` is part of it
 *
 * A buffer whose newest bytes lie on a device is hidden, as a pending one is: whoever touches it
 * has them brought back, natively. A run moves what its kernels use there and leaves it there; the
 * host's code for a buffer (npa_buffer_address) brings it back first. What is shown to anybody has
 * no copy on a device, since it could be written unseen. All with the lock. */
#include "place/channel.h"

#include <stdlib.h>
#include <string.h>

struct npa_place_hooks npa_place_hooks;

static npa_span hull(npa_span a, npa_span b)
{
    return npa_span_empty(a) ? b
           : npa_span_empty(b)
               ? a
               : (npa_span){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

bool npa_copies_exist(void)
{
    const npa_store *s = npa_stores;
    while (s != NULL && s->copies == NULL) {
        s = s->next;
    }
    return s != NULL;
}

/* --------------------------------------------------------------------------------- memory there */

static void release(npa_store *s, npa_piece p)
{
    ((release_function *)s->functions[RELEASE])(p.memory);
    s->used -= p.size;
}

void npa_piece_give(npa_store *s, npa_piece p)
{
    if (p.memory == NULL || !npa_store_here(s)) {
        return;
    }
    if (s->channel != NULL) { /* a piece there is one array's */
        release(s, p);
        return;
    }
    if (s->nfree == MOST_FREE) {
        release(s, s->free[0]);
        memmove(s->free, s->free + 1, sizeof *s->free * (size_t)--s->nfree);
    }
    s->free[s->nfree++] = p;
}

static void drop(struct npa_copy *c)
{
    npa_piece_give(c->store, c->at);
    *(c->before != NULL ? &c->before->after : &c->store->copies) = c->after;
    if (c->after != NULL) {
        c->after->before = c->before;
    }
    c->buffer->copy = NULL;
    if (c->buffer->range != NULL) { /* from here on it may be written where it lies */
        npa_range_hide_parts(c->buffer->range);
    }
    if (c->store->channel != NULL ? c->store->channel->closed : !c->store->wanted) {
        npa_store_leave(c->store);
    }
    free(c);
}

/* Why something comes home while no Python can say which line it is for. Under the lock. */
static enum npa_home why_home = NPA_HOME_STEP;

enum npa_home npa_home_because(enum npa_home why)
{
    enum npa_home before = why_home;
    why_home = why;
    return before;
}

/* What was used longest ago goes back to the host. False: there is none but the launch's own. */
static bool evict(npa_store *s)
{
    struct npa_copy *oldest = NULL;
    for (struct npa_copy *c = s->copies; c != NULL; c = c->after) {
        if (c->used != s->launches && (oldest == NULL || c->used < oldest->used)) {
            oldest = c;
        }
    }
    enum npa_home before = npa_home_because(NPA_HOME_ROOM);
    bool home = oldest != NULL && npa_copy_home(oldest->buffer);
    npa_home_because(before);
    npa_count.evictions += home;
    return home;
}

void npa_store_trim(npa_store *s)
{
    while (s->nfree > 0) {
        release(s, s->free[--s->nfree]);
    }
}

bool npa_store_make_room(npa_store *s)
{
    if (s->nfree > 0) {
        release(s, s->free[--s->nfree]);
        return true;
    }
    return evict(s);
}

static bool reuse(npa_store *s, npa_piece *p)
{
    for (int i = s->nfree; i-- > 0;) {
        if (s->free[i].size >= p->size && s->free[i].size - p->size <= p->size / SLACK) {
            *p = s->free[i];
            memmove(s->free + i, s->free + i + 1, sizeof *s->free * (size_t)(--s->nfree - i));
            return true;
        }
    }
    return false;
}

npa_piece npa_piece_take(npa_store *s, size_t size)
{
    npa_piece p = {NULL, npa_piece_size(size)};
    while (p.size <= s->limit && p.size <= s->largest && !reuse(s, &p)) {
        int32_t error = NO_OBJECT;
        if (s->used + p.size <= s->limit && !npa_device_injected_room(s->used + p.size)) {
            p.memory = ((create_function *)s->functions[CREATE])(s->context, READ_WRITE, p.size,
                                                                 NULL, &error);
        }
        if (error == 0) {
            s->used += p.size;
            break;
        }
        p.memory = NULL;
        if (!npa_store_make_room(s)) {
            break;
        }
    }
    return p;
}

/* --------------------------------------------------------------------------------- moving */

static bool upload(struct npa_copy *c, size_t low, size_t high)
{
    char *host = npa_buffer_pages(c->buffer);
    return host != NULL &&
           npa_store_write(c->store, c->at.memory, low, high - low, host + low) == 0;
}

bool npa_host_has(const npa_buffer *b)
{
    return b->range != NULL ? b->range->work != NULL : b->gone || !b->fresh;
}

/* `need` becomes right on the device; and what lies between it and what was. */
static bool bring(struct npa_copy *c, npa_span need)
{
    npa_span all = hull(c->valid, need), old = c->valid;
    if (npa_host_has(c->buffer)) {
        if (npa_span_empty(old)) {
            old = (npa_span){all.high, all.high};
        }
        if ((all.low < old.low && !upload(c, all.low, old.low)) ||
            (old.high < all.high && !upload(c, old.high, all.high))) {
            return false;
        }
    }
    c->valid = all;
    return true;
}

static bool lost; /* the last one that was to come home could not */

bool npa_copy_is_lost(void) { return lost; }

bool npa_copy_lost(void)
{
    bool was = lost;
    lost = false;
    return was;
}

npa_store *npa_copy_store(const npa_buffer *b) { return b->copy != NULL ? b->copy->store : NULL; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* `newer`, but what may be read at home already. */
static int32_t read_home(struct npa_copy *c, char *host)
{
    const npa_range *range = c->buffer->range;
    int32_t error = npa_device_injected_read();
    for (size_t at = c->newer.low; error == 0 && at < c->newer.high;) {
        npa_span part = {c->newer.high, c->newer.high};
        if (range != NULL && npa_range_part(range, at, &part.low, &part.high)) {
            part.low = part.low < at ? at : least(part.low, c->newer.high);
            part.high = least(part.high, c->newer.high);
        }
        if (at < part.low) {
            error = npa_store_read(c->store, c->at.memory, at, part.low - at, host + at);
        }
        if (!npa_span_empty(part)) {
            memcpy(host + part.low, range->home + part.low, npa_span_length(part));
        }
        at = part.high;
    }
    return error;
}

bool npa_copy_home(npa_buffer *b)
{
    struct npa_copy *c = b->copy;
    if (b->lost != NULL) {
        lost = true;
        return false;
    }
    if (c == NULL) {
        return true;
    }
    if (!npa_span_empty(c->newer)) {
        char *host = npa_buffer_pages(b);
        double begin = npa_seconds();
        uint64_t before = npa_count.moved.bytes_down;
        if (host == NULL) {
            return false;
        }
        if (!npa_store_here(c->store) || read_home(c, host) != 0) {
            lost = npa_losses = b->unreachable = true;
            return false;
        }
        c->store->homes[why_home].calls++;
        c->store->homes[why_home].bytes += npa_count.moved.bytes_down - before;
        npa_place_hooks.came_home(b->serial, (uint64_t)(1e9 * (npa_seconds() - begin)));
        b->fresh &= b->range != NULL; /* what a section computes with has content from here on */
    }
    drop(c);
    b->unreachable = false;
    return true;
}

void npa_copy_drop(npa_buffer *b)
{
    if (b->copy != NULL) {
        drop(b->copy);
    }
    b->unreachable = false;
}

bool npa_copy_stays(npa_buffer *b)
{
    return b->copy != NULL && b->range != NULL && b->range->work != b->range->home &&
           !b->exported && npa_guard_on && !npa_check_mode;
}

void npa_copies_home(void)
{
    enum npa_home before = npa_home_because(NPA_HOME_ALL);
    for (npa_store *s = npa_stores; s != NULL; s = s->next) {
        for (struct npa_copy *c = s->copies, *after; c != NULL; c = after) {
            after = c->after;
            npa_copy_home(c->buffer);
        }
    }
    npa_home_because(before);
}

static struct npa_copy *copy_of(npa_store *s, npa_buffer *b)
{
    if (b->lost != NULL || (b->copy != NULL && b->copy->store != s && !npa_copy_home(b))) {
        return NULL;
    }
    if (b->copy == NULL) {
        struct npa_copy *c = calloc(1, sizeof *c);
        npa_piece p = c != NULL ? npa_piece_take(s, b->size) : (npa_piece){NULL, 0};
        if (p.memory == NULL) {
            free(c);
            return NULL;
        }
        *c = (struct npa_copy){.store = s, .buffer = b, .at = p, .after = s->copies};
        if (s->channel != NULL) {
            npa_channel_describe(p.memory, b->size, b->map);
        }
        if (c->after != NULL) {
            c->after->before = c;
        }
        s->copies = b->copy = c;
    }
    b->copy->used = s->launches;
    b->copy->looked = 0;
    return b->copy;
}

/* --------------------------------------------------------------------------------- launching */

static npa_span span_of(const npa_access *a, const npa_buffer *b)
{
    return (npa_span){(size_t)a->low, a->high < 0 ? b->size : (size_t)a->high};
}

bool npa_store_bring(npa_store *s, npa_queue *q, const npa_access *accesses, int n)
{
    s->launches++;
    for (int k = 0; k < n; k++) { /* these are not to make room for each other */
        npa_buffer *b = q->buffers[accesses[k].buffer];
        if (b->copy != NULL && b->copy->store == s) {
            b->copy->used = s->launches;
        }
    }
    for (int k = 0; k < n; k++) {
        npa_buffer *b = q->buffers[accesses[k].buffer];
        struct npa_copy *c = b->inherited == NULL ? copy_of(s, b) : NULL;
        if (c == NULL || !bring(c, span_of(&accesses[k], b))) {
            return false;
        }
    }
    return true;
}

static bool uses(const npa_access *accesses, int n, int32_t buffer)
{
    for (int k = 0; k < n; k++) {
        if (accesses[k].buffer == buffer) {
            return true;
        }
    }
    return false;
}

/* While a kernel runs: what the next one reads and this one does not use moves there, if there is
 * room anyway. */
static void bring_ahead(npa_store *s, npa_queue *q, const npa_access *accesses, int n,
                        const npa_access *ahead, int nahead)
{
    for (int k = 0; k < nahead; k++) {
        npa_buffer *b = q->buffers[ahead[k].buffer];
        npa_span need = span_of(&ahead[k], b);
        bool elsewhere = b->copy != NULL ? b->copy->store != s
                                         : s->used + b->size + GRAIN > s->limit;
        if (elsewhere || b->inherited != NULL || b->gone || b->lost != NULL || !npa_host_has(b) ||
            uses(accesses, n, ahead[k].buffer)) {
            continue;
        }
        uint64_t before = npa_count.uploads;
        struct npa_copy *c = copy_of(s, b);
        if (c != NULL && bring(c, need)) {
            npa_count.uploads_ahead += npa_count.uploads - before;
        }
    }
}

static bool own_memory(npa_store *s, const size_t *sizes)
{
    for (int k = 0; k < AUXILIARY; k++) {
        if (s->own[k].size < sizes[k] || s->own[k].memory == NULL) {
            npa_piece_give(s, s->own[k]);
            s->own[k] = npa_piece_take(s, sizes[k]);
            if (s->own[k].memory == NULL) {
                s->own[k].size = 0;
                return false;
            }
        }
    }
    return true;
}

/* The data stays until the queue is finished: nobody waits here. */
static int32_t write_own(npa_store *s, int which, const void *data, size_t size)
{
    return size == 0 ? 0
                     : ((write_function *)s->functions[WRITE])(s->queue, s->own[which].memory, 0, 0,
                                                               size, data, 0, NULL, NULL);
}

/* All that was asked for is done then. Of the two ways to wait for it the blocking read takes a
 * third of the time with NVIDIA's driver. */
static int32_t finish_with(npa_store *s, int which, void *data, size_t size)
{
    int32_t read = size == 0
        ? 0
        : ((read_function *)s->functions[READ])(s->queue, s->own[which].memory, 1, 0, size, data, 0,
                                                NULL, NULL);
    int32_t over = ((finish_function *)s->functions[FINISH])(s->queue);
    return read != 0 ? read : over;
}

/* A blocking write returns when the driver has taken the bytes, perhaps before they are there:
 * kernels, which run in another queue, wait for that. */
static int32_t arrive(npa_store *s)
{
    int32_t error = s->moving ? ((finish_function *)s->functions[FINISH])(s->transfers) : 0;
    s->moving = error != 0;
    return error;
}

static int32_t launch(npa_device *d, void *kernel, void *const *memories, const int64_t *words,
                      size_t groups)
{
    npa_store *s = d->store;
    set_function *set = (set_function *)s->functions[SET];
    int32_t error = write_own(s, WORDS, words, 8 * (size_t)(d->nwords + NPA_DEVICE_WORDS));
    for (uint32_t k = 0; error == 0 && k < AUXILIARY; k++) {
        error = set(kernel, k, sizeof(void *), &s->own[k].memory);
    }
    for (int k = 0; error == 0 && k < d->narrays; k++) {
        error = set(kernel, (uint32_t)(AUXILIARY + k), sizeof(void *), &memories[k]);
    }
    size_t items = groups * d->group_size;
    return error != 0 ? error
                      : ((enqueue_function *)s->functions[ENQUEUE])(
                            s->queue, kernel, 1, NULL, &items, &d->group_size, 0, NULL, NULL);
}

static void own_sizes(const npa_device *d, const npa_launch *l, size_t *sizes)
{
    sizes[WORDS] = 8 * (size_t)(d->nwords + NPA_DEVICE_WORDS);
    sizes[SCRATCH] = npa_device_groups(d, &l->grid) * l->grid.scratch_bytes;
    sizes[PARTIALS] = l->partial_bytes, sizes[FLAGS] = sizeof *l->flags * (size_t)l->nslots;
}

size_t npa_store_own(const npa_device *d, const npa_launch *l)
{
    size_t sizes[AUXILIARY], all = 0;
    own_sizes(d, l, sizes);
    for (int k = 0; k < AUXILIARY; k++) {
        size_t needed = npa_piece_size(sizes[k]);
        all += needed > d->store->own[k].size ? needed : d->store->own[k].size;
    }
    return all;
}

/* What another launch left of its own memory, and this one does not need. */
static void give_own(const npa_device *d, const npa_launch *l)
{
    size_t sizes[AUXILIARY];
    npa_store *s = d->store;
    own_sizes(d, l, sizes);
    for (int k = 0; k < AUXILIARY; k++) {
        if (s->own[k].size > npa_piece_size(sizes[k])) {
            npa_piece_give(s, s->own[k]);
            s->own[k] = (npa_piece){NULL, 0};
        }
    }
}

int32_t npa_store_compute(npa_device *d, const npa_launch *l, void *const *memories, bool *begun)
{
    npa_store *s = d->store;
    size_t sizes[AUXILIARY], groups = npa_device_groups(d, &l->grid);
    own_sizes(d, l, sizes);
    int64_t *own = malloc(2 * sizes[WORDS] + sizes[FLAGS]); /* of both kernels */
    if (own == NULL || !own_memory(s, sizes)) {
        free(own);
        return NPA_NO_ROOM;
    }
    int64_t *of_finish = own + sizes[WORDS] / 8, *flags = of_finish + sizes[WORDS] / 8;
    int32_t error = npa_device_injected();
    error = error != 0 ? error : arrive(s);
    error = error != 0 ? error : write_own(s, FLAGS, l->flags, sizes[FLAGS]);
    if (error == 0) {
        npa_device_words(d, own, l->words, &l->grid, false);
        error = launch(d, d->run, memories, own, groups);
        *begun = error == 0;
        error = error == NO_OBJECT ? NPA_NO_ROOM : error;
    }
    if (error == 0 && d->finish != NULL && !l->in_parts) {
        size_t points = npa_device_words(d, of_finish, l->words, &l->grid, true);
        error = launch(d, d->finish, memories, of_finish, points);
    }
    if (error == 0 && l->nahead > 0 && ((finish_function *)s->functions[FLUSH])(s->queue) == 0) {
        bring_ahead(s, l->q, l->accesses, d->narrays, l->ahead, l->nahead);
    }
    int32_t over = finish_with(s, FLAGS, flags, error == 0 ? sizes[FLAGS] : 0);
    error = error != 0 ? error : over != 0 ? over : npa_device_injected_midway();
    if (error == 0) {
        memcpy(l->flags, flags, sizes[FLAGS]);
    }
    free(own);
    return error;
}

/* Whether the kernel reads any of these bytes. */
static bool reads(const npa_launch *l, int n, int32_t buffer, npa_span of)
{
    for (int k = 0; k < n; k++) {
        npa_span read = span_of(&l->accesses[k], l->q->buffers[buffer]);
        if (l->accesses[k].read && l->accesses[k].buffer == buffer &&
            read.low < of.high && of.low < read.high) {
            return true;
        }
    }
    return false;
}

/* Of a kernel that may have begun: whether it may have written over what it reads, where that is
 * nowhere else. */
static bool spoiled(const npa_launch *l, int n)
{
    bool found = false;
    for (int k = 0; k < n && !found; k++) {
        npa_buffer *b = l->q->buffers[l->accesses[k].buffer];
        npa_span to = span_of(&l->accesses[k], b);
        if (l->accesses[k].written && b->copy != NULL) {
            npa_span newer = b->copy->newer;
            npa_span both = {to.low > newer.low ? to.low : newer.low,
                         to.high < newer.high ? to.high : newer.high};
            found = !npa_span_empty(both) && reads(l, n, l->accesses[k].buffer, both);
        }
    }
    return found;
}

/* Whether all the buffers fit, whatever else would have to leave. */
static bool fits(const npa_device *d, const npa_launch *l)
{
    size_t all = npa_store_own(d, l), largest = 0;
    for (int k = 0; k < d->narrays; k++) {
        size_t size = npa_piece_size(l->q->buffers[l->accesses[k].buffer]->size);
        all += uses(l->accesses, k, l->accesses[k].buffer) ? 0 : size;
        largest = size > largest ? size : largest;
    }
    return all <= d->store->limit && largest <= d->store->largest;
}

enum npa_ran npa_store_run(npa_device *d, const npa_launch *l)
{
    npa_store *s = d->store;
    void **memories = malloc(sizeof *memories * (size_t)(d->narrays + 1));
    int32_t error = NPA_NO_ROOM;
    bool begun = false;
    if (!fits(d, l)) {
        give_own(d, l);
    }
    if (memories != NULL && !d->failed && npa_store_here(s) && fits(d, l) &&
        npa_store_bring(s, l->q, l->accesses, d->narrays)) {
        for (int k = 0; k < d->narrays; k++) {
            memories[k] = l->q->buffers[l->accesses[k].buffer]->copy->at.memory;
        }
        error = npa_store_compute(d, l, memories, &begun);
    }
    free(memories);
    if (error == NPA_NO_ROOM) {
        return NPA_HOST_MUST;
    }
    if (error != 0) {
        npa_device_note_failure(d, error);
        if (begun && spoiled(l, d->narrays)) {
            npa_lost_results(l->q, l->accesses, d->narrays, s);
            return NPA_LOST;
        }
    }
    for (int k = 0; k < d->narrays; k++) {
        npa_buffer *b = l->q->buffers[l->accesses[k].buffer];
        if (error == 0 && l->accesses[k].written) {
            b->copy->newer = hull(b->copy->newer, span_of(&l->accesses[k], b));
        } else if (l->accesses[k].written && b->copy != NULL && npa_span_empty(b->copy->newer)) {
            drop(b->copy); /* nobody knows what is there; the host does */
        }
    }
    return error == 0 ? NPA_THERE : NPA_HOST_MUST;
}

char *npa_buffer_address(npa_buffer *b)
{
    bool here = b->copy == NULL && b->lost == NULL;
    b->fresh &= b->range != NULL; /* what a section computes with: from here on it has content */
    return here || npa_copy_home(b) ? npa_buffer_pages(b) : NULL;
}
