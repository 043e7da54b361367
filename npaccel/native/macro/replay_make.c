/* replay_make.c: from the tuples that runtime/macros/sections.py makes of a recording to a
 * Replay. */
#include "macro/macro.h"
#include "macro/replay.h"

#include <string.h>

/* Count and array of a sequence; NULL with an error set. */
static void *room(PyObject *sequence, int *n, size_t size)
{
    if (!PyList_Check(sequence)) {
        PyErr_SetString(PyExc_TypeError, "a list is needed");
        return NULL;
    }
    *n = 0;
    void *at = calloc((size_t)PyList_GET_SIZE(sequence) + 1, size);
    return at != NULL ? at : PyErr_NoMemory();
}

static npy_intp *lengths(PyObject *shape, PyObject *strides, int *ndim)
{
    Py_ssize_t n = PyTuple_GET_SIZE(shape);
    npy_intp *both = malloc(sizeof *both * (size_t)(2 * n + 1));
    for (Py_ssize_t i = 0; both != NULL && i < n; i++) {
        both[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, i));
        both[n + i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(strides, i));
    }
    *ndim = (int)n;
    if (both == NULL) {
        PyErr_NoMemory();
    }
    return both;
}

/* (kind, flag, n, slot, type, object, offset, shape, strides) */
static bool parse_node(PyObject *item, npa_node *node)
{
    int kind, flag;
    PyObject *shape, *strides;
    if (!PyArg_ParseTuple(item, "ipiiiOnO!O!", &kind, &flag, &node->n, &node->slot, &node->type,
                          &node->object, &node->offset, &PyTuple_Type, &shape, &PyTuple_Type,
                          &strides)) {
        node->object = NULL;
        return false;
    }
    Py_INCREF(node->object);
    node->kind = (uint8_t)kind, node->flag = flag;
    int ndim = 0;
    node->lengths = lengths(shape, strides, &ndim);
    if (kind == NPA_IN_ARRAY || kind == NPA_OUT_VIEW) {
        node->n = ndim;
    }
    return node->lengths != NULL && !PyErr_Occurred();
}

static bool parse_nodes(PyObject *list, npa_node **nodes, int *n)
{
    *nodes = room(list, n, sizeof **nodes);
    for (Py_ssize_t i = 0; *nodes != NULL && i < PyList_GET_SIZE(list); i++) {
        (*n)++;
        if (!parse_node(PyList_GET_ITEM(list, i), &(*nodes)[i])) {
            return false;
        }
    }
    return *nodes != NULL;
}

/* (kind, written, slot, size, at, address, owner) */
static bool parse_buffers(PyObject *list, npa_replay *r)
{
    r->buffers = room(list, &r->nbuffers, sizeof *r->buffers);
    for (Py_ssize_t i = 0; r->buffers != NULL && i < PyList_GET_SIZE(list); i++) {
        npa_buffer_spec *b = &r->buffers[r->nbuffers++];
        int kind, written;
        Py_ssize_t size, at;
        unsigned long long base;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "ipinnKO", &kind, &written, &b->slot,
                              &size, &at, &base, &b->owner)) {
            return false;
        }
        b->kind = (uint8_t)kind, b->written = written, b->size = (size_t)size;
        b->at = (size_t)at, b->base = (char *)(uintptr_t)base;
        r->writes |= kind == NPA_BUFFER_INPUT && written;
        r->ncells += kind == NPA_BUFFER_CELL;
    }
    return r->buffers != NULL;
}

/* (dtype, shape, strides, large) */
static bool parse_roots(PyObject *list, npa_replay *r)
{
    r->roots = room(list, &r->nroots, sizeof *r->roots);
    for (Py_ssize_t i = 0; r->roots != NULL && i < PyList_GET_SIZE(list); i++) {
        npa_root *root = &r->roots[r->nroots];
        PyObject *shape, *strides, *descr;
        int large;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "O!O!O!p", &PyArrayDescr_Type, &descr,
                              &PyTuple_Type, &shape, &PyTuple_Type, &strides, &large) ||
            (root->lengths = lengths(shape, strides, &root->ndim)) == NULL) {
            return false;
        }
        root->descr = (PyArray_Descr *)Py_NewRef(descr);
        root->large = large;
        r->nroots++;
    }
    return r->roots != NULL;
}

/* members: (slot, buffer, offset); uses: (request, operand, slot) */
static bool parse_triples(PyObject *members, PyObject *uses, npa_replay *r)
{
    r->members = room(members, &r->nmembers, sizeof *r->members);
    for (Py_ssize_t i = 0; r->members != NULL && i < PyList_GET_SIZE(members); i++) {
        npa_member *m = &r->members[r->nmembers++];
        if (!PyArg_ParseTuple(PyList_GET_ITEM(members, i), "iin", &m->slot, &m->buffer,
                              &m->offset)) {
            return false;
        }
    }
    r->narrays = r->nmembers;
    r->uses = r->members != NULL ? room(uses, &r->nuses, sizeof *r->uses) : NULL;
    for (Py_ssize_t i = 0; r->uses != NULL && i < PyList_GET_SIZE(uses); i++) {
        npa_use *u = &r->uses[r->nuses++];
        if (!PyArg_ParseTuple(PyList_GET_ITEM(uses, i), "iii", &u->request, &u->operand,
                              &u->slot)) {
            return false;
        }
    }
    return r->uses != NULL;
}

/* (op, a, b, value); op "": an argument, "c": a constant */
static bool parse_numbers(PyObject *list, npa_replay *r)
{
    r->numbers = room(list, &r->nnumbers, sizeof *r->numbers);
    for (Py_ssize_t i = 0; r->numbers != NULL && i < PyList_GET_SIZE(list); i++) {
        npa_step_of_number *s = &r->numbers[r->nnumbers++];
        const char *op;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "siid", &op, &s->a, &s->b, &s->value)) {
            return false;
        }
        s->op = op[0];
        r->nleaves += s->op == '\0';
    }
    return r->numbers != NULL;
}

/* (dict or cell, name, object) */
static bool parse_guards(PyObject *list, npa_replay *r)
{
    r->guards = room(list, &r->nguards, sizeof *r->guards);
    for (Py_ssize_t i = 0; r->guards != NULL && i < PyList_GET_SIZE(list); i++) {
        npa_trace_guard *p = &r->guards[r->nguards];
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "OUO", &p->where, &p->name, &p->object)) {
            return false;
        }
        Py_INCREF(p->where), Py_INCREF(p->name), Py_INCREF(p->object);
        r->nguards++;
    }
    return r->guards != NULL;
}

/* What the requests of its section and its inputs tell. */
static void look_through(npa_replay *r)
{
    const npa_queue *q = npa_queue_of(r->section);
    for (int i = 0; i < q->nrequests; i++) {
        r->may_warn |= ((npa_request *)(q->arena + q->at[i]))->errstate != 0;
    }
    for (int i = 0; i < r->nin; i++) {
        r->ngenerators += r->in[i].kind == NPA_IN_GENERATOR;
    }
}

PyObject *npa_replay_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *keys[] = {"section", "program", "nargs", "names", "inputs", "members", "numbers",
                           "uses", "guards", "buffers", "roots", "outputs", "temporary_bytes",
                           "errstate", "draws", "drawn", "heavy", "info", "place",
                           "anywhere", NULL};
    PyObject *section, *program, *names, *in, *members, *numbers, *uses, *guards, *buffers,
        *roots, *out, *draws, *drawn, *info, *place;
    int nargs, errstate, heavy, anywhere;
    Py_ssize_t temporary;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!iO!OOOOOOOOniOOpOOp", keys,
                                     &npa_section_type, &section, &npa_program_type, &program,
                                     &nargs, &PyTuple_Type, &names, &in, &members, &numbers, &uses,
                                     &guards, &buffers, &roots, &out, &temporary, &errstate,
                                     &draws, &drawn, &heavy, &info, &place, &anywhere)) {
        return NULL;
    }
    if (place != Py_None && !Py_IS_TYPE(place, &npa_store_type)) {
        return PyErr_Format(PyExc_TypeError, "place: a DeviceMemory is needed, or None");
    }
    npa_replay *r = (npa_replay *)type->tp_alloc(type, 0);
    if (r == NULL) {
        return NULL;
    }
    r->section = Py_NewRef(section), r->program = Py_NewRef(program), r->names = Py_NewRef(names);
    r->info = Py_NewRef(info), r->nargs = nargs, r->errstate = errstate;
    r->backend = npa_backend_here();
    r->moves = npa_program_moves((npa_program *)program), r->anywhere = anywhere;
    r->place = place != Py_None ? (npa_store *)place : NULL; /* lives as long as the process */
    r->heavy = heavy, r->temporary_bytes = (size_t)temporary;
    r->draws = draws != Py_None ? Py_NewRef(draws) : NULL;
    if (!parse_nodes(in, &r->in, &r->nin) || !parse_nodes(drawn, &r->drawn, &r->ndrawn) ||
        !parse_nodes(out, &r->out, &r->nout) || !parse_buffers(buffers, r) ||
        !parse_roots(roots, r) || !parse_triples(members, uses, r) || !parse_numbers(numbers, r) ||
        !parse_guards(guards, r)) {
        Py_DECREF(r);
        return NULL;
    }
    look_through(r);
    return (PyObject *)r;
}

static void drop_nodes(npa_node *nodes, int n)
{
    for (int i = 0; i < n; i++) {
        Py_XDECREF(nodes[i].object);
        free(nodes[i].lengths);
    }
    free(nodes);
}

void npa_replay_clear(npa_replay *r)
{
    npa_frame_free(r->spare);
    drop_nodes(r->in, r->nin), drop_nodes(r->out, r->nout), drop_nodes(r->drawn, r->ndrawn);
    Py_XDECREF(r->draws);
    for (int i = 0; i < r->nroots; i++) {
        Py_XDECREF(r->roots[i].descr);
        free(r->roots[i].lengths);
    }
    for (int i = 0; i < r->nguards; i++) {
        Py_DECREF(r->guards[i].where), Py_DECREF(r->guards[i].name);
        Py_DECREF(r->guards[i].object);
    }
    free(r->buffers), free(r->members), free(r->roots), free(r->uses), free(r->numbers);
    free(r->guards);
    Py_XDECREF(r->section), Py_XDECREF(r->program), Py_XDECREF(r->names), Py_XDECREF(r->info);
}
