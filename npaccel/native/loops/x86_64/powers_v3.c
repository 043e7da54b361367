/* powers_v3.c: exponentials, logarithms and powers as the GNU C library computes them one by one,
 * four at a time by AVX2. See Note [Exponentials and logarithms] at the end. */
#include "loops/x86_64/lanes_v3.h"

#define BITS(m) ((unsigned)_mm256_movemask_pd(m))
#define WHOLE(a) _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)

enum { ALL_LANES = (1 << LANES) - 1 };
#define EXPONENT (-0x10000000000000ll) /* the bits of sign and exponent */

/* Of the row of each lane, of `width` numbers, those from number `at` on. */
INLINE void look_up(const double *rows, int width, int at, W row, V *first, V *second)
{
    int64_t k[LANES] __attribute__((aligned(32)));
    _mm256_store_si256((W *)k, row);
    IN_MEMORY(k);
    rows += at;
    V ac = _mm256_castpd128_pd256(_mm_load_pd(rows + k[0] * width));
    V bd = _mm256_castpd128_pd256(_mm_load_pd(rows + k[1] * width));
    ac = _mm256_insertf128_pd(ac, _mm_load_pd(rows + k[2] * width), 1);
    bd = _mm256_insertf128_pd(bd, _mm_load_pd(rows + k[3] * width), 1);
    *first = _mm256_unpacklo_pd(ac, bd), *second = _mm256_unpackhi_pd(ac, bd);
}

/* --------------------------------------------------------------------------------- exponentials */

/* 2**(turns/128), of an integer in the last bits, and what is missing there. */
INLINE V step_of(V turns, V *missing)
{
    V step;
    W k = AS_WORDS(turns);
    W row = _mm256_and_si256(k, WORDS(NPA_ROWS - 1));
    look_up(npa_library.exp_rows[0], 2, 0, row, missing, &step);
    return AS_NUMBERS(_mm256_add_epi64(AS_WORDS(step), _mm256_slli_epi64(k, 45)));
}

/* Of the exponential of a sum of two numbers, of which a plain one has no second: what is to be
 * multiplied by 1 + *part. */
INLINE V exp_parts(V x, V rest, bool plain, V *part)
{
    const npa_exp_numbers *by = &npa_library.exp;
    V missing, turns = FMA(x, ALL(by->steps), ALL(by->shift));
    V step = step_of(turns, &missing);
    turns -= ALL(by->shift);
    V r = FMA(turns, ALL(by->low), FMA(turns, ALL(by->high), x));
    if (!plain) {
        r += rest;
    }
    V p = FMA(r, ALL(by->p[1]), ALL(by->p[0])), q = FMA(r, ALL(by->p[3]), ALL(by->p[2]));
    V sum = r + missing, square = r * r;
    *part = FMA(square * square, q, FMA(p, square, sum));
    return step;
}

INLINE V exp_of_sum(V x, V rest, bool plain)
{
    V part, step = exp_parts(x, rest, plain, &part);
    return FMA(step, part, step);
}

/* Of numbers whose results are 0, infinite, or next to it: from 2**-738 down a product is rounded,
 * and results of 0 tell of underflow. Subnormal results are not done. */
INLINE V exp_of_any(V x, V *done)
{
    const V none = ALL(0);
    V size = ABS(x), part, infinite = EQUAL(size, ALL(__builtin_inf()));
    V below = WITHOUT(LESS(x, ALL(-746)), infinite), usual = BETWEEN(x, -708, 709);
    V step = exp_parts(KEEP(WITHOUT(usual, LESS(size, ALL(0x1p-54))), x), none, true, &part);
    V deep = NOT_LESS(ALL(-512), x), large = KEEP(deep, step) * ALL(0x1p512);
    V low = (large + large * part) * ALL(0x1p-512), nothing = KEEP(below, ALL(0x1p-1000));
    V y = PICK(deep, low, FMA(step, part, step));
    y = PICK(below, nothing * nothing, PICK(infinite, KEEP(LESS(none, x), x), y));
    *done = EITHER(usual, EITHER(below, infinite));
    return y;
}

/* Of tiny numbers it is 1. */
INLINE V exp_lanes(V x, V *done)
{
    V size = ABS(x);
    *done = LESS(size, ALL(512));
    if (BITS(*done) != ALL_LANES) {
        return exp_of_any(x, done);
    }
    return exp_of_sum(KEEP(NOT_LESS(size, ALL(0x1p-54)), x), ALL(0), true);
}

INLINE V exp2_lanes(V x, V *done)
{
    const npa_exp_numbers *by = &npa_library.exp;
    V size = ABS(x), missing;
    *done = LESS(size, ALL(928));
    x = KEEP(BOTH(*done, NOT_LESS(size, ALL(0x1p-54))), x);
    V turns = x + ALL(by->shift2), step = step_of(turns, &missing);
    V r = x - (turns - ALL(by->shift2)), square = r * r;
    V p = missing + r * ALL(by->p2[0]);
    p += square * (ALL(by->p2[1]) + r * ALL(by->p2[2]));
    p += square * square * (ALL(by->p2[3]) + r * ALL(by->p2[4]));
    return step + step * p;
}

/* ----------------------------------------------------------------------------------- logarithms */

/* The exponents, of numbers' words less those of 1 or the like. */
INLINE V exponent_of(W words)
{
    W k = _mm256_permutevar8x32_epi32(_mm256_srai_epi32(words, 20),
                                      _mm256_setr_epi32(1, 3, 5, 7, 1, 3, 5, 7));
    return _mm256_cvtepi32_pd(_mm256_castsi256_si128(k));
}

/* x = z * 2**exponent, z from `begin` on, of which the next bits are the row. */
INLINE V parts(V x, int64_t begin, int row_bits, V *exponent, W *row)
{
    W word = AS_WORDS(x), from = _mm256_sub_epi64(word, WORDS(begin));
    *exponent = exponent_of(from);
    *row = _mm256_and_si256(_mm256_srli_epi64(from, 52 - row_bits), WORDS((1 << row_bits) - 1));
    return AS_NUMBERS(_mm256_sub_epi64(word, _mm256_and_si256(from, WORDS(EXPONENT))));
}

INLINE V log_near_1(V x)
{
    const double *by = npa_library.log.near;
    V r = x - ALL(1), square = r * r, cube = r * square;
    V p = FMA(square, ALL(by[3]), FMA(r, ALL(by[2]), ALL(by[1])));
    V q = FMA(square, ALL(by[6]), FMA(r, ALL(by[5]), ALL(by[4])));
    V s = FMA(square, ALL(by[9]), FMA(r, ALL(by[8]), ALL(by[7])));
    p = FMA(FMA(FMA(cube, ALL(by[10]), s), cube, q), cube, p);
    V high = FNMA(ALL(0x1p27), r, FMA(r, ALL(0x1p27), r)), its_square = high * high;
    V sum = FMA(its_square, ALL(by[0]), r), rest = FMA(its_square, ALL(by[0]), r - sum);
    rest = FMA(ALL(by[0]) * (r - high), r + high, rest);
    return FMA(p, cube, rest) + sum;
}

/* Of positive normal numbers */
INLINE V log_of(V x)
{
    const npa_log_numbers *by = &npa_library.log;
    V k, inverse, log_c;
    W row;
    V z = parts(x, 0x3fe6000000000000, 7, &k, &row);
    look_up(npa_library.log_rows[0], 2, 0, row, &inverse, &log_c);
    V r = FMA(z, inverse, ALL(-1)), square = r * r;
    V w = FMA(k, ALL(by->high), log_c), sum = w + r;
    V rest = FMA(k, ALL(by->low), w - sum + r);
    V p = FMA(r, ALL(by->p[4]), ALL(by->p[3])), q = FMA(r, ALL(by->p[2]), ALL(by->p[1]));
    V result = FMA(r * square, FMA(p, square, q), FMA(square, ALL(by->p[0]), rest)) + sum;
    V near = BETWEEN(x, 1 - 0x1p-4, 1 + 0x1.09p-4);
    return BITS(near) ? PICK(near, log_near_1(PICK(near, x, ALL(1))), result) : result;
}

INLINE V positive(V x, V *done)
{
    *done = BETWEEN(x, 0x1p-1022, __builtin_inf());
    return PICK(*done, x, ALL(1));
}

/* Those of 0 are infinite, which a quotient tells of. */
INLINE V with_zeros(V x, V result, V *done)
{
    if (BITS(*done) == ALL_LANES) {
        return result;
    }
    V zero = EQUAL(x, ALL(0)), infinite = ALL(-1) / PICK(zero, ABS(x), ALL(1));
    *done = EITHER(*done, zero);
    return PICK(zero, infinite, result);
}

INLINE V log_lanes(V x, V *done) { return with_zeros(x, log_of(positive(x, done)), done); }

/* By the logarithm of what is within a factor of 2 of 1, at the same side */
INLINE V log10_lanes(V x, V *done)
{
    W word = AS_WORDS(positive(x, done)), one = AS_WORDS(ALL(1));
    W below = _mm256_cmpgt_epi64(one, word);
    W from = _mm256_sub_epi64(_mm256_sub_epi64(word, one), _mm256_slli_epi64(below, 52));
    from = _mm256_and_si256(from, WORDS(EXPONENT));
    V exponent = exponent_of(from);
    V part = exponent * ALL(0x1.9fef311f12b36p-42) +
             ALL(0x1.bcb7b1526e50ep-2) * log_of(AS_NUMBERS(_mm256_sub_epi64(word, from)));
    return with_zeros(x, part + exponent * ALL(0x1.34413509f6000p-2), done);
}

INLINE V log2_near_1(V x)
{
    const npa_log2_numbers *by = &npa_library.log2;
    const double *p = by->near;
    V r = x - ALL(1), square = r * r, fourth = square * square;
    V high = r * ALL(by->high), low = FMA(r, ALL(by->low), FMS(ALL(by->high), r, high));
    V first = FMA(ALL(p[1]), r, ALL(p[0])), sum = FMA(first, square, high);
    V rest = FMA(first, square, high - sum) + low;
    V b = FMA(FMA(ALL(p[5]), r, ALL(p[4])), square, FMA(ALL(p[3]), r, ALL(p[2])));
    V c = FMA(FMA(ALL(p[9]), r, ALL(p[8])), square, FMA(ALL(p[7]), r, ALL(p[6])));
    return sum + FMA(FMA(c, fourth, b), fourth, rest);
}

INLINE V log2_lanes(V x, V *done)
{
    const npa_log2_numbers *by = &npa_library.log2;
    V k, inverse, log_c;
    W row;
    V usual = positive(x, done), z = parts(usual, 0x3fe6000000000000, 6, &k, &row);
    look_up(npa_library.log2_rows[0], 2, 0, row, &inverse, &log_c);
    V r = FMA(z, inverse, ALL(-1)), square = r * r;
    V high = r * ALL(by->high), low = FMA(r, ALL(by->low), FMS(ALL(by->high), r, high));
    V w = k + log_c, sum = w + high, rest = w - sum + high + low;
    V p = FMA(ALL(by->p[1]), r, ALL(by->p[0])), q = FMA(ALL(by->p[3]), r, ALL(by->p[2]));
    p = FMA(FMA(ALL(by->p[5]), r, ALL(by->p[4])), square * square, FMA(q, square, p));
    V result = FMA(square, p, rest) + sum;
    V near = BETWEEN(usual, 1 - 0x1.5b51p-5, 1 + 0x1.6ab2p-5);
    if (BITS(near)) {
        result = PICK(near, log2_near_1(PICK(near, usual, ALL(1))), result);
    }
    return with_zeros(x, result, done);
}

/* --------------------------------------------------------------------------------------- powers */

/* Of positive normal numbers, in two */
INLINE V log_in_two(V x, V *low)
{
    const npa_power_numbers *by = &npa_library.power;
    V k, inverse, none, log_c, log_c_rest;
    W row;
    V z = parts(x, 0x3fe6955500000000, 7, &k, &row);
    look_up(npa_library.power_rows[0], 4, 0, row, &inverse, &none);
    look_up(npa_library.power_rows[0], 4, 2, row, &log_c, &log_c_rest);
    V r = FMA(z, inverse, ALL(-1));
    V first = FMA(k, ALL(by->high), log_c), second = first + r;
    V half = r * ALL(by->p[0]), square = r * half, sum = second + square;
    V rest = FMA(k, ALL(by->low), log_c_rest) + (first - second + r);
    rest = rest + FMS(half, r, square) + (second - sum + square);
    V p = FMA(r, ALL(by->p[2]), ALL(by->p[1])), q = FMA(r, ALL(by->p[4]), ALL(by->p[3]));
    p = FMA(square, FMA(FMA(r, ALL(by->p[6]), ALL(by->p[5])), square, q), p);
    rest = FMA(r * square, p, rest);
    V result = sum + rest;
    *low = sum - result + rest;
    return result;
}

/* The sign of the powers of negative numbers; those by no integers are not done. */
INLINE V sign_of_powers(V x, V y, V *done)
{
    V negative = LESS(x, ALL(0)), half = y * ALL(0.5);
    *done = WITHOUT(*done, WITHOUT(negative, EQUAL(WHOLE(y), y)));
    V odd = _mm256_cmp_pd(WHOLE(half), half, _CMP_NEQ_OQ);
    return KEEP(BOTH(negative, odd), ALL(-0.0));
}

/* Those that need no logarithm: of 0, and by 0. */
INLINE V power_of_any(V x, V y, V result, V *done)
{
    const V none = ALL(0);
    V by_0 = BOTH(EQUAL(y, none), EQUAL(x, x)), of_0 = EQUAL(x, none);
    of_0 = BOTH(of_0, BETWEEN(y, 0x1p-1021, __builtin_inf()));
    V half = KEEP(of_0, y) * ALL(0.5), odd = EQUAL(WHOLE(y), y);
    odd = WITHOUT(odd, EQUAL(WHOLE(half), half));
    result = PICK(of_0, KEEP(odd, x), result);
    *done = EITHER(*done, EITHER(by_0, of_0));
    return PICK(by_0, ALL(1), result);
}

INLINE V power_lanes(V x, V y, V *done)
{
    V low, size = ABS(x), none = ALL(0), base, by;
    *done = BOTH(BETWEEN(size, 0x1p-1022, __builtin_inf()), BETWEEN(ABS(y), 0x1p-65, 0x1p63));
    base = PICK(*done, size, ALL(1)), by = PICK(*done, y, ALL(1));
    V sign = BITS(x) ? sign_of_powers(x, by, done) : none;
    V high = log_in_two(base, &low);
    V e = by * high, rest = FMA(by, low, FMS(by, high, e)), e_size = ABS(e);
    *done = BOTH(*done, LESS(e_size, ALL(512)));
    V usual = BOTH(*done, NOT_LESS(e_size, ALL(0x1p-54)));
    V result = _mm256_xor_pd(exp_of_sum(KEEP(usual, e), KEEP(usual, rest), false), sign);
    return BITS(*done) == ALL_LANES ? result : power_of_any(x, y, result, done);
}

/* ---------------------------------------------------------------------------- near 0 and near 1 */

/* The number whose upper half this is */
#define UPPER(half) AS_NUMBERS(WORDS((int64_t)(half) << 32))
#define LN2_HIGH ALL(0x1.62e42fee00000p-1)
#define LN2_LOW ALL(0x1.a39ef35793c76p-33)

/* y * 2**k */
INLINE V scaled(V y, W k)
{
    return AS_NUMBERS(_mm256_add_epi64(AS_WORDS(y), _mm256_slli_epi64(k, 52)));
}

/* expm1 of x + turns * ln(2), where x has a rest. */
INLINE V expm1_of_rest(V x, V rest, V turns)
{
    V half = ALL(0.5) * x, square = x * half, fourth = square * square;
    V p = FMA(square, ALL(-0x1.11111111110f4p-5), ALL(1));
    V q = FMA(ALL(-0x1.4ce199eaadbb7p-14), square, ALL(0x1.a01a019fe5585p-10));
    V s = FMA(ALL(-0x1.afdb76e09c32dp-23), square, ALL(0x1.0cfca86e65239p-18));
    V r = FMA(fourth * fourth, s, FMA(fourth, q, p)), t = FNMA(r, half, ALL(3));
    V e = (r - t) / FNMA(x, t, ALL(6)) * square;
    V of_0 = x - FMS(x, e, square), less = FMS(e - rest, x, rest) - square;
    W k = _mm256_cvtepi32_epi64(_mm256_cvtpd_epi32(turns));
    V above = NOT_LESS(turns, ALL(2)), part = PICK(above, ALL(1) - scaled(ALL(1), -k), ALL(1));
    V beyond = NOT_LESS(turns, ALL(57));
    V y = PICK(beyond, ALL(1), part) - (less - x);
    V large = WITHOUT(NOT_LESS(turns, ALL(20)), beyond);
    if (BITS(large)) {
        y = PICK(large, x - (less + scaled(ALL(1), -k)) + ALL(1), y);
    }
    y = scaled(y, k);
    y = PICK(WITHOUT(above, beyond), y, y - ALL(1));
    V of_1 = FMA(x - less, ALL(2), ALL(1)), low_1 = ALL(-2) * (less - (x + ALL(0.5)));
    of_1 = PICK(LESS(x, ALL(-0.25)), low_1, of_1);
    y = PICK(EQUAL(turns, ALL(1)), of_1, y);
    y = PICK(EQUAL(turns, ALL(-1)), FMA(x - less, ALL(0.5), ALL(-0.5)), y);
    return PICK(EQUAL(turns, ALL(0)), of_0, y);
}

/* For 2**-54 <= abs(x) < 709 */
INLINE V expm1_of(V x)
{
    V size = ABS(x), sign = BOTH(x, ALL(-0.0)), half = EITHER(ALL(0.5), sign);
    V turns = _mm256_round_pd(ALL(0x1.71547652b82fep0) * x + half,
                              _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    turns = PICK(LESS(size, UPPER(0x3ff0a2b2)), EITHER(ALL(1), sign), turns);
    turns = WITHOUT(turns, LESS(size, UPPER(0x3fd62e43)));
    V high = FNMA(turns, LN2_HIGH, x), low = turns * LN2_LOW, r = high - low;
    return expm1_of_rest(r, high - r - low, turns);
}

INLINE V expm1_lanes(V x, V *done)
{
    V size = ABS(x), least = _mm256_cmp_pd(x, UPPER(0xc043687a), _CMP_LE_OQ);
    V tiny = LESS(size, ALL(0x1p-54)), usual = WITHOUT(WITHOUT(LESS(size, ALL(709)), tiny), least);
    *done = EITHER(usual, EITHER(least, WITHOUT(tiny, BETWEEN(size, 0x1p-1074, 0x1p-1022))));
    V y = BITS(usual) ? expm1_of(PICK(usual, x, ALL(1))) : x;
    return PICK(least, ALL(-1), PICK(tiny, x, y));
}

INLINE V sinh_lanes(V x, V *done)
{
    V size = ABS(x), tiny = LESS(size, ALL(0x1p-28)), one = ALL(1);
    *done = LESS(size, ALL(512));
    V far = BOTH(*done, NOT_LESS(size, ALL(22))), usual = WITHOUT(WITHOUT(*done, far), tiny);
    *done = WITHOUT(*done, BETWEEN(size, 0x1p-1074, 0x1p-1022));
    V t = expm1_of(PICK(usual, size, one)), quotient = t / (t + one);
    V y = PICK(LESS(size, one), ALL(2) * t - t * t / (t + one), t + quotient);
    if (BITS(far)) {
        y = PICK(far, exp_of_sum(KEEP(far, size), ALL(0), true), y);
    }
    y = y * EITHER(ALL(0.5), BOTH(x, ALL(-0.0)));
    return PICK(tiny, x, y);
}

/* For tiny numbers 1 comes of itself. */
INLINE V cosh_lanes(V x, V *done)
{
    V size = ABS(x), near = LESS(size, UPPER(0x3fd62e43)), one = ALL(1);
    *done = LESS(size, ALL(512));
    V t = exp_of_sum(KEEP(WITHOUT(*done, near), size), ALL(0), true), half = ALL(0.5) * t;
    V y = PICK(NOT_LESS(size, ALL(22)), half, half + ALL(0.5) / t);
    if (BITS(near)) {
        t = expm1_of(PICK(BOTH(near, NOT_LESS(size, ALL(0x1p-54))), size, one));
        V w = one + t;
        V its = PICK(LESS(size, ALL(0x1p-54)), one, one + t * t / (w + w));
        y = PICK(near, its, y);
    }
    return y;
}

/* The logarithm of (1 + f) * 2**k, and what was lost when that number was rounded. */
INLINE V log1p_of_rest(V f, V k, V lost, V smallest)
{
    V half = ALL(0.5) * f * f, none = EQUAL(k, ALL(0));
    V s = f / (ALL(2) + f), z = s * s, z2 = z * z, z4 = z2 * z2;
    V p = FMA(ALL(0x1.2492494229359p-2), z, ALL(0x1.999999997fa04p-2));
    V q = FMA(ALL(0x1.7466496cb03dep-3), z, ALL(0x1.c71c51d8e78afp-3));
    V t = FMA(ALL(0x1.2f112df3e5244p-3), z, ALL(0x1.39a09d078c69fp-3));
    V r = FMA(z2 * z4, t, FMA(z4, q, FMA(z, ALL(0x1.5555555555593p-1), z2 * p)));
    V more = s * (half + r), rest = FMA(k, LN2_LOW, lost);
    V y = FMS(k, LN2_HIGH, half - (rest + more) - f);
    if (BITS(smallest)) {
        V by = FNMA(f, ALL(0x1.5555555555555p-1), ALL(1)) * half;
        y = PICK(smallest, FMS(k, LN2_HIGH, by - rest - f), y);
    }
    return PICK(none, f - (half - more), y);
}

/* For -1 < x < infinity, 2**-29 <= abs(x) */
INLINE V log1p_of(V x)
{
    V sum = ALL(1) + x, large = NOT_LESS(x, ALL(0x1p53));
    V near = BOTH(LESS(x, UPPER(0x3fda827a)), LESS(-x, UPPER(0x3fd2bec4)));
    V lost = PICK(NOT_LESS(sum, ALL(2)), ALL(1) - (sum - x), x - (sum - ALL(1)));
    sum = PICK(large, x, sum), lost = WITHOUT(lost, large) / sum;
    W word = AS_WORDS(sum), low = _mm256_and_si256(word, WORDS(~EXPONENT));
    W up = _mm256_cmpgt_epi64(low, WORDS(0x6a09dffffffff));
    W next = _mm256_sub_epi64(AS_WORDS(ALL(1)), _mm256_and_si256(up, WORDS(1ll << 52)));
    V f = AS_NUMBERS(_mm256_or_si256(low, next)) - ALL(1), k;
    k = exponent_of(_mm256_sub_epi64(word, next));
    W upper = _mm256_srli_epi64(low, 32), off = _mm256_sub_epi64(WORDS(0x100000), upper);
    W least = _mm256_cmpgt_epi64(WORDS(4), off), none = _mm256_cmpeq_epi64(upper, WORDS(0));
    least = _mm256_blendv_epi8(none, least, up);
    f = PICK(near, x, f), k = WITHOUT(k, near), lost = WITHOUT(lost, near);
    return log1p_of_rest(f, k, lost, WITHOUT(AS_NUMBERS(least), near));
}

INLINE V log1p_lanes(V x, V *done)
{
    V size = ABS(x), tiny = LESS(size, ALL(0x1p-54)), small = LESS(size, ALL(0x1p-29));
    *done = BOTH(LESS(ALL(-1), x), LESS(x, ALL(__builtin_inf())));
    V usual = WITHOUT(*done, small);
    *done = WITHOUT(*done, BETWEEN(size, 0x1p-1074, 0x1p-1022));
    V y = log1p_of(PICK(usual, x, ALL(1)));
    if (BITS(small)) {
        V its = KEEP(WITHOUT(small, tiny), x);
        y = PICK(small, PICK(tiny, x, FNMA(its * its, ALL(0.5), its)), y);
    }
    return y;
}

/* Of a sum of exponentials: NumPy's own formula. */
INLINE V logaddexp_lanes(V x, V y, V *done)
{
    V equal = EQUAL(x, y), less = WITHOUT(x, equal) - WITHOUT(y, equal), done_too;
    V e = exp_lanes(EITHER(less, ALL(-0.0)), done), larger = PICK(LESS(ALL(0), less), x, y);
    V sum = larger + log1p_lanes(PICK(*done, e, ALL(1)), &done_too);
    return PICK(equal, x + ALL(0x1.62e42fefa39efp-1), sum);
}

/* ---------------------------------------------------------------------------------------------- */

#define LANED(name, result)                                                                \
    TARGET uint64_t npa_##name##_v3(const double *const *from, double *to, int n)          \
    {                                                                                      \
        uint64_t left = 0;                                                                 \
        for (int i = 0; i < n; i += LANES) {                                               \
            V done;                                                                        \
            _mm256_storeu_pd(to + i, result);                                              \
            left |= (uint64_t)(BITS(done) ^ ALL_LANES) << i;                               \
        }                                                                                  \
        return left;                                                                       \
    }

LANED(exps, exp_lanes(LOAD(from[0] + i), &done))
LANED(exp2s, exp2_lanes(LOAD(from[0] + i), &done))
LANED(logs, log_lanes(LOAD(from[0] + i), &done))
LANED(log2s, log2_lanes(LOAD(from[0] + i), &done))
LANED(log10s, log10_lanes(LOAD(from[0] + i), &done))
LANED(expm1s, expm1_lanes(LOAD(from[0] + i), &done))
LANED(sinhs, sinh_lanes(LOAD(from[0] + i), &done))
LANED(coshs, cosh_lanes(LOAD(from[0] + i), &done))
LANED(log1ps, log1p_lanes(LOAD(from[0] + i), &done))
LANED(logaddexps, logaddexp_lanes(LOAD(from[0] + i), LOAD(from[1] + i), &done))
LANED(powers, power_lanes(LOAD(from[0] + i), LOAD(from[1] + i), &done))

/* Note [Exponentials and logarithms]
 *
 * As in Note [Lanes], the operations here are those of the C library and in its order, with
 * products that are added without being rounded where its code for processors with such
 * instructions does so (which is not in exp2, nor in what log10 adds to a logarithm).
 *
 * An exponential is 2**(k/128) by a table times that of a small rest. A logarithm is that of a
 * power of two, that of a number c from the table, and that of z/c, by a polynomial; near 1 it is a
 * polynomial of x - 1 whose square is split. A power is the exponential of a product with a
 * logarithm in two numbers. expm1 and log1p take whole multiples of ln(2) off and have a rational
 * function, or a series, of the rest; sinh and cosh come of expm1 near 0, and of exp.
 *
 * What all of them do for results that are subnormal or no numbers is left to the library, as are
 * most of the rare arguments. */
