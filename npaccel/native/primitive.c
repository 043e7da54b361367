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

/* Whether NumPy's loop for these types takes a square root for a single exponent of 0.5, as from 2.3
 * on: then the root of -0.0 is -0.0. */
static bool half_is_root(const npa_rule *rule)
{
    double base = -0.0, half = 0.5, result = 0;
    float small[3] = {-0.0f, 0.5f, 0};
    bool single = rule->loop_type[0] == NPY_FLOAT;
    char *args[3] = {(char *)&base, (char *)&half, (char *)&result};
    npy_intp n = 1, steps[3] = {sizeof(double), 0, sizeof(double)};
    if (single) {
        for (int k = 0; k < 3; k++) {
            args[k] = (char *)&small[k], steps[k] = steps[k] != 0 ? (npy_intp)sizeof(float) : 0;
        }
    }
    rule->loop(args, &n, steps, rule->loop_data);
    return single ? signbit(small[2]) : signbit(result);
}

/* The operations that a power may be, the special ones first: rewrite.py decides alike. */
static int names_of(const npa_rule *rule, const char *name, const char **names)
{
    int n = 0;
    bool power = strcmp(name, "power") == 0, plain = rule->loop_type[0] != NPY_HALF;
    if (power || strcmp(name, "float_power") == 0) {
        names[n++] = "whole power";
    }
    if (power && plain && half_is_root(rule)) {
        names[n++] = "half power";
        names[n++] = "single power";
    }
    names[n++] = name;
    return n;
}

void npa_rule_primitives(npa_rule *rule)
{
    static const npa_primitive *table;
    static bool known;
    const char *names[4], *name = PyUnicode_AsUTF8(rule->name);
    char loop[64];
    if (!known) {
        table = find_table(), known = true;
    }
    if (table == NULL || name == NULL || rule->kind != NPA_MAP || rule->own != NPA_UFUNC) {
        return;
    }
    loop_name(rule, loop, sizeof loop);
    for (int i = 0, n = names_of(rule, name, names); i < n; i++) {
        for (const npa_primitive *p = table; p->op != NULL; p++) {
            bool same = strcmp(p->op, names[i]) == 0 && strcmp(p->loop, loop) == 0;
            if (same && rule->nprimitives < NPA_MOST_PRIMITIVES) {
                rule->primitives[rule->nprimitives++] = p;
            }
        }
    }
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
