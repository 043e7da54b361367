/* fill.c: a template's numbers, which are a size's, into a copy of its program.
 *
 *     words of requests -> numbers -> extents, strides -> words of kernels, tasks, bytes that move
 *                                  -> whether it is for these: ranges, splits, stores
 *
 * The words of a filling are runtime/programs/templates.py's. */
#include "run/template.h"

#include <stdlib.h>
#include <string.h>

/* An array of a kernel's. offset, strides: which numbers. read: by its loops, at its own places;
 * streams: it may be stored past the cache, 1 if rows begin with a line; past: it is. */
typedef struct { int64_t buffer, offset, item, read, written, streams, past, strides[]; } array;
enum { ARRAY_WORDS = sizeof(array) / 8 };

/* A step's; of a request's there is nothing to fill. gathered: bytes read by indices, per point.
 * extents: per axis how many numbers, and which: it is their product. */
typedef struct {
    const npa_tasks *tasks; /* NULL: a request */
    bool may_be_split;
    int rank, narrays;
    int64_t gathered;
    const int64_t *extents, *arrays;
} part;

struct npa_filling {
    int64_t *words;
    size_t nwords;
    /* Three of structures, one of rows that are long; bytes of a line of the cache, of results
     * from which on they are stored past it, and of rows that may begin within a line */
    const int64_t *limits;
    const int64_t *places, *constants, *ranges;
    int64_t nplaces, nconstants, nranges;
    part *parts;
    int64_t nparts;
    size_t *at; /* of each place's number, in bytes of the requests' words */
};

static const array *array_at(const part *p, int k)
{
    return (const array *)(p->arrays + (size_t)k * (size_t)(ARRAY_WORDS + p->rank));
}

/* --------------------------------------------------------------------------------- reading */

typedef struct {
    const int64_t *at, *end;
    bool failed;
} reader;

static const int64_t *take(reader *r, int64_t n)
{
    const int64_t *found = r->at;
    if (r->failed || n < 0 || n > r->end - r->at) {
        r->failed = true;
        return NULL;
    }
    r->at += n;
    return found;
}

static int64_t take_one(reader *r)
{
    const int64_t *found = take(r, 1);
    return found != NULL ? *found : 0;
}

/* So many things of so many words follow the word that says how many. */
static const int64_t *take_list(reader *r, int64_t *n, int64_t each)
{
    *n = take_one(r);
    r->failed |= *n < 0 || *n > r->end - r->at;
    return take(r, r->failed ? -1 : *n * each);
}

static bool is_number(const npa_filling *f, int64_t which)
{
    return which >= 0 && which < f->nplaces + f->nconstants;
}

/* Which numbers, and how many: a list. */
static void take_numbers(const npa_filling *f, reader *r)
{
    int64_t n;
    const int64_t *of = take_list(r, &n, 1);
    for (int64_t i = 0; !r->failed && i < n; i++) {
        r->failed |= !is_number(f, of[i]);
    }
}

static void take_array(const npa_filling *f, reader *r, const part *p, const step *s, int k)
{
    const array *a = (const array *)take(r, ARRAY_WORDS + p->rank);
    if (a == NULL) {
        return;
    }
    const patch *to = &s->patches[k];
    r->failed |= to->kind != PATCH_ADDRESS || to->a != a->buffer || a->offset < 0 ||
                 a->offset >= f->nplaces || f->places[3 * a->offset + 2] != -1 || a->item < 1;
    for (int d = 0; !r->failed && d < p->rank; d++) {
        r->failed |= !is_number(f, a->strides[d]);
    }
}

static void take_part(const npa_filling *f, reader *r, part *p, const step *s)
{
    int64_t words;
    if (take_one(r) == 0) {
        r->failed |= s->request < 0;
        return;
    }
    p->may_be_split = take_one(r) != 0, p->gathered = take_one(r);
    p->rank = (int)take_one(r), p->narrays = (int)take_one(r);
    p->tasks = (const npa_tasks *)take_list(r, &words, 1);
    r->failed |= s->request >= 0 || p->rank != s->rank || p->narrays != s->narrays ||
                 p->rank < 1 || p->rank > NPA_MAX_DIMS || p->narrays > NPA_MOST_ARRAYS ||
                 s->nwraps > 0 || s->owner != 0;
    r->failed |= r->failed || !npa_tasks_good(p->tasks, (size_t)words, p->rank);
    p->extents = r->at;
    for (int d = 0; !r->failed && d < p->rank; d++) {
        take_numbers(f, r);
    }
    p->arrays = r->at;
    for (int k = 0; !r->failed && k < p->narrays; k++) {
        take_array(f, r, p, s, k);
    }
}

static void take_ranges(npa_filling *f, reader *r)
{
    f->nranges = take_one(r), f->ranges = r->at;
    for (int64_t i = 0; !r->failed && i < f->nranges; i++) {
        take(r, 3); /* lanes, low, high */
        take_numbers(f, r);
    }
}

static bool take_all(npa_filling *f, reader *r, const npa_program *blank)
{
    f->limits = take(r, 7);
    f->places = take_list(r, &f->nplaces, 3);
    f->constants = take_list(r, &f->nconstants, 1);
    take_ranges(f, r);
    f->nparts = take_one(r);
    r->failed |= f->nparts != blank->nsteps;
    f->parts = r->failed ? NULL : calloc((size_t)f->nparts + 1, sizeof *f->parts);
    f->at = f->parts != NULL ? calloc((size_t)f->nplaces + 1, sizeof *f->at) : NULL;
    for (int64_t i = 0; f->at != NULL && !r->failed && i < f->nparts; i++) {
        take_part(f, r, &f->parts[i], &blank->steps[i]);
    }
    return !r->failed && f->at != NULL && r->at == r->end;
}

void npa_filling_drop(npa_filling *f)
{
    if (f != NULL) {
        free(f->words), free(f->parts), free(f->at), free(f);
    }
}

npa_filling *npa_filling_new(PyObject *words, const npa_program *blank)
{
    size_t size = (size_t)PyBytes_GET_SIZE(words);
    npa_filling *f = calloc(1, sizeof *f);
    if (f == NULL || (f->words = malloc(size + 8)) == NULL) {
        npa_filling_drop(f);
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(f->words, PyBytes_AS_STRING(words), size);
    f->nwords = size / 8;
    reader r = {f->words, f->words + size / 8, size % 8 != 0};
    if (!take_all(f, &r, blank) || f->limits[4] < 1) {
        npa_filling_drop(f);
        PyErr_SetString(PyExc_ValueError, "fill: these words are not those of a template");
        return NULL;
    }
    return f;
}

bool npa_filling_same(const npa_filling *a, const npa_filling *b)
{
    return a->nwords == b->nwords && memcmp(a->words, b->words, 8 * a->nwords) == 0;
}

const int64_t *npa_filling_limits(const npa_filling *f) { return f->limits; }
int npa_filling_count(const npa_filling *f) { return (int)(f->nplaces + f->nconstants); }

/* ---------------------------------------------------------------------------------- numbers */

bool npa_filling_place(npa_filling *f, const npa_traced *t)
{
    bool found = true;
    for (int64_t i = 0; found && i < f->nplaces; i++) {
        const int64_t *p = f->places + 3 * i;
        const int64_t *at =
            npa_number_at(t, (npa_number){(int32_t)p[0], (int32_t)p[1], (int32_t)p[2]});
        found = at != NULL;
        f->at[i] = found ? (size_t)((const char *)at - t->words) : 0;
    }
    return found;
}

void npa_filling_read(const npa_filling *f, const char *words, int64_t *numbers)
{
    for (int64_t i = 0; i < f->nplaces; i++) {
        numbers[i] = *(const int64_t *)(words + f->at[i]);
    }
    memcpy(numbers + f->nplaces, f->constants, 8 * (size_t)f->nconstants);
}

bool npa_filling_alike(const npa_filling *f, const int64_t *a, const int64_t *b)
{
    bool alike = true;
    for (int64_t i = 0; alike && i < f->nplaces; i++) {
        alike = f->places[3 * i + 2] == -1 || a[i] == b[i];
    }
    return alike;
}

/* The product of the numbers in a list; *of: the list, and then what follows it. */
static int64_t multiplied(const int64_t **of, const int64_t *numbers)
{
    int64_t all = 1, n = *(*of)++;
    for (; n > 0; n--) {
        all *= numbers[*(*of)++];
    }
    return all;
}

static void find_extents(const part *p, const int64_t *numbers, int64_t *extents)
{
    const int64_t *of = p->extents;
    for (int d = 0; d < p->rank; d++) {
        extents[d] = multiplied(&of, numbers);
    }
}

static bool show_the_same(const part *p, const array *a, const array *b, const int64_t *numbers)
{
    bool same = a->buffer == b->buffer && a->item == b->item &&
                numbers[a->offset] == numbers[b->offset];
    for (int d = 0; same && d < p->rank; d++) {
        same = numbers[a->strides[d]] == numbers[b->strides[d]];
    }
    return same;
}

/* What arrays of one buffer show: bytes from the first to the last one, and of all together. */
typedef struct { int64_t low, high, amount; } shown;

static void show(const part *p, const array *a, const int64_t *numbers, const int64_t *extents,
                 shown *all)
{
    int64_t low = numbers[a->offset], high = low + a->item, amount = a->item;
    for (int d = 0; d < p->rank; d++) {
        int64_t stride = numbers[a->strides[d]], reach = stride * (extents[d] - 1);
        *(reach < 0 ? &low : &high) += reach;
        amount *= stride != 0 ? extents[d] : 1;
    }
    all->low = low < all->low ? low : all->low;
    all->high = high > all->high ? high : all->high;
    all->amount += amount;
}

/* Whether an array is read, or written, and no earlier one shows the same. */
static bool counts(const part *p, int k, bool written, const int64_t *numbers)
{
    const array *a = array_at(p, k);
    bool counted = (written ? a->written : a->read) != 0;
    for (int i = 0; counted && i < k; i++) {
        const array *b = array_at(p, i);
        counted = (written ? b->written : b->read) == 0 || !show_the_same(p, a, b, numbers);
    }
    return counted;
}

/* As touched_bytes in runtime/programs/program.py has it. */
static int64_t touched(const part *p, bool written, const int64_t *numbers, const int64_t *extents)
{
    int64_t bytes = 0, only = 0;
    int n = 0;
    bool counted[NPA_MOST_ARRAYS], told[NPA_MOST_ARRAYS] = {false};
    for (int k = 0; k < p->narrays; k++) {
        counted[k] = counts(p, k, written, numbers);
        n += counted[k];
    }
    for (int k = 0; k < p->narrays; k++) {
        shown all = {INT64_MAX, INT64_MIN, 0};
        for (int i = k; i < p->narrays && counted[k] && !told[k]; i++) {
            if (counted[i] && array_at(p, i)->buffer == array_at(p, k)->buffer) {
                show(p, array_at(p, i), numbers, extents, &all);
                told[i] = i > k;
            }
        }
        int64_t span = all.amount > 0 ? all.high - all.low : 0;
        bytes += span < all.amount ? span : all.amount;
        only += all.amount;
    }
    return n == 1 ? only : bytes;
}

/* --------------------------------------------------------------------------------- fitting */

/* As ir/limits.py has it: whether rows are cut. */
static bool is_split(const npa_filling *f, const part *p, const int64_t *extents)
{
    int64_t band_rank = p->tasks->band_rank;
    bool few = npa_multiplied(extents, 0, band_rank) < f->limits[0];
    bool is_long = extents[p->rank - 1] >= f->limits[3] ||
                   (few && npa_multiplied(extents, band_rank, p->rank) >= f->limits[1]);
    return p->may_be_split && (band_rank == 0 || is_long || p->tasks->across > 0);
}

/* Whether an array may be stored past the cache, where it lies. */
static bool may_pass(const npa_filling *f, const part *p, const array *a, const int64_t *numbers,
                     const int64_t *extents)
{
    int64_t line = f->limits[4];
    if (a->streams == 2 && extents[p->rank - 1] * a->item >= f->limits[6]) {
        return true;
    }
    bool whole = a->streams && numbers[a->offset] % line == 0;
    for (int d = 0; whole && d + 1 < p->rank; d++) {
        whole = numbers[a->strides[d]] % line == 0;
    }
    return whole;
}

/* Whether the same arrays are stored past the cache. */
static bool stores_alike(const npa_filling *f, const part *p, const int64_t *numbers,
                         const int64_t *extents)
{
    bool any = false, alike = true;
    for (int k = 0; alike && k < p->narrays; k++) {
        const array *a = array_at(p, k);
        bool may = may_pass(f, p, a, numbers, extents);
        any |= may, alike = may || !a->past;
    }
    bool past = alike && any && touched(p, true, numbers, extents) > f->limits[5];
    for (int k = 0; alike && any && k < p->narrays; k++) {
        const array *a = array_at(p, k);
        alike = (past && may_pass(f, p, a, numbers, extents)) == (a->past != 0);
    }
    return alike;
}

static bool in_ranges(const npa_filling *f, const int64_t *numbers)
{
    bool within = true;
    const int64_t *of = f->ranges;
    for (int64_t i = 0; within && i < f->nranges; i++) {
        int64_t lanes = of[0], low = of[1], high = of[2];
        of += 3;
        int64_t length = multiplied(&of, numbers) * lanes;
        within = low <= length && length < high;
    }
    return within;
}

bool npa_filling_fits(const npa_filling *f, const int64_t *numbers)
{
    bool fits = in_ranges(f, numbers);
    for (int64_t i = 0; fits && i < f->nparts; i++) {
        const part *p = &f->parts[i];
        int64_t extents[NPA_MAX_DIMS];
        if (p->tasks != NULL) {
            find_extents(p, numbers, extents);
            fits = is_split(f, p, extents) == (p->tasks->split != 0) &&
                   stores_alike(f, p, numbers, extents);
        }
    }
    return fits;
}

/* --------------------------------------------------------------------------------- filling */

/* What a thread takes is as it was for other numbers, point by point. */
static void expect(const part *p, const step *like, const int64_t *before, const int64_t *numbers,
                   step *s)
{
    int64_t extents[NPA_MAX_DIMS], were[NPA_MAX_DIMS];
    find_extents(p, numbers, extents), find_extents(p, before, were);
    double ratio = (double)npa_multiplied(extents, 0, p->rank) /
                   (double)npa_multiplied(were, 0, p->rank);
    s->took = (int64_t)((double)like->took * ratio);
    s->chain_took = like->chain_took > 0 ? (int64_t)((double)like->chain_took * ratio) : 0;
}

static void fill_step(const npa_filling *f, const part *p, const int64_t *numbers, step *s)
{
    int64_t extents[NPA_MAX_DIMS];
    find_extents(p, numbers, extents);
    npa_cut cut = npa_tasks_cut(p->tasks, extents, p->rank, npa_pool_size());
    int64_t points = npa_multiplied(extents, 0, p->rank);
    s->band = cut.band, s->band_step = cut.band_step;
    s->inner = cut.inner, s->inner_step = cut.inner_step, s->parts = cut.parts;
    s->scratch_bytes = (size_t)cut.scratch_bytes, s->partial_bytes = (size_t)cut.partial_bytes;
    s->bytes_read = (size_t)(touched(p, false, numbers, extents) + points * p->gathered);
    s->bytes_written = (size_t)touched(p, true, numbers, extents);
    memcpy(s->words, extents, 8 * (size_t)p->rank);
    for (int k = 0; k < p->narrays; k++) {
        const array *a = array_at(p, k);
        const int64_t *place = f->places + 3 * a->offset;
        int64_t *strides = s->words + p->rank + k * (1 + p->rank) + 1;
        for (int d = 0; d < p->rank; d++) {
            strides[d] = numbers[a->strides[d]];
        }
        s->patches[k].request = (int32_t)place[0], s->patches[k].operand = (int32_t)place[1];
        s->patches[k].b = numbers[a->offset];
    }
    s->words[s->nwords - 1] = s->parts;
}

void npa_fill(const npa_filling *f, npa_program *made, const npa_program *like,
              const int64_t *before, const int64_t *numbers)
{
    for (int64_t i = 0; i < f->nparts; i++) {
        if (f->parts[i].tasks != NULL) {
            step *s = &made->steps[i];
            fill_step(f, &f->parts[i], numbers, s);
            if (like != NULL) {
                expect(&f->parts[i], &like->steps[i], before, numbers, s);
            }
        }
    }
}
