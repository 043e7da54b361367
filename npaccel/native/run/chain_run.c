/* chain_run.c: a chain runs: all parts of memory at once, and then the borders between them. See
 * Note [Chains] in chain.c. */
#include "run/chain_parts.h"
#include "run/run.h"

#include <string.h>

enum { LINE = 64 }; /* bytes */

static void call(npa_chain *c, int k, const int64_t *words, int64_t from, int64_t to, int worker)
{
    const npa_chain_kernel *mine = &c->kernels[k];
    const step *s = mine->s;
    bool rows = mine->unit == 1;
    int64_t range[4] = {rows ? from : 0, rows ? to : s->band, rows ? 0 : from,
                        rows ? s->inner : to};
    if (from < to) {
        npa_step_call(s, words, range, worker, c->flags[k]);
    }
}

/* Where what is still used of a window begins, and where what was used of it ends. */
static void still_used(const npa_chain *c, int b, const int64_t *done, const int64_t *high,
                       int64_t *low, int64_t *end)
{
    *low = INT64_MAX, *end = INT64_MIN;
    for (int k = 0; k < c->n; k++) {
        const npa_chain_kernel *mine = &c->kernels[k];
        for (int i = 0; i < mine->nuses; i++) {
            const npa_chain_use *u = &mine->uses[i];
            if (u->buffer == b && done[k] < high[k]) {
                *low = least(*low, npa_chain_first_from(mine, u, done[k]));
            }
            if (u->buffer == b && done[k] > 0) {
                *end = most(*end, npa_chain_end_before(mine, u, done[k]));
            }
        }
    }
}

/* The window of buffer b, `*moved` bytes before where it belongs, goes to where it is `to`. */
static void move_window(npa_chain *c, int64_t *words, int b, int64_t *moved, int64_t to,
                        int64_t low, int64_t end)
{
    int64_t by = *moved - to, *w = words;
    char *base = NULL;
    for (int k = 0; k < c->n; k++) {
        const step *s = c->kernels[k].s;
        for (int i = 0; i < s->narrays; i++) {
            const patch *p = &s->patches[i];
            if (c->kernels[k].uses[i].buffer == b) {
                base = (char *)(intptr_t)(w[p->word] - c->kernels[k].uses[i].base);
                w[p->word] += by;
            }
        }
        w += s->nwords;
    }
    if (base != NULL && low < end) { /* base: as if the window lay where it belongs */
        memmove(base + by + low, base + low, (size_t)(end - low));
    }
    *moved = to;
}

/* The window slides back over what is not used any more, down to `fixed`: once that is as long as
 * what is still used, which has to move. */
static void slide(npa_chain *c, int64_t *words, int64_t *moved, int b, const int64_t *done,
                  const int64_t *until, int64_t fixed)
{
    int64_t low, end;
    still_used(c, b, done, until, &low, &end);
    int64_t to = low < INT64_MAX ? (low - fixed) / LINE * LINE : 0;
    if (to > moved[b] && to - moved[b] >= end - low) {
        move_window(c, words, b, &moved[b], to, low, end);
    }
}

/* Below it all lies that the border before this part is to use, or that other parts use. */
static int64_t fixed_below(const npa_chain *c, int b, int part)
{
    int64_t found, end;
    npa_chain_bytes_of_part(c, b, part, &found, &end);
    for (int k = 0; k < c->n; k++) {
        const npa_chain_kernel *mine = &c->kernels[k];
        int64_t low = c->low[part * NPA_LONGEST_CHAIN + k];
        for (int i = 0; i < mine->nuses && low > 0; i++) {
            if (mine->uses[i].buffer == b) {
                found = most(found, npa_chain_end_before(mine, &mine->uses[i], low));
            }
        }
    }
    return found;
}

static void run_part(void *context, int64_t part, int worker)
{
    npa_chain *c = context;
    int64_t done[NPA_LONGEST_CHAIN], until[NPA_LONGEST_CHAIN],
        *words = c->part_words + part * (int64_t)(c->nwords + (size_t)c->nbuffers);
    const int64_t *high = c->high + part * NPA_LONGEST_CHAIN,
                  *low = c->low + part * NPA_LONGEST_CHAIN, *w;
    int64_t *moved = words + c->nwords;
    for (int k = 0; k < c->n; k++) { /* until: what the border behind this part goes on with */
        done[k] = low[k];
        until[k] = part + 1 < c->nparts ? c->low[(part + 1) * NPA_LONGEST_CHAIN + k] : high[k];
    }
    for (int64_t wave = 1; wave <= c->waves; wave++) {
        w = words;
        for (int k = 0; k < c->n; k++) {
            const npa_chain_kernel *mine = &c->kernels[k];
            int64_t to = high[k];
            if (wave < c->waves) {
                to = least(
                    to, npa_chain_index_at(c, mine, part * c->waves + wave, c->nparts * c->waves));
            }
            to = npa_chain_limit(c, k, to, done, high);
            call(c, k, w, done[k], to, worker);
            done[k] = most(done[k], to);
            w += mine->s->nwords;
        }
        for (int b = 0; b < c->nbuffers; b++) {
            if (c->places[b].window && wave < c->waves) {
                slide(c, words, moved, b, done, until, fixed_below(c, b, (int)part));
            }
        }
    }
    for (int b = 0; b < c->nbuffers; b++) {
        int64_t first, end;
        if (moved[b] > 0) {
            still_used(c, b, done, until, &first, &end);
            move_window(c, words, b, &moved[b], 0, first, end);
        }
    }
}

/* The border behind a part: what the two parts that meet there could not do. */
static void run_border(void *context, int64_t part, int worker)
{
    npa_chain *c = context;
    const int64_t *from = c->high + part * NPA_LONGEST_CHAIN,
                  *to = c->low + (part + 1) * NPA_LONGEST_CHAIN, *w = c->words;
    for (int k = 0; k < c->n; k++) {
        call(c, k, w, from[k], to[k], worker);
        w += c->kernels[k].s->nwords;
    }
}

int npa_chain_run(npa_chain *c, int64_t *took, uint8_t *kinds, int (*poll)(void *), void *arg)
{
    int64_t unknown = 0;
    int status = npa_pool_run_polled(run_part, c, c->nparts, poll, arg, took);
    if (status == 0) {
        npa_pool_run_polled(run_border, c, c->nparts - 1, NULL, NULL, &unknown);
    }
    for (int k = 0; k < c->n && status == 0; k++) {
        const step *s = c->kernels[k].s;
        for (int i = 0; i < s->nslots; i++) {
            kinds[s->slots[i]] |= (uint8_t)c->flags[k][i];
        }
    }
    npa_chain_drop(c);
    return status;
}
