/* spawn.c: a process that Python asks for, see process.c, as an object. */
#include "base/base.h"

#include <errno.h>

#define CAPSULE "npaccel.start"

typedef struct {
    npa_process *process; /* NULL: it was not begun */
    char **arguments, **added; /* as `exec` takes them */
    PyObject *texts[2]; /* tuples of bytes objects, to which they point */
} start;

static int wait_for(start *s, int64_t *number)
{
    int error = 0;
    Py_BEGIN_ALLOW_THREADS
    error = s->process != NULL ? npa_process_wait(s->process, number) : 0;
    Py_END_ALLOW_THREADS
    return error;
}

static void drop(start *s)
{
    if (s->process != NULL) {
        npa_process_free(s->process);
    }
    PyMem_Free(s->arguments);
    PyMem_Free(s->added);
    Py_XDECREF(s->texts[0]);
    Py_XDECREF(s->texts[1]);
    PyMem_Free(s);
}

static void forget(PyObject *capsule)
{
    start *s = PyCapsule_GetPointer(capsule, CAPSULE);
    int64_t number;
    wait_for(s, &number);
    drop(s);
}

/* Where the texts of bytes objects lie, and NULL behind the last. */
static char **list_of(PyObject *texts)
{
    char **list = PyMem_Calloc((size_t)PyTuple_GET_SIZE(texts) + 1, sizeof *list);
    if (list == NULL) {
        return (char **)PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(texts); i++) {
        if (PyBytes_AsStringAndSize(PyTuple_GET_ITEM(texts, i), &list[i], NULL) < 0) {
            PyMem_Free(list); /* no bytes object, or one with a zero inside */
            return NULL;
        }
    }
    return list;
}

static start *prepare(PyObject *arguments, PyObject *added)
{
    start *s = PyMem_Calloc(1, sizeof *s);
    if (s == NULL) {
        return (start *)PyErr_NoMemory();
    }
    s->texts[0] = Py_NewRef(arguments), s->texts[1] = Py_NewRef(added);
    s->arguments = list_of(arguments);
    s->added = s->arguments != NULL ? list_of(added) : NULL;
    if (s->added == NULL) {
        drop(s);
        return NULL;
    }
    return s;
}

PyObject *npa_spawn(PyObject *module, PyObject *args)
{
    PyObject *arguments, *added;
    const char *left_out, *errors;
    int to = -1, from = -1;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!yO!y", &PyTuple_Type, &arguments, &left_out, &PyTuple_Type,
                          &added, &errors)) {
        return NULL;
    }
    if (PyTuple_GET_SIZE(arguments) == 0) {
        PyErr_SetString(PyExc_ValueError, "a process needs the name of its program");
        return NULL;
    }
    start *s = prepare(arguments, added);
    if (s == NULL) {
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(s, CAPSULE, forget);
    if (capsule == NULL) {
        drop(s);
        return NULL;
    }
    errno = npa_process_start(s->arguments, left_out, s->added, errors, &s->process, &to, &from);
    if (errno) {
        PyErr_SetFromErrno(PyExc_OSError);
        Py_DECREF(capsule);
        return NULL;
    }
    return Py_BuildValue("Nii", capsule, to, from);
}

/* A start that is over, and the process's number; NULL with an exception: there is none. */
static start *ended(PyObject *capsule, int64_t *number)
{
    start *s = PyCapsule_GetPointer(capsule, CAPSULE);
    errno = s != NULL ? wait_for(s, number) : 0;
    if (errno) {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, s->arguments[0]);
        return NULL;
    }
    return s;
}

PyObject *npa_spawned(PyObject *module, PyObject *capsule)
{
    (void)module;
    int64_t number = 0;
    return ended(capsule, &number) != NULL ? PyLong_FromLongLong(number) : NULL;
}

PyObject *npa_kill_spawned(PyObject *module, PyObject *capsule)
{
    (void)module;
    int64_t number;
    start *s = ended(capsule, &number);
    if (s == NULL) {
        return NULL;
    }
    npa_process_kill(s->process);
    Py_RETURN_NONE;
}
