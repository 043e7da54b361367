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

/* In the order of npa_laned */
extern npa_lane_function *const npa_lanes_v4[], *const npa_lanes_v3[];

#endif
