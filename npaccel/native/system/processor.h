/* processor.h: what is particular to a processor: the one place that chooses.
 *
 * processor/x86_64.h   with processor/x86_64.c and loops/x86_64/
 * processor/aarch64.h  with processor/aarch64.c and loops/plain/
 * processor/plain.h    with processor/plain.c and loops/plain/: C11 alone
 *
 * The build chooses the .c files by the same rule (meson.build). */
#ifndef NPA_PROCESSOR_H
#define NPA_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>

#if defined(NPA_PORTABLE)
#include "system/processor/plain.h"
#elif defined(__x86_64__)
#include "system/processor/x86_64.h"
#elif defined(__aarch64__)
#include "system/processor/aarch64.h"
#else
#include "system/processor/plain.h"
#endif

/* Each of these headers has
 *
 *   NPA_EACH_PROCESSOR        before a loop over elements: it is compiled for each kind of vectors
 *   npa_relax()               in a loop that waits for another thread
 *   npa_vector_flags(mask)    which of the floating-point flags in the mask the vector units raised
 *   npa_flags_keep()          the flags as they are now,
 *   npa_flags_restore(k, r)   and these again, with those of FE_... in r
 *   NPA_PRIMITIVE_LEVELS(L)   L(name) for each table of shipped primitives, the best one first
 *   NPA_NUMPY_AS_WRITTEN      whether NumPy's own loops are known to compute here as they are
 *                             written: no operations are fused, maximum takes the same of two zeros
 *   NPA_ELF_...               what the linker calls things in files for this processor
 */

/* Text that tells processors apart that need different machine code; 0-terminated. Empty: it can't
 * be told. */
void npa_cpu_identity(char *out, size_t size);
int npa_cpu_vector_bytes(void);       /* the widest vector register's, as the system saves it */
bool npa_cpu_runs(const char *level); /* code of that level of primitives */
bool npa_cpu_fuses(void);             /* a product and a sum in one instruction */

#endif
