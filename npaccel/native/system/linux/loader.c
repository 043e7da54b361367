/* loader.c: relocatable ELF objects, as a compiler emits them, into executable memory.
 *
 * A kernel's object is small and plain: code, constants that it reaches relative to itself, and
 * perhaps a call of a C library function. Anything else is refused with a reason, and the caller
 * has another linker. Sections are laid side by side from a page boundary on:
 *
 *   code and constants | one jump per function of the C library | up to the end of the page
 *
 * Arenas hold several kernels each, for mappings are scarce. An arena is readable and executable
 * as a whole; the pages of one kernel are writable, and then not executable, only while it is
 * loaded. So the arena is one mapping again after each load. Pages that are free again are given
 * back to the system but stay mapped.
 *
 * Nothing of Python here; callers hold the GIL, which is the lock. */
#define _GNU_SOURCE
#include "system/linux/linux.h"

#include <elf.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STUB_BYTES = 16, MOST_SECTIONS = 64, ARENA_PAGES = 256, LARGEST = 1 << 26 };

/* ---------------------------------------------------------------------------------- arenas */

typedef struct arena arena;
struct arena {
    arena *next;
    char *base;
    size_t pages, used;
    bool taken[]; /* per page */
};

static arena *arenas;
static size_t page_bytes, code_bytes;

size_t npa_code_bytes(void) { return code_bytes; }

static arena *arena_new(size_t pages)
{
    pages = pages > ARENA_PAGES ? pages : ARENA_PAGES;
    arena *a = calloc(1, sizeof *a + pages);
    char *base = a == NULL ? MAP_FAILED
        : mmap(NULL, pages * page_bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) {
        free(a);
        return NULL;
    }
    *a = (arena){.next = arenas, .base = base, .pages = pages};
    return arenas = a;
}

static char *take_from(arena *a, size_t pages)
{
    for (size_t first = 0, run = 0; first + run < a->pages;) {
        if (a->taken[first + run]) {
            first += run + 1, run = 0;
        } else if (++run == pages) {
            memset(a->taken + first, true, pages);
            a->used += pages;
            return a->base + first * page_bytes;
        }
    }
    return NULL;
}

static char *take_pages(size_t pages)
{
    char *found = NULL;
    for (arena *a = arenas; a != NULL && found == NULL; a = a->next) {
        found = take_from(a, pages);
    }
    arena *made = found == NULL ? arena_new(pages) : NULL;
    found = made != NULL ? take_from(made, pages) : found;
    code_bytes += found != NULL ? pages * page_bytes : 0;
    return found;
}

static void give_pages(char *base, size_t pages)
{
    for (arena **at = &arenas; *at != NULL; at = &(*at)->next) {
        arena *a = *at;
        if (base < a->base || base >= a->base + a->pages * page_bytes) {
            continue;
        }
        memset(a->taken + (size_t)(base - a->base) / page_bytes, false, pages);
        a->used -= pages, code_bytes -= pages * page_bytes;
        if (a->used == 0) {
            *at = a->next;
            munmap(a->base, a->pages * page_bytes);
            free(a);
        } else {
            madvise(base, pages * page_bytes, MADV_DONTNEED);
        }
        return;
    }
}

/* ----------------------------------------------------------------------------- relocations */

static void put(char *at, uint64_t value, size_t bytes) { memcpy(at, &value, bytes); }

static bool fits(int64_t value, int bits)
{
    return value >= -((int64_t)1 << (bits - 1)) && value < (int64_t)1 << (bits - 1);
}

/* Replace bits [low, low + bits) of the instruction at `at`. */
static void insert(char *at, uint64_t value, int low, int bits)
{
    uint32_t word, mask = (uint32_t)(((uint64_t)1 << bits) - 1) << low;
    memcpy(&word, at, 4);
    put(at, (word & ~mask) | ((uint32_t)value << low & mask), 4);
}

static bool relocate_x86(char *at, uint32_t type, uint64_t place, uint64_t target)
{
    int64_t distance = (int64_t)(target - place);
    switch (type) {
    case R_X86_64_NONE:
        return true;
    case R_X86_64_64:
        put(at, target, 8);
        return true;
    case R_X86_64_PC64:
        put(at, (uint64_t)distance, 8);
        return true;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        put(at, (uint64_t)distance, 4);
        return fits(distance, 32);
    default:
        return false;
    }
}

/* A load's or store's offset within its page, in units of what it moves. */
static bool insert_offset(char *at, uint32_t type, uint64_t offset)
{
    unsigned shift = type == R_AARCH64_LDST128_ABS_LO12_NC  ? 4
                     : type == R_AARCH64_LDST64_ABS_LO12_NC ? 3
                     : type == R_AARCH64_LDST32_ABS_LO12_NC ? 2
                     : type == R_AARCH64_LDST16_ABS_LO12_NC ? 1
                                                            : 0;
    insert(at, offset >> shift, 10, 12);
    return offset % (1u << shift) == 0;
}

static bool relocate_arm(char *at, uint32_t type, uint64_t place, uint64_t target)
{
    int64_t distance = (int64_t)(target - place);
    int64_t to_page = (int64_t)((target & ~(uint64_t)0xfff) - (place & ~(uint64_t)0xfff)) / 4096;
    switch (type) {
    case R_AARCH64_NONE:
        return true;
    case R_AARCH64_ABS64:
        put(at, target, 8);
        return true;
    case R_AARCH64_PREL64:
        put(at, (uint64_t)distance, 8);
        return true;
    case R_AARCH64_PREL32:
        put(at, (uint64_t)distance, 4);
        return fits(distance, 32);
    case R_AARCH64_JUMP26:
    case R_AARCH64_CALL26:
        insert(at, (uint64_t)distance >> 2, 0, 26);
        return fits(distance, 28) && distance % 4 == 0;
    case R_AARCH64_LD_PREL_LO19:
        insert(at, (uint64_t)distance >> 2, 5, 19);
        return fits(distance, 21) && distance % 4 == 0;
    case R_AARCH64_ADR_PREL_LO21:
        insert(at, (uint64_t)distance, 29, 2);
        insert(at, (uint64_t)distance >> 2, 5, 19);
        return fits(distance, 21);
    case R_AARCH64_ADR_PREL_PG_HI21:
        insert(at, (uint64_t)to_page, 29, 2);
        insert(at, (uint64_t)to_page >> 2, 5, 19);
        return fits(to_page, 21);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
    case R_AARCH64_LDST16_ABS_LO12_NC:
    case R_AARCH64_LDST32_ABS_LO12_NC:
    case R_AARCH64_LDST64_ABS_LO12_NC:
    case R_AARCH64_LDST128_ABS_LO12_NC:
        return insert_offset(at, type, target & 0xfff);
    default:
        return false;
    }
}

/* Size of the field that a relocation of a known kind fills in. */
static size_t field_bytes(int machine, uint32_t type)
{
    return machine == EM_X86_64 ? (type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4)
                                : (type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8 : 4);
}

/* The field of a relocation at `at`, whose address will be `place`, shall lead to `target`. */
bool npa_relocate(int machine, char *at, uint32_t type, uint64_t place, uint64_t target)
{
    return machine == EM_X86_64 ? relocate_x86(at, type, place, target)
                                : relocate_arm(at, type, place, target);
}

/* ------------------------------------------------------- functions of the C library, by name */

typedef void function(void);
#define ENTRY(f) {#f, (function *)(f)}
static const struct { const char *name; function *address; } library[] = {
    ENTRY(memcpy), ENTRY(memmove), ENTRY(memset), ENTRY(fma), ENTRY(fmaf), ENTRY(floor),
    ENTRY(floorf), ENTRY(ceil), ENTRY(ceilf), ENTRY(trunc), ENTRY(truncf), ENTRY(rint),
    ENTRY(rintf), ENTRY(nearbyint), ENTRY(nearbyintf), ENTRY(fmod), ENTRY(fmodf)};

static uint64_t library_address(const char *name)
{
    for (size_t i = 0; i < sizeof library / sizeof *library; i++) {
        if (strcmp(library[i].name, name) == 0) {
            return (uint64_t)(uintptr_t)library[i].address;
        }
    }
    return 0;
}

/* A jump to any address, for calls that reach only near ones. */
static void write_stub(char *at, uint64_t target)
{
    static const unsigned char jump[] = {NPA_ELF_JUMP};
    memcpy(at, jump, sizeof jump);
    put(at + sizeof jump, target, 8);
}

/* ----------------------------------------------------------------------------- the object */

/* What is read of the image lies inside it: nothing in it is believed. */
typedef struct {
    const char *image;
    size_t size;
    Elf64_Ehdr head;
    Elf64_Shdr sections[MOST_SECTIONS];
    uint64_t offset[MOST_SECTIONS]; /* of loaded sections, from the code's beginning */
    bool loaded[MOST_SECTIONS];
    const Elf64_Shdr *symbols, *names;
    size_t nsymbols, sections_end;
} object;

static bool within(const object *o, uint64_t offset, uint64_t size)
{
    return offset <= o->size && size <= o->size - offset;
}

static const char *read_head(object *o)
{
    if (!within(o, 0, sizeof o->head)) {
        return "it is too short";
    }
    memcpy(&o->head, o->image, sizeof o->head);
    const Elf64_Ehdr *h = &o->head;
    if (memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 || h->e_ident[EI_CLASS] != ELFCLASS64 ||
        h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_type != ET_REL) {
        return "it is not a relocatable ELF object";
    }
    if (NPA_ELF_MACHINE == EM_NONE || h->e_machine != NPA_ELF_MACHINE) {
        return "it is for another kind of processor";
    }
    if (h->e_shnum > MOST_SECTIONS || h->e_shentsize != sizeof(Elf64_Shdr) ||
        !within(o, h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr))) {
        return "its table of sections is not as expected";
    }
    memcpy(o->sections, o->image + h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr));
    return NULL;
}

/* Where each section will lie; which one lists the symbols. */
static const char *lay_out(object *o)
{
    uint64_t end = 0;
    for (int i = 0; i < o->head.e_shnum; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (s->sh_type == SHT_SYMTAB) {
            o->symbols = s;
        }
        if (s->sh_type != SHT_NOBITS && s->sh_type != SHT_NULL &&
            !within(o, s->sh_offset, s->sh_size)) {
            return "a section lies outside it";
        }
        if (!(s->sh_flags & SHF_ALLOC) || s->sh_size == 0 || s->sh_type == SHT_NOTE) {
            continue;
        }
        if (s->sh_type != SHT_PROGBITS || s->sh_flags & (SHF_WRITE | SHF_TLS)) {
            return "it has variables of its own";
        }
        uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
        if (align & (align - 1) || align > 4096) {
            return "a section's alignment is not as expected";
        }
        end = (end + align - 1) & ~(align - 1);
        o->offset[i] = end, o->loaded[i] = true;
        end += s->sh_size;
        if (end > LARGEST) {
            return "it is too large";
        }
    }
    if (o->symbols == NULL || o->symbols->sh_entsize != sizeof(Elf64_Sym) ||
        o->symbols->sh_link >= o->head.e_shnum) {
        return "it has no symbols";
    }
    o->names = &o->sections[o->symbols->sh_link];
    o->nsymbols = o->symbols->sh_size / sizeof(Elf64_Sym);
    if (o->names->sh_type != SHT_STRTAB || o->names->sh_size == 0 ||
        o->image[o->names->sh_offset + o->names->sh_size - 1] != 0) {
        return "its symbols have no names";
    }
    o->sections_end = (end + STUB_BYTES - 1) & ~(uint64_t)(STUB_BYTES - 1);
    return NULL;
}

static bool read_symbol(const object *o, uint64_t index, Elf64_Sym *symbol, const char **name)
{
    if (index >= o->nsymbols) {
        return false;
    }
    memcpy(symbol, o->image + o->symbols->sh_offset + index * sizeof *symbol, sizeof *symbol);
    *name = o->image + o->names->sh_offset + symbol->st_name;
    return symbol->st_name < o->names->sh_size;
}

/* Address of a symbol of this object; 0: it has none. */
static uint64_t own_address(const object *o, const Elf64_Sym *symbol, const char *base)
{
    int section = symbol->st_shndx;
    if (section == SHN_UNDEF || section >= o->head.e_shnum || !o->loaded[section] ||
        symbol->st_value > o->sections[section].sh_size) {
        return 0;
    }
    return (uint64_t)(uintptr_t)base + o->offset[section] + symbol->st_value;
}

/* The functions of the C library that the object calls; each gets a jump after the sections. */
typedef struct { uint64_t symbols[16]; int n; } externals;

static const char *find_externals(const object *o, externals *e)
{
    Elf64_Sym symbol;
    const char *name;
    for (uint64_t i = 1; i < o->nsymbols; i++) {
        if (!read_symbol(o, i, &symbol, &name)) {
            return "a symbol is not as expected";
        }
        if (symbol.st_shndx == SHN_UNDEF) {
            if (library_address(name) == 0) {
                return "it calls a function that is not known";
            }
            if (e->n == (int)(sizeof e->symbols / sizeof *e->symbols)) {
                return "it calls too many functions";
            }
            e->symbols[e->n++] = i;
        }
    }
    return NULL;
}

static uint64_t stub_of(const object *o, const externals *e, uint64_t index, const char *base)
{
    for (int i = 0; i < e->n; i++) {
        if (e->symbols[i] == index) {
            return (uint64_t)(uintptr_t)base + o->sections_end + (size_t)i * STUB_BYTES;
        }
    }
    return 0;
}

static const char *relocate_section(const object *o, const externals *e, const Elf64_Shdr *table,
                                    char *base)
{
    const Elf64_Shdr *target = &o->sections[table->sh_info];
    char *start = base + o->offset[table->sh_info];
    for (uint64_t i = 0; i < table->sh_size / sizeof(Elf64_Rela); i++) {
        Elf64_Rela r;
        Elf64_Sym symbol;
        const char *name;
        memcpy(&r, o->image + table->sh_offset + i * sizeof r, sizeof r);
        uint32_t type = (uint32_t)ELF64_R_TYPE(r.r_info);
        size_t width = field_bytes(o->head.e_machine, type);
        if (r.r_offset > target->sh_size || target->sh_size - r.r_offset < width) {
            return "a relocation lies outside its section";
        }
        if (!read_symbol(o, ELF64_R_SYM(r.r_info), &symbol, &name)) {
            return "a symbol is not as expected";
        }
        uint64_t to = own_address(o, &symbol, base);
        to = to ? to : stub_of(o, e, ELF64_R_SYM(r.r_info), base);
        char *at = start + r.r_offset;
        if (to == 0 || !npa_relocate(o->head.e_machine, at, type, (uint64_t)(uintptr_t)at,
                                     to + (uint64_t)r.r_addend)) {
            return "it has a relocation of a kind that is not known, or out of reach";
        }
    }
    return NULL;
}

static const char *fill(const object *o, const externals *e, char *base)
{
    Elf64_Sym symbol;
    const char *name = "", *why = NULL;
    for (int i = 0; i < o->head.e_shnum; i++) {
        if (o->loaded[i]) {
            memcpy(base + o->offset[i], o->image + o->sections[i].sh_offset,
                   o->sections[i].sh_size);
        }
    }
    for (int i = 0; i < e->n; i++) {
        (void)read_symbol(o, e->symbols[i], &symbol, &name); /* it was read before */
        write_stub(base + o->sections_end + (size_t)i * STUB_BYTES, library_address(name));
    }
    for (int i = 0; i < o->head.e_shnum && why == NULL; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        bool applies = s->sh_info < o->head.e_shnum && o->loaded[s->sh_info];
        if (s->sh_type == SHT_RELA && applies) {
            why = s->sh_entsize == sizeof(Elf64_Rela) ? relocate_section(o, e, s, base)
                                                       : "its relocations are not as expected";
        } else if (s->sh_type == SHT_REL && applies) {
            why = "its relocations are not as expected";
        }
    }
    return why;
}

static const char *find_names(const object *o, const char *base, const char *const *wanted, int n,
                              uint64_t *addresses)
{
    for (int k = 0; k < n; k++) {
        Elf64_Sym symbol;
        const char *name;
        addresses[k] = 0;
        for (uint64_t i = 1; i < o->nsymbols && addresses[k] == 0; i++) {
            if (read_symbol(o, i, &symbol, &name) && strcmp(name, wanted[k]) == 0) {
                addresses[k] = own_address(o, &symbol, base);
            }
        }
        if (addresses[k] == 0) {
            return "it lacks a function that it should have";
        }
    }
    return NULL;
}

const char *npa_code_load(const char *image, size_t size, const char *const *names, int n,
                          uint64_t *addresses, npa_code *code)
{
    page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    object o = {.image = image, .size = size};
    externals e = {.n = 0};
    const char *why = read_head(&o);
    why = why ? why : lay_out(&o);
    why = why ? why : find_externals(&o, &e);
    if (why != NULL) {
        return why;
    }
    size_t bytes = o.sections_end + (size_t)e.n * STUB_BYTES;
    size_t pages = (bytes + page_bytes - 1) / page_bytes;
    pages = pages ? pages : 1;
    char *base = take_pages(pages);
    if (base == NULL) {
        return "there is no memory for it";
    }
    *code = (npa_code){base, pages * page_bytes};
    if (mprotect(base, code->size, PROT_READ | PROT_WRITE) != 0) {
        why = "its memory can't be made writable";
    } else {
        why = fill(&o, &e, base);
        why = why ? why : find_names(&o, base, names, n, addresses);
        __builtin___clear_cache(base, base + code->size);
        if (mprotect(base, code->size, PROT_READ | PROT_EXEC) != 0 && why == NULL) {
            why = "its memory can't be made executable";
        }
    }
    if (why != NULL) {
        npa_code_free(code);
    }
    return why;
}

void npa_code_free(npa_code *code)
{
    if (code->base != NULL) {
        give_pages(code->base, code->size / page_bytes);
        code->base = NULL;
    }
}
