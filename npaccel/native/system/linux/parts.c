/* parts.c: parts of a hidden range that may be read at home, while the rest stays hidden.
 *
 *     home   |......####...........##......|      `#`: read-only; all else is guarded
 *
 * A part's pages are filled elsewhere, and one mremap puts them in the guarded ones' place: nobody
 * sees a page that is readable and not full. A write faults, and so does a touch of the rest. No
 * system call uses a part, since what it is to read is shown as a whole first (syscalls.c). */
#define _GNU_SOURCE
#include "system/linux/slots.h"

#include <errno.h>
#include <stdlib.h>

struct npa_shown_part {
    size_t low, high; /* bytes from home; multiples of a page */
    npa_shown_part *next;
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + npa_reservation.page - 1) & ~(npa_reservation.page - 1);
}

char *npa_part_new(size_t bytes)
{
    char *pages = MAP_FAILED;
    if (npa_slots_within_budget()) {
        pages = mmap(NULL, whole_pages(bytes), RW, ANONYMOUS, -1, 0);
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
    npa_reservation.islands++;
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
    *new = (npa_shown_part){.low = low, .high = low + size};
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
        npa_shown_part *part = range->parts;
        char *at = range->home + part->low;
        size_t size = part->high - part->low;
        if (!npa_pages_map_over(at, size, PROT_NONE) && mprotect(at, size, PROT_NONE) != 0) {
            npa_pages_lost("npaccel: cannot hide a part of an array");
        }
        range->parts = part->next;
        npa_reservation.islands--;
        free(part);
    }
}
