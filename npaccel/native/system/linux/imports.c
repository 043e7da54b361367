/* imports.c: functions of the C library, exchanged in the import tables (tables.c) of every
 * library.
 *
 *     a library's call ──► its table: JUMP_SLOT, GLOB_DAT, or a pointer in its data
 *                             │ was: the C library's function
 *                             └ is:  ours, which ends by calling the C library's
 *
 * What is the C library's function is read from our own table, which is bound when we are loaded
 * (-z now) and is never changed.
 *
 * A library may be unloaded at any time: nothing of ours points into it. The walk holds the lock
 * that keeps libraries loaded. See Note [Loading] at the end for those that are loaded later. */
#define _GNU_SOURCE
#include "system/linux/tables.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PLACES = 256, MOST_TRIES = 100, MOST_PAUSES = 1000 };
enum { ADDED_MEANWHILE = 1, NO_ROOM };

/* What was loaded when we looked last, in the loader's order. */
typedef struct {
    uintptr_t base;
    uint64_t mark; /* tells it from another one at the same place */
    void **entry;  /* one that was changed; NULL: there is none */
    void *value;   /* what it holds since */
} known;

static struct {
    npa_import *list;
    int n;
    bool restore;
    unsigned char place[PLACES]; /* of a name's hash: 1 + its index; 0: none */
    uint64_t second[128];        /* of a first letter: which second ones there are, modulo 64 */
    npa_library program;
    const void *numpys; /* something in NumPy's library */
    uintptr_t real_low, real_high; /* where the real ones begin */
    known *before, *now;
    size_t nbefore, nnow, capacity, cursor, skip;
    npa_imports_stats stats;
    unsigned long long adds, subs; /* loaded, unloaded: at this walk */
    atomic_int busy;         /* a walk is under way */
    _Atomic unsigned long long done; /* libraries that had been loaded by the last walk */
} imports;

/* ------------------------------------------------------------------------------- the names */

static unsigned hash_of(const char *name)
{
    unsigned hash = 5381;
    for (; *name != 0; name++) {
        hash = 33 * hash + (unsigned char)*name;
    }
    return hash % PLACES;
}

static void index_names(void)
{
    for (int i = 0; i < imports.n; i++) {
        const char *name = imports.list[i].name;
        unsigned at = hash_of(name);
        while (imports.place[at] != 0) {
            at = (at + 1) % PLACES;
        }
        imports.place[at] = (unsigned char)(i + 1);
        imports.second[name[0] & 127] |= (uint64_t)1 << (name[1] & 63);
    }
}

npa_import *npa_import_named(const char *name)
{
    if (name[0] == 0 || !(imports.second[name[0] & 127] >> (name[1] & 63) & 1)) {
        return NULL;
    }
    for (unsigned at = hash_of(name); imports.place[at] != 0; at = (at + 1) % PLACES) {
        npa_import *i = &imports.list[imports.place[at] - 1];
        if (strcmp(i->name, name) == 0) {
            return i;
        }
    }
    return NULL;
}

void *npa_imports_instead_of(const void *function)
{
    if (!npa_within(imports.real_low, imports.real_high, function)) {
        return NULL;
    }
    for (int i = 0; i < imports.n; i++) {
        const npa_import *f = &imports.list[i];
        if (!f->numpys && f->real != NULL && (function == f->real || function == f->libc)) {
            return f->ours;
        }
    }
    return NULL;
}

/* -------------------------------------------------------------------------------- the walk */

static bool is_own(const npa_library *o)
{
    return npa_within(o->low, o->high, (const void *)&imports);
}

static int visit_own(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    npa_library o = npa_library_of(info);
    if (imports.program.high == 0) {
        imports.program = o; /* it comes first */
    }
    if (is_own(&o)) {
        npa_tables_believe(&o, &imports.program);
    }
    return is_own(&o);
}

static uint64_t mark_of(const npa_library *o)
{
    uint64_t mark = (uint64_t)(uintptr_t)o->segments;
    for (int i = 0; i < o->nsegments; i++) {
        const ElfW(Phdr) *s = &o->segments[i];
        mark = (mark ^ s->p_memsz ^ s->p_vaddr << 20) * 0x9e3779b97f4a7c15u;
    }
    return mark;
}

/* Whether it was there at the last walk, with what was changed then. New ones come last. */
static bool was_known(known *k)
{
    for (size_t i = imports.cursor; i < imports.nbefore; i++) {
        const known *old = &imports.before[i];
        if (old->base == k->base && old->mark == k->mark) {
            imports.cursor = i + 1;
            *k = *old;
            return k->entry == NULL || __atomic_load_n(k->entry, __ATOMIC_RELAXED) == k->value;
        }
    }
    return false;
}

/* Not from malloc: it may be the one who loads a library. */
static bool reserve(void)
{
    if (imports.nnow < imports.capacity) {
        return true;
    }
    size_t capacity = imports.capacity ? 2 * imports.capacity : 1024, bytes = sizeof(known);
    known *grown = mmap(NULL, 2 * capacity * bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (grown == MAP_FAILED) {
        return false;
    }
    if (imports.capacity > 0) {
        known *old = imports.before < imports.now ? imports.before : imports.now;
        memcpy(grown, imports.before, imports.nbefore * bytes);
        memcpy(grown + capacity, imports.now, imports.nnow * bytes);
        munmap(old, 2 * imports.capacity * bytes);
    }
    imports.before = grown, imports.now = grown + capacity;
    imports.capacity = capacity;
    return true;
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (info->dlpi_adds != imports.adds || info->dlpi_subs != imports.subs) {
        return ADDED_MEANWHILE; /* it may not be bound yet */
    }
    if (imports.skip > 0) {
        imports.skip--;
        return 0;
    }
    if (!reserve()) {
        return NO_ROOM;
    }
    npa_library o = npa_library_of(info);
    known *k = &imports.now[imports.nnow];
    *k = (known){.base = o.base, .mark = mark_of(&o)};
    if (!is_own(&o) && (!was_known(k) || imports.restore)) {
        npa_changes changes = npa_tables_change(&o, imports.restore);
        k->entry = changes.entry, k->value = changes.value;
        imports.stats.entries += changes.made, imports.stats.refused += changes.refused;
    }
    imports.stats.libraries += k->entry != NULL;
    imports.nnow++;
    return 0;
}

static int read_counts(struct dl_phdr_info *info, size_t size, void *counts)
{
    (void)size;
    ((unsigned long long *)counts)[0] = info->dlpi_adds;
    ((unsigned long long *)counts)[1] = info->dlpi_subs;
    return 1;
}

static unsigned long long count_adds(unsigned long long *subs)
{
    unsigned long long counts[2] = {0, 0};
    dl_iterate_phdr(read_counts, counts);
    *subs = counts[1];
    return counts[0];
}

/* Until other threads have loaded what they are loading. */
static void wait_for_loading(void)
{
    void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (program != NULL) {
        dlclose(program);
    }
}

/* With `busy`. If none was unloaded since the last time, those that were there are the first. */
static void walk(void)
{
    unsigned long long subs = imports.subs;
    bool anew = atomic_load(&imports.done) == 0 || imports.restore;
    imports.nbefore = 0;
    for (int tries = 0; tries < MOST_TRIES; tries++) {
        imports.adds = count_adds(&imports.subs);
        wait_for_loading();
        if (anew || imports.subs != subs) {
            known *empty = imports.before;
            imports.before = imports.now, imports.nbefore = imports.nnow;
            imports.now = empty, imports.nnow = 0;
            imports.stats.libraries = 0;
            anew = false, subs = imports.subs;
        }
        imports.cursor = 0, imports.skip = imports.nnow;
        if (dl_iterate_phdr(visit, NULL) != ADDED_MEANWHILE) {
            atomic_store(&imports.done, imports.adds);
            return;
        }
    }
}

/* Another thread's walk is waited for, but not for ever: it may be waiting for us, who are loading
 * a library that looks for a function as it starts. */
static bool begin(void)
{
    const struct timespec pause = {.tv_nsec = 20000};
    for (int i = 0; atomic_exchange(&imports.busy, 1) != 0; i++) {
        if (i == MOST_PAUSES) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

static void end(void)
{
    atomic_store(&imports.busy, 0);
}

static void extend(const void *real)
{
    uintptr_t at = (uintptr_t)real;
    if (at != 0) {
        imports.real_low = imports.real_low == 0 || at < imports.real_low ? at : imports.real_low;
        imports.real_high = at >= imports.real_high ? at + 1 : imports.real_high;
    }
}

/* Before glibc 2.34 its threads were a library apart, which had some of them too. */
static void find_libc(void)
{
    void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
    for (int i = 0; libc != NULL && i < imports.n; i++) {
        npa_import *f = &imports.list[i];
        Dl_info info;
        bool apart = f->real != NULL && dladdr(f->real, &info) != 0 && info.dli_fname != NULL &&
                     strstr(info.dli_fname, "libpthread") != NULL;
        f->libc = apart ? dlsym(libc, f->name) : NULL;
    }
    if (libc != NULL) {
        dlclose(libc);
    }
}

bool npa_imports_numpys(const npa_library *o)
{
    return npa_within(o->low, o->high, imports.numpys);
}

int npa_imports_replace(npa_import *list, int n, const void *numpys)
{
    if (!npa_tables_known()) {
        return ENOSYS;
    }
    if (!begin()) {
        return EBUSY;
    }
    if (imports.list == NULL) {
        imports.list = list, imports.n = n, imports.numpys = numpys;
        index_names();
        dl_iterate_phdr(visit_own, NULL);
        find_libc();
    }
    int found = 0;
    for (int i = 0; i < n; i++) {
        found += list[i].real != NULL;
        extend(list[i].real), extend(list[i].libc);
    }
    imports.restore = false;
    imports.stats = (npa_imports_stats){.functions = found};
    if (found > 0) {
        walk();
    }
    end();
    return found == 0 ? ENOENT : imports.stats.entries == 0 ? EACCES : 0;
}

void npa_imports_check(void)
{
    unsigned long long done = atomic_load_explicit(&imports.done, memory_order_relaxed);
    unsigned long long subs;
    if (done != 0 && count_adds(&subs) != done && begin()) {
        if (atomic_load(&imports.done) != 0) {
            walk();
        }
        end();
    }
}

void npa_imports_restore(void)
{
    if (atomic_load(&imports.done) != 0 && begin()) {
        imports.restore = true;
        walk();
        imports.nnow = 0; /* all of them are new when it is done again */
        atomic_store(&imports.done, 0);
        end();
    }
}

void npa_imports_forked(void)
{
    end(); /* whoever was at it is not here */
}

void npa_imports_read_stats(npa_imports_stats *out)
{
    *out = imports.stats;
}

/* ---------------------------------------------------------------------- dlsym, as they call it */

#if defined(__has_attribute)
#if __has_attribute(musttail)
#define LAST __attribute__((musttail))
#endif
#endif
#ifndef LAST
#define LAST
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define LEAVES __attribute__((optimize("O2"), noinline))
#else
#define LEAVES __attribute__((noinline))
#endif

/* What these find may depend on who calls: they are left by a jump, so that it is still the caller,
 * unless the name is one of ours, which are the same for all but RTLD_NEXT. */
LEAVES void *npa_imports_dlsym(void *handle, const char *name)
{
    npa_imports_check();
    if (handle == RTLD_NEXT || npa_import_named(name) == NULL) {
        LAST return dlsym(handle, name);
    }
    void *found = dlsym(handle, name), *ours = npa_imports_instead_of(found);
    return ours != NULL ? ours : found;
}

LEAVES void *npa_imports_dlvsym(void *handle, const char *name, const char *version)
{
    npa_imports_check();
    if (handle == RTLD_NEXT || npa_import_named(name) == NULL) {
        LAST return dlvsym(handle, name, version);
    }
    void *found = dlvsym(handle, name, version), *ours = npa_imports_instead_of(found);
    return ours != NULL ? ours : found;
}

/* Note [Loading]
 *
 * A library that is being loaded by another thread is in the loader's list before it is bound: what
 * we wrote would be overwritten, and sealing its pages would end the process. The loader says how
 * many libraries it has added. We note the number, wait for the lock under which it loads, and walk
 * the list; if the number is still the same in the walk, all that is in the list had been loaded
 * when we had waited, and as long as the walk has the list's lock nothing leaves it.
 *
 * Libraries that are loaded later are noticed by that number, which takes some 25 ns to ask for:
 * when a request is recorded into an empty queue, and before somebody looks up a function in a
 * library: dlsym is one of the functions that are replaced. dlopen is not: what it loads depends
 * on who calls it. So only a library that is loaded, and called by code that its own constructors
 * registered, comes too early. */
