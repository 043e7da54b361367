/* rests.c: programs of NumPy's loops that run without Python being asked, until they have taken so
 * much time again that another choice may be better. With the GIL.
 *
 * Found by the key's hash alone: NumPy's loops run whatever is pending, so of two keys with one hash
 * the worst is that both are asked about together. */
#include "record.h"

enum { RESTS = 1024 };

static struct {
    uint64_t hash;
    npa_program *program; /* owned */
} rests[RESTS];

PyObject *npa_rests_find(uint64_t hash)
{
    npa_program *p = rests[hash % RESTS].hash == hash ? rests[hash % RESTS].program : NULL;
    if (p == NULL || !npa_program_rests(p)) {
        return NULL;
    }
    npa_count.rests++;
    return Py_NewRef((PyObject *)p);
}

static void put(uint64_t hash, PyObject *program)
{
    PyObject *old = (PyObject *)rests[hash % RESTS].program;
    rests[hash % RESTS].hash = hash;
    rests[hash % RESTS].program = (npa_program *)Py_XNewRef(program);
    Py_XDECREF(old);
}

/* rest(key, program, seconds) */
PyObject *npa_rest(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *key, *program;
    double seconds;
    if (!PyArg_ParseTuple(args, "O!O!d", &PyBytes_Type, &key, &npa_program_type, &program, &seconds)) {
        return NULL;
    }
    npa_program_rest((npa_program *)program, seconds);
    put(npa_hash(PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key)), program);
    Py_RETURN_NONE;
}

PyObject *npa_forget_rests(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    for (uint64_t i = 0; i < RESTS; i++) {
        put(i, NULL);
    }
    Py_RETURN_NONE;
}
