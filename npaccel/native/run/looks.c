/* looks.c: which results appear as soon as they are computed. To show one costs microseconds, and
 * what other processors know of addresses is lost by it; a look at one that is hidden, which nobody
 * announces, costs ten times that. So results are hidden until somebody looks, and requests read
 * them where they are; but where somebody has looked at what an operation made, its next results
 * appear at once: four, and twice as many each time that the one after these is looked at, too. */
#include "run/flush.h"

#include <string.h>

/* Of an operation of the user's, on arrays of about one size. hidden: its latest result is, and
 * nobody has looked at it. */
typedef struct { uint8_t left, span; bool hidden; } looks;

static looks known[1024];

static looks *looks_of(const npa_buffer *b)
{
    uint32_t size = 64 - (uint32_t)__builtin_clzll(b->size | 1);
    return &known[(b->made_at + 61 * size) % (sizeof known / sizeof *known)];
}

bool npa_appears(const npa_buffer *b)
{
    looks *l = looks_of(b);
    bool shown = l->left > 0;
    l->span = l->hidden && !shown ? 0 : l->span;
    l->left -= shown, l->hidden = !shown;
    return shown;
}

/* Whether it lies here and is computed, nothing uses it, and nobody has looked at it. */
static bool is_hidden(const npa_buffer *b)
{
    return b->index < 0 && b->flights == 0 && !b->pending && !b->fresh && b->copy == NULL &&
           b->lost == NULL && npa_range_is_hidden(b->range);
}

/* Who looks at one of many results of an operation, as of a list of them, looks at others, too:
 * those around it in memory that nobody has looked at appear with it. Not so what no operation
 * recorded: another thread may be writing it, behind its address and without the lock. */
static void show_near(const npa_buffer *first, int most)
{
    ptrdiff_t span = (ptrdiff_t)first->range->span;
    for (int i = 2; first->made_at != 0 && i < most + 2; i++) {
        char *home = first->range->home + (i % 2 == 0 ? i / 2 : -(i / 2)) * span;
        npa_range *at = npa_range_find(home);
        const npa_buffer *b = at != NULL && at->home == home ? at->buffer : NULL;
        if (b != NULL && b->made_at == first->made_at && is_hidden(b) &&
            npa_range_publish(at) != 0) {
            return;
        }
    }
}

/* One that is announced costs no more than to show it before. */
void npa_looked_at(const npa_buffer *b, bool unannounced)
{
    enum { FIRST = 4, MOST = 64 };
    looks *l = looks_of(b);
    int before = l->span;
    l->span = before == 0 ? FIRST : before < MOST ? 2 * before : MOST;
    l->left = unannounced ? l->span : l->left, l->hidden = false;
    show_near(b, before);
}

PyObject *npa_forget_looks(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    npa_lock();
    memset(known, 0, sizeof known);
    npa_unlock();
    Py_RETURN_NONE;
}
