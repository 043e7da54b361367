/* limits.c: how much memory, address space and mappings this process may have.
 *
 * What counts beside the machine is what somebody set: the memory of a control group (a container,
 * a batch job), RLIMIT_AS and RLIMIT_DATA (`ulimit -v`, `-d`), and strict accounting of what
 * programs may come to need (vm.overcommit_memory 2). */
#define _GNU_SOURCE
#include "system/linux/linux.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

const char *npa_limits_root = ""; /* tests have a folder with files of their own */

static FILE *open_file(const char *path)
{
    char whole[1024];
    int size = snprintf(whole, sizeof whole, "%s%s", npa_limits_root, path);
    return size > 0 && (size_t)size < sizeof whole ? fopen(whole, "re") : NULL;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t read_number(const char *path, size_t otherwise)
{
    FILE *file = open_file(path);
    size_t value = otherwise;
    if (file != NULL) {
        value = fscanf(file, "%zu", &value) == 1 ? value : otherwise; /* "max" is no number */
        fclose(file);
    }
    return value;
}

/* The least of the limits of a control group and of those around it. */
static size_t read_groups(const char *folder, char *group, const char *name)
{
    char path[1024];
    size_t found = SIZE_MAX;
    for (char *end = group + strlen(group);; end = strrchr(group, '/')) {
        if (end != NULL) {
            *end = '\0';
        }
        int size = snprintf(path, sizeof path, "%s%s/%s", folder, group, name);
        if (size > 0 && (size_t)size < sizeof path) {
            found = least(found, read_number(path, SIZE_MAX));
        }
        if (*group == '\0') { /* in a container its own group lies here, whatever its name */
            return found;
        }
    }
}

static size_t group_memory(void)
{
    char line[1024];
    size_t found = SIZE_MAX;
    FILE *file = open_file("/proc/self/cgroup"); /* number:controllers:/group */
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        char *controllers = strchr(line, ':'),
             *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (*group == '/' && strcmp(controllers, ":") == 0) {
            found = least(found, read_groups("/sys/fs/cgroup", group, "memory.max"));
        } else if (*group == '/' && strcmp(controllers, ":memory") == 0) {
            found = least(found, read_groups("/sys/fs/cgroup/memory", group,
                                             "memory.limit_in_bytes"));
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

size_t npa_limit_memory(void)
{
    size_t all = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    return least(all, group_memory());
}

size_t npa_limit_mappings(void)
{
    return read_number("/proc/sys/vm/max_map_count", 65530);
}

/* What is left of a limit of the process's. */
static size_t left_of(int resource, size_t used)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) {
        return SIZE_MAX;
    }
    return limit.rlim_cur > used ? limit.rlim_cur - used : 0;
}

/* What all programs together may still commit to, where that is accounted strictly. */
static size_t left_to_commit(void)
{
    char line[256];
    size_t limit = 0, used = 0, kib;
    if (read_number("/proc/sys/vm/overcommit_memory", 0) != 2) {
        return SIZE_MAX;
    }
    FILE *file = open_file("/proc/meminfo");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "CommitLimit: %zu kB", &kib) == 1) {
            limit = kib << 10;
        } else if (sscanf(line, "Committed_AS: %zu kB", &kib) == 1) {
            used = kib << 10;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return limit > used ? limit - used : 0;
}

/* Bytes that are mapped; *data: of which are data that this process may write. */
static size_t read_mapped(size_t *data)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), all = 0;
    FILE *file = open_file("/proc/self/statm");
    *data = 0;
    if (file != NULL) {
        if (fscanf(file, "%zu %*u %*u %*u %*u %zu", &all, data) != 2) {
            all = *data = 0;
        }
        fclose(file);
    }
    *data *= page;
    return all * page;
}

size_t npa_limit_addresses(void)
{
    size_t data, all = read_mapped(&data);
    size_t left = least(left_of(RLIMIT_AS, all), left_of(RLIMIT_DATA, data));
    return least(left, left_to_commit());
}

size_t npa_limit_mapped(void)
{
    size_t data;
    return read_mapped(&data);
}

size_t npa_limit_free(void)
{
    return (size_t)sysconf(_SC_AVPHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

double npa_limit_machine(void)
{
    struct sysinfo info;
    return sysinfo(&info) == 0
               ? ((double)info.totalram + (double)info.totalswap) * info.mem_unit : HUGE_VAL;
}

size_t npa_limit_cache(void)
{
    long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return bytes > 0 ? (size_t)bytes : 0;
}
