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
#include "system/system.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#ifndef NPA_SPACE_SHIFT
#define NPA_SPACE_SHIFT 0 /* thread sanitizer has room for little */
#endif

enum { BIG, SMALL, TINY, REGIONS };
enum { CLASSES = 160 };
enum { MOST_OPEN = 64 };
enum { ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };
enum { RW = PROT_READ | PROT_WRITE };

static const unsigned granule_bits[REGIONS] = {21, 16, 12};
/* Sizes of the regions: the first is 2^42 bytes, or less where there is less room; small arrays get
 * an eighth or more of it then. */
enum { BIG_BITS = 42, LEAST_BITS = 26 };
static const unsigned region_bits[REGIONS] = {BIG_BITS, 38, 34};
static const unsigned below_big[REGIONS] = {0, 1, 3};
enum { SHARE = 8 }; /* of what is limited we take one part in so many */
static const size_t region_limit[REGIONS] = {SIZE_MAX, (size_t)2 << 20, (size_t)64 << 10};

/* Below the place where the kernel starts its search for room, in both of its layouts (a third of
 * the address space), and above what allocators are known to ask for by hint. Note [Moves]. */
#ifndef NPA_LOW_END
#define NPA_LOW_END 0x2aaaaaaaa000 /* tests set 0: the slow way */
#endif
static const uintptr_t low_place = (uintptr_t)32 << 40, low_end = NPA_LOW_END;

typedef struct slot slot;

typedef struct {
    slot *older, *newer;
} neighbours;

enum { BY_CLASS, BY_AGE };
typedef enum { NO_PAGES, AT_TWIN, AT_HOME, BORROWED } pages_at;

struct slot {
    npa_range range; /* first: an npa_range is its slot */
    atomic_bool live;
    bool twin_island; /* the twin has a mapping of its own */
    bool ahead;       /* warm: its pages were touched before anybody wanted them */
    bool cold, warm;  /* it is in such a list */
    unsigned char region, class;
    pages_at pages;
    size_t filled; /* bytes from the start that may have pages */
    slot *lender;  /* BORROWED: whose pages `work` are */
    neighbours links[2]; /* while warm; the first while sealed */
};

typedef struct {
    slot *oldest, *newest;
} list;

typedef struct {
    size_t offset, size; /* of the homes in the reservation */
    size_t carved, open; /* bytes given to slots; bytes of twins that are RW */
    _Atomic(slot *) *table;
    slot *cold[CLASSES];
    list warm[CLASSES];
} region;

static struct {
    bool tried, low, limited;
    int error;
    char *base;
    size_t total, page, limit; /* total: bytes of homes, and the distance to the twins */
    region regions[REGIONS];
    list by_age, sealed;
    slot *spare;    /* structs not yet used */
    slot *retired;  /* and of homes that were joined */
    size_t spares, islands;
    slot *open[MOST_OPEN]; /* small ones whose pages have moved on from their home, still mapped */
    int nopen;
    npa_memory_stats stats;
} space;

/* Sizes of ranges that got pages which nothing had used before. */
static struct {
    size_t sizes[NPA_NEW];
    int n;
    time_t since; /* seconds; 0: there was none yet */
    bool over;
} new;

struct npa_homes npa_homes;
bool npa_memory_notes;
atomic_bool npa_memory_lacks;

/* ---------------------------------------------------------------------------------- lists */

static void
push(list *to, slot *s, int which)
{
    s->links[which] = (neighbours){.older = to->newest, .newer = NULL};
    if (to->newest) {
        to->newest->links[which].newer = s;
    }
    else {
        to->oldest = s;
    }
    to->newest = s;
}

static void
drop(list *from, slot *s, int which)
{
    neighbours *at = &s->links[which];
    *(at->older ? &at->older->links[which].newer : &from->oldest) = at->newer;
    *(at->newer ? &at->newer->links[which].older : &from->newest) = at->older;
}

static void
make_cold(slot *s)
{
    slot **head = &space.regions[s->region].cold[s->class];
    s->pages = NO_PAGES;
    s->ahead = false;
    s->cold = true;
    s->filled = 0;
    s->range.next = *head ? &(*head)->range : NULL;
    *head = s;
}

static void
make_warm(slot *s)
{
    push(&space.regions[s->region].warm[s->class], s, BY_CLASS);
    push(&space.by_age, s, BY_AGE);
    s->warm = true;
    space.stats.nursery_bytes += s->filled;
    space.islands += s->pages == AT_HOME;
}

static void
unwarm(slot *s)
{
    drop(&space.regions[s->region].warm[s->class], s, BY_CLASS);
    drop(&space.by_age, s, BY_AGE);
    s->warm = false;
    space.stats.nursery_bytes -= s->filled;
    space.islands -= s->pages == AT_HOME;
}

/* ------------------------------------------------------------------------------- mappings */

static char *
twin_of(const slot *s)
{
    return s->range.home + space.total;
}

/* In huge pages the first touch of memory takes a fifth of the time. Of small ranges, where they
 * are the rule, one would span the pages of many. */
static void
advise(const region *r, char *at, size_t size)
{
    madvise(at, size, r == &space.regions[BIG] ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

/* Where the last huge page of a range would be nearly empty it gets small ones: that is settled by
 * what the first touch finds. */
static void
spare_tail(const slot *s)
{
    size_t huge = (size_t)1 << granule_bits[BIG], used = s->range.size & (huge - 1);
    if (s->region == BIG && used != 0 && huge - used > s->range.size / 8) {
        char *tail = twin_of(s) + (s->range.size - used);
        madvise(tail, huge, MADV_NOHUGEPAGE);
        *(volatile char *)tail = 0;
        madvise(tail, huge, MADV_HUGEPAGE);
    }
}

static char *
place_of(const slot *s)
{
    return s->pages == AT_HOME ? s->range.home : twin_of(s);
}

static void
set_work(slot *s, char *work)
{
    __atomic_store_n(&s->range.work, work, __ATOMIC_RELEASE); /* guard.c reads it unlocked */
}

/* Arrays stand on an address that is no longer ours; going on would give wrong values. */
static _Noreturn void
lost(const char *what)
{
    perror(what);
    abort();
}

/* Fresh memory at a place that is ours: what was there goes in the same step. */
static bool
map_over(char *at, size_t size, int protection)
{
    return mmap(at, size, protection, ANONYMOUS | MAP_FIXED, -1, 0) == at;
}

/* Fill a hole in the reservation; the only other outcome is that somebody else did. */
static void
fill_hole(char *at, size_t size)
{
    if (mmap(at, size, PROT_NONE, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at) {
        lost("npaccel: an array's address was taken by another mapping");
    }
}

static int
move(char *from, char *to, size_t size, int flags)
{
    if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to) == to) {
        return 0;
    }
    int error = errno;
    unsigned char in_core;
    /* The kernel unmaps the target before it can still fail. */
    if (mincore(to, space.page, &in_core) != 0 && errno == ENOMEM) {
        fill_hole(to, size);
    }
    return error;
}

/* Forget a slot's pages: true when it may be used again. */
static bool
discard(slot *s)
{
    char *twin = twin_of(s);
    if (s->pages == AT_HOME && !map_over(s->range.home, s->range.span, PROT_NONE)) {
        return false;
    }
    /* Pages that are locked in memory (mlock) do not go but with their mapping. */
    bool dropped = s->pages == AT_TWIN && madvise(twin, s->range.span, MADV_DONTNEED) == 0;
    if (s->twin_island || (s->pages == AT_TWIN && !dropped)) {
        if (!map_over(twin, s->range.span, RW)) {
            return false;
        }
        advise(&space.regions[s->region], twin, s->range.span); /* as its neighbours */
        space.islands -= s->twin_island;
        s->twin_island = false;
    }
    return true;
}

static int
by_address(const void *a, const void *b)
{
    const slot *x = *(slot *const *)a, *y = *(slot *const *)b;
    return (x->range.home > y->range.home) - (x->range.home < y->range.home);
}

/* Guard the homes that are open: neighbours, which most are, in one step. */
static void
close_open(void)
{
    int n = space.nopen;
    qsort(space.open, (size_t)n, sizeof *space.open, by_address);
    for (int first = 0, next; first < n; first = next) {
        char *low = space.open[first]->range.home, *high = low;
        for (next = first; next < n && space.open[next]->range.home == high; next++) {
            high += space.open[next]->range.span;
        }
        if (map_over(low, (size_t)(high - low), PROT_NONE)) {
            for (int i = first; i < next; i++) {
                make_cold(space.open[i]);
            }
        }
    }
    space.islands -= (size_t)n;
    space.nopen = 0;
}

static void
release(slot *s)
{
    unwarm(s);
    if (discard(s)) {
        make_cold(s); /* else it is never used again: only its address is lost */
    }
}

/* --------------------------------------------------------------------------------- carving */

/* Sizes go in steps of about 1/8: granules 1..8, then eight classes per doubling. */
static unsigned
class_of(size_t granules, size_t *rounded)
{
    if (granules <= 8) {
        *rounded = granules;
        return (unsigned)granules - 1;
    }
    unsigned log = 63 - (unsigned)__builtin_clzll(granules - 1);
    size_t step = (size_t)1 << (log - 3);
    size_t steps = (granules + step - 1) / step; /* 9..16 */
    *rounded = steps * step;
    return 8 * (log - 2) + (unsigned)steps - 9;
}

static bool
have_structs(size_t needed)
{
    if (space.spares < needed) {
        size_t bytes = (size_t)256 << 10; /* never returned: find reads them without a lock */
        void *block = mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED) {
            return false;
        }
        space.spare = block;
        space.spares = bytes / sizeof(slot);
    }
    return true;
}

static slot *
new_struct(void)
{
    slot *s = space.retired;
    if (s != NULL) {
        space.retired = (slot *)s->range.next;
        return s;
    }
    if (!have_structs(1)) {
        return NULL;
    }
    space.spares--;
    return space.spare++;
}

/* Let the first `need` bytes of a region's twins be RW. Grows in doublings. */
static bool
open_twins(region *r, size_t need)
{
    if (need <= r->open) {
        return true;
    }
    size_t grown = r->open < (size_t)64 << 20 ? (size_t)64 << 20 : 2 * r->open;
    grown = grown < need ? need : grown;
    grown = grown > r->size ? r->size : grown;
    char *twins = space.base + space.total + r->offset;
    if (mprotect(twins + r->open, grown - r->open, RW) != 0) {
        return false;
    }
    advise(r, twins + r->open, grown - r->open);
    r->open = grown;
    return true;
}

/* A home at so many bytes into the region. */
static slot *
new_slot(unsigned which, unsigned class, size_t at, size_t span)
{
    region *r = &space.regions[which];
    unsigned bits = granule_bits[which];
    slot *s = new_struct();
    if (s == NULL) {
        return NULL;
    }
    *s = (slot){.range = {.home = space.base + r->offset + at, .span = span},
                .region = (unsigned char)which, .class = (unsigned char)class};
    for (size_t i = at >> bits; i < (at + span) >> bits; i++) {
        atomic_store_explicit(&r->table[i], s, memory_order_release);
    }
    return s;
}

static slot *
carve(unsigned which, unsigned class, size_t span)
{
    region *r = &space.regions[which];
    if (span > r->size - r->carved || !open_twins(r, r->carved + span)) {
        return NULL;
    }
    slot *s = new_slot(which, class, r->carved, span);
    r->carved += s != NULL ? span : 0;
    return s;
}

/* The newest warm slot of the class, or of one at most twice as large. */
static slot *
find_warm(const slot *s)
{
    const region *r = &space.regions[s->region];
    for (unsigned c = s->class; c < CLASSES && c <= s->class + 8u; c++) {
        slot *warm = r->warm[c].newest;
        if (warm && warm->range.span <= 2 * s->range.span) {
            return warm;
        }
    }
    return NULL;
}

static slot *
take_cold(unsigned which, unsigned class)
{
    slot **cold = &space.regions[which].cold[class], *s = *cold;
    if (s != NULL) {
        *cold = (slot *)s->range.next;
        s->cold = false;
    }
    return s;
}

/* A cold home is none any more. */
static void
retire(slot *s)
{
    slot **head = &space.regions[s->region].cold[s->class], *before = NULL;
    for (slot *c = *head; c != s; c = (slot *)c->range.next) {
        before = c;
    }
    if (before != NULL) {
        before->range.next = s->range.next;
    }
    else {
        *head = (slot *)s->range.next;
    }
    s->cold = false;
    s->range.next = space.retired ? &space.retired->range : NULL;
    space.retired = s;
}

/* Homes without pages, from `at` on in one row of so many bytes, make one of `span` bytes and
 * others. */
static slot *
join(unsigned which, unsigned class, size_t at, size_t row, size_t span)
{
    region *r = &space.regions[which];
    unsigned bits = granule_bits[which];
    for (size_t i = at, next; i < at + row; i = next) {
        slot *s = r->table[i >> bits];
        next = i + s->range.span;
        retire(s);
    }
    slot *found = new_slot(which, class, at, span);
    for (size_t i = at + span, size; i < at + row; i += size << bits) {
        size_t left = (at + row - i) >> bits, granules = left;
        unsigned c = class_of(granules, &size);
        while (size > left) { /* sizes go in steps */
            c = class_of(--granules, &size);
        }
        make_cold(new_slot(which, c, i, size << bits));
    }
    return found;
}

/* Whether the homes of a row have given up their pages. */
static bool
give_up(const region *r, unsigned bits, size_t at, size_t row)
{
    bool all = true;
    for (size_t i = at; i < at + row; i += r->table[i >> bits]->range.span) {
        slot *s = r->table[i >> bits];
        if (s->warm) {
            release(s);
        }
        all &= s->cold;
    }
    return all;
}

/* Where homes of other sizes have taken all room: neighbours that nobody uses. */
static slot *
recut(unsigned which, unsigned class, size_t span)
{
    enum { MOST_PARTS = 64 }; /* of which each but the last is more than half of what is left */
    region *r = &space.regions[which];
    unsigned bits = granule_bits[which];
    for (size_t at = 0, row = 0; at + row < r->carved;) {
        slot *s = r->table[(at + row) >> bits];
        size_t next = at + row + s->range.span;
        bool unused = s->cold || s->warm;
        row = next - at;
        if (unused && row >= span && have_structs(MOST_PARTS) && give_up(r, bits, at, row)) {
            return join(which, class, at, row, span);
        }
        if (!unused || row >= span) {
            at = next, row = 0;
        }
    }
    return NULL;
}

/* A home without pages: a used one, a new one, or, where there is no room, one whose pages are
 * given up, at most twice as large, or several of them. */
static slot *
take_home(unsigned which, unsigned class, size_t span)
{
    slot *s = take_cold(which, class);
    s = s != NULL ? s : carve(which, class, span);
    if (s == NULL && which == TINY) {
        close_open();
    }
    for (unsigned c = class; s == NULL && c < CLASSES && c <= class + 8u; c++) {
        slot *warm = space.regions[which].warm[c].oldest;
        if (space.regions[which].cold[c] == NULL && warm != NULL) {
            release(warm);
        }
        s = take_cold(which, c);
    }
    return s != NULL ? s : recut(which, class, span);
}

/* Mappings that there are, or will be when every live range is published. */
static size_t
count_mappings(void)
{
    return 8 * REGIONS + 2 * (space.stats.live_ranges + space.islands);
}

static bool
within_budget(void)
{
    while (count_mappings() + 2 > space.stats.mapping_budget) {
        slot *old = space.by_age.oldest;
        if (space.nopen > 0) {
            close_open();
            continue;
        }
        if (old == NULL) {
            return false;
        }
        release(old);
    }
    return true;
}

/* ------------------------------------------------------------------------------------ init */

/* Reserve homes and twins, the first region of 2^bits bytes, in at most so many bytes. */
static int
reserve(unsigned bits_big, size_t most)
{
    size_t total = 0, align = (size_t)1 << granule_bits[BIG];
    for (int i = 0; i < REGIONS; i++) {
        unsigned bits = bits_big - below_big[i];
        space.regions[i].offset = total;
        space.regions[i].size = (size_t)1 << (bits < region_bits[i] ? bits : region_bits[i]);
        total += space.regions[i].size;
    }
    size_t bytes = 2 * total;
    if (bytes + align > most) {
        return ENOMEM;
    }
    char *at = mmap((void *)low_place, bytes + align, PROT_NONE, ANONYMOUS, -1, 0); /* a hint */
    if (at == MAP_FAILED) {
        return errno;
    }
    space.low = (uintptr_t)at + bytes + align <= low_end;
    space.base = (char *)(((uintptr_t)at + align - 1) & ~(uintptr_t)(align - 1));
    space.total = total;
    return 0;
}

static int
map_tables(void)
{
    for (int i = 0; i < REGIONS; i++) {
        region *r = &space.regions[i];
        size_t bytes = (r->size >> granule_bits[i]) * sizeof *r->table;
        void *table = mmap(NULL, bytes, RW, ANONYMOUS, -1, 0);
        if (table == MAP_FAILED) {
            return errno;
        }
        r->table = table;
    }
    return 0;
}

/* Whether this kernel moves pages as we need (Linux 5.7; some sandboxes never). */
static int
prove_moves(void)
{
    npa_range *probe = npa_range_new(1);
    char *work = probe ? npa_range_work(probe) : NULL;
    if (work == NULL) {
        return ENOMEM;
    }
    *work = 42;
    int error = npa_range_publish(probe);
    if (error == 0 && *probe->home != 42) {
        error = ENOSYS;
    }
    npa_range_free(probe);
    npa_nursery_trim(0);
    return error;
}

static int
start(void)
{
    space.page = (size_t)sysconf(_SC_PAGESIZE);
    if (space.page > (size_t)1 << granule_bits[TINY]) {
        return ENOSYS; /* 16 and 64 KiB pages: homes would share pages */
    }
    npa_nursery_limit((size_t)1 << 30);
    space.stats.mapping_budget = npa_limit_mappings() / 4;
    size_t left = npa_limit_addresses(), most = left == SIZE_MAX ? left : left / SHARE;
    space.limited = left != SIZE_MAX;
    int error = ENOMEM;
    for (unsigned bits = BIG_BITS - NPA_SPACE_SHIFT; error && bits >= LEAST_BITS; bits--) {
        error = reserve(bits, most);
    }
    if (error) {
        return error;
    }
    error = map_tables();
    if (error == 0) {
        space.stats.reserved = 2 * space.total;
        npa_homes = (struct npa_homes){(uintptr_t)space.base, space.total};
        error = prove_moves();
        space.stats.published = space.stats.recycled = space.stats.fresh = 0;
    }
    if (error) {
        munmap(space.base, 2 * space.total);
        space.total = 0;
        npa_homes.bytes = 0;
        space.stats.reserved = 0;
        space.stats.mapping_budget = 0;
    }
    return error;
}

int
npa_memory_init(void)
{
    if (!space.tried) {
        space.tried = true;
        space.error = start();
    }
    return space.error;
}

/* ---------------------------------------------------------------------------------- ranges */

/* Where ranges of so many bytes are: the region, the class and what they span. False: nowhere. */
static bool
find_class(size_t bytes, unsigned *which, unsigned *class, size_t *span)
{
    *which = bytes < region_limit[TINY] ? TINY : bytes < region_limit[SMALL] ? SMALL : BIG;
    unsigned bits = granule_bits[*which];
    if (bytes > space.regions[*which].size || space.total == 0) {
        return false;
    }
    *class = class_of((bytes + ((size_t)1 << bits) - 1) >> bits, span);
    *span <<= bits;
    return true;
}

static npa_range *
make_live(slot *s, size_t bytes)
{
    s->range.size = bytes;
    s->range.buffer = NULL;
    s->range.sealed = false;
    s->range.next = NULL;
    set_work(s, s->pages == AT_HOME ? s->range.home : NULL);
    space.stats.live_ranges++;
    space.stats.live_bytes += bytes;
    atomic_store_explicit(&s->live, true, memory_order_release);
    return &s->range;
}

npa_range *
npa_range_new(size_t bytes)
{
    unsigned which, class;
    size_t span;
    bytes += bytes == 0;
    if (!find_class(bytes, &which, &class, &span) || !within_budget()) {
        return NULL;
    }
    slot *s = take_home(which, class, span);
    return s != NULL ? make_live(s, bytes) : NULL;
}

npa_range *
npa_range_shown(size_t bytes, bool *zero)
{
    unsigned which, class;
    size_t span;
    bytes += bytes == 0;
    *zero = false;
    if (!find_class(bytes, &which, &class, &span) || !within_budget()) {
        return NULL;
    }
    for (slot *s = space.regions[which].warm[class].newest; s != NULL;
         s = s->links[BY_CLASS].older) {
        if (s->pages == AT_HOME) {
            unwarm(s);
            size_t filled = (bytes + space.page - 1) & ~(space.page - 1);
            s->filled = s->filled > filled ? s->filled : filled;
            space.stats.recycled++;
            return make_live(s, bytes);
        }
    }
    npa_range *range = npa_range_new(bytes);
    size_t fresh = space.stats.fresh;
    if (range != NULL && (npa_range_work(range) == NULL || npa_range_publish(range) != 0)) {
        npa_range_free(range);
        return NULL;
    }
    *zero = space.stats.fresh != fresh;
    return range;
}

npa_range *
npa_range_find(const void *p)
{
    size_t offset = (size_t)((uintptr_t)p - (uintptr_t)space.base);
    if (offset >= space.total) {
        return NULL;
    }
    unsigned which = BIG;
    while (offset - space.regions[which].offset >= space.regions[which].size) {
        which++;
    }
    const region *r = &space.regions[which];
    slot *s = atomic_load_explicit(&r->table[(offset - r->offset) >> granule_bits[which]],
                                   memory_order_acquire);
    if (s == NULL || !atomic_load_explicit(&s->live, memory_order_acquire)) {
        return NULL;
    }
    return &s->range;
}

/* ------------------------------------------------------------------------- touched ahead */

static void
note_new(size_t size)
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

int
npa_memory_new(const size_t **sizes)
{
    *sizes = new.sizes;
    return new.n;
}

static char *
take_new(slot *s)
{
    s->pages = AT_TWIN;
    set_work(s, twin_of(s));
    spare_tail(s);
    s->filled = (s->range.size + space.page - 1) & ~(space.page - 1);
    return s->range.work;
}

npa_range *
npa_range_ahead(size_t bytes)
{
    npa_range *range = npa_range_new(bytes);
    if (range != NULL) {
        take_new((slot *)range);
    }
    return range;
}

void
npa_range_lend(npa_range *range)
{
    ((slot *)range)->ahead = true;
    npa_range_free(range);
}

void
npa_nursery_trim_ahead(void)
{
    for (slot *s = space.by_age.oldest, *newer; s != NULL; s = newer) {
        newer = s->links[BY_AGE].newer;
        if (s->ahead) {
            release(s);
        }
    }
}

char *
npa_range_work(npa_range *range)
{
    slot *s = (slot *)range;
    if (range->work) {
        return range->work;
    }
    slot *warm = find_warm(s);
    if (warm) {
        unwarm(warm);
        if (warm->ahead) {
            warm->ahead = false;
            note_new(range->size);
        }
        space.islands += warm->pages == AT_HOME; /* it still is one */
        s->pages = BORROWED;
        s->lender = warm;
        set_work(s, place_of(warm));
        space.stats.recycled++;
    }
    else {
        take_new(s);
        space.stats.fresh++;
        note_new(range->size);
        atomic_store_explicit(&npa_memory_lacks, true, memory_order_relaxed);
    }
    s->filled = (range->size + space.page - 1) & ~(space.page - 1);
    return range->work;
}

/* The pages have moved on from the slot that lent them. */
static void
empty_lender(slot *s)
{
    slot *lender = s->lender;
    s->lender = NULL;
    s->filled = lender->filled > s->filled ? lender->filled : s->filled;
    s->filled = s->filled > s->range.span ? s->range.span : s->filled;
    if (lender->pages == AT_HOME && lender->region == TINY && !lender->twin_island) {
        space.open[space.nopen++] = lender; /* still an island */
        if (space.nopen == MOST_OPEN) {
            close_open();
        }
        return;
    }
    space.islands -= lender->pages == AT_HOME;
    bool moved_all = lender->pages == AT_TWIN && lender->filled <= s->range.span;
    if ((moved_all && !lender->twin_island) || discard(lender)) {
        make_cold(lender);
    }
}

int
npa_range_publish(npa_range *range)
{
    slot *s = (slot *)range;
    if (range->work == range->home) {
        return 0;
    }
    if (range->work == NULL) {
        return EINVAL;
    }
    int error = move(range->work, range->home, range->span, MREMAP_DONTUNMAP);
    if (error) {
        return error;
    }
    set_work(s, range->home);
    if (s->pages == BORROWED) {
        empty_lender(s);
    }
    s->pages = AT_HOME;
    space.stats.published++;
    return 0;
}

static void
set_sealed(slot *s, bool sealed)
{
    __atomic_store_n(&s->range.sealed, sealed, __ATOMIC_RELEASE); /* guard.c reads it unlocked */
    if (sealed) {
        push(&space.sealed, s, BY_CLASS);
        space.stats.sealed++;
    }
    else {
        drop(&space.sealed, s, BY_CLASS);
        space.stats.sealed--;
    }
}

int
npa_range_seal(npa_range *range)
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

static void
allow_writes(char *at, size_t span)
{
    if (mprotect(at, span, RW) != 0) {
        lost("npaccel: cannot open an array's pages");
    }
}

void
npa_range_unseal(npa_range *range)
{
    if (range->sealed) {
        allow_writes(range->home, range->span);
        set_sealed((slot *)range, false);
    }
}

void
npa_range_break(npa_range *range)
{
    space.stats.broken += range->sealed;
    npa_range_unseal(range);
}

void
npa_ranges_unseal(void)
{
    while (space.sealed.newest != NULL) {
        npa_range_unseal(&space.sealed.newest->range);
    }
}

/* Where a hole at home might be given to another thread: close home before the pages leave. */
static int
withdraw_slowly(slot *s)
{
    char *home = s->range.home, *twin = twin_of(s);
    size_t span = s->range.span;
    if (mprotect(home, span, PROT_NONE) != 0) {
        return errno;
    }
    int error = move(home, twin, span, MREMAP_DONTUNMAP);
    if (error) {
        if (mprotect(home, span, s->range.sealed ? PROT_READ : RW) != 0) {
            lost("npaccel: cannot open an array's pages again");
        }
        return error;
    }
    allow_writes(twin, span);
    map_over(home, span, PROT_NONE); /* merges with its neighbours; if not, it is guarded anyway */
    return 0;
}

int
npa_range_withdraw(npa_range *range)
{
    slot *s = (slot *)range;
    if (range->work != range->home) {
        return 0;
    }
    set_work(s, twin_of(s)); /* first: who faults from here on must wait for the caller's lock */
    int error = npa_calls_use(range->home, range->home + range->span) ? EBUSY
                : space.low ? move(range->home, range->work, range->span, 0) : withdraw_slowly(s);
    if (error) {
        set_work(s, range->home);
        return error;
    }
    if (space.low) {
        fill_hole(range->home, range->span);
    }
    if (range->sealed) { /* it took that along */
        allow_writes(range->work, range->span);
        set_sealed(s, false);
    }
    s->pages = AT_TWIN;
    space.islands += !s->twin_island;
    s->twin_island = true;
    return 0;
}

void
npa_range_free(npa_range *range)
{
    slot *s = (slot *)range;
    npa_range_unseal(range);
    atomic_store_explicit(&s->live, false, memory_order_release);
    space.stats.live_ranges--;
    space.stats.live_bytes -= range->size;
    set_work(s, NULL);
    if (s->pages == BORROWED) {
        slot *lender = s->lender;
        s->lender = NULL;
        lender->filled = lender->filled > s->filled ? lender->filled : s->filled;
        space.islands -= lender->pages == AT_HOME; /* counted again as a warm one */
        make_warm(lender);
        s->pages = NO_PAGES;
    }
    if (s->pages == NO_PAGES) {
        if (discard(s)) {
            make_cold(s);
        }
    }
    else {
        make_warm(s);
    }
    npa_nursery_trim(space.limit);
}

bool
npa_range_inherit(npa_range *heir, npa_range *dead)
{
    slot *s = (slot *)heir, *d = (slot *)dead;
    char *work = dead->work;
    if (heir->work || !work || s->region != d->region || s->class != d->class) {
        return false;
    }
    npa_range_unseal(dead);
    slot *lender = d->pages == BORROWED ? d->lender : d;
    lender->filled = lender->filled > d->filled ? lender->filled : d->filled;
    /* As a warm slot's that lends; a borrowed one's is counted */
    space.islands += d->pages == AT_HOME;
    atomic_store_explicit(&d->live, false, memory_order_release);
    space.stats.live_ranges--;
    space.stats.live_bytes -= dead->size;
    set_work(d, NULL);
    if (lender != d) {
        d->lender = NULL;
        d->pages = NO_PAGES;
        if (discard(d)) {
            make_cold(d);
        }
    }
    s->pages = BORROWED;
    s->lender = lender;
    s->filled = (heir->size + space.page - 1) & ~(space.page - 1);
    set_work(s, work);
    space.stats.recycled++;
    return true;
}

void
npa_nursery_limit(size_t bytes)
{
    size_t most = npa_limit_memory() / 8;
    space.limit = bytes < most ? bytes : most;
    npa_nursery_trim(space.limit);
}

void
npa_nursery_trim(size_t keep_bytes)
{
    if (keep_bytes == 0) {
        new.over |= new.n > 0; /* what is new from now on was there before */
        close_open();
    }
    while (space.stats.nursery_bytes > keep_bytes) {
        release(space.by_age.oldest);
    }
}

bool
npa_memory_limited(void)
{
    return space.limited;
}

void
npa_memory_read_stats(npa_memory_stats *out)
{
    *out = space.stats;
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
