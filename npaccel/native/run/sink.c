/* sink.c: reductions at the end of a group: what of a block they keep, and their results.
 *
 * for each chunk of a row:  begin; for each of its blocks: take; end gives a part
 * afterwards, for each result:  combine the parts of its rows' chunks */
#include "run/run.h"
#include "run/fold.h"
#include "run/group.h"

#include <fenv.h>
#include <string.h>

bool npa_sink_possible(const npa_request *r)
{
    const npa_rule *rule = r->rule;
    bool ours = npa_folds_in_order(r), real = !PyTypeNum_ISCOMPLEX(rule->loop_type[0]);
    bool exact = !rule->ordered && !r->initial && real;
    return rule->kind == NPA_REDUCE && !r->mask && (ours || exact);
}

int npa_sink_prepare(npa_sink *s, npa_request *r)
{
    int type = r->rule->loop_type[0];
    npa_operand *in = npa_operand_at(r, 0);
    npa_fold_order(r->ndim, r->shape, in->at, r->axes, npa_item_sizes[in->type], &s->order);
    s->request = r, s->arithmetic = NULL, s->type = type;
    if (r->rule->ordered) {
        s->arithmetic = npa_fold_arithmetic(r->rule, &s->type);
    }
    s->size = npa_item_sizes[s->type];
    s->parts = malloc((size_t)(s->nparts * s->size));
    return s->parts != NULL ? 0 : -1;
}

size_t npa_sink_state_bytes(const npa_sink *s)
{
    return s->arithmetic != NULL ? npa_fold_state_bytes() : 64;
}

/* What a fold that any order leaves the same keeps: the result so far. */
typedef struct {
    char value[16];
    bool begun;
} so_far;

static void fold_in(const npa_rule *rule, so_far *s, const char *x, int64_t n, int size)
{
    char *args[3] = {s->value, (char *)x, s->value};
    npy_intp count = n, steps[3] = {0, size, 0};
    if (!s->begun && !rule->idempotent) {
        npa_identity_bytes(rule, s->value);
        s->begun = true;
    } else if (!s->begun) {
        memcpy(s->value, x, (size_t)size);
        args[1] += size, count--;
        s->begun = true;
    }
    if (count > 0) {
        rule->loop(args, &count, steps, rule->loop_data);
    }
}

void npa_sink_begin(const npa_sink *s, void *state)
{
    if (s->arithmetic != NULL) {
        npa_fold_begin(state, s->arithmetic);
    } else {
        ((so_far *)state)->begun = false;
    }
}

void npa_sink_take(const npa_sink *s, void *state, const char *x, int type, int64_t n)
{
    if (type == NPY_BOOL && s->type != NPY_BOOL) { /* a rule that counts */
        int64_t count = npa_count_true(x, n);
        fold_in(s->request->rule, state, (const char *)&count, 1, s->size);
    } else if (s->arithmetic != NULL) {
        npa_fold_take(state, s->arithmetic, x, n);
    } else {
        fold_in(s->request->rule, state, x, n, s->size);
    }
}

void npa_sink_end(const npa_sink *s, void *state, int64_t part)
{
    char *to = s->parts + part * s->size;
    if (s->arithmetic != NULL) {
        npa_fold_end(state, s->arithmetic, to);
    } else {
        memcpy(to, ((so_far *)state)->value, (size_t)s->size);
    }
}

/* Results of what has no order; parts lie behind one another, those of a result together. */
static void combine_exact(const npa_sink *s, char *out)
{
    npa_request *r = s->request;
    const npa_order *o = &s->order;
    npa_operand *to = npa_operand_at(r, r->nin);
    int64_t points = 1;
    for (int i = 0; i < o->nband; i++) {
        points *= r->shape[o->band[i]];
    }
    for (int64_t point = 0, each = s->nparts / points; point < points; point++) {
        so_far state = {.begun = false};
        int64_t number = point, offset = 0;
        fold_in(r->rule, &state, s->parts + point * each * s->size, each, s->size);
        for (int i = o->nband - 1; i >= 0; i--) {
            offset += number % r->shape[o->band[i]] * to->at[o->band[i]];
            number /= r->shape[o->band[i]];
        }
        npa_cast(s->type, state.value, 0, to->type, out + offset, 0, 1);
    }
}

int npa_sink_finish(const npa_sink *s, char *out, int raised)
{
    if (s->arithmetic == NULL) {
        combine_exact(s, out);
        return raised;
    }
    npa_folding of = npa_folding_of(s->request);
    of.out = out;
    return npa_fold_told(&of, raised | npa_fold_combine(&of, s->parts));
}
