/* plain.h: see processor.h. Of a processor nothing is known. */
#ifndef NPA_PLAIN_H
#define NPA_PLAIN_H

#include "system/processor/flags.h"

#define NPA_EACH_PROCESSOR
#define NPA_PRIMITIVE_LEVELS(LEVEL)
#define NPA_NUMPY_AS_WRITTEN 0

/* Nothing is loaded here, and no table of a library is read. */
#define NPA_ELF_MACHINE EM_NONE
#define NPA_ELF_JUMP_SLOT (-1)
#define NPA_ELF_GLOB_DAT (-2)
#define NPA_ELF_POINTER (-3)
#define NPA_ELF_RELATIVE (-4)
#define NPA_ELF_JUMP 0

static inline void npa_relax(void) {}

#endif
