/* test_watch.c: what is held does not change unnoticed; who writes does; who crashes does. */
#include "check.h"

#include "../../npaccel/native/system/system.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static size_t page;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Whether a byte can be written, asked of the kernel: a system call does not fault, it fails. */
static bool
writable(char *p)
{
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], p, 1) == 1);
    ssize_t n = read(ends[0], p, 1); /* what was there already */
    CHECK(n == 1 || (n == -1 && errno == EFAULT));
    close(ends[0]), close(ends[1]);
    return n == 1;
}

static npa_watch_stats
stats(void)
{
    npa_watch_stats now;
    npa_watch_read_stats(&now);
    return now;
}

/* Memory of our own around every block, so that its neighbours in the page are known. */
static char *
mapping(size_t size)
{
    char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

static void
write_to(char *p, char value)
{
    *(volatile char *)p = value;
}

/* ---------------------------------------------------------------------------------- pages */

/* A change of the first and of the last byte is noticed where no page protects them; the copy of a
   block whose bytes began at `before` has them as they were. */
static void
change_ends(npa_watch *w, char *base, size_t size, size_t before)
{
    for (size_t k = 0; k < size; k += size - 1) {
        if (!writable(base + k)) {
            continue;
        }
        char old = base[k];
        base[k] = (char)(old + 1);
        CHECK(npa_watch_changed(w));
        char *copy = npa_watch_copy(w);
        CHECK(copy && copy[k] == old);
        for (size_t c = 0; c < size; c++) {
            CHECK(copy[c] == (char)((before + c) * 7));
        }
        munmap(copy, size);
        base[k] = old;
        CHECK(!npa_watch_changed(w));
    }
}

/* Only pages that are the block's alone are protected; the rest is compared. */
static void
test_ends(void)
{
    const struct { size_t before, size; } blocks[] = {
        {0, 4 * page}, {16, 4 * page}, {0, 4 * page - 8}, {page - 8, 3 * page + 16}, {100, page},
        {page - 1, page + 2}, {8, 64}, {page - 8, 16}, {0, page}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        char *room = mapping(8 * page), *base = room + blocks[i].before;
        size_t size = blocks[i].size;
        for (size_t k = 0; k < 8 * page; k++) {
            room[k] = (char)(k * 7);
        }
        npa_watch *w = npa_watch_new(base, size);
        CHECK(w && w->base == base && w->size == size && !npa_watch_held(w) && writable(base));
        CHECK(npa_watch_hold(w, base, base + size, size) && npa_watch_held(w));
        size_t protected = 0;
        for (char *p = room; p < room + 8 * page; p += page) {
            bool whole = p >= base && p + page <= base + size;
            CHECK(writable(p) == !whole);
            protected += whole ? page : 0;
        }
        CHECK(npa_watch_has_ends(w) == (protected < size) && !npa_watch_changed(w));
        change_ends(w, base, size, blocks[i].before);
        if (blocks[i].before > 0) {
            room[blocks[i].before - 1]++; /* a neighbour's byte is no matter */
        }
        room[blocks[i].before + size]++;
        CHECK(!npa_watch_changed(w));
        npa_watch_drop(w);
        CHECK(writable(base) && writable(base + size - 1) && stats().armed == 0);
        munmap(room, 8 * page);
    }
}

/* A block for which the C library made a mapping has its first and last page to itself. */
static void
test_a_mapping_of_its_own(void)
{
#ifdef NPA_SANITIZED
    return; /* a sanitizer's allocator has other headers */
#endif
    size_t size = 3 * MIB + 40;
    char *base = malloc(size);
    memset(base, 3, size);
    npa_watch *w = npa_watch_new(base, size);
    CHECK(w && !npa_watch_has_ends(w) && npa_watch_hold(w, base, base + size, size));
    CHECK(!writable(base) && !writable(base + size - 1));
    npa_watch_drop(w);
    free(base); /* into whose header the C library writes */
    char forged[64] = {0}; /* the word before says so, but it begins elsewhere */
    ((size_t *)(void *)forged)[1] = page | 2;
    w = npa_watch_new(forged + 16, 32);
    CHECK(w && (npa_watch_has_ends(w) || (uintptr_t)forged % page == 0));
    npa_watch_drop(w);
}

/* --------------------------------------------------------------------------------- states */

static void
test_states(void)
{
    size_t size = 64 * page;
    char *base = mapping(size);
    npa_watch *w = npa_watch_new(base, size);
    CHECK(npa_watch_find(base) == w && npa_watch_find(base + 1) == NULL);
    CHECK(npa_watch_around(base + 5, base + 9) == w && npa_watch_around(base, base + size) == w);
    CHECK(npa_watch_around(base + 5, base + size + 1) == NULL);
    npa_watch_fault(base); /* what was opened before is no news any more */
    CHECK(npa_watch_fault(base) == NPA_NOT_WATCHED); /* open: not ours to explain */
    for (int again = 0; again < 3; again++) {
        CHECK(npa_watch_hold(w, base, base + size, size) && npa_watch_held(w));
        CHECK(npa_watch_hold(w, base, base + page, page)); /* another reader */
        CHECK(npa_watch_fault(base + 5) == NPA_WATCH_PENDING && npa_watch_held(w));
        npa_watch_release(w);
        CHECK(!npa_watch_held(w) && !writable(base) && stats().armed == 1); /* idle */
        npa_watch_release(w);
    }
    uint64_t faults = stats().faults;
    CHECK(npa_watch_fault(base + 5) == NPA_WATCH_RETRY && stats().faults == faults + 1);
    CHECK(writable(base) && writable(base + size - 1) && stats().armed == 0);
    CHECK(npa_watch_fault(base + 5) == NPA_WATCH_RETRY); /* perhaps it was another thread's turn, */
    CHECK(npa_watch_fault(base + 5) == NPA_NOT_WATCHED); /* but not for ever */
    CHECK(npa_watch_hold(w, base, base + size, size));
    npa_watch_open(w);
    CHECK(!npa_watch_held(w) && writable(base));
    CHECK(npa_watch_hold(w, base, base + size, size));
    npa_watch_open_all();
    CHECK(!npa_watch_held(w) && writable(base));
    npa_watch_drop(w);
    CHECK(npa_watch_find(base) == NULL && npa_watch_around(base, base + 1) == NULL);
    munmap(base, size);
}

/* As much is protected as is read; unless that costs more than it is worth. */
static void
test_parts(void)
{
    size_t size = 1024 * page;
    char *base = mapping(size);
    npa_watch *w = npa_watch_new(base, size);
    char *part = base + 100 * page;
    CHECK(npa_watch_hold(w, part + 8, part + 10 * page - 8, 10 * page));
    CHECK(!writable(part) && !writable(part + 10 * page - 1));
    CHECK(writable(part - 1) && writable(part + 10 * page));
    CHECK(npa_watch_fault(base) == NPA_WATCH_PENDING); /* the block's, though this page is open */
    CHECK(!npa_watch_hold(w, base, base + size, page)); /* all of it, to read one page's worth */
    CHECK(npa_watch_held(w) && writable(base) && !writable(part));
    CHECK(npa_watch_hold(w, part + 20 * page, part + 30 * page, 10 * page)); /* in one piece */
    CHECK(!writable(part + 15 * page) && !writable(part + 30 * page - 1));
    CHECK(writable(part + 30 * page) && writable(part - 1));
    CHECK(npa_watch_hold(w, base, base + 800 * page, 800 * page)); /* most of it: all */
    CHECK(!writable(base) && !writable(base + size - 1));
    npa_watch_release(w);
    npa_watch_open(w);
    CHECK(writable(base) && writable(base + size - 1));
    npa_watch_drop(w);
    munmap(base, size);
}

/* Idle ones give way; what is held, or was handed out, stays. */
static void
test_too_many(void)
{
    enum { MOST = 1024 };
    static npa_watch *all[MOST];
    char *room = mapping(2 * (MOST + 8) * page);
    for (int i = 0; i < MOST; i++) {
        char *base = room + 2 * (size_t)i * page;
        all[i] = npa_watch_new(base, page);
        CHECK(all[i] && npa_watch_hold(all[i], base, base + page, page));
    }
    char *more = room + 2 * (size_t)MOST * page;
    CHECK(stats().armed == MOST && npa_watch_new(more, page) == NULL); /* all are held */
    npa_watch_release(all[7]);
    npa_watch *w = npa_watch_new(more, page);
    CHECK(w == all[7] && w->base == more && writable(room + 14 * page));
    CHECK(npa_watch_find(room + 14 * page) == NULL && npa_watch_find(more) == w);
    w->exported = true;
    CHECK(npa_watch_new(more + 2 * page, page) == NULL);
    for (int i = 0; i < MOST; i++) {
        CHECK(writable(all[i]->base) == (i == 7));
        npa_watch_drop(all[i]);
        CHECK(writable(room + 2 * (size_t)i * page));
    }
    CHECK(stats().armed == 0);
    munmap(room, 2 * (MOST + 8) * page);
}

/* Where the last of these blocks that is held begins between `low` and `high`. */
static const char *
last_armed(npa_watch **all, int count, const char *low, const char *high)
{
    const char *found = NULL;
    for (int k = 0; k < count; k++) {
        const char *first = all[k] ? atomic_load(&all[k]->low) : NULL;
        const char *last = all[k] ? atomic_load(&all[k]->high) : NULL;
        if (first < last && npa_watch_held(all[k]) && first < high && low < last) {
            found = low < first ? first : low;
        }
    }
    return found;
}

/* Whatever comes and goes, what may not be written is found: the same as by looking at all. */
static void
test_armed(void)
{
    enum { PLACES = 60 };
    npa_watch *all[PLACES] = {NULL};
    unsigned long seed = 4711;
    char *room = mapping(4 * PLACES * page);
    for (int n = 0; n < 20000; n++) {
        unsigned long dice = next_random(&seed);
        int i = (int)(dice % PLACES);
        char *base = room + 4 * (size_t)i * page;
        if (all[i] == NULL) {
            /* The last ones have no page of their own. */
            all[i] = npa_watch_new(base + (i % 5 ? 0 : 8), i < PLACES - 5 ? 3 * page : page / 2);
        }
        else if (npa_watch_held(all[i])) {
            npa_watch_release(all[i]);
            npa_watch_open(all[i]);
        }
        else if (dice >> 32 & 1) {
            npa_watch_drop(all[i]);
            all[i] = NULL;
        }
        else {
            CHECK(npa_watch_hold(all[i], base, base + 3 * page, 3 * page));
        }
        const char *low = room + (dice >> 8) % (4 * PLACES * page - 1);
        const char *high = low + 1 + (dice >> 40) % (dice >> 33 & 1 ? 9 : 9 * page);
        const char *found = npa_watch_armed(low, high);
        CHECK(found == last_armed(all, PLACES, low, high));
        CHECK(found == NULL || npa_watch_near(low, high));
    }
    for (int i = 0; i < PLACES; i++) {
        if (all[i]) {
            npa_watch_drop(all[i]);
        }
    }
    munmap(room, 4 * PLACES * page);
}

/* -------------------------------------------------------------------------------- faults */

enum { BLOCKS = 12, WRITERS = 4, PAGES = 5 };
static struct {
    npa_watch *watch;
    char *base;
    size_t size;
    long sum; /* of what it held when it was held; its ends as they were */
    bool waits;
} blocks[BLOCKS];
static atomic_int evaluations;
static atomic_bool stop;

/* Reads memory that others write; pages and states order it, which no sanitizer knows. */
__attribute__((no_sanitize_thread)) static long
sum_of(const char *p, size_t size)
{
    long sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += ((const volatile char *)p)[i] * (long)(i % 1009 + 1);
    }
    return sum;
}

/* What a request on this block would compute. With the lock. */
static void
evaluate_block(int i)
{
    npa_watch *w = blocks[i].watch;
    CHECK(npa_watch_held(w));
    char *copy = npa_watch_copy(w);
    CHECK(copy && sum_of(copy, w->size) == blocks[i].sum);
    munmap(copy, w->size);
    blocks[i].waits = false;
    npa_watch_release(w);
    atomic_fetch_add(&evaluations, 1);
}

static void
serve_write(const void *address)
{
    pthread_mutex_lock(&lock);
    npa_watch *w = npa_watch_around(address, (const char *)address + 1);
    for (int i = 0; i < BLOCKS; i++) {
        if (w != NULL && blocks[i].watch == w && npa_watch_held(w)) {
            evaluate_block(i);
        }
    }
    if (w != NULL && !npa_watch_held(w)) {
        npa_watch_open(w);
    }
    pthread_mutex_unlock(&lock);
}

static void
no_range(npa_range *range, const void *touched)
{
    (void)range, (void)touched;
}

/* A held block's sum is taken after it was held: nobody can have written between. Bytes that no
 * page protects are left alone by the writers, as their copy is made while it is held. */
static void
hold_block(int i)
{
    npa_watch *w = blocks[i].watch;
    CHECK(npa_watch_hold(w, w->base, w->base + w->size, w->size));
    if (!blocks[i].waits) {
        blocks[i].sum = sum_of(w->base, w->size);
        blocks[i].waits = true;
    }
}

__attribute__((no_sanitize_thread)) static void *
write_around(void *number)
{
    unsigned long seed = 7919u * (unsigned long)(intptr_t)number + 1;
    while (!atomic_load(&stop)) {
        unsigned long dice = next_random(&seed);
        int i = (int)(dice % BLOCKS);
        char *low = atomic_load(&blocks[i].watch->low), *high = atomic_load(&blocks[i].watch->high);
        volatile char *p = low + (dice >> 8) % (size_t)(high - low);
        *p = (char)(dice >> 32);
        CHECK(p >= blocks[i].base && (const char *)p < blocks[i].base + blocks[i].size);
    }
    return NULL;
}

static void
make_blocks(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        size_t offset = i % 3 ? 40 * (size_t)i : 0;
        blocks[i].size = PAGES * page - (i % 4 ? 0 : 24);
        blocks[i].base = mapping((PAGES + 1) * page) + offset;
        blocks[i].watch = npa_watch_new(blocks[i].base, blocks[i].size);
        CHECK(blocks[i].watch);
    }
}

static void
act_on_block(int i, unsigned what)
{
    switch (what) {
    case 0: /* as a run would */
        for (int k = 0; k < BLOCKS; k++) {
            if (blocks[k].waits) {
                evaluate_block(k);
            }
        }
        break;
    case 1:
    case 2:
        if (!blocks[i].waits) {
            npa_watch_open(blocks[i].watch);
        }
        break;
    case 3: /* freed, and its place taken by another */
        if (!blocks[i].waits) {
            npa_watch_drop(blocks[i].watch);
            blocks[i].watch = npa_watch_new(blocks[i].base, blocks[i].size);
        }
        break;
    default:
        hold_block(i);
    }
}

static void
end_blocks(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        if (blocks[i].waits) {
            evaluate_block(i);
        }
        npa_watch_drop(blocks[i].watch);
        munmap((char *)((uintptr_t)blocks[i].base & ~(page - 1)), (PAGES + 1) * page);
        blocks[i].watch = NULL;
    }
}

/* Writers write wherever they like; what is held is computed before they may. */
static void
test_writers(int rounds)
{
    pthread_t writers[WRITERS];
    unsigned long seed = 99;
    make_blocks();
    atomic_store(&stop, false);
    for (int i = 0; i < WRITERS; i++) {
        CHECK(pthread_create(&writers[i], NULL, write_around, (void *)(intptr_t)i) == 0);
    }
    for (int n = 0; n < rounds; n++) {
        unsigned long dice = next_random(&seed);
        pthread_mutex_lock(&lock);
        act_on_block((int)(dice % BLOCKS), (dice >> 16) % 32);
        pthread_mutex_unlock(&lock);
        if (n % 8 == 0) {
            usleep(50); /* the writers' turn */
        }
    }
    atomic_store(&stop, true);
    for (int i = 0; i < WRITERS; i++) {
        pthread_join(writers[i], NULL);
    }
    end_blocks();
    CHECK(stats().armed == 0);
}

/* One write each, counted: held, idle, open. */
static void
test_one_write_each(void)
{
    char *base = blocks[0].base = mapping(PAGES * page);
    blocks[0].size = PAGES * page;
    npa_watch *w = blocks[0].watch = npa_watch_new(base, PAGES * page);
    uint64_t faults = stats().faults;
    int done = atomic_load(&evaluations);
    hold_block(0);
    write_to(base + page, 1);
    CHECK(atomic_load(&evaluations) == done + 1 && stats().faults == faults + 1);
    CHECK(base[page] == 1 && writable(base));
    write_to(base + 2 * page, 2);
    CHECK(stats().faults == faults + 1);
    hold_block(0);
    evaluate_block(0);
    write_to(base, 3);
    CHECK(stats().faults == faults + 2 && atomic_load(&evaluations) == done + 2 && base[0] == 3);
    npa_watch_drop(w);
    blocks[0].watch = NULL;
    munmap(base, PAGES * page);
}

#ifndef NPA_SANITIZED /* sanitizers have crash handlers of their own */

static char *constant; /* read-only, and not ours */

static void
write_constant(void)
{
    write_to(constant, 1);
}

/* A block whose pages somebody else protected too: opened, the write is a real crash. */
static void
write_twice_protected(void)
{
    npa_watch *w = npa_watch_new(constant, page);
    CHECK(w);
    write_to(constant, 1);
}

static void
write_held(void)
{
    hold_block(0);
    write_to(blocks[0].base, 5);
    CHECK(blocks[0].base[0] == 5 && !blocks[0].waits);
}

static void
test_crashes_and_forks(void)
{
    constant = mapping(page);
    CHECK(mprotect(constant, page, PROT_READ) == 0);
    CHECK(WTERMSIG(in_child(write_constant)) == SIGSEGV);
    CHECK(WTERMSIG(in_child(write_twice_protected)) == SIGSEGV);
    char *base = blocks[0].base = mapping(PAGES * page);
    blocks[0].watch = npa_watch_new(base, PAGES * page);
    CHECK(in_child(write_held) == 0 && base[0] == 0);
    hold_block(0);
    CHECK(in_child(write_held) == 0 && blocks[0].waits && !writable(base));
    write_to(base, 9);
    CHECK(base[0] == 9 && !blocks[0].waits);
    npa_watch_drop(blocks[0].watch);
    blocks[0].watch = NULL;
    munmap(base, PAGES * page);
}
#else
static void
test_crashes_and_forks(void)
{
}
#endif

int
main(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    CHECK(npa_memory_init() == 0);
    test_ends();
    test_a_mapping_of_its_own();
    test_states();
    test_parts();
    test_too_many();
    test_armed();
    npa_guard_watch(npa_watch_fault, serve_write);
    CHECK(npa_guard_install(no_range, NULL) == 0);
    test_one_write_each();
    test_writers(40000);
    test_crashes_and_forks();
    printf("watch: ok (%d evaluations, %lu faults)\n", atomic_load(&evaluations),
           (unsigned long)stats().faults);
    return 0;
}
