/* array.c: the slots of ArrayBase: operators, comparisons, subscripts, the buffer protocol and
 * __array_ufunc__. Large or pending operands are recorded; all else is ndarray's own slot. */
#include "numpy/numpy.h"
#include "numpy/array.h"
#include "numpy/aside.h"
#include "small/ways.h"

enum operation {
    OP_ADD, OP_SUBTRACT, OP_MULTIPLY, OP_TRUE_DIVIDE, OP_FLOOR_DIVIDE, OP_REMAINDER, OP_POWER,
    OP_LEFT_SHIFT, OP_RIGHT_SHIFT, OP_BITWISE_AND, OP_BITWISE_OR, OP_BITWISE_XOR, OP_NEGATIVE,
    OP_POSITIVE, OP_ABSOLUTE, OP_INVERT, OP_DIVMOD, OP_LESS, OP_LESS_EQUAL, OP_EQUAL, OP_NOT_EQUAL,
    OP_GREATER, OP_GREATER_EQUAL, OP_SQUARE, OP_RECIPROCAL, OP_SQRT, OP_COUNT
};

static const char *const operation_names[OP_COUNT] = {
    "add", "subtract", "multiply", "true_divide", "floor_divide", "remainder", "power",
    "left_shift", "right_shift", "bitwise_and", "bitwise_or", "bitwise_xor", "negative",
    "positive", "absolute", "invert", "divmod", "less", "less_equal", "equal", "not_equal",
    "greater", "greater_equal", "square", "reciprocal", "sqrt"};
static PyObject *power_in_python(PyObject *a, PyObject *b) { return PyNumber_Power(a, b, Py_None); }
static const binaryfunc in_python[OP_COUNT] = {
    PyNumber_Add, PyNumber_Subtract, PyNumber_Multiply, PyNumber_TrueDivide, PyNumber_FloorDivide,
    PyNumber_Remainder, power_in_python, PyNumber_Lshift, PyNumber_Rshift, PyNumber_And,
    PyNumber_Or, PyNumber_Xor, [OP_DIVMOD] = PyNumber_Divmod};
static PyObject *operations[OP_COUNT], *matmul;
static npa_exactness exact[OP_COUNT]; /* once a block was open */

/* An operand as ndarray's own slots take it: evaluated, exact. New reference. */
PyObject *npa_settled(PyObject *o)
{
    if (PyArray_CheckExact(o) || ours(o)) {
        PyObject *part = npa_fetched((PyArrayObject *)o);
        if (part != NULL) {
            return part;
        }
        if (npa_touch((PyArrayObject *)o, false) < 0) {
            return NULL;
        }
        if (ours(o)) {
            return npa_exact_view((PyArrayObject *)o);
        }
    }
    return Py_NewRef(o);
}

size_t npa_result_bytes(PyObject *x, PyObject *y)
{
    size_t a = x != NULL && PyArray_Check(x) ? (size_t)PyArray_NBYTES((PyArrayObject *)x) : 0;
    size_t b = y != NULL && PyArray_Check(y) ? (size_t)PyArray_NBYTES((PyArrayObject *)y) : 0;
    return a > b ? a : b;
}

/* *took, if it isn't NULL: the seconds that NumPy needs. */
static PyObject *timed_in_numpy(PyObject *a, PyObject *b, binaryfunc slot, double *took)
{
    PyObject *x = npa_settled(a), *y = x != NULL ? npa_settled(b) : NULL;
    int before = npa_now(NPA_IN_NUMPY);
    bool due = took == NULL && npa_suspended == 0 && npa_look_due();
    npa_stretch s = due ? npa_stretch_begin() : (npa_stretch){0};
    double start = took != NULL ? npa_seconds() : 0;
    npa_suspended++;
    PyObject *result = y != NULL ? slot(x, y) : NULL;
    npa_suspended--;
    if (took != NULL) {
        *took = npa_seconds() - start;
    }
    if (due) {
        npa_stretch_end(&s, NPA_SMALL, npa_result_bytes(x, y));
    }
    npa_now(before);
    Py_XDECREF(x), Py_XDECREF(y);
    return result;
}

static PyObject *binary_in_numpy(PyObject *a, PyObject *b, binaryfunc slot)
{
    return timed_in_numpy(a, b, slot, NULL);
}

void npa_operator_is_exact(PyObject *ufunc, npa_exactness how)
{
    for (int op = 0; op < OP_COUNT; op++) {
        exact[op] = operations[op] == ufunc ? how : exact[op];
    }
}

/* Whether NumPy does it at once, in a block; see autotune.c. */
static bool passes(enum operation op, const npa_value *values, int n)
{
    return npa_autotune_on && npa_in_block() && npa_has_numpys_bits(exact[op], values, n) &&
           npa_autotune_passes(operations[op], npa_broadcast_bytes(values, n), true);
}

/* Record ufunc(values...): 1 done, 0 NumPy should do it, -1 error. */
static int record(PyObject *ufunc, npa_value *values, int n, PyArrayObject *out,
                  PyObject **results)
{
    int types[NPA_MAX_ARGS];
    for (int k = 0; k < n; k++) {
        types[k] = values[k].type;
    }
    npa_rule *rule = npa_find_rule(ufunc, types, n, out);
    if (rule == NULL || rule->nin != n) {
        if (rule == NULL && PyErr_Occurred()) {
            return -1;
        }
        return npa_note_fallback(ufunc, "these types have no kernel", 0.0);
    }
    PyArrayObject *outs[NPA_MAX_ARGS] = {out};
    int status = npa_record_map(rule, values, out != NULL ? outs : NULL, NULL, 'K', 0, results);
    if (status != 0) {
        return status;
    }
    const char *reason = npa_passing_reason();
    return npa_note_fallback(ufunc, reason != NULL ? reason : "these operands can't be recorded",
                             0.0);
}

/* At once, in a block what is not recorded. NULL, perhaps without error: to be done otherwise */
static PyObject *small(enum operation op, PyObject *const *args, Py_ssize_t n)
{
    bool may = op != OP_POWER && op != OP_DIVMOD && npa_least != SIZE_MAX && !npa_placeholders &&
               !npa_copies_exist() && npa_suspended == 0;
    return may ? npa_small_call_ours((PyUFuncObject *)operations[op], args, n, exact[op], false)
               : NULL;
}

/* The same in a round of a trial that is NumPy's, where operands may be hidden. The third one is
 * written. */
static PyObject *small_passed(enum operation op, PyObject *const *args, Py_ssize_t n)
{
    for (Py_ssize_t k = 0; k < n; k++) {
        if (Py_IS_TYPE(args[k], npa_array_type) &&
            npa_touch((PyArrayObject *)args[k], n > 2 && args[k] == args[2]) < 0) {
            return NULL;
        }
    }
    npa_passed++;
    PyObject *result = npa_adopted(small(op, args, n));
    npa_passed--;
    return result;
}

static const npa_overwriting overwriting[OP_COUNT] = {
    [OP_ADD] = NPA_EITHER,        [OP_MULTIPLY] = NPA_EITHER,
    [OP_BITWISE_AND] = NPA_EITHER, [OP_BITWISE_OR] = NPA_EITHER,
    [OP_BITWISE_XOR] = NPA_EITHER, [OP_SUBTRACT] = NPA_FIRST,
    [OP_FLOOR_DIVIDE] = NPA_FIRST, [OP_LEFT_SHIFT] = NPA_FIRST,
    [OP_RIGHT_SHIFT] = NPA_FIRST,  [OP_TRUE_DIVIDE] = NPA_FIRST_INEXACT,
};

static PyUFuncObject *ufunc_of(enum operation op) { return (PyUFuncObject *)operations[op]; }

static PyObject *binary(enum operation op, PyObject *a, PyObject *b, binaryfunc slot)
{
    npa_value values[2];
    PyObject *results[NPA_MAX_ARGS];
    if (!npa_classify(a, &values[0]) || !npa_classify(b, &values[1])) {
        /* Another class, a list ...: ndarray's rules about who goes first hold for us too. */
        return PyErr_Occurred()        ? NULL
               : npa_goes_second(a, b) ? npa_operate_second(a, b, in_python[op])
                                       : slot(a, b);
    }
    PyObject *args[] = {a, b}, *result;
    if (op == OP_MULTIPLY && npa_takes_second_first(a, b)) {
        npa_value second = values[1];
        values[1] = values[0], values[0] = second;
        args[0] = b, args[1] = a;
    }
    if (npa_aside_ufunc(ufunc_of(op), exact[op], values, args, 2, &result)) {
        return result;
    }
    bool wanted = npa_wants(values, 2), passed = wanted && passes(op, values, 2);
    if (wanted && !passed) {
        PyArrayObject *over = npa_written_over(a, b, overwriting[op]);
        int status = record(operations[op], values, 2, over, results);
        if (status > 0 && op == OP_DIVMOD) {
            return Py_BuildValue("(NN)", results[0], results[1]);
        }
        if (status != 0) {
            return status > 0 ? results[0] : NULL;
        }
    }
    result = passed ? small_passed(op, args, 2) : !wanted ? small(op, args, 2) : NULL;
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    npa_passed += passed;
    result = binary_in_numpy(args[0], args[1], slot);
    result = wanted ? npa_adopted(result) : result;
    npa_passed -= passed;
    return result;
}

static PyObject *in_place_in_numpy(PyObject *a, PyObject *b, binaryfunc slot)
{
    PyObject *part = npa_may_fetch((PyArrayObject *)a, true) ? npa_fetched((PyArrayObject *)a)
                                                             : NULL;
    if (part == NULL && npa_touch((PyArrayObject *)a, true) < 0) {
        return NULL;
    }
    PyObject *result = binary_in_numpy(part != NULL ? part : a, b, slot);
    if (part != NULL && result != NULL && result != Py_NotImplemented &&
        npa_put_back((PyArrayObject *)a, (PyArrayObject *)part) < 0) {
        Py_CLEAR(result);
    }
    Py_XDECREF(part);
    if (result == NULL || result == Py_NotImplemented) {
        return result;
    }
    Py_DECREF(result); /* the exact view of `a`; the name must stay bound to `a` */
    return Py_NewRef(a);
}

/* fresh: the same operation with a new result, which is what a scalar gets. */
static PyObject *in_place(enum operation op, PyObject *a, PyObject *b, binaryfunc slot,
                          binaryfunc fresh)
{
    npa_value values[2];
    PyObject *result;
    if (npa_section_is_scalar((PyArrayObject *)a)) {
        return binary(op, a, b, fresh);
    }
    if (!npa_classify(a, &values[0]) || !npa_classify(b, &values[1])) {
        return PyErr_Occurred() || npa_touch((PyArrayObject *)a, true) < 0 ? NULL : slot(a, b);
    }
    PyObject *args[] = {a, b, a};
    if (npa_aside_in_place(ufunc_of(op), exact[op], values, args, &result)) {
        return result;
    }
    bool wanted = npa_wants(values, 2), passed = wanted && passes(op, values, 2);
    if (wanted && !passed) {
        int status = record(operations[op], values, 2, (PyArrayObject *)a, &result);
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    result = passed ? small_passed(op, args, 3) : !wanted ? small(op, args, 3) : NULL;
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    npa_passed += passed;
    result = in_place_in_numpy(a, b, slot);
    npa_passed -= passed;
    return result;
}

static PyObject *unary(enum operation op, PyObject *a, unaryfunc slot)
{
    npa_value value;
    PyObject *result;
    bool known = npa_classify(a, &value);
    if (known && npa_aside_ufunc(ufunc_of(op), exact[op], &value, &a, 1, &result)) {
        return result;
    }
    bool wanted = known && npa_wants(&value, 1), passed = wanted && passes(op, &value, 1);
    if (wanted && !passed) {
        int status = record(operations[op], &value, 1, NULL, &result);
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    result = PyErr_Occurred() ? NULL
             : passed         ? small_passed(op, &a, 1)
             : !wanted        ? small(op, &a, 1) : NULL;
    if (result != NULL) {
        return result;
    }
    PyObject *x = PyErr_Occurred() ? NULL : npa_settled(a);
    bool due = npa_look_due();
    npa_stretch s = due ? npa_stretch_begin() : (npa_stretch){0};
    npa_suspended++, npa_passed += passed;
    result = x != NULL ? slot(x) : NULL;
    result = wanted ? npa_adopted(result) : result;
    npa_suspended--, npa_passed -= passed;
    if (due) {
        npa_stretch_end(&s, NPA_SMALL, npa_result_bytes(x, NULL));
    }
    Py_XDECREF(x);
    return result;
}

#define NUMBER(slot) (npa_numpy.number.slot)

#define BINARY(name, op)                                                                         \
    static PyObject *array_##name(PyObject *a, PyObject *b)                                      \
    {                                                                                            \
        return binary(op, a, b, NUMBER(nb_##name));                                              \
    }

#define BOTH(name, op)                                                                           \
    BINARY(name, op)                                                                             \
    static PyObject *array_inplace_##name(PyObject *a, PyObject *b)                              \
    {                                                                                            \
        return in_place(op, a, b, NUMBER(nb_inplace_##name), NUMBER(nb_##name));                 \
    }

#define UNARY(name, op)                                                                          \
    static PyObject *array_##name(PyObject *a) { return unary(op, a, NUMBER(nb_##name)); }

#define BINARIES(X)                                                                              \
    X(add, OP_ADD) X(subtract, OP_SUBTRACT) X(multiply, OP_MULTIPLY)                             \
    X(true_divide, OP_TRUE_DIVIDE) X(floor_divide, OP_FLOOR_DIVIDE) X(remainder, OP_REMAINDER)   \
    X(lshift, OP_LEFT_SHIFT) X(rshift, OP_RIGHT_SHIFT) X(and, OP_BITWISE_AND)                    \
    X(or, OP_BITWISE_OR) X(xor, OP_BITWISE_XOR)
BINARIES(BOTH)
BINARY(divmod, OP_DIVMOD)
UNARY(negative, OP_NEGATIVE)
UNARY(positive, OP_POSITIVE)
UNARY(absolute, OP_ABSOLUTE)
UNARY(invert, OP_INVERT)

/* Before NumPy 2.3 `**` looked at the value of any exponent of one element (2, 0.5 ...) and did not
 * let it take part in the result's dtype. */
static bool by_value;

/* `**` with these exponents is another ufunc in NumPy too. */
static enum operation fast_power(PyObject *a, PyObject *exponent)
{
    if (!PyArray_Check(a)) {
        return OP_POWER;
    }
    int type = PyArray_TYPE((PyArrayObject *)a);
    bool inexact = PyTypeNum_ISFLOAT(type) || PyTypeNum_ISCOMPLEX(type);
    if (PyLong_CheckExact(exponent)) {
        int overflow;
        long e = PyLong_AsLongAndOverflow(exponent, &overflow);
        if (e == 2 && !overflow && (inexact || PyTypeNum_ISINTEGER(type))) {
            return OP_SQUARE;
        }
        if (e == -1 && !overflow && inexact) {
            return OP_RECIPROCAL;
        }
    } else if (PyFloat_CheckExact(exponent) && inexact) {
        double e = PyFloat_AS_DOUBLE(exponent);
        return e == 0.5               ? OP_SQRT
               : by_value && e == 2.0 ? OP_SQUARE
               : by_value && e == -1.0 ? OP_RECIPROCAL
                                       : OP_POWER;
    }
    return OP_POWER;
}

static bool is_by_value(PyObject *a, PyObject *exponent)
{
    if (!by_value || PyLong_CheckExact(exponent) || !PyArray_Check(a)) {
        return false;
    }
    if (PyFloat_CheckExact(exponent)) {
        return PyArray_ISINTEGER((PyArrayObject *)a) || PyArray_ISBOOL((PyArrayObject *)a);
    }
    return PyArray_CheckAnyScalar(exponent) ||
           (PyIndex_Check(exponent) && !PyArray_Check(exponent));
}

/* As it shows in the dtype of a bool to the power of 2.0. */
static int ask_by_value(void)
{
    npy_intp one = 1;
    PyObject *a = PyArray_ZEROS(1, &one, NPY_BOOL, 0), *two = PyFloat_FromDouble(2.0);
    PyObject *power = a && two ? npa_numpy.number.nb_power(a, two, Py_None) : NULL;
    if (power != NULL) {
        by_value = PyArray_TYPE((PyArrayObject *)power) != NPY_DOUBLE;
    }
    Py_XDECREF(a), Py_XDECREF(two);
    Py_XDECREF(power);
    return power != NULL ? 0 : -1;
}

static PyObject *power_slot(PyObject *a, PyObject *b) { return NUMBER(nb_power)(a, b, Py_None); }

static PyObject *inplace_power_slot(PyObject *a, PyObject *b)
{
    return NUMBER(nb_inplace_power)(a, b, Py_None);
}

static PyObject *any_power(PyObject *a, PyObject *b, PyObject *out)
{
    if (is_by_value(a, b)) {
        return out != NULL ? in_place_in_numpy(a, b, inplace_power_slot)
                           : npa_adopted(binary_in_numpy(a, b, power_slot));
    }
    enum operation op = fast_power(a, b);
    npa_value values[2];
    PyObject *result;
    bool known = op != OP_POWER && npa_classify(a, &values[0]);
    if (known && out == NULL &&
        npa_aside_ufunc(ufunc_of(op), exact[op], values, &a, 1, &result)) {
        return result;
    }
    if (!known || !npa_wants(values, 1)) {
        return out != NULL ? in_place(OP_POWER, a, b, inplace_power_slot, power_slot)
                           : binary(OP_POWER, a, b, power_slot);
    }
    bool at_once = passes(op, values, 1);
    int status =
        at_once ? 0 : record(operations[op], values, 1, (PyArrayObject *)out, &result);
    if (status != 0) {
        return status > 0 ? result : NULL;
    }
    npa_passed += at_once;
    result = out == NULL ? npa_adopted(binary_in_numpy(a, b, power_slot))
             : at_once   ? in_place_in_numpy(a, b, inplace_power_slot)
                         : in_place(OP_POWER, a, b, inplace_power_slot, power_slot);
    npa_passed -= at_once;
    return result;
}

static PyObject *array_power(PyObject *a, PyObject *b, PyObject *modulo)
{
    return modulo != Py_None ? Py_NewRef(Py_NotImplemented) : any_power(a, b, NULL);
}

static PyObject *array_inplace_power(PyObject *a, PyObject *b, PyObject *modulo)
{
    PyObject *out = npa_section_is_scalar((PyArrayObject *)a) ? NULL : a;
    return modulo != Py_None ? Py_NewRef(Py_NotImplemented) : any_power(a, b, out);
}

static PyObject *array_compare(PyObject *a, PyObject *b, int how)
{
    static const enum operation map[] = {[Py_LT] = OP_LESS, [Py_LE] = OP_LESS_EQUAL,
                                         [Py_EQ] = OP_EQUAL, [Py_NE] = OP_NOT_EQUAL,
                                         [Py_GT] = OP_GREATER, [Py_GE] = OP_GREATER_EQUAL};
    npa_value values[2];
    PyObject *result;
    if (!npa_classify(a, &values[0]) || !npa_classify(b, &values[1])) {
        return PyErr_Occurred()        ? NULL
               : npa_goes_second(a, b) ? npa_compare_second(a, b, how)
                                       : npa_numpy.compare(a, b, how);
    }
    PyObject *args[] = {a, b};
    if (npa_aside_ufunc(ufunc_of(map[how]), exact[map[how]], values, args, 2, &result)) {
        return result;
    }
    bool wanted = npa_wants(values, 2), passed = wanted && passes(map[how], values, 2);
    if (wanted && !passed) {
        int status = record(operations[map[how]], values, 2, NULL, &result);
        if (status != 0) {
            return status > 0 ? result : NULL;
        }
    }
    result = passed ? small_passed(map[how], args, 2) : NULL;
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    PyObject *x = npa_settled(a), *y = x != NULL ? npa_settled(b) : NULL;
    bool due = npa_look_due();
    npa_stretch s = due ? npa_stretch_begin() : (npa_stretch){0};
    npa_suspended++, npa_passed += passed;
    result = y != NULL ? npa_numpy.compare(x, y, how) : NULL;
    result = wanted ? npa_adopted(result) : result;
    npa_suspended--, npa_passed -= passed;
    if (due) {
        npa_stretch_end(&s, NPA_SMALL, npa_result_bytes(x, y));
    }
    Py_XDECREF(x), Py_XDECREF(y);
    return result;
}

/* ------------------------------------------------------------------ reading by other means */

/* `a` as NumPy may read it: touched, or what it shows of a device; new. NULL: error. */
static PyObject *readable(PyObject *a, const char *how)
{
    if (npa_section_stop((PyArrayObject *)a, how) < 0) {
        return NULL;
    }
    PyObject *part = npa_fetched((PyArrayObject *)a);
    return part != NULL                                   ? part
           : npa_touch((PyArrayObject *)a, false) < 0 ? NULL
                                                          : Py_NewRef(a);
}

#define READ(name, type, failure)                                                                \
    static type array_##name(PyObject *a)                                                        \
    {                                                                                            \
        PyObject *x = readable(a, #name);                                                        \
        type result = x != NULL ? NUMBER(nb_##name)(x) : (failure);                              \
        Py_XDECREF(x);                                                                           \
        return result;                                                                           \
    }

READ(bool, int, -1)
READ(int, PyObject *, NULL)
READ(float, PyObject *, NULL)
READ(index, PyObject *, NULL)

static PyObject *array_matrix_multiply(PyObject *a, PyObject *b)
{
    static PyObject *name;
    npa_value values[2];
    if (!npa_classify(a, &values[0]) || !npa_classify(b, &values[1])) {
        return PyErr_Occurred()        ? NULL
               : npa_goes_second(a, b) ? npa_operate_second(a, b, PyNumber_MatrixMultiply)
               : ours(a) || ours(b)    ? binary_in_numpy(a, b, NUMBER(nb_matrix_multiply))
                                       : NUMBER(nb_matrix_multiply)(a, b);
    }
    double took;
    PyObject *result = npa_rows((PyUFuncObject *)matmul, (PyObject *[]){a, b}, 2, NULL);
    if (result != NULL || PyErr_Occurred()) {
        return result;
    }
    result = timed_in_numpy(a, b, NUMBER(nb_matrix_multiply), &took);
    if (result == NULL || !npa_wants(values, 2)) {
        return result;
    }
    if ((name == NULL && (name = PyUnicode_InternFromString("matmul")) == NULL) ||
        npa_note_fallback(name, "matrix product", took) < 0) {
        Py_DECREF(result);
        return NULL;
    }
    return npa_adopted(result);
}

static int array_getbuffer(PyObject *a, Py_buffer *view, int flags)
{
    if (npa_section_stop((PyArrayObject *)a, "a buffer") < 0 ||
        npa_touch((PyArrayObject *)a, (flags & PyBUF_WRITABLE) != 0) < 0) {
        view->obj = NULL;
        return -1;
    }
    return PyArray_Type.tp_as_buffer->bf_getbuffer(a, view, flags);
}

/* Python derives a subclass's from __add__ and __getitem__, which ndarray's are not. */
void npa_restore_sequence(PyTypeObject *type)
{
    type->tp_as_sequence->sq_concat = npa_numpy.sequence.sq_concat;
    type->tp_as_sequence->sq_item = npa_array_item;
    type->tp_as_sequence->sq_ass_item = npa_array_assign_item;
}

/* --------------------------------------------------------------------------- __array_ufunc__ */

static PyMethodDef array_methods[] = {
    {"__array_ufunc__", (PyCFunction)(void (*)(void))npa_array_ufunc, METH_FASTCALL | METH_KEYWORDS,
     "Record the call, or run it in NumPy."},
    {NULL}};

#define SLOTS(slot, op)                                                                          \
    {Py_nb_##slot, array_##slot}, {Py_nb_inplace_##slot, array_inplace_##slot},
static PyType_Slot array_slots[] = {
    BINARIES(SLOTS) {Py_nb_power, array_power}, {Py_nb_inplace_power, array_inplace_power},
    {Py_nb_divmod, array_divmod}, {Py_nb_negative, array_negative},
    {Py_nb_positive, array_positive}, {Py_nb_absolute, array_absolute},
    {Py_nb_invert, array_invert}, {Py_nb_bool, array_bool}, {Py_nb_int, array_int},
    {Py_nb_float, array_float}, {Py_nb_index, array_index},
    {Py_nb_matrix_multiply, array_matrix_multiply},
    {Py_tp_richcompare, array_compare}, {Py_mp_subscript, npa_array_subscript},
    {Py_mp_ass_subscript, npa_assign}, {Py_sq_item, npa_array_item},
    {Py_sq_ass_item, npa_array_assign_item}, {Py_bf_getbuffer, array_getbuffer},
    {Py_tp_methods, array_methods},
    {Py_tp_doc, "Base of npaccel.Array: operators, comparisons, subscripts, buffers."},
    {0, NULL}};

static PyType_Spec array_spec = {
    .name = "npaccel._native.ArrayBase",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = array_slots,
};

PyObject *npa_array_base(void)
{
    PyObject *module = PyImport_ImportModule("numpy");
    for (int i = 0; module != NULL && i < OP_COUNT; i++) {
        operations[i] = PyObject_GetAttrString(module, operation_names[i]);
        if (operations[i] == NULL) {
            Py_CLEAR(module);
        }
    }
    matmul = module != NULL ? PyObject_GetAttrString(module, "matmul") : NULL;
    if (matmul == NULL) {
        Py_CLEAR(module);
    }
    Py_XDECREF(module);
    npa_numpy = (npa_slots){*PyArray_Type.tp_as_number, *PyArray_Type.tp_as_mapping,
                            *PyArray_Type.tp_as_sequence, PyArray_Type.tp_richcompare};
    return module == NULL || ask_by_value() < 0
               ? NULL
               : PyType_FromSpecWithBases(&array_spec, (PyObject *)&PyArray_Type);
}
