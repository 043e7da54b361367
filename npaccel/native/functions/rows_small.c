/* rows_small.c: rows that are small matrices, by loops of ours. */
#include "functions/functions.h"
#include "functions/rows.h"

#include <string.h>

typedef npa_rows_job job;

/* Whether it finds determinants, and else how it solves. */
static bool is_determinant(const job *j) { return j->u->core_num_dims[j->n - 1] == 0; }

static npa_solve solve_of(const job *j)
{
    npy_intp columns = j->ncores > 1 ? j->cores[1] : 0;
    enum npa_solve_way way = j->kind == NPA_ROWS_INVERSE ? NPA_SOLVE_INVERSE
                             : j->ncores == 1            ? NPA_SOLVE_VECTOR
                             : columns == 1              ? NPA_SOLVE_COLUMN
                                                         : NPA_SOLVE_COLUMNS;
    return (npa_solve){npa_rows_loop(j), way, {j->cores[0], columns}};
}

void npa_rows_run_small(const job *j, char **args, npy_intp count, const npy_intp *steps)
{
    if (j->kind == NPA_ROWS_PRODUCT) {
        npa_multiply_small(j->u->types[(npy_intp)j->loop * j->n], args, count, j->cores, steps,
                           j->core_steps);
    } else if (is_determinant(j)) {
        npa_determine_small(npa_rows_loop(j), args, count, j->cores[0], steps, j->core_steps);
    } else {
        const npa_solve how = solve_of(j);
        npa_solve_small(&how, args, count, steps, j->core_steps);
    }
}

/* Whether loops of ours find the determinants of matrices, their inverses, or solutions. */
static bool is_factored(const job *j, int type)
{
    static const char *const names[] = {"det", "inv", "solve", "solve1"};
    size_t k = 0;
    while (k < sizeof names / sizeof *names && strcmp(j->u->name, names[k]) != 0) {
        k++;
    }
    if (type != NPY_DOUBLE || k == sizeof names / sizeof *names) {
        return false;
    }
    const npa_solve how = solve_of(j);
    return is_determinant(j) ? npa_small_determinant(npa_rows_loop(j), j->cores[0])
                             : npa_solve_known(&how);
}

bool npa_rows_are_small(const job *j, int type)
{
    npy_intp core[NPA_ROWS_STEPS], *steps = core;
    if (j->kind != NPA_ROWS_PRODUCT) {
        return is_factored(j, type);
    }
    for (int k = 0; k < 3; k++) {
        int first = j->given[k] ? PyArray_NDIM(j->arrays[k]) - 2 : 0;
        for (int i = 0; i < 2; i++) { /* a result that is made is dense */
            *steps++ = j->given[k] ? PyArray_STRIDE(j->arrays[k], j->axes[k][first + i])
                                   : npa_item_sizes[type];
        }
    }
    return npa_small_product(j->u, type, j->cores) &&
           npa_small_product_is_ours(type, j->cores, core);
}
