/* fold_counter.h: what is combined as a binary counter counts. */
#ifndef NPA_RUN_FOLD_COUNTER_H
#define NPA_RUN_FOLD_COUNTER_H

#include "loops/fold.h"

#include <string.h>

typedef npa_arithmetic arithmetic;

/* Equal-sized neighbours combine at once, the rest from the smallest up. */
typedef struct {
    int64_t count, width;
    char *stack;  /* levels of `width` values */
    size_t bytes; /* of a level */
    int top;      /* levels in use */
} counter;

static inline void push(counter *c, const arithmetic *a, void *value)
{
    for (int64_t bits = c->count++; bits & 1; bits >>= 1) {
        a->combine(c->stack + (size_t)--c->top * c->bytes, value, c->width);
    }
    memcpy(c->stack + (size_t)c->top++ * c->bytes, value, c->bytes);
}

/* n values of width 1, which are overwritten. Those that meet in pairs, and pairs of pairs,
 * whatever comes later, do so at once. */
static inline void push_all(counter *c, const arithmetic *a, char *values, int64_t n)
{
    enum { FEW = 8 };
    for (int64_t m, worth; n > 0; n -= m, values += (size_t)m * c->bytes) {
        for (m = 1; 2 * m <= n && c->count % (2 * m) == 0; m *= 2) {
        }
        for (worth = 1; m / worth > FEW; worth *= 2) {
            a->rows(values, 2, 1, 2, m / worth / 2, values);
        }
        for (int64_t k = 0; k < m / worth; k++, c->count += worth) {
            char *value = values + (size_t)k * c->bytes;
            for (int64_t bits = c->count / worth; bits & 1; bits >>= 1) {
                a->combine(c->stack + (size_t)--c->top * c->bytes, value, 1);
            }
            memcpy(c->stack + (size_t)c->top++ * c->bytes, value, c->bytes);
        }
    }
}

static inline void fill(const arithmetic *a, void *to, int64_t n)
{
    memset(to, 0, (size_t)(n * a->size));
}

/* The combination of all that was pushed; the identity if nothing was. */
static inline void take(counter *c, const arithmetic *a, void *to)
{
    if (c->top == 0) {
        fill(a, to, c->width);
        return;
    }
    memcpy(to, c->stack + (size_t)--c->top * c->bytes, c->bytes);
    while (c->top > 0) {
        a->combine(c->stack + (size_t)--c->top * c->bytes, to, c->width);
    }
    c->count = 0;
}

#endif
