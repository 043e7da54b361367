/* compress.c: a processor without instructions of its own for masks: all places are for who
 * calls. */
#include "loops/loops.h"

int64_t npa_compress(char **to, const char *end, const char *from, const char *mask, int64_t n,
                     size_t size)
{
    (void)to, (void)end, (void)from, (void)mask, (void)n, (void)size;
    return 0;
}

int64_t npa_expand(char *to, const char **from, const char *end, const char *mask, int64_t n,
                   size_t size)
{
    (void)to, (void)from, (void)end, (void)mask, (void)n, (void)size;
    return 0;
}

bool npa_keeps_fast(void) { return false; }

int64_t npa_keep_between(const int64_t *places, int64_t n, int64_t low, int64_t high, int64_t *to,
                         int64_t *which)
{
    return npa_keep_each(places, n, low, high, to, which);
}
