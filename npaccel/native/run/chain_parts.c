/* chain_parts.c: the kernels of a chain as intervals of bytes. See Note [Chains] in chain.c. */
#include "run/chain_parts.h"

static int64_t position(const npa_chain_kernel *k, const npa_chain_use *u, int64_t index)
{
    int64_t at = 0;
    for (int d = k->axis + k->naxes - 1; d >= k->axis; d--) {
        at += index % k->s->words[d] * u->strides[d];
        index /= k->s->words[d];
    }
    return at;
}

int64_t npa_chain_first_from(const npa_chain_kernel *k, const npa_chain_use *u, int64_t index)
{
    return u->ordered ? u->base + position(k, u, index) + u->low : u->first;
}

int64_t npa_chain_end_before(const npa_chain_kernel *k, const npa_chain_use *u, int64_t index)
{
    return u->ordered ? u->base + position(k, u, index - 1) + u->high : u->end;
}

/* How many indices have a position of `bytes` or less. */
static int64_t within(const npa_chain_kernel *k, const npa_chain_use *u, int64_t bytes)
{
    int64_t index = 0;
    if (bytes < 0) {
        return 0;
    }
    for (int d = k->axis; d < k->axis + k->naxes; d++) {
        int64_t n = k->s->words[d], stride = u->strides[d];
        int64_t digit = stride > 0 ? least(n - 1, bytes / stride) : n - 1;
        bytes -= digit * stride;
        index = index * n + digit;
    }
    return index + 1;
}

/* The most indices that end at `byte` or before. */
static int64_t fitting(const npa_chain_kernel *k, const npa_chain_use *u, int64_t byte)
{
    int64_t found = !u->ordered ? (u->end <= byte ? k->n : 0)
                                : within(k, u, byte - u->base - u->high);
    return found == k->n ? found : found - found % k->unit;
}

/* The first index from which on all lies at `byte` or behind it. */
static int64_t beginning(const npa_chain_kernel *k, const npa_chain_use *u, int64_t byte)
{
    int64_t found = !u->ordered ? (u->first >= byte ? 0 : k->n)
                                : within(k, u, byte - u->base - u->low - 1);
    return least(k->n, found + (k->unit - found % k->unit) % k->unit);
}

int64_t npa_chain_limit(const npa_chain *c, int k, int64_t most_indices, const int64_t *done,
                        const int64_t *all)
{
    for (int i = c->begin[k]; i < c->begin[k + 1]; i++) {
        const npa_clash *x = &c->clashes[i];
        const npa_chain_kernel *early = &c->kernels[x->early];
        if (done[x->early] < all[x->early] && done[x->early] < early->n) {
            int64_t byte = npa_chain_first_from(early, &early->uses[x->early_use], done[x->early]);
            most_indices = least(most_indices,
                                 fitting(&c->kernels[k], &c->kernels[k].uses[x->late_use], byte));
        }
    }
    return most_indices;
}

int64_t npa_chain_start(const npa_chain *c, int k, int64_t least_index, const int64_t *begun)
{
    for (int i = c->begin[k]; i < c->begin[k + 1]; i++) {
        const npa_clash *x = &c->clashes[i];
        const npa_chain_kernel *early = &c->kernels[x->early];
        if (begun[x->early] > 0) {
            int64_t byte = npa_chain_end_before(early, &early->uses[x->early_use], begun[x->early]);
            least_index = most(least_index,
                               beginning(&c->kernels[k], &c->kernels[k].uses[x->late_use], byte));
        }
    }
    return least_index;
}

int64_t npa_chain_index_at(const npa_chain *c, const npa_chain_kernel *k, int64_t share, int64_t of)
{
    if (share <= 0 || share >= of || k->main_use < 0) {
        return share <= 0 ? 0 : k->n;
    }
    const npa_chain_use *u = &k->uses[k->main_use];
    const npa_chain_place *p = &c->places[u->buffer];
    int64_t byte = p->low + (int64_t)((double)(p->high - p->low) * (double)share / (double)of);
    return beginning(k, u, byte);
}

void npa_chain_bytes_of_part(const npa_chain *c, int b, int part, int64_t *low, int64_t *end)
{
    *low = INT64_MAX, *end = INT64_MIN;
    for (int k = 0; k < c->n; k++) {
        const npa_chain_kernel *mine = &c->kernels[k];
        int64_t first = c->low[part * NPA_LONGEST_CHAIN + k],
                last = c->high[part * NPA_LONGEST_CHAIN + k];
        for (int i = 0; i < mine->nuses && first < last; i++) {
            if (mine->uses[i].buffer == b) {
                *low = least(*low, npa_chain_first_from(mine, &mine->uses[i], first));
                *end = most(*end, npa_chain_end_before(mine, &mine->uses[i], last));
            }
        }
    }
}
