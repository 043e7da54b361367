/* temporaries.c: an array that nobody holds but the interpreter's stack, as of ((a - b)**2).mean(),
 * dies with the call that it is given to. Where the call looks at its values once, and they wait,
 * they need not be stored: its memory is given back before it has any.
 *
 * The caller of a C function from bytecode passes arguments where they lie on its stack, behind
 * what is called, each with a reference of its own (up to Python 3.13; 3.14 borrows some). Whoever
 * else calls passes them from elsewhere, and may use them afterwards, or passes a bound method's
 * array in a place in front of them that has no reference. A generator's stack lies elsewhere, too.
 * Who traces or profiles is shown the frames of NumPy's Python, and may keep what these hold.
 *
 * NumPy's operators write their result over such an operand where it is large. That shows in the
 * memory order of a result whose operands lie in unlike ones: there ours do the same, where the
 * frame at hand is at an operator and its stack has these operands side by side. C code has
 * operands elsewhere, and may use them afterwards.
 */
#include "numpy/numpy.h"

#include <opcode.h>
#include <string.h>

NPA_PER_THREAD PyArrayObject *npa_last_use;

/* Whether it is on this thread's stack, behind `called`, between which and a function's arguments
 * newer versions have an empty place. */
static bool is_on_stack(PyObject *const *slot, PyObject *called)
{
#if PY_VERSION_HEX < 0x030E0000
    enum { BEHIND = 2 };
    const PyThreadState *t = PyThreadState_Get();
    bool watched = t->c_tracefunc != NULL || t->c_profilefunc != NULL;
    bool inside = !watched && t->datastack_chunk != NULL &&
                  (uintptr_t)(slot - BEHIND) >= (uintptr_t)t->datastack_chunk->data &&
                  (uintptr_t)slot < (uintptr_t)t->datastack_top;
    return inside && (slot[-1] == called || (slot[-1] == NULL && slot[-2] == called));
#else
    (void)slot, (void)called;
    return false;
#endif
}

PyArrayObject *npa_begin_last_use(PyObject *const *slot, PyObject *called)
{
    PyArrayObject *before = npa_last_use;
    if (is_on_stack(slot, called) && Py_REFCNT(*slot) == 1 && PyArray_Check(*slot)) {
        npa_last_use = (PyArrayObject *)*slot;
    }
    return before;
}

void npa_end_last_use(PyArrayObject *a)
{
    if (a == npa_last_use && npa_give_memory_back(a)) {
        npa_last_use = NULL;
    }
}

/* As NumPy's temp_elide.c: whether an operator may write over `a`, for a `b` of its shape. */
static bool is_temporary_for(PyObject *a, PyArrayObject *b)
{
    enum { LEAST_BYTES = 1 << 18 };
    PyArrayObject *over = (PyArrayObject *)a;
    enum { FLAGS = NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE };
    return Py_REFCNT(a) == 1 && Py_IS_TYPE(a, npa_array_type) &&
           PyArray_ISNUMBER(over) && (PyArray_FLAGS(over) & FLAGS) == FLAGS &&
           PyArray_NBYTES(over) >= LEAST_BYTES &&
           PyArray_CanCastSafely(PyArray_TYPE(b), PyArray_TYPE(over));
}

#if PY_VERSION_HEX < 0x030E0000
/* Whether bytecode is at an operator. */
static bool is_at_operator(PyThreadState *t)
{
    PyFrameObject *frame = PyThreadState_GetFrame(t);
    PyCodeObject *code = frame != NULL ? PyFrame_GetCode(frame) : NULL;
    PyObject *bytes = code != NULL ? PyCode_GetCode(code) : NULL;
    int at = frame != NULL ? PyFrame_GetLasti(frame) : -1;
    bool is = bytes != NULL && at >= 0 && at < PyBytes_GET_SIZE(bytes) &&
              (unsigned char)PyBytes_AS_STRING(bytes)[at] == BINARY_OP;
    PyErr_Clear();
    Py_XDECREF(bytes), Py_XDECREF(code), Py_XDECREF(frame);
    return is;
}

static bool are_operands(PyObject *a, PyObject *b)
{
    enum { DEPTH = 64 };
    PyThreadState *t = PyThreadState_Get();
    PyObject **top = t->datastack_top, **first = top;
    if (t->datastack_chunk == NULL || top == NULL || !is_at_operator(t)) {
        return false;
    }
    bool are = false;
    for (int k = 0; !are && k < DEPTH && first - 2 >= &t->datastack_chunk->data[0]; k++) {
        first--;
        are = first[-1] == a && first[0] == b;
    }
    return are;
}
#endif

PyArrayObject *npa_written_over(PyObject *a, PyObject *b, npa_overwriting how)
{
#if PY_VERSION_HEX < 0x030E0000
    PyArrayObject *x = (PyArrayObject *)a, *y = (PyArrayObject *)b;
    bool may = how != NPA_NEITHER && (Py_REFCNT(a) == 1 || Py_REFCNT(b) == 1);
    int ndim = may && PyArray_Check(a) && PyArray_Check(b) ? PyArray_NDIM(x) : 0;
    if (ndim < 2 || PyArray_NDIM(y) != ndim || npa_here != NULL ||
        memcmp(PyArray_STRIDES(x), PyArray_STRIDES(y), sizeof(npy_intp) * (size_t)ndim) == 0 ||
        !PyArray_CompareLists(PyArray_DIMS(x), PyArray_DIMS(y), ndim)) {
        return NULL;
    }
    /* Others of these would have another type than the operand. */
    int least = how == NPA_FIRST_INEXACT ? NPY_FLOAT : how == NPA_FIRST ? NPY_BYTE : NPY_BOOL;
    bool fits = PyArray_TYPE(x) >= least;
    PyArrayObject *over = fits && is_temporary_for(a, y)                ? x
                          : how == NPA_EITHER && is_temporary_for(b, x) ? y : NULL;
    return over != NULL && are_operands(a, b) ? over : NULL;
#else
    (void)a, (void)b, (void)how;
    return NULL;
#endif
}
