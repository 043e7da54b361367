/* pieces.h: a mask is cut into pieces, which all threads go through: what each of them has is
 * counted first. The caller keeps the GIL, so that nobody records meanwhile, and hides what workers
 * read: they can't wait for it. */
#ifndef NPA_PIECES_H
#define NPA_PIECES_H

#include "record/record.h"

#include <string.h>

/* Elements at least; pieces at most */
enum { NPA_PIECE = 1 << 14, NPA_PIECES = 64, NPA_COUNTED_ALONE = 1 << 19 };

typedef struct {
    int64_t n, piece, count;            /* elements: in all; of a piece; how many are in */
    int64_t before[NPA_PIECES + 1];     /* how many are in before a piece */
} npa_pieces;

static inline npa_pieces npa_cut(int64_t n)
{
    int64_t piece = (n + NPA_PIECES - 1) / NPA_PIECES;
    return (npa_pieces){.n = n, .piece = piece < NPA_PIECE ? NPA_PIECE : (piece + 7) & ~(int64_t)7};
}

static inline int64_t npa_piece_count(const npa_pieces *p)
{
    return (p->n + p->piece - 1) / p->piece;
}

static inline int64_t npa_piece_length(const npa_pieces *p, int64_t i)
{
    return p->n - i * p->piece < p->piece ? p->n - i * p->piece : p->piece;
}

/* `one` sets before[i + 1] to how many are in piece i; `bytes`: what it looks at in all. */
static inline void npa_count_pieces(npa_pieces *p, void (*one)(void *, int64_t, int), void *context,
                                    int64_t bytes)
{
    int64_t n = npa_piece_count(p);
    for (int64_t i = 0; bytes <= NPA_COUNTED_ALONE && i < n; i++) {
        one(context, i, 0);
    }
    if (bytes > NPA_COUNTED_ALONE) {
        npa_pool_run(one, context, n, NULL);
    }
    for (int64_t i = 0; i < n; i++) {
        p->before[i + 1] += p->before[i];
    }
    p->count = p->before[n];
}

/* Eight elements at most, of which the bytes of `mask` that are not 0 are in. */
static inline unsigned npa_bits_of(const char *mask)
{
    uint64_t eight, low = 0x7f7f7f7f7f7f7f7f;
    memcpy(&eight, mask, 8);
    eight = ((((eight & low) + low) | eight) & ~low) >> 7;
    return (unsigned)(eight * 0x0102040810204080 >> 56);
}

#endif
