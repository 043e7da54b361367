/* module.h: functions of the module, which other files define. See module.c. */
#ifndef NPA_MODULE_H
#define NPA_MODULE_H

#include "numpy/numpy.h"

/* ---------------------------------------------------------------------------------- recorders.c */

PyObject *npa_py_map(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *npa_py_reduce(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *npa_py_scan(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *npa_product_py(PyObject *module, PyObject *const *args, Py_ssize_t n); /* own.c */
PyObject *npa_py_iota(PyObject *self, PyObject *args);
PyObject *npa_py_gather(PyObject *self, PyObject *args);
PyObject *npa_py_index_bounds(PyObject *self, PyObject *args);
PyObject *npa_py_empty(PyObject *self, PyObject *args);
PyObject *npa_py_empty_like(PyObject *self, PyObject *args);
PyObject *npa_py_copy(PyObject *self, PyObject *args);
PyObject *npa_py_wrap(PyObject *self, PyObject *o);
PyObject *npa_py_view_plain(PyObject *self, PyObject *o);
PyObject *npa_py_plain(PyObject *self, PyObject *o);
PyObject *npa_py_number(PyObject *self, PyObject *o);
PyObject *npa_py_touch(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *npa_py_wants(PyObject *self, PyObject *const *args, Py_ssize_t n);
PyObject *npa_py_is_pending(PyObject *self, PyObject *o);
PyObject *npa_py_evaluate(PyObject *self, PyObject *nothing);
PyObject *npa_py_may_warn(PyObject *self, PyObject *without_scope);
PyObject *npa_py_give_scope(PyObject *self, PyObject *scope);
PyObject *npa_py_plans(PyObject *self, PyObject *nothing);
PyObject *npa_py_history(PyObject *self, PyObject *serial);
/* The number of the flush that computed an array, or that is to come; None: not ours. */
PyObject *npa_py_serial(PyObject *self, PyObject *o);

#endif
