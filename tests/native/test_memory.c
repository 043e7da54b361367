/* test_memory.c: ranges, their pages and the nursery, against npaccel/native/system/memory.c. */
#include "check.h"

#include "../../npaccel/native/system/system.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static const size_t sizes[] = {1, 4 * KIB, 5000, 64 * KIB - 1, 64 * KIB, 256 * KIB, 700001,
                               2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 8 * MIB, 19 * MIB + 5};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* Whether a page may be read; asks the kernel, so nothing faults. */
static bool
readable(const void *p)
{
    static int pipes[2] = {-1, -1};
    if (pipes[0] < 0) {
        CHECK(pipe(pipes) == 0);
    }
    char c;
    if (write(pipes[1], p, 1) != 1) {
        CHECK(errno == EFAULT);
        return false;
    }
    CHECK(read(pipes[0], &c, 1) == 1);
    return true;
}

/* Whether it may be written; its first byte is. */
static bool
writable(void *p)
{
    static int pipes[2] = {-1, -1};
    if (pipes[0] < 0) {
        CHECK(pipe(pipes) == 0);
    }
    char c = 1;
    CHECK(write(pipes[1], &c, 1) == 1);
    if (read(pipes[0], p, 1) == 1) {
        return true;
    }
    CHECK(errno == EFAULT && read(pipes[0], &c, 1) == 1);
    return false;
}

static void
test_life(void)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i];
        npa_range *r = npa_range_new(n);
        CHECK(r && r->size == n && r->span >= n && r->work == NULL);
        CHECK(n < 2 * MIB || (uintptr_t)r->home % (2 * MIB) == 0);
        CHECK(!readable(r->home) && !readable(r->home + r->span - 1));
        CHECK(npa_range_find(r->home) == r && npa_range_find(r->home + r->span - 1) == r);
        CHECK(npa_range_find(r->home - 1) != r && npa_range_find(r->home + r->span) != r);
        CHECK(npa_range_publish(r) == EINVAL && npa_range_withdraw(r) == 0);
        char *work = npa_range_work(r);
        CHECK(work && work != r->home && (uintptr_t)work % 4096 == 0);
        memset(work, 'a' + i, n);
        CHECK(!readable(r->home));
        CHECK(npa_range_publish(r) == 0 && r->work == r->home && npa_range_work(r) == r->home);
        CHECK(r->home[0] == 'a' + i && r->home[n - 1] == 'a' + i);
        CHECK(npa_range_publish(r) == 0);
        for (int again = 0; again < 3; again++) {
            CHECK(npa_range_withdraw(r) == 0 && r->work != r->home && !readable(r->home));
            CHECK(r->work[0] == 'a' + i + again && r->work[n - 1] == 'a' + i + again);
            memset(r->work, 'b' + i + again, n);
            CHECK(npa_range_publish(r) == 0 && r->home[n / 2] == 'b' + i + again);
        }
        char *home = r->home;
        npa_range_free(r);
        CHECK(npa_range_find(home) == NULL);
    }
    CHECK(npa_range_find(NULL) == NULL && npa_range_find(sizes) == NULL);
    CHECK(npa_range_new(SIZE_MAX) == NULL && npa_range_new((size_t)1 << 50) == NULL);
    npa_nursery_trim(0);
    CHECK(memory().nursery_bytes == 0 && memory().live_ranges == 0 && memory().live_bytes == 0);
}

/* A range that is open from the start: from new pages, from others' or from itself as it was. */
static void
test_shown(void)
{
    for (int i = 0; i < SIZES; i++) {
        bool zero;
        npa_nursery_trim(0);
        npa_range *r = npa_range_shown(sizes[i], &zero);
        CHECK(r && zero && r->work == r->home && npa_range_find(r->home) == r);
        CHECK(r->home[0] == 0 && r->home[sizes[i] - 1] == 0);
        memset(r->home, 3, sizes[i]);
        char *home = r->home;
        size_t maps = memory().mappings, published = memory().published;
        npa_range_free(r);
        npa_range *again = npa_range_shown(sizes[i], &zero);
        CHECK(again == r && again->home == home && !zero && again->home[sizes[i] - 1] == 3);
        CHECK(memory().mappings == maps && memory().published == published); /* nothing moved */
        CHECK(npa_range_withdraw(again) == 0 && !readable(home) && again->work[0] == 3);
        npa_range_free(again); /* its pages are at its twin now: the next one borrows them */
        npa_range *next = npa_range_shown(sizes[i], &zero);
        CHECK(next && !zero && next->work == next->home && next->home[0] == 3);
        npa_range_free(next);
        npa_nursery_trim(0);
        CHECK(memory().nursery_bytes == 0 && memory().live_ranges == 0 && memory().live_bytes == 0);
    }
    /* Nor does a page that is locked in memory come back with what it held. */
    bool zero;
    npa_range *r = npa_range_new(256 * KIB);
    memset(npa_range_work(r), 3, 256 * KIB);
    CHECK(mlock(r->work, 4 * KIB) == 0);
    npa_range_free(r);
    npa_nursery_trim(0);
    CHECK(npa_range_shown(256 * KIB, &zero) == r && zero);
    CHECK(r->home[0] == 0 && r->home[8 * KIB] == 0);
    npa_range_free(r);
    npa_nursery_trim(0);
    CHECK(npa_range_shown(SIZE_MAX, &zero) == NULL);
}

/* Pages of a freed range serve the next, from any state, and are dropped past the limit. */
/* Of a hidden range parts may be read, and all else not. */
static void
test_parts(void)
{
    const size_t part = 64 * KIB;
    npa_range *r = npa_range_new(2 * MIB);
    size_t mappings = memory().mappings, low, high;
    char *other = npa_range_work(r);
    memset(other, 1, r->size);
    CHECK(!npa_range_part(r, 0, &low, &high));
    for (int i = 5; i < 8; i += 2) {
        char *pages = npa_part_new(part);
        memset(pages, i, part);
        CHECK(npa_range_show_part(r, (size_t)i * part, pages, part) == 0 && !readable(pages));
        CHECK(r->home[(size_t)i * part] == i && !writable(r->home + (size_t)i * part));
    }
    CHECK(!npa_range_serves(r, false) && npa_range_shown_parts(r) == 2);
    CHECK(!readable(r->home + 5 * part - 1) && !readable(r->home + 6 * part));
    CHECK(npa_range_part(r, 0, &low, &high) && low == 5 * part && high == 6 * part);
    CHECK(npa_range_part(r, 6 * part, &low, &high) && low == 7 * part);
    CHECK(!npa_range_part(r, 8 * part, &low, &high) && memory().mappings == mappings + 4);
    CHECK(npa_range_show_part(r, 6 * part, npa_part_new(part - 1), part - 1) == 0);
    CHECK(npa_range_part(r, 6 * part, &low, &high) && low == 6 * part && high == 7 * part);
    CHECK(r->home[5 * part] == 5 && r->home[7 * part - 1] == 0 && r->home[7 * part] == 7);
    CHECK(memory().mappings == mappings + 6 && npa_range_withdraw(r) == 0);
    CHECK(!readable(r->home + 5 * part) && memory().mappings == mappings && r->work == other);
    CHECK(npa_range_show_part(r, 0, npa_part_new(1), 1) == 0 && readable(r->home));
    CHECK(npa_range_publish(r) == 0 && writable(r->home) && r->home[5 * part] == 1);
    CHECK(!npa_range_part(r, 0, &low, &high));
    npa_range_free(r);
    r = npa_range_new(2 * MIB);
    CHECK(npa_range_show_part(r, 0, npa_part_new(1), 1) == 0 && readable(r->home));
    npa_range_free(r);
    CHECK(!readable(r->home));
}

/* A sealed range is read where it is; who withdraws, frees or inherits it gets pages to write. */
static void
test_sealed(void)
{
    for (int i = 0; i < SIZES; i++) {
        size_t n = sizes[i], before = memory().sealed;
        bool zero;
        npa_range *r = npa_range_shown(n, &zero), *heir;
        char *home = r->home, *last = home + n - 1;
        *last = 3;
        CHECK(npa_range_serves(r, true) && npa_range_seal(r) == 0 && npa_range_seal(r) == 0);
        CHECK(npa_range_serves(r, false) && !npa_range_serves(r, true));
        CHECK(memory().sealed == before + 1);
        CHECK(readable(home) && !writable(home) && !writable(last) && *last == 3);
        CHECK(npa_range_publish(r) == 0 && npa_range_work(r) == home && !writable(home));
        npa_range_break(r);
        CHECK(writable(home) && npa_range_serves(r, true) && memory().sealed == before);
        npa_range_unseal(r);
        CHECK(npa_range_seal(r) == 0 && npa_range_withdraw(r) == 0 && !readable(home));
        CHECK(!r->sealed && r->work[n - 1] == (n == 1 ? 1 : 3) && writable(r->work));
        CHECK(npa_range_publish(r) == 0 && writable(home) && *last == (n == 1 ? 1 : 3));
        CHECK(npa_range_seal(r) == 0);
        npa_ranges_unseal();
        CHECK(memory().sealed == 0 && writable(home) && npa_range_seal(r) == 0);
        heir = npa_range_new(n);
        CHECK(npa_range_inherit(heir, r) && writable(heir->work) && memory().sealed == 0);
        CHECK(npa_range_publish(heir) == 0 && npa_range_seal(heir) == 0);
        npa_range_free(heir);
        CHECK((r = npa_range_shown(n, &zero)) && writable(r->home) && writable(r->home + n - 1));
        npa_range_free(r);
    }
    CHECK(memory().broken == SIZES);
    npa_nursery_trim(0);
}

static void
test_nursery(void)
{
    for (int state = 0; state < 3; state++) {
        npa_range *r = npa_range_new(8 * MIB);
        memset(npa_range_work(r), 7, 8 * MIB);
        CHECK(state == 0 || npa_range_publish(r) == 0);
        CHECK(state != 2 || npa_range_withdraw(r) == 0);
        npa_range_free(r);
        CHECK(memory().nursery_bytes == 8 * MIB);
        size_t recycled = memory().recycled;
        npa_range *temporary = npa_range_new(8 * MIB), *next = npa_range_new(5 * MIB);
        CHECK(!readable(next->home) && !readable(temporary->home));
        char *work = npa_range_work(next);
        CHECK(memory().recycled == recycled + 1 && memory().nursery_bytes == 0);
        CHECK(work[0] == 7 && work[5 * MIB - 1] == 7); /* the same pages */
        memset(work, 8, 5 * MIB);
        npa_range_free(temporary);
        CHECK(npa_range_publish(next) == 0 && next->home[5 * MIB - 1] == 8);
        npa_range *fresh = npa_range_new(5 * MIB);
        CHECK(npa_range_work(fresh)[0] == 0);
        npa_range_free(fresh);
        npa_range_free(next);
        npa_nursery_trim(0);
        CHECK(memory().nursery_bytes == 0);
    }
}

/* An heir gets pages as they are, whoever had lent them. */
static void
test_heirs(void)
{
    for (int borrowed = 0; borrowed < 2; borrowed++) {
        npa_range *dead = npa_range_new(8 * MIB), *heir = npa_range_new(8 * MIB);
        npa_range *other = npa_range_new(3 * MIB);
        char *work = npa_range_work(dead);
        memset(work, 9, 8 * MIB);
        CHECK(!npa_range_inherit(other, dead) && npa_range_inherit(heir, dead));
        CHECK(heir->work == work && work[8 * MIB - 1] == 9 && memory().live_ranges == 2);
        CHECK(npa_range_publish(heir) == 0 && heir->home[4 * MIB] == 9);
        npa_range_free(heir);
        npa_range_free(other);
        CHECK(memory().live_ranges == 0); /* the next round's first range borrows warm pages */
    }
    npa_nursery_trim(0);
    CHECK(memory().nursery_bytes == 0);
}

static void
test_a_limit_of_the_nursery(void)
{
    npa_nursery_limit(4 * MIB);
    npa_range *r = npa_range_new(8 * MIB);
    memset(npa_range_work(r), 7, 8 * MIB);
    npa_range_free(r);
    CHECK(memory().nursery_bytes == 0);
    r = npa_range_new(8 * MIB);
    CHECK(npa_range_work(r)[0] == 0);
    npa_range_free(r);
    npa_nursery_limit(256 * MIB);
}

enum { LIVE = 300 };
static struct {
    npa_range *range;
    unsigned long mark; /* 0: nothing written */
} live[LIVE];

static void
begin_life(size_t k, unsigned long dice)
{
    size_t bits = 3 + (dice >> 16) % 19;
    size_t size = 16 + ((dice >> 24) & (((size_t)1 << bits) - 1));
    bool zero, shown = dice >> 60 & 1;
    live[k].range = shown ? npa_range_shown(size, &zero) : npa_range_new(size);
    CHECK(!shown || !zero || live[k].range->home[size - 1] == 0);
    live[k].mark = 0;
    CHECK(live[k].range);
}

static void
end_lives(void)
{
    for (size_t k = 0; k < LIVE; k++) {
        if (live[k].range) {
            npa_range_free(live[k].range);
            live[k].range = NULL;
        }
    }
    npa_nursery_trim(0);
    CHECK(memory().live_ranges == 0 && memory().live_bytes == 0 && memory().nursery_bytes == 0);
    CHECK(memory().mappings < 100);
}

/* Random life of many ranges; each content is checked when it is moved and when it ends. */
static void
test_random(int steps)
{
    unsigned long seed = 88172645463325252u;
    for (int i = 0; i < steps; i++) {
        unsigned long dice = next_random(&seed);
        size_t k = dice % LIVE;
        npa_range *r = live[k].range;
        if (r == NULL) {
            begin_life(k, dice);
            continue;
        }
        char *last = r->work ? r->work + r->size - 8 : NULL;
        if (live[k].mark) {
            CHECK(memcmp(last, &live[k].mark, 8) == 0 && memcmp(r->work, &live[k].mark, 8) == 0);
        }
        switch ((dice >> 40) % 6) {
        case 0:
            npa_range_free(r);
            live[k].range = NULL;
            break;
        case 1:
            CHECK(npa_range_withdraw(r) == 0 && (r->work != r->home));
            break;
        case 2:
            CHECK(npa_range_publish(r) == (r->work ? 0 : EINVAL));
            break;
        case 3:
            CHECK(r->work != r->home || npa_range_seal(r) == 0);
            break;
        default:
            npa_range_unseal(r);
            live[k].mark = dice | 1;
            memcpy(npa_range_work(r), &live[k].mark, 8);
            memcpy(r->work + r->size - 8, &live[k].mark, 8);
            memcpy(r->work, &live[k].mark, 8);
        }
    }
    npa_memory_stats now = memory();
    CHECK(count_maps() < now.mappings + 200 && now.recycled > 0);
    end_lives();
}

/* Whether the kernel was advised to use huge pages at an address; -1: it does not say. */
static int
advised_huge(const char *p)
{
#ifdef NPA_EMULATED
    return -1; /* an emulator makes up what it says */
#endif
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[512];
    bool here = false;
    int huge = -1;
    while (maps && huge < 0 && fgets(line, sizeof line, maps)) {
        char *low, *high;
        if (sscanf(line, "%p-%p ", (void **)&low, (void **)&high) == 2) {
            here = p >= low && p < high;
        }
        else if (here && strncmp(line, "VmFlags:", 8) == 0) {
            huge = strstr(line, " hg") != NULL;
        }
    }
    if (maps) {
        fclose(maps);
    }
    return huge;
}

/* Large ranges are in huge pages, wherever their pages come from; but the rest of the last one does
 * not count if it is large. */
static void
test_huge(void)
{
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", F_OK) != 0) {
        return;
    }
    struct { size_t size; int huge; } cases[] = {
        {8 * MIB, 1}, {2 * MIB, 1}, {2 * MIB + 1, 1}, {1 * MIB, 0}, {100, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int again = 0; again < 3; again++) { /* fresh, recycled, withdrawn */
            npa_range *r = npa_range_new(cases[i].size);
            *npa_range_work(r) = 1;
            CHECK(npa_range_publish(r) == 0);
            if (again == 2) {
                CHECK(npa_range_withdraw(r) == 0 && npa_range_publish(r) == 0);
            }
            int huge = advised_huge(r->home);
            CHECK(huge < 0 || huge == cases[i].huge);
            npa_range_free(r);
        }
    }
    npa_nursery_trim(0);
    npa_range *r = npa_range_new(4 * MIB + 1);
    memset(npa_range_work(r), 1, 4 * MIB + 1);
    CHECK(npa_range_publish(r) == 0);
    unsigned char there[6 * MIB / 4096];
    CHECK(mincore(r->home, 6 * MIB, there) == 0);
    CHECK(there[4 * MIB / 4096] && !there[4 * MIB / 4096 + 1]);
    npa_range_free(r);
    npa_nursery_trim(0);
}

static atomic_bool stop;

/* Another thread that maps and unmaps all the time must never be given a part of ours. */
static void *
map_around(void *unused)
{
    (void)unused;
    unsigned long seed = 1234567;
    while (!atomic_load(&stop)) {
        size_t size = (next_random(&seed) % 64 + 1) * 64 * KIB;
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(p != MAP_FAILED && npa_range_find(p) == NULL);
        p[size / 2] = 'x';
        munmap(p, size);
    }
    return NULL;
}

static void
test_holes(int rounds)
{
    pthread_t other;
    atomic_store(&stop, false);
    CHECK(pthread_create(&other, NULL, map_around, NULL) == 0);
    npa_range *r[2] = {npa_range_new(300 * KIB), npa_range_new(4 * MIB)};
    for (int i = 0; i < rounds; i++) {
        npa_range *s = r[i % 2];
        *npa_range_work(s) = (char)i;
        CHECK(npa_range_publish(s) == 0 && *s->home == (char)i && npa_range_withdraw(s) == 0);
        CHECK(!readable(s->home));
    }
    atomic_store(&stop, true);
    pthread_join(other, NULL);
    npa_range_free(r[0]);
    npa_range_free(r[1]);
}

/* Without address space nothing works, and says so. */
static void
test_no_space(void)
{
#if defined(NPA_SANITIZED) || defined(NPA_EMULATED)
    return; /* a sanitizer's shadow does not fit under the limit; an emulator sets none */
#endif
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {256 * MIB, 256 * MIB};
        setrlimit(RLIMIT_AS, &limit);
        bool off = npa_memory_init() != 0 && npa_memory_init() != 0 && !npa_range_new(100) &&
                   !npa_range_find(&limit);
        _exit(off ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A child owns copies: both sides go on, and neither sees the other's writes. */
static void
test_fork(void)
{
    npa_range *r = npa_range_new(1 * MIB);
    *npa_range_work(r) = 1;
    CHECK(npa_range_publish(r) == 0);
    pid_t child = fork();
    if (child == 0) {
        bool good = npa_range_find(r->home) == r && *r->home == 1 && npa_range_withdraw(r) == 0;
        *r->work = 2;
        good = good && npa_range_publish(r) == 0 && *r->home == 2 && npa_range_new(1 * MIB);
        _exit(good ? 0 : 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0 && *r->home == 1);
    npa_range_free(r);
}

/* What warm ranges hold when one of so many MiB was there. */
static size_t
after(size_t mib)
{
    npa_range *range = npa_range_new(mib * MIB);
    CHECK(npa_range_work(range) != NULL);
    npa_range_free(range);
    return memory().nursery_bytes / MIB;
}

/* Where ranges grow, what smaller ones left goes back; what is needed again stays. */
static void
test_growing(void)
{
    CHECK(after(40) == 40 && after(100) == 100 && after(40) == 140);
    size_t fresh = memory().fresh;
    CHECK(after(40) == 140 && after(100) == 140 && memory().fresh == fresh && after(200) == 240);
}

/* What is touched ahead is lent as any other memory, and noted as new by who takes it. */
static void
test_ahead(void)
{
    const size_t *noted;
    CHECK(npa_memory_new(&noted) == 0);
    size_t fresh = memory().fresh;
    npa_range *range = npa_range_ahead(3 * MIB), *other = npa_range_ahead(256 * KIB);
    char *pages = range->work;
    memset(pages, 0, 3 * MIB);
    npa_range_lend(range), npa_range_lend(other);
    npa_memory_notes = true;
    npa_range *taker = npa_range_new(3 * MIB);
    CHECK(npa_range_work(taker) == pages && memory().fresh == fresh);
    CHECK(npa_memory_new(&noted) == 1 && noted[0] == 3 * MIB);
    npa_memory_lacks = false;
    npa_range *more = npa_range_new(5 * MIB), *tiny = npa_range_new(100);
    CHECK(npa_range_work(more) != NULL && npa_range_work(tiny) != NULL && npa_memory_lacks);
    CHECK(npa_memory_new(&noted) == 2 && noted[1] == 5 * MIB);
    npa_range_free(taker); /* somebody has used it: it is no new memory any more */
    size_t warm = memory().nursery_bytes;
    npa_nursery_trim_ahead();
    CHECK(memory().nursery_bytes == warm - 256 * KIB);
    taker = npa_range_new(3 * MIB);
    CHECK(npa_range_work(taker) == pages && npa_memory_new(&noted) == 2);
    npa_memory_notes = false;
    npa_range_free(taker), npa_range_free(more), npa_range_free(tiny);
    npa_nursery_trim(0);
    npa_memory_notes = true;
    more = npa_range_new(5 * MIB);
    CHECK(npa_range_work(more) != NULL && npa_memory_new(&noted) == 2); /* it was given back */
    npa_memory_notes = false;
    npa_range_free(more);
    npa_nursery_trim(0);
}

int
main(void)
{
    test_no_space();
    CHECK(npa_memory_init() == 0 && npa_memory_init() == 0);
    test_life();
    test_shown();
    test_parts();
    test_sealed();
    test_nursery();
    test_heirs();
    test_a_limit_of_the_nursery();
    test_random(200000);
    test_holes(2000);
    test_huge();
    test_fork();
    test_ahead();
    test_growing();
    npa_memory_stats now = memory();
    printf("memory: ok (published %zu, recycled %zu, fresh %zu)\n", now.published, now.recycled,
           now.fresh);
    return 0;
}
