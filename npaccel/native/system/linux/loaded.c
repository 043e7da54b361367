/* loaded.c: functions of a library that somebody has loaded. */
#include "system/system.h"

#include <dlfcn.h>

void *npa_loaded(const char *path) { return dlopen(path, RTLD_LAZY | RTLD_NOLOAD); }

void (*npa_loaded_function(void *library, const char *name))(void)
{
    return (void (*)(void))dlsym(library, name);
}
