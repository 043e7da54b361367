/* flights_python.c: runs in flight, as Python begins them and waits for them. See Note [In flight]
 * in flights.c. */
#include "run/run.h"

#include <stdlib.h>

static int add_id(PyObject *list, uint64_t id)
{
    PyObject *number = PyLong_FromUnsignedLongLong(id);
    int known = number != NULL ? PySequence_Contains(list, number) : -1;
    int status = known < 0 ? -1 : known == 0 ? PyList_Append(list, number) : 0;
    Py_XDECREF(number);
    return status;
}

/* launch(arrays, seconds): everything recorded runs from now on, at once where it is known to take
 * less. The numbers of the runs that make these arrays, as far as they are in flight, and of the
 * one that begins. */
PyObject *npa_launch_py(PyObject *module, PyObject *args)
{
    (void)module;
    uint64_t id;
    PyObject *arrays;
    double least_s;
    if (!PyArg_ParseTuple(args, "O!d", &PyList_Type, &arrays, &least_s)) {
        return NULL;
    }
    if (npa_launch_recorded(&id, (uint64_t)(1e9 * least_s)) < 0) {
        return NULL;
    }
    PyObject *list = PyList_New(0);
    int status = list == NULL ? -1 : id != 0 ? add_id(list, id) : 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(arrays); i++) {
        PyObject *o = PyList_GET_ITEM(arrays, i);
        npa_lock();
        npa_buffer *b = PyArray_Check(o) ? npa_buffer_of((PyArrayObject *)o) : NULL;
        id = b != NULL ? npa_flight_making(b) : 0;
        npa_unlock();
        status = id != 0 ? add_id(list, id) : 0;
    }
    if (status < 0) {
        Py_CLEAR(list);
    }
    return list;
}

/* Numbers from a list of them, to be freed. NULL: an exception is set. */
static uint64_t *take_ids(PyObject *list, Py_ssize_t *n)
{
    *n = PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
    uint64_t *ids = malloc(sizeof *ids * (size_t)(*n + 1));
    for (Py_ssize_t i = 0; i < *n && ids != NULL; i++) {
        ids[i] = PyLong_AsUnsignedLongLong(PyList_GET_ITEM(list, i));
    }
    if (ids == NULL) {
        PyErr_NoMemory();
    } else if (PyErr_Occurred()) {
        free(ids);
        ids = NULL;
    }
    return ids;
}

static atomic_int wakes;

/* wake(): whoever sleeps until one of several runs is over looks again; how often that was so. */
PyObject *npa_wake_py(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    npa_lock();
    int n = atomic_fetch_add(&wakes, 1) + 1;
    npa_lock_tell();
    npa_unlock();
    return PyLong_FromLong(n);
}

/* With the lock: how many of them are in flight; *any_over: one is not, or has stopped. */
static int count_flying(const uint64_t *ids, Py_ssize_t n, bool *any_over)
{
    int flying = 0;
    *any_over = false;
    for (Py_ssize_t i = 0; i < n; i++) {
        bool runs = npa_flight_runs(ids[i]);
        flying += runs;
        *any_over |= !runs;
    }
    return flying;
}

/* Until these are over or have stopped (seen >= 0: one of them, or there were more wakes than
 * that), or until then. 1: so it is; 0: not; -1: an exception. */
static int sleep_until(const uint64_t *ids, Py_ssize_t n, double until, int seen)
{
    for (;;) {
        bool over, late = until >= 0 && npa_seconds() >= until;
        Py_BEGIN_ALLOW_THREADS
        npa_lock_native();
        int flying = count_flying(ids, n, &over);
        over = flying == 0 || (seen >= 0 && (over || atomic_load(&wakes) != seen));
        if (!over && !late) {
            double left = until >= 0 ? 1e9 * (until - npa_seconds()) : NPA_FLIGHT_SLICE_NS;
            left = left < NPA_FLIGHT_SLICE_NS ? left : NPA_FLIGHT_SLICE_NS;
            npa_lock_wait(left < 1 ? 1 : (int64_t)left);
        }
        npa_unlock();
        Py_END_ALLOW_THREADS
        if (over || late) {
            return over;
        }
        if (PyErr_CheckSignals() < 0) {
            return -1;
        }
    }
}

/* sleep(flights, seconds, seen): as above; seconds None: whenever that is. Whether it is so. */
PyObject *npa_sleep_py(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *flights, *seconds;
    int seen;
    Py_ssize_t n;
    if (!PyArg_ParseTuple(args, "O!Oi", &PyList_Type, &flights, &seconds, &seen)) {
        return NULL;
    }
    double most = seconds == Py_None ? 0 : PyFloat_AsDouble(seconds);
    uint64_t *ids = PyErr_Occurred() ? NULL : take_ids(flights, &n);
    if (ids == NULL) {
        return NULL;
    }
    int over =
        sleep_until(ids, n, seconds == Py_None ? -1 : npa_seconds() + (most > 0 ? most : 0), seen);
    free(ids);
    return over < 0 ? NULL : PyBool_FromLong(over);
}

/* resume(flights): what stopped goes on here; what runs is waited for. */
PyObject *npa_resume_py(PyObject *module, PyObject *flights)
{
    (void)module;
    Py_ssize_t n;
    uint64_t *ids = take_ids(flights, &n);
    int status = ids != NULL ? 0 : -1;
    for (Py_ssize_t i = 0; status == 0 && i < n; i++) {
        status = npa_flight_join(ids[i], -1);
    }
    free(ids);
    return status < 0 ? NULL : Py_NewRef(Py_None);
}

/* landed(array): the run that makes it is over from here on. */
PyObject *npa_landed_py(PyObject *module, PyObject *o)
{
    (void)module;
    npa_buffer *b = PyArray_Check(o) ? npa_buffer_of((PyArrayObject *)o) : NULL;
    return b != NULL && npa_flights_let_go(b, false) < 0 ? NULL : Py_NewRef(Py_None);
}

/* issue(): what evaluation warned of is told now. */
PyObject *npa_issue_py(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    npa_drop_garbage();
    return npa_issue_warnings() < 0 ? NULL : Py_NewRef(Py_None);
}

/* flights_end(cancel): nothing is begun any more. cancel: what runs stops where it can, and
 * stays. */
PyObject *npa_flights_end_py(PyObject *module, PyObject *cancel)
{
    (void)module;
    npa_flights_end(PyObject_IsTrue(cancel) > 0);
    Py_RETURN_NONE;
}
