/* divided.c: a step that the host's threads and a device do together.
 *
 *     axis   |host      |host  |h| ... |d|there   |there     |
 *
 * Each takes a part from its end of the outermost axis, as often as it has done one: half of what
 * would be its share of what is left, by the speeds of both, so that parts become smaller towards
 * the middle; and none that the other side would have done sooner, if the device is as late as it
 * was before. A thread of the step's drives the device; the host's threads are driven from here.
 * Which side did what decides no bit, since a part is a range of tasks (parts.c).
 *
 * Where the device has memory of its own, what a part uses moves there and back, which counts as
 * its time. Steps whose data live there are not divided, nor those of which a part would bring home
 * bytes that are the host's. What the device fails at, the host does. With the lock, which is held
 * for the thread, too. */
#include "place/parts.h"

#include <stdlib.h>
#include <string.h>

enum side { HERE, THERE, SIDES };
enum { LEAST_NS = 300000 };   /* of a part: a launch takes a tenth of it */
enum { WORTH_NS = 1000000 };  /* what both would take together */
enum { PROBES = 32 };         /* the part of the whole that shows an unknown side's speed */
enum { LEAST_UNITS = 8 };

int npa_divide;

typedef struct {
    npa_parts there;
    int64_t unit, units; /* indices of the axis that are not divided; how many such there are */
    int64_t most;        /* of these, that the device has room for */
    pthread_mutex_t lock; /* of what follows */
    int64_t low, high;    /* units that nobody has taken */
    bool stopped;
    int64_t done[SIDES], ns[SIDES]; /* units, and what they took */
    int64_t until[SIDES];           /* when it will have done its part; 0: nobody knows */
    double known[SIDES];            /* units a nanosecond, from earlier runs; 0: unknown */
    bool declined[SIDES];           /* it left what there was to the other one */
    double late;                    /* nanoseconds that a part of the device's has taken too long */
    /* The device's: the part at hand, which is the host's if error is not 0; whether its results
     * may have come home in part. */
    int64_t part_low, part_high;
    int32_t error;
    bool home;
    bool begun, overtaken; /* its first part; or the host has taken that over */
} divided;

static double speed_of(const divided *x, enum side side)
{
    return x->done[side] > 0 ? (double)x->done[side] / (double)x->ns[side] : x->known[side];
}

static int64_t clamped(double n, int64_t most)
{
    return n < 1 ? 1 : n > (double)most ? most : (int64_t)n;
}

/* Units that this side takes now, of those that are left; 0: it leaves them to the other one. */
static int64_t part_for(const divided *x, enum side side, int64_t now)
{
    enum side other = side == HERE ? THERE : HERE;
    double mine = speed_of(x, side), theirs = speed_of(x, other);
    int64_t left = x->high - x->low, most = side == THERE && x->most < left ? x->most : left;
    if (left <= 0 || x->stopped) {
        return 0;
    }
    if (mine <= 0) {
        return clamped((double)x->units / PROBES, most);
    }
    double share = theirs > 0 ? mine / (mine + theirs) : 0.5;
    double half = (double)left * (x->declined[other] ? 1 : share / 2);
    int64_t n = clamped(half > mine * LEAST_NS ? half : mine * LEAST_NS, most);
    double busy = x->until[other] > now ? (double)(x->until[other] - now) : 0;
    double takes = (double)n / mine + (side == THERE ? x->late : 0);
    bool sooner = theirs > 0 && !x->declined[other] && takes > busy + (double)left / theirs;
    return sooner ? 0 : n;
}

static bool take(divided *x, enum side side, int64_t *low, int64_t *high)
{
    pthread_mutex_lock(&x->lock);
    int64_t now = npa_clock_ns(), n = part_for(x, side, now);
    *low = side == HERE ? x->low : x->high - n, *high = *low + n;
    *(side == HERE ? &x->low : &x->high) = side == HERE ? *high : *low;
    double speed = speed_of(x, side);
    x->declined[side] = n == 0;
    x->until[side] = n > 0 && speed > 0 ? now + (int64_t)((double)n / speed) : 0;
    pthread_mutex_unlock(&x->lock);
    return n > 0;
}

static void note(divided *x, enum side side, int64_t units, int64_t began)
{
    pthread_mutex_lock(&x->lock);
    int64_t took = npa_clock_ns() - began + 1;
    double speed = speed_of(x, side), late = (double)took - (double)units / speed;
    x->late = side == THERE && speed > 0 && late > x->late ? late : x->late;
    x->done[side] += units, x->ns[side] += took;
    pthread_mutex_unlock(&x->lock);
}

/* The part from one unit to another one is at hand. */
static void set(const divided *x, npa_parts *c, int64_t low, int64_t high)
{
    c->n = (high - low) * x->unit;
    npa_parts_set(c, 0, low * x->unit);
}

/* The first part that the device has: whether who asks is to do it. A thread that is new may have
 * to wait for a processor until the host has done all else; then it is the host's. But where the
 * device's speed is to be seen. */
static bool claims(divided *x, enum side side)
{
    pthread_mutex_lock(&x->lock);
    bool mine = !x->begun && !x->overtaken && (side == THERE || x->known[THERE] > 0);
    *(side == THERE ? &x->begun : &x->overtaken) |= mine;
    pthread_mutex_unlock(&x->lock);
    return mine;
}

/* The device's thread, which has its first part. */
static void *drive(void *context)
{
    divided *x = context;
    if (!claims(x, THERE)) {
        return NULL;
    }
    do {
        int64_t began = npa_clock_ns();
        set(x, &x->there, x->part_low, x->part_high);
        x->home = false;
        x->error = npa_parts_run(&x->there, &x->home);
        if (x->error == 0) {
            note(x, THERE, x->part_high - x->part_low, began);
        }
    } while (x->error == 0 && take(x, THERE, &x->part_low, &x->part_high));
    return NULL;
}

/* ----------------------------------------------------------------------- what may be divided */

/* Whether parts bring home nothing but what they write: no array that is written lies between what
 * another part writes, or a part of it is used by another array in another way. */
static bool writes_apart(const npa_parts *c)
{
    for (int k = 0; k < c->d->narrays; k++) {
        const npa_access *a = &c->l->accesses[k];
        const int64_t *at = npa_parts_place(c, k);
        int64_t low, high, step = at[1 + c->axis] < 0 ? -at[1 + c->axis] : at[1 + c->axis];
        if (!a->written || !a->looped) {
            continue;
        }
        npa_parts_span(c, k, &low, &high);
        for (int j = 0; j < c->d->narrays; j++) {
            const npa_access *b = &c->l->accesses[j];
            bool alike = c->items[j] == c->items[k] &&
                         memcmp(npa_parts_place(c, j), at, 8 * (size_t)(c->d->rank + 1)) == 0;
            if (b->buffer == a->buffer && !alike &&
                (c->items[j] == 0 || (b->low < a->high && a->low < b->high))) {
                return false;
            }
        }
        if (high - low > step * (c->high[c->axis] - c->low[c->axis])) {
            return false;
        }
    }
    return true;
}

/* Whether what the step uses is at home, and is to stay there. */
static bool lives_here(const npa_launch *l, int narrays)
{
    for (int k = 0; k < narrays; k++) {
        const npa_buffer *b = l->q->buffers[l->accesses[k].buffer];
        if (b->copy != NULL || b->placed != NULL || b->lost != NULL || b->inherited != NULL) {
            return false;
        }
    }
    return true;
}

/* The outermost axis that has something to divide: before it there are only axes of one index, and
 * the band where it is an inner one. */
static bool choose(divided *x)
{
    npa_parts *c = &x->there;
    int band = c->may.band_rank;
    for (int axis = 0; axis < band + c->may.inner_axes; axis++) {
        bool inner = axis >= band;
        int64_t n = npa_parts_extent(c, axis);
        x->unit = inner ? c->may.step : 1, x->units = (n + x->unit - 1) / x->unit;
        c->from = c->axis = axis;
        /* What an inner axis leaves for each point of the band does not lie together */
        bool together = c->d->host_memory || c->d->finish == NULL ||
                        npa_parts_points(c, 0, band) == 1;
        bool outermost = inner ? npa_parts_points(c, band, axis) == 1 && together
                               : npa_parts_points(c, 0, axis) == 1;
        if (x->units >= LEAST_UNITS && outermost) {
            c->n = x->unit;
            return npa_parts_points(c, 0, c->d->rank) > 0 && !npa_parts_write_twice(c);
        }
    }
    return false;
}

/* What a device with memory of its own needs; false: it can't be. */
static bool prepare(divided *x)
{
    npa_parts *c = &x->there;
    int axis = c->axis;
    x->most = x->units;
    if (c->d->host_memory) {
        return true;
    }
    if (!lives_here(c->l, c->d->narrays) || !npa_parts_find_items(c)) {
        return false;
    }
    c->from = c->axis = axis;
    set(x, c, 0, 1);
    c->d->store->launches++; /* whatever lies there may leave */
    x->most = writes_apart(c) ? npa_parts_most(c) / x->unit : 0;
    return x->most > 0 && npa_parts_bring_home(c);
}

/* What is known of the speeds; now and then it is forgotten, as they may have changed. False: it
 * would take too little. */
static bool recall(divided *x, const npa_shares *shares)
{
    bool anew = (shares->runs & (shares->runs - 1)) == 0;
    double both = shares->speeds[HERE] + shares->speeds[THERE];
    x->late = anew ? 0 : shares->late / 2;
    for (int side = 0; side < SIDES; side++) {
        x->known[side] = anew ? 0 : shares->speeds[side] * (double)x->units;
    }
    return shares->speeds[HERE] <= 0 || shares->speeds[THERE] <= 0 || both * WORTH_NS < 1;
}

static void keep(const divided *x, npa_shares *shares)
{
    for (int side = 0; side < SIDES; side++) {
        if (x->done[side] > 0) {
            shares->speeds[side] = speed_of(x, side) / (double)x->units;
        }
    }
    shares->runs++, shares->late = x->late;
    shares->there = (double)x->done[THERE] / (double)x->units;
}

/* ------------------------------------------------------------------------------------ running */

/* The host's side. */
typedef struct {
    npa_parts parts;
    npa_run_here *run;
    void *context;
} own_side;

/* False: it was stopped. */
static bool run_own(const divided *x, own_side *own, int64_t low, int64_t high)
{
    if (low >= high) {
        return true;
    }
    set(x, &own->parts, low, high);
    return own->run(own->context, own->parts.words, &own->parts.grid);
}

static void run_timed(divided *x, own_side *own, int64_t low, int64_t high)
{
    int64_t began = npa_clock_ns();
    if (run_own(x, own, low, high)) {
        note(x, HERE, high - low, began);
        return;
    }
    pthread_mutex_lock(&x->lock);
    x->stopped = true;
    pthread_mutex_unlock(&x->lock);
}

/* Until nothing is left for either. */
static void run_both(divided *x, own_side *own)
{
    pthread_t thread;
    int64_t low, high;
    bool some = take(x, THERE, &x->part_low, &x->part_high);
    bool started = some && npa_thread_start(&thread, drive, x, 0) == 0;
    if (some && !started) {
        x->error = NPA_NO_ROOM;
    }
    while (!x->stopped && take(x, HERE, &low, &high)) {
        run_timed(x, own, low, high);
    }
    if (started && !x->stopped && claims(x, HERE)) {
        run_timed(x, own, x->part_low, x->part_high);
    }
    if (started) {
        pthread_join(thread, NULL);
    }
}

/* What the device failed at, what nobody has done, and what comes after all parts. */
static enum npa_ran end(divided *x, own_side *own, const npa_launch *l)
{
    npa_device *d = x->there.d;
    if (x->error != 0 && x->error != NPA_NO_ROOM) {
        npa_device_note_failure(d, x->error);
    }
    if (x->error != 0 && x->home && npa_writes_over(l->q, l->accesses, d->narrays)) {
        npa_lost_results(l->q, l->accesses, d->narrays, d->store);
        return NPA_LOST;
    }
    if (x->stopped || (x->error != 0 && !run_own(x, own, x->part_low, x->part_high)) ||
        !run_own(x, own, x->low, x->high)) {
        return NPA_STOPPED;
    }
    if (d->finish != NULL) {
        own->run(own->context, own->parts.words, NULL);
    }
    return x->error != 0 ? NPA_PARTLY : NPA_DIVIDED;
}

static enum npa_ran run(divided *x, own_side *own, const npa_launch *l, npa_shares *shares)
{
    const int64_t *words =
        x->there.d->host_memory
            ? l->words
            : npa_parts_words(&x->there, (const char *const *)x->there.bases);
    memcpy(own->parts.words, words, 8 * (size_t)x->there.d->nwords);
    own->parts.from = own->parts.axis = x->there.axis;
    x->high = x->units;
    run_both(x, own);
    for (int i = 0; i < l->nslots; i++) {
        l->flags[i] |= x->there.l->flags[i];
    }
    keep(x, shares);
    return end(x, own, l);
}

enum npa_ran npa_divided_run(npa_device *d, const npa_launch *l, npa_tiling may,
                             npa_run_here *here, void *context, npa_shares *shares)
{
    divided x = {.lock = PTHREAD_MUTEX_INITIALIZER};
    own_side own = {.run = here, .context = context};
    npa_launch there = *l;
    enum npa_ran ran = NPA_HOST_MUST;
    there.flags = calloc((size_t)l->nslots + 1, sizeof *there.flags);
    bool ready = npa_parts_begin(&x.there, d, &there, may);
    ready &= npa_parts_begin(&own.parts, d, l, may) && there.flags != NULL;
    if (ready && choose(&x) && recall(&x, shares) && prepare(&x)) {
        ran = run(&x, &own, l, shares);
    }
    npa_parts_end(&x.there), npa_parts_end(&own.parts);
    free(there.flags);
    return ran;
}
