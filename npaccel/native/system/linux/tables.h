/* tables.h: functions that are exchanged: imports.c, in every library; tables.c, in the tables of
 * one; syscalls.c, which functions. */
#ifndef NPACCEL_TABLES_H
#define NPACCEL_TABLES_H

#include "system/linux/linux.h"

#include <link.h>

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
} npa_library;

/* What was done to a library's tables. */
typedef struct {
    int made, refused;
    void **entry; /* one that holds one of ours now; NULL: none does */
    void *value;  /* which */
} npa_changes;

static inline bool npa_within(uintptr_t low, uintptr_t high, const void *p)
{
    return (uintptr_t)p >= low && (uintptr_t)p < high;
}

/* --------------------------------------------------------------------------------- imports.c */

typedef struct {
    const char *name;
    void *ours; /* what takes its place */
    void *real; /* what our own table leads to; NULL: not known, it is left alone */
    void *libc; /* another one of that name that does the same, or NULL */
    bool numpys; /* in NumPy's library only */
} npa_import;

/* Every library that is loaded now, or will be, gets `ours` where it had `real`. The list stays
 * where it is. As npa_calls_serve. */
int npa_imports_replace(npa_import *list, int n, const void *numpys);
bool npa_imports_numpys(const npa_library *o); /* whether that is it */
void npa_imports_forked(void); /* in the child */
/* One of the functions that are replaced, or NULL. */
npa_import *npa_import_named(const char *name);
void *npa_imports_dlsym(void *handle, const char *name);
void *npa_imports_dlvsym(void *handle, const char *name, const char *version);

/* ---------------------------------------------------------------------------------- tables.c */

bool npa_tables_known(void); /* whether this processor's are */
npa_library npa_library_of(const struct dl_phdr_info *info);
/* Entries that lead to such a function get ours; `restore`: those that lead to ours, the real
 * one. */
npa_changes npa_tables_change(npa_library *o, bool restore);
/* What this library's entries lead to are the real ones, unless that is in itself or in
 * `program`. */
void npa_tables_believe(npa_library *o, const npa_library *program);

#endif
