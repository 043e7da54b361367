/* loaded.c: functions of a library that somebody has loaded, and whose code has called. */
#define _GNU_SOURCE
#include "system/system.h"

#include <dlfcn.h>
#include <execinfo.h>
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
