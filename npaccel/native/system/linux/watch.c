/* watch.c: other people's memory that pending requests read, write-protected.
 *
 *            hold                  release
 *     OPEN --------> HELD (armed) ---------> IDLE (still armed) --hold--> HELD
 *       ^                |                     |
 *       '--- evaluate, then open               '--- open: in the handler of the write's fault
 *
 * A piece stays armed after the requests have run, so programs that read the same inputs again and
 * again pay for protection once. Every change of pages happens in state BUSY, taken by
 * compare-and-swap, so the handler needs no lock. Only whole pages can be protected; where a piece
 * shares its first and last page with others, a copy of those bytes is kept while it is held. */
#define _GNU_SOURCE
#include "system/linux/linux.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WATCHES = 1024, BUCKETS = 1024 };
enum { FREE, OPEN, IDLE, HELD, BUSY };
enum { RW = PROT_READ | PROT_WRITE };
/* Protecting a page costs about what reading 1/32 of it does. */
enum { WORTH = 32 };

struct npa_watched npa_watched = {.low = UINTPTR_MAX};

static struct {
    npa_watch watches[WATCHES];
    npa_watch *buckets[BUCKETS], *free;
    atomic_int used; /* watches beyond were never used */
    int hand;        /* where the search for one to give up goes on */
    _Atomic uint64_t faults, opened;
} table;

/* Those that have pages, by address: they don't overlap. Changed with the lock, read without: who
 * reads while it changes looks through all of them instead. */
static struct {
    atomic_uint changes; /* odd: it is being changed */
    atomic_int n;
    struct { atomic_uintptr_t low, high; _Atomic(npa_watch *) watch; } rows[WATCHES];
} order;

/* initial-exec: the handler must not allocate to find it. */
static NPA_PER_THREAD uint64_t last_opened;

static npa_watch **bucket_of(const char *base)
{
    return &table.buckets[((uintptr_t)base >> 4) * 0x9e3779b97f4a7c15u >> 54];
}

/* How many begin before an address. */
static int rows_before(uintptr_t address)
{
    int low = 0, high = atomic_load(&order.n);
    while (low < high) {
        int middle = (low + high) / 2;
        if (atomic_load(&order.rows[middle].low) < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Who sees it sees that there are changes, too. */
static void set_row(int i, uintptr_t low, uintptr_t high, npa_watch *w)
{
    atomic_store_explicit(&order.rows[i].low, low, memory_order_release);
    atomic_store_explicit(&order.rows[i].high, high, memory_order_release);
    atomic_store_explicit(&order.rows[i].watch, w, memory_order_release);
}

static void move_row(int from, int to)
{
    set_row(to, atomic_load(&order.rows[from].low), atomic_load(&order.rows[from].high),
            atomic_load(&order.rows[from].watch));
}

static void enter_in_order(npa_watch *w)
{
    uintptr_t low = (uintptr_t)atomic_load(&w->low), high = (uintptr_t)atomic_load(&w->high);
    if (low == high) {
        return;
    }
    int at = rows_before(low), n = atomic_load(&order.n);
    atomic_fetch_add(&order.changes, 1);
    for (int i = n; i > at; i--) {
        move_row(i - 1, i);
    }
    set_row(at, low, high, w);
    atomic_store(&order.n, n + 1);
    atomic_fetch_add(&order.changes, 1);
}

static void leave_order(const npa_watch *w)
{
    int at = rows_before((uintptr_t)atomic_load(&w->low)), n = atomic_load(&order.n);
    if (at == n || atomic_load(&order.rows[at].watch) != w) {
        return; /* it has no pages */
    }
    atomic_fetch_add(&order.changes, 1);
    for (int i = at; i < n - 1; i++) {
        move_row(i + 1, i);
    }
    atomic_store(&order.n, n - 1);
    atomic_fetch_add(&order.changes, 1);
}

/* Whether it has pages in [low, high), and may not be written unnoticed. */
static bool is_closed(npa_watch *w, uintptr_t low, uintptr_t high)
{
    int state = atomic_load(&w->state);
    uintptr_t first = (uintptr_t)atomic_load(&w->low), last = (uintptr_t)atomic_load(&w->high);
    return state != FREE && state != OPEN && first < last && first < high && low < last;
}

/* One of those, or NULL. Async-signal-safe. */
static npa_watch *closed_in(uintptr_t low, uintptr_t high)
{
    unsigned before = atomic_load(&order.changes);
    npa_watch *found = NULL;
    for (int i = rows_before(high) - 1; i >= 0 && found == NULL; i--) {
        if (atomic_load(&order.rows[i].high) <= low) {
            break;
        }
        npa_watch *w = atomic_load(&order.rows[i].watch);
        found = is_closed(w, low, high) ? w : NULL;
    }
    if (before % 2 == 0 && atomic_load(&order.changes) == before) {
        return found;
    }
    for (int i = 0; i < atomic_load(&table.used); i++) {
        if (is_closed(&table.watches[i], low, high)) {
            return &table.watches[i];
        }
    }
    return NULL;
}

npa_watch *npa_watch_find(const char *base)
{
    npa_watch *w = *bucket_of(base);
    while (w != NULL && w->base != base) {
        w = w->next;
    }
    return w;
}

npa_watch *npa_watch_around(const char *low, const char *high)
{
    for (int i = 0; i < atomic_load(&table.used); i++) {
        npa_watch *w = &table.watches[i];
        if (atomic_load(&w->state) == FREE) {
            continue;
        }
        char *first = atomic_load(&w->low), *last = atomic_load(&w->high);
        if ((w->base <= low && high <= w->base + w->size) || (first <= low && high <= last)) {
            return w;
        }
    }
    return NULL;
}

/* The state before, which is now BUSY. */
static int take(npa_watch *w)
{
    for (;;) {
        int state = atomic_load(&w->state);
        if (state != BUSY && atomic_compare_exchange_weak(&w->state, &state, BUSY)) {
            return state;
        }
        if (state == BUSY) {
            sched_yield();
        }
    }
}

static void open_pages(npa_watch *w)
{
    if (w->armed_low != w->armed_high) {
        mprotect(w->armed_low, (size_t)(w->armed_high - w->armed_low), RW);
        w->armed_low = w->armed_high = NULL;
        atomic_fetch_add(&table.opened, 1);
    }
}

void npa_watch_open(npa_watch *w)
{
    if (atomic_load(&w->state) != OPEN) {
        take(w);
        open_pages(w);
        atomic_store(&w->state, OPEN);
    }
}

void npa_watch_open_all(void)
{
    for (int i = 0; i < atomic_load(&table.used); i++) {
        if (atomic_load(&table.watches[i].state) != FREE) {
            npa_watch_open(&table.watches[i]);
        }
    }
}

void npa_watch_drop(npa_watch *w)
{
    npa_watch **at = bucket_of(w->base);
    npa_watch_open(w);
    while (*at != w) {
        at = &(*at)->next;
    }
    *at = w->next;
    leave_order(w);
    atomic_store(&w->state, FREE);
    free(w->ends);
    w->next = table.free;
    table.free = w;
}

/* One that nobody would miss: not held, and not known to be exported. */
static bool give_one_up(void)
{
    for (int n = 0; n < WATCHES; n++) {
        table.hand = (table.hand + 1) % WATCHES;
        npa_watch *w = &table.watches[table.hand];
        int state = atomic_load(&w->state);
        if ((state == IDLE || state == OPEN) && !w->exported) {
            npa_watch_drop(w);
            return true;
        }
    }
    return false;
}

/* Whether the C library made a mapping for this piece alone: then its first and last pages are its
 * own too. The size in the word before it is glibc's: all of it must be as expected. */
static bool has_mapping(const char *base, size_t size, size_t page, size_t *mapping)
{
    const size_t header = 2 * sizeof(size_t), is_mapped = 2;
    if ((uintptr_t)base % page != header) {
        return false;
    }
    size_t chunk = (size + sizeof(size_t) + header - 1) & ~(header - 1);
    *mapping = (chunk + sizeof(size_t) + page - 1) & ~(page - 1);
    return ((const size_t *)(const void *)base)[-1] == (*mapping | is_mapped);
}

npa_watch *npa_watch_new(char *base, size_t size)
{
    int used = atomic_load(&table.used);
    npa_watch *w = table.free;
    if (w == NULL && used < WATCHES) {
        w = &table.watches[used];
        atomic_store(&table.used, used + 1);
    } else if (w == NULL && !give_one_up()) {
        return NULL;
    } else {
        w = table.free;
        table.free = w->next;
    }
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    uintptr_t low = ((uintptr_t)base + page) & ~page, high = ((uintptr_t)base + size) & ~page;
    size_t mapping;
    if (has_mapping(base, size, page + 1, &mapping)) {
        low = (uintptr_t)base & ~page, high = low + mapping;
    }
    npa_watch **bucket = bucket_of(base);
    w->base = base, w->size = size;
    atomic_store(&w->low, (char *)low);
    atomic_store(&w->high, (char *)(high < low ? low : high));
    w->armed_low = w->armed_high = w->ends = NULL;
    if (low < high && high > atomic_load(&npa_watched.high)) {
        atomic_store(&npa_watched.high, high);
    }
    if (low < high && low < atomic_load(&npa_watched.low)) {
        atomic_store(&npa_watched.low, low);
    }
    w->exported = false, w->patience = (npa_patience){0};
    w->next = *bucket, *bucket = w;
    atomic_store(&w->state, OPEN);
    enter_in_order(w);
    return w;
}

/* --------------------------------------------------------------------------------- holding */

/* The pages to arm so that [low, high) is: together with those that are, in one piece. */
static void hull(const npa_watch *w, const char *low, const char *high, char **from, char **to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    char *first = atomic_load(&w->low), *last = atomic_load(&w->high);
    *from = (char *)((uintptr_t)low & ~page);
    *to = (char *)(((uintptr_t)high + page) & ~page);
    *from = *from < first ? first : *from;
    *to = *to > last ? last : *to;
    if (*from >= *to) {
        *from = w->armed_low, *to = w->armed_high;
        return;
    }
    if (w->armed_low != w->armed_high) {
        *from = w->armed_low < *from ? w->armed_low : *from;
        *to = w->armed_high > *to ? w->armed_high : *to;
    }
    if (*to - *from > (last - first) / 2) {
        *from = first, *to = last;
    }
}

static bool arm(npa_watch *w, const char *low, const char *high, size_t worth)
{
    char *from, *to;
    hull(w, low, high, &from, &to);
    size_t have = (size_t)(w->armed_high - w->armed_low), want = (size_t)(to - from);
    if (want == have) {
        return true;
    }
    if (want - have > WORTH * worth || mprotect(from, want, PROT_READ) != 0) {
        return false;
    }
    w->armed_low = from, w->armed_high = to;
    return true;
}

static size_t head_size(const npa_watch *w)
{
    char *low = atomic_load(&w->low);
    size_t head = low > w->base ? (size_t)(low - w->base) : 0;
    return head < w->size ? head : w->size;
}

static size_t tail_size(const npa_watch *w)
{
    char *end = w->base + w->size, *high = atomic_load(&w->high);
    return end > high ? (size_t)(end - high) : 0;
}

bool npa_watch_has_ends(const npa_watch *w)
{
    return head_size(w) + tail_size(w) > 0;
}

static void copy_ends(const npa_watch *w, char *to)
{
    memcpy(to, w->base, head_size(w));
    memcpy(to + head_size(w), atomic_load(&w->high), tail_size(w));
}

bool npa_watch_hold(npa_watch *w, const char *low, const char *high, size_t worth)
{
    size_t ends = head_size(w) + tail_size(w);
    if (w->ends == NULL && (w->ends = malloc(ends + 1)) == NULL) {
        return false;
    }
    int state = take(w);
    bool armed = state == HELD || !npa_calls_use(atomic_load(&w->low), atomic_load(&w->high));
    armed = armed && arm(w, low, high, worth);
    if (armed && state != HELD) {
        copy_ends(w, w->ends);
        state = HELD;
    }
    atomic_store(&w->state, state);
    return armed;
}

bool npa_watch_held(npa_watch *w)
{
    return atomic_load(&w->state) == HELD;
}

void npa_watch_release(npa_watch *w)
{
    int held = HELD;
    atomic_compare_exchange_strong(&w->state, &held, w->armed_low != w->armed_high ? IDLE : OPEN);
}

bool npa_watch_changed(const npa_watch *w)
{
    return memcmp(w->ends, w->base, head_size(w)) != 0 ||
           memcmp(w->ends + head_size(w), atomic_load(&w->high), tail_size(w)) != 0;
}

char *npa_watch_copy(const npa_watch *w)
{
    char *copy = mmap(NULL, w->size, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) {
        return NULL;
    }
    memcpy(copy, w->base, w->size);
    memcpy(copy, w->ends, head_size(w));
    memcpy(copy + w->size - tail_size(w), w->ends + head_size(w), tail_size(w));
    return copy;
}

void npa_watch_copy_free(const npa_watch *w, char *copy) { munmap(copy, w->size); }

/* ----------------------------------------------------------------------------- the handler */

int npa_watch_fault(const void *address)
{
    npa_watch *w = closed_in((uintptr_t)address, (uintptr_t)address + 1);
    int state = w != NULL ? atomic_load(&w->state) : OPEN;
    if (state == HELD) {
        atomic_fetch_add(&table.faults, 1);
        return NPA_WATCH_PENDING;
    }
    if (state == IDLE && atomic_compare_exchange_strong(&w->state, &state, BUSY)) {
        atomic_fetch_add(&table.faults, 1);
        open_pages(w);
        atomic_store(&w->state, OPEN);
        return NPA_WATCH_RETRY;
    }
    if (state != OPEN) { /* another thread is at it */
        sched_yield();
        return NPA_WATCH_RETRY;
    }
    /* Perhaps another thread opened it since. A real crash comes back, and finds nothing new. */
    uint64_t opened = atomic_load(&table.opened);
    bool news = opened != last_opened;
    last_opened = opened;
    return news ? NPA_WATCH_RETRY : NPA_NOT_WATCHED;
}

const char *npa_watch_armed(const char *low, const char *high)
{
    npa_watch *w = closed_in((uintptr_t)low, (uintptr_t)high);
    const char *first = w != NULL ? atomic_load(&w->low) : NULL;
    return w == NULL ? NULL : low < first ? first : low;
}

void npa_watch_read_stats(npa_watch_stats *out)
{
    out->faults = atomic_load(&table.faults);
    out->armed = 0;
    for (int i = 0; i < atomic_load(&table.used); i++) {
        int state = atomic_load(&table.watches[i].state);
        out->armed += state == IDLE || state == HELD;
    }
}
