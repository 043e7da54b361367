/* flags.h: floating-point flags as C has them, for processors without a shorter way. */
#ifndef NPA_FLAGS_H
#define NPA_FLAGS_H

#include <fenv.h>

static inline int npa_vector_flags(int mask) { return fetestexcept(mask); }

typedef fexcept_t npa_flags;
static inline npa_flags npa_flags_keep(void)
{
    fexcept_t kept;
    fegetexceptflag(&kept, FE_ALL_EXCEPT);
    return kept;
}

static inline void npa_flags_restore(npa_flags kept, int raised)
{
    fesetexceptflag(&kept, FE_ALL_EXCEPT);
    feraiseexcept(raised);
}

#endif
