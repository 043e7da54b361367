/* slots.h: the reservation, and what memory.c's files share of it.
 *
 * memory.c       ranges, as others see them
 * slots.c        homes: which are free, warm, or carved; how many mappings there may be
 * pages.c        mappings: where pages are, and how they move
 * parts.c        parts of what is hidden, that may be read
 * reservation.c  the address space is reserved
 *
 * Everything but npa_range_find needs the caller's lock. */
#ifndef NPA_SLOTS_H
#define NPA_SLOTS_H

#include "system/linux/linux.h"

#include <sys/mman.h>

enum { BIG, SMALL, TINY, REGIONS };
enum { CLASSES = 160 };
enum { MOST_OPEN = 64 };
enum { ANONYMOUS = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE };
enum { RW = PROT_READ | PROT_WRITE };

static const unsigned granule_bits[REGIONS] = {21, 16, 12};

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
    size_t room;         /* of these are still reserved */
    size_t carved, open; /* bytes given to slots; bytes of twins that are RW */
    _Atomic(slot *) *table;
    slot *cold[CLASSES];
    list warm[CLASSES];
    unsigned char given[CLASSES]; /* BIG: see npa_slots_give_smaller */
} region;

struct npa_reservation {
    bool tried, low, limited;
    int error;
    char *base;
    size_t total, page, limit; /* total: bytes of homes, and the distance to the twins */
    size_t most;               /* bytes of pages that ranges and the nursery are to have */
    bool limits, beyond;       /* there are no more; but for the moment there are */
    region regions[REGIONS];
    list by_age, sealed;
    slot *spare;    /* structs not yet used */
    slot *retired;  /* and of homes that were joined */
    size_t spares, islands, shown;
    slot *open[MOST_OPEN]; /* small ones whose pages have moved on from their home, still mapped */
    int nopen;
    npa_memory_stats stats;
};
extern struct npa_reservation npa_reservation;

/* --------------------------------------------------------------------------------------- lists */

static inline void push(list *to, slot *s, int which)
{
    s->links[which] = (neighbours){.older = to->newest, .newer = NULL};
    if (to->newest) {
        to->newest->links[which].newer = s;
    } else {
        to->oldest = s;
    }
    to->newest = s;
}

static inline void drop(list *from, slot *s, int which)
{
    neighbours *at = &s->links[which];
    *(at->older ? &at->older->links[which].newer : &from->oldest) = at->newer;
    *(at->newer ? &at->newer->links[which].older : &from->newest) = at->older;
}

static inline void make_cold(slot *s)
{
    slot **head = &npa_reservation.regions[s->region].cold[s->class];
    s->pages = NO_PAGES;
    s->ahead = false;
    s->cold = true;
    s->filled = 0;
    s->range.next = *head ? &(*head)->range : NULL;
    *head = s;
}

static inline void make_warm(slot *s)
{
    push(&npa_reservation.regions[s->region].warm[s->class], s, BY_CLASS);
    push(&npa_reservation.by_age, s, BY_AGE);
    s->warm = true;
    npa_reservation.stats.nursery_bytes += s->filled;
    npa_reservation.islands += s->pages == AT_HOME;
}

static inline void unwarm(slot *s)
{
    drop(&npa_reservation.regions[s->region].warm[s->class], s, BY_CLASS);
    drop(&npa_reservation.by_age, s, BY_AGE);
    s->warm = false;
    npa_reservation.stats.nursery_bytes -= s->filled;
    npa_reservation.islands -= s->pages == AT_HOME;
}

static inline char *twin_of(const slot *s) { return s->range.home + npa_reservation.total; }

static inline char *place_of(const slot *s)
{
    return s->pages == AT_HOME ? s->range.home : twin_of(s);
}

static inline void set_work(slot *s, char *work)
{
    size_t *used = &npa_reservation.stats.used_bytes;
    *used += work != NULL && s->range.work == NULL ? s->range.span : 0;
    *used -= work == NULL && s->range.work != NULL ? s->range.span : 0;
    npa_reservation.shown += work == s->range.home;
    npa_reservation.shown -= s->range.work == s->range.home;
    __atomic_store_n(&s->range.work, work, __ATOMIC_RELEASE); /* guard.c reads it unlocked */
}

/* Sizes go in steps of about 1/8: granules 1..8, then eight classes per doubling. */
static inline unsigned class_of(size_t granules, size_t *rounded)
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

/* Mappings of what is live. What is hidden has none yet and is counted once: ranges that are shown
 * one after the other merge. */
static inline size_t count_live(void)
{
    return npa_reservation.stats.live_ranges + npa_reservation.shown;
}
static inline size_t count_mappings(void)
{
    return 8 * REGIONS + count_live() + 2 * npa_reservation.islands;
}

/* -------------------------------------------------------------------------------------- pages.c */

/* In huge pages the first touch of memory takes a fifth of the time. Of small ranges, where they
 * are the rule, one would span the pages of many. */
void npa_pages_advise(const region *r, char *at, size_t size);
/* Where the last huge page of a range would be nearly empty it gets small ones: that is settled by
 * what the first touch finds. */
void npa_pages_spare_tail(const slot *s);
/* Arrays stand on an address that is no longer ours; going on would give wrong values. */
_Noreturn void npa_pages_lost(const char *what);
/* Fresh memory at a place that is ours: what was there goes in the same step. */
bool npa_pages_map_over(char *at, size_t size, int protection);
/* Fill a hole in the reservation. Where there is no address space left it stays one: touching it
 * faults as well. The only other outcome is that somebody else did. */
void npa_pages_fill_hole(char *at, size_t size);
int npa_pages_move(char *from, char *to, size_t size, int flags);
/* Forget a slot's pages: true when it may be used again. */
bool npa_pages_discard(slot *s);
/* Guard the homes that are open: neighbours, which most are, in one step. */
void npa_pages_close_open(void);

/* -------------------------------------------------------------------------------------- slots.c */

void npa_slot_release(slot *s);
/* The newest warm slot of the class, or of one at most twice as large. */
slot *npa_slot_find_warm(const slot *s);
/* New pages are needed for a slot: smaller ranges' that are warm go back to the system first, as
 * many, so that it has them to give. Where the system runs under a host that fills memory at its
 * first use, pages that nothing has used yet take twenty times as long. A class whose pages are
 * needed again keeps them from then on, so no loop gives its pages away each time. */
void npa_slots_give_smaller(const slot *s);
/* A home without pages: a used one, a new one, or, where there is no room, one whose pages are
 * given up, at most twice as large, or several of them. */
slot *npa_slot_take_home(unsigned which, unsigned class, size_t span);
bool npa_slots_within_budget(unsigned which);

#endif
