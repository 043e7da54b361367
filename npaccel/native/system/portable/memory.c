/* memory.c: nothing is hidden, since no address space is reserved: there are no ranges, and no
 * memory of others is watched. See README.md. */
#include "system/system.h"

#include <errno.h>

bool npa_memory_notes;
atomic_bool npa_memory_lacks;
struct npa_homes npa_homes;
struct npa_watched npa_watched = {.low = UINTPTR_MAX};

/* ---------------------------------------------------------------------------------- ranges */

int npa_memory_init(void) { return ENOSYS; }

bool npa_memory_limited(void) { return false; }

bool npa_memory_make_way(size_t limit)
{
    (void)limit;
    return true;
}

npa_range *npa_range_new(size_t bytes)
{
    (void)bytes;
    return NULL;
}

npa_range *npa_range_shown(size_t bytes, bool *zero)
{
    (void)bytes;
    *zero = false;
    return NULL;
}

npa_range *npa_range_find(const void *p)
{
    (void)p;
    return NULL;
}

npa_range *npa_range_ahead(size_t bytes)
{
    (void)bytes;
    return NULL;
}

/* Nobody has a range to call these with. */

char *npa_range_work(npa_range *range) { return range->home; }

int npa_range_publish(npa_range *range)
{
    (void)range;
    return ENOSYS;
}

int npa_range_withdraw(npa_range *range)
{
    (void)range;
    return ENOSYS;
}

int npa_range_seal(npa_range *range)
{
    (void)range;
    return ENOSYS;
}

void npa_range_unseal(npa_range *range) { (void)range; }

void npa_range_break(npa_range *range) { (void)range; }

void npa_ranges_unseal(void) {}

char *npa_part_new(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void npa_part_drop(char *pages, size_t bytes) { (void)pages, (void)bytes; }

size_t npa_parts_room(void) { return 0; }

void npa_parts_trim(size_t keep_bytes) { (void)keep_bytes; }

int npa_range_show_part(npa_range *range, size_t low, char *pages, size_t bytes)
{
    (void)range, (void)low, (void)pages, (void)bytes;
    return ENOSYS;
}

bool npa_range_part(const npa_range *range, size_t at, size_t *low, size_t *high)
{
    (void)range, (void)at, (void)low, (void)high;
    return false;
}

void npa_range_hide_parts(npa_range *range) { (void)range; }

bool npa_range_fits(const npa_range *heir, const npa_range *dead)
{
    (void)heir, (void)dead;
    return false;
}

bool npa_range_inherit(npa_range *heir, npa_range *dead)
{
    (void)heir, (void)dead;
    return false;
}

void npa_range_free(npa_range *range) { (void)range; }

void npa_range_lend(npa_range *range) { (void)range; }

/* ----------------------------------------------------------------------------- the nursery */

void npa_nursery_limit(size_t bytes) { (void)bytes; }

void npa_nursery_trim(size_t keep_bytes) { (void)keep_bytes; }
void npa_memory_most(size_t bytes) { (void)bytes; }
size_t npa_memory_room(void) { return SIZE_MAX; }
bool npa_memory_beyond(bool on) { return on && false; }

void npa_nursery_trim_ahead(void) {}

void npa_memory_read_stats(npa_memory_stats *out) { *out = (npa_memory_stats){0}; }

int npa_memory_new(const size_t **sizes)
{
    *sizes = NULL;
    return 0;
}

/* ------------------------------------------------------------------------ memory of others */

npa_watch *npa_watch_find(const char *base)
{
    (void)base;
    return NULL;
}

npa_watch *npa_watch_around(const char *low, const char *high)
{
    (void)low, (void)high;
    return NULL;
}

npa_watch *npa_watch_new(char *base, size_t size)
{
    (void)base, (void)size;
    return NULL;
}

void npa_watch_drop(npa_watch *w) { (void)w; }

bool npa_watch_hold(npa_watch *w, const char *low, const char *high, size_t worth)
{
    (void)w, (void)low, (void)high, (void)worth;
    return false;
}

bool npa_watch_held(npa_watch *w)
{
    (void)w;
    return false;
}

bool npa_watch_has_ends(const npa_watch *w)
{
    (void)w;
    return false;
}

bool npa_watch_changed(const npa_watch *w)
{
    (void)w;
    return false;
}

char *npa_watch_copy(const npa_watch *w)
{
    (void)w;
    return NULL;
}

void npa_watch_copy_free(const npa_watch *w, char *copy) { (void)w, (void)copy; }

void npa_watch_release(npa_watch *w) { (void)w; }

void npa_watch_open(npa_watch *w) { (void)w; }

void npa_watch_open_all(void) {}

int npa_watch_fault(const void *address)
{
    (void)address;
    return NPA_NOT_WATCHED;
}

const char *npa_watch_armed(const char *low, const char *high)
{
    (void)low, (void)high;
    return NULL;
}

void npa_watch_read_stats(npa_watch_stats *out) { *out = (npa_watch_stats){0}; }
