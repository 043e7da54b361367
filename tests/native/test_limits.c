/* test_limits.c: what npaccel/native/system/linux/limits.c makes of the files of a system, and of
   limits that are set. */
#include "check.h"

#include "../../npaccel/native/system/linux/linux.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static char root[] = "/tmp/npaccel-limits-XXXXXX";

/* The file of the made-up system, and the folders that it lies in. */
static void
put(const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, path);
    for (char *slash = whole + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void
test_groups(void)
{
    size_t machine = npa_limit_memory(); /* no files: nothing is limited */
    CHECK(machine == (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
    put("/proc/self/cgroup", "0::/user/job\n");
    CHECK(npa_limit_memory() == machine);
    put("/sys/fs/cgroup/user/job/memory.max", "max\n");
    CHECK(npa_limit_memory() == machine);
    put("/sys/fs/cgroup/user/job/memory.max", "67108864\n");
    CHECK(npa_limit_memory() == 64 * MIB);
    put("/sys/fs/cgroup/user/memory.max", "33554432\n"); /* the one around it has less */
    CHECK(npa_limit_memory() == 32 * MIB);
    put("/sys/fs/cgroup/memory.max", "16777216\n"); /* as a container sees its own */
    CHECK(npa_limit_memory() == 16 * MIB);
    put("/proc/self/cgroup", "5:cpu,cpuacct:/a\n4:memory:/docker/0123\n0::/\n");
    put("/sys/fs/cgroup/memory.max", "max\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(npa_limit_memory() == machine);
    put("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "8388608\n");
    CHECK(npa_limit_memory() == 8 * MIB);
    put("/proc/self/cgroup", "nonsense\n\n::\n1:memory\n");
    CHECK(npa_limit_memory() == machine);
}

static void
test_overcommit(void)
{
    CHECK(npa_limit_addresses() == SIZE_MAX);
    put("/proc/meminfo", "MemTotal: 9 kB\nCommitLimit:   3000 kB\nCommitted_AS:  1000 kB\n");
    put("/proc/sys/vm/overcommit_memory", "0\n");
    CHECK(npa_limit_addresses() == SIZE_MAX);
    put("/proc/sys/vm/overcommit_memory", "2\n"); /* strict */
    CHECK(npa_limit_addresses() == 2000 * KIB);
    put("/proc/meminfo", "CommitLimit:   3000 kB\nCommitted_AS:  9000 kB\n");
    CHECK(npa_limit_addresses() == 0);
    put("/proc/sys/vm/overcommit_memory", "0\n");
}

#if !defined(NPA_SANITIZED) && !defined(NPA_EMULATED) /* which reserve themselves, set no limits */
/* In a process of its own with so much address space more than it has: how much was reserved. */
static size_t
reserved_in(int resource, size_t more)
{
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    pid_t child = fork();
    if (child == 0) {
        size_t pages = 0, data = 0, found[2];
        FILE *file = fopen("/proc/self/statm", "r");
        CHECK(file && fscanf(file, "%zu %*u %*u %*u %*u %zu", &pages, &data) == 2);
        fclose(file);
        npa_limits_root = "";
        more += (resource == RLIMIT_DATA ? data : pages) * (size_t)sysconf(_SC_PAGESIZE);
        CHECK(setrlimit(resource, &(struct rlimit){more, more}) == 0);
        npa_memory_stats stats;
        found[0] = (size_t)npa_memory_init();
        npa_memory_read_stats(&stats);
        found[1] = stats.reserved;
        CHECK(write(pipes[1], found, sizeof found) == sizeof found);
        _exit(0);
    }
    size_t found[2];
    CHECK(read(pipes[0], found, sizeof found) == sizeof found);
    CHECK(waitpid(child, NULL, 0) == child);
    close(pipes[0]), close(pipes[1]);
    CHECK((found[0] == 0) == (found[1] > 0));
    return found[1];
}

/* An eighth at most, and no less than half of that. */
static void
test_reservation(void)
{
    const int resources[] = {RLIMIT_AS, RLIMIT_DATA};
    for (int i = 0; i < 2; i++) {
        for (size_t more = 3000 * MIB; more < 400000 * MIB; more = more * 3 / 2) {
            size_t reserved = reserved_in(resources[i], more);
            CHECK(reserved <= more / 8 && reserved > more / 17);
        }
        CHECK(reserved_in(resources[i], 800 * MIB) == 0); /* too little to be of use */
    }
}

/* Homes of all sizes come and go in little space: none is lost, and no two share memory. */
static void
test_little_space_for_long(void)
{
    enum { HELD = 24 };
    pid_t child = fork();
    if (child == 0) {
        npa_range *held[HELD] = {NULL};
        unsigned long state = 7;
        int had = 0, refused = 0;
        npa_limits_root = "";
        CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){3000 * MIB, 3000 * MIB}) == 0);
        CHECK(npa_memory_init() == 0);
        for (int i = 0; i < 20000; i++) {
            int k = (int)(next_random(&state) % HELD);
            if (held[k] != NULL) {
                CHECK(held[k]->home[held[k]->size - 1] == k && *held[k]->home == k);
                npa_range_free(held[k]);
            }
            size_t size = (size_t)1 << (next_random(&state) % 24); /* most of them small */
            held[k] = npa_range_new(size + next_random(&state) % size);
            had += held[k] != NULL, refused += held[k] == NULL;
            if (held[k] != NULL) {
                char *work = npa_range_work(held[k]);
                work[0] = work[held[k]->size - 1] = (char)k;
                CHECK(npa_range_publish(held[k]) == 0 && npa_range_find(held[k]->home) == held[k]);
            }
        }
        CHECK(had > 30 * refused);
        for (int k = 0; k < HELD; k++) {
            if (held[k] != NULL) {
                npa_range_free(held[k]);
            }
        }
        CHECK(npa_range_new(60 * MIB) != NULL);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* Where the reservation is used up, homes of others serve, whose pages are given up. */
static void
test_small_space(void)
{
    pid_t child = fork();
    if (child == 0) {
        npa_range *ranges[256];
        int n = 0;
        npa_limits_root = "";
        CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){3000 * MIB, 3000 * MIB}) == 0);
        CHECK(npa_memory_init() == 0);
        while (n < 256 && (ranges[n] = npa_range_new(4 * MIB)) != NULL) {
            *npa_range_work(ranges[n]) = 1;
            CHECK(npa_range_publish(ranges[n]) == 0);
            n++;
        }
        CHECK(n >= 8 && n < 256 && npa_range_new(3 * MIB) == NULL);
        npa_range_free(ranges[0]), npa_range_free(ranges[1]);
        npa_range *a = npa_range_new(3 * MIB), *b = npa_range_new(4 * MIB);
        CHECK(a && b && npa_range_new(4 * MIB) == NULL);
        *npa_range_work(a) = 2, *npa_range_work(b) = 3;
        CHECK(npa_range_publish(a) == 0 && npa_range_publish(b) == 0 && *a->home == 2);
        CHECK(*b->home == 3 && *ranges[2]->home == 1 && npa_range_find(a->home + 3 * MIB - 1) == a);
        for (int i = 2; i < n; i++) {
            npa_range_free(ranges[i]);
        }
        /* Neighbours make a large one, whose rest is not lost. */
        npa_range *large = npa_range_new(17 * MIB), *small[256];
        CHECK(large && npa_range_find(large->home + 17 * MIB - 1) == large);
        memset(npa_range_work(large), 4, 17 * MIB);
        CHECK(npa_range_publish(large) == 0 && large->home[17 * MIB - 1] == 4);
        CHECK(*a->home == 2 && *b->home == 3);
        size_t total = 0;
        for (int i = 0; (small[i] = npa_range_new(2 * MIB)) != NULL; i++) {
            total += small[i]->span;
            *npa_range_work(small[i]) = 5;
            CHECK(npa_range_publish(small[i]) == 0 && npa_range_find(small[i]->home) == small[i]);
        }
        CHECK(total + 26 * MIB >= (size_t)n * 4 * MIB && *large->home == 4 && *a->home == 2);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

/* A limit that is set later: what no range has lain in is given back, and ranges stay. */
static void
test_make_way(void)
{
    pid_t child = fork();
    if (child == 0) {
        npa_limits_root = "";
        CHECK(npa_memory_init() == 0 && !npa_memory_limited());
        npa_range *r = npa_range_new(3 * MIB), *s = npa_range_new(100), *later[4096];
        CHECK(r && s && npa_memory_make_way(SIZE_MAX) && !npa_memory_limited());
        memset(npa_range_work(r), 1, 3 * MIB);
        *npa_range_work(s) = 2;
        CHECK(npa_range_publish(r) == 0);
        CHECK(npa_memory_make_way(3000 * MIB) && npa_memory_limited());
        CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){3000 * MIB, 5000 * MIB}) == 0);
        npa_memory_stats stats;
        npa_memory_read_stats(&stats);
        CHECK(stats.reserved <= 3000 * MIB / 8 && stats.reserved > 3000 * MIB / 20);
        CHECK(npa_range_publish(s) == 0 && npa_range_withdraw(r) == 0 && npa_range_publish(r) == 0);
        CHECK(r->home[3 * MIB - 1] == 1 && *s->home == 2 && npa_range_find(r->home) == r);
        CHECK(npa_range_find(r->home + ((size_t)1 << 40)) == NULL);
        int n = 0;
        while (n < 4096 && (later[n] = npa_range_new(MIB)) != NULL) {
            memset(npa_range_work(later[n]), n, MIB);
            CHECK(npa_range_publish(later[n]) == 0 && npa_range_find(later[n]->home) == later[n]);
            n++;
        }
        CHECK(n > 16 && n < 200 && *later[7]->home == 7 && r->home[7] == 1);
        void *rest = mmap(NULL, 2000 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(rest != MAP_FAILED);
        CHECK(!npa_memory_make_way(3000 * MIB - 300 * MIB) && npa_memory_init() == ENOMEM);
        CHECK(r->home[7] == 1 && npa_range_find(later[7]->home) == later[7]);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}
#endif

int
main(void)
{
    char command[sizeof root + 16];
    CHECK(mkdtemp(root));
    npa_limits_root = root;
    test_groups();
    test_overcommit();
    CHECK(npa_limit_mappings() == 65530);
    put("/proc/sys/vm/max_map_count", "1000\n");
    CHECK(npa_limit_mappings() == 1000);
#if !defined(NPA_SANITIZED) && !defined(NPA_EMULATED)
    test_reservation();
    test_make_way();
    test_small_space();
    test_little_space_for_long();
#endif
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
    printf("limits: ok\n");
    return 0;
}
