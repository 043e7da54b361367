/* temporaries.c: an array that nobody holds but the interpreter's stack, as of ((a - b)**2).mean(),
 * dies with the call that it is given to. Where the call looks at its values once, and they wait,
 * they need not be stored: its memory is given back before it has any.
 *
 * The caller of a C function from bytecode passes arguments where they lie on its stack, behind
 * what is called, each with a reference of its own (up to Python 3.13; 3.14 borrows some). Whoever
 * else calls passes them from elsewhere, and may use them afterwards, or passes a bound method's
 * array in a place in front of them that has no reference. A generator's stack lies elsewhere, too.
 * Who traces or profiles is shown the frames of NumPy's Python, and may keep what these hold.
 */
#include "numpy/numpy.h"

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
