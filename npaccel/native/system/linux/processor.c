/* processor.c: what the system tells of the processor. */
#include "system/system.h"

#include <stdio.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

void npa_system_processor(char *out, size_t size)
{
    struct utsname name;
    const char *machine = uname(&name) == 0 ? name.machine : "";
    char model[17] = "";
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "r");
    if (file != NULL) {
        if (fscanf(file, "%16[0-9a-fx]", model) != 1) {
            model[0] = 0;
        }
        fclose(file);
    }
    snprintf(out, size, "%s %s %lx %lx", machine, model, getauxval(AT_HWCAP),
             getauxval(AT_HWCAP2));
}
