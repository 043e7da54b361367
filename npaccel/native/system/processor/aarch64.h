/* aarch64.h: see processor.h. */
#ifndef NPA_AARCH64_H
#define NPA_AARCH64_H

#include "system/processor/flags.h"

#define NPA_EACH_PROCESSOR
#define NPA_PRIMITIVE_LEVELS(LEVEL) LEVEL(neon)
#define NPA_NUMPY_AS_WRITTEN 0

#define NPA_ELF_MACHINE EM_AARCH64
#define NPA_ELF_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define NPA_ELF_GLOB_DAT R_AARCH64_GLOB_DAT
#define NPA_ELF_POINTER R_AARCH64_ABS64
#define NPA_ELF_RELATIVE R_AARCH64_RELATIVE
/* A jump to the address that follows it: ldr x16, .+8; br x16 */
#define NPA_ELF_JUMP 0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6

static inline void npa_relax(void) { __asm__ volatile("isb"); }

#endif
