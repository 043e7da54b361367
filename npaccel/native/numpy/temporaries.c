/* temporaries.c: an array that nobody holds but the interpreter's stack, as of ((a - b)**2).mean(),
 * dies with the call that it is given to. Where the call looks at its values once, and they wait,
 * they need not be stored: its memory is given back before it has any.
 *
 * Up to Python 3.13 the caller of a C function from bytecode passes arguments where they lie on its
 * stack, behind what is called, each with a reference of its own. Whoever else calls passes them
 * from elsewhere, and may use them afterwards, or passes a bound method's array in a place in front
 * of them that has no reference. A generator's stack lies elsewhere, too.
 * Who traces or profiles is shown the frames of NumPy's Python, and may keep what these hold; who
 * asks sys.monitoring is also shown what a C function was called with when it has returned.
 *
 * Python 3.14 passes copies, and its stack borrows some of what it holds from local variables: an
 * array that has a name may have one reference while it is an argument. But there the frame says
 * how much of its stack is in use, and each place on it whether the reference is its own.
 * PyUnstable_Object_IsUniqueReferencedTemporary says that of any place, so also while C code that
 * was given the array calls us, which may use it afterwards: here it is asked which place, and what
 * is called. Of that only internal headers know; other versions may have it otherwise.
 *
 * NumPy's operators write their result over such an operand where it is large. That shows in the
 * memory order of a result whose operands lie in unlike ones: there ours do the same, where the
 * frame at hand is at an operator and its stack has these operands side by side. C code has
 * operands elsewhere, and may use them afterwards. Up to Python 3.13 nothing says how much of the
 * stack is in use, and what was on it earlier may be side by side as well: so it is also asked, as
 * NumPy does, whether the interpreter has called the operator.
 */
#include "numpy/numpy.h"

#include <opcode.h>
#include <string.h>

#if PY_VERSION_HEX < 0x030E0000
#define STACK_HOLDS_ALL
#elif PY_VERSION_HEX < 0x030F0000 && !defined(Py_GIL_DISABLED) &&                                 \
    __has_include(<internal/pycore_interpframe_structs.h>)
#define STACK_IS_TOLD
#define Py_BUILD_CORE
#include <internal/pycore_debug_offsets.h>
#include <internal/pycore_interpframe_structs.h>
#endif

NPA_PER_THREAD PyArrayObject *npa_last_use;

#if PY_VERSION_HEX >= 0x030C0000
/* Whether somebody uses sys.monitoring, by one of its numbers. */
static bool is_monitored(void)
{
    enum { TOOLS = 6 };
    static PyObject *get_tool;
    PyObject *monitoring = get_tool == NULL ? PySys_GetObject("monitoring") : NULL; /* borrowed */
    if (monitoring != NULL) {
        get_tool = PyObject_GetAttrString(monitoring, "get_tool");
    }
    bool is = get_tool == NULL;
    for (long k = 0; !is && k < TOOLS; k++) {
        PyObject *number = PyLong_FromLong(k);
        PyObject *name = number != NULL ? PyObject_CallOneArg(get_tool, number) : NULL;
        is = name != Py_None;
        Py_XDECREF(number), Py_XDECREF(name);
    }
    PyErr_Clear();
    return is;
}
#else
static bool is_monitored(void) { return false; }
#endif

/* Whether somebody may be shown what a call is given. */
static bool is_watched(const PyThreadState *t)
{
    return t->c_tracefunc != NULL || t->c_profilefunc != NULL || is_monitored();
}

#ifdef STACK_IS_TOLD
/* The frame at hand, if it lies in memory as here and runs bytecode; else NULL. */
static const struct _PyInterpreterFrame *frame_here(const PyThreadState *t)
{
    extern struct pyruntimestate _PyRuntime; /* begins with what it says to debuggers */
    const _Py_DebugOffsets *at = (const _Py_DebugOffsets *)&_PyRuntime;
    bool known = at->interpreter_frame.stackpointer ==
                     offsetof(struct _PyInterpreterFrame, stackpointer) &&
                 at->interpreter_frame.instr_ptr ==
                     offsetof(struct _PyInterpreterFrame, instr_ptr) &&
                 at->interpreter_frame.owner == offsetof(struct _PyInterpreterFrame, owner);
    const struct _PyInterpreterFrame *frame = known ? t->current_frame : NULL;
    return frame != NULL && frame->owner <= FRAME_OWNED_BY_GENERATOR ? frame : NULL;
}

/* What is at this place; the last bit says that it is borrowed. */
static bool is_at(const _PyStackRef *place, const void *object)
{
    return (place->bits & ~(uintptr_t)1) == (uintptr_t)object;
}

static bool is_held_at(const _PyStackRef *place, const void *object)
{
    return place->bits == (uintptr_t)object;
}
#endif

/* Whether this thread's stack has the arguments, as many with names as there are names, behind
 * `called`, and the first of them is held there. */
static bool is_on_stack(PyObject *const *args, Py_ssize_t n, PyObject *names, PyObject *called)
{
    const PyThreadState *t = PyThreadState_Get();
#ifdef STACK_HOLDS_ALL
    /* Newer versions have an empty place between a function and its arguments. */
    enum { BEHIND = 2 };
    (void)n, (void)names;
    bool inside = t->datastack_chunk != NULL &&
                  (uintptr_t)(args - BEHIND) >= (uintptr_t)t->datastack_chunk->data &&
                  (uintptr_t)args < (uintptr_t)t->datastack_top;
    return inside && (args[-1] == called || (args[-1] == NULL && args[-2] == called)) &&
           !is_watched(t);
#elif defined(STACK_IS_TOLD)
    /* What is called, what it is a method of or nothing, arguments, their names. */
    const struct _PyInterpreterFrame *frame = frame_here(t);
    Py_ssize_t given = frame != NULL ? frame->instr_ptr->op.arg : 0, all = n;
    all += names != NULL ? PyTuple_GET_SIZE(names) : 0;
    if (frame == NULL || (all != given && all != given + 1)) {
        return false;
    }
    const _PyStackRef *first = frame->stackpointer - (names != NULL) - given;
    return (is_at(first - 2, called) || is_at(first - 1, called)) &&
           is_held_at(first - (all - given), args[0]) && !is_watched(t);
#else
    (void)t, (void)args, (void)n, (void)names, (void)called;
    return false;
#endif
}

PyArrayObject *npa_begin_last_use(PyObject *const *args, Py_ssize_t n, PyObject *names,
                                  PyObject *called)
{
    PyArrayObject *before = npa_last_use;
    bool any = n > 0 || (names != NULL && PyTuple_GET_SIZE(names) > 0);
    if (any && Py_REFCNT(args[0]) == 1 && PyArray_Check(args[0]) &&
        is_on_stack(args, n, names, called)) {
        npa_last_use = (PyArrayObject *)args[0];
    }
    return before;
}

void npa_end_last_use(PyArrayObject *a)
{
    if (a == npa_last_use && npa_give_memory_back(a)) {
        npa_last_use = NULL;
    }
}

/* As NumPy's temp_elide.c: whether an operator may write over `a`, for another operand of this type
 * and of its shape. */
static bool is_temporary_for(PyObject *a, int type)
{
    enum { LEAST_BYTES = 1 << 18 };
    PyArrayObject *over = (PyArrayObject *)a;
    enum { FLAGS = NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE };
    return Py_REFCNT(a) == 1 && (Py_IS_TYPE(a, npa_array_type) || PyArray_CheckExact(a)) &&
           PyArray_ISNUMBER(over) && (PyArray_FLAGS(over) & FLAGS) == FLAGS &&
           PyArray_NBYTES(over) >= LEAST_BYTES && PyArray_CanCastSafely(type, PyArray_TYPE(over));
}

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

/* Whether they are the operands of bytecode's operator, and the stack holds `over`. */
static bool are_operands(PyObject *a, PyObject *b, PyArrayObject *over)
{
    PyThreadState *t = PyThreadState_Get();
#ifdef STACK_HOLDS_ALL
    enum { DEPTH = 64 };
    PyObject **top = t->datastack_top, **first = top;
    if (t->datastack_chunk == NULL || top == NULL || !is_at_operator(t)) {
        return false;
    }
    bool are = false;
    for (int k = 0; !are && k < DEPTH && first - 2 >= &t->datastack_chunk->data[0]; k++) {
        first--;
        are = first[-1] == a && first[0] == b;
    }
    (void)over;
    return are && npa_called_from("_PyEval_EvalFrameDefault", (void (*)(void))PyNumber_Add);
#elif defined(STACK_IS_TOLD)
    const struct _PyInterpreterFrame *frame = frame_here(t);
    const _PyStackRef *end = frame != NULL ? frame->stackpointer : NULL;
    return end != NULL && is_at(end - 2, a) && is_at(end - 1, b) &&
           is_held_at((PyObject *)over == a ? end - 2 : end - 1, over) && is_at_operator(t);
#else
    (void)t, (void)a, (void)b, (void)over, (void)is_at_operator;
    return false;
#endif
}

PyArrayObject *npa_written_over(PyObject *a, PyObject *b, npa_overwriting how)
{
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
    PyArrayObject *over = fits && is_temporary_for(a, PyArray_TYPE(y))                ? x
                          : how == NPA_EITHER && is_temporary_for(b, PyArray_TYPE(x)) ? y : NULL;
    bool ours = over != NULL && Py_IS_TYPE((PyObject *)over, npa_array_type);
    return ours && are_operands(a, b, over) ? over : NULL;
}

bool npa_takes_second_first(PyObject *a, PyObject *b)
{
    PyArrayObject *x = PyArray_Check(a) ? (PyArrayObject *)a : NULL, *y = (PyArrayObject *)b;
    if (Py_REFCNT(b) != 1 || !PyArray_Check(b) || !PyArray_ISCOMPLEX(y) || npa_here != NULL ||
        !(x != NULL ? PyArray_ISCOMPLEX(x) : PyComplex_CheckExact(a))) {
        return false;
    }
    if (x != NULL && PyArray_NDIM(x) != 0 &&
        (!PyArray_SAMESHAPE(x, y) || is_temporary_for(a, PyArray_TYPE(y)))) {
        return false;
    }
    int type = x != NULL ? PyArray_TYPE(x) : NPY_CDOUBLE;
    return is_temporary_for(b, type) && are_operands(a, b, y);
}
