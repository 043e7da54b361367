/* section.c: a macro section while its body runs for the first time.
 *
 * The arguments are placeholders: Arrays over guarded memory that never gets any content. What the
 * body does with them is appended to a queue of the section's own and never run; macro.c runs it on
 * real memory. A buffer ("spot") is a placeholder's memory, or an array from outside that the body
 * reads. Who reads a placeholder gets an exception, or, if no code of ours is asked, leaves a mark.
 */
#include "macro/macro.h"
#include "macro/section.h"

#include <stddef.h>
#include <string.h>

struct npa_macro_hooks npa_macro_hooks;

__thread PyObject *npa_section_block, *npa_section_aside;

int npa_section_block_stop(const char *kind, const char *what)
{
    PyObject *done =
        npa_without_us(PyObject_CallMethod(npa_section_block, "_stop", "ss", kind, what));
    Py_XDECREF(done);
    return done != NULL ? 0 : -1;
}

/* --------------------------------------------------------------------------------- buffers */

void npa_spot_leave(npa_spot *spot)
{
    if (atomic_fetch_sub(&spot->users, 1) == 1) {
        free(spot->copy);
        free(spot);
    }
}

static npa_spot *add_spot(npa_section *s, size_t size)
{
    npa_spot *spot = npa_grow(&s->spots, s->nspots, &s->spots_cap, sizeof *s->spots)
                         ? calloc(1, sizeof *spot) : NULL;
    if (spot != NULL) {
        spot->section = s, spot->size = size;
        atomic_store(&spot->users, 1);
        s->spots[s->nspots++] = spot;
    }
    return spot;
}

/* For a new array's memory. NULL: out of memory; then it counts as one from outside. */
npa_spot *npa_spot_new(size_t size)
{
    npa_spot *spot = add_spot(npa_here, size);
    if (spot != NULL) {
        atomic_store(&spot->users, 2);
        atomic_fetch_add(&npa_placeholders, 1);
    }
    return spot;
}

void npa_spot_gone(npa_spot *spot)
{
    atomic_store(&spot->gone, true);
    atomic_fetch_sub(&npa_placeholders, 1);
    npa_spot_leave(spot);
}

void npa_spot_read_raw(npa_spot *spot) { atomic_store(&spot->raw, true); }

npa_spot *npa_spot_of(PyArrayObject *a)
{
    npa_buffer *b = npa_buffer_of(a);
    return b != NULL ? b->spot : NULL;
}

int npa_spot_index(const npa_section *s, const npa_spot *spot)
{
    int i = s->nspots - 1;
    while (i >= 0 && s->spots[i] != spot) {
        i--;
    }
    return i;
}

/* Small ones are compared at the end: the body must not change what it read. */
enum { MOST_COPIED = 16 << 20 };

/* The buffer of an array from outside, perhaps new. NULL: exception set. */
static npa_spot *outside(npa_section *s, PyArrayObject *a)
{
    PyArrayObject *root = npa_root_of(a);
    for (int i = 0; i < s->nspots; i++) {
        if (s->spots[i]->owner == (PyObject *)root) {
            return s->spots[i];
        }
    }
    char *low, *high;
    npa_extent(root, &low, &high);
    npa_spot *spot = npa_touch(root, false) < 0 ? NULL : add_spot(s, (size_t)(high - low));
    if (spot != NULL) {
        spot->owner = Py_NewRef((PyObject *)root);
        spot->base = low;
        spot->copy = spot->size <= MOST_COPIED ? malloc(spot->size + 1) : NULL;
        if (spot->copy != NULL) {
            memcpy(spot->copy, low, spot->size);
        }
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    return spot;
}

/* Call stop(kind, what, buffer), which raises; buffer -1: none. */
void npa_section_raise(npa_section *s, const char *kind, const char *what, int buffer)
{
    PyObject *done = npa_without_us(PyObject_CallFunction(s->stop, "ssi", kind, what, buffer));
    if (done != NULL) {
        Py_DECREF(done);
        PyErr_SetString(PyExc_SystemError, "a section was to be stopped");
    }
}

static void stop_write(npa_section *s, PyArrayObject *a)
{
    char which[24]; /* id() of the array that owns the memory */
    PyOS_snprintf(which, sizeof which, "%lu", (unsigned long)(uintptr_t)npa_root_of(a));
    npa_section_raise(s, "write", which, -1);
}

int npa_section_stop(PyArrayObject *a, const char *what)
{
    if (npa_section_block != NULL && what != NULL && npa_is_pending(a)) {
        return npa_section_block_stop("read", what);
    }
    npa_spot *spot = npa_placeholders > 0 ? npa_spot_of(a) : NULL;
    if (spot == NULL) {
        return 0;
    }
    if (spot->section == NULL) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this array was made while a macro section was recorded, and was kept "
                        "outside of it; it has no values");
        return -1;
    }
    npa_section_raise(spot->section, what != NULL ? "read" : "numpy", what != NULL ? what : "",
                      npa_spot_index(spot->section, spot));
    return -1;
}

/* Of a plain array, which may show a placeholder's memory or a pending result's: a[key] takes
 * something out of it now. */
int npa_section_sees_read(PyObject *a, PyObject *key)
{
    bool mine = npa_here != NULL || npa_section_block != NULL;
    return !mine || npa_suspended || !PyArray_CheckExact(a) ||
                   npa_buffer_of((PyArrayObject *)a) == NULL ||
                   npa_key_kind((PyArrayObject *)a, key) == 1 || npa_internal_code()
               ? 0
               : npa_section_stop((PyArrayObject *)a, "an element");
}

/* Whether it is the section's, or (looked into) has something of it among its items. */
static bool is_computed_here(PyObject *value, bool into)
{
    if (into && npa_is_listed(value)) {
        bool found = false;
        for (Py_ssize_t i = 0; i < Py_SIZE(value) && !found; i++) {
            found = is_computed_here(PySequence_Fast_ITEMS(value)[i], false);
        }
        return found;
    }
    npa_value v = {.object = value, .array = PyArray_Check(value) ? (PyArrayObject *)value : NULL};
    return npa_section_wants(&v, 1);
}

/* The same of a[...] = value: what a section computes would be written by NumPy, now. */
int npa_section_sees_write(PyObject *a, PyObject *value)
{
    if (npa_here == NULL || npa_suspended || !PyArray_CheckExact(a) || value == NULL ||
        npa_internal_code()) {
        return 0;
    }
    if (npa_spot_of((PyArrayObject *)a) != NULL || !is_computed_here(value, true)) {
        return npa_section_stop((PyArrayObject *)a, "its memory");
    }
    stop_write(npa_here, (PyArrayObject *)a);
    return -1;
}

bool npa_section_block_wants(const npa_value *values, int n)
{
    bool inside = npa_section_block != NULL || npa_section_aside != NULL;
    for (int k = 0; inside && !npa_suspended && k < n; k++) {
        PyArrayObject *a = values[k].array;
        if (a != NULL && Py_IS_TYPE(a, npa_array_type) && PyArray_NDIM(a) > 0 &&
            PyArray_SIZE(a) > 0) {
            return true;
        }
    }
    return false;
}

bool npa_section_wants(const npa_value *values, int n)
{
    for (int k = 0; k < n; k++) {
        PyObject *o = values[k].object;
        if (values[k].array != NULL) {
            npa_spot *spot = npa_spot_of(values[k].array);
            if (spot != NULL && spot->section == npa_here) {
                return true;
            }
        } else if (o != NULL && PyObject_TypeCheck(o, &npa_runtime_type)) {
            return true;
        }
    }
    return false;
}

bool npa_section_place(PyArrayObject *a, bool write, int32_t *buffer, int64_t *offset)
{
    npa_section *s = npa_here;
    npa_spot *spot = npa_spot_of(a);
    if (spot != NULL && spot->section != s) {
        return npa_section_stop(a, NULL) == 0;
    }
    bool foreign = spot == NULL;
    if (foreign) {
        if (write) {
            stop_write(s, a);
            return false;
        }
        spot = outside(s, a);
    }
    if (spot == NULL) {
        return false;
    }
    if (write && spot->scalar && PyArray_NDIM(a) > 0) {
        npa_section_raise(s, "refuse", "it writes to a view of a scalar", -1);
        return false;
    }
    char *base = foreign ? spot->base : npa_buffer_of(a)->base;
    *buffer = npa_spot_index(s, spot);
    *offset = PyArray_BYTES(a) - base;
    spot->written |= write;
    if (*offset & (PyArray_ITEMSIZE(a) - 1)) {
        npa_section_raise(s, "refuse", "arrays that share memory do not lie whole elements apart",
                          -1);
        return false;
    }
    return true;
}

bool npa_section_is_scalar(PyArrayObject *a)
{
    npa_spot *spot = npa_here != NULL && PyArray_NDIM(a) == 0 ? npa_spot_of(a) : NULL;
    return spot != NULL && spot->section == npa_here && spot->scalar;
}

void npa_section_set_scalar(PyArrayObject *a)
{
    npa_spot *spot = npa_spot_of(a);
    if (spot != NULL) {
        spot->scalar = true;
    }
}

npa_queue *npa_section_queue(void) { return &npa_here->q; }

bool npa_section_bind(int request, int operand, int slot)
{
    npa_section *s = npa_here;
    if (!npa_grow(&s->bindings, s->nbindings, &s->bindings_cap, sizeof *s->bindings)) {
        return false;
    }
    s->bindings[s->nbindings++] = (binding){request, operand, slot};
    return true;
}

/* --------------------------------------------------------------------------- what Python sees */

/* ------------------------------------------------------------------------- for all of Python */
