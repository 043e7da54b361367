/* profile_runs.c: what a profile knows of a run before it is counted. */
#include "run/run.h"
#include "run/profile.h"

#include <stdlib.h>

static int count_inputs(npa_queue *q, int n)
{
    int inputs = 0;
    for (int i = 0; i < n; i++) {
        inputs += ((npa_request *)(q->arena + q->at[i]))->nin;
    }
    return inputs;
}

/* Who wrote what each request reads. */
static void link_requests(npa_profiled_run *r, npa_queue *q)
{
    int32_t *writer = malloc(sizeof *writer * (size_t)(q->nbuffers + 1)), *link = r->links;
    for (int b = 0; writer != NULL && b < q->nbuffers; b++) {
        writer[b] = NPA_OUTSIDE - b;
    }
    for (int i = 0; i < r->n; i++) {
        npa_request *request = (npa_request *)(q->arena + q->at[i]);
        r->nin[i] = request->nin;
        for (int k = 0; k < request->nin + request->nout; k++) {
            int32_t buffer = npa_operand_at(request, k)->buffer;
            if (k < request->nin) {
                *link++ = buffer < 0       ? NPA_SCALAR
                          : writer != NULL ? writer[buffer]
                                           : NPA_OUTSIDE - buffer;
            } else if (buffer >= 0) {
                r->seen[i] |= !q->buffers[buffer]->dead;
                if (writer != NULL) {
                    writer[buffer] = i;
                }
            }
        }
    }
    free(writer);
}

bool npa_profile_fill_run(npa_profiled_run *r, npa_program *program, npa_queue *q, int n,
                          bool single)
{
    int nsteps = single ? n : npa_program_steps(program), inputs = count_inputs(q, n);
    size_t each = 8 + 8 + 8 + 4 + 2, step = 8 + 4 + 1;
    char *memory = calloc((size_t)n * each + (size_t)nsteps * step + 4 * (size_t)inputs + 8, 1);
    if (memory == NULL) {
        return false;
    }
    *r = (npa_profiled_run){.program = program, .single = single, .n = n, .nsteps = nsteps};
    r->took = (uint64_t *)memory, r->points = r->took + nsteps;
    r->rules = (npa_rule **)(r->points + n);
    r->codes = (PyObject **)(r->rules + n), r->lines = (int32_t *)(r->codes + n);
    r->counts = r->lines + n, r->links = r->counts + nsteps;
    r->kinds = (uint8_t *)(r->links + inputs), r->nin = r->kinds + nsteps, r->seen = r->nin + n;
    link_requests(r, q);
    for (int i = 0; i < n; i++) {
        npa_request *request = (npa_request *)(q->arena + q->at[i]);
        r->rules[i] = request->rule, r->points[i] = 1;
        r->codes[i] = request->code, r->lines[i] = request->lasti;
        for (int axis = 0; axis < request->ndim; axis++) {
            r->points[i] *= (uint64_t)request->shape[axis];
        }
    }
    if (program != NULL && PyGILState_Check()) {
        Py_INCREF((PyObject *)program);
    } else if (program != NULL) {
        npa_program_lend(program);
    }
    return true;
}
