/* exact.c: loops of `sin`, `exp`, `log`, `power` and others of doubles that have the bits and flags
 * of NumPy's, where that is proved. See Note [Exact loops] at the end. */
#include "loops/loops.h"
#include "loops/proof.h"

#include <math.h>
#include <string.h>

enum { BLOCK = NPA_LANES_BLOCK, LEAST = 4, NIN = 2 };
enum { BLOCKS_TRIED = 128, SEEN = BLOCKS_TRIED * BLOCK }; /* of a proof; before there is one */

/* Angles of which some sums of a product and a number tell, by the last bit of the sine or cosine,
 * whether the product was rounded: tests/dispatch/small/test_exact_loops.py says which, and
 * test_exact_proofs.py for what follows. Then those where ranges meet. */
static const double telling_angles[] = {
    0x1.998d6af525af5p+24, 0x1.4c4c40c2128cfp+25, 0x1.4a56e71d13274p+26, 0x1.39ca8a1c27793p+24,
    0x1.b555bf1490cf8p-4, 0x1.b7041080e8c2dp-4, 0x1.39bbe95be207ep+26, 0x1.0f6327fb57d24p+24,
    0x1.f53556b177b6ep+24, 0x1.74344e7eea3b7p+0, 0x1.826d352deb137p+26, 0x1.798af981070bfp+0,
    0x1.5da32d73965f5p+26, 0x1.3038e6a269526p+26, 0x1.7f31525cfc2dep+0, 0x1.8c9a827e93271p+0,
    0x1.211d0795fa63ep+25, 0x1.8331e70ba0a66p+25, 0x1.1ca8c1261b159p+26, 0x1.b6eced20784e3p+23,
    0x1.9d4641a93476p+24, 0x1.b09c01879ad4p+0, 0x1.ae6188c3ee7e9p+0, 0x1.6a0b504c16152p+4,
    0x1.61363d38f0214p+25, 0x1.11b164b5a527dp+26, 0x1.143bac5e394a1p+1, 0x1.c9620e7140a88p-1,
    0x1.59a2db18b2e7ap+24, 0x1.5797db7c7576dp+21, 0x1.2b67f921ebf19p+24, 0x1.a56c9c2c0f52dp-1,
    0x1.206d72e0eba16p-1, 0x1.173de051e7a4ep+24, 0x1.4310547353601p+26, 0x1.5d3a41b1be558p+0,
    0x1.7ccf35981a888p+26, 0x1.48afadab83655p+6, 0x1.9b9f3cfc2b8b6p-2, 0x1.d59d283a1c3d8p-3,
    0x1.e66b9feaac0f9p+5, 0x1.606e39d6195c9p+25, 0x1.e391608e94adcp+0, 0x1.09788d087e7dep+0,
    0x1.2f46d5c1dafc9p+1, 0x1.13c7729b9a14fp+1, 0x1.7cc77428e62e3p+23, 0x1.793006eedd7efp+25,
    0x1.79f23a67ac307p+26, 0x1.05bc14d674cb9p+24, 0x1.1da4a74fc6efap+6, 0x1.e045941bdce23p+23,
    0x1.214ca5d5eb53ap+0, 0x1.a7310d0380256p+0, 0x1.91463afcc9707p+5, 0x1.79497c89cb934p-4,
    0x1.719a2d7c38584p+24, 0x1.19fa4facae3e4p-5, 0x1.7a5c94124a3fp+21, 0x1.33b9fae83155bp+1,
    0x1.ebbeb30baa469p+25, 0x1.f2d9d078d37f4p+0, 0x1.94ce949774e1cp-1, 0x1.651b2aa586d66p+25,
    0x1.ed5672de3b593p+25, 0x1.66dcee7a9a124p-4,
    0x1.020c49ba5e353p-3, 0x1.020c49ba5e354p-3, 0x1.020c49ba5e355p-3, 0x1.b5fffffffffffp-1,
    0x1.b600000000000p-1, 0x1.b600000000001p-1, 0x1.368fcffffffffp+1, 0x1.368fd00000000p+1,
    0x1.368fd00000001p+1, 0x1.921faffffffffp+26, 0x1.921fb00000000p+26, 0x1.921fb00000001p+26,
    0x1.fffffffffffffp-27, 0x1p-26, 0x1.0000000000001p-26, 0x1.fffffffffffffp-28, 0x1p-27,
    0x1.0000000000001p-27, 0x0.fffffffffffffp-1022, 0x1p-1022, 0x1.0000000000001p-1022,
    0x1.71de2c0cf70adp+0, 0x1.71de2c0cf70aep+0, 0x1.71de2c0cf70afp+0, 0x1.b2613e7b8e981p+0,
    0x1.b2613e7b8e982p+0, 0x1.b2613e7b8e983p+0, 0x1.81fef0a89cee2p+1, 0x1.81fef0a89cee3p+1,
    0x1.81fef0a89cee4p+1, 0x0.0p+0, 0x1.921fb54442d18p-1, 0x1.921fb54442d18p+0,
    0x1.921fb54442d18p+1, 0x1.2d97c7f3321d2p+1, 0x1.2d97c7f3321d2p+2, 0x1.921fb54442d18p+2,
    0x1.32cbd0fba43a7p+18, 0x1.6000000000000p+4, 0x1.6300000000000p+8, 0x0.0000000000001p-1022,
    0x1.0f0cf064dd592p+73,
};

static const double telling_sides[] = {3, 4, 1, 0x1p-54, 0x1p-53, 1, 2, 1};

/* Likewise of exponentials: exp, exp2, expm1, sinh, cosh and tanh. */
static const double telling_exponents[] = {
    0x1.8f92def56896p-2, 0x1.c0423a16d1ebep-1, -0x1.43c0dc4575102p-2, 0x1.1c9be2e008621p+4,
    0x1.dafc31184a924p+0, -0x1.5c79ce9789902p-2, 0x1.fade9b38d266cp-2, -0x1.34e083cd363cap-5,
    0x1.f864f1c69f506p-1,
    -0x1.387bb65894dcbp+7, -0x1.227c9c4d6da91p+7, -0x1.aa37586b9d278p+3, 0x1.dc619b1252fc3p-9,
    -0x1.6f079f85b6948p-2, 0x1.103845c8995cp-5, -0x1.62222f2099e36p-1, -0x1.1de8fb9370098p-2,
    0x1.638c67cd13d68p-2, 0x1.fffffffffffefp+8, 0x1.ffffffffffff0p+8, 0x1.ffffffffffff1p+8,
    0x1.62e42ffffffffp-2, 0x1.62e4300000000p-2, 0x1.62e4300000001p-2, 0x1.0a2b1ffffffffp+0,
    0x1.0a2b200000000p+0, 0x1.0a2b200000001p+0, -0x1.62e42ffffffffp-2, -0x1.62e4300000000p-2,
    -0x1.62e4300000001p-2, -0x1.0a2b1ffffffffp+0, -0x1.0a2b200000000p+0, -0x1.0a2b200000001p+0,
    -0x1.36879ffffffffp+5, -0x1.3687a00000000p+5, -0x1.3687a00000001p+5, 0x1.fffffffffffffp-55,
    0x1.0000000000000p-54, 0x1.0000000000001p-54, 0x1.fffffffffffffp-29, 0x1.0000000000000p-28,
    0x1.0000000000001p-28, 0x1.5ffffffffffffp+4, 0x1.6000000000000p+4, 0x1.6000000000001p+4,
    0x1.b0861a6c0f69ap+3, 0x1.b0861a6c0f69bp+3, 0x1.b0861a6c0f69cp+3, 0x1.394d72518e724p+5,
    0x1.394d72518e725p+5, 0x1.394d72518e726p+5, 0x0.0p+0, -0x1.9p+9, -0x1.75p+9, INFINITY,
    -INFINITY,
};

/* Likewise of logarithms, of which some have another polynomial next to 1. */
static const double telling_positive[] = {
    0x1.0f9c6879d2f78p+0, 0x1.0de077fd5b41p+0, 0x1.0d21621cd5522p+0, 0x1.0fd9ed15213dfp+0,
    0x1.0c3e43098229ap+0, 0x1.0a99f4ac40e52p+0, 0x1.0aa1253b279b7p+0, 0x1.e130357bd2b3fp-1,
    0x1.e309fc697447ap-1, 0x1.9060c6a659fffp+2, 0x1.8a0e9f4876695p+0, 0x1.080827b0837a1p+1,
    0x1.066056a4dca4bp+0, 0x1.0b32566680aebp+0, 0x1.062e393a702eap+0, 0x1.0a2bf4bdbc8b1p+0,
    0x1.eca671e00e8d4p-1, 0x1.0a8e5b58bdbb1p+0, 0x1.0a8c50c935562p+0, 0x1.f42a42b8234e2p-1,
    0x1.0f9c07ceb9913p+0, 0x1.1845f69cae32fp+0, 0x1.13dd7ea9eb937p+0, 0x1.1c4a9cdc5b3acp+0,
    0x1.f8b9e66c87074p-1, 0x1.2fea50736f98cp+0, 0x1.a0e62c8d60512p+2, 0x1.dffffffffffffp-1,
    0x1.e000000000000p-1, 0x1.e000000000001p-1, 0x1.108ffffffffffp+0, 0x1.1090000000000p+0,
    0x1.1090000000001p+0, 0x1.ea4aeffffffffp-1, 0x1.ea4af00000000p-1, 0x1.ea4af00000001p-1,
    0x1.0b558ffffffffp+0, 0x1.0b55900000000p+0, 0x1.0b55900000001p+0, 0x1.fffffffffffffp-1,
    0x1.0000000000000p+0, 0x1.0000000000001p+0, 0x0.fffffffffffffp-1022, 0x1.0000000000000p-1022,
    0x1.0000000000001p-1022,
    0x0.0p+0, -0x0.0p+0,
};

/* Likewise of log1p, with where its ranges meet. */
static const double telling_sums[] = {
    0x1.beb277b63a66p-2, 0x1.acb547c34f27cp-2, 0x1.1cfd763b5158fp+1, -0x1.2ac9457595064p-3,
    0x1.a7b6c8271ef8ep+0, 0x1.7914a46bc7e8p-3, 0x1.6519dc1d9e23cp-2, 0x1.93e926d9fec14p-2,
    0x1.172477e3587cep+2,
    0x1.a8279ffffffffp-2, 0x1.a827a00000000p-2, 0x1.a827a00000001p-2, -0x1.2bec3ffffffffp-2,
    -0x1.2bec400000000p-2, -0x1.2bec400000001p-2, 0x1.fffffffffffffp-30, 0x1.0000000000000p-29,
    0x1.0000000000001p-29, -0x1.fffffffffffffp-30, -0x1.0000000000000p-29, -0x1.0000000000001p-29,
    0x1.fffffffffffffp+52, 0x1.0000000000000p+53, 0x1.0000000000001p+53, 0x0.0p+0,
};

/* Likewise of powers: a number, and by what. */
static const double telling_powers[] = {
    0x1.ff43095732787p-1, -0x1.27d2541d714abp+0, 0x1.52a041193ca36p-799, -0x1.84d7f708d3131p-8,
    0x1.cb0671a41795fp-1, 0x1.9875f7c00769ep+2, 0x1.e2921b344d6b5p-1, -0x1.049044465f75dp+6,
    0x1.160639283343ep+2, 0x1.314f40ae31b6cp-1, 0x1.0949ced4f6a2ap+0, 0x1.18c7eb8e2ae0ap+8,
    0x1.a5b4088efb53ap+1, -0x1.006eecf28cbd1p+8, 0x1.07e54f386a889p+2, -0x1.4faecc5d84bc1p+6,
    0x1.fa12eb4eef008p-1, 0x1.661999c076a35p+7, 0x1.164e97cccc5adp+0, 0x1.ac40c1155fcb1p+3,
    0x1.a2978f30c40ffp+1, 0x1.20d6fc2c0102cp+8, 0x1.0p+0, 0x1.8p-2,
};

typedef void draw_function(double *x, uint64_t *state);
static draw_function draw_angles, draw_sides, draw_exponents, draw_positive, draw_sums,
    draw_bases, draw_powers;

typedef struct {
    const char *name;
    npa_laned which;
    int nin;
    const double *telling; /* arguments that a proof begins with, and how many */
    int ntelling;
    draw_function *draw[NIN]; /* a block of others */
    npa_lane_function *lanes;
    PyUFuncGenericFunction numpys;
    void *data;
    atomic_int state;
    atomic_llong seen; /* elements that NumPy's loop computed before */
} exact_loop;

#define LOOP(its_name, lanes_of, inputs, telling_of, ...)                                  \
    {.name = its_name, .which = lanes_of, .nin = inputs, .telling = telling_of,            \
     .ntelling = sizeof telling_of / sizeof *telling_of, .draw = {__VA_ARGS__}}
static exact_loop loops[] = {
    LOOP("sin", NPA_SINES, 1, telling_angles, draw_angles),
    LOOP("cos", NPA_COSINES, 1, telling_angles, draw_angles),
    LOOP("hypot", NPA_HYPOTENUSES, 2, telling_sides, draw_sides, draw_sides),
    LOOP("exp", NPA_EXPS, 1, telling_exponents, draw_exponents),
    LOOP("exp2", NPA_EXP2S, 1, telling_exponents, draw_exponents),
    LOOP("log", NPA_LOGS, 1, telling_positive, draw_positive),
    LOOP("log2", NPA_LOG2S, 1, telling_positive, draw_positive),
    LOOP("log10", NPA_LOG10S, 1, telling_positive, draw_positive),
    LOOP("expm1", NPA_EXPM1S, 1, telling_exponents, draw_exponents),
    LOOP("log1p", NPA_LOG1PS, 1, telling_sums, draw_sums),
    LOOP("sinh", NPA_SINHS, 1, telling_exponents, draw_exponents),
    LOOP("cosh", NPA_COSHS, 1, telling_exponents, draw_exponents),
    LOOP("tanh", NPA_TANHS, 1, telling_exponents, draw_exponents),
    LOOP("logaddexp", NPA_LOGADDEXPS, 2, telling_sides, draw_exponents, draw_exponents),
    LOOP("power", NPA_POWERS, 2, telling_powers, draw_bases, draw_powers),
    LOOP("float_power", NPA_POWERS, 2, telling_powers, draw_bases, draw_powers),
};
enum { LOOPS = sizeof loops / sizeof *loops };

/* From number i on. */
static void call_numpys(const exact_loop *l, const double *const *from, double *to, int i,
                        npy_intp n)
{
    const npy_intp item = sizeof(double), steps[NIN + 1] = {item, item, item};
    char *args[NIN + 1] = {NULL};
    for (int k = 0; k < l->nin; k++) {
        args[k] = (char *)(uintptr_t)(from[k] + i);
    }
    args[l->nin] = (char *)(to + i);
    if (n > 0) {
        l->numpys(args, &n, steps, l->data);
    }
}

/* Up to a block of elements; what is left to the library is computed by NumPy's loop. */
static void run_block(const exact_loop *l, char *const *args, const npy_intp *steps, int n)
{
    const npy_intp item = sizeof(double);
    double room[NIN + 1][BLOCK];
    const double *from[NIN];
    char *out = args[l->nin];
    npy_intp out_step = steps[l->nin];
    bool whole = n % NPA_LANES == 0;
    for (int k = 0; k < l->nin; k++) {
        bool direct = whole && steps[k] == item && args[k] != out;
        from[k] = direct ? (const double *)(void *)args[k] : room[k];
        if (!direct) {
            npa_pack((char *)room[k], args[k], steps[k], n, sizeof(double));
            for (int i = n; i % NPA_LANES != 0; i++) {
                room[k][i] = 1;
            }
        }
    }
    bool direct = whole && out_step == item;
    double *to = direct ? (double *)(void *)out : room[NIN];
    uint64_t left = l->lanes(from, to, (n + NPA_LANES - 1) / NPA_LANES * NPA_LANES);
    left &= ~(uint64_t)0 >> (BLOCK - n);
    for (int i = 0, more; left != 0 && i < n; i += more + 1) {
        for (more = 0; i + more < n && (left >> (i + more) & 1); more++) {
        }
        call_numpys(l, from, to, i, more);
    }
    if (!direct) {
        npa_unpack(out, out_step, (const char *)to, n, sizeof(double));
    }
}

static void set_level(exact_loop *l, const char *level)
{
    l->lanes = npa_lanes(l->which, level);
    atomic_store(&l->state, l->lanes != NULL ? NPA_UNTRIED : NPA_OTHER);
}

/* ---------------------------------------------------------------------------------------- proof */

static double drawn(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static void draw_angles(double *x, uint64_t *state)
{
    static const double widths[] = {0.126, 0.9, 2, 3, 7, 100, 1e5, 1.05e8};
    for (int i = 0; i < BLOCK; i++) {
        double at = drawn(state);
        x[i] = (drawn(state) < 0.5 ? at : -at) * widths[(int)(drawn(state) * 8)];
    }
}

static void draw_sides(double *x, uint64_t *state)
{
    for (int i = 0; i < BLOCK; i++) {
        x[i] = (drawn(state) - 0.5) * (double)(1 << (int)(drawn(state) * 12));
    }
}

static double symmetric(uint64_t *state) { return 2 * drawn(state) - 1; }

static void draw_exponents(double *x, uint64_t *state)
{
    static const double widths[] = {0.004, 0.1, 0.5, 1, 3, 20, 200, 720};
    for (int i = 0; i < BLOCK; i++) {
        x[i] = symmetric(state) * widths[(int)(drawn(state) * 8)];
    }
}

/* A quarter of them next to 1 */
static void draw_positive(double *x, uint64_t *state)
{
    for (int i = 0; i < BLOCK; i++) {
        int kind = (int)(drawn(state) * 8), size = (int)(symmetric(state) * 1020);
        double part = 0.5 + drawn(state);
        x[i] = kind < 2 ? 1 + symmetric(state) / 8 : kind < 6 ? 4 * part * part : ldexp(part, size);
    }
}

/* Less 1 */
static void draw_sums(double *x, uint64_t *state)
{
    draw_positive(x, state);
    for (int i = 0; i < BLOCK; i++) {
        x[i] = i % 4 == 0 ? x[i] - 1 : i % 4 == 1 ? ldexp(symmetric(state), -i) : x[i];
    }
}

static void draw_bases(double *x, uint64_t *state)
{
    draw_positive(x, state);
    for (int i = 0; i < BLOCK; i += 5) {
        x[i] = -x[i];
    }
}

static void draw_powers(double *x, uint64_t *state)
{
    static const double widths[] = {0.01, 1, 3, 10, 100, 300};
    for (int i = 0; i < BLOCK; i++) {
        double at = symmetric(state) * widths[(int)(drawn(state) * 6)];
        x[i] = i % 5 == 0 ? rint(at) : at;
    }
}

/* Whether n elements have the same bits and flags. steps: of inputs and of the result. */
static bool agrees(const exact_loop *l, double (*x)[BLOCK], npy_intp n, const npy_intp *steps)
{
    const int kinds = FE_DIVBYZERO | FE_OVERFLOW | FE_UNDERFLOW | FE_INVALID;
    double ours[BLOCK] = {0}, numpys[BLOCK] = {0};
    char *args[NIN + 1] = {(char *)x[0], (char *)x[1], NULL};
    args[l->nin] = (char *)ours;
    feclearexcept(kinds);
    run_block(l, args, steps, (int)n);
    int raised = fetestexcept(kinds);
    args[l->nin] = (char *)numpys;
    feclearexcept(kinds);
    l->numpys(args, &n, steps, l->data);
    return memcmp(ours, numpys, sizeof ours) == 0 && raised == fetestexcept(kinds);
}

/* The numbers that tell most come first, one after another for each input. */
static void draw(const exact_loop *l, double (*x)[BLOCK], int b, uint64_t *state)
{
    for (int k = 0; k < l->nin; k++) {
        l->draw[k](x[k], state);
    }
    for (int i = 0; i < BLOCK * l->nin && b * BLOCK * l->nin + i < l->ntelling; i++) {
        x[i % l->nin][i / l->nin] = l->telling[b * BLOCK * l->nin + i];
    }
}

/* With one number for all, for which some versions of NumPy have other loops. */
static bool agrees_on_still(const exact_loop *l)
{
    static const double powers[] = {-3, -2, -1.5, -0.5, 0.25, 1.5, 2.5, 3, 4, 10};
    const npy_intp one = sizeof(double);
    const npy_intp first[] = {0, one, one}, second[] = {one, 0, one};
    double x[NIN][BLOCK];
    uint64_t state = 2;
    bool same = true;
    for (size_t i = 0; same && i < sizeof powers / sizeof *powers; i++) {
        l->draw[0](x[0], &state), l->draw[1](x[1], &state);
        x[1][0] = powers[i];
        same = agrees(l, x, BLOCK, second);
        x[0][0] = fabs(powers[i]);
        same = same && agrees(l, x, BLOCK, first);
    }
    return same;
}

static int prove(const void *what)
{
    const exact_loop *l = what;
    const npy_intp one = sizeof(double), two = 2 * one;
    const npy_intp each[] = {one, one, one}, second[] = {two, two, two};
    double x[NIN][BLOCK] = {{0}};
    uint64_t state = 1;
    bool same = npa_lanes_ready(l->which, l->numpys);
    for (int b = 0; same && b < BLOCKS_TRIED; b++) {
        draw(l, x, b, &state);
        same = agrees(l, x, BLOCK, each) && agrees(l, x, 1 + b % 8, each) &&
               (b % 8 != 0 || agrees(l, x, BLOCK / 2, second));
    }
    same = same && (l->nin == 1 || agrees_on_still(l));
    return same ? NPA_PROVED : NPA_OTHER;
}

/* Whether it has NumPy's bits here; asked where n elements are to be computed. */
static inline bool is_same(exact_loop *l, npy_intp n)
{
    int found = atomic_load_explicit(&l->state, memory_order_acquire);
    if (found == NPA_UNTRIED &&
        atomic_fetch_add_explicit(&l->seen, n, memory_order_relaxed) >= SEEN) {
        found = npa_proved(&l->state, prove, l);
    }
    return found == NPA_PROVED;
}

/* Powers by one number for all that NumPy has as a square, a root, a quotient. */
static bool is_simple(const exact_loop *l, char *const *args, const npy_intp *steps)
{
    double by = 0;
    if (l->which != NPA_POWERS || steps[1] != 0) {
        return false;
    }
    memcpy(&by, args[1], sizeof by);
    return by == -1 || by == 0 || by == 0.5 || by == 1 || by == 2;
}

static void run(char **args, const npy_intp *count, const npy_intp *steps, void *data)
{
    exact_loop *l = data;
    npy_intp n = *count;
    if (n < LEAST || is_simple(l, args, steps) || !npa_lanes_round() || !is_same(l, n)) {
        l->numpys(args, count, steps, l->data);
        return;
    }
    char *at[NIN + 1] = {NULL};
    memcpy(at, args, sizeof *at * (size_t)(l->nin + 1));
    for (npy_intp i = 0; i < n; i += BLOCK) {
        run_block(l, at, steps, n - i < BLOCK ? (int)(n - i) : BLOCK);
        for (int k = 0; k <= l->nin; k++) {
            at[k] += BLOCK * steps[k];
        }
    }
}

void npa_take_exact_loop(PyUFuncObject *u, const int *types, PyUFuncGenericFunction *loop,
                         void **data)
{
    for (int i = 0; i < LOOPS; i++) {
        exact_loop *l = &loops[i];
        bool doubles = strcmp(l->name, u->name) == 0 && u->nin == l->nin && u->nout == 1;
        for (int k = 0; doubles && k <= l->nin; k++) {
            doubles = npa_canonical(types[k]) == NPY_DOUBLE;
        }
        if (!doubles || !npa_is_numpys_ufunc(u)) {
            continue;
        }
        if (l->numpys == NULL) {
            l->numpys = *loop, l->data = *data;
            set_level(l, NULL);
        }
        if (l->lanes != NULL && l->numpys == *loop && l->data == *data) {
            *loop = run, *data = l;
        }
    }
}

bool npa_is_exact_loop(PyUFuncGenericFunction loop, void *data, npy_intp n)
{
    enum { CALL = 16 }; /* what NumPy has to do takes as long as so many elements */
    return loop == run && ((exact_loop *)data)->which != NPA_POWERS && is_same(data, n + CALL);
}

PyObject *npa_exact_loops_py(PyObject *self, PyObject *args)
{
    const char *level = NULL;
    PyObject *module = NULL, *found = NULL;
    (void)self;
    if (!PyArg_ParseTuple(args, "|s", &level) ||
        (module = PyImport_ImportModule("numpy")) == NULL || (found = PyDict_New()) == NULL) {
        Py_XDECREF(module);
        return NULL;
    }
    for (int i = 0; i < LOOPS; i++) {
        exact_loop *l = &loops[i];
        PyObject *u = PyObject_GetAttrString(module, l->name);
        PyUFuncGenericFunction loop;
        void *data;
        if (u != NULL && Py_IS_TYPE(u, &PyUFunc_Type)) { /* it is taken note of */
            npa_find_loop((PyUFuncObject *)u, (int[]){NPY_DOUBLE, NPY_DOUBLE, NPY_DOUBLE}, &loop,
                          &data);
        }
        Py_XDECREF(u);
        if (level != NULL) {
            set_level(l, level);
        }
        npa_proved(&l->state, prove, l);
        PyObject *same = l->lanes == NULL ? Py_None : atomic_load(&l->state) == NPA_PROVED ? Py_True
                                                                                       : Py_False;
        if (u == NULL || PyDict_SetItemString(found, l->name, same) < 0) {
            Py_CLEAR(found);
            break;
        }
    }
    Py_DECREF(module);
    return found;
}

/* Note [Exact loops]
 *
 * NumPy's loops for these functions of doubles call the C library for each number, at 5 to 25 ns,
 * but where a processor has AVX-512, for which it has some of its own; those here compute as that
 * library does, four or eight numbers at a time. There is no promise that the library of a process
 * does so. So NumPy's loop is compared with ours, bit by bit, on some eight thousand arguments.
 * Among them are such that tell of products that are rounded before a sum: each one of which that
 * changes more than one result in some 10**8. A library, or a NumPy, that has other bits keeps its
 * own loop, which `npaccel devices` says. A proof takes some tenths of a millisecond and is made
 * once, when NumPy's loop has computed as many elements. Bits do not hang on when.
 *
 * Of `tanh` NumPy has a loop of its own with AVX2, which gathers coefficients one by one; ours
 * takes them row by row.
 *
 * The bits of a power do hang on more than two numbers: if one exponent is for all elements of a
 * call, NumPy has a square, a root, a quotient in its place. So which axis a call goes along stays
 * NumPy's choice, and these exponents its loop's. */
