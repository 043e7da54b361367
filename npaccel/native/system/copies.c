/* copies.c: bytes from one place to another, where the C library is slow.
 *
 * Its `rep movs` takes 10 to 20 times as long on processors of AMD (Zen 3 and 4, C libraries up to
 * 2.38) where the target begins less than 32 bytes behind the source, modulo a page:
 * `y[1:] = x[:-1]`, since large arrays of ours begin pages, and NumPy's mostly do not. */
#include "system/system.h"
#include "system/processor.h"

#include <string.h>

enum { PAGE = 4096, SHIFT = 32, LEAST = 2048, MOST = 1 << 20 /* beyond, there is no `rep movs` */ };

/* From the end on, or each read would wait for the write before, whose last twelve bits are the
 * same. */
NPA_EACH_PROCESSOR static void copy_back(char *to, const char *from, size_t n)
{
    typedef struct {
        uint64_t words[8];
    } line;
    while (n >= 2 * sizeof(line)) {
        line x, y;
        n -= sizeof x + sizeof y;
        memcpy(&x, from + n, sizeof x), memcpy(&y, from + n + sizeof x, sizeof y);
        memcpy(to + n, &x, sizeof x), memcpy(to + n + sizeof x, &y, sizeof y);
        atomic_signal_fence(memory_order_seq_cst); /* or this loop would be a memcpy */
    }
    memmove(to, from, n);
}

static int64_t least_ns(char *to, const char *from, size_t n)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 4; i++) {
        int64_t start = npa_clock_ns();
        memmove(to, from, n);
        int64_t took = npa_clock_ns() - start;
        least = took < least ? took : least;
    }
    return least;
}

/* Tried once, in some 10 us. */
static bool is_slow(void)
{
    enum { UNKNOWN, SLOW, FAST };
    static atomic_int known = UNKNOWN;
    int found = atomic_load_explicit(&known, memory_order_relaxed);
    if (found == UNKNOWN) {
        char room[3 * PAGE];
        memset(room, 0, sizeof room);
        int64_t usual = least_ns(room + PAGE + PAGE / 2, room, PAGE);
        found = least_ns(room + PAGE + 8, room, PAGE) > 3 * usual ? SLOW : FAST;
        atomic_store_explicit(&known, found, memory_order_relaxed);
    }
    return found == SLOW;
}

void *npa_copy_bytes(void *to, const void *from, size_t n)
{
    uintptr_t behind = (uintptr_t)to - (uintptr_t)from;
    bool shifted = behind % PAGE > 0 && behind % PAGE < SHIFT && n >= LEAST && n <= MOST;
    bool apart = behind < UINTPTR_MAX - n + 1; /* the target does not end within the source */
    if (__builtin_expect(!shifted, true) || !apart || !is_slow()) {
        return memmove(to, from, n);
    }
    copy_back(to, from, n);
    return to;
}
