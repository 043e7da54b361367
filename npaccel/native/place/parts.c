/* parts.c: a part of a step on its device.
 *
 *     domain   |####|####|####|##|      a range of one axis; of each
 *     array       [....]                what it uses is copied there, and what it writes back
 *
 * A part is a range of the launch's tasks: the kernel and its words are the same, indices too, only
 * places differ, by what lies before the part. Which points share a part does not matter, since
 * those of the axes that may be cut are independent; what a part copies home beside the elements
 * that it writes is as it was. Reductions that are split leave a partial result per chunk, and
 * parts are whole chunks: they come home, where the host's code combines them, to the same bits.
 * Where the device uses the host's memory nothing moves. With the lock. */
#include "place/parts.h"

#include <stdlib.h>
#include <string.h>

void npa_parts_span(const npa_parts *c, int k, int64_t *low, int64_t *high)
{
    const int64_t *at = npa_parts_place(c, k);
    if (c->items[k] == 0) {
        *low = 0, *high = (int64_t)c->l->q->buffers[c->l->accesses[k].buffer]->size;
        return;
    }
    *low = at[0], *high = at[0] + c->items[k];
    for (int axis = 0; axis < c->d->rank; axis++) {
        int64_t first = at[1 + axis] * c->low[axis], last = at[1 + axis] * (c->high[axis] - 1);
        *low += first < last ? first : last, *high += first < last ? last : first;
    }
}

/* The part is that of index `before` of the axes in [from, axis), and begins at `at`. */
static void set_part(npa_parts *c, int64_t before, int64_t at)
{
    for (int axis = 0; axis < c->d->rank; axis++) {
        c->low[axis] = 0, c->high[axis] = npa_parts_extent(c, axis);
    }
    int64_t left = npa_parts_extent(c, c->axis) - at;
    c->low[c->axis] = at, c->high[c->axis] = at + (left < c->n ? left : c->n);
    for (int axis = c->axis; axis-- > c->from;) {
        c->low[axis] = before % npa_parts_extent(c, axis), c->high[axis] = c->low[axis] + 1;
        before /= npa_parts_extent(c, axis);
    }
}

/* Its tasks: the flat index of a part's first point, and how many there are, of the band and
 * inside. */
static void set_grid(npa_parts *c)
{
    int inner_axes = c->may.band_rank + c->may.inner_axes;
    c->grid = c->l->grid;
    for (int axis = 0; axis < inner_axes; axis++) {
        bool band = axis < c->may.band_rank;
        int64_t each = npa_parts_points(c, axis + 1, band ? c->may.band_rank : inner_axes);
        *(band ? &c->grid.band_low : &c->grid.inner_low) += c->low[axis] * each;
        *(band ? &c->grid.band : &c->grid.inner) /= npa_parts_extent(c, axis);
        *(band ? &c->grid.band : &c->grid.inner) *= c->high[axis] - c->low[axis];
    }
}

bool npa_parts_find_items(npa_parts *c)
{
    c->n = npa_parts_extent(c, c->axis = c->from = 0);
    set_part(c, 0, 0);
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        int64_t low, high;
        c->items[k] = 1;
        npa_parts_span(c, k, &low, &high);
        c->items[k] = a->high < 0 ? 0 : a->high - high + 1;
        if ((a->high < 0 && a->written) || (a->high >= 0 && (low != a->low || c->items[k] < 1))) {
            return false;
        }
    }
    return true;
}

size_t npa_parts_bytes(npa_parts *c, int64_t n, size_t *largest)
{
    size_t all = 0;
    *largest = 0;
    c->n = n;
    set_part(c, 0, 0);
    for (int k = 0; k < c->d->narrays; k++) {
        int64_t low, high;
        npa_parts_span(c, k, &low, &high);
        size_t size = c->l->accesses[k].looped ? npa_piece_size((size_t)(high - low)) : 0;
        all += size, *largest = size > *largest ? size : *largest;
    }
    return all;
}

bool npa_parts_write_twice(const npa_parts *c)
{
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        for (int axis = c->from; axis <= c->axis && a->written && a->looped; axis++) {
            bool whole = axis == c->axis && c->n == npa_parts_extent(c, axis);
            if (npa_parts_place(c, k)[1 + axis] == 0 && npa_parts_extent(c, axis) > 1 && !whole) {
                return true;
            }
        }
    }
    return false;
}

int64_t npa_parts_rounded(const npa_parts *c, int64_t n)
{
    return c->axis < c->may.band_rank || n == npa_parts_extent(c, c->axis) ? n
                                                                 : n / c->may.step * c->may.step;
}

int64_t npa_parts_most(npa_parts *c)
{
    size_t own = npa_store_own(c->d, c->l), room = c->room > own ? c->room - own : 0;
    int64_t low = 0, high = npa_parts_extent(c, c->axis);
    while (low < high) {
        int64_t n = low + (high - low + 1) / 2;
        size_t largest;
        if (npa_parts_bytes(c, n, &largest) <= room && largest <= c->d->store->largest) {
            low = n;
        } else {
            high = n - 1;
        }
    }
    return npa_parts_rounded(c, low);
}

bool npa_parts_bring_home(npa_parts *c)
{
    for (int k = 0; k < c->d->narrays; k++) {
        npa_buffer *b = c->l->q->buffers[c->l->accesses[k].buffer];
        if (b->lost != NULL || !npa_copy_home(b)) {
            return false;
        }
        c->fresh[k] = !npa_host_has(b);
    }
    for (int k = 0; k < c->d->narrays; k++) {
        c->bases[k] = npa_buffer_address(c->l->q->buffers[c->l->accesses[k].buffer]);
        if (c->bases[k] == NULL) {
            return false;
        }
    }
    return true;
}

/* Whether an array has no gaps: as many bytes as between its first and its last. */
static bool is_dense(const npa_parts *c, int k, int64_t low, int64_t high)
{
    const int64_t *at = npa_parts_place(c, k);
    int64_t bytes = c->items[k];
    for (int axis = 0; axis < c->d->rank; axis++) {
        bytes *= at[1 + axis] != 0 ? c->high[axis] - c->low[axis] : 1;
    }
    return bytes == high - low;
}

/* Arrays that overlap are copied together, so a part sees each byte once. */
static void group_arrays(npa_parts *c)
{
    c->ngroups = 0;
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        npa_part_group *g = &c->groups[c->ngroups];
        *g = (npa_part_group){
            .buffer = a->buffer, .members = 1, .read = a->read, .written = a->written};
        npa_parts_span(c, k, &g->low, &g->high);
        g->dense = c->fresh[k] && is_dense(c, k, g->low, g->high);
        c->of[k] = a->looped ? c->ngroups++ : -1;
    }
    for (int i = 0; i < c->ngroups; i++) {
        for (int j = 0; j < c->ngroups; j++) {
            npa_part_group *g = &c->groups[i], *h = &c->groups[j];
            if (i == j || g->buffer != h->buffer || g->low >= h->high || h->low >= g->high) {
                continue;
            }
            g->low = g->low < h->low ? g->low : h->low;
            g->high = g->high > h->high ? g->high : h->high;
            g->read |= h->read, g->written |= h->written, g->members += h->members;
            *h = c->groups[--c->ngroups];
            for (int k = 0; k < c->d->narrays; k++) {
                c->of[k] = c->of[k] == j ? i : c->of[k] == c->ngroups ? j : c->of[k];
            }
            i = -1; /* it has grown: all over again */
            break;
        }
    }
}

static int32_t transfer(npa_parts *c, const npa_part_group *g, bool up)
{
    npa_store *s = c->d->store;
    size_t size = (size_t)(g->high - g->low);
    char *host = NULL;
    for (int k = 0; host == NULL; k++) {
        host = c->l->accesses[k].buffer == g->buffer ? c->bases[k] + g->low : NULL;
    }
    if (up) {
        return npa_write_error(npa_store_write(s, g->at.memory, 0, size, host));
    }
    int32_t error = npa_device_injected_read();
    return error != 0 ? error : npa_store_read(s, g->at.memory, 0, size, host);
}

/* What the part before left there and this one only reads, too, stays; all else is taken anew. */
static void keep_groups(npa_parts *c)
{
    for (int i = 0; i < c->nbefore; i++) {
        npa_part_group *old = &c->before[i];
        for (int j = 0; j < c->ngroups && old->at.memory != NULL && !old->written; j++) {
            npa_part_group *g = &c->groups[j];
            if (!g->written && g->at.memory == NULL && g->buffer == old->buffer &&
                g->low == old->low && g->high == old->high) {
                g->at = old->at, old->at.memory = NULL;
            }
        }
    }
    npa_parts_leave(c);
}

static int32_t send(npa_parts *c)
{
    group_arrays(c);
    keep_groups(c);
    int32_t error = 0;
    for (int i = 0; i < c->ngroups && error == 0; i++) {
        npa_part_group *g = &c->groups[i];
        if (g->at.memory == NULL) {
            bool results = g->members == 1 && !g->read && g->dense;
            g->at = npa_piece_take(c->d->store, (size_t)(g->high - g->low));
            error = g->at.memory == NULL ? NPA_NO_ROOM : results ? 0 : transfer(c, g, true);
        }
    }
    return error;
}

int64_t *npa_parts_words(npa_parts *c, const char *const *bases)
{
    memcpy(c->words, c->l->words, 8 * (size_t)c->d->nwords);
    for (int k = 0; k < c->d->narrays; k++) {
        c->words[c->d->rank + k * (c->d->rank + 1)] +=
            bases != NULL    ? (int64_t)(intptr_t)bases[k]
            : c->of[k] >= 0 ? -c->groups[c->of[k]].low
                             : 0;
    }
    return c->words;
}

/* Home with the part's partial results: those from its first to its last. What else lies between is
 * what earlier parts have left there, or is still to come. */
static int32_t partials_home(npa_parts *c)
{
    const npa_device_grid *g = &c->grid;
    int64_t parts = c->l->words[c->d->nwords - 1]; /* per point of the band */
    if (c->l->partial_bytes == 0) {
        return 0;
    }
    size_t each = c->l->partial_bytes / (size_t)(c->l->grid.band * parts);
    int64_t low = g->band_low * parts + g->inner_low / c->may.step;
    int64_t high = (g->band_low + g->band - 1) * parts +
                   (g->inner_low + g->inner + c->may.step - 1) / c->may.step;
    npa_store *s = c->d->store;
    return ((read_function *)s->functions[READ])(
        s->transfers, s->own[PARTIALS].memory, 1, each * (size_t)low, each * (size_t)(high - low),
        c->l->partials + each * (size_t)low, 0, NULL, NULL);
}

int32_t npa_parts_run(npa_parts *c, bool *home)
{
    npa_launch part = *c->l;
    if (c->d->host_memory) {
        return npa_device_run(c->d, part.words, &c->grid, part.partials, part.flags, true, home);
    }
    int32_t error = send(c);
    if (error == 0) {
        bool begun = false;
        for (int k = 0; k < c->d->narrays; k++) {
            c->memories[k] = c->groups[c->of[k] >= 0 ? c->of[k] : 0].at.memory;
        }
        part.words = npa_parts_words(c, NULL), part.nahead = 0, part.grid = c->grid;
        part.in_parts = true;
        error = npa_store_compute(c->d, &part, c->memories, &begun);
        error = error != 0 ? error : partials_home(c);
    }
    for (int i = 0; i < c->ngroups && error == 0; i++) {
        *home = true;
        error = c->groups[i].written ? transfer(c, &c->groups[i], false) : 0;
    }
    npa_part_group *swap = c->before;
    c->before = c->groups, c->groups = swap, c->nbefore = c->ngroups;
    return error;
}

void npa_parts_leave(npa_parts *c)
{
    for (int i = 0; i < c->nbefore; i++) {
        npa_piece_give(c->d->store, c->before[i].at);
    }
    c->nbefore = 0;
}

void npa_parts_set(npa_parts *c, int64_t before, int64_t at)
{
    set_part(c, before, at);
    set_grid(c);
}

bool npa_parts_begin(npa_parts *c, npa_device *d, const npa_launch *l, npa_tiling may)
{
    size_t n = (size_t)d->narrays + 1, rank = (size_t)d->rank;
    *c = (npa_parts){.d = d, .l = l, .may = may, .room = d->store->limit};
    c->words = malloc(8 * (size_t)d->nwords), c->items = calloc(n, 8);
    c->low = calloc(rank, 8), c->high = calloc(rank, 8);
    c->bases = calloc(n, sizeof *c->bases), c->fresh = calloc(n, sizeof *c->fresh);
    c->groups = calloc(n, sizeof *c->groups), c->before = calloc(n, sizeof *c->before);
    c->of = calloc(n, sizeof *c->of), c->memories = calloc(n, sizeof *c->memories);
    return c->words != NULL && c->items != NULL && c->low != NULL && c->high != NULL &&
           c->bases != NULL && c->fresh != NULL && c->groups != NULL && c->before != NULL &&
           c->of != NULL && c->memories != NULL && !d->failed && npa_store_here(d->store);
}

void npa_parts_end(npa_parts *c)
{
    npa_parts_leave(c);
    free(c->words), free(c->items), free(c->low), free(c->high), free(c->bases), free(c->fresh);
    free(c->groups), free(c->before), free(c->of), free(c->memories);
}
