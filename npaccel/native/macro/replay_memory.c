/* replay_memory.c: the memory of one run of a replay, on the host and on devices.
 *
 * The buffers of a run are the frame's own, which end with it. Where a step may use a
 * device's own memory, that of an array of ours is that array's own instead, so what lies
 * there stays. */
#include "macro/macro.h"
#include "macro/replay.h"

#include <stdlib.h>

/* With the lock. Own memory that nothing was ever written to appears. */
static bool show(npa_range *range)
{
    npa_buffer *b = range->buffer;
    if (npa_range_work(range) == NULL || !npa_copy_home(b) || npa_range_publish(range) != 0) {
        return false;
    }
    b->fresh = false;
    return true;
}

npa_buffer *npa_frame_buffer(const npa_replay *r, const npa_frame *f, int i)
{
    const npa_buffer_spec *b = &r->buffers[i];
    PyObject *a = !r->moves                      ? NULL
                  : b->kind == NPA_BUFFER_INPUT   ? (PyObject *)f->arrays[b->slot]
                  : b->kind == NPA_BUFFER_OUTSIDE ? b->owner
                  : b->kind == NPA_BUFFER_ROOT    ? f->roots[b->slot] : NULL;
    npa_buffer *own = a != NULL ? npa_buffer_of((PyArrayObject *)a) : NULL;
    return own != NULL && own->base == f->buffers[i].base && own->size >= b->size ? own : NULL;
}

void npa_frame_take_buffers(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; r->moves && i < r->nbuffers; i++) {
        npa_buffer *own = npa_frame_buffer(r, f, i);
        f->q.buffers[i] = own != NULL ? own : &f->buffers[i];
        if (own != NULL && own->unreachable) {
            npa_copy_home(own); /* the device is asked again */
        }
        f->buffers[i].fresh = r->buffers[i].kind >= NPA_BUFFER_TEMPORARY;
    }
}

/* What was looked at, and has a copy, is hidden again, so that the copy can stay. */
static bool hide(npa_buffer *b)
{
    return b->copy != NULL && !b->exported && npa_range_withdraw(b->range) == 0;
}

/* The frame's own buffers end with the run. What they describe comes home before anything is
 * hidden, since it may be a part of that. */
static bool end_buffers(const npa_replay *r, npa_frame *f)
{
    bool good = true;
    for (int i = 0; i < r->nbuffers; i++) {
        npa_buffer *b = &f->buffers[i];
        if (f->q.buffers[i] == b) {
            f->lost |= b->lost != NULL || b->unreachable;
            good &= r->buffers[i].kind >= NPA_BUFFER_TEMPORARY || npa_copy_home(b);
            npa_copy_drop(b);
            b->lost = NULL, b->placed = NULL;
        }
    }
    return good;
}

/* With the lock, after the run: what devices made stays there, hidden, where it can. */
static bool give_buffers(const npa_replay *r, npa_frame *f)
{
    if (!r->moves) {
        return true;
    }
    bool good = end_buffers(r, f);
    for (int i = 0; i < r->nbuffers; i++) {
        npa_buffer *b = f->q.buffers[i];
        f->q.buffers[i] = &f->buffers[i];
        if (b == &f->buffers[i]) {
            continue;
        }
        f->lost |= b->lost != NULL || b->unreachable;
        if (npa_copy_stays(b) || (hide(b) && npa_copy_stays(b))) {
            b->fresh = false;
        } else if (b->lost == NULL && b->copy != NULL) {
            good &= npa_copy_home(b);
        }
    }
    f->lost |= npa_copy_lost();
    return good && !f->lost;
}

int npa_frame_inputs_ready(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; i < r->nbuffers; i++) {
        const npa_buffer_spec *b = &r->buffers[i];
        if (b->kind > NPA_BUFFER_OUTSIDE) {
            continue;
        }
        PyArrayObject *a = b->kind == NPA_BUFFER_INPUT ? f->arrays[b->slot]
                                                      : (PyArrayObject *)b->owner;
        npa_range *range = npa_range_find(PyArray_DATA(a));
        npa_buffer *own = range != NULL ? range->buffer : NULL;
        if (npa_frame_buffer(r, f, i) != NULL && !npa_section_is_index(r->section, i)) {
            if (own->index >= 0 && npa_waiting()) {
                return 0;
            }
        } else if (own == NULL) {
            if (b->written && npa_waiting() && npa_foreign_waits(a)) {
                return 0;
            }
        } else if (npa_waiting() && own->index >= 0) {
            if (own->pending || b->written || range->work != range->home) {
                return 0;
            }
        } else if (range->work != range->home && !show(range)) {
            return -1;
        }
    }
    return 1;
}

bool npa_frame_take_pages(const npa_replay *r, npa_frame *f)
{
    for (int i = 0; i < r->nbuffers; i++) {
        bool root = r->buffers[i].kind == NPA_BUFFER_ROOT, host = f->q.buffers[i] == &f->buffers[i];
        bool written = root || (r->buffers[i].written && r->buffers[i].kind < NPA_BUFFER_ROOT);
        npa_range *range = written ? npa_range_find(f->buffers[i].base) : NULL;
        if (range != NULL) {
            npa_range_unseal(range);
        }
        if (root && host && range != NULL && (f->buffers[i].base = npa_range_work(range)) == NULL) {
            return false;
        }
    }
    if (r->temporary_bytes <= NPA_MOST_KEPT) {
        return true;
    }
    f->large = npa_guard_on ? npa_range_new(r->temporary_bytes) : NULL;
    char *pages = f->large != NULL ? npa_range_work(f->large)
                                   : npa_aligned(4096, r->temporary_bytes);
    if (f->large == NULL) {
        f->temporaries = pages;
    }
    for (int i = 0; pages != NULL && i < r->nbuffers; i++) {
        if (r->buffers[i].kind == NPA_BUFFER_TEMPORARY) {
            f->buffers[i].base = pages + r->buffers[i].at;
        }
    }
    return pages != NULL;
}

bool npa_frame_give_pages(const npa_replay *r, npa_frame *f)
{
    bool good = give_buffers(r, f);
    if (r->temporary_bytes > NPA_MOST_KEPT) {
        if (f->large != NULL) {
            npa_range_free(f->large);
        } else {
            npa_aligned_free(f->temporaries);
        }
        f->large = NULL, f->temporaries = NULL;
    }
    for (int i = 0; i < r->nroots; i++) {
        npa_range *range = npa_range_find(PyArray_DATA((PyArrayObject *)f->roots[i]));
        bool there = range != NULL && npa_copy_stays(range->buffer);
        good &= range == NULL || there || range->work == NULL || show(range);
    }
    return good;
}

npa_store *npa_frame_place(const npa_replay *r, const npa_frame *f)
{
    npa_store *place = NULL;
    if (npa_stores != NULL) {
        npa_lock();
        for (int i = 0; i < r->nmembers && place == NULL; i++) {
            place = npa_store_of_array(f->arrays[r->members[i].slot]);
        }
        for (int i = 0; i < r->nbuffers && place == NULL; i++) {
            const npa_buffer_spec *b = &r->buffers[i];
            PyArrayObject *a = b->kind == NPA_BUFFER_OUTSIDE ? (PyArrayObject *)b->owner : NULL;
            place = a != NULL ? npa_store_of_array(a) : NULL;
        }
        npa_unlock();
    }
    return place;
}
