/* os.h: of Linux; see system/os.h. */
#ifndef NPA_LINUX_OS_H
#define NPA_LINUX_OS_H

#define NPA_IS_PORTABLE 0
#define NPA_PER_THREAD __thread __attribute__((tls_model("initial-exec")))

static inline void *npa_aligned(size_t alignment, size_t size)
{
    return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static inline void npa_aligned_free(void *memory) { free(memory); }

#endif
