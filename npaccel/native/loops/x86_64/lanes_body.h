/* lanes_body.h: the functions for one kind of registers, for a file that says what the names in
 * capitals are. V: a register of LANES doubles. M: what holds in which lane. ALL(number) is that
 * number in each lane, PICK(m, a, b) has a where m holds, KEEP and DROP have 0 in other lanes. */

/* Of 0 <= x < LARGEST: which quarter of a turn it is in, in the last bits, and how far it is from
 * the middle, in two numbers. A cosine is the sine of a quarter more. Note [Lanes] in lanes.c. */
INLINE V NAME(quarter_of)(V x, bool cosine, V *distance, V *rest)
{
    const V none = ALL(0x1.8p52); /* its last bit is 1 */
    M far = NOT_LESS(x, ALL(0x1.b6p-1)), farther = NOT_LESS(x, ALL(0x1.368fdp1));
    V quarter = PICK(farther, FMA(x, ALL(0x1.45f306dc9c883p-1), none), none);
    V turns = quarter - none;
    V y = FNMA(turns, ALL(-0x1.dde973cp-27), FNMA(turns, ALL(0x1.921fb58p0), x));
    V t = FNMA(turns, ALL(-0x1.cb3b398p-55), y);
    V a = FNMA(turns, ALL(-0x1.d747f23e32ed7p-83), t);
    V da = FNMA(turns, ALL(-0x1.cb3b398p-55), y - t) +
           FNMA(turns, ALL(-0x1.d747f23e32ed7p-83), t - a);
    /* To the end of the first one */
    V end = ALL(0x1.921fb54442d18p0) - x, end_rest = ALL(0x1.1a62633145c07p-54);
    V near = end, near_rest = end_rest, its_quarter = none + ALL(1);
    if (cosine) {
        near = end + end_rest, near_rest = (end - near) + end_rest;
        quarter += ALL(1), its_quarter = none;
    }
    M first = WITHOUT(far, farther);
    *distance = PICK(first, near, a), *rest = PICK(first, near_rest, da);
    return PICK(first, its_quarter, quarter);
}

/* The sine of 0 <= x < LARGEST, or the cosine. */
INLINE V NAME(turned)(V x, bool cosine)
{
    const V big = ALL(0x1.8p45); /* its last bit is 1/128 */
    V a, da, quarter = NAME(quarter_of)(x, cosine, &a, &da);
    M odd = ODD(quarter); /* the cosine of what is left */
    V sign = AND(a, ALL(-0.0)), size = XOR(a, sign);
    da = XOR(da, sign);
    V place = size + big;
    V d = size - (place - big), more = DROP(odd, da);
    d = PICK(odd, d + da, d);
    V square = d * d, p = FMA(square, ALL(0x1.11110e829872fp-7), ALL(-0x1.5555555555515p-3));
    V s = FMA(d * square, p, PICK(odd, d, da));
    s = ADD_WITHOUT(odd, s, d);
    V c = FMA(square, ALL(0x1.6c16bedd9e239p-10), ALL(-0x1.5555555555535p-5));
    c = FMA(d, more, square * FMA(square, c, ALL(0.5)));
    V row[4];
    NAME(look_up)(place, odd, row);
    V r = row[0] + FMA(row[2], s, FNMA(row[0], c, FMA(s, row[3], row[1])));

    M small = WITHOUT(LESS(size, ALL(0.126)), odd);
    if (ANY(small)) {
        V of = size * size, q = FMA(of, ALL(-0x1.addffc2fcdf59p-26), ALL(0x1.71de27b9a7ed9p-19));
        q = FMA(FMA(q, of, ALL(-0x1.a01a019db08b8p-13)), of, ALL(0x1.1111111110ecep-7));
        q = FMS(FMA(q, of, ALL(-0x1.5555555555555p-3)), size, da * ALL(0.5));
        r = PICK(small, size + FMA(q, of, da), r);
    }
    return XOR(XOR(r, DROP(odd, sign)), SECOND_BIT(quarter));
}

/* Of LANES at a time; what is left is a bit for each. */
INLINE uint64_t NAME(turned_block)(const double *from, double *to, int n, bool cosine)
{
    uint64_t left = 0;
    for (int i = 0; i < n; i += LANES) {
        V x = LOAD(from + i), size = ABS(x), sign = XOR(x, size);
        M usual = BETWEEN(size, cosine ? TINY / 2 : TINY, LARGEST);
        if (ALL_OF(usual)) {
            V r = NAME(turned)(size, cosine);
            STORE(to + i, cosine ? r : XOR(r, sign));
            continue;
        }
        /* Of tiny ones the cosine is 1, of subnormal ones underflow is told */
        M tiny = LESS(size, ALL(TINY)), done = EITHER(tiny, usual);
        V r = ANY(usual) ? NAME(turned)(KEEP(usual, size), cosine) : ALL(1);
        if (!cosine) {
            r = PICK(tiny, x, XOR(r, sign));
            done = WITHOUT(done, BETWEEN(size, 0x1p-1074, 0x1p-1022));
        }
        STORE(to + i, r);
        left |= (uint64_t)OUT(done) << i;
    }
    return left;
}

TARGET static uint64_t NAME(sines)(const double *const *from, double *to, int n)
{
    return NAME(turned_block)(from[0], to, n, false);
}

TARGET static uint64_t NAME(cosines)(const double *const *from, double *to, int n)
{
    return NAME(turned_block)(from[0], to, n, true);
}

/* For 2**-459 <= b <= a <= 2**511, and not apart by more than 2**54 */
INLINE V NAME(hypotenuse)(V a, V b)
{
    V h = ROOT(a * a + b * b), twice = b + b, beyond = a - b;
    M near = NOT_LESS(twice, h);
    V d = h - PICK(near, b, a), e = d + d;
    V first = PICK(near, a, e) * PICK(near, e - a, a - twice);
    V second = PICK(near, d - (beyond + beyond), d * ALL(4) - b) * PICK(near, d, b);
    second = ADD_WITHOUT(near, second, d * d);
    return h - (first + second) / (h + h);
}

TARGET static uint64_t NAME(hypotenuses)(const double *const *from, double *to, int n)
{
    uint64_t left = 0;
    for (int i = 0; i < n; i += LANES) {
        V x = ABS(LOAD(from[0] + i)), y = ABS(LOAD(from[1] + i)), most = ALL(0x1p511);
        M fits = BOTH(NOT_LESS(most, x), NOT_LESS(most, y));
        x = KEEP(fits, x), y = KEEP(fits, y);
        V a = LARGER(x, y), b = SMALLER(x, y);
        M apart = NOT_LESS(a, b * ALL(0x1p54)), usual = WITHOUT(NOT_LESS(b, ALL(0x1p-459)), apart);
        V r = NAME(hypotenuse)(PICK(usual, a, ALL(1)), PICK(usual, b, ALL(1)));
        STORE(to + i, PICK(usual, r, a + b));
        left |= (uint64_t)OUT(BOTH(fits, EITHER(apart, usual))) << i;
    }
    return left;
}
