/* stream.c: many numbers drawn from one stream of random bits, as one after the other. Note
 * [Pieces] */
#include "loops/loops.h"
#include "loops/stream.h"
#include "loops/pcg.h"

#include <math.h>
#include <numpy/random/bitgen.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* ----------------------------------------------------------------------------------- the stream */

/* LANES: states that go side by side, for a product of 128 bits takes long */
enum { AHEAD = 256, LANES = 4 };

/* Somewhere in the stream. Places count words of 64 bits, or halves of them, from where the call
 * began. */
typedef struct {
    uint64_t words[AHEAD];
    int at, end;
    bool odd;       /* half of words[at] is used */
    int ahead;      /* words that are fetched at once where nobody says how many are needed */
    uint64_t begun; /* the place of words[0], in words */
    npa_wide lanes[LANES];
    npa_jump step; /* of a lane */
    bitgen_t bits;
    double kept[64]; /* what random_binomial keeps between draws */
} reader;

static void refill(reader *r, int64_t needed)
{
    int n = needed < AHEAD ? (int)(needed + LANES - 1) / LANES * LANES : AHEAD;
    n = n > 0 ? n : LANES;
    r->begun += (uint64_t)r->end;
    npa_wide s0 = r->lanes[0], s1 = r->lanes[1], s2 = r->lanes[2], s3 = r->lanes[3];
    npa_jump by = r->step;
    for (int i = 0; i < n; i += LANES) {
        r->words[i] = npa_pcg_bits(s0), r->words[i + 1] = npa_pcg_bits(s1);
        r->words[i + 2] = npa_pcg_bits(s2), r->words[i + 3] = npa_pcg_bits(s3);
        s0 = npa_jumped(s0, by), s1 = npa_jumped(s1, by), s2 = npa_jumped(s2, by),
        s3 = npa_jumped(s3, by);
    }
    r->lanes[0] = s0, r->lanes[1] = s1, r->lanes[2] = s2, r->lanes[3] = s3;
    r->at = 0, r->end = n;
}

static inline uint64_t next_word(reader *r)
{
    if (r->at == r->end) {
        refill(r, r->ahead);
    }
    return r->words[r->at++];
}

static inline uint32_t next_half(reader *r)
{
    if (r->odd) {
        r->odd = false;
        return (uint32_t)(r->words[r->at++] >> 32);
    }
    if (r->at == r->end) {
        refill(r, r->ahead);
    }
    r->odd = true;
    return (uint32_t)r->words[r->at];
}

/* For NumPy's functions, none of which that we call takes halves. */
static uint64_t give_word(void *r) { return next_word(r); }
static double give_double(void *r) { return npa_unit(next_word(r)); }
static uint32_t give_half(void *r) { return next_half(r); }

/* inc and the state before the word at `place`. */
static void start(reader *r, npa_wide state, npa_wide inc, uint64_t place)
{
    npa_jump one = {NPA_PCG_MULTIPLIER, inc};
    for (int k = 0; k < LANES; k++) {
        state = npa_jumped(state, one);
        r->lanes[k] = state;
    }
    npa_jump two = {one.times * one.times, one.plus * one.times + one.plus};
    r->step = (npa_jump){two.times * two.times, two.plus * two.times + two.plus};
    r->at = r->end = 0, r->odd = false, r->begun = place, r->ahead = LANES;
    r->bits = (bitgen_t){r, give_word, give_half, give_double, give_word};
    memset(r->kept, 0, sizeof r->kept);
}

/* -------------------------------------------------------------------------------- distributions */

typedef npa_real_function real_function;
typedef int64_t poisson_function(bitgen_t *, double),
    binomial_function(bitgen_t *, double, int64_t, void *);

/* The ziggurats: a word's low bits choose a layer; what is below its limit, times its width, is the
 * number. */
static struct {
    uint64_t normal_limit[256], exponential_limit[256];
    double normal_width[512], exponential_width[256]; /* 256 on: of numbers below 0 */
    real_function *normal, *exponential;
} zig;

enum { NORMAL_BITS = 52, EXPONENTIAL_BITS = 53 };
static inline uint64_t of_normal(uint64_t word)
{
    return word >> 9 & (((uint64_t)1 << NORMAL_BITS) - 1);
}
static inline uint64_t of_exponential(uint64_t word) { return word >> 11; }
static inline unsigned layer_of_normal(uint64_t word) { return word & 0xff; }
static inline unsigned layer_of_exponential(uint64_t word) { return word >> 3 & 0xff; }

static inline double normal_of(uint64_t word)
{
    return (double)(int64_t)of_normal(word) * zig.normal_width[word & 0x1ff];
}

static inline double exponential_of(uint64_t word)
{
    return (double)(int64_t)of_exponential(word) *
           zig.exponential_width[layer_of_exponential(word)];
}

static inline double finished(const npa_distribution *d, double x)
{
    switch (d->then) {
    case NPA_AS_IS: return x;
    case NPA_SCALED: return d->scale * x;
    case NPA_MOVED: return d->shift + d->scale * x;
    default: return exp(d->shift + d->scale * x);
    }
}

static int64_t by_numpy(const npa_distribution *d, reader *r)
{
    const double *p = d->params;
    return d->binomial ? ((binomial_function *)d->function)(&r->bits, p[1], (int64_t)p[0], r->kept)
                       : ((poisson_function *)d->function)(&r->bits, p[0]);
}

/* Lemire's: the high half of a product, unless the low one says that some numbers would come too
 * often. */
static int64_t below(const npa_distribution *d, reader *r)
{
    uint32_t most = d->range, count = most + 1;
    uint64_t m = (uint64_t)next_half(r) * count;
    if ((uint32_t)m < count) {
        uint32_t least = (UINT32_MAX - most) % count;
        while ((uint32_t)m < least) {
            m = (uint64_t)next_half(r) * count;
        }
    }
    return (int64_t)((uint64_t)d->offset + (m >> 32));
}

static int64_t few(const npa_distribution *d, reader *r)
{
    double product = npa_unit(next_word(r));
    int64_t n = 0;
    for (; product > d->limit; n++) {
        product *= npa_unit(next_word(r));
    }
    return n;
}

static npa_drawn draw_one(const npa_distribution *d, reader *r)
{
    switch (d->kind) {
    case NPA_UNIFORM: return (npa_drawn){.real = finished(d, npa_unit(next_word(r)))};
    case NPA_NORMAL: return (npa_drawn){.real = finished(d, zig.normal(&r->bits))};
    case NPA_EXPONENTIAL: return (npa_drawn){.real = finished(d, zig.exponential(&r->bits))};
    case NPA_BELOW: return (npa_drawn){.whole = below(d, r)};
    case NPA_FEW: return (npa_drawn){.whole = few(d, r)};
    default: return (npa_drawn){.whole = by_numpy(d, r)};
    }
}

static void finish(const npa_distribution *d, npa_drawn *x, int64_t n)
{
    for (int64_t i = 0; i < n && d->then != NPA_AS_IS; i++) {
        x[i].real = finished(d, x[i].real);
    }
}

/* Those that take a word each, of the first n words at hand; how many those are. */
static int64_t easy(const npa_distribution *d, const uint64_t *words, int64_t n, npa_drawn *to)
{
    int64_t i = 0;
    switch (d->kind) {
    case NPA_UNIFORM:
        for (; i < n; i++) {
            to[i].real = npa_unit(words[i]);
        }
        break;
    case NPA_NORMAL:
        for (; i < n && of_normal(words[i]) < zig.normal_limit[layer_of_normal(words[i])]; i++) {
            to[i].real = normal_of(words[i]);
        }
        break;
    case NPA_EXPONENTIAL:
        for (; i < n &&
               of_exponential(words[i]) < zig.exponential_limit[layer_of_exponential(words[i])];
             i++) {
            to[i].real = exponential_of(words[i]);
        }
        break;
    default: break;
    }
    finish(d, to, i);
    return i;
}

/* Two numbers from each of the first n words; how many words. */
static int64_t easy_halves(const npa_distribution *d, const uint64_t *words, int64_t n,
                           npa_drawn *to)
{
    uint64_t count = (uint64_t)d->range + 1, offset = (uint64_t)d->offset;
    int64_t i = 0;
    for (; i < n; i++) {
        uint64_t low = (words[i] & UINT32_MAX) * count, high = (words[i] >> 32) * count;
        if ((uint32_t)low < count || (uint32_t)high < count) {
            break;
        }
        to[2 * i].whole = (int64_t)(offset + (low >> 32));
        to[2 * i + 1].whole = (int64_t)(offset + (high >> 32));
    }
    return i;
}

/* --------------------------------------------------------------------------------------- pieces */

static inline int units_of(const npa_distribution *d) { return d->kind == NPA_BELOW ? 2 : 1; }

static inline uint64_t place_of(const npa_distribution *d, const reader *r)
{
    return (r->begun + (uint64_t)r->at) * (uint64_t)units_of(d) + r->odd;
}

/* Numbers until the place is `until` or beyond, at most n; how many. starts: where each begins,
 * from `from` on; NULL: nobody asks. */
static int64_t draw_until(const npa_distribution *d, reader *r, uint64_t until, int64_t n,
                          npa_drawn *to, uint32_t *starts, uint64_t from)
{
    int64_t done = 0, units = units_of(d);
    r->ahead = n < AHEAD ? (int)n : AHEAD;
    for (uint64_t place = place_of(d, r); done < n && place < until; place = place_of(d, r)) {
        if (r->at == r->end && !r->odd) {
            uint64_t left = (until - place) / (uint64_t)units + 1;
            int64_t most = (n - done) / units + 1;
            refill(r, left < (uint64_t)most ? (int64_t)left : most);
        }
        int64_t whole = r->odd ? 0 : r->end - r->at, most = (n - done) / units;
        uint64_t left = (until - place) / (uint64_t)units;
        whole = whole < most ? whole : most;
        whole = (uint64_t)whole < left ? whole : (int64_t)left;
        int64_t found = units == 2 ? easy_halves(d, r->words + r->at, whole, to + done)
                                   : easy(d, r->words + r->at, whole, to + done);
        for (int64_t i = 0; starts != NULL && i < found * units; i++) {
            starts[done + i] = (uint32_t)(place - from) + (uint32_t)i;
        }
        r->at += (int)found, done += found * units;
        if (found == whole && whole > 0) {
            continue;
        }
        if (starts != NULL) {
            starts[done] = (uint32_t)(place_of(d, r) - from);
        }
        to[done++] = draw_one(d, r);
    }
    return done;
}

enum { PIECE = 1 << 13, LEAST = 1 << 13, HEAD = 256, MOST_PIECES = 64, FEW = 64 };

/* What is drawn as if a number began at `from`; its first `skipped` are not of the stream, but
 * `head` is, in their place. Places are of units. */
typedef struct {
    npa_wide state; /* before its first word */
    uint64_t from, until, end, first_word;
    int64_t n, head_n, skipped, offset, used;
    npa_drawn items[2 * PIECE + 2], head[HEAD];
    uint32_t starts[2 * PIECE + 2];
} piece;

typedef struct {
    const npa_distribution *d;
    npa_wide inc;
    piece *pieces;
    npa_drawn *to;
} job;

static void draw_piece(void *context, int64_t task, int worker)
{
    const job *j = context;
    piece *p = &j->pieces[task];
    reader r;
    (void)worker;
    start(&r, p->state, j->inc, p->first_word);
    if (p->from % (uint64_t)units_of(j->d) == 1) { /* the first piece, in the middle of a word */
        next_half(&r);
    }
    p->n = draw_until(j->d, &r, p->until, 2 * PIECE + 2, p->items, p->starts, p->from);
    p->end = place_of(j->d, &r);
}

static void copy_piece(void *context, int64_t task, int worker)
{
    const job *j = context;
    const piece *p = &j->pieces[task];
    int64_t head = p->head_n < p->used ? p->head_n : p->used;
    (void)worker;
    if (p->used > 0) {
        memcpy(j->to + p->offset, p->head, sizeof *p->head * (size_t)head);
        memcpy(j->to + p->offset + head, p->items + p->skipped,
               sizeof *p->items * (size_t)(p->used - head));
    }
}

/* Where the numbers of the stream meet those of the piece, of which the first begins at `entry`.
 * False: not within HEAD numbers. */
static bool meet(const job *j, piece *p, uint64_t entry, uint32_t *head_starts)
{
    reader r;
    int64_t at = 0;
    uint64_t place = entry;
    bool started = false;
    p->head_n = 0;
    for (;;) {
        while (at < p->n && p->from + p->starts[at] < place) {
            at++;
        }
        if (at < p->n && p->from + p->starts[at] == place) {
            p->skipped = at;
            return true;
        }
        if (at == p->n || p->head_n == HEAD) {
            return false;
        }
        if (!started) {
            uint64_t word = place / (uint64_t)units_of(j->d);
            start(&r, npa_jumped(p->state, npa_jump_of(j->inc, word - p->first_word)), j->inc,
                  word);
            if (place % (uint64_t)units_of(j->d) == 1) {
                next_half(&r);
            }
            started = true;
        }
        head_starts[p->head_n] = (uint32_t)(place - p->from);
        p->head[p->head_n++] = draw_one(j->d, &r);
        place = place_of(j->d, &r);
    }
}

/* A round: pieces from `place` on, whose numbers follow `done` that there are. Advances both; how
 * many pieces were of use. */
static int draw_round(job *j, int count, uint64_t length, npa_wide origin, uint64_t *place,
                      int64_t *done, int64_t n)
{
    uint64_t units = (uint64_t)units_of(j->d), first = *place / units, entry = *place;
    npa_wide state = npa_jumped(origin, npa_jump_of(j->inc, first));
    npa_jump by = npa_jump_of(j->inc, length);
    uint32_t head_starts[HEAD];
    for (int k = 0; k < count; k++, state = npa_jumped(state, by)) {
        piece *p = &j->pieces[k];
        p->state = state, p->first_word = first + (uint64_t)k * length;
        p->from = k == 0 ? *place : p->first_word * units;
        p->until = (p->first_word + length) * units;
        p->head_n = p->skipped = p->used = 0;
    }
    npa_pool_run(draw_piece, j, count, NULL);
    int useful = 0;
    for (; useful < count && *done < n; useful++) {
        piece *p = &j->pieces[useful];
        if (!meet(j, p, entry, head_starts)) {
            break; /* the next round goes on from there */
        }
        int64_t left = n - *done, all = p->head_n + p->n - p->skipped, rest;
        p->offset = *done, p->used = all < left ? all : left;
        rest = p->used - p->head_n; /* of the piece's own */
        entry = p->used == all ? p->end
                : rest < 0     ? p->from + head_starts[p->used]
                               : p->from + p->starts[p->skipped + rest];
        *done += p->used;
    }
    *place = entry;
    npa_pool_run(copy_piece, j, useful, NULL);
    return useful;
}

/* The rest, one number after the other. */
static void draw_in_turn(const npa_distribution *d, npa_wide origin, npa_wide inc, uint64_t *place,
                         npa_drawn *to, int64_t n)
{
    uint64_t units = (uint64_t)units_of(d);
    reader r;
    start(&r, npa_jumped(origin, npa_jump_of(inc, *place / units)), inc, *place / units);
    if (*place % units == 1) {
        next_half(&r);
    }
    draw_until(d, &r, INT64_MAX, n, to, NULL, 0);
    *place = place_of(d, &r);
}

/* Numbers of one word each, straight to where they belong. */
typedef struct {
    const npa_distribution *d;
    npa_wide state, inc;
    npa_drawn *to;
    int64_t n;
} plain_job;

static void draw_plain(void *context, int64_t task, int worker)
{
    const plain_job *j = context;
    int64_t from = task * PIECE, n = j->n - from < PIECE ? j->n - from : PIECE,
            whole = n / LANES * LANES;
    npa_drawn *to = j->to + from;
    reader r;
    (void)worker;
    start(&r, npa_jumped(j->state, npa_jump_of(j->inc, (uint64_t)from)), j->inc, 0);
    npa_wide s0 = r.lanes[0], s1 = r.lanes[1], s2 = r.lanes[2], s3 = r.lanes[3];
    for (int64_t i = 0; i < whole; i += LANES) {
        to[i].real = npa_unit(npa_pcg_bits(s0)), to[i + 1].real = npa_unit(npa_pcg_bits(s1));
        to[i + 2].real = npa_unit(npa_pcg_bits(s2)), to[i + 3].real = npa_unit(npa_pcg_bits(s3));
        s0 = npa_jumped(s0, r.step), s1 = npa_jumped(s1, r.step), s2 = npa_jumped(s2, r.step);
        s3 = npa_jumped(s3, r.step);
    }
    r.lanes[0] = s0, r.lanes[1] = s1, r.lanes[2] = s2, r.lanes[3] = s3;
    finish(j->d, to, whole);
    draw_until(j->d, &r, INT64_MAX, n - whole, to + whole, NULL, 0);
}

/* A half that was kept is drawn before all others; returns how many numbers it took part in. */
static int64_t begin_with_half(const npa_distribution *d, npa_pcg *from, uint64_t *place,
                               npa_drawn *to)
{
    reader r;
    start(&r, from->state, from->inc, 0);
    refill(&r, 1); /* the kept half stands for the second of a word before the first */
    memmove(r.words + 1, r.words, sizeof *r.words * LANES);
    r.words[0] = (uint64_t)from->half << 32, r.end = LANES + 1, r.odd = true;
    to[0] = draw_one(d, &r);
    uint64_t used = place_of(d, &r);
    *place = used - 2;
    return 1;
}

/* Words per number, of some. */
static double rate_of(const npa_distribution *d, npa_wide origin, npa_wide inc, uint64_t *place,
                      npa_drawn *to, int64_t n)
{
    uint64_t before = *place;
    draw_in_turn(d, origin, inc, place, to, n);
    return (double)(*place - before) / (double)units_of(d) / (double)n;
}

static struct {
    piece *pieces; /* kept, for fresh memory costs more than what is done with it */
    int n;
} kept;

static bool reserve(int n)
{
    n = n < MOST_PIECES ? n : MOST_PIECES;
    if (kept.n < n) {
        free(kept.pieces);
        kept.pieces = malloc(sizeof *kept.pieces * (size_t)n);
        kept.n = kept.pieces != NULL ? n : 0;
    }
    return kept.n > 0;
}

static void draw_in_rounds(job *j, npa_wide origin, uint64_t *place, int64_t *done, int64_t n)
{
    int most = kept.n;
    int64_t some = n / 64 < 512 ? n / 64 : 512;
    double rate = rate_of(j->d, origin, j->inc, place, j->to + *done, some);
    for (*done += some; n - *done >= LEAST / 2;) {
        double words = 1.01 * rate * (double)(n - *done);
        int64_t each = (int64_t)(words / most) + 1;
        each = each < PIECE ? each : PIECE;
        if (draw_round(j, most, (uint64_t)each, origin, place, done, n) < 2) {
            break; /* whoever begins anywhere does not find the way */
        }
    }
}

bool npa_stream_pays(enum npa_drawing kind, int64_t n)
{
    bool several = npa_pool_size() > 1;
    switch (kind) {
    case NPA_UNIFORM: return n > 0;
    case NPA_BY_NUMPY: return n >= 2 * LEAST && several;
    default: return n > 0;
    }
}

/* As after so many halves of words. */
static void leave_at_half(npa_pcg *from, uint64_t place)
{
    uint64_t words = (place + 1) / 2;
    from->state = npa_jumped(from->state, npa_jump_of(from->inc, words));
    from->has_half = place % 2 == 1;
    from->half = words > 0 ? (uint32_t)(npa_pcg_bits(from->state) >> 32) : from->half;
}

void npa_stream_draw(const npa_distribution *d, npa_pcg *from, npa_drawn *to, int64_t n)
{
    uint64_t place = 0;
    int64_t done = 0;
    int threads = npa_pool_size(), units = units_of(d);
    if (n > 0 && d->kind == NPA_BELOW && from->has_half) {
        done = begin_with_half(d, from, &place, to);
    }
    if (n - done >= LEAST && d->kind == NPA_UNIFORM) {
        plain_job j = {d, from->state, from->inc, to, n};
        npa_pool_run(draw_plain, &j, (n + PIECE - 1) / PIECE, NULL);
        place = (uint64_t)n, done = n;
    } else if (n - done >= 2 * LEAST && threads > 1 && reserve(4 * threads)) {
        job j = {d, from->inc, kept.pieces, to};
        draw_in_rounds(&j, from->state, &place, &done, n);
    }
    if (done < n) {
        draw_in_turn(d, from->state, from->inc, &place, to + done, n - done);
    }
    if (units == 2 && n > 0) {
        leave_at_half(from, place);
    } else {
        from->state = npa_jumped(from->state, npa_jump_of(from->inc, place));
    }
}

void npa_stream_fall(npa_pcg *from, uint32_t most, uint32_t *to, int64_t n)
{
    reader r;
    uint64_t place = 0;
    if (from->has_half && n > 0) {
        npa_fall(&from->half, 1, &most, &to, &n);
    }
    start(&r, from->state, from->inc, 0);
    while (n > 0) {
        uint32_t halves[2 * AHEAD];
        refill(&r, n / 2 + LANES);
        for (int k = 0; k < r.end; k++) {
            halves[2 * k] = (uint32_t)r.words[k], halves[2 * k + 1] = (uint32_t)(r.words[k] >> 32);
        }
        place += (uint64_t)npa_fall(halves, 2 * r.end, &most, &to, &n);
    }
    leave_at_half(from, place);
}

bool npa_stream_learn(void (*normal)(void), void (*exponential)(void))
{
    zig.normal = (real_function *)normal, zig.exponential = (real_function *)exponential;
    npa_learn_ziggurat(zig.normal, NORMAL_BITS, 9, 0, zig.normal_limit, zig.normal_width);
    for (int k = 0; k < 256; k++) {
        zig.normal_width[256 + k] = -zig.normal_width[k];
    }
    npa_learn_ziggurat(zig.exponential, EXPONENTIAL_BITS, 11, 3, zig.exponential_limit,
                       zig.exponential_width);
    return zig.normal_limit[0] > 0 && zig.exponential_limit[0] > 0;
}

/* Note [Pieces]
 *
 * Most numbers take one word of the stream, some take more, so nobody knows where the thousandth
 * begins before the others are drawn. But whoever begins anywhere, as if a number began there, soon
 * comes to a place where one does: from there on both draw the same. So the words are cut into
 * pieces, the LCG jumps to the begin of each, all are drawn at once, and afterwards, piece by
 * piece, the few numbers before that place are drawn again. A distribution's parameters must be the
 * same for all numbers.
 *
 * NumPy's own functions draw what is not easy (exported by its module `_generator`, as its
 * documentation shows), so a new NumPy's algorithms are ours; tables of the two ziggurats are asked
 * of them, word by word. */
