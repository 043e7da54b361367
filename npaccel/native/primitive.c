/* primitive.c: which operations on blocks this processor has. */
#include "primitive.h"
#include "record.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__)
extern const npa_primitive npa_primitives_v4[], npa_primitives_v3[];

static const npa_primitive *find_table(void)
{
    return __builtin_cpu_supports("x86-64-v4")   ? npa_primitives_v4
           : __builtin_cpu_supports("x86-64-v3") ? npa_primitives_v3
                                                 : NULL;
}
#elif defined(__aarch64__)
extern const npa_primitive npa_primitives_neon[];

static const npa_primitive *find_table(void) { return npa_primitives_neon; }
#else
static const npa_primitive *find_table(void) { return NULL; }
#endif

static const char *dtype_name(int type)
{
    switch (type) {
    case NPY_HALF: return "f2";
    case NPY_FLOAT: return "f4";
    case NPY_DOUBLE: return "f8";
    case NPY_CFLOAT: return "c8";
    case NPY_CDOUBLE: return "c16";
    default: return "";
    }
}

/* "f8 f8 f8"; of types that no primitive has, what matches none. */
static void loop_name(const npa_rule *rule, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (int k = 0; k < rule->nin + rule->nout && used + 8 < size; k++) {
        used += (size_t)snprintf(out + used, size - used, "%s%s", k > 0 ? " " : "",
                                 dtype_name(rule->loop_type[k]));
    }
}

/* Whether NumPy's loops are as a primitive takes them to be; -1: with an exception. */
static int facts_hold(const npa_primitive *primitive)
{
    if (primitive->facts[0] == 0) {
        return 1;
    }
    PyObject *module = PyImport_ImportModule("npaccel.ir.differences");
    PyObject *held = module == NULL ? NULL : PyObject_CallMethod(module, "hold", "s", primitive->facts);
    int result = held == NULL ? -1 : PyObject_IsTrue(held);
    Py_XDECREF(module), Py_XDECREF(held);
    return result;
}

/* The operations that a power may be, the special ones first: rewrite.py decides alike. */
static int names_of(const char *name, const char **names)
{
    int n = 0;
    if (strcmp(name, "power") == 0) {
        names[n++] = "whole power", names[n++] = "half power", names[n++] = "single power";
    } else if (strcmp(name, "float_power") == 0) {
        names[n++] = "whole float_power";
    }
    names[n++] = name;
    return n;
}

int npa_rule_primitives(npa_rule *rule)
{
    static const npa_primitive *table;
    static bool known;
    const char *names[4], *name = PyUnicode_AsUTF8(rule->name);
    char loop[64];
    if (!known) {
        table = find_table(), known = true;
    }
    if (name == NULL) {
        return -1;
    }
    if (table == NULL || rule->kind != NPA_MAP || rule->own != NPA_UFUNC) {
        return 0;
    }
    loop_name(rule, loop, sizeof loop);
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
            }
        }
    }
    return 0;
}

/* A scalar's value as a double. */
static double number(int type, const char *at)
{
    double wide = 0;
    npa_cast(type, at, 0, NPY_DOUBLE, (char *)&wide, 0, 1);
    return wide;
}

const npa_primitive *npa_find_primitive(const npa_rule *rule, unsigned still, const char *last)
{
    int place = rule->nin - 1;
    for (int i = 0; i < rule->nprimitives; i++) {
        const npa_primitive *p = rule->primitives[i];
        if (p->still == still &&
            (!p->constant || (last != NULL && number(rule->loop_type[place], last) == p->value))) {
            return p;
        }
    }
    return NULL;
}
