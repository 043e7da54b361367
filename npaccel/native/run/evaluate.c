/* evaluate.c: runs one request as NumPy would, with NumPy's own inner loops and casts.
 *
 * for each line along the best axis:   loop(args, n, steps)       possibly in cast blocks
 *
 * No Python, no GIL; under the lock, so that the block buffers can be static; a thread of a run in
 * flight has its own, and gives the lock back while a loop runs. */
#include "run/fold.h"
#include "run/run.h"
#include "run/space.h"

#include <fenv.h>
#include <string.h>

enum { BLOCK = 1024 };
typedef char block_of_bytes[BLOCK * 16];
static block_of_bytes common[NPA_MAX_ARGS] __attribute__((aligned(64)));
static __thread block_of_bytes *blocks = common;

size_t npa_own_blocks_bytes(void) { return sizeof common; }
void npa_own_blocks(char *memory) { blocks = memory != NULL ? (block_of_bytes *)memory : common; }

/* ---------------------------------------------------------------------------------- blocks */

/* n <= BLOCK elements, cast, to a contiguous block. */
static void load_block(char *to, int to_type, const char *from, int64_t stride, int from_type,
                       int64_t n)
{
    if (from_type == to_type) {
        npa_pack(to, from, stride, n, npa_item_sizes[from_type]);
    } else {
        npa_cast(from_type, from, stride, to_type, to, npa_item_sizes[to_type], n);
    }
}

static void store_block(char *to, int64_t stride, int to_type, const char *from, int from_type,
                        int64_t n)
{
    if (from_type == to_type) {
        npa_unpack(to, stride, from, n, npa_item_sizes[to_type]);
    } else {
        npa_cast(from_type, from, npa_item_sizes[from_type], to_type, to, stride, n);
    }
}

/* -------------------------------------------------------------------------------- one line */

struct npa_job {
    npa_request *r;
    npa_rule *rule;
    int nargs;                /* operands without the mask */
    bool cast[NPA_MAX_ARGS];
    bool single[NPA_MAX_ARGS]; /* one element for all: cast once, and a loop sees that it is one */
    int type[NPA_MAX_ARGS];
    bool fold;                /* REDUCE: args are (out, in, out) */
};
typedef struct npa_job job;

static void call_loop(const job *j, char **p, int64_t n, const npy_intp *s)
{
    npy_intp count = n;
    if (j->rule->own != NPA_UFUNC) {
        npa_own_loop(j->rule, p, n, s);
    } else if (j->fold) {
        char *args[3] = {p[1], p[0], p[1]};
        npy_intp steps[3] = {s[1], s[0], s[1]};
        j->rule->loop(args, &count, steps, j->rule->loop_data);
    } else {
        char *args[NPA_MAX_ARGS];
        memcpy(args, p, sizeof args);
        j->rule->loop(args, &count, s, j->rule->loop_data);
    }
}

static void run_line(const job *j, char **p, const int64_t *strides, int64_t n)
{
    bool any = false;
    npy_intp steps[NPA_MAX_ARGS] = {0};
    for (int k = 0; k < j->nargs; k++) {
        any |= j->cast[k];
        steps[k] = (npy_intp)strides[k];
    }
    if (!any) {
        call_loop(j, p, n, steps);
        return;
    }
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        char *q[NPA_MAX_ARGS] = {NULL};
        for (int k = 0; k < j->nargs; k++) {
            q[k] = p[k] + at * strides[k];
            if (j->cast[k]) {
                int64_t count = j->single[k] ? 1 : m;
                if (k < j->r->nin) {
                    load_block(blocks[k], j->rule->loop_type[k], q[k], strides[k], j->type[k],
                               count);
                }
                q[k] = blocks[k];
                steps[k] = j->single[k] ? 0 : npa_item_sizes[j->rule->loop_type[k]];
            }
        }
        call_loop(j, q, m, steps);
        for (int k = j->r->nin; k < j->nargs; k++) {
            if (j->cast[k]) {
                store_block(p[k] + at * strides[k], strides[k], j->type[k], blocks[k],
                            j->rule->loop_type[k], m);
            }
        }
    }
}

/* Only where the mask (last operand) is true: line by line of true runs. */
static void run_masked(const job *j, char **p, const int64_t *strides, int64_t n)
{
    const char *mask = p[j->nargs];
    int64_t step = strides[j->nargs];
    for (int64_t i = 0; i < n;) {
        while (i < n && !mask[i * step]) {
            i++;
        }
        int64_t from = i;
        while (i < n && mask[i * step]) {
            i++;
        }
        if (i > from) {
            char *q[NPA_MAX_ARGS + 1];
            for (int k = 0; k < j->nargs; k++) {
                q[k] = p[k] + from * strides[k];
            }
            run_line(j, q, strides, i - from);
        }
    }
}

static int run_map(npa_queue *q, npa_request *r, job *j)
{
    npa_space s;
    if (npa_space_of(q, r, &s) < 0) {
        return -1;
    }
    npa_space_turn(&s);
    npa_space_simplify(&s, r->nin);
    npa_each_line(j, &s, r->mask ? run_masked : run_line);
    return 0;
}

/* -------------------------------------------------------------------------------- reductions */

static void fill_line(const job *j, char **p, const int64_t *strides, int64_t n)
{
    (void)j;
    int size = npa_item_sizes[j->rule->loop_type[1]];
    for (int64_t i = 0; i < n; i++) {
        memcpy(p[1] + i * strides[1], p[0], (size_t)size);
    }
}

static void first_line(const job *j, char **p, const int64_t *strides, int64_t n)
{
    int to = j->rule->loop_type[1];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int64_t m = n - at < BLOCK ? n - at : BLOCK;
        load_block(blocks[1], to, p[0] + at * strides[0], strides[0], j->type[0], m);
        npa_unpack(p[1] + at * strides[1], strides[1], blocks[1], m, npa_item_sizes[to]);
    }
}

void npa_identity_bytes(const npa_rule *rule, char *out)
{
    int to = rule->loop_type[1];
    long long value = rule->identity;
    memset(out, 0, 16);
    npa_cast_value(NPY_LONGLONG, &value, to, out);
}

static int run_reduce(npa_queue *q, npa_request *r, job *j)
{
    npa_space s, start;
    char scalar[16] __attribute__((aligned(16)));
    if (npa_space_of(q, r, &s) < 0) {
        return -1;
    }
    if (r->initial) { /* operands were in, initial, out[, mask] */
        memcpy(scalar, s.p[1], 16);
        for (int k = 1; k + 1 < s.n; k++) {
            s.p[k] = s.p[k + 1];
            for (int i = 0; i < s.ndim; i++) {
                s.strides[i][k] = s.strides[i][k + 1];
            }
        }
        s.n--;
    } else if (!j->rule->idempotent) {
        npa_identity_bytes(j->rule, scalar);
    }
    start = s;
    for (int i = 0; i < start.ndim; i++) {
        start.shape[i] = r->axes >> i & 1 ? 1 : start.shape[i];
    }
    if (r->initial || !j->rule->idempotent) {
        start.p[0] = scalar;
        for (int i = 0; i < start.ndim; i++) {
            start.strides[i][0] = 0;
        }
        npa_space_simplify(&start, 1);
        npa_each_line(j, &start, fill_line);
    } else {
        npa_space_simplify(&start, 1);
        npa_each_line(j, &start, first_line);
    }
    npa_space_simplify(&s, 0);
    npa_each_folded_line(j, &s, r->mask ? run_masked : run_line, 1, r->rule->ordered);
    return 0;
}

/* Bring the reduced (scanned) axes to the end, in order; returns how many elements they span. */
static int64_t inner_last(npa_space *s, uint32_t axes, int *inner)
{
    int64_t count = 1;
    int kept = 0;
    npa_space old = *s;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < old.ndim; i++) {
            if ((int)(axes >> i & 1) == pass) {
                s->shape[kept] = old.shape[i];
                memcpy(s->strides[kept++], old.strides[i], sizeof old.strides[i]);
                count *= pass ? old.shape[i] : 1;
            }
        }
        if (pass == 0) {
            *inner = kept;
        }
    }
    return count;
}

/* Every element of axes [inner, ndim) in row-major order, contiguous at `to`. */
static void pack(const npa_space *s, int inner, const char *from, char *to, int size)
{
    int64_t index[NPA_MAX_DIMS] = {0};
    int last = s->ndim - 1;
    for (;;) {
        npa_pack(to, from, s->strides[last][0], s->shape[last], size);
        to += s->shape[last] * size;
        int i = last - 1;
        for (; i >= inner; i--) {
            from += s->strides[i][0];
            if (++index[i] < s->shape[i]) {
                break;
            }
            from -= s->strides[i][0] * s->shape[i];
            index[i] = 0;
        }
        if (i < inner) {
            return;
        }
    }
}

/* out[0] = in[0]; out[i] = out[i - 1] op in[i] */
static void scan(const npa_rule *rule, char *out, npy_intp out_step, char *in, npy_intp in_step,
                 int64_t n, int size)
{
    npy_intp count = n - 1, steps[3] = {out_step, in_step, out_step};
    char *args[3] = {out, in + in_step, out + out_step};
    memmove(out, in, (size_t)size);
    if (count > 0) {
        rule->loop(args, &count, steps, rule->loop_data);
    }
}

/* Whether the elements of axes [inner, ndim) follow each other as `pack` puts them. */
static bool is_packed(const npa_space *s, int inner, const char *from, int size)
{
    int64_t step = size;
    for (int i = s->ndim - 1; i >= inner; i--) {
        if (s->strides[i][0] != step) {
            return false;
        }
        step *= s->shape[i];
    }
    return (uintptr_t)from % (uintptr_t)size == 0;
}

/* One run along the inner axes: its `n` elements, its result, and memory to pack them in. */
typedef struct {
    char *in, *out, *memory;
    int inner;
    bool plain; /* elements and result have the loop's type */
    int64_t n;
} inner_run;

/* Where the greatest or least element is. */
static void find_arg(const job *j, const npa_space *s, const inner_run *u)
{
    int size = npa_item_sizes[j->type[0]];
    const char *from = u->in;
    npy_intp found = 0;
    if (!is_packed(s, u->inner, from, size)) {
        pack(s, u->inner, from, u->memory, size);
        from = u->memory;
    }
    ((PyArray_ArgFunc *)j->rule->argpick)((void *)from, u->n, &found, NULL);
    memcpy(u->out, &found, sizeof found);
}

/* Of other types than the loop's: block by block, each behind the last value before it. */
static void scan_cast(const job *j, const char *in, npy_intp in_step, char *out, npy_intp out_step,
                      int64_t n)
{
    enum { STEP = BLOCK - 1 };
    int loop = j->rule->loop_type[0], size = npa_item_sizes[loop];
    bool there = j->type[1] == loop; /* where the result belongs, so are the values so far */
    char *before = blocks[0], *values = before + size;
    for (int64_t at = 0, m; at < n; at += m, out += m * out_step) {
        m = n - at < STEP ? n - at : STEP;
        load_block(values, loop, in + at * in_step, in_step, j->type[0], m);
        char *to = there ? out : values;
        npy_intp step = there ? out_step : size, steps[3] = {step, size, step};
        char *args[3] = {to - step, values, to};
        if (at == 0) {
            scan(j->rule, to, step, values, size, m, size);
        } else {
            j->rule->loop(args, &(npy_intp){m}, steps, j->rule->loop_data);
        }
        if (!there) {
            store_block(out, out_step, j->type[1], values, loop, m);
            memcpy(before, values + (m - 1) * size, (size_t)size);
        }
    }
}

/* Sums of narrow integers along one axis, from there to where they belong. NULL: it is no such. */
static const npa_wide_sum *wide_scan(const job *j, const npa_space *s, int inner)
{
    bool sums = j->rule->counts && inner == s->ndim - 1 && j->type[1] == j->rule->loop_type[0];
    return sums ? npa_find_wide_sum(j->type[0]) : NULL;
}

static void scan_wide(const npa_wide_sum *sum, const npa_space *s, const inner_run *u)
{
    const int64_t *step = s->strides[s->ndim - 1];
    const npy_intp count = u->n - 1, one = 1, none[3] = {0};
    const npy_intp steps[3] = {step[1], step[0], step[1]};
    char *first[3] = {u->out, u->in, u->out};
    char *rest[3] = {u->out, u->in + step[0], u->out + step[1]};
    memset(u->out, 0, 8);
    sum->add(first, &one, none, NULL);
    sum->scan(rest, &count, steps, NULL);
}

/* Along one axis where it lies; what has memory is packed there first, and is one axis then. */
static void run_scan(const job *j, const npa_space *s, const inner_run *u, const npa_wide_sum *wide)
{
    const int64_t *step = s->strides[s->ndim - 1];
    int size = npa_item_sizes[j->type[0]];
    char *in = u->memory != NULL ? u->memory : u->in;
    npy_intp in_step = u->memory != NULL ? size : step[0];
    if (u->memory != NULL) {
        pack(s, u->inner, u->in, in, size);
    }
    if (wide != NULL) {
        scan_wide(wide, s, u);
    } else if (u->plain) {
        scan(j->rule, u->out, step[1], in, in_step, u->n, size);
    } else {
        scan_cast(j, in, in_step, u->out, step[1], u->n);
    }
}

/* ARG and SCAN: each run along the inner axes, packed first where it must be. */
static int run_packed(npa_queue *q, npa_request *r, job *j)
{
    npa_space s;
    inner_run u = {.inner = 0};
    if (npa_space_of(q, r, &s) < 0) {
        return -1;
    }
    int64_t outer = 1, index[NPA_MAX_DIMS] = {0};
    u.n = inner_last(&s, r->axes, &u.inner);
    bool scans = j->rule->kind == NPA_SCAN;
    const npa_wide_sum *wide = scans ? wide_scan(j, &s, u.inner) : NULL;
    int size = npa_item_sizes[j->type[0]], loop = j->rule->loop_type[0];
    u.plain = j->type[0] == loop && j->type[1] == loop;
    bool direct = scans && u.inner == s.ndim - 1 &&
                  (wide != NULL || u.plain || is_packed(&s, u.inner, s.p[0], size));
    u.memory = direct ? NULL : malloc((size_t)u.n * (size_t)size + 1);
    if (!direct && u.memory == NULL) {
        return -1;
    }
    for (int i = 0; i < u.inner; i++) {
        outer *= s.shape[i];
    }
    for (int64_t at = 0; at < outer; at++) {
        u.in = s.p[0], u.out = s.p[1];
        for (int i = 0; i < u.inner; i++) {
            u.in += index[i] * s.strides[i][0];
            u.out += index[i] * s.strides[i][1];
        }
        if (scans) {
            run_scan(j, &s, &u, wide);
        } else {
            find_arg(j, &s, &u);
        }
        for (int i = u.inner - 1; i >= 0 && ++index[i] == s.shape[i]; i--) {
            index[i] = 0;
        }
    }
    free(u.memory);
    return 0;
}

static int run_iota(npa_queue *q, npa_request *r, job *j)
{
    npa_space s;
    if (npa_space_of(q, r, &s) < 0) {
        return -1;
    }
    npa_fill_range(j->rule->loop_type[2], s.p[0], s.p[1], 0, s.p[2], s.strides[0][2], r->shape[0]);
    return 0;
}

static void gather_line(const job *j, char **p, const int64_t *strides, int64_t n)
{
    npy_intp steps[NPA_MAX_ARGS] = {0};
    int size = npa_item_sizes[j->type[0]];
    for (int64_t at = 0, m; at < n; at += m) {
        m = strides[1] == 0 || n - at < BLOCK ? n - at : BLOCK;
        char *q[NPA_MAX_ARGS] = {p[0] + at * strides[0], blocks[1], p[2], p[3],
                                 p[4] + at * strides[4]};
        load_block(blocks[1], NPY_LONG, p[1] + at * strides[1], strides[1], j->type[1],
                   strides[1] == 0 ? 1 : m);
        steps[0] = (npy_intp)strides[0], steps[1] = strides[1] == 0 ? 0 : 8;
        steps[4] = (npy_intp)strides[4];
        npa_take_line(size, q, steps, m);
    }
}

static int run_gather(npa_queue *q, npa_request *r, job *j)
{
    npa_space s;
    if (npa_space_of(q, r, &s) < 0) {
        return -1;
    }
    npa_space_simplify(&s, r->nin);
    npa_each_line(j, &s, gather_line);
    return 0;
}

static bool is_single(const npa_request *r, const npa_operand *o)
{
    for (int i = 0; i < r->ndim; i++) {
        if (o->at[i] != 0 && r->shape[i] > 1) {
            return false;
        }
    }
    return true;
}

/* Run request `index`. Returns the floating-point kinds it raised, or -1: out of memory. */
int npa_evaluate_request(npa_queue *q, int index)
{
    npa_request *r = (npa_request *)(q->arena + q->at[index]);
    if (npa_folds_in_order(r)) {
        return npa_fold_request(q, r);
    }
    job j = {
        .r = r, .rule = r->rule, .nargs = r->nin + r->nout, .fold = r->rule->kind == NPA_REDUCE};
    for (int k = 0; k < j.nargs; k++) {
        j.type[k] = npa_operand_at(r, k)->type;
    }
    if (j.fold) {
        j.type[1] = npa_operand_at(r, r->nin)->type;
        j.nargs = 2;
    }
    for (int k = 0; k < j.nargs; k++) {
        j.cast[k] = j.type[k] != j.rule->loop_type[k];
        j.single[k] = j.cast[k] && k < r->nin && r->rule->kind == NPA_MAP &&
                      is_single(r, npa_operand_at(r, k));
    }
    int before = npa_now(NPA_IN_LOOPS), status;
    feclearexcept(FE_ALL_EXCEPT);
    switch (r->rule->kind) {
    case NPA_MAP: status = run_map(q, r, &j); break;
    case NPA_REDUCE: status = run_reduce(q, r, &j); break;
    case NPA_IOTA: status = run_iota(q, r, &j); break;
    case NPA_GATHER: status = run_gather(q, r, &j); break;
    default: status = run_packed(q, r, &j);
    }
    int kinds = npa_raised();
    npa_compute_end();
    npa_now(before);
    return status < 0 ? -1 : kinds;
}
