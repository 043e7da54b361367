/* tables.c: what a library imports: JUMP_SLOT for calls, GLOB_DAT for addresses, pointers in data.
 *
 * An entry is changed only where it is known to lead to a function that is replaced: it holds its
 * address, or it is not bound yet and asks for a version of the C library's. So tables of others
 * who do the same are left alone. Such an entry was written by the loader, which does so once. */
#define _GNU_SOURCE
#include "system/linux/tables.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { JUMP_SLOT = NPA_ELF_JUMP_SLOT, GLOB_DAT = NPA_ELF_GLOB_DAT, POINTER = NPA_ELF_POINTER };
enum { RELATIVE = NPA_ELF_RELATIVE };

enum { MOST_WAITING = 128, RW = PROT_READ | PROT_WRITE };

bool npa_tables_known(void) { return RELATIVE > 0; }

/* glibc has added the base to these, others have not. */
static uintptr_t address(const npa_library *o, ElfW(Addr) value)
{
    return value < o->base ? o->base + value : value;
}

static void read_segments(npa_library *o)
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

npa_library npa_library_of(const struct dl_phdr_info *info)
{
    npa_library o = {.base = info->dlpi_addr, .segments = info->dlpi_phdr,
                     .nsegments = info->dlpi_phnum};
    read_segments(&o);
    return o;
}

/* Its tables. False: it has none. */
static bool read_dynamic(npa_library *o)
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
static bool asks_for_libc(const npa_library *o, size_t symbol)
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

/* Entries to be changed, of one library. */
typedef struct {
    struct { void **at; void *value; } all[MOST_WAITING];
    int n;
} waiting;

/* Make them. Where they were sealed, they are again. */
static void make_changes(const npa_library *o, waiting *w, npa_changes *changes)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE) - 1, low = UINTPTR_MAX, high = 0;
    for (int i = 0; i < w->n; i++) {
        uintptr_t at = (uintptr_t)w->all[i].at;
        if (npa_within(o->sealed_low, o->sealed_high, (void *)at)) {
            low = at < low ? at & ~page : low;
            high = at >= high ? (at & ~page) + page + 1 : high;
        }
    }
    bool opened = low < high && mprotect((void *)low, high - low, RW) == 0;
    for (int i = 0; i < w->n; i++) {
        void **at = w->all[i].at, *value = w->all[i].value;
        if (!opened && npa_within(low, high, at)) {
            changes->refused++;
            continue;
        }
        __atomic_store_n(at, value, __ATOMIC_RELEASE);
        changes->entry = at, changes->value = value;
        changes->made++;
    }
    if (opened) {
        mprotect((void *)low, high - low, PROT_READ);
    }
    w->n = 0;
}

static bool is_writable(const npa_library *o, uintptr_t at)
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
static void *exchange(const npa_library *o, const npa_import *f, const ElfW(Rela) *r, void *value,
                      bool restore)
{
    if (f->real == NULL || restore) {
        return f->real != NULL && value == f->ours ? f->real : NULL;
    }
    bool unbound = ELF64_R_TYPE(r->r_info) == JUMP_SLOT && npa_within(o->low, o->high, value);
    bool leads_there = value == f->real || (unbound && asks_for_libc(o, ELF64_R_SYM(r->r_info)));
    return leads_there ? f->ours : NULL;
}

/* The function that an entry is bound to by name; NULL: none of ours. */
static npa_import *imported(const npa_library *o, const ElfW(Rela) *r)
{
    long type = (long)ELF64_R_TYPE(r->r_info);
    if (type != JUMP_SLOT && type != GLOB_DAT && (type != POINTER || r->r_addend != 0)) {
        return NULL;
    }
    const ElfW(Sym) *s = &o->symbols[ELF64_R_SYM(r->r_info)];
    return s->st_shndx == SHN_UNDEF && s->st_name != 0 ? npa_import_named(o->names + s->st_name)
                                                       : NULL;
}

npa_changes npa_tables_change(npa_library *o, bool restore)
{
    npa_changes changes = {0};
    waiting w = {.n = 0};
    bool has_tables = read_dynamic(o);
    for (int t = 0; has_tables && t < 2; t++) {
        for (const ElfW(Rela) *r = o->tables[t].first, *end = r + o->tables[t].n; r < end; r++) {
            const npa_import *f = imported(o, r);
            void **at = (void **)(o->base + r->r_offset);
            if (f == NULL || (f->numpys && !npa_imports_numpys(o)) ||
                (uintptr_t)at % sizeof *at != 0 || !is_writable(o, (uintptr_t)at)) {
                continue;
            }
            void *value = __atomic_load_n(at, __ATOMIC_ACQUIRE);
            void *other = exchange(o, f, r, value, restore);
            if (other != NULL) {
                w.all[w.n].at = at, w.all[w.n++].value = other;
            } else if (value == f->ours) {
                changes.entry = at, changes.value = value;
            }
            if (w.n == MOST_WAITING) {
                make_changes(o, &w, &changes);
            }
        }
    }
    make_changes(o, &w, &changes);
    return changes;
}

/* One that leads back into the library is not bound; one into the program goes by a table that will
 * be changed. */
void npa_tables_believe(npa_library *o, const npa_library *program)
{
    bool has_tables = read_dynamic(o);
    for (int t = 0; has_tables && t < 2; t++) {
        for (size_t i = 0; i < o->tables[t].n; i++) {
            const ElfW(Rela) *r = &o->tables[t].first[i];
            npa_import *f = imported(o, r);
            void *value = f != NULL ? *(void **)(o->base + r->r_offset) : NULL;
            if (value != NULL && ELF64_R_TYPE(r->r_info) != POINTER &&
                !npa_within(o->low, o->high, value) &&
                !npa_within(program->low, program->high, value)) {
                f->real = value;
            }
        }
    }
}
