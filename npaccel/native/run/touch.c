/* touch.c: somebody reads or writes the memory of an array: what it waits for is run first. */
#include "run/run.h"
#include "run/flush.h"

#include <string.h>

/* A touch can't be told: it is repeated, and after a while a crash. Others may free memory
 * first. */
static void no_memory(void)
{
    static const char text[] =
        "npaccel: out of memory while computing an array that is being read\n";
    static bool told;
    if (npa_memory_beyond(true)) {
        return; /* the user allows less than there is */
    }
    const struct timespec pause = {.tv_nsec = 1000000};
    if (!told && npa_say(text, sizeof text - 1)) {
        told = true;
    }
    nanosleep(&pause, NULL);
}

/* A result that nobody has looked at; or nothing was ever written to it, so any content will do; or
 * it could not be shown. */
static void appear(npa_buffer *b, npa_range *range)
{
    enum npa_home before = npa_home_because(NPA_HOME_POINTER);
    bool home = npa_range_work(range) != NULL && npa_copy_home(b);
    npa_home_because(before);
    if (npa_range_work(range) == NULL) {
        no_memory();
    } else if (!home) { /* or `lost` */
        npa_lost_device(b);
    } else if (npa_range_publish(range) == 0) {
        b->fresh = false;
    } else {
        no_memory();
    }
}

/* On the evaluator's thread: somebody touched a guarded page, or needs all of the range. */
void npa_serve_fault(npa_range *range, const void *touched)
{
    bool part = false;
    npa_lock_native();
    npa_buffer *b = range->buffer;
    if (b != NULL && b->index >= 0 && npa_waiting()) { /* written, or must not change */
        if (range->sealed) {
            npa_patience_tried(&b->patience);
        }
        bool done = npa_await_flights(b);
        b = range->buffer;
        if (!done || (b != NULL && b->index >= 0 && npa_q.nrequests > 0 && !npa_run_touched())) {
            no_memory();
        }
        b = range->buffer;
    }
    if (b != NULL && b->index < 0 && range->work != range->home) {
        if (b->spot != NULL) {
            npa_trace_hooks.spot_read(b->spot);
        }
        part = touched != NULL && npa_copy_show(b, (size_t)((const char *)touched - range->home));
        if (!part) {
            appear(b, range);
            npa_looked_at(b, true);
        }
    }
    if (range->work == range->home) {
        npa_memory_beyond(false);
    }
    if (!part && (b == NULL || b->index < 0)) { /* a write, of what requests only read */
        npa_range_break(range);
    }
    npa_unlock();
}

/* On the evaluator's thread: somebody writes into watched memory that requests are to read. */
void npa_serve_write(const void *address)
{
    npa_lock_native();
    npa_watch *w = npa_watch_around(address, (const char *)address + 1);
    bool done = w == NULL || npa_await_watch(w);
    w = npa_watch_around(address, (const char *)address + 1);
    if (!done) {
        no_memory();
    } else if (w != NULL && npa_watch_held(w)) {
        npa_patience before = w->patience;
        if (npa_run_touched()) {
            npa_memory_beyond(false);
            w->patience = before; /* once, though its ends may have been found changed too */
            npa_patience_tried(&w->patience);
        } else {
            no_memory();
        }
    }
    if (w != NULL && !npa_watch_held(w)) {
        npa_watch_open(w);
    }
    npa_unlock();
}

/* A result that could not be shown may be by now; one that lies on a device comes back; what holds
 * nothing yet is shown with any content. */
static int show(PyArrayObject *array, bool write)
{
    npa_lock();
    npa_buffer *b = npa_buffer_of(array);
    const npa_store *from = b != NULL ? npa_copy_store(b) : NULL;
    enum npa_home because = npa_home_because(NPA_HOME_CALL);
    uint64_t before = npa_count.moved.bytes_down;
    bool hidden = b != NULL && b->index < 0 && b->range->work != b->range->home;
    bool there = b == NULL || b->lost == NULL;
    npa_copy_lost(); /* of something else */
    bool shown = there && (!hidden || (npa_range_work(b->range) != NULL && npa_copy_home(b) &&
                                       npa_range_publish(b->range) == 0));
    bool lost = !shown && (!there || npa_copy_lost());
    if (shown && hidden) {
        npa_looked_at(b, false);
        b->fresh = false; /* whoever asked may write there */
    }
    uint64_t moved = npa_count.moved.bytes_down - before;
    npa_home_because(because);
    npa_unlock();
    npa_count_shown(from, write, moved);
    return shown ? 0 : lost ? npa_lost_error(array, b) : npa_shortage_shown(array);
}

static bool away(PyArrayObject *array)
{
    npa_range *range = npa_range_find(PyArray_DATA(array));
    return range != NULL && range->work != range->home;
}

/* It may be written: what reads it has run. */
static int open_sealed(npa_buffer *b)
{
    if (npa_q.nrequests > 0 && b->index >= 0 && npa_flush_recorded() < 0) {
        return -1;
    }
    npa_lock();
    npa_range_unseal(b->range);
    npa_unlock();
    return 0;
}

int npa_touch(PyArrayObject *array, bool write)
{
    if (npa_placeholders > 0 && npa_trace_hooks.section_stop(array, NULL) < 0) {
        return -1;
    }
    if (PyArray_SIZE(array) == 0) {
        return 0; /* nothing of it is read or written */
    }
    npa_buffer *b = npa_buffer_of(array);
    if (npa_flights > 0 && (b != NULL ? npa_flights_let_go(b, write || away(array))
                            : write   ? npa_flights_let_go_of(array)
                                      : 0) < 0) {
        return -1;
    }
    if (away(array) && show(array, write) < 0) {
        return -1;
    }
    if (write && b != NULL && b->range->sealed && open_sealed(b) < 0) {
        return -1;
    }
    if (npa_q.nrequests == 0) {
        return npa_warnings_found() ? npa_issue_warnings() : 0;
    }
    if (b != NULL) {
        bool hidden = b->range->work != b->range->home;
        if (!b->pending && (b->index < 0 || !(write || hidden))) {
            return 0;
        }
        return npa_flush_recorded() < 0 || (away(array) && show(array, write) < 0) ? -1 : 0;
    }
    if (!write) {
        return 0;
    }
    npa_lock();
    bool waits = npa_foreign_waits(array);
    npa_unlock();
    return waits ? npa_flush_recorded() : 0;
}
