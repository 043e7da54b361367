/* chain.c: kernels that follow each other, in step through memory.
 *
 * for each part of memory (parallel):  for each wave:  for each kernel:  the indices that may be
 * next
 * for each border of two parts (parallel):             for each kernel:  the indices left over
 *
 * See Note [Chains] at the end. */
#include "run/run.h"
#include "run/chain.h"

#include <string.h>
#include <unistd.h>

enum { LONGEST = NPA_LONGEST_CHAIN, PARTS = 256 };
enum { PART_BYTES = 1 << 20, LEAST_WAVE = 1 << 17, MOST_WAVE = 1 << 20 };
enum { LINE = 64, PIECE = 64 }; /* bytes; elements that stores past the cache need to begin at */

/* An array as a kernel uses it. Bytes from the buffer's base. */
typedef struct {
    int buffer;
    bool written, ordered; /* ordered: bytes grow with the index */
    int64_t base, low, high; /* of index 0: its address, and the bytes there of the other axes */
    int64_t first, end;      /* of all indices */
    const int64_t *strides;
} use;

typedef struct {
    const step *s;
    int64_t n, unit; /* indices, of the band or along the row; cuts are multiples of `unit` */
    int axis, naxes; /* that make the index */
    int nuses, main_use; /* main_use: the one that says where in memory an index is; -1: none */
    use *uses;
} kernel;

/* A buffer that nobody sees afterwards: it needs as many bytes as are in use at a time. */
typedef struct {
    int buffer;
    int64_t fixed; /* per part, what lies below stays where it is */
} window;

typedef struct {
    int64_t low, high; /* bytes that the chain uses */
    bool used, written, window;
} place;

/* Uses of two kernels whose order matters. */
typedef struct { int16_t early, early_use, late_use; } clash;

struct npa_chain {
    int n, nparts, nbuffers;
    int64_t waves;
    kernel kernels[LONGEST];
    use *uses;
    clash *clashes; /* of kernel k: from begin[k] on */
    int begin[LONGEST + 1], room;
    place *places; /* per buffer of the queue */
    int64_t extents[LONGEST]; /* indices of each kernel */
    int64_t *low, *high; /* per part and kernel: the indices of the part are [low, high) */
    uint32_t *flags[LONGEST];
    int64_t *words, *part_words; /* bound; a copy for each part */
    size_t nwords;
    int64_t *moved; /* per part and buffer how far a window is from where it belongs */
};

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* ------------------------------------------------------------------------- kernels as intervals */

static int64_t position(const kernel *k, const use *u, int64_t index)
{
    int64_t at = 0;
    for (int d = k->axis + k->naxes - 1; d >= k->axis; d--) {
        at += index % k->s->words[d] * u->strides[d];
        index /= k->s->words[d];
    }
    return at;
}

/* The first byte of what lies at this index and behind it; the end of what lies before it. */
static int64_t first_from(const kernel *k, const use *u, int64_t index)
{
    return u->ordered ? u->base + position(k, u, index) + u->low : u->first;
}

static int64_t end_before(const kernel *k, const use *u, int64_t index)
{
    return u->ordered ? u->base + position(k, u, index - 1) + u->high : u->end;
}

/* How many indices have a position of `bytes` or less. */
static int64_t within(const kernel *k, const use *u, int64_t bytes)
{
    int64_t index = 0;
    if (bytes < 0) {
        return 0;
    }
    for (int d = k->axis; d < k->axis + k->naxes; d++) {
        int64_t n = k->s->words[d], stride = u->strides[d];
        int64_t digit = stride > 0 ? least(n - 1, bytes / stride) : n - 1;
        bytes -= digit * stride;
        index = index * n + digit;
    }
    return index + 1;
}

/* The most indices that end at `byte` or before. */
static int64_t fitting(const kernel *k, const use *u, int64_t byte)
{
    int64_t found = !u->ordered ? (u->end <= byte ? k->n : 0)
                                : within(k, u, byte - u->base - u->high);
    return found == k->n ? found : found - found % k->unit;
}

/* The first index from which on all lies at `byte` or behind it. */
static int64_t beginning(const kernel *k, const use *u, int64_t byte)
{
    int64_t found = !u->ordered ? (u->first >= byte ? 0 : k->n)
                                : within(k, u, byte - u->base - u->low - 1);
    return least(k->n, found + (k->unit - found % k->unit) % k->unit);
}

/* What the conflicts of kernel k leave it, up to `most_indices`: those that use nothing of what
 * earlier ones have yet to do, which have done `done` and are through at `all`. */
static int64_t limit(const npa_chain *c, int k, int64_t most_indices, const int64_t *done,
                     const int64_t *all)
{
    for (int i = c->begin[k]; i < c->begin[k + 1]; i++) {
        const clash *x = &c->clashes[i];
        const kernel *early = &c->kernels[x->early];
        if (done[x->early] < all[x->early] && done[x->early] < early->n) {
            int64_t byte = first_from(early, &early->uses[x->early_use], done[x->early]);
            most_indices = least(most_indices,
                                 fitting(&c->kernels[k], &c->kernels[k].uses[x->late_use], byte));
        }
    }
    return most_indices;
}

/* The index from `least_index` on from which on kernel k uses nothing of what earlier ones have
 * before `begun`. */
static int64_t start(const npa_chain *c, int k, int64_t least_index, const int64_t *begun)
{
    for (int i = c->begin[k]; i < c->begin[k + 1]; i++) {
        const clash *x = &c->clashes[i];
        const kernel *early = &c->kernels[x->early];
        if (begun[x->early] > 0) {
            int64_t byte = end_before(early, &early->uses[x->early_use], begun[x->early]);
            least_index = most(least_index,
                               beginning(&c->kernels[k], &c->kernels[k].uses[x->late_use], byte));
        }
    }
    return least_index;
}

/* The first index in memory behind `share` of `of` shares. */
static int64_t index_at(const npa_chain *c, const kernel *k, int64_t share, int64_t of)
{
    if (share <= 0 || share >= of || k->main_use < 0) {
        return share <= 0 ? 0 : k->n;
    }
    const use *u = &k->uses[k->main_use];
    const place *p = &c->places[u->buffer];
    int64_t byte = p->low + (int64_t)((double)(p->high - p->low) * (double)share / (double)of);
    return beginning(k, u, byte);
}

/* -------------------------------------------------------------------------------- which kernels */

static int64_t wave_bytes(void)
{
    static int64_t bytes;
    if (bytes == 0) {
        long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
        bytes = most(LEAST_WAVE, least(MOST_WAVE, cache / 2));
    }
    return bytes;
}

/* Bytes of the axes from `axis` on, but those of the index, around the address; grows: along the
 * index. */
static void reach(const kernel *k, use *u, int item)
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

static bool conflict(const use *a, const use *b)
{
    return a->buffer == b->buffer && (a->written || b->written) && a->first < b->end &&
           b->first < a->end;
}

/* Whether one index uses most of what all do, as of planes behind one another where it runs within
 * each: who has to wait for it waits nearly to the end, when what came first is in no cache any
 * more. */
static bool is_spread(const use *u)
{
    int64_t span = u->high - u->low;
    return span > wave_bytes() && 2 * span > u->end - u->first;
}

/* False: no memory, or they gain nothing from following each other. */
static bool find_clashes(npa_chain *c, int k)
{
    const kernel *late = &c->kernels[k];
    int n = c->begin[k];
    for (int e = 0; e < k; e++) {
        const kernel *early = &c->kernels[e];
        for (int i = 0; i < late->nuses * early->nuses; i++) {
            int mine = i / early->nuses, other = i % early->nuses;
            if (!conflict(&late->uses[mine], &early->uses[other])) {
                continue;
            }
            if (is_spread(&late->uses[mine]) || is_spread(&early->uses[other])) {
                return false;
            }
            if (n == c->room) {
                clash *more = realloc(c->clashes, 2 * (size_t)(n + 16) * sizeof *more);
                if (more == NULL) {
                    return false;
                }
                c->clashes = more, c->room = 2 * (n + 16);
            }
            c->clashes[n++] = (clash){(int16_t)e, (int16_t)other, (int16_t)mine};
        }
    }
    c->begin[k + 1] = n;
    return true;
}

static bool make_kernel(kernel *k, const step *s, use *uses)
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
    *k = (kernel){.s = s,
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
        use *u = &uses[i];
        u->buffer = p->a, u->base = p->b, u->strides = s->words + p->word + 1;
        u->written = s->uses[i] & 1;
        reach(k, u, s->uses[i] >> 1);
        if (u->ordered && u->end - u->first > size && u->end - u->first > 0) {
            size = u->end - u->first, k->main_use = i;
        }
    }
    return true;
}

static bool touches_new(const npa_chain *c, const kernel *k, npa_queue *q)
{
    for (int i = 0; i < k->nuses; i++) {
        int b = k->uses[i].buffer;
        if (q->buffers[b]->fresh && !c->places[b].used) {
            return true;
        }
    }
    return false;
}

static void note_places(npa_chain *c, const kernel *k)
{
    for (int i = 0; i < k->nuses; i++) {
        const use *u = &k->uses[i];
        place *p = &c->places[u->buffer];
        p->low = p->used ? least(p->low, u->first) : u->first;
        p->high = p->used ? most(p->high, u->end) : u->end;
        p->used = true, p->written |= u->written;
    }
}

/* Those that may be in one chain as far as memory goes: no more of it than if each ran alone. */
static void gather(npa_chain *c, const step *steps, int nsteps, npa_queue *q)
{
    bool given_back = false;
    use *uses = c->uses;
    for (c->n = 0; c->n < nsteps && c->n < LONGEST; c->n++) {
        kernel *k = &c->kernels[c->n];
        if (!make_kernel(k, &steps[c->n], uses) || (given_back && touches_new(c, k, q)) ||
            !find_clashes(c, c->n)) {
            break;
        }
        uses += k->nuses;
        c->extents[c->n] = k->n;
        note_places(c, k);
        given_back |= steps[c->n].nreleases > 0;
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
    kernel *mine = &c->kernels[k];
    int64_t inside = 0;
    for (int p = 0; p < c->nparts; p++) {
        int64_t *low = c->low + p * LONGEST, *high = c->high + p * LONGEST;
        low[k] = start(c, k, index_at(c, mine, p, c->nparts), low);
        high[k] = limit(c, k, index_at(c, mine, p + 1, c->nparts), high, c->extents);
        if (low[k] > high[k]) {
            return false;
        }
        inside += high[k] - low[k];
    }
    return 2 * inside >= mine->n || mine->n == 1;
}

/* The bytes of buffer b that a part uses lie in [low, end); low > end: none. */
static void bytes_of_part(const npa_chain *c, int b, int part, int64_t *low, int64_t *end)
{
    *low = INT64_MAX, *end = INT64_MIN;
    for (int k = 0; k < c->n; k++) {
        const kernel *mine = &c->kernels[k];
        int64_t first = c->low[part * LONGEST + k], last = c->high[part * LONGEST + k];
        for (int i = 0; i < mine->nuses && first < last; i++) {
            if (mine->uses[i].buffer == b) {
                *low = least(*low, first_from(mine, &mine->uses[i], first));
                *end = most(*end, end_before(mine, &mine->uses[i], last));
            }
        }
    }
}

/* Whether each part uses bytes behind those of the part before it; not so where kernels write a
 * half of the buffer each (np.concatenate): then what lies between a part's own bytes is another
 * one's. */
static bool lies_in_parts(const npa_chain *c, int b)
{
    int64_t begun = INT64_MIN, low, end;
    for (int p = 0; p < c->nparts; p++) {
        bytes_of_part(c, b, p, &low, &end);
        if (low < begun) {
            return false;
        }
        begun = most(begun, end);
    }
    return true;
}

/* What nobody sees before or after these kernels, and lies in order. earlier: steps before them. */
static void find_windows(npa_chain *c, const step *steps, int earlier, npa_queue *q)
{
    for (int k = 0; k < c->n; k++) {
        const step *s = c->kernels[k].s;
        for (int i = 0; i < s->nreleases; i++) {
            int b = s->releases[i];
            c->places[b].window = c->places[b].used && q->buffers[b]->fresh;
        }
    }
    for (int k = 0; k < c->n; k++) {
        for (int i = 0; i < c->kernels[k].nuses; i++) {
            const use *u = &c->kernels[k].uses[i];
            c->places[u->buffer].window &= u->ordered;
        }
    }
    for (int i = -earlier; i < 0; i++) {
        for (int j = 0; j < steps[i].npatches; j++) {
            const patch *p = &steps[i].patches[j];
            if (p->kind == PATCH_ADDRESS) {
                c->places[p->a].window = false;
            }
        }
    }
    for (int b = 0; b < c->nbuffers; b++) {
        c->places[b].window = c->places[b].window && lies_in_parts(c, b);
    }
}

void npa_chain_drop(npa_chain *c)
{
    if (c != NULL) {
        for (int k = 0; k < LONGEST; k++) {
            free(c->flags[k]);
        }
        free(c->uses), free(c->clashes), free(c->places), free(c->low), free(c->words), free(c);
    }
}

static npa_chain *chain_new(const step *steps, int nsteps, npa_queue *q)
{
    size_t uses = 1;
    for (int i = 0; i < nsteps && i < LONGEST; i++) {
        uses += (size_t)steps[i].narrays;
    }
    npa_chain *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->nbuffers = q->nbuffers;
        c->uses = malloc(uses * sizeof *c->uses);
        c->places = calloc((size_t)q->nbuffers + 1, sizeof *c->places);
        c->low = malloc(2 * PARTS * LONGEST * sizeof *c->low);
        c->high = c->low + PARTS * LONGEST;
    }
    if (c == NULL || c->uses == NULL || c->places == NULL || c->low == NULL) {
        npa_chain_drop(c);
        return NULL;
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

/* Addresses, and what raised flags: all that it needs. */
static bool bind_all(npa_chain *c, npa_queue *q)
{
    c->nwords = 0;
    for (int k = 0; k < c->n; k++) {
        c->nwords += (size_t)c->kernels[k].s->nwords;
    }
    size_t each = c->nwords + (size_t)c->nbuffers;
    c->words = malloc(8 * (c->nwords + each * (size_t)c->nparts));
    if (c->words == NULL) {
        return false;
    }
    c->part_words = c->words + c->nwords;
    int64_t *words = c->words;
    for (int k = 0; k < c->n; k++) {
        const step *s = c->kernels[k].s;
        c->flags[k] = calloc((size_t)s->nslots + 1, sizeof **c->flags);
        if (c->flags[k] == NULL || npa_step_bind(s, q, words, NULL, false) < 0) {
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

npa_chain *npa_chain_form(const step *steps, int earlier, int nsteps, npa_queue *q)
{
    if (nsteps < 2 || steps[0].bytes_read + steps[0].bytes_written < (size_t)wave_bytes() / 4) {
        return NULL;
    }
    npa_chain *c = chain_new(steps, nsteps, q);
    if (c == NULL) {
        return NULL;
    }
    gather(c, steps, nsteps, q);
    if (settle(c)) {
        find_windows(c, steps, earlier, q);
        if (bind_all(c, q)) {
            return c;
        }
    }
    npa_chain_drop(c);
    return NULL;
}

/* ------------------------------------------------------------------------------------- running */

static void call(npa_chain *c, int k, const int64_t *words, int64_t from, int64_t to, int worker)
{
    const kernel *mine = &c->kernels[k];
    const step *s = mine->s;
    bool rows = mine->unit == 1;
    int64_t range[4] = {rows ? from : 0, rows ? to : s->band, rows ? 0 : from,
                        rows ? s->inner : to};
    if (from < to) {
        npa_step_call(s, words, range, worker, c->flags[k]);
    }
}

/* Where what is still used of a window begins, and where what was used of it ends. */
static void still_used(const npa_chain *c, int b, const int64_t *done, const int64_t *high,
                       int64_t *low, int64_t *end)
{
    *low = INT64_MAX, *end = INT64_MIN;
    for (int k = 0; k < c->n; k++) {
        const kernel *mine = &c->kernels[k];
        for (int i = 0; i < mine->nuses; i++) {
            const use *u = &mine->uses[i];
            if (u->buffer == b && done[k] < high[k]) {
                *low = least(*low, first_from(mine, u, done[k]));
            }
            if (u->buffer == b && done[k] > 0) {
                *end = most(*end, end_before(mine, u, done[k]));
            }
        }
    }
}

/* The window of buffer b, `*moved` bytes before where it belongs, goes to where it is `to`. */
static void move_window(npa_chain *c, int64_t *words, int b, int64_t *moved, int64_t to,
                        int64_t low, int64_t end)
{
    int64_t by = *moved - to, *w = words;
    char *base = NULL;
    for (int k = 0; k < c->n; k++) {
        const step *s = c->kernels[k].s;
        for (int i = 0; i < s->narrays; i++) {
            const patch *p = &s->patches[i];
            if (p->a == b) {
                base = (char *)(intptr_t)(w[p->word] - p->b);
                w[p->word] += by;
            }
        }
        w += s->nwords;
    }
    if (base != NULL && low < end) { /* base: as if the window lay where it belongs */
        memmove(base + by + low, base + low, (size_t)(end - low));
    }
    *moved = to;
}

/* The window slides back over what is not used any more, down to `fixed`. */
static void slide(npa_chain *c, int64_t *words, int64_t *moved, int b, const int64_t *done,
                  const int64_t *until, int64_t fixed)
{
    int64_t low, end;
    still_used(c, b, done, until, &low, &end);
    if (low < INT64_MAX && low - fixed >= moved[b] + LINE) {
        move_window(c, words, b, &moved[b], (low - fixed) / LINE * LINE, low, end);
    }
}

/* Below it all lies that the border before this part is to use, or that other parts use. */
static int64_t fixed_below(const npa_chain *c, int b, int part)
{
    int64_t found, end;
    bytes_of_part(c, b, part, &found, &end);
    for (int k = 0; k < c->n; k++) {
        const kernel *mine = &c->kernels[k];
        int64_t low = c->low[part * LONGEST + k];
        for (int i = 0; i < mine->nuses && low > 0; i++) {
            if (mine->uses[i].buffer == b) {
                found = most(found, end_before(mine, &mine->uses[i], low));
            }
        }
    }
    return found;
}

static void run_part(void *context, int64_t part, int worker)
{
    npa_chain *c = context;
    int64_t done[LONGEST], until[LONGEST],
        *words = c->part_words + part * (int64_t)(c->nwords + (size_t)c->nbuffers);
    const int64_t *high = c->high + part * LONGEST, *low = c->low + part * LONGEST, *w;
    int64_t *moved = words + c->nwords;
    for (int k = 0; k < c->n; k++) { /* until: what the border behind this part goes on with */
        done[k] = low[k];
        until[k] = part + 1 < c->nparts ? c->low[(part + 1) * LONGEST + k] : high[k];
    }
    for (int64_t wave = 1; wave <= c->waves; wave++) {
        w = words;
        for (int k = 0; k < c->n; k++) {
            const kernel *mine = &c->kernels[k];
            int64_t to = high[k];
            if (wave < c->waves) {
                to = least(to, index_at(c, mine, part * c->waves + wave, c->nparts * c->waves));
            }
            to = limit(c, k, to, done, high);
            call(c, k, w, done[k], to, worker);
            done[k] = most(done[k], to);
            w += mine->s->nwords;
        }
        for (int b = 0; b < c->nbuffers; b++) {
            if (c->places[b].window && wave < c->waves) {
                slide(c, words, moved, b, done, until, fixed_below(c, b, (int)part));
            }
        }
    }
    for (int b = 0; b < c->nbuffers; b++) {
        int64_t first, end;
        if (moved[b] > 0) {
            still_used(c, b, done, until, &first, &end);
            move_window(c, words, b, &moved[b], 0, first, end);
        }
    }
}

/* The border behind a part: what the two parts that meet there could not do. */
static void run_border(void *context, int64_t part, int worker)
{
    npa_chain *c = context;
    const int64_t *from = c->high + part * LONGEST, *to = c->low + (part + 1) * LONGEST,
                  *w = c->words;
    for (int k = 0; k < c->n; k++) {
        call(c, k, w, from[k], to[k], worker);
        w += c->kernels[k].s->nwords;
    }
}

int npa_chain_run(npa_chain *c, int64_t *took, uint8_t *kinds, int (*poll)(void *), void *arg)
{
    int64_t unknown = 0;
    int status = npa_pool_run_polled(run_part, c, c->nparts, poll, arg, took);
    if (status == 0) {
        npa_pool_run_polled(run_border, c, c->nparts - 1, NULL, NULL, &unknown);
    }
    for (int k = 0; k < c->n && status == 0; k++) {
        const step *s = c->kernels[k].s;
        for (int i = 0; i < s->nslots; i++) {
            kinds[s->slots[i]] |= (uint8_t)c->flags[k][i];
        }
    }
    npa_chain_drop(c);
    return status;
}

int npa_chain_length(const npa_chain *c) { return c->n; }

size_t npa_chain_scratch(const npa_chain *c)
{
    size_t bytes = 0;
    for (int k = 0; k < c->n; k++) {
        bytes = bytes > c->kernels[k].s->scratch_bytes ? bytes : c->kernels[k].s->scratch_bytes;
    }
    return bytes;
}

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
 * the cache and never reaches memory. What a border will need lies where it belongs. Only where
 * each part's bytes lie behind those of the part before, since a window moves all that lies between
 * its first byte and its last.
 *
 * Kernels whose results die one after the other share memory; a chain ends where it would need more
 * than they do. */
