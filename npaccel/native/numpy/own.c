/* own.c: which redirected functions and methods are done here as NumPy does them, but faster. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"

#include <string.h>

static int number_of_ufunc(PyObject *ufunc)
{
    int i = 0;
    while (i < npa_nufuncs && (PyObject *)npa_ufuncs[i] != ufunc) {
        i++;
    }
    return i;
}

static PyObject *reduce_stretches(void *what, PyObject *ufunc, PyObject *const *args, Py_ssize_t n,
                                  PyObject *names)
{
    (void)what;
    int i = number_of_ufunc(ufunc);
    return i < npa_nufuncs ? npa_reduceat(npa_ufuncs[i], npa_ufunc_exact[i], args, n, names) : NULL;
}

/* ufunc.at of rows, and of elements. */
static PyObject *scatter(void *what, PyObject *ufunc, PyObject *const *args, Py_ssize_t n,
                         PyObject *names)
{
    (void)what;
    int i = number_of_ufunc(ufunc);
    bool common = i < npa_nufuncs && n == 3 && names == NULL;
    int status = !common ? 0
                 : npa_at_rows(npa_ufuncs[i], npa_ufunc_exact[i], args)
                     ? 1
                     : npa_at_elements(npa_ufuncs[i], args);
    return status > 0 ? Py_NewRef(Py_None) : NULL;
}

/* What is done here as NumPy does it, but faster. unseen: what it reads need not be shown; records:
 * it is recorded, or makes something of ours; ours: of arrays of ours alone. */
static const struct { const char *name; npa_own *run; bool unseen, records, ours; } own[] = {
    {"empty", npa_make_empty, .records = true}, {"zeros", npa_make_zeros, .records = true},
    {"copyto", npa_copy_to, .records = true}, {"ndarray.fill", npa_fill_array, .records = true},
    {"ndarray.astype", npa_record_cast, .records = true},
    {"dot", npa_dot, true}, {"ndarray.dot", npa_dot, true}, {"inner", npa_inner, true},
    {"vdot", npa_vdot, true}, {"ufunc.at", scatter}, {"ufunc.reduceat", reduce_stretches},
    {"ndarray.put", npa_put_flat}, {"interp", npa_interp}, {"ndarray.searchsorted", npa_search},
    {"ndarray.sort", npa_sort}, {"ndarray.argsort", npa_argsort},
    {"lexsort", npa_lexsort},
    {"ndarray.partition", npa_partition_parts}, {"ndarray.argpartition", npa_argpartition_parts},
    {"bincount", npa_bincount}, {"ndarray.nonzero", npa_nonzero}, {"where", npa_where},
    {"correlate", npa_correlate}, {"correlate2", npa_correlate2},
    {"Generator.shuffle", npa_shuffle}, {"RandomState.shuffle", npa_shuffle},
    {"Generator.bytes", npa_random_bytes}, {"RandomState.bytes", npa_random_bytes},
    {"count_nonzero", npa_record_count, .records = true},
    {"ndarray.argmax", npa_argmax_behind, .ours = true},
    {"ndarray.argmin", npa_argmin_behind, .ours = true},
    {"ndarray.item", npa_item_behind, .ours = true},
    {"ndarray.tolist", npa_list_behind, .ours = true}};

npa_own *npa_own_of_unseen(const char *name)
{
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if ((own[i].unseen || own[i].records || own[i].ours) && strcmp(own[i].name, name) == 0) {
            return own[i].run;
        }
    }
    return NULL;
}

/* product(name, a, b) */
PyObject *npa_product_py(PyObject *module, PyObject *const *args, Py_ssize_t n)
{
    const char *name = n > 0 && PyUnicode_Check(args[0]) ? PyUnicode_AsUTF8(args[0]) : NULL;
    npa_own *run = name != NULL ? npa_own_of_unseen(name) : NULL;
    if (run == NULL) {
        PyErr_SetString(PyExc_TypeError, "product: the name of such a function is needed");
        return NULL;
    }
    PyObject *result = run(NULL, module, args + 1, n - 1, NULL);
    return result != NULL || PyErr_Occurred() ? result : Py_NewRef(Py_None);
}

void npa_find_own(target *t)
{
    const char *name = PyUnicode_AsUTF8(t->name);
    if (name == NULL) {
        PyErr_Clear();
        return;
    }
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        if (strcmp(name, own[i].name) == 0 && own[i].records) {
            t->record = own[i].run;
        } else if (strcmp(name, own[i].name) == 0 && !own[i].ours) {
            t->own = own[i].run, t->unseen = own[i].unseen;
        }
    }
    t->what = npa_draws_method(name);
    t->lone = -1;
    if (t->what != NULL) {
        t->own = npa_draws, t->lone = npa_draws_before_size(t->what);
    } else if (t->kind == (METH_FASTCALL | METH_KEYWORDS)) {
        t->what = (void *)(uintptr_t)t->original;
    }
}
