/* linux.h: what files of linux/ share with each other, and with the C tests. */
#ifndef NPA_LINUX_H
#define NPA_LINUX_H

#include "system/system.h"

/* ----------------------------------------------------------------------------- syscalls.c */

/* Whether a call that is served is using memory in [low, high). Comes after what guards it. */
bool npa_calls_use(const void *low, const void *high);
void npa_calls_forked(void); /* in the child */

/* ------------------------------------------------------------------------------- limits.c */

size_t npa_limit_mappings(void);
size_t npa_limit_mapped(void); /* bytes of address space that are mapped now */
extern const char *npa_limits_root; /* for tests: of the files that tell */

/* ------------------------------------------------------------------------------- loader.c */

/* One relocation, of EM_X86_64 or EM_AARCH64; false: kind not known, or out of reach. */
bool npa_relocate(int machine, char *at, uint32_t type, uint64_t place, uint64_t target);

#endif
