/* ziggurat.c: the tables of normal and exponential numbers, asked of NumPy's functions. */
#include "loops/loops.h"
#include "loops/stream.h"
#include "loops/pcg.h"

/* A source of one given word, then of others; counts them. */
typedef struct {
    uint64_t word;
    int taken;
} given;

static uint64_t given_word(void *context)
{
    given *g = context;
    return g->taken++ == 0 ? g->word : (uint64_t)1 << 40;
}
static double given_double(void *context) { return npa_unit(given_word(context)); }
static uint32_t given_half(void *context) { return (uint32_t)given_word(context); }

static double ask(npa_real_function *f, uint64_t word, bool *one)
{
    given g = {word, 0};
    bitgen_t bits = {&g, given_word, given_half, given_double, given_word};
    double x = f(&bits);
    *one = g.taken == 1;
    return x;
}

/* The least number of a layer that takes more than one word, which is looked for from `guess`
 * on. */
static uint64_t limit_of(npa_real_function *f, int bits, int shift, uint64_t layer, uint64_t guess)
{
    uint64_t low = 0, high = (uint64_t)1 << bits;
    bool one;
    for (uint64_t reach = 2; guess > reach && guess + reach < high && reach < 1 << 10; reach *= 8) {
        ask(f, (guess - reach) << shift | layer, &one);
        bool below = one;
        ask(f, (guess + reach) << shift | layer, &one);
        if (below && !one) {
            low = guess - reach, high = guess + reach;
            break;
        }
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        ask(f, middle << shift | layer, &one);
        if (one) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

void npa_learn_ziggurat(npa_real_function *f, int bits, int shift, int layer_shift,
                        uint64_t *limits, double *widths)
{
    double all = (double)((uint64_t)1 << bits), last = 0;
    for (unsigned k = 0; k < 256; k++) {
        uint64_t layer = (uint64_t)k << layer_shift;
        bool one;
        double width = ask(f, (uint64_t)1 << shift | layer, &one);
        double guess = one && last > 0 && last < width ? all * (last / width) : 0;
        uint64_t limit = one ? limit_of(f, bits, shift, layer, (uint64_t)guess) : 0;
        limits[k] = limit > 1 ? limit : 0, widths[k] = limit > 1 ? width : 0;
        last = widths[k];
    }
}
