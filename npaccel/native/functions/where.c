/* where.c: where(condition, x, y) is recorded, without Python in the usual case. */
#include "functions/functions.h"

#include <math.h>

#define LARGEST_SINGLE 0x1.fffffep127

/* Whether an array of that type takes a Python number as it is. */
static bool takes(int type, const npa_value *v)
{
    char number[16];
    bool fits;
    if (type == NPY_HALF) {
        fits = false;
    } else if (PyFloat_CheckExact(v->object)) {
        double d = PyFloat_AS_DOUBLE(v->object);
        bool single = type == NPY_FLOAT || type == NPY_CFLOAT;
        fits = (PyTypeNum_ISFLOAT(type) || PyTypeNum_ISCOMPLEX(type)) &&
               !(single && isfinite(d) && fabs(d) > LARGEST_SINGLE);
    } else {
        fits = PyLong_CheckExact(v->object) && PyTypeNum_ISNUMBER(type);
    }
    return fits && npa_scalar_value(v, type, number) > 0;
}

/* The result's: that of both choices, or of one where the other is a Python number that it takes;
 * -1: another. */
static int common_type(const npa_value *x, const npa_value *y)
{
    bool weak_x = x->type >= NPA_WEAK_INT, weak_y = y->type >= NPA_WEAK_INT;
    if (weak_x || weak_y) {
        const npa_value *weak = weak_x ? x : y, *other = weak_x ? y : x;
        bool usual = !(weak_x && weak_y) && npa_type_known(other->type);
        return usual && takes(other->type, weak) ? other->type : -1;
    }
    return x->type == y->type && npa_type_known(x->type) ? x->type : -1;
}

static bool usual(const npa_value *v)
{
    return v->array == NULL || PyArray_ISNOTSWAPPED(v->array);
}

PyObject *npa_record_where(PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static PyObject *name;
    npa_value values[3];
    if (n != 3 || names != NULL ||
        (name == NULL && (name = PyUnicode_InternFromString("where")) == NULL)) {
        return NULL;
    }
    for (int k = 0; k < 3; k++) {
        if (!npa_classify(args[k], &values[k]) || !usual(&values[k])) {
            return NULL;
        }
    }
    int type = common_type(&values[1], &values[2]);
    if (type < 0 || values[0].array == NULL || values[0].type != NPY_BOOL ||
        !npa_wants(values, 3)) {
        return NULL;
    }
    PyObject *result;
    npa_rule *rule = npa_find_rule(name, &type, 1, NULL);
    int status = rule != NULL ? npa_record_map(rule, values, NULL, NULL, 'K', 0, &result) : 0;
    return status > 0 ? result : NULL;
}
