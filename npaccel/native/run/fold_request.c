/* fold_request.c: requests that are sums of floats, see fold.c. */
#include "run/run.h"
#include "run/fold.h"

const npa_arithmetic *npa_fold_arithmetic(const npa_rule *rule, int *type)
{
    int loop = rule->loop_type[0];
    bool wide = loop == NPY_DOUBLE || loop == NPY_CDOUBLE;
    const npa_arithmetic *a = &npa_arithmetics[PyTypeNum_ISCOMPLEX(loop)][wide];
    *type = a->type;
    return a;
}

bool npa_folds_in_order(const npa_request *r)
{
    return r->rule->ordered && !(r->errstate & NPA_NUMPYS);
}

static char *address(npa_queue *q, npa_operand *o)
{
    char *base = npa_buffer_address(q->buffers[o->buffer]);
    return base != NULL ? base + o->offset : NULL;
}

npa_folding npa_folding_of(npa_request *r)
{
    npa_operand *in = npa_operand_at(r, 0), *out = npa_operand_at(r, r->nin);
    return (npa_folding){.rule = r->rule, .ndim = r->ndim, .in_type = in->type,
                         .out_type = out->type, .axes = r->axes, .shape = r->shape,
                         .in_step = in->at, .out_step = out->at,
                         .initial = r->initial ? (const char *)npa_operand_at(r, 1)->at : NULL};
}

int npa_fold_request(npa_queue *q, npa_request *r)
{
    npa_operand *mask = r->mask ? npa_operand_at(r, r->nin + 1) : NULL;
    npa_folding of = npa_folding_of(r);
    of.in = address(q, npa_operand_at(r, 0)), of.out = address(q, npa_operand_at(r, r->nin));
    if (mask != NULL) {
        of.mask = address(q, mask), of.mask_step = mask->at;
    }
    bool found = of.in != NULL && of.out != NULL && (mask == NULL || of.mask != NULL);
    if (found) {
        npa_compute_begin();
    }
    int status = found ? npa_fold(&of) : -1;
    npa_compute_end();
    return status;
}
