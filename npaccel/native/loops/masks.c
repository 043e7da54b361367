/* masks.c: what of a mask any processor counts and finds. */
#include "loops/loops.h"

int64_t npa_keep_each(const int64_t *places, int64_t n, int64_t low, int64_t high, int64_t *to,
                      int64_t *which)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        to[kept] = places[i], which[kept] = i;
        kept += places[i] >= low && places[i] < high;
    }
    return kept;
}

/* A byte counts to 255, so vectors of bytes are summed in between. */
NPA_EACH_PROCESSOR int64_t npa_count_true(const char *mask, int64_t n)
{
    enum { LANES = 64, MOST = 255 };
    int64_t count = 0, i = 0;
    while (n - i >= LANES) {
        int64_t rows = (n - i) / LANES < MOST ? (n - i) / LANES : MOST;
        uint8_t lanes[LANES] = {0};
        for (int64_t last = i + rows * LANES; i < last; i += LANES) {
            for (int k = 0; k < LANES; k++) {
                lanes[k] = (uint8_t)(lanes[k] + (mask[i + k] != 0));
            }
        }
        for (int k = 0; k < LANES; k++) {
            count += lanes[k];
        }
    }
    for (; i < n; i++) {
        count += mask[i] != 0;
    }
    return count;
}
