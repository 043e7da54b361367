/* lanes.h: sines, cosines and hypotenuses in the lanes of this processor's registers; for each kind
 * of registers there is a file. See Note [Lanes] in lanes.c. */
#ifndef NPA_LANES_H
#define NPA_LANES_H

#include "loops/loops.h"

#define LARGEST 0x1.921fbp26 /* from here on the C library's */
#define TINY 0x1p-26         /* below it the sine is x; the cosine is 1 from its half on */

/* Loads from there are faster than parts of registers. */
#define IN_MEMORY(array) __asm__("" : "+m"(array))

enum { NPA_SINE_ROWS = 128 };
/* Of k/128: sine and cosine; and of a quarter more: cosine, -sine. Each in two doubles */
extern const double npa_sine_table[2][NPA_SINE_ROWS][4];

/* By npa_laned */
extern npa_lane_function *const npa_lanes_v4[], *const npa_lanes_v3[];
npa_lane_function npa_exps_v3, npa_logs_v3, npa_exp2s_v3, npa_log2s_v3, npa_log10s_v3,
    npa_powers_v3, npa_expm1s_v3, npa_log1ps_v3, npa_sinhs_v3,
    npa_coshs_v3, npa_logaddexps_v3,
    npa_tanhs_v3;

/* The numbers by which the C library computes exponentials and logarithms, in its order. */
typedef struct {
    double steps, high, low; /* 128/ln(2); -ln(2)/128 in two */
    double p[4], shift;
    double shift2, p2[5]; /* of exp2 */
} npa_exp_numbers;
typedef struct { double high, low, p[5], near[11]; } npa_log_numbers; /* ln(2) in two */
typedef struct { double high, low, p[6], near[10]; } npa_log2_numbers; /* 1/ln(2) in two */
typedef struct { double high, low, p[7]; } npa_power_numbers;
enum { NPA_ROWS = 128, NPA_ROWS2 = 64, NPA_TANH_ROWS = 16, NPA_TANH_ROW = 20 };
typedef struct {
    npa_exp_numbers exp;
    npa_log_numbers log;
    npa_log2_numbers log2;
    npa_power_numbers power;
    _Alignas(64) double exp_rows[NPA_ROWS][2]; /* what is missing; 2**(k/128), less k/128 from its
                                                * exponent */
    _Alignas(64) double log_rows[NPA_ROWS][2], log2_rows[NPA_ROWS2][2]; /* 1/c, log(c) */
    _Alignas(64) double power_rows[NPA_ROWS][4]; /* 1/c, 0, log(c) in two */
    /* NumPy's: the middle of an interval, coefficients, two that mean nothing */
    _Alignas(64) double tanh_rows[NPA_TANH_ROWS][NPA_TANH_ROW];
} npa_library_numbers;
extern npa_library_numbers npa_library;
/* library.c: they are there from now on; false: they are not found. */
bool npa_find_numbers(npa_laned which);
/* Near a function of NumPy's. Not by two threads at a time. */
bool npa_find_tanh_rows(void (*numpys)(void));

#endif
