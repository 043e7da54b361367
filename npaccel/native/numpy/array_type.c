/* array_type.c: the type of the class Array: by it, code that tells classes apart takes an Array
 * for an ndarray. NumPy looks up attributes of operands' classes in each call, so this is in C. */
#include "numpy/numpy.h"

static bool is_array(PyObject *class) { return class == (PyObject *)npa_array_type; }

/* Whether it passes for ndarray in its texts, too: the program knows nothing of us. */
static bool passes(PyObject *class) { return is_array(class) && npa_in_block(); }

/* Tables of types that have ndarray find Array. */
static Py_hash_t type_hash(PyObject *class)
{
    return PyType_Type.tp_hash(is_array(class) ? (PyObject *)&PyArray_Type : class);
}

static PyObject *type_compare(PyObject *class, PyObject *other, int op)
{
    if ((op != Py_EQ && op != Py_NE) || !is_array(class) || other != (PyObject *)&PyArray_Type) {
        return PyType_Type.tp_richcompare(class, other, op);
    }
    return PyBool_FromLong(op == Py_EQ);
}

static bool is_a_name(PyObject *attribute)
{
    static const char *const names[] = {"__module__", "__name__", "__qualname__"};
    bool is = false;
    for (size_t i = 0; !is && i < sizeof names / sizeof *names; i++) {
        is = PyUnicode_CompareWithASCIIString(attribute, names[i]) == 0;
    }
    return is;
}

static PyObject *type_attribute(PyObject *class, PyObject *name)
{
    enum { SHORTEST = 8, LONGEST = 12 }; /* of those names */
    bool may = PyUnicode_CheckExact(name) && PyUnicode_GET_LENGTH(name) >= SHORTEST &&
               PyUnicode_GET_LENGTH(name) <= LONGEST;
    PyObject *of = may && is_a_name(name) && passes(class) ? (PyObject *)&PyArray_Type : class;
    return PyType_Type.tp_getattro(of, name);
}

static PyObject *type_text(PyObject *class)
{
    return PyType_Type.tp_repr(passes(class) ? (PyObject *)&PyArray_Type : class);
}

static PyType_Slot slots[] = {
    {Py_tp_hash, type_hash}, {Py_tp_richcompare, type_compare}, {Py_tp_getattro, type_attribute},
    {Py_tp_repr, type_text},
    {Py_tp_doc,
     "The type of Array, which equals ndarray, with its hash, and in a block has its name."},
    {0, NULL}};

static PyType_Spec spec = {
    .name = "npaccel._native.ArrayType",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

PyObject *npa_array_metatype(void)
{
    return PyType_FromSpecWithBases(&spec, (PyObject *)&PyType_Type);
}
