/* x86_64.c: which processor this is, asked of the processor itself, so that stored machine code can
 * be chosen without loading a compiler. */
#include "system/processor.h"

#include <cpuid.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

bool npa_cpu_runs(const char *level)
{
    return strcmp(level, "v4") == 0   ? __builtin_cpu_supports("x86-64-v4")
           : strcmp(level, "v3") == 0 ? __builtin_cpu_supports("x86-64-v3")
                                      : true;
}

bool npa_cpu_fuses(void) { return __builtin_cpu_supports("fma"); }
