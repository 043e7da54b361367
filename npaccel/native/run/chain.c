/* chain.c: kernels that follow each other, in step through memory.
 *
 * for each part of memory (parallel):  for each wave:  for each kernel:  the indices that may be
 * next
 * for each border of two parts (parallel):             for each kernel:  the indices left over
 *
 * See Note [Chains] at the end. */
#include "run/chain_parts.h"
#include "run/run.h"

#include <string.h>

enum { PARTS = 256 };
enum { PART_BYTES = 1 << 20, LEAST_WAVE = 1 << 17, MOST_WAVE = 1 << 20 };
enum { PIECE = 64 }; /* elements that stores past the cache need to begin at */

/* -------------------------------------------------------------------------------- which kernels */

static int64_t wave_bytes(void)
{
    static int64_t bytes;
    if (bytes == 0) {
        bytes = most(LEAST_WAVE, least(MOST_WAVE, (int64_t)npa_limit_cache() / 2));
    }
    return bytes;
}

/* Bytes of the axes from `axis` on, but those of the index, around the address; grows: along the
 * index. */
static void reach(const npa_chain_kernel *k, npa_chain_use *u, int item)
{
    const step *s = k->s;
    int64_t behind = 0; /* what the axes behind this one of the index span */
    u->low = 0, u->high = item, u->ordered = true;
    u->first = u->end = u->base;
    for (int d = s->rank - 1; d >= 0; d--) {
        int64_t span = (s->words[d] - 1) * u->strides[d];
        if (d >= k->axis && d < k->axis + k->naxes) {
            u->ordered &= s->words[d] == 1 || (u->strides[d] >= 0 && u->strides[d] >= behind);
            behind += span;
        } else {
            u->low += least(span, 0), u->high += most(span, 0);
        }
        u->first += least(span, 0), u->end += most(span, 0);
    }
    u->end += item;
    u->ordered &= behind > 0 || k->n == 1; /* what does not move is used to the end */
}

static bool conflict(const npa_chain_use *a, const npa_chain_use *b)
{
    return a->buffer == b->buffer && (a->written || b->written) && a->first < b->end &&
           b->first < a->end;
}

/* Whether one index uses most of what all do, as of planes behind one another where it runs within
 * each: who has to wait for it waits nearly to the end, when what came first is in no cache any
 * more. */
static bool is_spread(const npa_chain_use *u)
{
    int64_t span = u->high - u->low;
    return span > wave_bytes() && 2 * span > u->end - u->first;
}

static bool is_alike(const npa_chain_kernel *a, int i, const npa_chain_kernel *b, int j)
{
    const npa_chain_use *x = &a->uses[i], *y = &b->uses[j];
    if (x->base != y->base || x->low != y->low || x->high != y->high || a->n != b->n ||
        a->axis != b->axis || a->naxes != b->naxes || a->unit != b->unit || !x->ordered) {
        return false;
    }
    bool same = y->ordered;
    for (int d = a->axis; same && d < a->axis + a->naxes; d++) {
        same = x->strides[d] == y->strides[d] && a->s->words[d] == b->s->words[d];
    }
    return same;
}

/* Whether kernel k waits for that use anyway, as for a later kernel's like it, which does: so that
 * of rounds of a loop the latest matters. Those of k begin at number `first`. */
static bool is_implied(const npa_chain *c, int first, int n, int late_use, int early, int use)
{
    const npa_chain_kernel *e = &c->kernels[early];
    for (int i = first; i < n; i++) {
        const npa_clash *x = &c->clashes[i];
        const npa_chain_kernel *between = &c->kernels[x->early];
        if (x->late_use == late_use && x->early > early &&
            conflict(&between->uses[x->early_use], &e->uses[use]) &&
            is_alike(between, x->early_use, e, use)) {
            return true;
        }
    }
    return false;
}

/* False: no memory, or they gain nothing from following each other. */
static bool find_clashes(npa_chain *c, int k)
{
    const npa_chain_kernel *late = &c->kernels[k];
    int n = c->begin[k];
    for (int e = k - 1; e >= 0; e--) {
        const npa_chain_kernel *early = &c->kernels[e];
        for (int i = 0; i < late->nuses * early->nuses; i++) {
            int mine = i / early->nuses, other = i % early->nuses;
            if (!conflict(&late->uses[mine], &early->uses[other])) {
                continue;
            }
            if (is_spread(&late->uses[mine]) || is_spread(&early->uses[other])) {
                return false;
            }
            if (is_implied(c, c->begin[k], n, mine, e, other)) {
                continue;
            }
            if (!npa_grow(&c->clashes, n, &c->room, sizeof *c->clashes)) {
                return false;
            }
            c->clashes[n++] = (npa_clash){(int16_t)e, (int16_t)other, (int16_t)mine};
        }
    }
    c->begin[k + 1] = n;
    return true;
}

static bool make_kernel(npa_chain_kernel *k, const step *s, const npa_queue *q,
                        npa_chain_use *uses)
{
    if (s->request >= 0 || s->device != NULL || s->owner != 0 || s->finish != NULL ||
        s->nwraps > 0 || s->nuses != s->narrays || s->narrays == 0) {
        return false;
    }
    int band_rank = 0;
    int64_t band = 1, size = -1;
    while (band_rank < s->rank && band * s->words[band_rank] <= s->band && band < s->band) {
        band *= s->words[band_rank++];
    }
    bool rows = s->band > 1 || s->inner == 1;
    *k = (npa_chain_kernel){.s = s,
                            .n = rows ? s->band : s->inner,
                            .unit = rows ? 1 : PIECE,
                            .axis = rows ? 0 : s->rank - 1,
                            .naxes = rows ? band_rank : 1,
                            .nuses = s->narrays,
                            .main_use = -1,
                            .uses = uses};
    if (band != s->band || (!rows && s->words[s->rank - 1] != s->inner)) {
        return false;
    }
    for (int i = 0; i < s->narrays; i++) {
        const patch *p = &s->patches[i];
        npa_chain_use *u = &uses[i];
        u->buffer = u->owner = p->a, u->base = npa_patch_offset(p, q);
        u->strides = s->words + p->word + 1;
        u->written = s->uses[i] & NPA_USE_WRITTEN;
        reach(k, u, s->uses[i] >> NPA_USE_BYTES);
        int64_t moves = u->end - u->first - (u->high - u->low); /* from the first index on */
        if (u->ordered && moves > size) {
            size = moves, k->main_use = i;
        }
    }
    return true;
}

/* Whether it gets its memory when the kernel runs. */
static bool is_new(const npa_buffer *b)
{
    return b->fresh && b->copy == NULL && (b->range != NULL ? b->range->work == NULL : b->gone);
}

/* Whose memory a new buffer takes: that of one like it which is given back. -1: nobody's. */
static int find_donor(const npa_chain *c, int b, const npa_queue *q)
{
    const npa_buffer *mine = q->buffers[b];
    for (int d = 0; d < c->nbuffers && mine->range != NULL; d++) {
        const npa_buffer *dead = q->buffers[d];
        if (c->owners[d].spare && dead->size == mine->size &&
            npa_range_fits(mine->range, dead->range)) {
            return d;
        }
    }
    return -1;
}

/* Whether there is room for `size` bytes more beside memory that was given back and that nobody
 * takes: kernels that run alone need no more than the larger of the two. */
static bool may_grow(const npa_chain *c, int64_t size)
{
    return c->idle == 0 ||
           (2 * c->idle <= c->taken && (size_t)(c->taken + size) <= npa_memory_room());
}

/* Note whose memory it is that the kernel uses. False: it would take far more than if each ran
 * alone, since what was given back goes to nobody. */
static bool find_memory(npa_chain *c, npa_chain_kernel *k, const npa_queue *q)
{
    for (int i = 0; i < k->nuses; i++) {
        npa_chain_use *u = &k->uses[i];
        npa_chain_owner *o = &c->owners[u->owner];
        int64_t size = (int64_t)q->buffers[u->owner]->size;
        if (o->memory < 0) {
            o->made = is_new(q->buffers[u->owner]);
            o->donor = o->made && c->idle > 0 ? find_donor(c, u->owner, q) : -1;
            if (o->donor >= 0) {
                c->owners[o->donor].spare = false;
                c->idle -= size;
            } else if (o->made && !may_grow(c, size)) {
                return false;
            }
            c->taken += o->donor < 0 ? size : 0;
            o->memory = o->donor >= 0 ? c->owners[o->donor].memory : u->owner;
        }
        u->buffer = o->memory;
    }
    return true;
}

/* What the step gives back can be the memory of what a later one makes. */
static void note_spare(npa_chain *c, const step *s, const npa_queue *q)
{
    for (int i = 0; i < s->nreleases; i++) {
        const npa_buffer *b = q->buffers[s->releases[i]];
        npa_chain_owner *o = &c->owners[s->releases[i]];
        o->spare = o->memory >= 0 && b->range != NULL && b->copy == NULL && b->next == b &&
                   (o->made || b->range->work != NULL) && !npa_q.repeatable;
        c->idle += o->memory >= 0 && !npa_q.repeatable ? (int64_t)b->size : 0;
    }
}

static void note_places(npa_chain *c, const npa_chain_kernel *k)
{
    for (int i = 0; i < k->nuses; i++) {
        const npa_chain_use *u = &k->uses[i];
        npa_chain_place *p = &c->places[u->buffer];
        p->low = p->used ? least(p->low, u->first) : u->first;
        p->high = p->used ? most(p->high, u->end) : u->end;
        p->used = true, p->written |= u->written;
    }
}

/* Those that may be in one chain, as far as order and memory go. */
static void gather(npa_chain *c, const step *steps, int nsteps, npa_queue *q)
{
    npa_chain_use *uses = c->uses;
    for (c->n = 0; c->n < nsteps && c->n < NPA_LONGEST_CHAIN; c->n++) {
        npa_chain_kernel *k = &c->kernels[c->n];
        if (!make_kernel(k, &steps[c->n], q, uses) || !find_memory(c, k, q) ||
            !find_clashes(c, c->n)) {
            break;
        }
        uses += k->nuses;
        c->extents[c->n] = k->n;
        note_spare(c, &steps[c->n], q);
    }
}

/* What the kernels use; bytes of all of it. */
static int64_t measure(npa_chain *c)
{
    int64_t bytes = 0;
    memset(c->places, 0, sizeof *c->places * (size_t)c->nbuffers);
    for (int k = 0; k < c->n; k++) {
        note_places(c, &c->kernels[k]);
    }
    for (int b = 0; b < c->nbuffers; b++) {
        bytes += c->places[b].high - c->places[b].low;
    }
    return bytes;
}

/* --------------------------------------------------------------------------------------- parts */

/* Which indices of kernel k each part has. Whether half of them at least are in parts. */
static bool divide(npa_chain *c, int k)
{
    npa_chain_kernel *mine = &c->kernels[k];
    int64_t inside = 0;
    for (int p = 0; p < c->nparts; p++) {
        int64_t *low = c->low + p * NPA_LONGEST_CHAIN, *high = c->high + p * NPA_LONGEST_CHAIN;
        low[k] = npa_chain_start(c, k, npa_chain_index_at(c, mine, p, c->nparts), low);
        high[k] =
            npa_chain_limit(c, k, npa_chain_index_at(c, mine, p + 1, c->nparts), high, c->extents);
        if (low[k] > high[k]) {
            return false;
        }
        inside += high[k] - low[k];
    }
    return 2 * inside >= mine->n || mine->n == 1;
}

/* Whether each part uses bytes behind those of the part before it; not so where kernels write a
 * half of the buffer each (np.concatenate): then what lies between a part's own bytes is another
 * one's. */
static bool lies_in_parts(const npa_chain *c, int b)
{
    int64_t begun = INT64_MIN, low, end;
    for (int p = 0; p < c->nparts; p++) {
        npa_chain_bytes_of_part(c, b, p, &low, &end);
        if (low < begun) {
            return false;
        }
        begun = most(begun, end);
    }
    return true;
}

/* What these kernels make and give back, so that nobody else sees it, and lies in order. */
static void find_windows(npa_chain *c)
{
    for (int k = 0; k < c->n; k++) {
        const step *s = c->kernels[k].s;
        for (int i = 0; i < s->nreleases; i++) {
            c->owners[s->releases[i]].released = true;
        }
    }
    for (int b = 0; b < c->nbuffers; b++) {
        c->places[b].window = c->places[b].used;
    }
    for (int k = 0; k < c->n; k++) {
        for (int i = 0; i < c->kernels[k].nuses; i++) {
            const npa_chain_use *u = &c->kernels[k].uses[i];
            const npa_chain_owner *o = &c->owners[u->owner];
            c->places[u->buffer].window &= u->ordered && o->made && o->released;
        }
    }
    for (int b = 0; b < c->nbuffers; b++) {
        c->places[b].window = c->places[b].window && lies_in_parts(c, b);
    }
}

void npa_chain_drop(npa_chain *c)
{
    if (c != NULL) {
        for (int k = 0; k < NPA_LONGEST_CHAIN; k++) {
            free(c->flags[k]);
        }
        free(c->uses), free(c->clashes), free(c->places), free(c->owners);
        free(c->low), free(c->words), free(c);
    }
}

static npa_chain *chain_new(const step *steps, int nsteps, npa_queue *q)
{
    size_t uses = 1;
    for (int i = 0; i < nsteps && i < NPA_LONGEST_CHAIN; i++) {
        uses += (size_t)steps[i].narrays;
    }
    npa_chain *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->nbuffers = q->nbuffers;
        c->uses = malloc(uses * sizeof *c->uses);
        c->places = calloc((size_t)q->nbuffers + 1, sizeof *c->places);
        c->owners = calloc((size_t)q->nbuffers + 1, sizeof *c->owners);
        c->low = malloc(2 * PARTS * NPA_LONGEST_CHAIN * sizeof *c->low);
        c->high = c->low + PARTS * NPA_LONGEST_CHAIN;
    }
    if (c == NULL || c->uses == NULL || c->places == NULL || c->owners == NULL || c->low == NULL) {
        npa_chain_drop(c);
        return NULL;
    }
    for (int b = 0; b < q->nbuffers; b++) {
        c->owners[b].memory = c->owners[b].donor = -1;
    }
    return c;
}

/* How many of the kernels have their share in every part. */
static int divided(npa_chain *c)
{
    int k = 0;
    while (k < c->n && divide(c, k)) {
        k++;
    }
    return k;
}

/* Larger parts, then shorter chains, until every part has its share of each kernel. */
static bool settle(npa_chain *c)
{
    while (c->n > 1) {
        int64_t bytes = measure(c), threads = npa_pool_size();
        if (bytes < 4 * wave_bytes()) {
            return false;
        }
        int64_t parts =
            threads == 1 ? 1 : least(PARTS, most(threads, least(4 * threads, bytes / PART_BYTES)));
        int through = 0;
        for (; parts > 0; parts = parts > threads ? most(threads, parts / 2) : 0) {
            c->nparts = (int)parts;
            if ((through = divided(c)) == c->n) {
                c->waves = most(1, bytes / (c->nparts * wave_bytes()));
                return true;
            }
        }
        c->n = through;
    }
    return false;
}

/* All memory that is needed, and what raised flags. */
static bool get_memory(npa_chain *c, npa_queue *q)
{
    for (int k = 0; k < c->n; k++) {
        const npa_chain_kernel *mine = &c->kernels[k];
        c->flags[k] = calloc((size_t)mine->s->nslots + 1, sizeof **c->flags);
        for (int i = 0; i < mine->nuses; i++) {
            const npa_chain_owner *o = &c->owners[mine->uses[i].owner];
            if (c->flags[k] == NULL ||
                (o->donor < 0 && npa_step_address(q->buffers[mine->uses[i].owner]) == NULL)) {
                return false;
            }
        }
    }
    return true;
}

/* What the kernel makes takes the memory of what earlier ones have given back. */
static bool hand_over(npa_chain *c, const npa_chain_kernel *k, npa_queue *q)
{
    for (int i = 0; i < k->nuses; i++) {
        npa_chain_owner *o = &c->owners[k->uses[i].owner];
        if (o->donor >= 0) {
            npa_buffer *dead = q->buffers[o->donor];
            if (!npa_range_inherit(q->buffers[k->uses[i].owner]->range, dead->range)) {
                return false;
            }
            c->lasting |= !c->owners[o->donor].made;
            dead->range = NULL, dead->gone = true;
            o->donor = -1;
        }
    }
    return true;
}

/* Addresses: nothing is in the way of them by now. */
static bool bind_all(npa_chain *c, npa_queue *q)
{
    c->nwords = 0;
    for (int k = 0; k < c->n; k++) {
        c->nwords += (size_t)c->kernels[k].s->nwords;
    }
    size_t each = c->nwords + (size_t)c->nbuffers;
    c->words = malloc(8 * (c->nwords + each * (size_t)c->nparts));
    if (c->words == NULL || !get_memory(c, q)) {
        return false;
    }
    c->part_words = c->words + c->nwords;
    int64_t *words = c->words;
    for (int k = 0; k < c->n; k++) {
        const step *s = c->kernels[k].s;
        if (!hand_over(c, &c->kernels[k], q) || npa_step_bind(s, q, words, NULL, false) < 0) {
            return false;
        }
        words += s->nwords;
    }
    for (int p = 0; p < c->nparts; p++) {
        memcpy(c->part_words + (size_t)p * each, c->words, 8 * c->nwords);
        memset(c->part_words + (size_t)p * each + c->nwords, 0, 8 * (size_t)c->nbuffers);
    }
    return true;
}

static size_t scratch(const npa_chain *c)
{
    size_t bytes = 0;
    for (int k = 0; k < c->n; k++) {
        bytes = bytes > c->kernels[k].s->scratch_bytes ? bytes : c->kernels[k].s->scratch_bytes;
    }
    return bytes;
}

npa_chain *npa_chain_form(const step *steps, int nsteps, npa_queue *q)
{
    if (nsteps < 2 || steps[0].bytes_read + steps[0].bytes_written < (size_t)wave_bytes() / 4) {
        return NULL;
    }
    npa_chain *c = chain_new(steps, nsteps, q);
    if (c == NULL) {
        return NULL;
    }
    gather(c, steps, nsteps, q);
    if (settle(c) && npa_step_reserve(scratch(c) + 64)) {
        find_windows(c);
        if (bind_all(c, q)) {
            return c;
        }
    }
    npa_chain_drop(c);
    return NULL;
}

int npa_chain_length(const npa_chain *c) { return c->n; }

bool npa_chain_lasts(const npa_chain *c) { return c->lasting; }

/* Note [Chains]
 *
 * An in-place stencil is a sweep into an array that nobody sees, and a copy from there; a time step
 * often is five or ten kernels over the same grid. Each alone goes through all of memory. Here they
 * follow each other through memory: when the first one is through with some rows, the second does
 * those that it may, and so on, while they are in the cache.
 *
 * What may follow when is told by bytes. Of each array of a kernel the bytes from index i on begin
 * at some place, and those before i end at one; an index of a later kernel may be computed when all
 * that it uses, of what either of the two writes, ends where what the earlier one has yet to do
 * begins. So all pairs that matter are in the program's order, and results are the same.
 *
 * Threads take parts of memory. Of a part an index is computed only if all before it that matter
 * are in the same part, so parts shrink with each kernel at both ends and are independent of each
 * other. What is left at the borders comes afterwards, kernel after kernel; of two borders with a
 * part in between none has to do with the other.
 *
 * An array that is first written here and dies here is kept where it begins: of each part's share
 * only as much memory is used as is between writer and last reader (`move_window`), so it stays in
 * the cache and never reaches memory, which saves up to a sixth of the time of steps on a grid of
 * 1500^2. What a border will need lies where it belongs. Only where
 * each part's bytes lie behind those of the part before, since a window moves all that lies between
 * its first byte and its last.
 *
 * Results that die one after the other have the same memory here, too (else five to seven steps on
 * such a grid take half as long again): who takes it over has to follow who had it, as any writer.
 * Where that had content before, the chain is carried to its end. A chain ends where memory that
 * nobody takes over would be half of what it has, or where there is no room for both. Of rounds of
 * a loop the first is then through with some rows while the last begins with them, and all of them
 * go through memory once. */
