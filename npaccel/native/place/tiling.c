/* tiling.c: a kernel whose operands do not fit on its device, in parts that do, one by one.
 *
 * Everything is on the host before and after. A part that the device does not do is the host's.
 * With the lock. */
#include "place/parts.h"

/* Parts whose arrays reach over each other's move bytes several times; oftener than this is the
 * host's. */
enum { MOST_MOVED = 4 };

/* Which axis is cut, and into how much: the way that moves least. False: there is none. */
static bool choose(npa_parts *c)
{
    int band = c->may.band_rank, axes = band + c->may.inner_axes;
    npa_parts best = *c;
    double least = -1, all;
    size_t ignored;
    c->from = c->axis = 0;
    all = (double)npa_parts_bytes(c, npa_parts_extent(c, 0), &ignored);
    /* Inner ones for all of the band, and per point */
    for (int i = 0; i < axes + c->may.inner_axes; i++) {
        c->axis = i < axes ? i : i - c->may.inner_axes, c->from = band <= i && i < axes ? band : 0;
        int64_t n = c->n = npa_parts_most(c);
        if (n == 0 || npa_parts_write_twice(c)) {
            continue;
        }
        int64_t along = (npa_parts_extent(c, c->axis) + n - 1) / n;
        double parts = (double)(npa_parts_points(c, c->from, c->axis) * along);
        double moved = parts * (double)npa_parts_bytes(c, n, &ignored);
        if (moved <= MOST_MOVED * all && (least < 0 || moved < least)) {
            least = moved, best = *c;
        }
    }
    c->axis = best.axis, c->from = best.from, c->n = best.n;
    return least >= 0;
}

/* For a part that the device's driver has no room for. False: it can't be smaller. begun: others
 * are done, so it is the same axis. */
static bool choose_less(npa_parts *c, bool begun)
{
    size_t own = npa_store_own(c->d, c->l);
    npa_store_trim(c->d->store);
    c->room = own + (c->room - own) / 2;
    if (!begun) {
        return choose(c);
    }
    c->n = npa_parts_rounded(c, c->n / 2);
    return c->n > 0;
}

bool npa_writes_over(const npa_queue *q, const npa_access *accesses, int n)
{
    for (int i = 0; i < n * n; i++) {
        const npa_access *to = &accesses[i / n], *from = &accesses[i % n];
        int64_t end = (int64_t)q->buffers[to->buffer]->size;
        if (to->written && from->read && to->buffer == from->buffer &&
            to->low < (from->high < 0 ? end : from->high) &&
            from->low < (to->high < 0 ? end : to->high)) {
            return true;
        }
    }
    return false;
}

static enum npa_ran run_parts(npa_parts *c, npa_run_here *here, void *context)
{
    enum npa_ran ran = NPA_IN_PARTS;
    bool begun = false, there = true;
    for (int64_t before = 0, at = 0; before < npa_parts_points(c, c->from, c->axis);) {
        bool home = false;
        npa_parts_set(c, before, at);
        int32_t error = there ? npa_parts_run(c, &home) : NPA_NO_ROOM;
        if (error == NPA_NO_ROOM && there) {
            npa_parts_leave(c);
            if (choose_less(c, begun)) {
                continue;
            }
            if (!begun) {
                return NPA_HOST_MUST;
            }
        }
        if (error != 0 && error != NPA_NO_ROOM) {
            npa_device_note_failure(c->d, error);
        }
        if (error != 0 && home && npa_writes_over(c->l->q, c->l->accesses, c->d->narrays)) {
            npa_lost_results(c->l->q, c->l->accesses, c->d->narrays, c->d->store);
            return NPA_LOST;
        }
        if (error != 0) { /* and all the others, whose partial results would come over these */
            here(context, npa_parts_words(c, (const char *const *)c->bases), &c->grid);
            there = false, ran = NPA_PARTLY;
        }
        begun = true;
        at = c->high[c->axis];
        if (at == npa_parts_extent(c, c->axis)) {
            before++, at = 0;
        }
    }
    if (c->d->finish != NULL) {
        here(context, npa_parts_words(c, (const char *const *)c->bases), NULL);
    }
    return ran;
}

enum npa_ran npa_tiling_run(npa_device *d, const npa_launch *l, npa_tiling may, npa_run_here *here,
                            void *context)
{
    npa_parts c;
    enum npa_ran ran = NPA_HOST_MUST;
    if (npa_parts_begin(&c, d, l, may)) {
        d->store->launches++; /* whatever lies there may leave */
        if (npa_parts_find_items(&c) && choose(&c) && npa_parts_bring_home(&c)) {
            ran = run_parts(&c, here, context);
        }
    }
    npa_parts_end(&c);
    return ran;
}
