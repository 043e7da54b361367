/* cut.c: a kernel whose operands do not fit on its device, in parts that do.
 *
 *     domain   |####|####|####|##|      along one axis, one part after the other; of each
 *     array       [....]                what it uses is copied there, and what it writes back
 *
 * Everything is on the host before and after. The kernel and its words are the same: a part has other
 * extents, and its arrays begin elsewhere. Which points share a part does not matter, since those of the
 * axes that may be cut are independent; what a part copies home beside the elements that it writes is as
 * it was. A part that the device does not do is the host's. With the lock. */
#include "store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Rows of stores past the cache begin with a line, so along the lanes parts have multiples of it. */
enum { LANES = 64 };

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
    npa_cut may;
    int axis;         /* which is cut; those before it are at one index */
    int64_t n;        /* so much of it at a time */
    int64_t *words;   /* of the part at hand: extents, places in the buffers */
    int64_t *there;   /* the same, places in the groups' memory */
    int64_t *items;   /* per array the bytes of an element; 0: it is used as a whole */
    char **bases;     /* per array the host's memory of its buffer */
    bool *fresh;      /* per array: it held nothing before */
    group *groups, *before; /* of this part, and of the one before it */
    int *of;          /* per array its group */
    int ngroups, nbefore;
    void **memories;
} cut;

static int64_t *place(const cut *c, int64_t *words, int k)
{
    return &words[c->d->rank + k * (c->d->rank + 1)];
}

/* Between which bytes an array lies in the part that `words` say. */
static void span_in(const cut *c, int64_t *words, int k, int64_t *low, int64_t *high)
{
    const int64_t *at = place(c, words, k);
    if (c->items[k] == 0) {
        *low = 0, *high = (int64_t)c->l->q->buffers[c->l->accesses[k].buffer]->size;
        return;
    }
    *low = at[0], *high = at[0] + c->items[k];
    for (int axis = 0; axis < c->d->rank; axis++) {
        int64_t reach = at[1 + axis] * (words[axis] - 1);
        *(reach < 0 ? low : high) += reach;
    }
}

/* False: what the accesses say does not follow from the words. */
static bool find_items(cut *c)
{
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        int64_t low, high;
        c->items[k] = 1;
        span_in(c, c->words, k, &low, &high);
        c->items[k] = a->high < 0 ? 0 : a->high - high + 1;
        if ((a->high < 0 && a->written) || (a->high >= 0 && (low != a->low || c->items[k] < 1))) {
            return false;
        }
    }
    return true;
}

/* What a part of so much of the axis takes there, at most. */
static size_t bytes_of(cut *c, int64_t n)
{
    size_t all = 0;
    c->words[c->axis] = n;
    for (int k = 0; k < c->d->narrays; k++) {
        int64_t low, high;
        span_in(c, c->words, k, &low, &high);
        all += npa_piece_size((size_t)(high - low));
    }
    return all;
}

static void scale(const cut *c, npa_device_grid *grid, const int64_t *extents)
{
    for (int axis = 0; axis <= c->axis; axis++) {
        int64_t *of = axis < c->may.band_rank ? &grid->band : &grid->inner;
        *of = *of / c->l->words[axis] * extents[axis];
    }
}

/* Which axis is cut, and into how much: the outermost that makes parts small enough. */
static bool choose(cut *c)
{
    size_t own = npa_store_own(c->d, c->l), room = c->d->store->limit;
    bool found = false;
    for (c->axis = 0; c->axis < c->may.axes; c->axis++) {
        int64_t extent = c->l->words[c->axis], low = 0, high = extent;
        while (low < high) {
            int64_t n = low + (high - low + 1) / 2;
            if (own + bytes_of(c, n) <= room) {
                low = n;
            } else {
                high = n - 1;
            }
        }
        c->n = c->axis < c->may.band_rank || low == extent ? low : low / LANES * LANES;
        found = c->n > 0;
        if (found) {
            break;
        }
        c->words[c->axis] = 1;
    }
    for (int k = 0; found && k < c->d->narrays; k++) { /* or parts would write the same */
        const npa_access *a = &c->l->accesses[k];
        for (int axis = 0; axis <= c->axis; axis++) {
            bool moves = place(c, c->words, k)[1 + axis] != 0 || c->l->words[axis] == 1;
            found &= moves || !a->written;
        }
    }
    return found;
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
    const int64_t *at = place(c, c->words, k);
    int64_t bytes = c->items[k];
    for (int axis = 0; axis < c->d->rank; axis++) {
        bytes *= at[1 + axis] != 0 ? c->words[axis] : 1;
    }
    return bytes == high - low;
}

/* Arrays that overlap are copied together, so a part sees each byte once. */
static void group_arrays(cut *c)
{
    c->ngroups = c->d->narrays;
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        group *g = &c->groups[k];
        *g = (group){.buffer = a->buffer, .members = 1, .read = a->read, .written = a->written};
        span_in(c, c->words, k, &g->low, &g->high);
        g->dense = c->fresh[k] && is_dense(c, k, g->low, g->high);
        c->of[k] = k;
    }
    for (int i = 0; i < c->ngroups; i++) {
        for (int j = 0; j < c->ngroups; j++) {
            group *g = &c->groups[i], *h = &c->groups[j];
            if (i == j || g->buffer != h->buffer || g->low >= h->high || h->low >= g->high) {
                continue;
            }
            g->low = g->low < h->low ? g->low : h->low, g->high = g->high > h->high ? g->high : h->high;
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
    s->moving |= up;
    for (int k = 0; host == NULL; k++) {
        host = c->l->accesses[k].buffer == g->buffer ? c->bases[k] + g->low : NULL;
    }
    int32_t error = up ? ((write_function *)s->functions[WRITE])(s->transfers, g->at.memory, 1, 0,
                                                                 size, host, 0, NULL, NULL)
                       : npa_device_injected_read();
    if (!up && error == 0) {
        error = ((read_function *)s->functions[READ])(s->transfers, g->at.memory, 1, 0, size, host,
                                                      0, NULL, NULL);
    }
    if (error == 0) {
        *(up ? &npa_count.uploads : &npa_count.downloads) += 1;
        *(up ? &npa_count.bytes_up : &npa_count.bytes_down) += size;
    }
    return error;
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

/* The part at hand, there: 0, or an error. home: its results may have come back in part. */
static int32_t run_there(cut *c, bool *home)
{
    const npa_device *d = c->d;
    npa_launch part = *c->l;
    int32_t error = send(c);
    if (error == 0) {
        bool begun = false;
        memcpy(c->there, c->words, 8 * (size_t)d->nwords);
        for (int k = 0; k < d->narrays; k++) {
            *place(c, c->there, k) -= c->groups[c->of[k]].low;
            c->memories[k] = c->groups[c->of[k]].at.memory;
        }
        part.words = c->there, part.nahead = 0;
        scale(c, &part.grid, c->words);
        error = npa_store_compute(c->d, &part, c->memories, &begun);
    }
    for (int i = 0; i < c->ngroups && error == 0; i++) {
        *home = true;
        error = c->groups[i].written ? transfer(c, &c->groups[i], false) : 0;
    }
    group *swap = c->before;
    c->before = c->groups, c->groups = swap, c->nbefore = c->ngroups;
    return error;
}

static void run_here(cut *c, npa_run_here *here, void *context)
{
    npa_device_grid grid = c->l->grid;
    scale(c, &grid, c->words);
    for (int k = 0; k < c->d->narrays; k++) {
        *place(c, c->words, k) += (int64_t)(intptr_t)c->bases[k];
    }
    here(context, c->words, grid.band, grid.inner);
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

/* The part moves so far along an axis, and is so long there. */
static void move(cut *c, int axis, int64_t at, int64_t extent)
{
    c->words[axis] = extent;
    for (int k = 0; k < c->d->narrays; k++) {
        int64_t *word = place(c, c->words, k);
        word[0] += at * word[1 + axis];
    }
}

/* The words of the part that begins at `low`; before: the flat index of the axes before. */
static void set_words(cut *c, int64_t before, int64_t low)
{
    int64_t left = c->l->words[c->axis] - low;
    memcpy(c->words, c->l->words, 8 * (size_t)c->d->nwords);
    move(c, c->axis, low, left < c->n ? left : c->n);
    for (int axis = c->axis; axis-- > 0;) {
        int64_t extent = c->l->words[axis];
        move(c, axis, before % extent, 1);
        before /= extent;
    }
}

static enum npa_ran run_parts(cut *c, npa_run_here *here, void *context)
{
    enum npa_ran ran = NPA_IN_PARTS;
    int64_t befores = 1;
    for (int axis = 0; axis < c->axis; axis++) {
        befores *= c->l->words[axis];
    }
    for (int64_t before = 0; before < befores; before++) {
        for (int64_t low = 0; low < c->l->words[c->axis]; low += c->n) {
            bool home = false;
            set_words(c, before, low);
            int32_t error = c->d->failed ? c->d->error : run_there(c, &home);
            if (error != 0 && error != NPA_NO_ROOM && !c->d->failed) {
                npa_device_note_failure(c->d, error);
            }
            if (error != 0 && home && npa_writes_over(c->l->q, c->l->accesses, c->d->narrays)) {
                npa_lost_results(c->l->q, c->l->accesses, c->d->narrays, c->d->store);
                return NPA_LOST;
            }
            if (error != 0) {
                run_here(c, here, context);
                ran = NPA_PARTLY;
            }
        }
    }
    return ran;
}

enum npa_ran npa_cut_run(npa_device *d, const npa_launch *l, npa_cut may, npa_run_here *here,
                         void *context)
{
    size_t n = (size_t)d->narrays + 1, words = (size_t)d->nwords;
    cut c = {.d = d, .l = l, .may = may};
    enum npa_ran ran = NPA_HOST_MUST;
    c.words = malloc(8 * words), c.there = malloc(8 * words), c.items = calloc(n, 8);
    c.bases = calloc(n, sizeof *c.bases), c.fresh = calloc(n, sizeof *c.fresh);
    c.groups = calloc(n, sizeof *c.groups), c.before = calloc(n, sizeof *c.before);
    c.of = calloc(n, sizeof *c.of), c.memories = calloc(n, sizeof *c.memories);
    if (c.words != NULL && c.there != NULL && c.items != NULL && c.bases != NULL &&
        c.fresh != NULL && c.groups != NULL && c.before != NULL && c.of != NULL &&
        c.memories != NULL && may.axes > 0 && !d->failed && d->store->pid == getpid()) {
        memcpy(c.words, l->words, 8 * words);
        d->store->launches++; /* whatever lies there may leave */
        if (find_items(&c) && choose(&c) && bring_home(&c)) {
            ran = run_parts(&c, here, context);
        }
    }
    for (int i = 0; i < c.nbefore; i++) {
        npa_piece_give(d->store, c.before[i].at);
    }
    free(c.words), free(c.there), free(c.items), free(c.bases), free(c.fresh);
    free(c.groups), free(c.before), free(c.of), free(c.memories);
    return ran;
}
