/* imports.c: functions of the C library, exchanged in the import tables of every library.
 *
 *     a library's call ──► its table: JUMP_SLOT, GLOB_DAT, or a pointer in its data
 *                             │ was: the C library's function
 *                             └ is:  ours, which ends by calling the C library's
 *
 * What is the C library's function is read from our own table, which is bound when we are loaded (-z
 * now) and is never changed. An entry is changed only where it is known to lead there: it holds that
 * address, or it is not bound yet and asks for a version of the C library's. So tables of others who
 * do the same are left alone. An entry that changes is bound: nobody writes it but us.
 *
 * A library may be unloaded at any time: nothing of ours points into it. The walk holds the lock that
 * keeps libraries loaded. See Note [Loading] at the end for those that are loaded later. */
#define _GNU_SOURCE
#include "core.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#if defined(__x86_64__)
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOB_DAT = R_X86_64_GLOB_DAT, POINTER = R_X86_64_64 };
enum { RELATIVE = R_X86_64_RELATIVE };
#elif defined(__aarch64__)
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOB_DAT = R_AARCH64_GLOB_DAT, POINTER = R_AARCH64_ABS64 };
enum { RELATIVE = R_AARCH64_RELATIVE };
#else
enum { JUMP_SLOT = -1, GLOB_DAT = -2, POINTER = -3, RELATIVE = -4 };
#endif

enum { PLACES = 256, MOST_WAITING = 128, MOST_TRIES = 100, MOST_PAUSES = 1000 };
enum { ADDED_MEANWHILE = 1, NO_ROOM };
enum { RW = PROT_READ | PROT_WRITE };

/* One loaded library; addresses are in memory. */
typedef struct {
    uintptr_t base, low, high;         /* `base` is added to what the file says */
    uintptr_t sealed_low, sealed_high; /* read-only since it was bound */
    const ElfW(Phdr) *segments;
    int nsegments;
    const ElfW(Dyn) *dynamic;
    const ElfW(Sym) *symbols;
    const char *names;
    const ElfW(Half) *versions;
    const char *needed; /* which versions of which libraries */
    struct { const ElfW(Rela) *first; size_t n; } tables[2];
} object;

/* An entry to be changed. */
typedef struct { void **at; void *value; } change;

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
    uintptr_t program_low, program_high;
    uintptr_t real_low, real_high; /* where the real ones begin */
    known *before, *now;
    size_t nbefore, nnow, capacity, cursor, skip;
    change waiting[MOST_WAITING];
    int nwaiting;
    npa_imports_stats stats;
    unsigned long long adds, subs; /* loaded, unloaded: at this walk */
    atomic_int busy;         /* a walk is under way */
    _Atomic unsigned long long done; /* libraries that had been loaded by the last walk */
} imports;

static bool within(uintptr_t low, uintptr_t high, const void *p)
{
    return (uintptr_t)p >= low && (uintptr_t)p < high;
}

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

static npa_import *find(const char *name)
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
    if (!within(imports.real_low, imports.real_high, function)) {
        return NULL;
    }
    for (int i = 0; i < imports.n; i++) {
        const npa_import *f = &imports.list[i];
        if (f->real != NULL && (function == f->real || function == f->libc)) {
            return f->ours;
        }
    }
    return NULL;
}

/* --------------------------------------------------------------------------------- objects */

/* glibc has added the base to these, others have not. */
static uintptr_t address(const object *o, ElfW(Addr) value)
{
    return value < o->base ? o->base + value : value;
}

static void read_segments(object *o)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1;
    o->low = UINTPTR_MAX;
    for (int i = 0; i < o->nsegments; i++) {
        const ElfW(Phdr) *s = &o->segments[i];
        uintptr_t low = o->base + s->p_vaddr, high = low + s->p_memsz;
        if (s->p_type == PT_LOAD) {
            o->low = low < o->low ? low : o->low;
            o->high = high > o->high ? high : o->high;
        } else if (s->p_type == PT_DYNAMIC) {
            o->dynamic = (const ElfW(Dyn) *)low;
        } else if (s->p_type == PT_GNU_RELRO) {
            o->sealed_low = low & ~page, o->sealed_high = high & ~page;
        }
    }
}

/* Its tables. False: it has none. */
static bool read_dynamic(object *o)
{
    size_t bytes = 0, jump_bytes = 0, relative = 0;
    for (const ElfW(Dyn) *d = o->dynamic; d != NULL && d->d_tag != DT_NULL; d++) {
        uintptr_t at = address(o, d->d_un.d_ptr);
        switch (d->d_tag) {
        case DT_SYMTAB: o->symbols = (const ElfW(Sym) *)at; break;
        case DT_STRTAB: o->names = (const char *)at; break;
        case DT_VERSYM: o->versions = (const ElfW(Half) *)at; break;
        case DT_VERNEED: o->needed = (const char *)at; break;
        case DT_RELA: o->tables[0].first = (const ElfW(Rela) *)at; break;
        case DT_JMPREL: o->tables[1].first = (const ElfW(Rela) *)at; break;
        case DT_RELASZ: bytes = d->d_un.d_val; break;
        case DT_PLTRELSZ: jump_bytes = d->d_un.d_val; break;
        case DT_RELACOUNT: relative = d->d_un.d_val; break;
        default: break;
        }
    }
    size_t n = o->tables[0].first != NULL ? bytes / sizeof(ElfW(Rela)) : 0;
    relative = relative < n ? relative : n; /* these come first, and name nothing */
    o->tables[0].first += relative, o->tables[0].n = n - relative;
    o->tables[1].n = o->tables[1].first != NULL ? jump_bytes / sizeof(ElfW(Rela)) : 0;
    return o->symbols != NULL && o->names != NULL && o->tables[0].n + o->tables[1].n > 0;
}

/* Whether a symbol is asked for in a version of the C library's. */
static bool asks_for_libc(const object *o, size_t symbol)
{
    if (o->versions == NULL || o->needed == NULL) {
        return false;
    }
    int version = o->versions[symbol] & 0x7fff;
    const char *at = o->needed;
    for (const ElfW(Verneed) *need = (const void *)at;; need = (const void *)at) {
        const char *part = at + need->vn_aux;
        for (int i = 0; i < need->vn_cnt; i++) {
            const ElfW(Vernaux) *v = (const void *)part;
            if (v->vna_other == version) {
                return strncmp(o->names + v->vna_name, "GLIBC_", 6) == 0;
            }
            part += v->vna_next;
        }
        if (need->vn_next == 0) {
            return false;
        }
        at += need->vn_next;
    }
}

/* --------------------------------------------------------------------------------- changes */

/* Make those that wait. Where they were sealed, they are again. Returns how many were made. */
static int make_changes(const object *o, known *k)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, low = UINTPTR_MAX, high = 0;
    int made = 0;
    for (int i = 0; i < imports.nwaiting; i++) {
        uintptr_t at = (uintptr_t)imports.waiting[i].at;
        if (within(o->sealed_low, o->sealed_high, (void *)at)) {
            low = at < low ? at & ~page : low;
            high = at >= high ? (at & ~page) + page + 1 : high;
        }
    }
    bool opened = low < high && mprotect((void *)low, high - low, RW) == 0;
    for (int i = 0; i < imports.nwaiting; i++) {
        change *c = &imports.waiting[i];
        if (!opened && within(low, high, c->at)) {
            imports.stats.refused++;
            continue;
        }
        __atomic_store_n(c->at, c->value, __ATOMIC_RELEASE);
        k->entry = c->at, k->value = c->value;
        made++;
    }
    if (opened) {
        mprotect((void *)low, high - low, PROT_READ);
    }
    imports.nwaiting = 0;
    return made;
}

static bool is_writable(const object *o, uintptr_t at)
{
    for (int i = 0; i < o->nsegments; i++) {
        const ElfW(Phdr) *s = &o->segments[i];
        uintptr_t low = o->base + s->p_vaddr;
        if (s->p_type == PT_LOAD && (s->p_flags & PF_W) && at >= low &&
            at + sizeof(void *) <= low + s->p_memsz) {
            return true;
        }
    }
    return false;
}

/* What an entry is to hold instead; NULL: what it holds now. */
static void *exchange(const object *o, const npa_import *f, const ElfW(Rela) *r, void *value)
{
    if (f->real == NULL || imports.restore) {
        return f->real != NULL && value == f->ours ? f->real : NULL;
    }
    bool unbound = ELF64_R_TYPE(r->r_info) == JUMP_SLOT && within(o->low, o->high, value);
    return value == f->real || (unbound && asks_for_libc(o, ELF64_R_SYM(r->r_info))) ? f->ours
                                                                                        : NULL;
}

/* The function that an entry is bound to by name; NULL: none of ours. */
static npa_import *imported(const object *o, const ElfW(Rela) *r)
{
    long type = (long)ELF64_R_TYPE(r->r_info);
    if (type != JUMP_SLOT && type != GLOB_DAT && (type != POINTER || r->r_addend != 0)) {
        return NULL;
    }
    const ElfW(Sym) *s = &o->symbols[ELF64_R_SYM(r->r_info)];
    return s->st_shndx == SHN_UNDEF && s->st_name != 0 ? find(o->names + s->st_name) : NULL;
}

static int change_tables(const object *o, known *k)
{
    int made = 0;
    for (int t = 0; t < 2; t++) {
        for (const ElfW(Rela) *r = o->tables[t].first, *end = r + o->tables[t].n; r < end; r++) {
            const npa_import *f = imported(o, r);
            void **at = (void **)(o->base + r->r_offset);
            if (f == NULL || (uintptr_t)at % sizeof *at != 0 || !is_writable(o, (uintptr_t)at)) {
                continue;
            }
            void *value = __atomic_load_n(at, __ATOMIC_ACQUIRE), *other = exchange(o, f, r, value);
            if (other == NULL) {
                k->entry = value == f->ours ? at : k->entry, k->value = f->ours;
                continue;
            }
            imports.waiting[imports.nwaiting++] = (change){at, other};
            if (imports.nwaiting == MOST_WAITING) {
                made += make_changes(o, k);
            }
        }
    }
    return made + make_changes(o, k);
}

/* Our own table says what the functions are. One that leads back into us is not bound; one into the
 * program goes by a table that will be changed. */
static void read_own_table(const object *o)
{
    for (int t = 0; t < 2; t++) {
        for (size_t i = 0; i < o->tables[t].n; i++) {
            const ElfW(Rela) *r = &o->tables[t].first[i];
            npa_import *f = imported(o, r);
            void *value = f != NULL ? *(void **)(o->base + r->r_offset) : NULL;
            if (value != NULL && ELF64_R_TYPE(r->r_info) != POINTER &&
                !within(o->low, o->high, value) &&
                !within(imports.program_low, imports.program_high, value)) {
                f->real = value;
            }
        }
    }
}

/* -------------------------------------------------------------------------------- the walk */

static bool is_own(const object *o)
{
    return within(o->low, o->high, (const void *)&imports);
}

static object object_of(const struct dl_phdr_info *info)
{
    object o = {.base = info->dlpi_addr, .segments = info->dlpi_phdr, .nsegments = info->dlpi_phnum};
    read_segments(&o);
    return o;
}

static int visit_own(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    object o = object_of(info);
    if (imports.program_high == 0) { /* it comes first */
        imports.program_low = o.low, imports.program_high = o.high;
    }
    if (is_own(&o) && read_dynamic(&o)) {
        read_own_table(&o);
        return 1;
    }
    return 0;
}

static uint64_t mark_of(const object *o)
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
    known *grown = mmap(NULL, 2 * capacity * bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
    object o = object_of(info);
    known *k = &imports.now[imports.nnow];
    *k = (known){.base = o.base, .mark = mark_of(&o)};
    if (!is_own(&o) && (!was_known(k) || imports.restore)) {
        k->entry = NULL;
        imports.stats.entries += read_dynamic(&o) ? change_tables(&o, k) : 0;
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

/* Another thread's walk is waited for, but not for ever: it may be waiting for us, who are loading a
 * library that looks for a function as it starts. */
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

int npa_imports_replace(npa_import *list, int n)
{
    if (RELATIVE < 0) {
        return ENOSYS;
    }
    if (!begin()) {
        return EBUSY;
    }
    if (imports.list == NULL) {
        imports.list = list, imports.n = n;
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
    if (handle == RTLD_NEXT || find(name) == NULL) {
        LAST return dlsym(handle, name);
    }
    void *found = dlsym(handle, name), *ours = npa_imports_instead_of(found);
    return ours != NULL ? ours : found;
}

#pragma weak dlvsym
LEAVES void *npa_imports_dlvsym(void *handle, const char *name, const char *version)
{
    npa_imports_check();
    if (handle == RTLD_NEXT || find(name) == NULL) {
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
