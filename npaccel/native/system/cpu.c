/* cpu.c: which processor this is, asked of the processor itself, so that stored machine code can
 * be chosen without loading a compiler. */
#include "system/system.h"

#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

static size_t leaf(char *out, size_t size, unsigned number, unsigned sub, bool skip_ebx)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(number, sub, &a, &b, &c, &d)) {
        a = b = c = d = 0;
    }
    b = skip_ebx ? 0 : b;
    int n = snprintf(out, size, " %x.%x:%x,%x,%x,%x", number, sub, a, b, c, d);
    return n < 0 || (size_t)n >= size ? 0 : (size_t)n;
}

static uint64_t saved_state(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) {
        return 0; /* the system saves no vector state beyond the first kind */
    }
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

void npa_cpu_identity(char *out, size_t size)
{
    unsigned a = 0, b = 0, c = 0, d = 0;
    __get_cpuid(0, &a, &b, &c, &d);
    int n = snprintf(out, size, "x86_64 %.4s%.4s%.4s %llx", (char *)&b, (char *)&d, (char *)&c,
                     (unsigned long long)saved_state());
    size_t used = n < 0 || (size_t)n >= size ? 0 : (size_t)n;
    /* Model and features. Leaf 1's ebx has the number of the core at hand. */
    used += leaf(out + used, size - used, 1, 0, true);
    used += leaf(out + used, size - used, 7, 0, false);
    used += leaf(out + used, size - used, 7, 1, false);
    used += leaf(out + used, size - used, 0xd, 1, true);
    leaf(out + used, size - used, 0x80000001, 0, true);
}

int npa_cpu_vector_bytes(void)
{
    return __builtin_cpu_supports("avx512f") ? 64 : __builtin_cpu_supports("avx2") ? 32 : 16;
}

#else
#include <sys/auxv.h>
#include <sys/utsname.h>

void npa_cpu_identity(char *out, size_t size)
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

int npa_cpu_vector_bytes(void) { return 16; }
#endif
