/* primitive.c: which operations on blocks this processor has. */
#include "loops/primitive.h"
#include "loops/loops.h"

#include <string.h>

#define LEVEL(name) {#name, npa_primitives_##name},
static const struct {
    const char *level;
    const npa_primitive *table;
} levels[] = { /* the best one first */
    NPA_PRIMITIVE_LEVELS(LEVEL){"", NULL}};

static int chosen = -1; /* of `levels` */

/* The best one here, unless another was chosen. */
static int level_here(void)
{
    for (int i = 0; chosen < 0; i++) {
        chosen = npa_cpu_runs(levels[i].level) ? i : -1;
    }
    return chosen;
}

PyObject *npa_primitives_py(PyObject *self, PyObject *args)
{
    const char *level = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "|s", &level)) {
        return NULL;
    }
    for (int i = 0; level != NULL; i++) {
        if (i == sizeof levels / sizeof *levels) {
            return PyErr_Format(PyExc_ValueError, "no primitives %R here",
                                PyTuple_GET_ITEM(args, 0));
        }
        if (strcmp(levels[i].level, level) == 0 && npa_cpu_runs(level)) {
            chosen = i, level = NULL;
        }
    }
    Py_ssize_t n = 0;
    for (const npa_primitive *p = levels[level_here()].table; p != NULL && p->op != NULL; p++) {
        n++;
    }
    return Py_BuildValue("(sn)", levels[chosen].level, n);
}

static const char *dtype_name(int type)
{
    switch (type) {
    case NPY_BOOL: return "b1";
    case NPY_INT: return "i4";
    case NPY_HALF: return "f2";
    case NPY_FLOAT: return "f4";
    case NPY_DOUBLE: return "f8";
    case NPY_CFLOAT: return "c8";
    case NPY_CDOUBLE: return "c16";
    case NPY_UINT64: return "u8";
    default: return "";
    }
}

/* "f8 f8 f8"; of types that no primitive has, what matches none. */
static void loop_name(const int *types, int n, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (int k = 0; k < n && used + 8 < size; k++) {
        used += (size_t)snprintf(out + used, size - used, "%s%s", k > 0 ? " " : "",
                                 dtype_name(types[k]));
    }
}

/* Whether NumPy's loops are as a primitive takes them to be; -1: with an exception. */
static int facts_hold(const npa_primitive *primitive)
{
    if (primitive->facts[0] == 0) {
        return 1;
    }
    PyObject *module = PyImport_ImportModule("npaccel.ir.differences");
    PyObject *held = module == NULL ? NULL
                                    : PyObject_CallMethod(module, "hold", "s", primitive->facts);
    int result = held == NULL ? -1 : PyObject_IsTrue(held);
    Py_XDECREF(module), Py_XDECREF(held);
    return result;
}

/* The operations that a power may be, the special ones first: rewrite.py decides alike. */
static int names_of(const char *name, const char **names)
{
    int n = 0;
    if (strcmp(name, "power") == 0) {
        names[n++] = "whole power", names[n++] = "low power";
        names[n++] = "half power", names[n++] = "single power";
    } else if (strcmp(name, "float_power") == 0) {
        names[n++] = "whole float_power", names[n++] = "low float_power";
    }
    names[n++] = name;
    return n;
}

int npa_rule_primitives(npa_rule *rule)
{
    const npa_primitive *table = levels[level_here()].table;
    const char *names[5], *name = PyUnicode_AsUTF8(rule->name);
    char loop[64];
    if (name == NULL) {
        return -1;
    }
    if (table == NULL || rule->kind != NPA_MAP || rule->own != NPA_UFUNC) {
        return 0;
    }
    loop_name(rule->loop_type, rule->nin + rule->nout, loop, sizeof loop);
    for (int i = 0, n = names_of(name, names); i < n; i++) {
        for (const npa_primitive *p = table; p->op != NULL; p++) {
            if (strcmp(p->op, names[i]) != 0 || strcmp(p->loop, loop) != 0) {
                continue;
            }
            int held = rule->nprimitives < NPA_MOST_PRIMITIVES ? facts_hold(p) : 0;
            if (held < 0) {
                return -1;
            }
            if (held) {
                rule->primitives[rule->nprimitives++] = p;
                rule->inexact |= !p->exact;
                rule->fast |= p->fast;
            }
        }
    }
    return 0;
}

bool npa_exact_primitives(const char *op, const int *types, int nin, const npa_primitive **found)
{
    char loop[64];
    bool any = false;
    loop_name(types, nin + 1, loop, sizeof loop);
    for (const npa_primitive *p = levels[level_here()].table; p != NULL && p->op != NULL; p++) {
        if (p->exact && !p->fast && !p->constant && p->facts[0] == 0 && strcmp(p->op, op) == 0 &&
            strcmp(p->loop, loop) == 0) {
            found[p->still] = p;
            any = true;
        }
    }
    return any;
}

unsigned npa_run_primitive(const npa_primitive *p, char *const *args, const ptrdiff_t *steps,
                           int nargs, int64_t elements)
{
    int64_t words[1 + 2 * NPA_MAX_ARGS] = {elements}, range[4] = {0, 1, 0, elements},
                          *next = words + 1;
    uint32_t flags[1] = {0};
    for (int k = 0; k < nargs; k++) {
        if (!p->constant || k != nargs - 2) {
            *next++ = (int64_t)(intptr_t)args[k], *next++ = (int64_t)steps[k];
        }
    }
    p->run(words, range, NULL, flags);
    return flags[0];
}

static const npa_primitive *exp_of_doubles(void)
{
    for (const npa_primitive *p = levels[level_here()].table; p != NULL && p->op != NULL; p++) {
        if (strcmp(p->op, "exp") == 0 && strcmp(p->loop, "f8 f8") == 0 && !p->fast) {
            return p;
        }
    }
    return NULL;
}

PyObject *npa_exp_s_py(PyObject *self, PyObject *nothing)
{
    enum { N = 512, CALLS = 16, TIMES = 32 }; /* 8 KiB, in the first cache */
    static const ptrdiff_t steps[2] = {sizeof(double), sizeof(double)};
    const npa_primitive *p = exp_of_doubles();
    double x[N], y[N];
    char *const args[2] = {(char *)x, (char *)y};
    int64_t least = INT64_MAX;
    (void)self, (void)nothing;
    for (int k = 0; k < N; k++) {
        x[k] = (double)k / N;
    }
    for (int i = 0; p != NULL && i < TIMES; i++) {
        int64_t begin = npa_clock_ns();
        for (int k = 0; k < CALLS; k++) {
            npa_run_primitive(p, args, steps, 2, N);
        }
        int64_t took = npa_clock_ns() - begin;
        least = took < least ? took : least;
    }
    return PyFloat_FromDouble(p == NULL ? 0 : 1e-9 * (double)least / (CALLS * N));
}

npa_block_function *npa_primitive_of(const char *op)
{
    for (const npa_primitive *p = levels[level_here()].table; p != NULL && p->op != NULL; p++) {
        if (strcmp(p->op, op) == 0) {
            return p->run;
        }
    }
    return NULL;
}

/* A scalar's value as a double. */
static double number(int type, const char *at)
{
    double wide = 0;
    npa_cast(type, at, 0, NPY_DOUBLE, (char *)&wide, 0, 1);
    return wide;
}

const npa_primitive *npa_find_primitive(const npa_rule *rule, bool fast, unsigned still,
                                        const char *last)
{
    int place = rule->nin - 1;
    for (int i = 0; i < rule->nprimitives; i++) {
        const npa_primitive *p = rule->primitives[i];
        if (p->still == still && p->fast == fast &&
            (!p->constant || (last != NULL && number(rule->loop_type[place], last) == p->value))) {
            return p;
        }
    }
    return NULL;
}
