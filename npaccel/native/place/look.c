/* look.c: parts of what lies on a device, read by the host while all of it stays there; and what
 * came home instead, counted by the user's line. */
#include "place/place.h"
#include "place/store.h"

#include <string.h>

/* A look costs at least as much as moving so many bytes. */
enum { LOOK_BYTES = 1 << 16 };

/* Whether all of it may come home: there is room, or it has its pages already. */
static bool has_room(const npa_buffer *b)
{
    return b->range->work != NULL || b->size <= npa_memory_room();
}

/* Whether to look at so many bytes takes less than to have all of it here. */
static bool is_worth(const npa_buffer *b, size_t size)
{
    const struct npa_copy *c = b->copy;
    return c != NULL && b->range != NULL && !b->pending && b->lost == NULL && !b->unreachable &&
           npa_store_here(c->store) && 2 * size <= npa_span_length(c->valid) &&
           (c->looked <= npa_span_length(c->valid) || !has_room(b));
}

bool npa_copy_look(npa_buffer *b, size_t low, size_t high, char *to)
{
    struct npa_copy *c = b->copy;
    const char *host = b->range != NULL ? b->range->work : NULL;
    if (!is_worth(b, high - low)) {
        return false;
    }
    npa_span there = {low > c->newer.low ? low : c->newer.low,
                  high < c->newer.high ? high : c->newer.high};
    if (npa_span_length(there) < high - low) {
        if (host == NULL) {
            return false;
        }
        memcpy(to, host + low, high - low);
    }
    if (!npa_span_empty(there) &&
        npa_store_read(c->store, c->at.memory, there.low, npa_span_length(there),
                       to + (there.low - low)) != 0) {
        return false; /* whoever has all of it brought home is told */
    }
    npa_count.looks++;
    c->looked += high - low > LOOK_BYTES ? high - low : LOOK_BYTES;
    return true;
}

bool npa_copy_put(npa_buffer *b, size_t low, size_t high, const char *from)
{
    struct npa_copy *c = b->copy;
    if (!is_worth(b, high - low) || b->index >= 0 || low < c->valid.low || high > c->valid.high) {
        return false;
    }
    npa_range_hide_parts(b->range);
    if (npa_store_write(c->store, c->at.memory, low, high - low, from) != 0) {
        return false;
    }
    npa_span all = {low, high};
    if (!npa_span_empty(c->newer)) { /* what lies between is the same on both sides */
        all.low = low < c->newer.low ? low : c->newer.low;
        all.high = high > c->newer.high ? high : c->newer.high;
    }
    c->newer = all;
    return true;
}

/* An instruction may touch several parts, which have to be there at once. */
enum { AT_ONCE = 64 };

/* What of a block around the byte `at` is not shown: as much as has been looked at already, so that
 * whoever reads on and on soon has all of it; of what does not fit here, less than would drive out
 * what is looked at beside it. Empty: `at` is shown. */
static npa_span part_around(const npa_buffer *b, size_t at)
{
    size_t size = LOOK_BYTES, low, high;
    size_t most = has_room(b) ? SIZE_MAX / 2 : npa_parts_room() / AT_ONCE;
    while (size < b->copy->looked && 2 * size <= most) {
        size *= 2;
    }
    npa_span part = {at / size * size, at / size * size + size};
    part.high = part.high < b->size ? part.high : b->size;
    while (npa_range_part(b->range, part.low, &low, &high) && low <= at) {
        part.low = high; /* behind it; perhaps behind `at` */
    }
    if (npa_range_part(b->range, part.low, &low, &high) && low < part.high) {
        part.high = low;
    }
    return part.low <= at ? part : (npa_span){at, at};
}

/* To show a part takes new pages, which are copied when all comes home. Who is going to read all of
 * it, as most are, is not to wait long for that: a part is a sixteenth of what is there at most. */
enum { PAGES_COST = 8 };

bool npa_copy_show(npa_buffer *b, size_t at)
{
    bool here = b->copy == NULL || b->range == NULL || b->exported || at >= b->size;
    npa_span part = here ? (npa_span){at, at} : part_around(b, at);
    size_t size = npa_span_length(part);
    char *pages = size > 0 && is_worth(b, PAGES_COST * size) ? npa_part_new(size) : NULL;
    if (pages == NULL) {
        return false;
    }
    if (!npa_copy_look(b, part.low, part.high, pages)) {
        npa_part_drop(pages, size);
        return false;
    }
    b->copy->store->homes[NPA_HOME_PART].calls++;
    b->copy->store->homes[NPA_HOME_PART].bytes += size;
    return npa_range_show_part(b->range, part.low, pages, size) == 0;
}

/* ------------------------------------------------------------------------------ with the GIL */

npa_buffer *npa_there(PyArrayObject *a)
{
    npa_buffer *b = npa_stores != NULL ? npa_buffer_of(a) : NULL;
    return b != NULL && b->copy != NULL ? b : NULL;
}

bool npa_is_far(PyArrayObject *a)
{
    char *low, *high;
    if (npa_there(a) == NULL || PyArray_SIZE(a) == 0) {
        return false;
    }
    npa_extent(a, &low, &high);
    return (size_t)(high - low) >= npa_ours_here();
}

bool npa_may_fetch(PyArrayObject *a, bool write)
{
    npa_buffer *b = npa_there(a);
    char *low, *high;
    if (b == NULL || npa_placeholders > 0 || PyArray_SIZE(a) == 0 || (write && b->index >= 0)) {
        return false;
    }
    npa_extent(a, &low, &high);
    return is_worth(b, (size_t)(high - low));
}

/* The device and how much came from it go to the user's line. */
static void count_home(const npa_store *s, const char *why, uint64_t bytes)
{
    PyObject *reason = PyUnicode_InternFromString(why);
    if (reason == NULL) {
        PyErr_Clear();
        return;
    }
    npa_count_home(s->name, reason, bytes);
    Py_DECREF(reason);
}

/* Of the bytes [low, high), which shall lie in `memory` as in `b`: where they are; NULL: they are
 * not. */
static char *look(PyArrayObject *a, npa_buffer *b, const char *low, const char *high,
                  PyArrayObject *memory)
{
    uintptr_t at = (uintptr_t)PyArray_DATA(memory);
    char *to = PyArray_BYTES(memory) + ((uintptr_t)low - at) % 64; /* aligned alike */
    npa_lock();
    bool good = npa_there(a) == b;
    const npa_store *s = good ? b->copy->store : NULL;
    uint64_t before = npa_count.moved.bytes_down;
    good = good && npa_copy_look(b, (size_t)(low - b->base), (size_t)(high - b->base), to);
    uint64_t moved = npa_count.moved.bytes_down - before;
    npa_unlock();
    if (good && moved > 0) {
        count_home(s, "a part, read while the array stays there", moved);
    }
    return good ? to : NULL;
}

PyObject *npa_fetched(PyArrayObject *a)
{
    npa_buffer *b = npa_there(a);
    char *low, *high;
    if (!npa_may_fetch(a, false)) {
        return NULL;
    }
    npa_extent(a, &low, &high);
    npy_intp room = high - low + 64;
    PyArray_Descr *descr = PyArray_DESCR(a);
    PyObject *memory = PyArray_SimpleNew(1, &room, NPY_UBYTE), *view = NULL;
    char *to = memory != NULL ? look(a, b, low, high, (PyArrayObject *)memory) : NULL;
    if (to != NULL) {
        Py_INCREF(descr);
        view = PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(a), PyArray_DIMS(a),
                                    PyArray_STRIDES(a), to + (PyArray_BYTES(a) - low),
                                    PyArray_FLAGS(a) & NPY_ARRAY_WRITEABLE, NULL);
    }
    if (view == NULL) {
        Py_XDECREF(memory);
        PyErr_Clear(); /* then all of it comes home */
        return NULL;
    }
    PyArray_SetBaseObject((PyArrayObject *)view, memory);
    return view;
}

/* After `array` was brought home by a call: `moved` bytes, from `s`. */
void npa_count_shown(const npa_store *s, bool write, uint64_t moved)
{
    if (s != NULL && moved > 0) {
        count_home(s, write ? "all of it, to be written" : "all of it, to be read", moved);
    }
}

PyObject *npa_fetched_py(PyObject *module, PyObject *array)
{
    (void)module;
    PyObject *found = PyArray_Check(array) ? npa_fetched((PyArrayObject *)array) : NULL;
    return found != NULL ? found : Py_NewRef(Py_None);
}

PyObject *npa_is_far_py(PyObject *module, PyObject *array)
{
    (void)module;
    return PyBool_FromLong(PyArray_Check(array) && npa_is_far((PyArrayObject *)array));
}

PyObject *npa_copies_exist_py(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyBool_FromLong(npa_copies_exist());
}

/* take_homes(): a list of (device, why, file, line, times, bytes, 0), which are forgotten here. */
PyObject *npa_take_homes(PyObject *module, PyObject *nothing)
{
    static const char *const whys[NPA_HOMES] = {
        [NPA_HOME_STEP] = "all of it, as the host needed it in a run",
        [NPA_HOME_ROOM] = "all of it, to make room there",
        [NPA_HOME_POINTER] = "all of it, its memory was read directly",
        [NPA_HOME_PART] = "a part, its memory was read directly",
        [NPA_HOME_ALL] = "all of it, for a fork or another setting"};
    (void)module, (void)nothing;
    PyObject *list = npa_take_counted_homes();
    for (npa_store *s = npa_stores; list != NULL && s != NULL; s = s->next) {
        for (int why = 0; list != NULL && why < NPA_HOMES; why++) {
            npa_lock();
            uint64_t calls = s->homes[why].calls, bytes = s->homes[why].bytes;
            s->homes[why].calls = s->homes[why].bytes = 0;
            npa_unlock();
            /* The others have a line, and are counted there */
            if (calls > 0 && whys[why] != NULL) {
                npa_append(&list, Py_BuildValue("(OssiKdd)", s->name, whys[why], "elsewhere", 0,
                                                (unsigned long long)calls, (double)bytes, 0.0));
            }
        }
    }
    return list;
}
