/* memory.c: reserved address space, guarded ranges, nursery of recycled pages.
 *
 * One reservation holds, for each of three regions (by size of range), homes and, at the same
 * distance from all of them, twins:
 *
 *     | homes: big, small, tiny (PROT_NONE) | twins: big, small, tiny (RW as far as carved) |
 *
 * A home is what arrays show. Its twin is where its pages are filled. Publishing is one mremap
 * from the twin to the home. A slot (a home, its twin and its npa_range) is carved once, keeps its
 * size class for ever and is recycled through free lists. See Note [Moves] at the end. */
#define _GNU_SOURCE
#include "system/linux/slots.h"

#include <errno.h>
#include <time.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

static const size_t region_limit[REGIONS] = {SIZE_MAX, (size_t)2 << 20, (size_t)64 << 10};

/* Sizes of ranges that got pages which nothing had used before. */
static struct {
    size_t sizes[NPA_NEW];
    int n;
    time_t since; /* seconds; 0: there was none yet */
    bool over;
} new;

bool npa_memory_notes;
atomic_bool npa_memory_lacks;

/* ---------------------------------------------------------------------------------- ranges */

/* Where ranges of so many bytes are: the region, the class and what they span. False: nowhere. */
static bool find_class(size_t bytes, unsigned *which, unsigned *class, size_t *span)
{
    *which = bytes < region_limit[TINY] ? TINY : bytes < region_limit[SMALL] ? SMALL : BIG;
    unsigned bits = granule_bits[*which];
    if (bytes > npa_reservation.regions[*which].room || npa_reservation.total == 0) {
        return false;
    }
    *class = class_of((bytes + ((size_t)1 << bits) - 1) >> bits, span);
    *span <<= bits;
    return true;
}

static npa_range *make_live(slot *s, size_t bytes)
{
    s->range.size = bytes;
    s->range.buffer = NULL;
    s->range.sealed = false;
    s->range.next = NULL;
    set_work(s, s->pages == AT_HOME ? s->range.home : NULL);
    npa_reservation.stats.live_ranges++;
    npa_reservation.stats.live_bytes += bytes;
    atomic_store_explicit(&s->live, true, memory_order_release);
    return &s->range;
}

npa_range *npa_range_new(size_t bytes)
{
    unsigned which, class;
    size_t span;
    bytes += bytes == 0;
    if (!find_class(bytes, &which, &class, &span) || !npa_slots_within_budget(which)) {
        return NULL;
    }
    slot *s = npa_slot_take_home(which, class, span);
    return s != NULL ? make_live(s, bytes) : NULL;
}

npa_range *npa_range_shown(size_t bytes, bool *zero)
{
    unsigned which, class;
    size_t span;
    bytes += bytes == 0;
    *zero = false;
    if (!find_class(bytes, &which, &class, &span)) {
        return NULL;
    }
    for (slot *s = npa_reservation.regions[which].warm[class].newest; s != NULL;
         s = s->links[BY_CLASS].older) {
        if (s->pages == AT_HOME) {
            unwarm(s);
            size_t filled = (bytes + npa_reservation.page - 1) & ~(npa_reservation.page - 1);
            s->filled = s->filled > filled ? s->filled : filled;
            npa_reservation.stats.recycled++;
            return make_live(s, bytes);
        }
    }
    npa_range *range = npa_range_new(bytes);
    size_t fresh = npa_reservation.stats.fresh;
    if (range != NULL && (npa_range_work(range) == NULL || npa_range_publish(range) != 0)) {
        npa_range_free(range);
        return NULL;
    }
    *zero = npa_reservation.stats.fresh != fresh;
    return range;
}

npa_range *npa_range_find(const void *p)
{
    size_t offset = (size_t)((uintptr_t)p - (uintptr_t)npa_reservation.base);
    if (offset >= npa_reservation.total) {
        return NULL;
    }
    unsigned which = BIG;
    while (offset - npa_reservation.regions[which].offset >= npa_reservation.regions[which].size) {
        which++;
    }
    const region *r = &npa_reservation.regions[which];
    if (offset - r->offset >= r->room) {
        return NULL; /* it was given back */
    }
    slot *s = atomic_load_explicit(&r->table[(offset - r->offset) >> granule_bits[which]],
                                   memory_order_acquire);
    if (s == NULL || !atomic_load_explicit(&s->live, memory_order_acquire)) {
        return NULL;
    }
    return &s->range;
}

/* ------------------------------------------------------------------------- touched ahead */

static void note_new(size_t size)
{
    struct timespec now;
    if (!npa_memory_notes || new.over || size < region_limit[TINY]) {
        return;
    }
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    new.since = new.since ? new.since : now.tv_sec;
    new.over = new.n == NPA_NEW || now.tv_sec > new.since + 1;
    if (!new.over) {
        new.sizes[new.n++] = size;
    }
}

int npa_memory_new(const size_t **sizes)
{
    *sizes = new.sizes;
    return new.n;
}

static char *take_new(slot *s)
{
    s->pages = AT_TWIN;
    set_work(s, twin_of(s));
    npa_pages_spare_tail(s);
    s->filled = (s->range.size + npa_reservation.page - 1) & ~(npa_reservation.page - 1);
    return s->range.work;
}

npa_range *npa_range_ahead(size_t bytes)
{
    npa_range *range = npa_range_new(bytes);
    if (range != NULL) {
        take_new((slot *)range);
    }
    return range;
}

void npa_range_lend(npa_range *range)
{
    ((slot *)range)->ahead = true;
    npa_range_free(range);
}

void npa_nursery_trim_ahead(void)
{
    for (slot *s = npa_reservation.by_age.oldest, *newer; s != NULL; s = newer) {
        newer = s->links[BY_AGE].newer;
        if (s->ahead) {
            npa_slot_release(s);
        }
    }
}

void npa_memory_most(size_t bytes)
{
    npa_reservation.limits = bytes > 0;
    npa_reservation.most = bytes > 0 ? bytes : npa_limit_memory() / 10 * 9;
}

bool npa_memory_beyond(bool on)
{
    npa_reservation.beyond = on;
    return npa_reservation.limits;
}

size_t npa_memory_room(void)
{
    size_t most = npa_reservation.most, used = npa_reservation.stats.used_bytes;
    size_t room = most > used ? most - used : 0;
    if (!npa_reservation.limits && room < most / 8) { /* not all that is used need be touched */
        size_t left = npa_limit_free();
        room = room > left ? room : left;
    }
    return room;
}

/* For new pages, of which the nursery and what is read in parts give up as many as there is no room
 * for. */
static bool make_room(size_t bytes)
{
    size_t room = npa_memory_room();
    if (!npa_reservation.limits || npa_reservation.beyond) {
        return true;
    }
    size_t left = bytes <= room ? room - bytes : 0, parts = npa_reservation.stats.part_bytes;
    if (bytes <= room && left < npa_reservation.stats.nursery_bytes + parts) {
        npa_nursery_trim(left > parts ? left - parts : 0);
        npa_parts_trim(left);
    }
    return bytes <= room;
}

char *npa_range_work(npa_range *range)
{
    slot *s = (slot *)range;
    if (range->work) {
        return range->work;
    }
    slot *warm = npa_slot_find_warm(s);
    if (warm) {
        unwarm(warm);
        if (warm->ahead) {
            warm->ahead = false;
            note_new(range->size);
        }
        npa_reservation.islands += warm->pages == AT_HOME; /* it still is one */
        s->pages = BORROWED;
        s->lender = warm;
        set_work(s, place_of(warm));
        npa_reservation.stats.recycled++;
    } else if (!make_room(range->span)) {
        return NULL;
    } else {
        npa_slots_give_smaller(s);
        take_new(s);
        npa_reservation.stats.fresh++;
        note_new(range->size);
        atomic_store_explicit(&npa_memory_lacks, true, memory_order_relaxed);
    }
    s->filled = (range->size + npa_reservation.page - 1) & ~(npa_reservation.page - 1);
    return range->work;
}

/* The pages have moved on from the slot that lent them. */
static void empty_lender(slot *s)
{
    slot *lender = s->lender;
    s->lender = NULL;
    s->filled = lender->filled > s->filled ? lender->filled : s->filled;
    s->filled = s->filled > s->range.span ? s->range.span : s->filled;
    if (lender->pages == AT_HOME && lender->region == TINY && !lender->twin_island) {
        npa_reservation.open[npa_reservation.nopen++] = lender; /* still an island */
        if (npa_reservation.nopen == MOST_OPEN) {
            npa_pages_close_open();
        }
        return;
    }
    npa_reservation.islands -= lender->pages == AT_HOME;
    bool moved_all = lender->pages == AT_TWIN && lender->filled <= s->range.span;
    if ((moved_all && !lender->twin_island) || npa_pages_discard(lender)) {
        make_cold(lender);
    }
}

int npa_range_publish(npa_range *range)
{
    slot *s = (slot *)range;
    if (range->work == range->home) {
        return 0;
    }
    if (range->work == NULL) {
        return EINVAL;
    }
    npa_range_hide_parts(range);
    int error = npa_pages_move(range->work, range->home, range->span, MREMAP_DONTUNMAP);
    if (error) {
        return error;
    }
    set_work(s, range->home);
    if (s->pages == BORROWED) {
        empty_lender(s);
    }
    s->pages = AT_HOME;
    npa_reservation.stats.published++;
    return 0;
}

static void set_sealed(slot *s, bool sealed)
{
    __atomic_store_n(&s->range.sealed, sealed, __ATOMIC_RELEASE); /* guard.c reads it unlocked */
    if (sealed) {
        push(&npa_reservation.sealed, s, BY_CLASS);
        npa_reservation.stats.sealed++;
    } else {
        drop(&npa_reservation.sealed, s, BY_CLASS);
        npa_reservation.stats.sealed--;
    }
}

int npa_range_seal(npa_range *range)
{
    slot *s = (slot *)range;
    if (range->sealed) {
        return 0;
    }
    set_sealed(s, true); /* first: who faults from here on must wait for the caller's lock */
    bool used = npa_calls_use(range->home, range->home + range->span);
    if (!used && mprotect(range->home, range->span, PROT_READ) == 0) {
        return 0;
    }
    set_sealed(s, false);
    return used ? EBUSY : errno;
}

static void allow_writes(char *at, size_t span)
{
    if (mprotect(at, span, RW) != 0) {
        npa_pages_lost("npaccel: cannot open an array's pages");
    }
}

void npa_range_unseal(npa_range *range)
{
    npa_range_hide_parts(range);
    if (range->sealed) {
        allow_writes(range->home, range->span);
        set_sealed((slot *)range, false);
    }
}

void npa_range_break(npa_range *range)
{
    npa_reservation.stats.broken += range->sealed;
    npa_range_unseal(range);
}

void npa_ranges_unseal(void)
{
    while (npa_reservation.sealed.newest != NULL) {
        npa_range_unseal(&npa_reservation.sealed.newest->range);
    }
}

/* Where a hole at home might be given to another thread: close home before the pages leave. */
static int withdraw_slowly(slot *s)
{
    char *home = s->range.home, *twin = twin_of(s);
    size_t span = s->range.span;
    if (mprotect(home, span, PROT_NONE) != 0) {
        return errno;
    }
    int error = npa_pages_move(home, twin, span, MREMAP_DONTUNMAP);
    if (error) {
        if (mprotect(home, span, s->range.sealed ? PROT_READ : RW) != 0) {
            npa_pages_lost("npaccel: cannot open an array's pages again");
        }
        return error;
    }
    allow_writes(twin, span);
    npa_pages_map_over(home, span,
                       PROT_NONE); /* merges with its neighbours; if not, it is guarded anyway */
    return 0;
}

int npa_range_withdraw(npa_range *range)
{
    slot *s = (slot *)range;
    if (range->work != range->home) {
        npa_range_hide_parts(range);
        return 0;
    }
    set_work(s, twin_of(s)); /* first: who faults from here on must wait for the caller's lock */
    int error = npa_calls_use(range->home, range->home + range->span) ? EBUSY
                : npa_reservation.low ? npa_pages_move(range->home, range->work, range->span, 0)
                                      : withdraw_slowly(s);
    if (error) {
        set_work(s, range->home);
        npa_reservation.islands += !s->twin_island;
        s->twin_island = true; /* the kernel may have unmapped it */
        return error;
    }
    if (npa_reservation.low) {
        npa_pages_fill_hole(range->home, range->span);
    }
    if (range->sealed) { /* it took that along */
        allow_writes(range->work, range->span);
        set_sealed(s, false);
    }
    s->pages = AT_TWIN;
    npa_reservation.islands += !s->twin_island;
    s->twin_island = true;
    return 0;
}

void npa_range_free(npa_range *range)
{
    slot *s = (slot *)range;
    npa_range_unseal(range);
    atomic_store_explicit(&s->live, false, memory_order_release);
    npa_reservation.stats.live_ranges--;
    npa_reservation.stats.live_bytes -= range->size;
    set_work(s, NULL);
    if (s->pages == BORROWED) {
        slot *lender = s->lender;
        s->lender = NULL;
        lender->filled = lender->filled > s->filled ? lender->filled : s->filled;
        npa_reservation.islands -= lender->pages == AT_HOME; /* counted again as a warm one */
        make_warm(lender);
        s->pages = NO_PAGES;
    }
    if (s->pages == NO_PAGES) {
        if (npa_pages_discard(s)) {
            make_cold(s);
        }
    } else {
        make_warm(s);
    }
    npa_nursery_trim(npa_reservation.limit);
}

bool npa_range_fits(const npa_range *heir, const npa_range *dead)
{
    const slot *s = (const slot *)heir, *d = (const slot *)dead;
    return heir->work == NULL && s->region == d->region && s->class == d->class;
}

bool npa_range_inherit(npa_range *heir, npa_range *dead)
{
    slot *s = (slot *)heir, *d = (slot *)dead;
    char *work = dead->work;
    if (work == NULL || !npa_range_fits(heir, dead)) {
        return false;
    }
    npa_range_unseal(dead);
    slot *lender = d->pages == BORROWED ? d->lender : d;
    lender->filled = lender->filled > d->filled ? lender->filled : d->filled;
    /* As a warm slot's that lends; a borrowed one's is counted */
    npa_reservation.islands += d->pages == AT_HOME;
    atomic_store_explicit(&d->live, false, memory_order_release);
    npa_reservation.stats.live_ranges--;
    npa_reservation.stats.live_bytes -= dead->size;
    set_work(d, NULL);
    if (lender != d) {
        d->lender = NULL;
        d->pages = NO_PAGES;
        if (npa_pages_discard(d)) {
            make_cold(d);
        }
    }
    s->pages = BORROWED;
    s->lender = lender;
    s->filled = (heir->size + npa_reservation.page - 1) & ~(npa_reservation.page - 1);
    set_work(s, work);
    npa_reservation.stats.recycled++;
    return true;
}

void npa_nursery_limit(size_t bytes)
{
    size_t most = npa_limit_memory() / 8;
    npa_reservation.limit = bytes < most ? bytes : most;
    npa_nursery_trim(npa_reservation.limit);
}

void npa_nursery_trim(size_t keep_bytes)
{
    if (keep_bytes == 0) {
        new.over |= new.n > 0; /* what is new from now on was there before */
        npa_pages_close_open();
    }
    while (npa_reservation.stats.nursery_bytes > keep_bytes) {
        npa_slot_release(npa_reservation.by_age.oldest);
    }
}

void npa_memory_read_stats(npa_memory_stats *out)
{
    *out = npa_reservation.stats;
    out->mappings = count_mappings();
}

/* Note [Moves]
 *
 * Nobody may ever see a page at home between "guarded" and "full". So pages arrive by one mremap,
 * which replaces the guarded mapping under the kernel's own lock. MREMAP_DONTUNMAP leaves the
 * source mapped and empty: the twins' one mapping is not even split, hence a publication costs one
 * mapping (and one for the guarded rest behind it), and neighbours that came from their own twins
 * merge again.
 *
 * A free slot keeps its pages where they are ("warm"), even at home. They are lent to the next
 * range of the class that asks for work pages, and move to its home when it is published; only then
 * are they taken from the lender, whose home is mapped over with guarded memory (homes of a few
 * pages many at a time: nobody shows them, so what they hold until then is no matter). New ranges
 * get cold homes, since most are temporaries that are fused away and never need pages.
 *
 * Withdrawing is harder. DONTUNMAP would leave a readable home full of zeros; closing the home
 * first (mprotect) writes every page-table entry twice, milliseconds for 64 MiB. A plain
 * mremap moves whole page-table pages and leaves a hole, where touching faults as it should, until
 * it is filled. In that moment another thread's mmap could be given the hole. The kernel searches
 * downwards from the stack, or upwards from a third of the address space, so while the reservation
 * lies below a third, a hole in it is its last choice: all other address space would have to
 * be full. If we could not be placed there, the slow way is taken. Taken it is noticed, as the
 * hole is never filled over another mapping, and the process stops.
 *
 * A sealed home is closed to writes as a whole: what is moved must be one mapping, and a sealed
 * home moves as it is. */
