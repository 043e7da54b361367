/* chain_parts.h: what a chain is made of, and which bytes the indices of its kernels use.
 *
 * chain_parts.c  kernels as intervals of bytes
 * chain.c        which kernels make a chain, and which indices of them each part of memory has
 * chain_run.c    runs it
 */
#ifndef NPACCEL_CHAIN_PARTS_H
#define NPACCEL_CHAIN_PARTS_H

#include "run/chain.h"

/* An array as a kernel uses it. Bytes from the buffer's base. */
typedef struct {
    int buffer, owner; /* by the queue's numbers: whose memory it is, and whose it is by now */
    bool written, ordered; /* ordered: bytes grow with the index */
    int64_t base, low, high; /* of index 0: its address, and the bytes there of the other axes */
    int64_t first, end;      /* of all indices */
    const int64_t *strides;
} npa_chain_use;

typedef struct {
    const step *s;
    int64_t n, unit; /* indices, of the band or along the row; cuts are multiples of `unit` */
    int axis, naxes; /* that make the index */
    int nuses, main_use; /* main_use: the one that says where in memory an index is; -1: none */
    npa_chain_use *uses;
} npa_chain_kernel;

typedef struct {
    int64_t low, high; /* bytes that the chain uses */
    /* window: nobody sees it afterwards, so it needs as many bytes as are in use at a time */
    bool used, written, window;
} npa_chain_place;

/* A buffer, and whose memory it has: its own, or that of one that the chain has given back. */
typedef struct {
    int memory, donor; /* -1: it was not met; it takes nobody's */
    bool made, spare, released; /* by the chain; given back and not taken; given back */
} npa_chain_owner;

/* Uses of two kernels whose order matters. */
typedef struct { int16_t early, early_use, late_use; } npa_clash;

struct npa_chain {
    int n, nparts, nbuffers;
    int64_t taken, idle; /* bytes of memory; of that what was given back, and goes to nobody */
    bool lasting; /* what was there before goes, so it is carried to its end */
    int64_t waves;
    npa_chain_kernel kernels[NPA_LONGEST_CHAIN];
    npa_chain_use *uses;
    npa_clash *clashes; /* of kernel k: from begin[k] on */
    int begin[NPA_LONGEST_CHAIN + 1], room;
    npa_chain_place *places; /* per buffer of the queue, of memory that it brings */
    npa_chain_owner *owners; /* per buffer of the queue */
    int64_t extents[NPA_LONGEST_CHAIN]; /* indices of each kernel */
    int64_t *low, *high; /* per part and kernel: the indices of the part are [low, high) */
    uint32_t *flags[NPA_LONGEST_CHAIN];
    /* Bound; a copy for each part, and per buffer how far its window is from where it belongs */
    int64_t *words, *part_words;
    size_t nwords;
};

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* The first byte of what lies at this index and behind it; the end of what lies before it. */
int64_t npa_chain_first_from(const npa_chain_kernel *k, const npa_chain_use *u, int64_t index);
int64_t npa_chain_end_before(const npa_chain_kernel *k, const npa_chain_use *u, int64_t index);
/* What the conflicts of kernel k leave it, up to `most_indices`: those that use nothing of what
 * earlier ones have yet to do, which have done `done` and are through at `all`. */
int64_t npa_chain_limit(const npa_chain *c, int k, int64_t most_indices, const int64_t *done,
                        const int64_t *all);
/* The index from `least_index` on from which on kernel k uses nothing of what earlier ones have
 * before `begun`. */
int64_t npa_chain_start(const npa_chain *c, int k, int64_t least_index, const int64_t *begun);
/* The first index in memory behind `share` of `of` shares. */
int64_t npa_chain_index_at(const npa_chain *c, const npa_chain_kernel *k, int64_t share,
                           int64_t of);
/* The bytes of buffer b that a part uses lie in [low, end); low > end: none. */
void npa_chain_bytes_of_part(const npa_chain *c, int b, int part, int64_t *low, int64_t *end);

#endif
