/* record.c: operands and requests. */
#include "record/record.h"
#include "record/draft.h"
#include "run/group.h"

#include <string.h>

/* ------------------------------------------------------------------------------- operands */

/* ------------------------------------------------------------------------------ recording */

void npa_draft_drop(draft *d)
{
    for (int k = 0; k < d->nout; k++) {
        Py_CLEAR(d->made[k]);
    }
}

/* Operand k is a scalar. As npa_scalar_value. */
static int take_scalar(draft *d, int k, npa_value v, int to)
{
    if (v.array == NULL && npa_here != NULL && PyObject_TypeCheck(v.object, &npa_runtime_type)) {
        d->slots[k] = 1 + ((npa_runtime *)v.object)->slot;
        v.object = ((npa_runtime *)v.object)->value;
    }
    return npa_scalar_value(&v, to, d->scalars[k]);
}

/* Stride of `a` along axis i of a space of ndim axes, broadcasting to the left. */
int64_t npa_stride_along(PyArrayObject *a, int ndim, const npy_intp *shape, int i)
{
    int k = i - (ndim - PyArray_NDIM(a));
    return k < 0 || PyArray_DIM(a, k) == 1 || shape[i] == 1 ? 0 : PyArray_STRIDE(a, k);
}

/* Same elements at the same index, or certainly apart; else the request would read what it
 * wrote. */
static bool overlap_is_safe(PyArrayObject *in, PyArrayObject *out)
{
    bool same = PyArray_NDIM(in) == PyArray_NDIM(out) && PyArray_DATA(in) == PyArray_DATA(out) &&
                PyArray_ITEMSIZE(in) == PyArray_ITEMSIZE(out);
    for (int i = 0; same && i < PyArray_NDIM(in); i++) {
        same = PyArray_DIM(in, i) == PyArray_DIM(out, i) &&
               (PyArray_STRIDE(in, i) == PyArray_STRIDE(out, i) || PyArray_DIM(in, i) == 1);
    }
    return same || npa_apart(in, out);
}

/* Strides of a new output as NumPy's iterator would choose them (order "K"): its axis sort.
 * `strides[k]` are the operands', 0 where they do not move. */
static void output_strides(char order, int ndim, const npy_intp *shape,
                           int64_t (*operands)[NPA_MAX_DIMS], int n, npy_intp item,
                           npy_intp *strides)
{
    int perm[NPA_MAX_DIMS]; /* innermost first */
    for (int i = 0; i < ndim; i++) {
        perm[i] = order == 'F' ? i : ndim - 1 - i;
    }
    for (int i0 = 1; order == 'K' && i0 < ndim; i0++) {
        int to = i0;
        for (int i1 = i0 - 1; i1 >= 0; i1--) {
            bool ambiguous = true, swap = false;
            for (int k = 0; k < n; k++) {
                int64_t s0 = llabs(operands[k][perm[i0]]), s1 = llabs(operands[k][perm[i1]]);
                if (s0 != 0 && s1 != 0) {
                    if (s1 <= s0) {
                        swap = false;
                    } else if (ambiguous) {
                        swap = true;
                    }
                    ambiguous = false;
                }
            }
            if (!ambiguous && !swap) {
                break;
            }
            to = ambiguous ? to : i1;
        }
        int moved = perm[i0];
        for (int k = i0; k > to; k--) {
            perm[k] = perm[k - 1];
        }
        perm[to] = moved;
    }
    npy_intp stride = item;
    for (int i = 0; i < ndim; i++) {
        strides[perm[i]] = stride;
        stride *= shape[perm[i]] > 0 ? shape[perm[i]] : 1;
    }
}

/* Broadcast `a`'s shape into shape; false where NumPy would raise. */
static bool broadcast_into(PyArrayObject *a, int *ndim, npy_intp *shape)
{
    int own = PyArray_NDIM(a);
    if (own > *ndim) {
        memmove(shape + (own - *ndim), shape, sizeof(npy_intp) * (size_t)*ndim);
        for (int i = 0; i < own - *ndim; i++) {
            shape[i] = 1;
        }
        *ndim = own;
    }
    for (int i = 0; i < own; i++) {
        npy_intp have = shape[*ndim - own + i], want = PyArray_DIM(a, i);
        if (have == 1) {
            shape[*ndim - own + i] = want;
        } else if (want != 1 && want != have) {
            return false;
        }
    }
    return true;
}

/* Whether NumPy would write into `a` as it is, exactly of this shape. An array that shows an
 * element twice (a window on another) is not one: which value stays, and what is read meanwhile, is
 * up to NumPy. */
static bool is_target(PyArrayObject *a, int ndim, const npy_intp *shape)
{
    if (!npa_array_known(a) || !PyArray_ISWRITEABLE(a) || PyArray_NDIM(a) != ndim) {
        return false;
    }
    for (int i = 0; i < ndim; i++) {
        if (PyArray_DIM(a, i) != shape[i]) {
            return false;
        }
    }
    return npa_shows_once(a);
}

static PyObject *new_plain(PyArray_Descr *descr, int ndim, npy_intp *shape, npy_intp *strides)
{
    return PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(descr), ndim, shape,
                                strides, NULL, 0, NULL);
}

/* Whether NumPy asks no iterator where a new result's axes lie: operands of one shape that all lie
 * as Fortran's do, and need no cast. Axes of one element then lie so, too. */
static bool lies_as_fortran(const draft *d)
{
    bool also_as_c = true;
    if (d->rule->kind != NPA_MAP || d->rule->own != NPA_UFUNC || d->nout != 1 || d->masked) {
        return false;
    }
    for (int k = 0; k < d->nin; k++) {
        PyArrayObject *a = d->arrays[k];
        if (a == NULL || PyArray_NDIM(a) == 0) {
            continue;
        }
        if (PyArray_NDIM(a) != d->ndim || !PyArray_IS_F_CONTIGUOUS(a) ||
            !PyArray_CompareLists(PyArray_DIMS(a), d->shape, d->ndim) ||
            npa_canonical(PyArray_TYPE(a)) != npa_canonical(d->rule->loop_type[k])) {
            return false;
        }
        also_as_c &= PyArray_IS_C_CONTIGUOUS(a) != 0;
    }
    return !also_as_c;
}

/* New arrays for the results that have no target; plain: NumPy's own. */
static bool lay_out_results(draft *d, char order, bool plain)
{
    int64_t strides[NPA_MAX_ARGS + 1][NPA_MAX_DIMS];
    npy_intp chosen[NPA_MAX_DIMS];
    int n = 0;
    for (int k = 0; k <= d->nin + d->nout; k++) {
        PyArrayObject *a = d->arrays[k];
        for (int i = 0; a != NULL && i < d->ndim; i++) {
            strides[n][i] = npa_stride_along(a, d->ndim, d->shape, i);
        }
        n += a != NULL;
    }
    for (int k = 0; k < d->nout; k++) {
        if (d->arrays[d->nin + k] != NULL) {
            continue;
        }
        PyArray_Descr *descr = d->rule->result[k];
        order = order == 'K' && lies_as_fortran(d) ? 'F' : order;
        output_strides(order, d->ndim, d->shape, strides, n, PyDataType_ELSIZE(descr), chosen);
        d->made[k] = plain ? new_plain(descr, d->ndim, d->shape, chosen)
                           : npa_new_array(descr, d->ndim, d->shape, chosen);
        if (d->made[k] == NULL) {
            npa_draft_drop(d);
            return false;
        }
        d->arrays[d->nin + k] = (PyArrayObject *)d->made[k];
    }
    return true;
}

static bool draft_outputs(draft *d, char order) { return lay_out_results(d, order, false); }

static int map_through_temporary(npa_rule *rule, npa_value *in, PyArrayObject **out,
                                 PyObject **results);

/* A request alone in a queue of its own, run here and now into plain arrays. Kinds raised; -1: no
 * memory. */
static int run_now(draft *d)
{
    npa_buffer own[NPA_MAX_ARGS + 1] = {0}, *buffers[NPA_MAX_ARGS + 1];
    int32_t indices[NPA_MAX_ARGS + 1], heads[NPA_MAX_ARGS + 1], last[NPA_MAX_ARGS + 1] = {0};
    int64_t offsets[NPA_MAX_ARGS + 1] = {0};
    npa_queue q = {.buffers = buffers};
    for (int k = 0; k < d->nin + d->nout + d->masked; k++) {
        indices[k] = d->arrays[k] != NULL ? q.nbuffers : -1;
        if (d->arrays[k] != NULL) {
            own[k].base = PyArray_DATA(d->arrays[k]);
            own[k].size = (size_t)PyArray_NBYTES(d->arrays[k]);
            heads[q.nbuffers] = -1, buffers[q.nbuffers++] = &own[k];
        }
    }
    uint8_t kinds[1] = {0};
    npa_request *r = npa_draft_append(&q, d);
    npa_group *g = malloc(sizeof *g);
    npa_tape tape = {0};
    int status = -1;
    if (r != NULL && g != NULL) {
        npa_draft_fill(d, r, indices, offsets);
        q.at[q.nrequests++] = 0;
        g->heads = heads;
        status = npa_group_form(g, &q, 0, 1, last) && npa_group_lower(g, &tape) == 0
                     ? npa_group_run(g, &tape, kinds) : -1;
    }
    npa_tape_free(&tape);
    free(g), free(q.arena), free(q.at);
    return status < 0 ? -1 : kinds[0];
}

/* It is another thread's turn, and NumPy's results would have other last bits: compute it here,
 * beside the queue. 1 done; 0 it is to be recorded all the same, as it has to warn; -1 error. */
static int map_now(draft *d, char order, PyObject **results)
{
    /* With the GIL nobody hides them again */
    for (int k = 0; k < d->nin + d->nout + d->masked; k++) {
        if (d->arrays[k] != NULL && npa_touch(d->arrays[k], false) < 0) {
            return -1;
        }
    }
    int kinds = lay_out_results(d, order, true) ? run_now(d) : -1, asked = 0;
    for (int i = 0; i < 4; i++) {
        asked |= d->errstate >> (2 * i) & 3 ? 1 << i : 0;
    }
    if (kinds < 0 || (kinds & asked)) {
        npa_draft_drop(d);
        memset(d->arrays + d->nin, 0, sizeof *d->arrays * (size_t)d->nout);
        return PyErr_Occurred() ? -1 : 0;
    }
    for (int k = 0; k < d->nout; k++) {
        results[k] = npa_adopted(d->made[k]);
    }
    return 1;
}

static int draft_inputs(draft *d, npa_value *in)
{
    for (int k = 0; k < d->nin; k++) {
        PyArrayObject *a = in[k].array;
        if (a != NULL && (PyArray_NDIM(a) > 0 || npa_here != NULL)) {
            if (!broadcast_into(a, &d->ndim, d->shape)) {
                return 0;
            }
            d->arrays[k] = a;
        } else {
            if (a != NULL && npa_touch(a, false) < 0) {
                return -1;
            }
            if (!take_scalar(d, k, in[k], d->rule->loop_type[k])) {
                return 0;
            }
        }
    }
    return 1;
}

/* The space that all operands span. False: not one for us. */
static bool find_space(draft *d, PyArrayObject **out, PyArrayObject *mask)
{
    if (mask != NULL && (!npa_array_known(mask) || !broadcast_into(mask, &d->ndim, d->shape))) {
        return false;
    }
    for (int k = 0; out != NULL && k < d->nout; k++) { /* outputs take part in broadcasting */
        if (out[k] != NULL &&
            (!npa_array_known(out[k]) || !broadcast_into(out[k], &d->ndim, d->shape))) {
            return false;
        }
    }
    bool some = d->ndim > 0 || npa_here != NULL;
    for (int i = 0; i < d->ndim; i++) {
        some &= d->shape[i] != 0;
    }
    return some;
}

/* The arrays that are written. OVER: what is read would be written over. */
enum targets { TARGETS, NO_TARGETS, OVER };

static enum targets take_targets(draft *d, PyArrayObject **out, PyArrayObject *mask)
{
    for (int k = 0; out != NULL && k < d->nout; k++) {
        if (out[k] == NULL) {
            continue;
        }
        if (!is_target(out[k], d->ndim, d->shape)) {
            return NO_TARGETS;
        }
        for (int j = 0; j <= d->nin; j++) {
            PyArrayObject *other = j < d->nin ? d->arrays[j] : mask;
            if (other != NULL && !overlap_is_safe(other, out[k])) {
                return OVER;
            }
        }
        for (int j = 0; j < k; j++) {
            if (out[j] != NULL && (out[j] == out[k] || !overlap_is_safe(out[j], out[k]))) {
                return NO_TARGETS;
            }
        }
        d->arrays[d->nin + k] = out[k];
    }
    return TARGETS;
}

/* Whether an operand runs from its end to its beginning along an axis. */
static bool goes_back(const draft *d)
{
    bool found = false;
    for (int k = 0; k < d->nin; k++) {
        for (int i = 0; d->arrays[k] != NULL && i < PyArray_NDIM(d->arrays[k]); i++) {
            found |= PyArray_STRIDE(d->arrays[k], i) < 0 && PyArray_DIM(d->arrays[k], i) > 1;
        }
    }
    return found;
}

int npa_record_map(npa_rule *rule, npa_value *in, PyArrayObject **out, PyArrayObject *mask,
                   char order, uint32_t axes, PyObject **results)
{
    if (mask == NULL && axes == 0 && order == 'K' && npa_here == NULL) {
        int status = npa_match_map(rule, in, out != NULL ? out[0] : NULL, results);
        if (status != 0) {
            return status;
        }
    }
    npa_pass_because(NULL);
    draft d = {.rule = rule, .nin = rule->nin, .nout = rule->nout, .masked = mask != NULL,
               .errstate = npa_errstate_of(rule), .axes = axes, .usual = order == 'K'};
    int status = d.errstate < -1 ? -1 : draft_inputs(&d, in), total = d.nin + d.nout;
    if (status <= 0 || d.errstate < 0 || !find_space(&d, out, mask)) {
        return status < 0 ? -1 : 0;
    }
    if (rule->forward && goes_back(&d)) {
        npa_pass_because("complex factors that go back: NumPy's loop rounds them otherwise");
        return 0;
    }
    if (out == NULL && npa_contention_passes(d.arrays, d.nin)) {
        d.arrays[total] = mask;
        status = rule->inexact && !npa_draft_is_numpys(&d) ? map_now(&d, order, results) : -2;
        if (status != 0) {
            return status > -2 ? status : 0;
        }
    }
    enum targets taken = take_targets(&d, out, mask);
    if (taken != TARGETS) {
        return taken == NO_TARGETS || mask != NULL || axes
                   ? 0
                   : map_through_temporary(rule, in, out, results);
    }
    if (!draft_outputs(&d, order)) {
        return PyErr_Occurred() ? -1 : 0;
    }
    d.arrays[total] = mask;
    return npa_draft_commit(&d, results);
}

/* An output that overlaps an input otherwise than element by element: compute, then copy. */
static int map_through_temporary(npa_rule *rule, npa_value *in, PyArrayObject **out,
                                 PyObject **results)
{
    PyObject *fresh[NPA_MAX_ARGS] = {NULL};
    int status = npa_record_map(rule, in, NULL, NULL, 'K', 0, fresh);
    for (int k = 0; status > 0 && k < rule->nout; k++) {
        if (out[k] == NULL) {
            results[k] = Py_NewRef(fresh[k]);
            continue;
        }
        status = npa_record_copy((PyArrayObject *)fresh[k], out[k], &results[k]);
    }
    for (int k = 0; k < rule->nout; k++) {
        Py_XDECREF(fresh[k]);
    }
    return status;
}

/* out[...] = in, cast as assignment does. */
int npa_record_copy(PyArrayObject *in, PyArrayObject *out, PyObject **result)
{
    npa_value value;
    if (!npa_classify((PyObject *)in, &value)) {
        return 0;
    }
    npa_rule *copy = npa_find_rule(npa_copy_name, &value.type, 1, out);
    return copy != NULL ? npa_record_map(copy, &value, &out, NULL, 'K', 0, result)
                        : PyErr_Occurred() ? -1 : 0;
}

int npa_reduced_shape(const npa_rule *rule, PyArrayObject *in, PyArrayObject *mask, uint32_t axes,
                      bool keepdims, npy_intp *kept, npy_intp *strides)
{
    int64_t order[2][NPA_MAX_DIMS];
    npy_intp shape[NPA_MAX_DIMS], all[NPA_MAX_DIMS];
    int ndim = PyArray_NDIM(in), nkept = 0;
    for (int i = 0; i < ndim; i++) {
        if (PyArray_DIM(in, i) == 0) {
            return -1;
        }
        order[0][i] = PyArray_DIM(in, i) == 1 ? 0 : PyArray_STRIDE(in, i);
        order[1][i] = mask != NULL ? npa_stride_along(mask, ndim, PyArray_DIMS(in), i) : 0;
        shape[i] = axes >> i & 1 ? 1 : PyArray_DIM(in, i);
    }
    output_strides('K', ndim, shape, order, 2, PyDataType_ELSIZE(rule->result[0]), all);
    for (int i = 0; i < ndim; i++) {
        if (keepdims || !(axes >> i & 1)) {
            kept[nkept] = shape[i], strides[nkept++] = all[i];
        }
    }
    if (rule->kind == NPA_ARG) { /* which does not keep the operand's order */
        output_strides('C', nkept, kept, order, 1, PyDataType_ELSIZE(rule->result[0]), strides);
    }
    return nkept;
}

static bool is_mask_for(PyArrayObject *a, PyArrayObject *mask)
{
    npy_intp grown[NPA_MAX_DIMS];
    int n = PyArray_NDIM(a);
    memcpy(grown, PyArray_DIMS(a), sizeof *grown * (size_t)n);
    return npa_array_known(mask) && broadcast_into(mask, &n, grown) && n == PyArray_NDIM(a) &&
           memcmp(grown, PyArray_DIMS(a), sizeof *grown * (size_t)n) == 0;
}

/* The number that a reduction starts from. 1; 0: NumPy is to do it; -1 error. */
static int take_initial(draft *d, PyObject *initial)
{
    npa_value v;
    if (!npa_classify(initial, &v) || (v.array != NULL && PyArray_NDIM(v.array) != 0)) {
        return 0;
    }
    if (v.array != NULL && npa_touch(v.array, false) < 0) {
        return -1;
    }
    return take_scalar(d, 1, v, d->rule->loop_type[0]) ? 1 : 0;
}

int npa_record_reduce(npa_rule *rule, PyArrayObject *in, uint32_t axes, bool keepdims,
                      PyArrayObject *out, PyArrayObject *mask, PyObject *initial, PyObject **result)
{
    npa_pass_because(NULL);
    draft d = {.rule = rule, .ndim = PyArray_NDIM(in), .nin = initial != NULL ? 2 : 1, .nout = 1,
               .masked = mask != NULL, .initial = initial != NULL,
               .errstate = npa_errstate_of(rule), .axes = axes};
    npy_intp kept[NPA_MAX_DIMS], strides[NPA_MAX_DIMS], reduced_strides[NPA_MAX_DIMS];
    if (d.errstate < -1) {
        return -1;
    }
    if (!npa_array_known(in) || d.ndim == 0 || d.errstate < 0 ||
        (mask != NULL && !is_mask_for(in, mask)) ||
        (out == NULL && mask == NULL && !rule->ordered && npa_contention_passes(&in, 1))) {
        return 0;
    }
    memcpy(d.shape, PyArray_DIMS(in), sizeof *kept * (size_t)d.ndim);
    int nkept = npa_reduced_shape(rule, in, mask, axes, keepdims, kept, strides);
    int status = nkept < 0 ? 0 : initial != NULL ? take_initial(&d, initial) : 1;
    if (status <= 0) {
        return status;
    }
    if (out != NULL && (!is_target(out, nkept, kept) || !overlap_is_safe(in, out) ||
                        (mask != NULL && !overlap_is_safe(mask, out)))) {
        return 0;
    }
    if (out == NULL) {
        d.made[0] = npa_new_array(rule->result[0], nkept, kept, strides);
        if (d.made[0] == NULL) {
            return PyErr_Occurred() ? -1 : 0;
        }
    }
    out = out != NULL ? out : (PyArrayObject *)d.made[0];
    for (int i = 0, j = 0; i < d.ndim; i++) {
        bool reduced = axes >> i & 1;
        reduced_strides[i] = reduced || d.shape[i] == 1 ? 0 : PyArray_STRIDE(out, j);
        j += !reduced || keepdims;
    }
    d.arrays[0] = in, d.arrays[d.nin] = out, d.arrays[d.nin + 1] = mask;
    d.reduced_strides = reduced_strides;
    return npa_draft_commit(&d, result);
}

int npa_record_iota(npa_rule *rule, npy_intp n, PyObject *start, PyObject *step, PyObject **result)
{
    draft d = {.rule = rule, .ndim = 1, .nin = 2, .nout = 1, .shape = {n}};
    PyObject *objects[2] = {start, step};
    for (int k = 0; k < 2; k++) {
        npa_value v;
        if (n <= 0 || !npa_classify(objects[k], &v) || v.array != NULL ||
            !take_scalar(&d, k, v, rule->loop_type[k])) {
            return 0;
        }
    }
    return draft_outputs(&d, 'C') ? npa_draft_commit(&d, result) : PyErr_Occurred() ? -1 : 0;
}

int npa_record_pick(npa_rule *rule, PyArrayObject *a, PyArrayObject *mask, PyArrayObject *out,
                    PyObject **result)
{
    PyObject *spread = npa_spread_mask(mask, a);
    draft d = {.rule = rule, .ndim = PyArray_NDIM(a), .nin = 1, .nout = 1, .masked = true,
               .axes = (uint32_t)PyArray_NDIM(mask), .arrays = {a, out, (PyArrayObject *)spread}};
    memcpy(d.shape, PyArray_DIMS(a), sizeof *d.shape * (size_t)d.ndim);
    int status = spread != NULL ? npa_draft_commit(&d, result) : -1;
    Py_XDECREF(spread);
    return status;
}

/* ---------------------------------------------------------------------------------- gathers */

/* Broadcasts to `out` without making it larger. */
static bool fits(PyArrayObject *a, PyArrayObject *out)
{
    int ndim = PyArray_NDIM(out);
    npy_intp shape[NPA_MAX_DIMS];
    memcpy(shape, PyArray_DIMS(out), sizeof *shape * (size_t)ndim);
    return PyArray_NDIM(a) <= ndim && broadcast_into(a, &ndim, shape) &&
           memcmp(shape, PyArray_DIMS(out), sizeof *shape * (size_t)ndim) == 0;
}

int npa_record_gather(npa_rule *rule, PyArrayObject *source, PyArrayObject *base,
                      PyArrayObject *index, npy_intp extent, npy_intp step, PyArrayObject *out,
                      PyObject **result)
{
    draft d = {.rule = rule, .ndim = PyArray_NDIM(out), .nin = 4, .nout = 1, .base = base};
    int64_t numbers[2] = {extent, step};
    if (!npa_array_known(source) || !npa_array_known(index) || d.ndim == 0 ||
        d.ndim > NPA_MAX_DIMS || PyArray_SIZE(out) == 0 || extent < 1 || !fits(base, out) ||
        !fits(index, out) || !is_target(out, d.ndim, PyArray_DIMS(out)) ||
        PyArray_DATA(base) != PyArray_DATA(source) || !overlap_is_safe(source, out) ||
        !overlap_is_safe(index, out)) {
        return 0;
    }
    memcpy(d.shape, PyArray_DIMS(out), sizeof *d.shape * (size_t)d.ndim);
    d.arrays[0] = source, d.arrays[1] = index, d.arrays[4] = out;
    memcpy(d.scalars[2], &numbers[0], 8), memcpy(d.scalars[3], &numbers[1], 8);
    return npa_draft_commit(&d, result);
}

/* Note [Whose bits]
 *
 * Functions such as exp, and sums of floats, differ from NumPy's in their last bits. A value must
 * not depend on when it was computed: on what was recorded before, on what is compiled by then, on
 * the load. So its size alone decides, and that it is in a macro section: from the threshold on it
 * is ours, in every tier; below it NumPy's loop computes it, also where it is recorded because an
 * operand is pending, or its round is (Note [Trials]). So it does the least and the largest of
 * floats, which of 0.0 and -0.0 take either. The size is that of what the operands broadcast to, in
 * the widest operand's items, as in npa_wants. */
