/* lanes.c: sines, cosines and hypotenuses as the GNU C library computes them one by one, eight or
 * four at a time. See Note [Lanes] at the end. */
#include "loops/x86_64/lanes.h"

#include <string.h>
#include <xmmintrin.h>

_Alignas(64) const double npa_sine_table[2][NPA_SINE_ROWS][4] = {
#include "sine_table.h"
};

npa_lane_function *npa_lanes(npa_laned which, const char *level)
{
    static npa_lane_function *const *const levels[] = {npa_lanes_v4, npa_lanes_v3};
    for (int i = 0; i < 2; i++) {
        const char *name = i == 0 ? "v4" : "v3";
        if (npa_cpu_runs(name) && (level == NULL || strcmp(level, name) == 0)) {
            return levels[i][which];
        }
    }
    return NULL;
}

bool npa_lanes_ready(npa_laned which, PyUFuncGenericFunction numpys)
{
    if (which == NPA_TANHS) {
        return npa_find_tanh_rows((void (*)(void))numpys);
    }
    bool own = which < NPA_EXPS || which == NPA_EXPM1S || which == NPA_LOG1PS;
    return own || npa_find_numbers(which);
}

bool npa_lanes_round(void)
{
    return (_mm_getcsr() & (_MM_ROUND_MASK | _MM_FLUSH_ZERO_MASK | 0x40)) == 0;
}

/* Note [Lanes]
 *
 * NumPy's loops for `sin`, `cos` and `hypot` of doubles call the C library for each number. To have
 * its bits, what is here does its operations, in its order; whether this process's library is one
 * that does so is found by exact.c. What glibc does since 2.28:
 *
 * A sine is that of an angle within the quarter around a multiple of pi/2, or its cosine. The angle
 * is a sum of two doubles; for up to 0.855 it is the number, up to 2.43 it is what is missing to
 * pi/2, beyond that multiples of pi/2 in four parts are taken off. Below 0.126 a sine is its
 * series. Otherwise the angle is k/128 and a rest. The table has sine and cosine of k/128, again
 * in two doubles each, so they are put together by the sine of a sum, with the rest's sine and
 * cosine by short polynomials. A cosine is computed as the sine of a quarter more, which is another
 * half of the table; only its rest is one number, not two. All is symmetrical, so signs come last.
 * Products are added without being rounded where the library's code for such processors does so.
 *
 * A hypotenuse is the square root of the sum, less an estimate of its error.
 *
 * Flags of the processor are the library's, too: lanes that are not for the computation have
 * harmless numbers meanwhile. Rare arguments (infinities, subnormal results, angles of eight
 * digits) are left to the library. */
