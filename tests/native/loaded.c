/* loaded.c: compiled to an object file that test_loader.c loads: constants, calls among its own
 * functions, and calls of the C library. */
#include <string.h>
#include <math.h>

static const double weights[4] = {0.5, 1.5, 2.5, 3.5};

__attribute__((noinline)) double
weight(int i)
{
    return weights[i & 3];
}

double
weighted(const double *x, int n)
{
    double total = 0;
    for (int i = 0; i < n; i++) {
        total += x[i] * weight(i);
    }
    return total;
}

double
rest(double x, double y)
{
    return fmod(x, y) + 0.25;
}

void
spread(char *to, const char *from, unsigned long n)
{
    memset(to, 1, 2 * n);
    memcpy(to, from, n);
}
