/* pcg.h: PCG64's steps, for stream.c, and the tables that ziggurat.c learns for it. */
#ifndef NPA_LOOPS_PCG_H
#define NPA_LOOPS_PCG_H

#include "loops/stream.h"

#include <numpy/random/bitgen.h>

#define NPA_PCG_MULTIPLIER ((npa_wide)2549297995355413924u << 64 | 4865540595714422341u)

/* What many steps of the LCG are. */
typedef struct {
    npa_wide times, plus;
} npa_jump;

static inline npa_jump npa_jump_of(npa_wide inc, uint64_t steps)
{
    npa_jump all = {1, 0}, one = {NPA_PCG_MULTIPLIER, inc};
    for (; steps > 0; steps >>= 1) {
        if (steps & 1) {
            all = (npa_jump){all.times * one.times, all.plus * one.times + one.plus};
        }
        one = (npa_jump){one.times * one.times, one.plus * one.times + one.plus};
    }
    return all;
}

static inline npa_wide npa_jumped(npa_wide state, npa_jump by)
{
    return state * by.times + by.plus;
}

static inline uint64_t npa_pcg_bits(npa_wide state)
{
    uint64_t mixed = (uint64_t)(state >> 64) ^ (uint64_t)state;
    int by = (int)(state >> 122);
    return mixed >> by | mixed << (-by & 63);
}

static inline double npa_unit(uint64_t word)
{
    return (double)(int64_t)(word >> 11) * (1.0 / 9007199254740992.0);
}

typedef double npa_real_function(bitgen_t *);

/* Learn of each layer the limit, below which a number takes one word, and the width. */
void npa_learn_ziggurat(npa_real_function *f, int bits, int shift, int layer_shift,
                        uint64_t *limits, double *widths);

#endif
