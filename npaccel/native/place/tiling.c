/* tiling.c: a kernel whose operands do not fit on its device, in parts that do.
 *
 *     domain   |####|####|####|##|      along one axis, one part after the other; of each
 *     array       [....]                what it uses is copied there, and what it writes back
 *
 * Everything is on the host before and after. A part is a range of the launch's tasks: the kernel
 * and its words are the same, indices too, only places differ, by what lies before the part. Which
 * points share a part does not matter, since those of the axes that may be cut are independent;
 * what a part copies home beside the elements that it writes is as it was. Reductions that are
 * split leave a partial result per chunk, and parts are whole chunks: they come home, where the
 * host's code combines them, to the same bits. A part that the device does not do is the host's.
 * With the lock. */
#include "place/place.h"
#include "place/store.h"

#include <stdlib.h>
#include <string.h>

/* Parts whose arrays reach over each other's move bytes several times; oftener than this is the
 * host's. */
enum { MOST_MOVED = 4 };

/* Of a part: bytes that lie together, of one buffer. */
typedef struct {
    int32_t buffer;
    int64_t low, high;
    int members; /* arrays in it */
    bool read, written, dense;
    npa_piece at;
} group;

typedef struct {
    npa_device *d;
    const npa_launch *l;
    npa_tiling may;
    size_t room;      /* bytes that a part may take */
    /* `axis` is cut; of those in [from, axis) one index at a time, of all others all */
    int from, axis;
    int64_t n;        /* so much of it at a time */
    int64_t *low, *high; /* the part at hand, per axis of the domain */
    npa_device_grid grid;
    int64_t *words;   /* for it: places in the groups' memory, or on the host */
    int64_t *items;   /* per array the bytes of an element; 0: it is used as a whole */
    char **bases;     /* per array the host's memory of its buffer */
    bool *fresh;      /* per array: it held nothing before */
    group *groups, *before; /* of this part, and of the one before it */
    int *of;          /* per array its group */
    int ngroups, nbefore;
    void **memories;
} cut;

static const int64_t *place(const cut *c, int k)
{
    return &c->l->words[c->d->rank + k * (c->d->rank + 1)];
}

static int64_t extent(const cut *c, int axis) { return c->l->words[axis]; }

/* How many indices the axes in [from, to) have. */
static int64_t points(const cut *c, int from, int to)
{
    int64_t all = 1;
    for (int axis = from; axis < to; axis++) {
        all *= extent(c, axis);
    }
    return all;
}

/* Between which bytes an array lies in the part at hand. */
static void span_in(const cut *c, int k, int64_t *low, int64_t *high)
{
    const int64_t *at = place(c, k);
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
static void set_part(cut *c, int64_t before, int64_t at)
{
    for (int axis = 0; axis < c->d->rank; axis++) {
        c->low[axis] = 0, c->high[axis] = extent(c, axis);
    }
    int64_t left = extent(c, c->axis) - at;
    c->low[c->axis] = at, c->high[c->axis] = at + (left < c->n ? left : c->n);
    for (int axis = c->axis; axis-- > c->from;) {
        c->low[axis] = before % extent(c, axis), c->high[axis] = c->low[axis] + 1;
        before /= extent(c, axis);
    }
}

/* Its tasks: the flat index of a part's first point, and how many there are, of the band and
 * inside. */
static void set_grid(cut *c)
{
    int inner_axes = c->may.band_rank + c->may.inner_axes;
    c->grid = c->l->grid;
    for (int axis = 0; axis < inner_axes; axis++) {
        bool band = axis < c->may.band_rank;
        int64_t each = points(c, axis + 1, band ? c->may.band_rank : inner_axes);
        *(band ? &c->grid.band_low : &c->grid.inner_low) += c->low[axis] * each;
        *(band ? &c->grid.band : &c->grid.inner) /= extent(c, axis);
        *(band ? &c->grid.band : &c->grid.inner) *= c->high[axis] - c->low[axis];
    }
}

/* False: what the accesses say does not follow from the words. */
static bool find_items(cut *c)
{
    c->n = extent(c, c->axis = c->from = 0);
    set_part(c, 0, 0);
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        int64_t low, high;
        c->items[k] = 1;
        span_in(c, k, &low, &high);
        c->items[k] = a->high < 0 ? 0 : a->high - high + 1;
        if ((a->high < 0 && a->written) || (a->high >= 0 && (low != a->low || c->items[k] < 1))) {
            return false;
        }
    }
    return true;
}

/* What a part takes there, at most, with so much of the axis; and its largest piece. */
static size_t bytes_of(cut *c, int64_t n, size_t *largest)
{
    size_t all = 0;
    *largest = 0;
    c->n = n;
    set_part(c, 0, 0);
    for (int k = 0; k < c->d->narrays; k++) {
        int64_t low, high;
        span_in(c, k, &low, &high);
        size_t size = c->l->accesses[k].looped ? npa_piece_size((size_t)(high - low)) : 0;
        all += size, *largest = size > *largest ? size : *largest;
    }
    return all;
}

/* Whether parts would write the same. */
static bool writes_twice(const cut *c)
{
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        for (int axis = c->from; axis <= c->axis && a->written && a->looped; axis++) {
            bool whole = axis == c->axis && c->n == extent(c, axis);
            if (place(c, k)[1 + axis] == 0 && extent(c, axis) > 1 && !whole) {
                return true;
            }
        }
    }
    return false;
}

static int64_t rounded(const cut *c, int64_t n)
{
    return c->axis < c->may.band_rank || n == extent(c, c->axis) ? n
                                                                 : n / c->may.step * c->may.step;
}

/* How much of the axis fits; 0: nothing. */
static int64_t most(cut *c)
{
    size_t own = npa_store_own(c->d, c->l), room = c->room > own ? c->room - own : 0;
    int64_t low = 0, high = extent(c, c->axis);
    while (low < high) {
        int64_t n = low + (high - low + 1) / 2;
        size_t largest;
        if (bytes_of(c, n, &largest) <= room && largest <= c->d->store->largest) {
            low = n;
        } else {
            high = n - 1;
        }
    }
    return rounded(c, low);
}

/* Which axis is cut, and into how much: the way that moves least. False: there is none. */
static bool choose(cut *c)
{
    int band = c->may.band_rank, axes = band + c->may.inner_axes;
    cut best = *c;
    double least = -1, all;
    size_t ignored;
    c->from = c->axis = 0;
    all = (double)bytes_of(c, extent(c, 0), &ignored);
    /* Inner ones for all of the band, and per point */
    for (int i = 0; i < axes + c->may.inner_axes; i++) {
        c->axis = i < axes ? i : i - c->may.inner_axes, c->from = band <= i && i < axes ? band : 0;
        int64_t n = c->n = most(c);
        if (n == 0 || writes_twice(c)) {
            continue;
        }
        double parts = (double)(points(c, c->from, c->axis) * ((extent(c, c->axis) + n - 1) / n));
        double moved = parts * (double)bytes_of(c, n, &ignored);
        if (moved <= MOST_MOVED * all && (least < 0 || moved < least)) {
            least = moved, best = *c;
        }
    }
    c->axis = best.axis, c->from = best.from, c->n = best.n;
    return least >= 0;
}

/* For a part that the device's driver has no room for. False: it can't be smaller. begun: others
 * are done, so it is the same axis. */
static bool choose_less(cut *c, bool begun)
{
    size_t own = npa_store_own(c->d, c->l);
    npa_store_trim(c->d->store);
    c->room = own + (c->room - own) / 2;
    if (!begun) {
        return choose(c);
    }
    c->n = rounded(c, c->n / 2);
    return c->n > 0;
}

/* All on the host, and there alone; false: it can't be. */
static bool bring_home(cut *c)
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
static bool is_dense(const cut *c, int k, int64_t low, int64_t high)
{
    const int64_t *at = place(c, k);
    int64_t bytes = c->items[k];
    for (int axis = 0; axis < c->d->rank; axis++) {
        bytes *= at[1 + axis] != 0 ? c->high[axis] - c->low[axis] : 1;
    }
    return bytes == high - low;
}

/* Arrays that overlap are copied together, so a part sees each byte once. */
static void group_arrays(cut *c)
{
    c->ngroups = 0;
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        group *g = &c->groups[c->ngroups];
        *g = (group){.buffer = a->buffer, .members = 1, .read = a->read, .written = a->written};
        span_in(c, k, &g->low, &g->high);
        g->dense = c->fresh[k] && is_dense(c, k, g->low, g->high);
        c->of[k] = a->looped ? c->ngroups++ : -1;
    }
    for (int i = 0; i < c->ngroups; i++) {
        for (int j = 0; j < c->ngroups; j++) {
            group *g = &c->groups[i], *h = &c->groups[j];
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

static int32_t transfer(cut *c, const group *g, bool up)
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
static void keep_groups(cut *c)
{
    for (int i = 0; i < c->nbefore; i++) {
        group *old = &c->before[i];
        for (int j = 0; j < c->ngroups && old->at.memory != NULL && !old->written; j++) {
            group *g = &c->groups[j];
            if (!g->written && g->at.memory == NULL && g->buffer == old->buffer &&
                g->low == old->low && g->high == old->high) {
                g->at = old->at, old->at.memory = NULL;
            }
        }
    }
    for (int i = 0; i < c->nbefore; i++) {
        npa_piece_give(c->d->store, c->before[i].at);
    }
    c->nbefore = 0;
}

static int32_t send(cut *c)
{
    group_arrays(c);
    keep_groups(c);
    int32_t error = 0;
    for (int i = 0; i < c->ngroups && error == 0; i++) {
        group *g = &c->groups[i];
        if (g->at.memory == NULL) {
            bool results = g->members == 1 && !g->read && g->dense;
            g->at = npa_piece_take(c->d->store, (size_t)(g->high - g->low));
            error = g->at.memory == NULL ? NPA_NO_ROOM : results ? 0 : transfer(c, g, true);
        }
    }
    return error;
}

/* The words, for memory that begins so far before or behind where they say. */
static int64_t *words_from(cut *c, const char *const *bases)
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
static int32_t partials_home(cut *c)
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

/* The part at hand, there: 0, or an error. home: its results may have come back in part. */
static int32_t run_there(cut *c, bool *home)
{
    npa_launch part = *c->l;
    int32_t error = send(c);
    if (error == 0) {
        bool begun = false;
        for (int k = 0; k < c->d->narrays; k++) {
            c->memories[k] = c->groups[c->of[k] >= 0 ? c->of[k] : 0].at.memory;
        }
        part.words = words_from(c, NULL), part.nahead = 0, part.grid = c->grid;
        part.in_parts = true;
        error = npa_store_compute(c->d, &part, c->memories, &begun);
        error = error != 0 ? error : partials_home(c);
    }
    for (int i = 0; i < c->ngroups && error == 0; i++) {
        *home = true;
        error = c->groups[i].written ? transfer(c, &c->groups[i], false) : 0;
    }
    group *swap = c->before;
    c->before = c->groups, c->groups = swap, c->nbefore = c->ngroups;
    return error;
}

static void leave_groups(cut *c)
{
    for (int i = 0; i < c->nbefore; i++) {
        npa_piece_give(c->d->store, c->before[i].at);
    }
    c->nbefore = 0;
}

bool npa_writes_over(const npa_queue *q, const npa_access *accesses, int n)
{
    for (int i = 0; i < n * n; i++) {
        const npa_access *to = &accesses[i / n], *from = &accesses[i % n];
        int64_t end = (int64_t)q->buffers[to->buffer]->size;
        if (to->written && from->read && to->buffer == from->buffer &&
            to->low < (from->high < 0 ? end : from->high) &&
            from->low < (to->high < 0 ? end : to->high)) {
            return true;
        }
    }
    return false;
}

static enum npa_ran run_parts(cut *c, npa_run_here *here, void *context)
{
    enum npa_ran ran = NPA_IN_PARTS;
    bool begun = false, there = true;
    for (int64_t before = 0, at = 0; before < points(c, c->from, c->axis);) {
        bool home = false;
        set_part(c, before, at);
        set_grid(c);
        int32_t error = there ? run_there(c, &home) : NPA_NO_ROOM;
        if (error == NPA_NO_ROOM && there) {
            leave_groups(c);
            if (choose_less(c, begun)) {
                continue;
            }
            if (!begun) {
                return NPA_HOST_MUST;
            }
        }
        if (error != 0 && error != NPA_NO_ROOM) {
            npa_device_note_failure(c->d, error);
        }
        if (error != 0 && home && npa_writes_over(c->l->q, c->l->accesses, c->d->narrays)) {
            npa_lost_results(c->l->q, c->l->accesses, c->d->narrays, c->d->store);
            return NPA_LOST;
        }
        if (error != 0) { /* and all the others, whose partial results would come over these */
            here(context, words_from(c, (const char *const *)c->bases), &c->grid);
            there = false, ran = NPA_PARTLY;
        }
        begun = true;
        at = c->high[c->axis];
        if (at == extent(c, c->axis)) {
            before++, at = 0;
        }
    }
    if (c->d->finish != NULL) {
        here(context, words_from(c, (const char *const *)c->bases), NULL);
    }
    return ran;
}

enum npa_ran npa_tiling_run(npa_device *d, const npa_launch *l, npa_tiling may, npa_run_here *here,
                         void *context)
{
    size_t n = (size_t)d->narrays + 1, rank = (size_t)d->rank;
    cut c = {.d = d, .l = l, .may = may, .room = d->store->limit};
    enum npa_ran ran = NPA_HOST_MUST;
    c.words = malloc(8 * (size_t)d->nwords), c.items = calloc(n, 8);
    c.low = calloc(rank, 8), c.high = calloc(rank, 8);
    c.bases = calloc(n, sizeof *c.bases), c.fresh = calloc(n, sizeof *c.fresh);
    c.groups = calloc(n, sizeof *c.groups), c.before = calloc(n, sizeof *c.before);
    c.of = calloc(n, sizeof *c.of), c.memories = calloc(n, sizeof *c.memories);
    if (c.words != NULL && c.items != NULL && c.low != NULL && c.high != NULL && c.bases != NULL &&
        c.fresh != NULL && c.groups != NULL && c.before != NULL && c.of != NULL &&
        c.memories != NULL && !d->failed && d->store->pid == npa_process_here()) {
        d->store->launches++; /* whatever lies there may leave */
        if (find_items(&c) && choose(&c) && bring_home(&c)) {
            ran = run_parts(&c, here, context);
        }
    }
    leave_groups(&c);
    free(c.words), free(c.items), free(c.low), free(c.high), free(c.bases), free(c.fresh);
    free(c.groups), free(c.before), free(c.of), free(c.memories);
    return ran;
}
