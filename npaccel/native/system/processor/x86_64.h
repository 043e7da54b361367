/* x86_64.h: see processor.h. */
#ifndef NPA_X86_64_H
#define NPA_X86_64_H

#include <xmmintrin.h>

#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define NPA_EACH_PROCESSOR                                                                         \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__GNUC__) && !defined(__clang__)
#define NPA_EACH_PROCESSOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define NPA_EACH_PROCESSOR
#endif

#define NPA_PRIMITIVE_LEVELS(LEVEL) LEVEL(v4) LEVEL(v3)
#define NPA_NUMPY_AS_WRITTEN 1

#define NPA_ELF_MACHINE EM_X86_64
#define NPA_ELF_JUMP_SLOT R_X86_64_JUMP_SLOT
#define NPA_ELF_GLOB_DAT R_X86_64_GLOB_DAT
#define NPA_ELF_POINTER R_X86_64_64
#define NPA_ELF_RELATIVE R_X86_64_RELATIVE
/* A jump to the address that follows it: jmp *0(%rip) */
#define NPA_ELF_JUMP 0xff, 0x25, 0, 0, 0, 0

static inline void npa_relax(void) { __builtin_ia32_pause(); }

/* The bits of FE_... are the same there. The older unit, which takes longer to ask, has flags of
 * its own. */
static inline int npa_vector_flags(int mask) { return (int)_mm_getcsr() & mask; }

typedef unsigned npa_flags;
static inline npa_flags npa_flags_keep(void) { return _mm_getcsr(); }
static inline void npa_flags_restore(npa_flags kept, int raised)
{
    _mm_setcsr(kept | (unsigned)raised);
}

#endif
