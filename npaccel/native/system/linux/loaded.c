/* loaded.c: functions and constants of a library that somebody has loaded; who has called. */
#define _GNU_SOURCE
#include "system/system.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <string.h>

void *npa_loaded(const char *path) { return dlopen(path, RTLD_LAZY | RTLD_NOLOAD); }

void (*npa_loaded_function(void *library, const char *name))(void)
{
    return (void (*)(void))dlsym(library, name);
}

bool npa_called_from(const char *name, void (*near)(void))
{
    enum { DEPTH = 16 };
    void *back[DEPTH];
    Dl_info ours, theirs, at;
    int n = backtrace(back, DEPTH);
    bool known = dladdr((void *)npa_called_from, &ours) && dladdr((void *)near, &theirs);
    for (int k = 1; known && k < n && dladdr((char *)back[k] - 1, &at); k++) {
        if (at.dli_fbase == theirs.dli_fbase) {
            if (at.dli_sname != NULL && strcmp(at.dli_sname, name) == 0) {
                return true;
            }
        } else if (at.dli_fbase != ours.dli_fbase) {
            return false;
        }
    }
    return false;
}

typedef struct {
    uintptr_t near;
    npa_visit_words *visit;
    void *context;
} constants;

static bool lies_in(const struct dl_phdr_info *info, uintptr_t at)
{
    for (int k = 0; k < info->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[k];
        if (p->p_type == PT_LOAD && at - (info->dlpi_addr + p->p_vaddr) < p->p_memsz) {
            return true;
        }
    }
    return false;
}

static int visit_if_near(struct dl_phdr_info *info, size_t size, void *context)
{
    const constants *c = context;
    (void)size;
    if (!lies_in(info, c->near)) {
        return 0;
    }
    for (int k = 0; k < info->dlpi_phnum; k++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[k];
        uintptr_t at = info->dlpi_addr + p->p_vaddr, skipped = -at % sizeof(uint64_t);
        if (p->p_type == PT_LOAD && (p->p_flags & (PF_R | PF_W)) == PF_R && p->p_filesz > skipped) {
            c->visit((const uint64_t *)(at + skipped), (p->p_filesz - skipped) / sizeof(uint64_t),
                     c->context);
        }
    }
    return 1;
}

void npa_visit_constants(void (*function)(void), npa_visit_words *visit, void *context)
{
    constants c = {(uintptr_t)function, visit, context};
    dl_iterate_phdr(visit_if_near, &c);
}
