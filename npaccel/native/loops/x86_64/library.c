/* library.c: the numbers by which this process's C library computes exponentials and logarithms.
 * See Note [Numbers of the library] at the end. */
#include "loops/x86_64/lanes.h"
#include "system/system.h"

#include <math.h>
#include <string.h>

npa_library_numbers npa_library;

static struct {
    pthread_once_t once;
    bool exp, log, log2, power; /* found */
} state = {.once = PTHREAD_ONCE_INIT};

/* The first numbers, by which others are found: 128/ln(2), as near as doubles are; ln(2) with 42
 * bits; 1/ln(2) with 30 bits. */
#define STEPS 0x1.71547652b82fep7
#define LN2_HIGH 0x1.62e42fefa3800p-1
#define PER_LN2 0x1.71547652b82fep0
#define PER_LN2_HIGH 0x1.7154765200000p0

/* `n` doubles from there on, of `size` bytes and then rows, which begin with `first`. */
static bool take(const double *from, size_t n, void *numbers, size_t size, void *rows,
                 size_t rows_size)
{
    if (n < (size + rows_size) / sizeof(double)) {
        return false;
    }
    memcpy(numbers, from, size);
    memcpy(rows, (const char *)from + size, rows_size);
    return true;
}

#define TAKE(name, from, n)                                                                \
    take(from, n, &npa_library.name, sizeof npa_library.name, npa_library.name##_rows,     \
         sizeof npa_library.name##_rows)

/* Its rows begin with 0 and 1; in later versions other numbers lie before them. */
static bool take_exp(const double *from, size_t n)
{
    enum { MOST = 64, OWN = sizeof npa_library.exp / sizeof(double) };
    for (size_t at = OWN; at < MOST && at + 2 * NPA_ROWS <= n; at++) {
        if (from[at] == 0 && from[at + 1] == 1) {
            memcpy(&npa_library.exp, from, sizeof npa_library.exp);
            memcpy(npa_library.exp_rows, from + at, sizeof npa_library.exp_rows);
            return true;
        }
    }
    return false;
}

/* Powers are computed by a logarithm of their own, whose polynomial begins with -1/2; the
 * polynomial of the other one near 1 does so. */
static void visit(const uint64_t *words, size_t n, void *context)
{
    enum { LEAST = 16 };
    const double *numbers = (const double *)words;
    (void)context;
    for (size_t i = 0; i + LEAST < n; i++) {
        const double *from = numbers + i;
        if (*from == STEPS && !state.exp) {
            state.exp = take_exp(from, n - i);
        } else if (*from == LN2_HIGH && from[2] == -0.5 && !state.power) {
            state.power = TAKE(power, from, n - i);
        } else if (*from == LN2_HIGH && from[7] == -0.5 && !state.log) {
            state.log = TAKE(log, from, n - i);
        } else if (*from == PER_LN2_HIGH && *from + from[1] == PER_LN2 && !state.log2) {
            state.log2 = TAKE(log2, from, n - i);
        }
    }
}

/* The address of exp may be one in the program, which only jumps on: its library is asked first. */
static void find(void)
{
    void *library = npa_loaded("libm.so.6");
    void (*its)(void) = library != NULL ? npa_loaded_function(library, "exp") : NULL;
    void (*ours)(void) = (void (*)(void))(double (*)(double))exp;
    npa_visit_constants(its != NULL ? its : ours, visit, NULL);
}

bool npa_find_numbers(npa_laned which)
{
    pthread_once(&state.once, find);
    switch (which) {
    case NPA_LOGS:
    case NPA_LOG10S: return state.log;
    case NPA_LOG2S: return state.log2;
    case NPA_POWERS: return state.exp && state.power;
    default: return state.exp;
    }
}

/* Each coefficient lies there for all intervals. Their middles come first, of which the words rise
 * evenly from the second on, which is 7/32. In another table, of 19 columns, a rest of the first
 * coefficient comes before the second one, which begins with 1. */
static void visit_tanh(const uint64_t *words, size_t n, void *found)
{
    enum { ROWS = NPA_TANH_ROWS, OWN = 18 };
    const uint64_t second = 0x3fcc000000000000, step = 0x0008000000000000, one = 0x3ff0000000000000;
    for (size_t i = 1; i + OWN * ROWS <= n && !*(bool *)found; i++) {
        if (words[i - 1] != 0 || words[i] != second || words[i + 1] != second + step ||
            words[i + 13] != second + 13 * step || words[i - 1 + 2 * ROWS] != one) {
            continue;
        }
        for (int k = 0; k < OWN * ROWS; k++) {
            double *to = &npa_library.tanh_rows[k % ROWS][k / ROWS];
            memcpy(to, words + i - 1 + k, sizeof *to);
        }
        *(bool *)found = true;
    }
}

bool npa_find_tanh_rows(void (*numpys)(void))
{
    bool found = false;
    npa_visit_constants(numpys, visit_tanh, &found);
    return found;
}

/* Note [Numbers of the library]
 *
 * Since 2.28 glibc computes these functions by tables. A row of a logarithm's is a number c, chosen
 * among many for how near its logarithm is to a double, so no formula gives the table, nor the last
 * bits of the polynomials. So all of them are copied out of the library that this process has
 * loaded: they lie in its constants behind a number that is known, in an order that is the same in
 * all versions up to now. If they lie otherwise, nothing is found, or what is computed by them is
 * not what the library computes: the proof of exact.c tells. */
