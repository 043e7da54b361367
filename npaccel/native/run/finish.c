/* finish.c: requests that have run leave the queue, and their results appear. */
#include "run/run.h"
#include "run/flush.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With the lock, or the GIL: this thread's queue has changed. */
uint64_t npa_change(void)
{
    static _Atomic uint64_t last;
    return npa_q.generation = atomic_fetch_add(&last, 1) + 1;
}

/* The number of a flush to come: no two queues have the same. */
uint64_t npa_next_serial(void)
{
    static uint64_t last; /* of the flush that the recorded requests are for, at first */
    return ++last;
}

static atomic_bool garbage_announced; /* the interpreter will do it by itself */

/* With the GIL, without the lock; objects may die, so anything may run. */
void npa_drop_garbage(void)
{
    atomic_store(&garbage_announced, false);
    if (npa_profiling && npa_is_garbage()) {
        npa_profile_resolve();
    }
    while (npa_is_garbage()) {
        int n;
        npa_lock();
        PyObject **mine = npa_take_garbage(&n);
        for (int i = 0; i < n; i++) {
            npa_program_settle(mine[i]);
        }
        npa_unlock();
        for (int i = 0; i < n; i++) {
            Py_DECREF(mine[i]);
        }
        free(mine);
    }
}

static int drop_garbage(void *unused)
{
    (void)unused;
    npa_drop_garbage();
    return 0;
}

/* Without the GIL: what an evaluation left goes when Python runs next, though the program may never
 * record or evaluate anything again. */
void npa_announce_garbage(void)
{
    if (npa_is_garbage() && Py_IsInitialized() && !atomic_exchange(&garbage_announced, true) &&
        Py_AddPendingCall(drop_garbage, NULL) < 0) {
        atomic_store(&garbage_announced, false); /* too many wait: the next recording does it */
    }
}

/* Before Python 3.13 the interpreter looks for signals and for calls that wait only if the thread
 * that told it last may handle them. So it is told by the main thread, if that has touched: a
 * Ctrl-C that came while it was in the handler, where another thread took it, is seen then, too. */
void npa_touch_served(void)
{
#if PY_VERSION_HEX < 0x030d0000
    if (npa_on_main_thread() && Py_IsInitialized()) {
        Py_AddPendingCall(drop_garbage, NULL); /* or 32 calls wait already */
    }
#else
    npa_announce_garbage();
#endif
}

/* What lay on a device alone can't be had any more. */
void npa_lost_device(const npa_buffer *b)
{
    char text[640];
    const char *why = npa_lost_why(b);
    int size = snprintf(text, sizeof text,
                        "npaccel: an array that is being read was lost with its device%s%s\n",
                        *why ? ": " : "", why);
    if (npa_say(text, (size_t)size)) {
        abort();
    }
}

static bool stays_hidden(const npa_buffer *b)
{
    const npa_range *range = b->range;
    return npa_range_is_hidden(range) && b->copy == NULL &&
           b->lost == NULL && !b->exported && !npa_appears(b);
}

/* Nothing uses the buffer any more; its results appear, or stay hidden until somebody looks. 0, or
 * -1 if they could not. */
static int dequeue(npa_buffer *b)
{
    int status = 0;
    if (b->gone && b->range == NULL) {
        npa_copy_drop(b);
        free(b);
    } else if (b->range == NULL) {
        if (!npa_copy_home(b)) {
            npa_copy_drop(b);
            b->lost = NULL; /* told now; nobody can be kept from looking */
            status = -1;
        }
        npa_drop_later(b->owner);
        npa_foreign_end(b);
    } else if (b->next == b) { /* dead and off the list */
        npa_release(b);
    } else if (b->lost != NULL) {
        if (!npa_lost_hide(b)) {
            npa_lost_device(b);
        }
    } else if (npa_copy_stays(b) || stays_hidden(b)) {
        b->fresh = false;
    } else {
        bool home = npa_copy_home(b);
        b->fresh = home && b->range->work == NULL; /* read before anything was written to it */
        if (!b->fresh && !atomic_load(&b->dead) && !(home && npa_range_publish(b->range) == 0)) {
            status = -1;
        }
    }
    return status;
}

/* Which of the `done` requests that have run wrote the buffer last; they lie there still where none
 * is left behind them. */
static npa_shortage written_by(int buffer, int done, size_t bytes)
{
    for (int i = done - 1; i >= 0 && npa_q.nrequests == 0; i--) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        for (int k = r->nin; k < r->nin + r->nout; k++) {
            if (npa_operand_at(r, k)->buffer == buffer) {
                return npa_shortage_of(&npa_q, i, done);
            }
        }
    }
    return (npa_shortage){.bytes = bytes};
}

/* The first `done` requests have run. Their results appear and they leave the queue, with all that
 * no other one uses. With the lock, perhaps without the GIL. */
int npa_finish_queue(PyObject *program, int done)
{
    int status = 0, kept = 0, before = npa_q.nbuffers;
    npa_q.run.unseen = (npa_shortage){.rule = NULL};
    npa_collect_dead();
    npa_remember(program, done);
    npa_keep_rest(done);
    npa_q.fresh_bytes = 0, npa_q.small = 0;
    for (int i = 0; i < before; i++) {
        npa_buffer *b = npa_q.buffers[i];
        bool made = b->pending && (b->maker == NULL || b->maker == &npa_q);
        b->serial = made ? npa_q.serial : b->serial;
        b->pending &= !made;
        if (b->number < 0) {
            npa_buffer_leave(b);
            npa_q.buffers[i] = NULL;
        }
        if (b->number < 0 && b->index < 0) {
            size_t bytes = b->size;
            int shown = dequeue(b);
            npa_run *r = &npa_q.run;
            r->unseen = shown < 0 && r->unseen.rule == NULL ? written_by(i, done, bytes)
                                                            : r->unseen;
            status |= shown;
            continue;
        }
        b->fresh = b->range != NULL && b->range->work == NULL && b->copy == NULL;
        if (b->number >= 0) {
            npa_q.fresh_bytes += b->fresh && b->next != b ? b->size : 0;
            npa_q.buffers[kept++] = b;
        }
    }
    npa_rest_kept(kept);
    npa_end_scopes(done);
    npa_q.urgent = npa_q.repeatable = false;
    npa_q.unread &= npa_q.nrequests > 0;
    npa_q.serial = npa_next_serial();
    npa_change();
    return status;
}

void npa_finish_first(int done)
{
    bool urgent = npa_q.urgent, repeatable = npa_q.repeatable;
    npa_q.run.moved = npa_count.moved;
    npa_finish_queue(NULL, done);
    npa_q.urgent = urgent && npa_q.nrequests > 0;
    npa_q.repeatable = repeatable && npa_q.nrequests > 0;
}
