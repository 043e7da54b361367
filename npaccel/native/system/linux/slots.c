/* slots.c: homes of ranges: carved once, and used again; which of them are cold, or warm. */
#define _GNU_SOURCE
#include "system/linux/slots.h"

void npa_slot_release(slot *s)
{
    unwarm(s);
    if (npa_pages_discard(s)) {
        make_cold(s); /* else it is never used again: only its address is lost */
    }
}

static bool have_structs(size_t needed)
{
    if (npa_reservation.spares < needed) {
        size_t bytes = (size_t)256 << 10; /* never returned: find reads them without a lock */
        void *made = mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (made == MAP_FAILED) {
            return false;
        }
        npa_reservation.spare = made;
        npa_reservation.spares = bytes / sizeof(slot);
    }
    return true;
}

static slot *new_struct(void)
{
    slot *s = npa_reservation.retired;
    if (s != NULL) {
        npa_reservation.retired = (slot *)s->range.next;
        return s;
    }
    if (!have_structs(1)) {
        return NULL;
    }
    npa_reservation.spares--;
    return npa_reservation.spare++;
}

/* Let the first `need` bytes of a region's twins be RW. Grows in doublings. */
static bool open_twins(region *r, size_t need)
{
    if (need <= r->open) {
        return true;
    }
    size_t grown = r->open < (size_t)64 << 20 ? (size_t)64 << 20 : 2 * r->open;
    grown = grown < need ? need : grown;
    grown = grown > r->room ? r->room : grown;
    char *twins = npa_reservation.base + npa_reservation.total + r->offset;
    if (mprotect(twins + r->open, grown - r->open, RW) != 0) {
        return false;
    }
    npa_pages_advise(r, twins + r->open, grown - r->open);
    r->open = grown;
    return true;
}

/* A home at so many bytes into the region. */
static slot *new_slot(unsigned which, unsigned class, size_t at, size_t span)
{
    region *r = &npa_reservation.regions[which];
    unsigned bits = granule_bits[which];
    slot *s = new_struct();
    if (s == NULL) {
        return NULL;
    }
    *s = (slot){.range = {.home = npa_reservation.base + r->offset + at, .span = span},
                .region = (unsigned char)which,
                .class = (unsigned char)class};
    for (size_t i = at >> bits; i < (at + span) >> bits; i++) {
        atomic_store_explicit(&r->table[i], s, memory_order_release);
    }
    return s;
}

static slot *carve(unsigned which, unsigned class, size_t span)
{
    region *r = &npa_reservation.regions[which];
    if (span > r->room - r->carved || !open_twins(r, r->carved + span)) {
        return NULL;
    }
    slot *s = new_slot(which, class, r->carved, span);
    r->carved += s != NULL ? span : 0;
    return s;
}

slot *npa_slot_find_warm(const slot *s)
{
    const region *r = &npa_reservation.regions[s->region];
    for (unsigned c = s->class; c < CLASSES && c <= s->class + 8u; c++) {
        slot *warm = r->warm[c].newest;
        if (warm && warm->range.span <= 2 * s->range.span) {
            return warm;
        }
    }
    return NULL;
}

enum { NEVER, ONCE, NEEDED_AGAIN };

/* The classes that could have lent to this one. */
static void note_needed(region *r, unsigned class)
{
    for (unsigned c = class; c < CLASSES && c <= class + 8u; c++) {
        r->given[c] = r->given[c] == NEVER ? NEVER : NEEDED_AGAIN;
    }
}

void npa_slots_give_smaller(const slot *s)
{
    region *r = &npa_reservation.regions[s->region];
    if (s->region != BIG) {
        return;
    }
    note_needed(r, s->class);
    size_t given = 0;
    for (unsigned c = s->class; c-- > 0 && given < s->range.size;) {
        slot *old = r->given[c] == NEEDED_AGAIN ? NULL : r->warm[c].oldest;
        for (slot *newer; old != NULL && given < s->range.size; old = newer) {
            newer = old->links[BY_CLASS].newer;
            if (!old->ahead) {
                given += old->filled;
                r->given[c] = ONCE;
                npa_slot_release(old);
            }
        }
    }
}

static slot *take_cold(unsigned which, unsigned class)
{
    slot **cold = &npa_reservation.regions[which].cold[class], *s = *cold;
    if (s != NULL) {
        *cold = (slot *)s->range.next;
        s->cold = false;
    }
    return s;
}

/* A cold home is none any more. */
static void retire(slot *s)
{
    slot **head = &npa_reservation.regions[s->region].cold[s->class], *before = NULL;
    for (slot *c = *head; c != s; c = (slot *)c->range.next) {
        before = c;
    }
    if (before != NULL) {
        before->range.next = s->range.next;
    } else {
        *head = (slot *)s->range.next;
    }
    s->cold = false;
    s->range.next = npa_reservation.retired ? &npa_reservation.retired->range : NULL;
    npa_reservation.retired = s;
}

/* Homes without pages, from `at` on in one row of so many bytes, make one of `span` bytes and
 * others. */
static slot *join(unsigned which, unsigned class, size_t at, size_t row, size_t span)
{
    region *r = &npa_reservation.regions[which];
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
static bool give_up(const region *r, unsigned bits, size_t at, size_t row)
{
    bool all = true;
    for (size_t i = at; i < at + row; i += r->table[i >> bits]->range.span) {
        slot *s = r->table[i >> bits];
        if (s->warm) {
            npa_slot_release(s);
        }
        all &= s->cold;
    }
    return all;
}

/* Where homes of other sizes have taken all room: neighbours that nobody uses. */
static slot *recut(unsigned which, unsigned class, size_t span)
{
    enum { MOST_PARTS = 64 }; /* of which each but the last is more than half of what is left */
    region *r = &npa_reservation.regions[which];
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

slot *npa_slot_take_home(unsigned which, unsigned class, size_t span)
{
    slot *s = take_cold(which, class);
    s = s != NULL ? s : carve(which, class, span);
    if (s == NULL && which == TINY) {
        npa_pages_close_open();
    }
    for (unsigned c = class; s == NULL && c < CLASSES && c <= class + 8u; c++) {
        slot *warm = npa_reservation.regions[which].warm[c].oldest;
        if (npa_reservation.regions[which].cold[c] == NULL && warm != NULL) {
            npa_slot_release(warm);
        }
        s = take_cold(which, c);
    }
    return s != NULL ? s : recut(which, class, span);
}

/* Tiny ranges, of which there may be many, leave room for others and for warm ones: without these
 * all memory would be new each time. */
bool npa_slots_within_budget(unsigned which)
{
    size_t budget = npa_reservation.stats.mapping_budget;
    if (which == TINY && count_live() + 2 > budget - budget / 8) {
        return false;
    }
    while (count_mappings() + 2 > budget) {
        slot *old = npa_reservation.by_age.oldest;
        if (npa_reservation.nopen > 0) {
            npa_pages_close_open();
            continue;
        }
        if (old == NULL) {
            return false;
        }
        npa_slot_release(old);
    }
    return true;
}
