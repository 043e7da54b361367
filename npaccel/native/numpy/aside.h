/* aside.h: operations in a macro section that stands aside. Their results are arrays of ours, with
 * the bits that they have when they are recorded. */
#ifndef NPA_ASIDE_H
#define NPA_ASIDE_H

#include "numpy/numpy.h"

/* Of these, true or 1: done, *result is new, or NULL with an error; false or 0: it is recorded, and
 * so is all that follows; or no array counts in such a section. */

/* u(*args), of as many arguments as it takes, and perhaps an output. */
bool npa_aside_ufunc(PyUFuncObject *u, npa_exactness how, const npa_value *values,
                     PyObject *const *args, int n, PyObject **result);
/* args[0] op= args[1]; where both overlap the result is made first. */
bool npa_aside_in_place(PyUFuncObject *u, npa_exactness how, const npa_value *values,
                        PyObject *const *args, PyObject **result);
/* One of NumPy's functions or methods. -1: an error */
int npa_aside_function(const npa_small_function *f, PyObject *const *args, Py_ssize_t n,
                       PyObject *names, PyObject **result);
const npa_small_function *npa_aside_find(PyObject *function);      /* or NULL */
const npa_small_function *npa_aside_find_method(PyObject *method); /* of ndarray's; or NULL */

#endif
