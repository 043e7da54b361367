/* redirect.c: NumPy's own callables, redirected at the object while a block is open (code_block.c).
 *
 *   ufuncs                       the object's vectorcall slot; operators on plain arrays come here
 *   C functions and methods      ml_meth of their method definitions
 *   some Python functions        the vectorcall slot of their dispatcher; they run as one, in
 *                                NumPy, or, on small arrays, without its code (small_functions.c)
 *   subscripts of plain arrays   ndarray's slots
 *   hashes of C functions        as they were, see function_hash
 *
 * Every reference to such an object is redirected with it, whenever it was taken. A stub asks first
 * whether any array in the call is large, then whether this code is in a block, and else calls what
 * was there before. What it takes goes to the recorder; what can't be recorded runs in NumPy and
 * is counted with its reason and its time. Which callables, and who takes them, is Python's table
 * (dispatch/redirect.py). Stubs are part of this library: a call that is in one when the last block
 * is left, or a class that inherited one, finds the original through it for ever. */
#include "numpy/numpy.h"
#include "numpy/redirect.h"
#include "native_docs.h"

#include <string.h>

target npa_targets[NPA_MOST_TARGETS];
static int ntargets;
PyUFuncObject *npa_ufuncs[NPA_MOST_UFUNCS];
static vectorcallfunc ufunc_originals[NPA_MOST_UFUNCS];
npa_exactness npa_ufunc_exact[NPA_MOST_UFUNCS];
int npa_nufuncs;
whole npa_wholes[NPA_MOST_WHOLE];
uint8_t npa_whole_places[4 * NPA_MOST_WHOLE]; /* 1 + the index of a function, by its address */
static int nwholes;
vectorcallfunc npa_numpys_ufunc_call; /* the one that they all have */
PyObject *npa_ufunc_taker;
bool npa_installed;

static hashfunc python_hash;

/* The hash of a C function is made of ml_meth: a dict that was made before must find it still. */
static Py_hash_t function_hash(PyObject *f)
{
    PyMethodDef *d = ((PyCFunctionObject *)f)->m_ml;
    for (int i = 0; i < ntargets; i++) {
        if (npa_targets[i].definition == d) {
            PyCFunction now = d->ml_meth;
            d->ml_meth = npa_targets[i].original;
            Py_hash_t hash = python_hash(f);
            d->ml_meth = now;
            return hash;
        }
    }
    return python_hash(f);
}

static vectorcallfunc stub_of(int ufunc)
{
    return npa_ufunc_exact[ufunc] == NPA_EXACT     ? npa_exact_ufunc_stub
           : npa_ufunc_exact[ufunc] == NPA_FOREIGN ? npa_foreign_ufunc_stub
           : npa_ufunc_exact[ufunc] == NPA_INEXACT ? npa_ufunc_stub
                                               : npa_real_ufunc_stub;
}

static vectorcallfunc stub_of_whole(const whole *w)
{
    return w->code != NULL ? npa_view_stub : npa_whole_stub;
}

void npa_redirect_install(void)
{
    for (int i = 0; i < ntargets; i++) {
        npa_targets[i].definition->ml_meth = npa_targets[i].stub;
    }
    for (int i = 0; i < npa_nufuncs; i++) {
        npa_ufuncs[i]->vectorcall = stub_of(i);
    }
    for (int i = 0; i < nwholes; i++) {
        *npa_wholes[i].slot = stub_of_whole(&npa_wholes[i]);
    }
    if (!npa_installed) {
        python_hash = PyCFunction_Type.tp_hash;
        PyCFunction_Type.tp_hash = function_hash;
    }
    npa_installed = true;
    npa_set_subscripts();
    npa_small_install(true);
}

void npa_redirect_restore(void)
{
    for (int i = 0; i < ntargets; i++) {
        npa_targets[i].definition->ml_meth = npa_targets[i].original;
    }
    for (int i = 0; i < npa_nufuncs; i++) {
        npa_ufuncs[i]->vectorcall = ufunc_originals[i];
    }
    for (int i = 0; i < nwholes; i++) {
        *npa_wholes[i].slot = npa_wholes[i].original;
    }
    if (npa_installed) {
        PyCFunction_Type.tp_hash = python_hash;
    }
    npa_installed = false;
    npa_set_subscripts();
    npa_small_install(false);
}

/* The definition behind a builtin function, a method of a C class, or a compiled Cython function
 * (which begins as a builtin function does). NULL without error: none of these. */
static PyMethodDef *definition_of(PyObject *o)
{
    if (PyCFunction_Check(o)) {
        return ((PyCFunctionObject *)o)->m_ml;
    }
    if (Py_IS_TYPE(o, &PyMethodDescr_Type)) {
        return ((PyMethodDescrObject *)o)->d_method;
    }
    if (strstr(Py_TYPE(o)->tp_name, "cython_function_or_method") != NULL) {
        return ((PyCFunctionObject *)o)->m_ml;
    }
    return NULL;
}

/* Which of a target's stubs stands for functions of that kind; -1: none. */
static int row_of_stubs(int kind)
{
    switch (kind) {
    case METH_FASTCALL | METH_KEYWORDS: return 0;
    case METH_FASTCALL: return 1;
    case METH_VARARGS | METH_KEYWORDS: return 2;
    case METH_VARARGS: case METH_O: case METH_NOARGS: return 3;
    default: return -1;
    }
}

static bool is_target(const PyMethodDef *d)
{
    for (int i = 0; i < ntargets; i++) {
        if (npa_targets[i].definition == d) {
            return true;
        }
    }
    return false;
}

/* Whether it makes something of what is no array. */
static bool makes(enum action action)
{
    return action == SHAPE || action == RANGE || action == RESULT || action == CONVERTED;
}

/* redirect(function, action, taker | None, name, reason, writes, adopts, moves) -> bool */
static PyObject *redirect_function(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function, *taker, *name, *reason;
    int action, writes, adopts, moves;
    if (!PyArg_ParseTuple(args, "OiOUUpip", &function, &action, &taker, &name, &reason, &writes,
                          &adopts, &moves)) {
        return NULL;
    }
    PyMethodDef *d = definition_of(function);
    int kind = d != NULL ? d->ml_flags & ~(METH_CLASS | METH_STATIC | METH_COEXIST) : 0;
    int row = row_of_stubs(kind);
    if (row < 0 || ntargets == NPA_MOST_TARGETS || action < 0 || action >= ACTIONS) {
        Py_RETURN_FALSE;
    }
    if (is_target(d)) {
        Py_RETURN_TRUE;
    }
    npa_targets[ntargets] =
        (target){.definition = d,
                 .original = d->ml_meth,
                 .stub = npa_stubs[ntargets][row],
                 .action = (enum action)action,
                 .kind = kind,
                 .writes = writes,
                 .adopts = adopts,
                 .moves = moves,
                 .waits = moves && !writes && !makes((enum action)action),
                 .copies = PyUnicode_CompareWithASCIIString(name, "array") == 0,
                 .on_array = Py_IS_TYPE(function, &PyMethodDescr_Type) &&
                             PyDescr_TYPE(function) == &PyArray_Type,
                 .method = !PyCFunction_Check(function) && (action != RESULT || taker != Py_None),
                 .taker = taker != Py_None ? Py_NewRef(taker) : NULL,
                 .small = npa_small_find(name),
                 .name = Py_NewRef(name),
                 .reason = Py_NewRef(reason)};
    npa_find_own(&npa_targets[ntargets]);
    ntargets++;
    if (npa_installed) {
        d->ml_meth = npa_targets[ntargets - 1].stub;
    }
    Py_RETURN_TRUE;
}

npa_exactness npa_exactness_of(const PyUFuncObject *u)
{
    int i = 0;
    while (i < npa_nufuncs && npa_ufuncs[i] != u) {
        i++;
    }
    return i < npa_nufuncs ? npa_ufunc_exact[i] : NPA_INEXACT;
}

/* redirect_ufunc(ufunc, exact) -> bool */
static PyObject *redirect_ufunc(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *o;
    int exact;
    if (!PyArg_ParseTuple(args, "Oi", &o, &exact)) {
        return NULL;
    }
    if (!Py_IS_TYPE(o, &PyUFunc_Type) || npa_nufuncs == NPA_MOST_UFUNCS ||
        PyUFunc_Type.tp_vectorcall_offset != (Py_ssize_t)offsetof(PyUFuncObject, vectorcall)) {
        Py_RETURN_FALSE;
    }
    PyUFuncObject *u = (PyUFuncObject *)o;
    if (npa_numpys_ufunc_call == NULL) {
        npa_numpys_ufunc_call = u->vectorcall;
    }
    if (u->vectorcall != npa_numpys_ufunc_call || u->vectorcall == NULL) {
        Py_RETURN_FALSE;
    }
    npa_ufuncs[npa_nufuncs] = (PyUFuncObject *)Py_NewRef(o),
    npa_ufunc_exact[npa_nufuncs] = (npa_exactness)exact;
    ufunc_originals[npa_nufuncs++] = u->vectorcall;
    if (npa_installed) {
        u->vectorcall = stub_of(npa_nufuncs - 1);
    }
    if (exact != NPA_FOREIGN) {
        npa_operator_is_exact(o, (npa_exactness)exact);
        npa_small_operator(u, (npa_exactness)exact);
    }
    Py_RETURN_TRUE;
}

static void find_recorder(whole *w)
{
    static const struct {
        const char *name;
        npa_recorder *record;
        bool waits, repeats, idle, like;
    } known[] = {{"roll", npa_record_roll, .waits = true},
                 {"pad", npa_record_pad, .waits = true},
                 {"repeat", npa_record_repeat, .waits = true, .repeats = true},
                 {"tile", npa_record_tile, .waits = true, .repeats = true},
                 {"concatenate", npa_record_concatenate, .waits = true, .idle = true},
                 {"where", npa_record_where, .waits = true},
                 {"empty_like", npa_record_empty_like, .waits = true, .like = true},
                 {"zeros_like", npa_record_zeros_like, .waits = true, .like = true},
                 {"ones_like", npa_record_ones_like, .waits = true, .like = true},
                 {"full_like", npa_record_full_like, .waits = true, .like = true},
                 {"broadcast_to", npa_broadcast},
                 {"histogram", npa_histogram, .waits = false}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (PyUnicode_CompareWithASCIIString(w->name, known[i].name) == 0) {
            w->record = known[i].record, w->waits = known[i].waits;
            w->repeats = known[i].repeats, w->idle = known[i].idle;
            w->like = known[i].like;
        }
    }
}

static bool adds_up(const char *name)
{
    static const char *const names[] = {"average", "corrcoef", "cov", "nanmean", "nanstd",
                                        "nansum",  "nanvar",   "std", "var"};
    size_t k = 0;
    while (k < sizeof names / sizeof *names && strcmp(names[k], name) != 0) {
        k++;
    }
    return k < sizeof names / sizeof *names;
}

/* redirect_whole(function, name, reason, most) -> bool; most -1: only what is small is done here;
 * -2: it makes views */
static PyObject *redirect_whole(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *function, *name, *reason;
    Py_ssize_t most;
    if (!PyArg_ParseTuple(args, "OUUn", &function, &name, &reason, &most)) {
        return NULL;
    }
    Py_ssize_t offset = Py_TYPE(function)->tp_vectorcall_offset;
    if (!PyType_HasFeature(Py_TYPE(function), Py_TPFLAGS_HAVE_VECTORCALL) || offset <= 0 ||
        nwholes == NPA_MOST_WHOLE ||
        strstr(Py_TYPE(function)->tp_name, "_ArrayFunctionDispatcher") == NULL) {
        Py_RETURN_FALSE;
    }
    PyObject *code = most == -2 ? PyObject_GetAttrString(function, "_implementation") : NULL;
    if (most == -2 && code == NULL) {
        PyErr_Clear();
        Py_RETURN_FALSE;
    }
    vectorcallfunc *slot = (vectorcallfunc *)((char *)function + offset);
    *npa_whole_place(function) = (uint8_t)(nwholes + 1);
    npa_wholes[nwholes++] = (whole){
        .function = Py_NewRef(function), .name = Py_NewRef(name), .reason = Py_NewRef(reason),
        .slot = slot, .original = *slot, .most = most > 0 ? (size_t)most : 0, .code = code,
        .small = npa_small_find(name), .small_only = most < 0,
        .sums = adds_up(PyUnicode_AsUTF8(name))};
    find_recorder(&npa_wholes[nwholes - 1]);
    if (npa_installed) {
        *slot = stub_of_whole(&npa_wholes[nwholes - 1]);
    }
    Py_RETURN_TRUE;
}

static PyObject *redirect_taker(PyObject *module, PyObject *taker)
{
    (void)module;
    Py_XSETREF(npa_ufunc_taker, Py_NewRef(taker));
    Py_RETURN_NONE;
}

/* call_numpy(function, *args, **kwargs): as without any block, but large new results are ours. */
static PyObject *call_numpy(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)module;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "call_numpy() needs a function");
        return NULL;
    }
    int before = npa_now(NPA_IN_NUMPY);
    npa_suspended++;
    npa_did_own = false;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)n - 1, names);
    npa_suspended--;
    npa_now(before);
    if (npa_stops > 0 && npa_suspended == 0 && result != NULL && npa_stops_tell(Py_None) < 0) {
        Py_CLEAR(result);
    }
    return npa_adopted_each(result);
}

static PyObject *did_it_here(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(npa_did_own);
}

/* call_python(function, *args, **kwargs): Python code of NumPy's; what it calls is recorded as
 * ever. */
static PyObject *call_python(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    (void)module;
    if (n < 1) {
        PyErr_SetString(PyExc_TypeError, "call_python() needs a function");
        return NULL;
    }
    int before = npa_now(NPA_IN_NUMPY);
    npa_did_own = false;
    PyObject *result = PyObject_Vectorcall(args[0], args + 1, (size_t)n - 1, names);
    npa_now(before);
    return result;
}

static PyObject *in_block(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(npa_in_block());
}

static PyObject *any_block(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(npa_least != SIZE_MAX);
}

/* Addresses of everything that is redirected, as it is now: for tests. */
static PyObject *redirected(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    PyObject *list = PyList_New(0);
    int slots = ntargets + npa_nufuncs + nwholes;
    for (int i = 0; list != NULL && i < slots + 3; i++) {
        void *now = i < ntargets ? (void *)npa_targets[i].definition->ml_meth
                    : i < ntargets + npa_nufuncs
                        ? (void *)npa_ufuncs[i - ntargets]->vectorcall
                    : i < slots      ? (void *)*npa_wholes[i - ntargets - npa_nufuncs].slot
                    : i == slots     ? (void *)PyArray_Type.tp_as_mapping->mp_subscript
                    : i == slots + 1 ? (void *)PyArray_Type.tp_as_mapping->mp_ass_subscript
                                     : (void *)PyCFunction_Type.tp_hash;
        npa_append(&list, PyLong_FromVoidPtr(now));
    }
    return list;
}

static PyObject *threshold(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyLong_FromSize_t(npa_ours_here());
}

static PyObject *block_backend(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return npa_code_block_backend();
}

static PyMethodDef functions[] = {
    {"redirect", redirect_function, METH_VARARGS, NPA_DOC_redirect},
    {"redirect_ufunc", redirect_ufunc, METH_VARARGS, NPA_DOC_redirect_ufunc},
    {"redirect_whole", redirect_whole, METH_VARARGS, NPA_DOC_redirect_whole},
    {"settle_calls", npa_settle_calls, METH_O, NPA_DOC_settle_calls},
    {"redirect_taker", redirect_taker, METH_O, NPA_DOC_redirect_taker},
    {"redirected", redirected, METH_NOARGS, NPA_DOC_redirected},
    {"call_python", (PyCFunction)(void (*)(void))call_python, METH_FASTCALL | METH_KEYWORDS,
     NPA_DOC_call_python},
    {"call_numpy", (PyCFunction)(void (*)(void))call_numpy, METH_FASTCALL | METH_KEYWORDS,
     NPA_DOC_call_numpy},
    {"did_it_here", did_it_here, METH_NOARGS, NPA_DOC_did_it_here},
    {"prove", npa_prove, METH_O, NPA_DOC_prove},
    {"times", npa_times, METH_O, NPA_DOC_times},
    {"place", npa_place_py, METH_O, NPA_DOC_place},
    {"contents", npa_contents_py, METH_O, NPA_DOC_contents},
    {"check_busy", npa_check_busy_py, METH_O, NPA_DOC_check_busy},
    {"watch", npa_stops_py, METH_O, NPA_DOC_watch},
    {"bodies_run", npa_bodies_run_py, METH_NOARGS, NPA_DOC_bodies_run},
    {"until", npa_until_py, METH_VARARGS, NPA_DOC_until},
    {"until_counted", npa_until_counted_py, METH_NOARGS, NPA_DOC_until_counted},
    {"stepping", npa_stepping_py, METH_O, NPA_DOC_stepping},
    {"profile_begin", npa_profile_begin, METH_O, NPA_DOC_profile_begin},
    {"profile_end", npa_profile_end, METH_NOARGS, NPA_DOC_profile_end},
    {"forget_rows", npa_rows_forget, METH_NOARGS, NPA_DOC_forget_rows},
    {"any_block", any_block, METH_NOARGS, NPA_DOC_any_block},
    {"in_block", in_block, METH_NOARGS, NPA_DOC_in_block},
    {"threshold", threshold, METH_NOARGS, NPA_DOC_threshold},
    {"block_backend", block_backend, METH_NOARGS, NPA_DOC_block_backend},
    {NULL}};

int npa_redirect_init(PyObject *module)
{
    return npa_code_block_init() < 0 || npa_opener_init(module) < 0
               ? -1
               : PyModule_AddFunctions(module, functions);
}
