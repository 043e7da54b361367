/* fold_order.c: in which order the elements of a float sum are taken.
 *
 * The order decides the last bits, so it follows from the operand's shape and strides and the
 * reduced axes alone: it is the same in kernels, without a program, and whatever shares a loop with
 * it (ir/fold_order.py is the same rule; a test compares them). */
#include "loops/loops.h"
#include "loops/fold.h"

#include <string.h>

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Stable: axes along which the operand moves, by falling stride; others stay where they are. */
static void sort_axes(int *axes, int n, const int64_t *strides)
{
    for (int i = 1; i < n; i++) {
        for (int j = i; j > 0; j--) {
            int64_t before = magnitude(strides[axes[j - 1]]), here = magnitude(strides[axes[j]]);
            if (before == 0 || here == 0 || before >= here) {
                break;
            }
            int moved = axes[j];
            axes[j] = axes[j - 1], axes[j - 1] = moved;
        }
    }
}

static int64_t product(const int *axes, int n, const int64_t *shape)
{
    int64_t all = 1;
    for (int i = 0; i < n; i++) {
        all *= shape[axes[i]];
    }
    return all;
}

/* Results that lie apart are as good as neighbours where there are only a few of these. */
static void longest_last(npa_order *o, const int64_t *shape)
{
    int found = 0;
    for (int i = 1; i < o->nband; i++) {
        found = shape[o->band[i]] > shape[o->band[found]] ? i : found;
    }
    int axis = o->band[found];
    memmove(o->band + found, o->band + found + 1, sizeof *o->band * (size_t)(o->nband - 1 - found));
    o->band[o->nband - 1] = axis;
}

/* Results that follow each other in steps of the last axis: colours are as good as columns. */
static int64_t side_by_side(const npa_order *o, const int64_t *shape, const int64_t *strides)
{
    int i = o->nband - 1;
    int64_t n = shape[o->band[i]];
    for (; i > 0 && strides[o->band[i - 1]] == strides[o->band[i]] * shape[o->band[i]]; i--) {
        n *= shape[o->band[i - 1]];
    }
    return n;
}

void npa_fold_order(int ndim, const int64_t *shape, const int64_t *strides, uint32_t axes, int size,
                    npa_order *o)
{
    memset(o, 0, sizeof *o);
    for (int i = 0; i < ndim; i++) {
        if (shape[i] != 1) {
            if (axes >> i & 1) {
                o->inner[o->ninner++] = i;
            } else {
                o->band[o->nband++] = i;
            }
        }
    }
    sort_axes(o->band, o->nband, strides);
    sort_axes(o->inner, o->ninner, strides);
    o->row = 1, o->first = o->ninner;
    while (o->first > 0) { /* short rows that follow each other are one */
        int axis = o->inner[o->first - 1];
        bool behind = o->first < o->ninner &&
                      strides[axis] == strides[o->inner[o->first]] * shape[o->inner[o->first]];
        if (o->first < o->ninner && !(behind && o->row < NPA_SHORT_FOLD)) {
            break;
        }
        o->row *= shape[axis];
        o->first--;
    }
    if (o->nband > 0 && o->ninner > 0) {
        int last = o->band[o->nband - 1];
        int64_t inner = product(o->inner, o->ninner, shape), side = side_by_side(o, shape, strides);
        bool along = side >= NPA_FOLD_BAND && strides[last] == size &&
                     strides[o->inner[o->ninner - 1]] != size;
        o->banded = along || (inner < NPA_FOLD_LANES && inner <= product(o->band, o->nband, shape));
        if (o->banded && side < 2 * NPA_FOLD_BAND) {
            longest_last(o, shape);
        }
    }
}
