/* plain.c: a processor of which nothing is known but what the system tells. */
#include "system/system.h"

void npa_cpu_identity(char *out, size_t size) { npa_system_processor(out, size); }

int npa_cpu_vector_bytes(void) { return 16; }

bool npa_cpu_runs(const char *level)
{
    (void)level;
    return true;
}

bool npa_cpu_fuses(void) { return false; }
