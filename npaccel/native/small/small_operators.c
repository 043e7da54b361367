/* small_operators.c: the operators of ndarray's slots, tried on small plain arrays before NumPy's.
 * See Note [Small] in small.c. */
#include "small/small.h"
#include "small/ways.h"

#include <string.h>

/* An operator's ufunc, and whether its results have the same bits, whoever computes them. */
typedef struct {
    const char *name;
    PyUFuncObject *ufunc;
    npa_exactness exact;
} operator;
enum {
    ADD, SUBTRACT, MULTIPLY, TRUE_DIVIDE, FLOOR_DIVIDE, REMAINDER, AND, OR, XOR, NEGATIVE, ABSOLUTE,
    INVERT, SQUARE, POWER, LESS, LESS_EQUAL, EQUAL, NOT_EQUAL, GREATER, GREATER_EQUAL, OPERATORS
};
PyUFuncObject *npa_small_refused;
static operator operators[OPERATORS] = {
    [ADD] = {.name = "add"}, [SUBTRACT] = {.name = "subtract"}, [MULTIPLY] = {.name = "multiply"},
    [TRUE_DIVIDE] = {.name = "divide"}, [FLOOR_DIVIDE] = {.name = "floor_divide"},
    [REMAINDER] = {.name = "remainder"}, [AND] = {.name = "bitwise_and"},
    [OR] = {.name = "bitwise_or"}, [XOR] = {.name = "bitwise_xor"},
    [NEGATIVE] = {.name = "negative"}, [ABSOLUTE] = {.name = "absolute"},
    [INVERT] = {.name = "invert"}, [SQUARE] = {.name = "square"}, [POWER] = {.name = "power"},
    [LESS] = {.name = "less"}, [LESS_EQUAL] = {.name = "less_equal"}, [EQUAL] = {.name = "equal"},
    [NOT_EQUAL] = {.name = "not_equal"}, [GREATER] = {.name = "greater"},
    [GREATER_EQUAL] = {.name = "greater_equal"}};

/* What NumPy's slot would do no more about than to call the ufunc. */
static bool is_number_alone(PyObject *o)
{
    return PyFloat_CheckExact(o) || PyLong_CheckExact(o) || Py_IS_TYPE(o, &PyDoubleArrType_Type);
}

/* An array whose memory is not for the result, as that of a dying one may be. */
static bool stays(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    return PyArray_CheckExact(o) && Py_REFCNT(o) > 1 && PyArray_IS_C_CONTIGUOUS(a) &&
           npa_small_type(PyArray_DESCR(a));
}

static bool fits(PyObject *a, PyObject *b)
{
    return is_number_alone(b) ||
           (stays(b) && PyArray_SAMESHAPE((PyArrayObject *)a, (PyArrayObject *)b));
}

/* Whether the operands are large, and NumPy's slot would hand them to the ufunc. */
static bool goes_straight(PyObject *a, PyObject *b)
{
    PyObject *first = b == NULL || PyArray_CheckExact(a) ? a : b, *other = first == a ? b : a;
    return PyArray_CheckExact(first) &&
           npa_is_large((size_t)PyArray_NBYTES((PyArrayObject *)first)) && stays(first) &&
           (other == NULL || fits(first, other));
}

/* Apart, so that what is handed on to NumPy is its caller's last act and leaves no frame of ours:
 * NumPy computes in a dying array's memory (`2 * np.outer(a, b)`) only where it sees none but its
 * own and the interpreter's between itself and the bytecode. */
static __attribute__((noinline)) PyObject *try_operator(int which, Py_ssize_t n, PyObject *a,
                                                        PyObject *b)
{
    PyObject *args[] = {a, b, a};
    const operator *o = &operators[which];
    if (o->ufunc != NULL && goes_straight(a, b)) {
        return o->ufunc->vectorcall((PyObject *)o->ufunc, args, (size_t)n, NULL);
    }
    PyObject *result = o->ufunc != NULL ? npa_small_call(o->ufunc, args, n, o->exact) : NULL;
    npa_small_refused = result == NULL ? o->ufunc : NULL;
    return result;
}

#define BINARY(slot, which)                                                                       \
    static PyObject *small_##slot(PyObject *a, PyObject *b)                                       \
    {                                                                                             \
        PyObject *result = try_operator(which, 2, a, b);                                          \
        return result != NULL || PyErr_Occurred() ? result : npa_numpy.number.nb_##slot(a, b);    \
    }                                                                                             \
    static PyObject *small_inplace_##slot(PyObject *a, PyObject *b)                               \
    {                                                                                             \
        PyObject *result = try_operator(which, 3, a, b);                                          \
        return result != NULL || PyErr_Occurred() ? result                                        \
                                                  : npa_numpy.number.nb_inplace_##slot(a, b);     \
    }
#define UNARY(slot, which)                                                                        \
    static PyObject *small_##slot(PyObject *a)                                                    \
    {                                                                                             \
        PyObject *result = try_operator(which, 1, a, NULL);                                       \
        return result != NULL || PyErr_Occurred() ? result : npa_numpy.number.nb_##slot(a);       \
    }
#define BINARIES(X)                                                                               \
    X(add, ADD) X(subtract, SUBTRACT) X(multiply, MULTIPLY) X(true_divide, TRUE_DIVIDE)           \
    X(floor_divide, FLOOR_DIVIDE) X(remainder, REMAINDER) X(and, AND) X(or, OR) X(xor, XOR)
#define UNARIES(X) X(negative, NEGATIVE) X(absolute, ABSOLUTE) X(invert, INVERT)
BINARIES(BINARY)
UNARIES(UNARY)

/* The operator that NumPy takes for a ** b of floats and a Python number; OPERATORS: perhaps
 * another one. */
static int power_for(PyObject *a, PyObject *b)
{
    bool known = npa_is_plain(a) && (PyFloat_CheckExact(b) || PyLong_CheckExact(b));
    int type = known ? PyArray_TYPE((PyArrayObject *)a) : NPY_OBJECT;
    if (!PyTypeNum_ISFLOAT(type) && !PyTypeNum_ISCOMPLEX(type)) {
        return OPERATORS;
    }
    int over = 0;
    double exponent = PyFloat_CheckExact(b) ? PyFloat_AS_DOUBLE(b)
                                            : (double)PyLong_AsLongAndOverflow(b, &over);
    if (exponent == 2.0) { /* as a float it is a square in some versions of NumPy */
        return PyFloat_CheckExact(b) ? OPERATORS : SQUARE;
    }
    /* Has its own ufunc */
    bool another = exponent == -1.0 || exponent == 0.0 || exponent == 0.5 || exponent == 1.0;
    return over || another || PyTypeNum_ISCOMPLEX(type) ? OPERATORS : POWER;
}

static PyObject *small_power(PyObject *a, PyObject *b, PyObject *modulo)
{
    int which = modulo == Py_None ? power_for(a, b) : OPERATORS;
    PyObject *result = which != OPERATORS ? try_operator(which, which == SQUARE ? 1 : 2, a, b)
                                          : NULL;
    return result != NULL || PyErr_Occurred() ? result : npa_numpy.number.nb_power(a, b, modulo);
}

static PyObject *small_matrix_multiply(PyObject *a, PyObject *b)
{
    PyObject *result = npa_small_matmul(a, b);
    npa_small_refused = result == NULL ? npa_matmul : NULL;
    return result != NULL || PyErr_Occurred() ? result : npa_numpy.number.nb_matrix_multiply(a, b);
}

static PyObject *small_compare(PyObject *a, PyObject *b, int how)
{
    static const int which[] = {[Py_LT] = LESS, [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL,
                                [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER, [Py_GE] = GREATER_EQUAL};
    PyObject *result = try_operator(which[how], 2, a, b);
    return result != NULL || PyErr_Occurred() ? result : npa_numpy.compare(a, b, how);
}

void npa_small_operator(PyUFuncObject *u, npa_exactness how)
{
    for (int i = 0; i < OPERATORS; i++) {
        if (strcmp(operators[i].name, u->name) == 0) {
            operators[i].ufunc = u, operators[i].exact = how;
        }
    }
    npa_small_ufunc(u, how);
}

void npa_small_install(bool on)
{
    PyNumberMethods *n = PyArray_Type.tp_as_number;
    const PyNumberMethods *numpys = &npa_numpy.number;
#define SET(slot, which) n->nb_##slot = on ? small_##slot : numpys->nb_##slot;
#define SET_BOTH(slot, which) SET(slot, which) SET(inplace_##slot, which)
    BINARIES(SET_BOTH)
    UNARIES(SET)
    SET(power, SQUARE)
    SET(matrix_multiply, MULTIPLY)
    PyArray_Type.tp_richcompare = on ? small_compare : npa_numpy.compare;
    npa_small_memory(on);
}
