/* parts.c: parts of a hidden range that may be read at home, while the rest stays hidden.
 *
 *     home   |......####...........##......|      `#`: read-only; all else is guarded
 *
 * A part's pages are filled elsewhere, and one mremap puts them in the guarded ones' place: nobody
 * sees a page that is readable and not full. A write faults, and so does a touch of the rest. No
 * system call uses a part, since what it is to read is shown as a whole first (syscalls.c). Parts
 * take at most half of what results may: then the oldest ones are hidden again, and whoever
 * touches them has them fetched anew. */
#define _GNU_SOURCE
#include "system/linux/slots.h"

#include <errno.h>
#include <stdlib.h>

struct npa_shown_part {
    size_t low, high; /* bytes from home; multiples of a page */
    npa_range *range;
    npa_shown_part *next;          /* of the range */
    npa_shown_part *older, *newer; /* of all */
};
static npa_shown_part *oldest, *newest;
enum { LEAST_ROOM = 4 << 20 }; /* even where results take all there is: who reads has to go on */

static size_t whole_pages(size_t bytes)
{
    return (bytes + npa_reservation.page - 1) & ~(npa_reservation.page - 1);
}

static void hide(npa_shown_part **at)
{
    npa_shown_part *part = *at;
    char *pages = part->range->home + part->low;
    size_t size = part->high - part->low;
    if (!npa_pages_map_over(pages, size, PROT_NONE) && mprotect(pages, size, PROT_NONE) != 0) {
        npa_pages_lost("npaccel: cannot hide a part of an array");
    }
    *at = part->next;
    *(part->older != NULL ? &part->older->newer : &oldest) = part->newer;
    *(part->newer != NULL ? &part->newer->older : &newest) = part->older;
    npa_reservation.islands--;
    npa_reservation.stats.part_bytes -= size;
    free(part);
}

void npa_parts_trim(size_t keep_bytes)
{
    while (npa_reservation.stats.part_bytes > keep_bytes) {
        npa_shown_part **at = &oldest->range->parts;
        while (*at != oldest) {
            at = &(*at)->next;
        }
        hide(at);
    }
}

size_t npa_parts_room(void)
{
    size_t room = npa_memory_room() / 2;
    return room > LEAST_ROOM ? room : LEAST_ROOM;
}

char *npa_part_new(size_t bytes)
{
    char *pages = MAP_FAILED;
    size_t size = whole_pages(bytes), room = npa_parts_room();
    if (size > room) {
        return NULL;
    }
    npa_parts_trim(room - size);
    if (npa_slots_within_budget(BIG)) {
        pages = mmap(NULL, size, RW, ANONYMOUS, -1, 0);
    }
    return pages != MAP_FAILED ? pages : NULL;
}

void npa_part_drop(char *pages, size_t bytes) { munmap(pages, whole_pages(bytes)); }

static void enter(npa_range *range, npa_shown_part *new)
{
    npa_shown_part **at = &range->parts;
    while (*at != NULL && (*at)->high <= new->low) {
        at = &(*at)->next;
    }
    new->next = *at, *at = new;
    *(newest != NULL ? &newest->newer : &oldest) = new, newest = new;
    npa_reservation.islands++;
    npa_reservation.stats.part_bytes += new->high - new->low;
}

int npa_range_show_part(npa_range *range, size_t low, char *pages, size_t bytes)
{
    size_t size = whole_pages(bytes);
    npa_shown_part *new = malloc(sizeof *new);
    int error = new == NULL                             ? ENOMEM
                : mprotect(pages, size, PROT_READ) != 0 ? errno
                                                        : 0;
    error = error != 0 ? error : npa_pages_move(pages, range->home + low, size, 0);
    if (error != 0) {
        free(new);
        npa_part_drop(pages, size);
        return error;
    }
    *new = (npa_shown_part){.low = low, .high = low + size, .range = range, .older = newest};
    enter(range, new);
    __atomic_add_fetch(&range->shown, 1, __ATOMIC_RELEASE); /* guard.c reads it unlocked */
    return 0;
}

bool npa_range_part(const npa_range *range, size_t at, size_t *low, size_t *high)
{
    const npa_shown_part *part = range->parts;
    while (part != NULL && part->high <= at) {
        part = part->next;
    }
    if (part != NULL) {
        *low = part->low, *high = part->high;
    }
    return part != NULL;
}

void npa_range_hide_parts(npa_range *range)
{
    while (range->parts != NULL) {
        hide(&range->parts);
    }
}
