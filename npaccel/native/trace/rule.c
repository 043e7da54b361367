/* rule.c: a rule, made by Python: how one combination of a function and operand types runs. */
#include "trace/trace.h"

#include <string.h>

#include "operation_names.h"

bool npa_fold_has_order(const char *name, int type)
{
    char kind = PyTypeNum_ISFLOAT(type) ? 'f' : PyTypeNum_ISCOMPLEX(type) ? 'c' : 0;
    for (size_t i = 0; kind != 0 && i < sizeof ordered_folds / sizeof *ordered_folds; i++) {
        if (strcmp(ordered_folds[i].name, name) == 0) {
            return strchr(ordered_folds[i].kinds, kind) != NULL;
        }
    }
    return false;
}

static bool set_own(npa_rule *r, const char *name)
{
    if (strcmp(name, "copy") == 0) {
        r->own = NPA_COPY;
        r->loop_type[0] = r->loop_type[1]; /* the value is cast on its way in */
    } else if (strcmp(name, "where") == 0) {
        r->own = NPA_WHERE;
    } else if (strcmp(name, "iota") == 0) {
        r->own = NPA_FILL_RANGE;
    } else if (strcmp(name, "take") == 0) {
        r->own = NPA_TAKE;
    } else if (strcmp(name, "argmin") == 0 || strcmp(name, "argmax") == 0) {
        PyArray_ArrFuncs *f = PyDataType_GetArrFuncs(r->loop_descr[0]);
        r->own = NPA_ARGPICK;
        r->argpick = name[3] == 'm' && name[4] == 'a' ? (void *)f->argmax : (void *)f->argmin;
        return r->argpick != NULL;
    } else {
        return false;
    }
    return true;
}

/* What a reduction begins with, of which NumPy knows; where it has none, with the first element. */
static bool set_identity(npa_rule *r, PyObject *ufunc)
{
    PyObject *found = PyObject_GetAttrString(ufunc, "identity");
    r->idempotent = found == Py_None;
    long value = found != NULL && PyLong_Check(found) ? PyLong_AsLong(found) : NPA_NO_IDENTITY;
    Py_XDECREF(found);
    PyErr_Clear();
    r->identity = (int8_t)value;
    return r->idempotent || (value >= -1 && value <= 1);
}

static bool set_loop(npa_rule *r, PyObject *ufunc, const char *name)
{
    if (ufunc == Py_None) {
        return set_own(r, name);
    }
    PyUFuncObject *u = (PyUFuncObject *)ufunc;
    if (u->core_enabled || u->nargs > NPA_MAX_ARGS) {
        return false;
    }
    if (r->kind == NPA_MAP) {
        return u->nin == r->nin && u->nout == r->nout &&
               npa_find_loop(u, r->loop_type, &r->loop, &r->loop_data);
    }
    int types[3] = {r->loop_type[1], r->loop_type[0], r->loop_type[1]};
    if (u->nin != 2 || u->nout != 1 || types[0] != types[1] ||
        !npa_find_loop(u, types, &r->loop, &r->loop_data)) {
        return false;
    }
    if (r->kind == NPA_REDUCE) {
        r->ordered = npa_fold_has_order(u->name, types[0]);
        return set_identity(r, ufunc);
    }
    if (r->kind != NPA_SCAN) {
        return false;
    }
    r->loop = npa_scan_loop(u->name, types[0], r->loop);
    return true;
}

/* The types of the loop and of the results. False: not all of them are known. */
static bool set_types(npa_rule *r, PyObject *loop, PyObject *result)
{
    bool good = true;
    for (int k = 0; k < r->nin + r->nout; k++) {
        PyObject *d = PyTuple_GET_ITEM(loop, k);
        PyObject *made = k < r->nin ? d : PyTuple_GET_ITEM(result, k - r->nin);
        if (!PyArray_DescrCheck(d) || !PyArray_DescrCheck(made)) {
            return false;
        }
        r->loop_descr[k] = (PyArray_Descr *)Py_NewRef(d);
        r->loop_type[k] = npa_canonical(r->loop_descr[k]->type_num);
        good &= npa_type_known(r->loop_type[k]);
        r->floating |= PyTypeNum_ISFLOAT(r->loop_type[k]) || PyTypeNum_ISCOMPLEX(r->loop_type[k]);
        if (k >= r->nin) {
            r->result[k - r->nin] = (PyArray_Descr *)Py_NewRef(made);
        }
    }
    return good;
}

static bool is_long(int type)
{
    return PyTypeNum_ISINTEGER(type) && npa_item_sizes[type] == sizeof(int64_t);
}

static bool is_named(const npa_rule *r, const char *name)
{
    return PyUnicode_CompareWithASCIIString(r->name, name) == 0;
}

static void find_facts(npa_rule *r)
{
    r->counts = (r->kind == NPA_REDUCE || r->kind == NPA_SCAN) && is_long(r->loop_type[0]) &&
                is_named(r, "add");
    r->forward = r->kind == NPA_MAP && PyTypeNum_ISCOMPLEX(r->loop_type[0]) &&
                 (is_named(r, "multiply") || is_named(r, "square"));
}

PyObject *npa_make_rule(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"name", "kind", "ufunc", "loop", "result", "nin", "value_in_key",
                            "may_warn", NULL};
    PyObject *name, *ufunc, *loop, *result;
    int kind, nin, value_in_key = 0, may_warn = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "UiOO!O!i|pp", names, &name, &kind, &ufunc,
                                     &PyTuple_Type, &loop, &PyTuple_Type, &result, &nin,
                                     &value_in_key, &may_warn)) {
        return NULL;
    }
    Py_ssize_t n = PyTuple_GET_SIZE(loop), nout = n - nin;
    if (n > NPA_MAX_ARGS || nin < 1 || nout < 1 || PyTuple_GET_SIZE(result) != nout ||
        (ufunc != Py_None && !PyObject_TypeCheck(ufunc, &PyUFunc_Type)) || kind < NPA_MAP ||
        kind > NPA_GATHER) {
        PyErr_SetString(PyExc_ValueError, "rule: loop and result dtypes do not fit nin");
        return NULL;
    }
    npa_rule *r = PyObject_New(npa_rule, &npa_rule_type);
    if (r == NULL) {
        return NULL;
    }
    memset((char *)r + sizeof(PyObject), 0, sizeof *r - sizeof(PyObject));
    r->name = Py_NewRef(name);
    r->kind = (uint8_t)kind, r->nin = (uint8_t)nin, r->nout = (uint8_t)nout;
    r->value_in_key = value_in_key, r->may_warn = may_warn, r->identity = NPA_NO_IDENTITY;
    if (!set_types(r, loop, result) || !set_loop(r, ufunc, PyUnicode_AsUTF8(name))) {
        Py_DECREF(r);
        Py_RETURN_NONE;
    }
    find_facts(r);
    if (npa_rule_primitives(r) < 0) {
        Py_DECREF(r);
        return NULL;
    }
    if (npa_number_rule(r) < 0) {
        Py_CLEAR(r);
    }
    return (PyObject *)r;
}

static PyObject *rule_get(PyObject *self, void *what)
{
    npa_rule *r = (npa_rule *)self;
    const char *name = what;
    if (strcmp(name, "name") == 0) {
        return Py_NewRef(r->name);
    }
    if (strcmp(name, "counts") == 0) {
        return Py_BuildValue("KKKK", (unsigned long long)r->recorded, (unsigned long long)r->looped,
                             (unsigned long long)r->touched, (unsigned long long)r->points);
    }
    if (strcmp(name, "loop") != 0) {
        return PyLong_FromUnsignedLong(strcmp(name, "id") == 0 ? r->id : r->kind);
    }
    PyObject *codes = PyTuple_New(r->nin + r->nout);
    for (int k = 0; codes != NULL && k < r->nin + r->nout; k++) {
        PyArray_Descr *d = r->loop_descr[k];
        PyObject *code = d->kind == 'b' ? PyUnicode_FromString("b1")
            : PyUnicode_FromFormat("%c%d", d->kind, (int)PyDataType_ELSIZE(d));
        PyTuple_SET_ITEM(codes, k, code);
    }
    return codes;
}
static PyGetSetDef rule_getset[] = {
    {"id", rule_get, NULL, "Position in the core's table.", "id"},
    {"name", rule_get, NULL, "The operation's name.", "name"},
    {"kind", rule_get, NULL, "ir.nodes.Kind.", "kind"},
    {"loop", rule_get, NULL, "Dtype codes of the inner loop, inputs then outputs.", "loop"},
    {"counts", rule_get, NULL,
     "Requests; those that loops ran, as planned and unplanned; elements of all requests.",
     "counts"},
    {NULL}};
PyTypeObject npa_rule_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Rule",
    .tp_basicsize = sizeof(npa_rule),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "How one combination of a function and operand types runs.",
    .tp_getset = rule_getset,
};
