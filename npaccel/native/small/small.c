/* small.c: element-wise operations on small plain arrays, by NumPy's inner loops, without what its
 * ufuncs do around them. See Note [Small] at the end. */
#include "small/small.h"
#include "small/ways.h"

#include <fenv.h>
#include <string.h>

enum { WAYS = 1024, MOST_DIMS = NPA_SMALL_DIMS };
static npa_way ways[WAYS];
PyTypeObject *npa_small_class;

bool npa_is_number(int type)
{
    return type == NPY_BOOL || (type >= NPY_BYTE && type <= NPY_ULONG) || type == NPY_FLOAT ||
           type == NPY_DOUBLE || type == NPY_CFLOAT || type == NPY_CDOUBLE;
}

static bool chooses(const PyUFuncObject *u)
{
    return npa_is_pick(u->name) || strcmp(u->name, "clip") == 0;
}

/* The loop that NumPy takes where the types of all inputs are this one, if there is one for it. */
static void find_loop(npa_way *w, PyUFuncObject *u, int type, npa_exactness how)
{
    *w = (npa_way){.ufunc = u, .type = type};
    for (int i = 0; i < u->ntypes && npa_is_number(type); i++) {
        const char *row = u->types + (size_t)i * (size_t)u->nargs;
        int types[NPA_SMALL_IN + 1], k = 0;
        for (; k < u->nin && row[k] == type; k++) {
            types[k] = type;
        }
        types[k] = row[k];
        if (k == u->nin && npa_is_number(row[k]) && npa_find_loop(u, types, &w->loop, &w->data)) {
            PyUFuncGenericFunction numpys = w->loop;
            w->numpys_data = w->data;
            w->numpys = npa_find_dense_loop(u, types, &w->loop, &w->data) ? numpys : NULL;
            w->in = PyArray_DescrFromType(type), w->out = PyArray_DescrFromType(row[k]);
            w->in_size = PyDataType_ELSIZE(w->in), w->out_size = PyDataType_ELSIZE(w->out);
            w->exact = how == NPA_EXACT || (how == NPA_EXACT_IF_REAL && !PyTypeNum_ISCOMPLEX(type));
            w->chooses = chooses(u);
            return;
        }
    }
}

const npa_way *npa_find_way(PyUFuncObject *u, int type, npa_exactness how)
{
    size_t h = ((uintptr_t)u >> 4) * 31 + (size_t)type;
    npa_way *w = &ways[(h ^ h >> 10) % WAYS];
    if (w->ufunc != u || w->type != type) {
        find_loop(w, u, type, how);
    }
    return w;
}

/* The axes that operands broadcast to. False: NumPy's to do, or to complain about. */
static bool find_shape(npa_space *s, PyArrayObject *const *arrays, int n)
{
    s->ndim = 0, s->points = 1;
    for (int k = 0; k < n; k++) {
        s->ndim = arrays[k] != NULL && PyArray_NDIM(arrays[k]) > s->ndim ? PyArray_NDIM(arrays[k])
                                                                         : s->ndim;
    }
    if (s->ndim == 0 || s->ndim > MOST_DIMS) {
        return false;
    }
    for (int i = 0; i < s->ndim; i++) {
        s->shape[i] = 1;
    }
    for (int k = 0; k < n; k++) {
        PyArrayObject *a = arrays[k];
        int lead = a != NULL ? s->ndim - PyArray_NDIM(a) : s->ndim;
        for (int i = lead; i < s->ndim; i++) {
            npy_intp extent = PyArray_DIM(a, i - lead);
            if (extent != 1 && s->shape[i] != 1 && extent != s->shape[i]) {
                return false;
            }
            s->shape[i] = extent != 1 ? extent : s->shape[i];
        }
    }
    for (int i = 0; i < s->ndim; i++) {
        s->full[i] = s->shape[i];
        if (__builtin_mul_overflow(s->points, s->shape[i], &s->points)) {
            return false;
        }
    }
    s->nout = s->ndim, s->dims = s->full;
    return s->points > 0;
}

/* Whether all arrays lie element by element alike: the common case. */
static bool is_flat(npa_space *s, PyArrayObject *const *arrays, int n)
{
    PyArrayObject *first = NULL;
    for (int k = 0; k < n; k++) {
        PyArrayObject *a = arrays[k];
        if (a == NULL) {
            continue;
        }
        first = first != NULL ? first : a;
        if (!PyArray_IS_C_CONTIGUOUS(a) || PyArray_NDIM(a) != PyArray_NDIM(first)) {
            return false;
        }
        for (int i = 0; i < PyArray_NDIM(a); i++) {
            if (PyArray_DIM(a, i) != PyArray_DIM(first, i)) {
                return false;
            }
        }
    }
    s->ndim = 1, s->nout = PyArray_NDIM(first), s->dims = PyArray_DIMS(first), s->points = 1;
    for (int i = 0; i < s->nout; i++) {
        s->points *= s->dims[i];
    }
    s->shape[0] = s->points;
    return s->nout > 0 && s->points > 0;
}

/* Along each axis the operand's step. False: it does not lie in C order, so that of the result is
 * NumPy's to choose. */
bool npa_find_steps(npa_space *s, int k, PyArrayObject *a)
{
    int lead = s->ndim - PyArray_NDIM(a);
    npy_intp before = NPY_MAX_INTP;
    s->of[k].data = PyArray_DATA(a);
    for (int i = 0; i < s->ndim; i++) {
        bool moves = i >= lead && PyArray_DIM(a, i - lead) != 1;
        npy_intp step = moves ? PyArray_STRIDE(a, i - lead) : 0;
        s->of[k].steps[i] = step;
        if (moves) { /* else results have another order in memory */
            npy_intp by = step < 0 ? -step : step;
            if (by > before) {
                return false;
            }
            before = by;
        }
    }
    return true;
}

/* Neighbouring axes become one where all operands allow it. */
void npa_merge_axes(npa_space *s)
{
    int out = 0;
    for (int i = 1; i < s->ndim; i++) {
        bool one = true;
        for (int k = 0; k < s->nargs && one; k++) {
            one = s->of[k].steps[out] == s->of[k].steps[i] * s->shape[i];
        }
        if (s->shape[out] == 1 || s->shape[i] == 1 || one) {
            for (int k = 0; k < s->nargs; k++) {
                npy_intp *steps = s->of[k].steps;
                steps[out] = s->shape[i] == 1 ? steps[out] : steps[i];
            }
            s->shape[out] *= s->shape[i];
        } else {
            out++;
            s->shape[out] = s->shape[i];
            for (int k = 0; k < s->nargs; k++) {
                s->of[k].steps[out] = s->of[k].steps[i];
            }
        }
    }
    s->ndim = out + 1;
}

/* Row after row of the last axis but one; a loop may move its arguments. */
static inline void run_rows(const npa_way *w, const npa_space *s, char *const *args, int nargs)
{
    int last = s->ndim - 1;
    npy_intp steps[NPA_SMALL_IN + 1], rows = last > 0 ? s->shape[last - 1] : 1, n = s->shape[last];
    char *at[NPA_SMALL_IN + 1], *p[NPA_SMALL_IN + 1];
    for (int k = 0; k < nargs; k++) {
        at[k] = args[k], steps[k] = s->of[k].steps[last];
    }
    for (npy_intp row = 0; row < rows; row++) {
        npy_intp count = n;
        for (int k = 0; k < nargs; k++) {
            p[k] = at[k];
        }
        w->loop(p, &count, steps, w->data);
        for (int k = 0; k < nargs && last > 0; k++) {
            at[k] += s->of[k].steps[last - 1];
        }
    }
}

static void run(const npa_way *w, const npa_space *s)
{
    char *args[NPA_SMALL_IN + 1];
    npy_intp index[NPA_SMALL_DIMS] = {0};
    npa_space outer = {.ndim = s->ndim - 1, .nargs = s->nargs}; /* the axes before those */
    for (int k = 0; k < s->nargs; k++) {
        args[k] = s->of[k].data;
    }
    if (s->ndim <= 2) {
        s->nargs == 3 ? run_rows(w, s, args, 3) : run_rows(w, s, args, s->nargs);
        return;
    }
    memcpy(outer.shape, s->shape, sizeof outer.shape);
    memcpy(outer.of, s->of, sizeof outer.of);
    do {
        s->nargs == 3 ? run_rows(w, s, args, 3) : run_rows(w, s, args, s->nargs);
    } while (npa_next_row(&outer, index, args));
}

enum { KINDS = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID };

/* plain: none but vector units are at work, so the older one, which takes longer to ask, has
 * nothing to say. */
static inline int flags_raised(bool plain)
{
    return plain ? npa_vector_flags(KINDS) : fetestexcept(KINDS);
}

void npa_clear_errors(void)
{
    if (flags_raised(false)) {
        feclearexcept(FE_ALL_EXCEPT);
    }
}

int npa_flags_raised(void) { return flags_raised(false); }

bool npa_seen_errors(void)
{
    int flags = flags_raised(false), state;
    if (flags == 0) {
        return false;
    }
    feclearexcept(FE_ALL_EXCEPT);
    return flags != FE_UNDERFLOW || (state = npa_errstate()) < 0 || (state >> 4 & 3) != 0;
}

/* The way that tells of all that errstate asks for: this one, or that in `room`. With the GIL. */
static const npa_way *telling(const npa_way *w, const npa_space *s, npa_way *room)
{
    if (w->numpys == NULL || s->points < NPA_LEAST_DENSE || !npa_asks_underflow()) {
        return w;
    }
    *room = *w;
    room->loop = w->numpys, room->data = w->numpys_data;
    return room;
}

bool npa_run_quietly(const npa_way *w, const npa_space *s)
{
    npa_way room;
    w = telling(w, s, &room);
    npa_clear_errors();
    run(w, s);
    return !npa_seen_errors();
}

int npa_run_flags(const npa_way *w, const npa_space *s)
{
    run(w, s);
    return flags_raised(false);
}

int npa_tell_errors(PyUFuncObject *u, int flags)
{
    int told = (flags & FE_DIVBYZERO ? NPY_FPE_DIVIDEBYZERO : 0) |
               (flags & FE_OVERFLOW ? NPY_FPE_OVERFLOW : 0) |
               (flags & FE_UNDERFLOW ? NPY_FPE_UNDERFLOW : 0) |
               (flags & FE_INVALID ? NPY_FPE_INVALID : 0);
    if (told == 0) {
        return 0;
    }
    feclearexcept(FE_ALL_EXCEPT);
    return PyUFunc_GiveFloatingpointErrors(u->name, told) < 0 ? -1 : 0;
}

/* As NumPy calls a loop: with the processor's flags, and without the GIL where others may want it.
 * 0 or -1 */
static int call(const npa_way *w, const npa_space *s)
{
    npa_way room;
    w = telling(w, s, &room);
    bool plain = w->exact && (w->type == NPY_DOUBLE || w->type == NPY_FLOAT);
    npa_small_class = NULL;
    if (flags_raised(plain)) {
        feclearexcept(FE_ALL_EXCEPT);
    }
    PyThreadState *mine = npa_small_let_go(s->points);
    run(w, s);
    int flags = flags_raised(plain);
    if (mine != NULL) {
        PyEval_RestoreThread(mine);
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    return npa_tell_errors(w->ufunc, flags);
}

/* As `call`; some calls are looked at, which is told of the bytes. */
static inline int call_observed(const npa_way *w, const npa_space *s, size_t bytes)
{
    bool due = npa_suspended == 0 && npa_look_due();
    npa_stretch stretch = due ? npa_stretch_begin() : (npa_stretch){0};
    int status = call(w, s);
    if (due) {
        npa_stretch_end(&stretch, NPA_SMALL, bytes);
    }
    if (npa_profiling && status == 0) {
        npa_base_hooks.small();
    }
    return status;
}

PyArray_Descr *npa_small_dtype(int type)
{
    static PyArray_Descr *numpys[NPY_NTYPES_LEGACY];
    if (numpys[type] == NULL) {
        numpys[type] = PyArray_DescrFromType(type);
    }
    return numpys[type];
}

bool npa_small_type(PyArray_Descr *descr)
{
    int type = descr->type_num;
    return type >= 0 && type < NPY_NTYPES_LEGACY && npa_is_number(type) &&
           (descr == npa_small_dtype(type) || npa_is_usual_dtype(descr));
}

/* A whole number as such a one, or as a double that it is exactly. */
static inline bool take_whole(PyObject *o, int type, void *to)
{
    enum { BITS = 53 };
    int overflow = 0;
    if (type != NPY_DOUBLE && type != NPY_LONG) {
        return false;
    }
    long value = PyLong_AsLongAndOverflow(o, &overflow);
    double d = (double)value;
    if (overflow || (type == NPY_DOUBLE && (d > 1LL << BITS || d < -(1LL << BITS)))) {
        return false;
    }
    memcpy(to, type == NPY_DOUBLE ? (const void *)&d : &value,
           type == NPY_DOUBLE ? sizeof d : sizeof value);
    return true;
}

/* A scalar's value in a type; cast: also where it has another one of its own. */
static bool number(PyObject *o, int type, bool cast, void *to)
{
    if (PyFloat_CheckExact(o) && type == NPY_DOUBLE) {
        double d = PyFloat_AS_DOUBLE(o);
        memcpy(to, &d, sizeof d);
        return true;
    }
    if (PyLong_CheckExact(o) && take_whole(o, type, to)) {
        return true;
    }
    npa_value v;
    if (PyArray_IsScalar(o, LongLong) || PyArray_IsScalar(o, ULongLong)) {
        return false; /* the results' dtype would have another name */
    }
    return npa_classify(o, &v) && v.array == NULL && type != NPY_BOOL &&
           (v.type >= NPA_WEAK_INT || v.type == type || cast) && npa_scalar_value(&v, type, to) > 0;
}

bool npa_take_scalar(PyObject *o, int type, void *to) { return number(o, type, false, to); }

/* Whether no two elements share a place. It lies in C order. */
static bool is_spread(PyArrayObject *a)
{
    npy_intp reach = PyArray_ITEMSIZE(a);
    for (int i = PyArray_NDIM(a) - 1; i >= 0; i--) {
        if (PyArray_DIM(a, i) != 1) {
            if (PyArray_STRIDE(a, i) < reach) {
                return false;
            }
            reach += PyArray_STRIDE(a, i) * (PyArray_DIM(a, i) - 1);
        }
    }
    return true;
}

/* Whether the loop may write its result into an array that is given. What it reads of it is read
 * element by element before that is written. */
static bool is_target(const npa_way *w, const npa_space *s, PyArrayObject *out,
                      PyArrayObject *const *arrays, int nin)
{
    if (PyArray_NDIM(out) != s->nout ||
        (PyArray_FLAGS(out) & (NPY_ARRAY_WRITEABLE | NPA_WARN_ON_WRITE)) != NPY_ARRAY_WRITEABLE ||
        !PyArray_CompareLists(PyArray_DIMS(out), s->dims, s->nout) || !is_spread(out)) {
        return false;
    }
    for (int k = 0; k < nin; k++) {
        bool same = arrays[k] == out && w->out == w->in;
        if (arrays[k] != NULL && !same && !npa_apart(arrays[k], out)) {
            return false;
        }
    }
    return true;
}

/* The array that is given for the result behind the inputs. NULL: it is not one for us. */
static PyArrayObject *given_target(const npa_way *w, PyObject *given, PyArrayObject *first)
{
    PyArrayObject *out = (PyArrayObject *)given;
    bool known = out == first || (PyArray_CheckExact(given) && PyArray_ISALIGNED(out) &&
                                  npa_same_dtype(PyArray_DESCR(out), w->out) &&
                                  !(npa_q.nrequests > 0 && npa_is_pending(out)));
    return known ? out : NULL;
}

/* Whether NumPy hands it to its loop in one piece, as here: bits may hang on that. */
static bool goes_in_one(const npa_space *s, PyArrayObject *const *arrays)
{
    bool one = s->ndim == 1 && s->points > 1;
    for (int k = 0; k < s->nargs - 1; k++) {
        one &= arrays[k] == NULL || s->of[k].steps[0] > 0;
    }
    return one;
}

/* Whether an input goes back along an axis, which NumPy may turn round. */
static bool goes_back(const npa_space *s)
{
    bool any = false;
    for (int k = 0; k < s->nargs - 1; k++) {
        for (int i = 0; i < s->ndim; i++) {
            any |= s->of[k].steps[i] < 0;
        }
    }
    return any;
}

/* The loop is called for each row: where rows are short, the longest axis takes the place of the
 * last one. Of a thousand points in a quarter of the time. */
static void put_longest_last(npa_space *s)
{
    enum { SHORT = 8, TIMES = 4 };
    int last = s->ndim - 1, longest = last;
    for (int i = 0; i < last; i++) {
        longest = s->shape[i] > s->shape[longest] ? i : longest;
    }
    if (s->shape[last] >= SHORT || s->shape[longest] < TIMES * s->shape[last]) {
        return;
    }
    npy_intp length = s->shape[last];
    s->shape[last] = s->shape[longest], s->shape[longest] = length;
    for (int k = 0; k < s->nargs; k++) {
        npy_intp *steps = s->of[k].steps, step = steps[last];
        steps[last] = steps[longest], steps[longest] = step;
    }
}

/* The way of the inputs, of which `arrays` get those that are arrays; NULL: NumPy's to do. *mixed:
 * arrays have not one type. */
static inline const npa_way *way_of_inputs(PyUFuncObject *u, PyObject *const *args,
                                           npa_exactness how, PyTypeObject *ours,
                                           PyArrayObject **arrays, bool *mixed)
{
    const npa_way *w = NULL;
    int nin = u->nin;
    for (int k = 0; k < nin; k++) {
        if (npa_is_plain(args[k]) || Py_IS_TYPE(args[k], ours)) {
            arrays[k] = (PyArrayObject *)args[k];
            w = w != NULL ? w : npa_find_way(u, PyArray_TYPE(arrays[k]), how);
            if (!npa_is_simple(arrays[k], w)) {
                *mixed = true;
                return NULL;
            }
        }
    }
    return w != NULL && w->loop != NULL ? w : NULL;
}

/* Where the inputs lie. *mixed: a scalar does not fit the arrays' type. */
static inline bool place_inputs(npa_space *s, const npa_way *w, PyObject *const *args,
                                PyArrayObject *const *arrays, bool flat, bool cast, bool *mixed)
{
    int nin = s->nargs - 1;
    for (int k = 0; k < nin; k++) {
        if (arrays[k] == NULL) {
            if (!number(args[k], w->type, cast, s->scalars[k])) {
                *mixed = true;
                return false;
            }
            s->of[k].data = s->scalars[k];
            memset(s->of[k].steps, 0, sizeof *s->of[k].steps * (size_t)s->ndim);
        } else if (flat) {
            s->of[k].data = PyArray_DATA(arrays[k]), s->of[k].steps[0] = w->in_size;
        } else if (!npa_find_steps(s, k, arrays[k])) {
            return false;
        }
    }
    return true;
}

/* Where the result lies, and how the loop goes through all operands. */
static inline void place_output(npa_space *s, const npa_way *w, PyArrayObject *out, bool flat)
{
    int nin = s->nargs - 1;
    if (flat) {
        s->of[nin].data = PyArray_DATA(out), s->of[nin].steps[0] = w->out_size;
        return;
    }
    npa_find_steps(s, nin, out);
    npa_merge_axes(s);
    if (w->exact) {
        put_longest_last(s);
    }
}

PyObject *npa_small_attempt(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                            npa_exactness how, int flags, bool *mixed)
{
    npa_space s;
    PyArrayObject *arrays[NPA_SMALL_IN] = {NULL}, *out;
    int nin = u->nin;
    if (u->nout != 1 || nin > NPA_SMALL_IN || (n != nin && n != nin + 1) || npa_here != NULL) {
        return NULL;
    }
    PyTypeObject *ours = flags & NPA_TAKES_OURS ? npa_array_type : NULL;
    const npa_way *w = way_of_inputs(u, args, how, ours, arrays, mixed);
    if (w == NULL) {
        return NULL;
    }
    npa_way own = *w; /* another thread may have its place for another way */
    w = &own;
    s.nargs = nin + 1;
    out = n > nin ? given_target(w, args[nin], arrays[0]) : NULL;
    bool flat = is_flat(&s, arrays, nin) && (out == NULL || PyArray_IS_C_CONTIGUOUS(out));
    if ((n > nin && out == NULL) || (!flat && !find_shape(&s, arrays, nin))) {
        return NULL;
    }
    own.exact |= npa_is_exact_loop(own.loop, own.data, s.points);
    size_t widest = (size_t)(w->in_size > w->out_size ? w->in_size : w->out_size);
    size_t bytes = (size_t)s.points * widest;
    if ((out != NULL && !is_target(w, &s, out, arrays, nin)) ||
        !place_inputs(&s, w, args, arrays, flat, flags & NPA_CASTS, mixed) ||
        npa_small_exceeds(bytes)) {
        return NULL;
    }
    out = out != NULL ? (PyArrayObject *)Py_NewRef(out) : npa_small_new(w->out, s.nout, s.dims);
    if (out == NULL) {
        return NULL;
    }
    place_output(&s, w, out, flat);
    if ((!w->exact && !goes_in_one(&s, arrays)) || (w->chooses && goes_back(&s))) {
        Py_DECREF(out);
        return NULL;
    }
    if (call_observed(w, &s, bytes) < 0) {
        Py_CLEAR(out);
    }
    return (PyObject *)out;
}

PyObject *npa_small_call(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n, npa_exactness how)
{
    bool mixed = false;
    if (u->core_enabled) {
        bool known = u == npa_matmul && (n == 2 || (n == 3 && npa_small_is_target(args[2])));
        PyObject *made = known ? npa_small_matmul(args[0], args[1]) : NULL;
        return n == 3 ? npa_small_put_result(made, args[2]) : made;
    }
    PyObject *result = npa_small_attempt(u, args, n, how, 0, &mixed);
    return result == NULL && mixed && !PyErr_Occurred() ? npa_small_mixed(u, args, n, how)
                                                           : result;
}

PyObject *npa_small_call_ours(PyUFuncObject *u, PyObject *const *args, Py_ssize_t n,
                              npa_exactness how, bool makes)
{
    bool mixed = false;
    npa_small_class = makes ? npa_array_type : NULL;
    PyObject *result = npa_small_attempt(u, args, n, how, NPA_TAKES_OURS, &mixed);
    npa_small_class = NULL;
    return result;
}

/* Note [Small]
 *
 * Of the 0.4 microseconds that NumPy takes for `a + b` on ten doubles, a few nanoseconds are its
 * inner loop's: the rest finds the loop, asks operands' classes, broadcasts, makes the result,
 * looks at errstate. What follows does the same for the common case alone, and calls the same loop
 * on the same elements, so results have NumPy's bits, and are plain arrays: arrays of native
 * numbers that lie in C order, and numbers that fit them. Where their types differ, NumPy's rule
 * says which loop it takes, and they are converted first. All else is NumPy's: other orders,
 * overlaps, errors, arrays without elements. Nothing waits, nothing is recorded.
 *
 * Where a loop's bits may hang on how elements are handed to it (`exp`, `power`), only what NumPy
 * hands it in one piece is done here. */
