/* pages.c: mappings: where the pages of homes and twins are, and how they move. See Note [Moves] in
 * memory.c. */
#define _GNU_SOURCE
#include "system/linux/slots.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

void npa_pages_advise(const region *r, char *at, size_t size)
{
    madvise(at, size, r == &npa_reservation.regions[BIG] ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

void npa_pages_spare_tail(const slot *s)
{
    size_t huge = (size_t)1 << granule_bits[BIG], used = s->range.size & (huge - 1);
    if (s->region == BIG && used != 0 && huge - used > s->range.size / 8) {
        char *tail = twin_of(s) + (s->range.size - used);
        madvise(tail, huge, MADV_NOHUGEPAGE);
        *(volatile char *)tail = 0;
        madvise(tail, huge, MADV_HUGEPAGE);
    }
}

_Noreturn void npa_pages_lost(const char *what)
{
    perror(what);
    abort();
}

bool npa_pages_map_over(char *at, size_t size, int protection)
{
    return mmap(at, size, protection, ANONYMOUS | MAP_FIXED, -1, 0) == at;
}

void npa_pages_fill_hole(char *at, size_t size)
{
    char *filled = mmap(at, size, PROT_NONE, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (filled != at && (filled != MAP_FAILED || errno != ENOMEM)) {
        npa_pages_lost("npaccel: an array's address was taken by another mapping");
    }
}

int npa_pages_move(char *from, char *to, size_t size, int flags)
{
    if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to) == to) {
        return 0;
    }
    int error = errno;
    unsigned char in_core;
    /* The kernel unmaps the target before it can still fail. */
    if (mincore(to, npa_reservation.page, &in_core) != 0 && errno == ENOMEM) {
        npa_pages_fill_hole(to, size);
    }
    return error;
}

bool npa_pages_discard(slot *s)
{
    char *twin = twin_of(s);
    if (s->pages == AT_HOME && !npa_pages_map_over(s->range.home, s->range.span, PROT_NONE)) {
        return false;
    }
    /* Pages that are locked in memory (mlock) do not go but with their mapping. */
    bool dropped = s->pages == AT_TWIN && madvise(twin, s->range.span, MADV_DONTNEED) == 0;
    if (s->twin_island || (s->pages == AT_TWIN && !dropped)) {
        if (!npa_pages_map_over(twin, s->range.span, RW)) {
            return false;
        }
        /* As its neighbours */
        npa_pages_advise(&npa_reservation.regions[s->region], twin, s->range.span);
        npa_reservation.islands -= s->twin_island;
        s->twin_island = false;
    }
    return true;
}

static int by_address(const void *a, const void *b)
{
    const slot *x = *(slot *const *)a, *y = *(slot *const *)b;
    return (x->range.home > y->range.home) - (x->range.home < y->range.home);
}

void npa_pages_close_open(void)
{
    int n = npa_reservation.nopen;
    qsort(npa_reservation.open, (size_t)n, sizeof *npa_reservation.open, by_address);
    for (int first = 0, next; first < n; first = next) {
        char *low = npa_reservation.open[first]->range.home, *high = low;
        for (next = first; next < n && npa_reservation.open[next]->range.home == high; next++) {
            high += npa_reservation.open[next]->range.span;
        }
        if (npa_pages_map_over(low, (size_t)(high - low), PROT_NONE)) {
            for (int i = first; i < next; i++) {
                make_cold(npa_reservation.open[i]);
            }
        }
    }
    npa_reservation.islands -= (size_t)n;
    npa_reservation.nopen = 0;
}
