/* folds.c: ufunc.reduce, recorded with no Python of ours in between. What is unusual in a call, and
 * each combination's first meeting, is the hook's. */
#include "run/fold.h"
#include "numpy/redirect.h"
#include "small/ways.h"

int npa_folds_init(void)
{
    PyObject *globals = PyImport_ImportModule("numpy._globals");
    npa_no_value = globals != NULL ? PyObject_GetAttrString(globals, "_NoValue") : NULL;
    Py_XDECREF(globals);
    return npa_no_value != NULL ? 0 : -1;
}

/* What follows the array in ufunc.reduce. */
enum { AXIS, DTYPE, OUT, KEEPDIMS, INITIAL, WHERE, REST };
enum { MOST_GIVEN = 16 };
static const char *const names_of[REST] = {"axis", "dtype", "out", "keepdims", "initial", "where"};

static bool add_axis(PyObject *axis, int ndim, uint32_t *axes)
{
    int overflow = 0;
    long k = PyLong_CheckExact(axis) ? PyLong_AsLongAndOverflow(axis, &overflow) : ndim;
    k += k < 0 ? ndim : 0;
    if (overflow || k < 0 || k >= ndim || (*axes >> k & 1)) {
        return false;
    }
    *axes |= 1u << k;
    return true;
}

static bool read_axes(PyObject *axis, int ndim, uint32_t *axes)
{
    *axes = axis == NULL ? 1 : 0;
    if (axis == Py_None) {
        *axes = (1u << ndim) - 1;
    } else if (axis != NULL && PyTuple_CheckExact(axis)) {
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(axis); k++) {
            if (!add_axis(PyTuple_GET_ITEM(axis, k), ndim, axes)) {
                return false;
            }
        }
    } else if (axis != NULL) {
        return add_axis(axis, ndim, axes);
    }
    return *axes != 0;
}

int npa_type_asked(PyObject *dtype)
{
    if (dtype == NULL || dtype == Py_None) {
        return 0;
    }
    if (!PyArray_DescrCheck(dtype)) { /* np.any and np.all ask for bool */
        int type = npa_small_type_named(dtype);
        return type >= 0 ? type + 1 : -1;
    }
    const PyArray_Descr *d = (const PyArray_Descr *)dtype;
    return npa_dtype_known(d) ? d->type_num + 1 : -1;
}

int npa_may_wait(void)
{
    int state = npa_here == NULL ? npa_errstate() : -1;
    return state < -1 ? -1 : state >= 0;
}

/* The kinds of floating-point errors that an errstate wants to know of. */
static int asked_kinds(int state)
{
    int asked = 0;
    for (int i = 0; i < 4; i++) {
        asked |= state >> (2 * i) & 3 ? 1 << i : 0;
    }
    return asked;
}

/* An array for the result. */
static PyArrayObject *new_folded(npa_rule *rule, PyArrayObject *a, uint32_t axes, bool keepdims)
{
    npy_intp kept[NPA_MAX_DIMS], strides[NPA_MAX_DIMS];
    int nkept = npa_reduced_shape(rule, a, NULL, axes, keepdims, kept, strides);
    Py_INCREF(rule->result[0]);
    return (PyArrayObject *)PyArray_NewFromDescr(&PyArray_Type, rule->result[0], nkept, kept,
                                                 strides, NULL, 0, NULL);
}

/* The result of a brief one, computed here and now: a scalar, or a plain array. NULL without error:
 * it may warn, or is not for here. */
static PyObject *fold_now(npa_rule *rule, PyArrayObject *a, uint32_t axes, bool keepdims)
{
    int64_t shape[NPA_MAX_DIMS], in[NPA_MAX_DIMS], out[NPA_MAX_DIMS];
    int ndim = PyArray_NDIM(a), state = npa_errstate_of(rule);
    PyArrayObject *made;
    npa_opened o = {.at = {PyArray_BYTES(a)}};
    if (state < 0 || npa_check_mode || npa_copies_exist() || PyArray_SIZE(a) == 0 ||
        (made = new_folded(rule, a, axes, keepdims)) == NULL) {
        return NULL;
    }
    if (npa_buffer_of(a) != NULL && npa_open(&o, &a, 1, 0) < 0) {
        Py_DECREF(made);
        return NULL;
    }
    for (int i = 0, k = 0; i < ndim; i++) {
        bool reduced = axes >> i & 1;
        shape[i] = PyArray_DIM(a, i), in[i] = PyArray_STRIDE(a, i);
        out[i] = reduced ? 0 : PyArray_STRIDE(made, k);
        k += keepdims || !reduced;
    }
    npa_folding of = {.rule = rule,
                      .ndim = ndim,
                      .in_type = npa_canonical(PyArray_TYPE(a)),
                      .out_type = npa_canonical(PyArray_TYPE(made)),
                      .axes = axes,
                      .shape = shape,
                      .in_step = in,
                      .out_step = out,
                      .in = o.at[0],
                      .out = PyArray_DATA(made)};
    PyThreadState *mine = PyEval_SaveThread();
    int kinds = npa_fold(&of);
    npa_close(&o); /* nobody waits for the GIL with the lock */
    PyEval_RestoreThread(mine);
    if (kinds < 0 || (kinds & asked_kinds(state))) {
        Py_CLEAR(made); /* recorded, it says so at its line */
    }
    return made != NULL ? PyArray_Return(made) : NULL;
}

/* Whether it lies in one piece, or in rows that are short, or whose elements lie one behind or
 * before the other. */
static bool lies_in_rows(PyArrayObject *a)
{
    enum { LONG = 64 };
    int last = PyArray_NDIM(a) - 1;
    npy_intp step = PyArray_STRIDE(a, last), size = PyArray_ITEMSIZE(a);
    return PyArray_IS_C_CONTIGUOUS(a) || PyArray_IS_F_CONTIGUOUS(a) ||
           PyArray_DIM(a, last) < LONG || step == size || step == -size;
}

/* Whether all of an array that nothing waits for, and that needs no casts, is folded to one number:
 * nothing would be gained by recording that. Of what is ours none but what takes no long time, see
 * fold_now. */
static bool is_number(const npa_rule *rule, PyArrayObject *a, uint32_t axes, bool keepdims)
{
    enum { LONGEST = 32 << 20 };
    int type;
    npa_fold_arithmetic(rule, &type);
    return !keepdims && axes == (1u << PyArray_NDIM(a)) - 1 &&
           npa_canonical(PyArray_TYPE(a)) == type && lies_in_rows(a) &&
           npa_threshold_here() > 0 && !npa_waits(a) &&
           (npa_buffer_of(a) == NULL || PyArray_NBYTES(a) <= LONGEST);
}

/* Recorded; what is one number is computed, as NumPy's is a scalar. */
static int record_fold(npa_rule *rule, PyArrayObject *a, uint32_t axes, bool keepdims,
                       PyObject **result)
{
    int status = npa_record_reduce(rule, a, axes, keepdims, NULL, NULL, NULL, result);
    if (status > 0 && PyArray_NDIM((PyArrayObject *)*result) == 0) {
        PyArrayObject *made = (PyArrayObject *)*result;
        npa_end_last_use(a);
        *result = npa_number_of(made);
        Py_DECREF(made);
        return *result != NULL ? 1 : -1;
    }
    return status;
}

/* What is folded, and how; asked: as of asked_type. */
typedef struct { npa_value value; uint32_t axes; bool keepdims; int asked; } folded;

/* Whether it may be recorded, or would be, were this thread's section not one that stands aside. */
static bool counts(const npa_value *value)
{
    return (npa_stands_aside() && npa_section_block_wants(value, 1)) || npa_wants(value, 1);
}

/* Whether nothing but axis, dtype and keepdims is asked for, and that plainly. */
static bool is_usual(PyObject *const *rest)
{
    PyObject *keep = rest[KEEPDIMS];
    return (rest[OUT] == NULL || rest[OUT] == Py_None) &&
           (keep == NULL || keep == Py_True || keep == Py_False) &&
           (rest[INITIAL] == NULL || rest[INITIAL] == npa_no_value) &&
           (rest[WHERE] == NULL || rest[WHERE] == Py_True);
}

/* Whether ufunc.reduce(args...) is written as usual, of an array that may be recorded; perhaps with
 * an error. */
static bool read_call(PyObject *const *args, Py_ssize_t n, PyObject *names, folded *f)
{
    PyObject *rest[REST] = {NULL};
    if (n < 1 || !npa_classify(args[0], &f->value) || f->value.array == NULL ||
        !counts(&f->value) || !npa_array_known(f->value.array) ||
        !npa_read_call(args + 1, n - 1, names, names_of, REST, rest)) {
        return false;
    }
    int ndim = PyArray_NDIM(f->value.array);
    f->asked = npa_type_asked(rest[DTYPE]), f->keepdims = rest[KEEPDIMS] == Py_True;
    return ndim > 0 && f->asked >= 0 && is_usual(rest) && read_axes(rest[AXIS], ndim, &f->axes);
}

/* Whether the last bits of a fold by that rule are ours at this size. */
static bool is_ours(const npa_rule *rule, PyArrayObject *a)
{
    return rule->ordered && (size_t)PyArray_NBYTES(a) >= npa_ours_here();
}

int npa_fold_in_whole(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                      PyObject **result)
{
    folded f;
    const char *name = ((PyUFuncObject *)ufunc)->name;
    *result = NULL;
    if ((strcmp(name, "add") == 0 || strcmp(name, "multiply") == 0) && npa_threshold_here() > 0 &&
        read_call(args, n, names, &f)) {
        npa_rule *rule = npa_find_fold_rule(ufunc, f.value.type, f.asked);
        *result = rule != NULL && is_ours(rule, f.value.array)
                      ? fold_now(rule, f.value.array, f.axes, f.keepdims)
                      : NULL;
    }
    return *result != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

PyObject *npa_mean_of(PyObject *sum, npy_intp n)
{
    double value = PyFloat_AsDouble(sum) / (double)n;
    Py_DECREF(sum);
    return PyArray_Scalar(&value, npa_small_dtype(NPY_DOUBLE), NULL);
}

/* The sum or the mean of floats in our order, of all of it. NULL, perhaps without error: neither,
 * or it may warn. */
static PyObject *fold_in_order(npa_small_op op, PyArrayObject *a)
{
    PyObject *args[] = {(PyObject *)a, Py_None}, *result = NULL;
    bool mean = op == NPA_MEAN && PyArray_TYPE(a) == NPY_DOUBLE;
    PyObject *add = mean || op == NPA_SUM ? npa_small_folder(NPA_SUM) : NULL;
    if (add == NULL || npa_fold_in_whole(add, args, 2, NULL, &result) <= 0) {
        return NULL;
    }
    return mean ? npa_mean_of(result, PyArray_SIZE(a)) : result;
}

/* The fold of what shows the array; looked at where that is due. */
static PyObject *fold_shown(const npa_small_function *f, PyObject *numpys, PyObject *const *args,
                            Py_ssize_t n, PyObject *names)
{
    bool due = npa_suspended == 0 && npa_look_due();
    npa_stretch s = due ? npa_stretch_begin() : (npa_stretch){0};
    size_t bytes = (size_t)PyArray_NBYTES((PyArrayObject *)args[0]);
    PyObject *result = npa_small_function_call(f, args, n, names);
    if (result == NULL && !PyErr_Occurred()) {
        npa_suspended++;
        result = PyObject_Vectorcall(numpys, args, (size_t)n, names);
        npa_suspended--;
    }
    if (due) {
        npa_stretch_end(&s, NPA_SMALL, bytes);
    }
    return npa_adopted(result);
}

PyObject *npa_fold_ours(const npa_small_function *f, PyObject *numpys, PyObject *const *args,
                        Py_ssize_t n, PyObject *names)
{
    PyArrayObject *a = n > 0 && ours(args[0]) ? (PyArrayObject *)args[0] : NULL;
    npa_value value = {.array = a};
    PyObject *given[MOST_GIVEN];
    Py_ssize_t all = n + (names != NULL ? PyTuple_GET_SIZE(names) : 0), out_place;
    if (a == NULL || !npa_small_folds_once(f) || npa_in_section() || npa_check_mode ||
        npa_copies_exist() || all > MOST_GIVEN || npa_waits(a)) {
        return NULL;
    }
    npa_small_op op = npa_small_fold_of(f, &out_place);
    PyObject *ufunc = npa_small_folder(op);
    if (ufunc == NULL) {
        return NULL;
    }
    const char *name = ((PyUFuncObject *)ufunc)->name;
    if (npa_wants(&value, 1) && !npa_fold_is_brief(name, args, n, names, out_place, false)) {
        return NULL;
    }
    if (npa_fold_is_ours(name, a)) {
        return all == 1 ? fold_in_order(op, a) : NULL;
    }
    PyObject *extreme = all == 1 ? npa_hidden_extreme(ufunc, a) : NULL;
    if (extreme != NULL || PyErr_Occurred()) {
        return extreme;
    }
    for (Py_ssize_t k = 1; k < all; k++) {
        if (PyArray_Check(args[k])) {
            return NULL; /* `out`, or `where` */
        }
        given[k] = args[k];
    }
    given[0] = npa_touch(a, false) == 0 ? npa_exact_view(a) : NULL;
    PyObject *result = given[0] != NULL ? fold_shown(f, numpys, given, n, names) : NULL;
    Py_XDECREF(given[0]);
    return result;
}

/* In a section that stands aside: in our order, as when it is recorded. NULL, perhaps without
 * error: it is recorded, and so is all that follows. */
static PyObject *fold_aside(PyObject *ufunc, const folded *f)
{
    npa_suspended++;
    npa_rule *rule = npa_find_fold_rule(ufunc, f->value.type, f->asked);
    npa_suspended--;
    PyObject *made = rule != NULL && rule->ordered
                         ? fold_now(rule, f->value.array, f->axes, f->keepdims) : NULL;
    if (made != NULL && PyArray_Check(made)) {
        Py_SETREF(made, PyArray_View((PyArrayObject *)made, NULL, npa_array_type));
    }
    if (made == NULL && !PyErr_Occurred()) {
        npa_aside_end();
    }
    return made;
}

/* ---------------------------------------------------------------------------- folds of lists */

/* Whether u.reduce of such arrays is u of one after the other, in type, bits and warnings. */
static bool is_repeated(const char *name, PyArrayObject *a)
{
    static const char *const any[] = {"maximum", "minimum", "fmax", "fmin", "bitwise_and",
                                      "bitwise_or", "bitwise_xor"};
    if (strcmp(name, "logical_and") == 0 || strcmp(name, "logical_or") == 0) {
        return PyArray_ISBOOL(a);
    }
    if (strcmp(name, "add") == 0 || strcmp(name, "multiply") == 0) { /* narrower ones are cast */
        return PyArray_ISINTEGER(a) && PyArray_ITEMSIZE(a) == sizeof(npy_int64);
    }
    size_t k = 0;
    while (k < sizeof any / sizeof *any && strcmp(name, any[k]) != 0) {
        k++;
    }
    return k < sizeof any / sizeof *any && npa_type_known(PyArray_TYPE(a));
}

/* Whether these are large arrays of one shape and type, of no class with a say of its own, over
 * which a ufunc's result lies in C order, as one over NumPy's copy does. */
static bool are_alike(PyObject *const *items, Py_ssize_t n)
{
    PyArrayObject *first = (PyArrayObject *)items[0];
    for (Py_ssize_t k = 0; k < n; k++) {
        PyArrayObject *a = (PyArrayObject *)items[k];
        if (!(plain(items[k]) || ours(items[k])) || !large(items[k]) || !npa_in_c_order(a) ||
            !PyArray_SAMESHAPE(a, first) || !PyArray_ISNOTSWAPPED(a) ||
            !npa_same_dtype(PyArray_DESCR(a), PyArray_DESCR(first))) {
            return false;
        }
    }
    return true;
}

/* What follows the list in the call is as usual, and the axis is that of the list. */
static bool along_the_list(PyObject *const *args, Py_ssize_t n, PyObject *names, bool truths)
{
    PyObject *rest[REST] = {NULL}, *axis, *dtype;
    if (!npa_read_call(args + 1, n - 1, names, names_of, REST, rest)) {
        return false;
    }
    axis = rest[AXIS], dtype = rest[DTYPE];
    return (axis == NULL || (PyLong_CheckExact(axis) && Py_SIZE(axis) == 0)) &&
           (dtype == NULL || dtype == Py_None || (truths && dtype == (PyObject *)&PyBool_Type)) &&
           is_usual(rest) && rest[KEEPDIMS] != Py_True;
}

/* ufunc.reduce([a, b, c]) of large arrays as u(u(a, b), c), where these are the steps that NumPy
 * takes on a copy of them all. As npa_fold_call. */
static int fold_list(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                     PyObject **result)
{
    enum { MOST = 64 };
    Py_ssize_t count = Py_SIZE(args[0]);
    if (count < 2 || count > MOST) {
        return 0;
    }
    const char *name = ((PyUFuncObject *)ufunc)->name;
    PyObject **items = PySequence_Fast_ITEMS(args[0]), *kept[MOST];
    npa_exactness how = npa_exactness_of((PyUFuncObject *)ufunc);
    bool numpys = how == NPA_EXACT || how == NPA_EXACT_IF_REAL; /* not another's of that name */
    if (!numpys || !are_alike(items, count) || !is_repeated(name, (PyArrayObject *)items[0]) ||
        !along_the_list(args, n, names, PyArray_ISBOOL((PyArrayObject *)items[0]))) {
        return 0;
    }
    for (Py_ssize_t k = 0; k < count; k++) { /* what is called may change the list */
        kept[k] = Py_NewRef(items[k]);
    }
    *result = Py_NewRef(kept[0]);
    for (Py_ssize_t k = 1; k < count && *result != NULL; k++) {
        PyObject *pair[] = {*result, kept[k]};
        Py_SETREF(*result, PyObject_Vectorcall(ufunc, pair, 2, NULL));
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        Py_DECREF(kept[k]);
    }
    return *result != NULL ? 1 : -1;
}

/* What Python would say of a fold that has no rule. 0: it is NumPy's. */
static int tell_product(const char *name, const folded *f)
{
    bool real = PyTypeNum_ISFLOAT(f->value.type), pairs = PyTypeNum_ISCOMPLEX(f->value.type);
    if (strcmp(name, "multiply") == 0 && (real || pairs) && f->asked == 0 &&
        npa_wants(&f->value, 1)) {
        npa_pass_because("products of floats keep NumPy's order");
    }
    return 0;
}

int npa_fold_call(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                  PyObject **result)
{
    folded f;
    if (n > 0 && npa_is_listed(args[0])) {
        return fold_list(ufunc, args, n, names, result);
    }
    if (!read_call(args, n, names, &f)) {
        return PyErr_Occurred() ? -1 : 0;
    }
    PyArrayObject *a = f.value.array;
    const char *name = ((PyUFuncObject *)ufunc)->name;
    bool numpys = f.asked == 0 && !npa_fold_is_ours(name, a);
    int status = npa_may_wait();
    if (npa_stands_aside() && status >= 0) {
        *result = fold_aside(ufunc, &f);
        if (*result != NULL || PyErr_Occurred()) {
            return *result != NULL ? 1 : -1;
        }
    }
    if (status > 0 && numpys && npa_fold_passes(ufunc, a, f.axes)) {
        return 2;
    }
    npa_suspended++;
    npa_rule *rule = status > 0 ? npa_find_fold_rule(ufunc, f.value.type, f.asked) : NULL;
    bool at_once = rule != NULL && rule->ordered &&
                   (is_number(rule, a, f.axes, f.keepdims) ||
                    npa_fold_is_brief(name, args, n, names, 3, true) ||
                    npa_contention_passes(&a, 1));
    npa_suspended--;
    if (rule == NULL) {
        return PyErr_Occurred() ? -1 : status > 0 ? tell_product(name, &f) : 0;
    }
    if (is_ours(rule, a) && (at_once || npa_fold_passes(ufunc, a, f.axes))) {
        *result = fold_now(rule, a, f.axes, f.keepdims);
        if (*result != NULL || PyErr_Occurred()) {
            return *result != NULL ? 1 : -1;
        }
    }
    npa_suspended++;
    status = record_fold(rule, a, f.axes, f.keepdims, result);
    npa_suspended--;
    return status;
}

int npa_fold_hidden(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
                    PyObject **result)
{
    folded f;
    bool all = read_call(args, n, names, &f) && f.asked == 0 && !f.keepdims &&
               f.axes == (1u << PyArray_NDIM(f.value.array)) - 1;
    *result = all ? npa_hidden_extreme(ufunc, f.value.array) : NULL;
    return *result != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
}

int npa_reduce(PyObject *ufunc, PyObject *const *args, Py_ssize_t n, PyObject *names,
               PyObject **result)
{
    int status = npa_fold_call(ufunc, args, n, names, result);
    if (status > 1) {
        PyObject *method = PyObject_GetAttrString(ufunc, "reduce");
        status = method != NULL
                     ? npa_direct_call(method, args, n, names, 0, NPA_ANY_SIZE, true, result) : -1;
        Py_XDECREF(method);
    }
    return status;
}
