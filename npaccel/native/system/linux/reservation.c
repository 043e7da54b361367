/* reservation.c: address space for homes and twins is reserved, and it is tried whether pages
 * move. */
#define _GNU_SOURCE
#include "system/linux/slots.h"

#include <errno.h>
#include <unistd.h>

#ifndef NPA_SPACE_SHIFT
#define NPA_SPACE_SHIFT 0 /* thread sanitizer has room for little */
#endif

/* Sizes of the regions: the first is 2^42 bytes, or less where there is less room; small arrays get
 * an eighth or more of it then. */
enum { BIG_BITS = 42, LEAST_BITS = 26 };
static const unsigned region_bits[REGIONS] = {BIG_BITS, 38, 34};
static const unsigned below_big[REGIONS] = {0, 1, 3};
enum { SHARE = 8 }; /* of what is limited we take one part in so many */

/* Below the place where the kernel starts its search for room, in both of its layouts (a third of
 * the address space), and above what allocators are known to ask for by hint. Note [Moves]. */
#ifndef NPA_LOW_END
#define NPA_LOW_END 0x2aaaaaaaa000 /* tests set 0: the slow way */
#endif
static const uintptr_t low_place = (uintptr_t)32 << 40, low_end = NPA_LOW_END;

struct npa_reservation npa_reservation;
struct npa_homes npa_homes;

static size_t size_of(int region, unsigned bits_big)
{
    unsigned bits = bits_big - below_big[region];
    return (size_t)1 << (bits < region_bits[region] ? bits : region_bits[region]);
}

/* Reserve homes and twins, the first region of 2^bits bytes, in at most so many bytes. */
static int reserve(unsigned bits_big, size_t most)
{
    size_t total = 0, align = (size_t)1 << granule_bits[BIG];
    for (int i = 0; i < REGIONS; i++) {
        region *r = &npa_reservation.regions[i];
        r->offset = total;
        r->size = r->room = size_of(i, bits_big);
        total += r->size;
    }
    size_t bytes = 2 * total;
    if (bytes + align > most) {
        return ENOMEM;
    }
    char *at = mmap((void *)low_place, bytes + align, PROT_NONE, ANONYMOUS, -1, 0); /* a hint */
    if (at == MAP_FAILED) {
        return errno;
    }
    npa_reservation.low = (uintptr_t)at + bytes + align <= low_end;
    npa_reservation.base = (char *)(((uintptr_t)at + align - 1) & ~(uintptr_t)(align - 1));
    npa_reservation.total = total;
    return 0;
}

static size_t table_bytes(int i, size_t homes)
{
    size_t page = npa_reservation.page;
    return ((homes >> granule_bits[i]) * sizeof(*(region){0}.table) + page - 1) & ~(page - 1);
}

static int map_tables(void)
{
    for (int i = 0; i < REGIONS; i++) {
        region *r = &npa_reservation.regions[i];
        size_t bytes = table_bytes(i, r->size);
        void *table = mmap(NULL, bytes, RW, ANONYMOUS, -1, 0);
        if (table == MAP_FAILED) {
            return errno;
        }
        r->table = table;
    }
    return 0;
}

/* Whether this kernel moves pages as we need (Linux 5.7; some sandboxes never). */
static int prove_moves(void)
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

static int start(void)
{
    npa_reservation.page = (size_t)sysconf(_SC_PAGESIZE);
    if (npa_reservation.page > (size_t)1 << granule_bits[TINY]) {
        return ENOSYS; /* 16 and 64 KiB pages: homes would share pages */
    }
    npa_nursery_limit((size_t)1 << 30);
    npa_reservation.stats.mapping_budget = npa_limit_mappings() / 4;
    size_t left = npa_limit_addresses(), most = left == SIZE_MAX ? left : left / SHARE;
    npa_reservation.limited = left != SIZE_MAX;
    int error = ENOMEM;
    for (unsigned bits = BIG_BITS - NPA_SPACE_SHIFT; error && bits >= LEAST_BITS; bits--) {
        error = reserve(bits, most);
    }
    if (error) {
        return error;
    }
    error = map_tables();
    if (error == 0) {
        npa_memory_stats *stats = &npa_reservation.stats;
        stats->reserved = 2 * npa_reservation.total;
        npa_homes = (struct npa_homes){(uintptr_t)npa_reservation.base, npa_reservation.total};
        error = prove_moves();
        stats->published = stats->recycled = stats->fresh = 0;
    }
    if (error) {
        munmap(npa_reservation.base, 2 * npa_reservation.total);
        npa_reservation.total = 0;
        npa_homes.bytes = 0;
        npa_reservation.stats.reserved = 0;
        npa_reservation.stats.mapping_budget = 0;
    }
    return error;
}

int npa_memory_init(void)
{
    if (!npa_reservation.tried) {
        npa_reservation.tried = true;
        npa_reservation.error = start();
    }
    return npa_reservation.error;
}

/* ------------------------------------------------------------------------------ given back */

/* How much of a region would be kept, if the first of them had 2^bits bytes. */
static size_t room_in(int i, unsigned bits_big)
{
    const region *r = &npa_reservation.regions[i];
    size_t size = bits_big < LEAST_BITS ? 0 : size_of(i, bits_big);
    return r->carved > size ? r->carved : size < r->room ? size : r->room;
}

static size_t rooms(unsigned bits_big)
{
    size_t all = 0;
    for (int i = 0; i < REGIONS; i++) {
        all += 2 * room_in(i, bits_big);
    }
    return all;
}

static void give_back(int i, size_t room)
{
    region *r = &npa_reservation.regions[i];
    char *homes = npa_reservation.base + r->offset;
    size_t bytes = r->room - room, kept = table_bytes(i, room);
    munmap(homes + room, bytes);
    munmap(homes + npa_reservation.total + room, bytes);
    munmap((char *)r->table + kept, table_bytes(i, r->room) - kept);
    npa_reservation.stats.reserved -= 2 * bytes;
    r->room = room;
    r->open = r->open < room ? r->open : room;
}

bool npa_memory_make_way(size_t limit)
{
    size_t mapped = npa_limit_mapped(), ours = rooms(BIG_BITS);
    size_t others = mapped > ours ? mapped - ours : 0, left = limit > others ? limit - others : 0;
    unsigned bits = BIG_BITS;
    if (npa_reservation.total == 0 || ours <= left / SHARE) {
        return true;
    }
    while (bits >= LEAST_BITS && rooms(bits) > left / SHARE) {
        bits--;
    }
    for (int i = 0; i < REGIONS; i++) {
        if (room_in(i, bits) < npa_reservation.regions[i].room) {
            give_back(i, room_in(i, bits));
        }
    }
    npa_reservation.limited = true;
    npa_reservation.error = bits < LEAST_BITS ? ENOMEM : 0;
    return bits >= LEAST_BITS;
}

bool npa_memory_limited(void) { return npa_reservation.limited; }
