/* twister.c: many numbers of NumPy's RandomState, drawn from the words of MT19937. */
#include "loops/loops.h"
#include "loops/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

/* ------------------------------------------------------------------------------------ the words */

enum { N = NPA_TWISTER_WORDS, M = 397 };

static inline uint32_t twisted(uint32_t u, uint32_t v)
{
    uint32_t y = (u & 0x80000000u) | (v & 0x7fffffffu);
    return y >> 1 ^ (-(y & 1) & 0x9908b0dfu);
}

NPA_EACH_PROCESSOR static void twist(uint32_t *key)
{
    for (int i = 0; i < N - M; i++) {
        key[i] = key[i + M] ^ twisted(key[i], key[i + 1]);
    }
    for (int i = N - M; i < N - 1; i++) {
        key[i] = key[i + M - N] ^ twisted(key[i], key[i + 1]);
    }
    key[N - 1] = key[M - 1] ^ twisted(key[N - 1], key[0]);
}

NPA_EACH_PROCESSOR static void temper(const uint32_t *key, uint32_t *to, int n)
{
    for (int i = 0; i < n; i++) {
        uint32_t y = key[i];
        y ^= y >> 11;
        y ^= y << 7 & 0x9d2c5680u;
        y ^= y << 15 & 0xefc60000u;
        to[i] = y ^ y >> 18;
    }
}

/* to: NULL: they are skipped. */
static void next_words(npa_twister *s, uint32_t *to, int64_t n)
{
    while (n > 0) {
        if (s->pos == N) {
            twist(s->key);
            s->pos = 0;
        }
        int some = n < N - s->pos ? (int)n : N - s->pos;
        if (to != NULL) {
            temper(s->key + s->pos, to, some);
            to += some;
        }
        s->pos += some, n -= some;
    }
}

static inline double unit(const uint32_t *words)
{
    return ((double)(int32_t)(words[0] >> 5) * 67108864.0 + (double)(int32_t)(words[1] >> 6)) /
           9007199254740992.0;
}

static inline double finished(const npa_distribution *d, double x)
{
    return d->then == NPA_AS_IS ? x : d->shift + d->scale * x;
}

/* ------------------------------------------------------------------------- uniform and integers */

enum { SOME = 512 };

static void draw_uniform(const npa_distribution *d, npa_twister *s, npa_drawn *to, int64_t n)
{
    uint32_t words[2 * SOME];
    for (int64_t done = 0; done < n; done += SOME) {
        int64_t some = n - done < SOME ? n - done : SOME;
        next_words(s, words, 2 * some);
        for (int64_t i = 0; i < some; i++) {
            to[done + i].real = finished(d, unit(words + 2 * i));
        }
    }
}

/* A word's low bits, unless they are more than the range. */
static void draw_below(const npa_distribution *d, npa_twister *s, npa_drawn *to, int64_t n)
{
    uint32_t words[SOME], mask = d->range;
    for (int by = 1; by < 32; by *= 2) {
        mask |= mask >> by;
    }
    while (n > 0) {
        npa_twister before = *s;
        int64_t some = n < SOME ? n : SOME, i = 0, found = 0;
        next_words(s, words, some);
        for (; i < some && found + SOME <= n; i++) { /* there is room for all of them */
            to[found].whole = (int64_t)((uint64_t)d->offset + (words[i] & mask));
            found += (words[i] & mask) <= d->range;
        }
        for (; i < some && found < n; i++) {
            to[found].whole = (int64_t)((uint64_t)d->offset + (words[i] & mask));
            found += (words[i] & mask) <= d->range;
        }
        if (i < some) {
            *s = before;
            next_words(s, NULL, i);
        }
        to += found, n -= found;
    }
}

/* --------------------------------------------------------------------------------------- normal */

/* By the polar method: a trial takes four words, and gives two numbers or none. Trials are
 * evaluated on all threads, and what they give is put together. */
enum { TRIALS = 2048, MOST_PIECES = 32 };

typedef struct {
    uint32_t words[4 * TRIALS];
    double pairs[2 * TRIALS];
    uint16_t trials[TRIALS]; /* of which one each pair is */
    int trials_n, n;
    int64_t offset, used; /* in pairs */
} piece;

typedef struct {
    const npa_distribution *d;
    piece *pieces;
    npa_drawn *to;
    int64_t n;
} job;

static void try(void *context, int64_t task, int worker)
{
    piece *p = &((job *)context)->pieces[task];
    (void)worker;
    p->n = 0;
    for (int t = 0; t < p->trials_n; t++) {
        double x1 = 2.0 * unit(p->words + 4 * t) - 1.0, x2 = 2.0 * unit(p->words + 4 * t + 2) - 1.0;
        double r2 = x1 * x1 + x2 * x2;
        p->pairs[2 * p->n] = x2, p->pairs[2 * p->n + 1] = x1, p->trials[p->n] = (uint16_t)t;
        p->n += r2 < 1.0 && r2 != 0.0;
    }
    for (int i = 0; i < p->n; i++) {
        double x2 = p->pairs[2 * i], x1 = p->pairs[2 * i + 1], r2 = x1 * x1 + x2 * x2;
        double f = sqrt(-2.0 * log(r2) / r2);
        p->pairs[2 * i] = f * x2, p->pairs[2 * i + 1] = f * x1;
    }
}

static void copy(void *context, int64_t task, int worker)
{
    const job *j = context;
    const piece *p = &j->pieces[task];
    (void)worker;
    for (int64_t i = 0, at = 2 * p->offset; i < 2 * p->used && at < j->n; i++, at++) {
        j->to[at].real = finished(j->d, p->pairs[i]);
    }
}

static piece *pieces; /* kept, as in stream.c */

static bool draw_normal(const npa_distribution *d, npa_twister *s, npa_drawn *to, int64_t n)
{
    if (pieces == NULL && (pieces = malloc(sizeof *pieces * MOST_PIECES)) == NULL) {
        return false;
    }
    if (n > 0 && *s->has_gauss) {
        to++->real = finished(d, *s->gauss);
        *s->has_gauss = 0, *s->gauss = 0.0, n--;
    }
    while (n > 0) {
        npa_twister before = *s;
        int64_t pairs = (n + 1) / 2, trials = pairs + pairs * 9 / 32 + 16, found = 0;
        int count = 0, last = 0;
        for (; count < MOST_PIECES && trials > 0; count++, trials -= TRIALS) {
            pieces[count].trials_n = trials < TRIALS ? (int)trials : TRIALS;
            next_words(s, pieces[count].words, 4 * pieces[count].trials_n);
        }
        job j = {d, pieces, to, n};
        npa_pool_run(try, &j, count, NULL);
        for (int k = 0; k < count; k++) {
            piece *p = &pieces[k];
            int64_t left = pairs - found;
            p->offset = found, p->used = p->n < left ? p->n : left;
            found += p->used, last = p->used > 0 ? k : last;
        }
        npa_pool_run(copy, &j, count, NULL);
        if (found == pairs) { /* the last trial that was needed */
            const piece *p = &pieces[last];
            *s = before;
            next_words(s, NULL, 4 * ((int64_t)last * TRIALS + p->trials[p->used - 1] + 1));
            if (n % 2 == 1) {
                *s->has_gauss = 1, *s->gauss = p->pairs[2 * p->used - 1];
            }
        }
        int64_t drawn = 2 * found < n ? 2 * found : n;
        to += drawn, n -= drawn;
    }
    return true;
}

bool npa_twister_draw(const npa_distribution *d, npa_twister *from, npa_drawn *to, int64_t n)
{
    switch (d->kind) {
    case NPA_UNIFORM: draw_uniform(d, from, to, n); return true;
    case NPA_BELOW: draw_below(d, from, to, n); return true;
    case NPA_NORMAL: return draw_normal(d, from, to, n);
    default: return false;
    }
}

int64_t npa_fall(const uint32_t *words, int64_t many, uint32_t *most, uint32_t **to, int64_t *n)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(*most), now = *most, *at = *to, *end = at + *n;
    int64_t i = 0;
    for (; i < many && at < end; i++) {
        while (mask >> 1 >= now) {
            mask >>= 1;
        }
        uint32_t found = words[i] & mask;
        int taken = found <= now;
        *at = found, at += taken, now -= (uint32_t)taken;
    }
    *most = now, *n = end - at, *to = at;
    return i;
}

void npa_twister_fall(npa_twister *s, uint32_t most, uint32_t *to, int64_t n)
{
    uint32_t words[SOME];
    while (n > 0) {
        npa_twister before = *s;
        next_words(s, words, SOME);
        int64_t used = npa_fall(words, SOME, &most, &to, &n);
        if (used < SOME) {
            *s = before;
            next_words(s, NULL, used);
        }
    }
}
