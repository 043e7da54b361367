/* space.c: the space of a request, gone through line by line. */
#include "run/space.h"

#include <stdlib.h>
#include <string.h>

/* Lines of fewer elements cost more to begin than to go along. */
enum { SHORT_LINE = 16, PIECE = 1024 };

int npa_space_of(npa_queue *q, npa_request *r, npa_space *s)
{
    s->ndim = r->ndim;
    s->n = npa_operand_count(r);
    for (int k = 0; k < s->n; k++) {
        npa_operand *o = npa_operand_at(r, k);
        if (o->buffer < 0) {
            s->p[k] = (char *)o->at;
        } else {
            char *base = npa_buffer_address(q->buffers[o->buffer]);
            if (base == NULL) {
                return -1;
            }
            s->p[k] = base + o->offset;
        }
        for (int i = 0; i < r->ndim; i++) {
            s->strides[i][k] = o->buffer < 0 ? 0 : o->at[i];
        }
    }
    memcpy(s->shape, r->shape, sizeof(int64_t) * r->ndim);
    npa_compute_begin();
    return 0;
}

static void swap_axes(npa_space *s, int a, int b)
{
    int64_t shape = s->shape[a], row[NPA_MAX_ARGS + 1];
    s->shape[a] = s->shape[b], s->shape[b] = shape;
    memcpy(row, s->strides[a], sizeof row);
    memcpy(s->strides[a], s->strides[b], sizeof row);
    memcpy(s->strides[b], row, sizeof row);
}

void npa_space_simplify(npa_space *s, int lead)
{
    int m = 0;
    for (int i = 0; i < s->ndim; i++) {
        if (s->shape[i] != 1) {
            if (i != m) {
                swap_axes(s, i, m);
            }
            m++;
        }
    }
    for (int i = 1; i < m; i++) {
        for (int j = i; j > 0 && llabs(s->strides[j - 1][lead]) < llabs(s->strides[j][lead]); j--) {
            swap_axes(s, j, j - 1);
        }
    }
    int out = 0;
    for (int i = 1; i < m; i++) {
        bool merge = true;
        for (int k = 0; k < s->n; k++) {
            merge &= s->strides[out][k] == s->strides[i][k] * s->shape[i];
        }
        if (merge) {
            s->shape[out] *= s->shape[i];
            memcpy(s->strides[out], s->strides[i], sizeof s->strides[i]);
        } else if (++out != i) {
            s->shape[out] = s->shape[i];
            memcpy(s->strides[out], s->strides[i], sizeof s->strides[i]);
        }
    }
    if (m == 0) {
        s->shape[0] = 1;
        memset(s->strides[0], 0, sizeof s->strides[0]);
    }
    s->ndim = m == 0 ? 1 : out + 1;
}

void npa_space_turn(npa_space *s)
{
    for (int i = 0; i < s->ndim; i++) {
        bool back = false, on = false;
        for (int k = 0; k < s->n; k++) {
            back |= s->strides[i][k] < 0, on |= s->strides[i][k] > 0;
        }
        for (int k = 0; k < s->n && back && !on; k++) {
            s->p[k] += s->strides[i][k] * (s->shape[i] - 1);
            s->strides[i][k] = -s->strides[i][k];
        }
    }
}

/* Call line() for pieces of so many elements along axis `along`, as often as the others say. */
static void each_piece(const struct npa_job *j, const npa_space *s, npa_line *line, int along,
                       int64_t piece)
{
    npa_space pieces = *s;
    int64_t index[NPA_MAX_DIMS] = {0};
    char **p = pieces.p;
    pieces.shape[along] = (s->shape[along] + piece - 1) / piece;
    for (int k = 0; k < s->n; k++) {
        pieces.strides[along][k] *= piece;
    }
    for (;;) {
        int64_t left = s->shape[along] - index[along] * piece;
        line(j, p, s->strides[along], left < piece ? left : piece);
        int i = s->ndim - 1;
        for (; i >= 0; i--) {
            for (int k = 0; k < s->n; k++) {
                p[k] += pieces.strides[i][k];
            }
            if (++index[i] < pieces.shape[i]) {
                break;
            }
            for (int k = 0; k < s->n; k++) {
                p[k] -= pieces.strides[i][k] * pieces.shape[i];
            }
            index[i] = 0;
        }
        if (i < 0) {
            return;
        }
    }
}

/* The axis for lines: the last one, or if it is short the longest. Where operand `out` is reduced
 * (-1: nothing is) not one behind which another one is reduced, too; ordered: nor one that is
 * reduced, or in the place of one, as NumPy sums a line's floats in an order of their own. */
static int longest(const npa_space *s, int out, bool ordered)
{
    int found = s->ndim - 1;
    bool reduces = out >= 0 && s->strides[found][out] == 0;
    if (s->shape[found] >= SHORT_LINE || (ordered && reduces)) {
        return found;
    }
    for (int i = s->ndim - 1; i >= 0; i--) {
        bool reduced = out >= 0 && s->strides[i][out] == 0;
        if (s->shape[i] > s->shape[found] && !(reduced && ordered)) {
            found = i;
        }
        ordered |= reduced;
    }
    return found;
}

void npa_each_folded_line(const struct npa_job *j, const npa_space *s, npa_line *line, int out,
                          bool ordered)
{
    int along = longest(s, out, ordered);
    each_piece(j, s, line, along, along == s->ndim - 1 ? s->shape[along] : PIECE);
}

void npa_each_line(const struct npa_job *j, const npa_space *s, npa_line *line)
{
    npa_each_folded_line(j, s, line, -1, false);
}
