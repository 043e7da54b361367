/* stream.h: what is drawn from a stream of random bits. draws.c: for Python; stream.c: on all
 * threads; twister.c: of NumPy's older generator. */
#ifndef NPACCEL_STREAM_H
#define NPACCEL_STREAM_H

#include "system/system.h"

typedef unsigned __int128 npa_wide;

/* NumPy's PCG64: an LCG, of whose states it gives 64 bits each. A draw of 32 bits keeps the other
 * half. */
typedef struct {
    npa_wide state, inc;
    bool has_half;
    uint32_t half;
} npa_pcg;

typedef union {
    double real;
    int64_t whole;
} npa_drawn;

/* few: how many uniform numbers have a product above a limit, which is Poisson's distribution; by
 * NumPy: Poisson's of a mean of 10 and more, and binomial ones. */
enum npa_drawing { NPA_UNIFORM, NPA_NORMAL, NPA_EXPONENTIAL, NPA_BELOW, NPA_FEW, NPA_BY_NUMPY };

typedef struct {
    enum npa_drawing kind;
    /* Scale * x, shift + scale * x, and exp of that */
    enum { NPA_AS_IS, NPA_SCALED, NPA_MOVED, NPA_EXPED } then;
    double shift, scale;
    int64_t offset; /* below: offset + one of 0..range */
    uint32_t range;
    double limit;
    bool whole, binomial;
    void (*function)(void); /* NumPy's for that */
    double params[2];
} npa_distribution;

/* Learn NumPy's tables for normal and exponential numbers from the functions that draw them. False:
 * they are not what is known. */
bool npa_stream_learn(void (*normal)(void), void (*exponential)(void));
/* Whether n numbers take less time here than in NumPy. */
bool npa_stream_pays(enum npa_drawing kind, int64_t n);
/* Draw n numbers; *from is then as NumPy leaves it. One caller at a time. */
void npa_stream_draw(const npa_distribution *d, npa_pcg *from, npa_drawn *to, int64_t n);

/* A number from 0 to most, one from 0 to most - 1, and so on, n of them, where all ends are above
 * 0: the low bits of 32 random ones, unless they are more. */
void npa_stream_fall(npa_pcg *from, uint32_t most, uint32_t *to, int64_t n);

enum { NPA_TWISTER_WORDS = 624 };

/* NumPy's MT19937, and what RandomState keeps of its normal numbers, which come in pairs. */
typedef struct {
    uint32_t key[NPA_TWISTER_WORDS];
    int pos;
    int *has_gauss;
    double *gauss;
} npa_twister;

/* twister.c: uniform and normal numbers, and integers, as RandomState draws them. False: out of
 * memory, and nothing was drawn. */
bool npa_twister_draw(const npa_distribution *d, npa_twister *from, npa_drawn *to, int64_t n);
/* As npa_stream_fall */
void npa_twister_fall(npa_twister *from, uint32_t most, uint32_t *to, int64_t n);
/* The same of so many words: how many were used. The rest is moved on. */
int64_t npa_fall(const uint32_t *words, int64_t many, uint32_t *most, uint32_t **to, int64_t *n);

#endif
