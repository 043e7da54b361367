/* os.h: where of the system nothing is known but C11 and POSIX threads; see system/os.h. */
#ifndef NPA_PORTABLE_OS_H
#define NPA_PORTABLE_OS_H

#define NPA_IS_PORTABLE 1
#define NPA_PER_THREAD _Thread_local

/* Not every C library has aligned_alloc. What malloc gave is noted before it. */
static inline void *npa_aligned(size_t alignment, size_t size)
{
    char *whole = size <= SIZE_MAX - alignment - sizeof(void *)
                      ? malloc(size + alignment + sizeof(void *)) : NULL;
    if (whole == NULL) {
        return NULL;
    }
    uintptr_t first = (uintptr_t)(whole + sizeof(void *));
    char *memory = whole + sizeof(void *) + (alignment - first % alignment) % alignment;
    ((void **)(void *)memory)[-1] = whole;
    return memory;
}

static inline void npa_aligned_free(void *memory)
{
    if (memory != NULL) {
        free(((void **)memory)[-1]);
    }
}

#endif
