/* views.c: functions of NumPy's Python that make views of one array, or ask what it is like
 * (np.transpose, np.split, np.shape). Of a large array of ours their code is called at once: to ask
 * each class what it has to say takes as long again. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"

/* Whether no class has a say in it: numbers, words, dtypes, and arrays without one. */
static bool has_no_say(PyObject *o)
{
    return ours(o) || plain(o) || o == Py_None || PyBool_Check(o) || PyLong_CheckExact(o) ||
           PyFloat_CheckExact(o) || PyUnicode_CheckExact(o) || PyType_CheckExact(o) ||
           PyArray_DescrCheck(o);
}

/* The same, or a few of them. */
static bool have_no_say(PyObject *o)
{
    enum { MOST = 8 };
    bool several = npa_is_listed(o), good = true;
    if (!several) {
        return has_no_say(o);
    }
    for (Py_ssize_t i = 0; good && i < Py_SIZE(o); i++) {
        good = i < MOST && has_no_say(PySequence_Fast_ITEMS(o)[i]);
    }
    return good;
}

PyObject *npa_view_stub(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names)
{
    const whole *w = &npa_wholes[*npa_whole_place(self) - 1];
    Py_ssize_t n = PyVectorcall_NARGS(nargs),
               all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0);
    bool at_once = n > 0 && ours(args[0]) && large(args[0]);
    for (Py_ssize_t k = 1; at_once && k < all; k++) {
        at_once = have_no_say(args[k]);
    }
    return at_once ? PyObject_Vectorcall(w->code, args, nargs, names)
                   : w->original(self, args, nargs, names);
}
