/* fallbacks.c: what NumPy did instead, counted by name, reason and the user's line, until
 * dispatch/fallback.py asks; what came home from devices; and what hinders (hinder.c). It runs no
 * Python, so it can't fail: some programs hand over a product of matrices each microsecond. With
 * the GIL. */
#include "base/base.h"

#include <math.h>
#include <string.h>

/* Places beyond those that fit are one place. */
enum { ENTRIES = 1024, MOST_ENTRIES = ENTRIES / 2, ELSEWHERE = -1 };

typedef struct {
    PyObject *name, *reason, *code; /* owned; name: a ufunc or a text; code: NULL: no user's line */
    int32_t lasti;
    uint64_t calls;
    double amount; /* seconds, or bytes */
    double size;   /* of what hinders: bytes, or operations */
} entry;
typedef struct { entry entries[ENTRIES]; int used; } tally;
static tally fallbacks, homes, hindrances;

static __thread const char *because;

void npa_pass_because(const char *reason) { because = reason; }

const char *npa_passing_reason(void)
{
    const char *reason = because;
    because = NULL;
    return reason;
}

static entry *place(tally *t, PyObject *name, PyObject *reason, PyObject *code, int32_t lasti)
{
    uint64_t h = ((uintptr_t)name >> 4) ^ ((uintptr_t)code >> 4) * 31 ^
                 (uint64_t)(uint32_t)lasti * 127;
    for (size_t i = (size_t)(h * 0x9E3779B97F4A7C15u >> 32); ; i++) {
        entry *e = &t->entries[i % ENTRIES];
        if (e->name == NULL || (e->name == name && e->code == code && e->lasti == lasti &&
                                PyUnicode_Compare(e->reason, reason) == 0)) {
            return e;
        }
    }
}

static void count(tally *t, PyObject *name, PyObject *reason, uint64_t calls, double amount,
                  double size)
{
    npa_site site;
    npa_capture_site(&site);
    entry *e = place(t, name, reason, site.code, site.lasti);
    if (site.code == NULL || (e->name == NULL && t->used >= MOST_ENTRIES)) {
        Py_CLEAR(site.code);
        e = place(t, name, reason, NULL, ELSEWHERE);
    }
    if (e->name == NULL && t->used < ENTRIES - 1) {
        *e = (entry){.name = Py_NewRef(name),
                     .reason = Py_NewRef(reason),
                     .code = Py_XNewRef(site.code),
                     .lasti = site.code != NULL ? site.lasti : ELSEWHERE};
        t->used++;
    }
    if (e->name != NULL) {
        e->calls += calls;
        e->amount += amount, e->size += size;
    }
    Py_XDECREF(site.code), Py_XDECREF(site.globals);
}

/* While the helper process works, products of matrices take about so many times as long, as BLAS's
 * threads wait for each other: 40,000 x 12 by a column 4 to 7 times on average, its transpose 3 to
 * 3.7 (bench/blas_beside.py, Z4, two processors). */
enum { STRETCHED = 5 };
static const double start_s = 0.25; /* starting the helper keeps a processor busy for so long */

static double products, first_product; /* seconds that BLAS and LAPACK took, and since when */

void npa_count_fallback(PyObject *name, PyObject *reason, double seconds)
{
    bool product = PyUnicode_CompareWithASCIIString(reason, "matrix product") == 0 ||
                   PyUnicode_CompareWithASCIIString(reason, "generalised ufunc") == 0;
    if (product) {
        first_product = products > 0 ? first_product : npa_seconds() - seconds;
        products += seconds;
    }
    count(&fallbacks, name, reason, 1, seconds, 0);
}

int npa_note_fallback(PyObject *name, const char *reason, double seconds)
{
    PyObject *text = PyUnicode_InternFromString(reason);
    if (text == NULL) {
        return -1;
    }
    npa_count_fallback(name, text, seconds);
    Py_DECREF(text);
    return 0;
}

void npa_count_home(PyObject *device, PyObject *reason, uint64_t bytes)
{
    count(&homes, device, reason, 1, (double)bytes, 0);
}

void npa_count_hindrance(PyObject *kind, uint64_t calls, double seconds, double size)
{
    count(&hindrances, kind, kind, calls, seconds, size);
}

PyObject *npa_held_up(PyObject *module, PyObject *args)
{
    double works;
    int starts;
    (void)module;
    if (!PyArg_ParseTuple(args, "dp", &works, &starts)) {
        return NULL;
    }
    double since = products > 0 ? npa_seconds() - first_product : 1;
    works += starts ? start_s : 0;
    return PyFloat_FromDouble(works * STRETCHED * products / fmax(since, 1e-3));
}

static PyObject *take(tally *t)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < ENTRIES; i++) {
        entry e = t->entries[i];
        if (e.name == NULL) {
            continue;
        }
        memset(&t->entries[i], 0, sizeof t->entries[i]);
        t->used--;
        PyCodeObject *code = (PyCodeObject *)e.code;
        PyObject *name = PyUnicode_Check(e.name) ? Py_NewRef(e.name)
                                                 : PyObject_GetAttrString(e.name, "__name__");
        PyObject *file = code != NULL ? Py_NewRef(code->co_filename)
                                      : PyUnicode_FromString("elsewhere");
        int line = code != NULL ? PyCode_Addr2Line(code, e.lasti) : 0;
        PyObject *row = name != NULL && file != NULL
            ? Py_BuildValue("(NONiKdd)", name, e.reason, file, line, (unsigned long long)e.calls,
                            e.amount, e.size)
            : NULL;
        npa_append(&list, row);
        Py_DECREF(e.name), Py_DECREF(e.reason), Py_XDECREF(e.code);
    }
    return list;
}

/* take_fallbacks(): a list of (name, reason, file, line, calls, seconds, size), which are forgotten
 * here. */
PyObject *npa_take_fallbacks(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return take(&fallbacks);
}

PyObject *npa_take_counted_homes(void) { return take(&homes); }

/* take_hindrances(): the same of what hinders. */
PyObject *npa_take_hindrances(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return take(&hindrances);
}
