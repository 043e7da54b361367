/* moves.c: elements from one place to another, by their size. */
#include "loops/loops.h"

#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

int npa_item_sizes[NPY_NTYPES_LEGACY];

int npa_evaluate_init(void)
{
    for (int type = 0; type < NPY_NTYPES_LEGACY; type++) {
        PyArray_Descr *d = npa_type_known(type) ? PyArray_DescrFromType(type) : NULL;
        npa_item_sizes[type] = d != NULL ? (int)PyDataType_ELSIZE(d) : 0;
        Py_XDECREF(d);
    }
    return PyErr_Occurred() ? -1 : 0;
}

/* n times the same element. */
static void spread(char *to, const char *from, int64_t n, int size)
{
#define SPREAD(T)                                                           \
    do {                                                                    \
        T x;                                                                \
        memcpy(&x, from, sizeof x);                                         \
        for (int64_t i = 0; i < n; i++) {                                   \
            memcpy(to + i * (int64_t)sizeof x, &x, sizeof x);               \
        }                                                                   \
    } while (0)
    switch (size) {
    case 1: memset(to, *from, (size_t)n); break;
    case 2: SPREAD(uint16_t); break;
    case 4: SPREAD(uint32_t); break;
    case 8: SPREAD(uint64_t); break;
    default: SPREAD(npy_cdouble);
    }
}

/* Four a round: a round of one may lie in two lines of the processor's cache of operations. */
#define MOVE(T)                                                             \
    _Pragma("GCC unroll 4") for (int64_t i = 0; i < n; i++) {               \
        memcpy(to + i * to_step, from + i * step, sizeof(T));               \
    }                                                                       \
    break

/* n elements from steps to steps. */
void npa_move(char *to, int64_t to_step, const char *from, int64_t step, int64_t n, int size)
{
    switch (size) {
    case 1: MOVE(uint8_t);
    case 2: MOVE(uint16_t);
    case 4: MOVE(uint32_t);
    case 8: MOVE(uint64_t);
    default: MOVE(npy_cdouble);
    }
}

/* Every other element, or the same ones from the last to the first, which vectors pick: in 0.7 of
 * the time that npa_move takes. */
#define PICK_OF(NAME, T, STEP)                                                             \
    NPA_EACH_PROCESSOR static void NAME##_##T(char *to, const char *from, int64_t n)       \
    {                                                                                      \
        enum { SIZE = sizeof(T) };                                                         \
        for (int64_t i = 0; i < n; i++) {                                                  \
            memcpy(to + i * SIZE, from + i * (STEP) * SIZE, SIZE);                         \
        }                                                                                  \
    }
PICK_OF(others, uint32_t, 2)
PICK_OF(others, uint64_t, 2)
PICK_OF(back, uint8_t, -1)
PICK_OF(back, uint16_t, -1)
PICK_OF(back, uint32_t, -1)
PICK_OF(back, uint64_t, -1)

static void turn_round(char *to, const char *from, int64_t n, int size)
{
    switch (size) {
    case 1: back_uint8_t(to, from, n); break;
    case 2: back_uint16_t(to, from, n); break;
    case 4: back_uint32_t(to, from, n); break;
    case 8: back_uint64_t(to, from, n); break;
    default: npa_move(to, size, from, -size, n, size);
    }
}

void npa_pack(char *to, const char *from, int64_t stride, int64_t n, int size)
{
    if (stride == size) {
        npa_copy_bytes(to, from, (size_t)(n * size));
    } else if (stride == 0) {
        spread(to, from, n, size);
    } else if (stride == -size) {
        turn_round(to, from, n, size);
    } else if (stride == 2 * size && size == 8) {
        others_uint64_t(to, from, n);
    } else if (stride == 2 * size && size == 4) {
        others_uint32_t(to, from, n);
    } else {
        npa_move(to, size, from, stride, n, size);
    }
}

#define REPEAT_OF(T)                                                                       \
    NPA_EACH_PROCESSOR static void repeat_##T(char *to, const char *from, int64_t rows,    \
                                              int64_t row_step, int64_t n)                 \
    {                                                                                      \
        for (; rows > 0; rows--, from += row_step, to += n * (int64_t)sizeof(T)) {         \
            T x;                                                                           \
            memcpy(&x, from, sizeof x);                                                    \
            for (int64_t i = 0; i < n; i++) {                                              \
                memcpy(to + i * (int64_t)sizeof x, &x, sizeof x);                          \
            }                                                                              \
        }                                                                                  \
    }
REPEAT_OF(uint32_t)
REPEAT_OF(uint64_t)

/* As many rows as share lines of the processor's cache, line after line: each is fetched, or
 * filled, once, and asked for some lines ahead, of the next such rows at last. (Tiles that go along
 * the rows instead evict lines that lie a power of two apart.) */
enum { LINES_AHEAD = 16 };
static inline const char *line_ahead(const char *lines, int64_t step, int64_t further, int64_t i,
                                     int64_t n)
{
    int64_t ahead = i + LINES_AHEAD;
    return ahead < n ? lines + ahead * step : lines + further + (ahead - n) % n * step;
}

/* The same for four columns of four rows at a time, where a column's elements lie behind one
 * another, as do a row's there: 0.77 of the time for doubles, a third for singles. Returns how many
 * of the columns are done. */
#define COLUMN(k) (from + (i + (k)) * step + r * SIZE)
#define ROW(k) (to + (r + (k)) * to_row + i * SIZE)
#define ZIP(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#define BY_FOURS_OF(T)                                                                     \
    NPA_EACH_PROCESSOR static int64_t by_fours_##T(char *to, int64_t to_row,               \
                                                   const char *from, int64_t step,         \
                                                   int64_t rows, int64_t n)                \
    {                                                                                      \
        enum { SIZE = sizeof(T), FOUR = 4 * SIZE };                                        \
        typedef T four __attribute__((vector_size(FOUR)));                                 \
        int64_t i = 0;                                                                     \
        for (; i + 4 <= n; i += 4) {                                                       \
            for (int64_t k = i; k < i + 4; k++) {                                          \
                __builtin_prefetch(line_ahead(from, step, rows * SIZE, k, n), 0, 2);       \
            }                                                                              \
            for (int64_t r = 0; r < rows; r += 4) {                                        \
                four a, b, c, d;                                                           \
                memcpy(&a, COLUMN(0), FOUR), memcpy(&b, COLUMN(1), FOUR);                  \
                memcpy(&c, COLUMN(2), FOUR), memcpy(&d, COLUMN(3), FOUR);                  \
                four ab = ZIP(a, b, 0, 4, 2, 6), ba = ZIP(a, b, 1, 5, 3, 7);               \
                four cd = ZIP(c, d, 0, 4, 2, 6), dc = ZIP(c, d, 1, 5, 3, 7);               \
                a = ZIP(ab, cd, 0, 1, 4, 5), b = ZIP(ba, dc, 0, 1, 4, 5);                  \
                c = ZIP(ab, cd, 2, 3, 6, 7), d = ZIP(ba, dc, 2, 3, 6, 7);                  \
                memcpy(ROW(0), &a, FOUR), memcpy(ROW(1), &b, FOUR);                        \
                memcpy(ROW(2), &c, FOUR), memcpy(ROW(3), &d, FOUR);                        \
            }                                                                              \
        }                                                                                  \
        return i;                                                                          \
    }
BY_FOURS_OF(uint32_t)
BY_FOURS_OF(uint64_t)

#define TURN_OF(T, BY_FOURS)                                                               \
    static void turn_##T(char *to, int64_t to_row, int64_t to_step, const char *from,      \
                         int64_t from_row, int64_t from_step, int64_t rows, int64_t n)     \
    {                                                                                      \
        bool reads = npa_lies_across(from_row, from_step);                                 \
        const char *lines = reads ? from : to;                                             \
        int64_t step = reads ? from_step : to_step;                                        \
        int64_t further = rows * (reads ? from_row : to_row), i = 0;                       \
        if (reads && from_row == sizeof(T) && to_step == sizeof(T) && rows % 4 == 0) {     \
            i = BY_FOURS(to, to_row, from, from_step, rows, n);                            \
        }                                                                                  \
        for (; i < n; i++) {                                                               \
            __builtin_prefetch(line_ahead(lines, step, further, i, n), 0, 2);              \
            for (int64_t k = 0; k < rows; k++) {                                           \
                memcpy(to + k * to_row + i * to_step, from + k * from_row + i * from_step, \
                       sizeof(T));                                                         \
            }                                                                              \
        }                                                                                  \
    }
#define NONE(...) 0
TURN_OF(uint8_t, NONE)
TURN_OF(uint16_t, NONE)
TURN_OF(uint32_t, by_fours_uint32_t)
TURN_OF(uint64_t, by_fours_uint64_t)
TURN_OF(npy_cdouble, NONE)

void npa_turn(char *to, int64_t to_row, int64_t to_step, const char *from, int64_t from_row,
              int64_t from_step, int64_t rows, int64_t n, int size)
{
    int64_t some = NPA_LINE / size;
    for (; rows > 0; rows -= some, to += some * to_row, from += some * from_row) {
        int64_t m = rows < some ? rows : some;
        switch (size) {
        case 1: turn_uint8_t(to, to_row, to_step, from, from_row, from_step, m, n); break;
        case 2: turn_uint16_t(to, to_row, to_step, from, from_row, from_step, m, n); break;
        case 4: turn_uint32_t(to, to_row, to_step, from, from_row, from_step, m, n); break;
        case 8: turn_uint64_t(to, to_row, to_step, from, from_row, from_step, m, n); break;
        default: turn_npy_cdouble(to, to_row, to_step, from, from_row, from_step, m, n);
        }
    }
}

void npa_pack_rows(char *to, const char *from, int64_t rows, int64_t row_step, int64_t n,
                   int64_t step, int size)
{
    if (step == 0 && size == 8) {
        repeat_uint64_t(to, from, rows, row_step, n);
    } else if (step == 0 && size == 4) {
        repeat_uint32_t(to, from, rows, row_step, n);
    } else if (rows > 1 && npa_lies_across(row_step, step)) {
        npa_turn(to, n * size, size, from, row_step, step, rows, n, size);
    } else {
        for (; rows > 0; rows--, from += row_step, to += n * size) {
            npa_pack(to, from, step, n, size);
        }
    }
}

void npa_unpack_rows(char *to, int64_t rows, int64_t row_step, int64_t step, const char *from,
                     int64_t n, int size)
{
    if (rows > 1 && npa_lies_across(row_step, step)) {
        npa_turn(to, row_step, step, from, n * size, size, rows, n, size);
        return;
    }
    for (; rows > 0; rows--, to += row_step, from += n * size) {
        npa_unpack(to, step, from, n, size);
    }
}

void npa_unpack(char *to, int64_t to_stride, const char *from, int64_t n, int size)
{
    if (to_stride == size) {
        npa_copy_bytes(to, from, (size_t)(n * size));
    } else if (to_stride == -size && n > 0) {
        turn_round(to - (n - 1) * size, from + (n - 1) * size, n, size);
    } else {
        npa_move(to, to_stride, from, size, n, size);
    }
}

/* to[i] = which[i] ? a[i] : b[i]. Both are read, so that nothing branches on data. */
/* What is selected may lie where it comes from, element by element. */
#define SELECT(T, WHICH, A, B, TO)                                                                 \
    _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {                                         \
        T x, y;                                                                                    \
        memcpy(&x, a + i * (A), sizeof x);                                                         \
        memcpy(&y, b + i * (B), sizeof y);                                                         \
        x = which[i * (WHICH)] ? x : y;                                                            \
        memcpy(to + i * (TO), &x, sizeof x);                                                       \
    }
#define SELECT_OF(T)                                                                       \
    NPA_EACH_PROCESSOR static void select_##T(const char *which, const char *a,            \
                                              const char *b, char *to, int64_t n,          \
                                              const npy_intp *s)                           \
    {                                                                                      \
        enum { SIZE = sizeof(T) };                                                         \
        bool lies = s[0] == 1 && s[3] == SIZE;                                             \
        if (lies && s[1] == SIZE && s[2] == SIZE) {                                        \
            SELECT(T, 1, SIZE, SIZE, SIZE)                                                 \
        } else if (lies && s[1] == SIZE && s[2] == 0) {                                    \
            SELECT(T, 1, SIZE, 0, SIZE)                                                    \
        } else if (lies && s[1] == 0 && s[2] == SIZE) {                                    \
            SELECT(T, 1, 0, SIZE, SIZE)                                                    \
        } else if (lies && s[1] == 0 && s[2] == 0) {                                       \
            SELECT(T, 1, 0, 0, SIZE)                                                       \
        } else {                                                                           \
            SELECT(T, s[0], s[1], s[2], s[3])                                              \
        }                                                                                  \
    }
SELECT_OF(uint8_t)
SELECT_OF(uint16_t)
SELECT_OF(uint32_t)
SELECT_OF(uint64_t)

/* Of complex doubles, one behind the other, or one for all: in a third of the time. */
#define PAIRS(name, A, B)                                                                          \
    NPA_EACH_PROCESSOR static void pairs_##name(const char *which, const uint64_t *a,              \
                                                const uint64_t *b, uint64_t *to, int64_t n)        \
    {                                                                                              \
        _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++) {                                     \
            uint64_t in = which[i] ? ~(uint64_t)0 : 0;                                             \
            to[2 * i] = (a[(A)*i] & in) | (b[(B)*i] & ~in);                                        \
            to[2 * i + 1] = (a[(A)*i + 1] & in) | (b[(B)*i + 1] & ~in);                            \
        }                                                                                          \
    }
PAIRS(both, 2, 2)
PAIRS(first, 2, 0)
PAIRS(second, 0, 2)
PAIRS(neither, 0, 0)

static bool select_pairs(char **p, int64_t n, const npy_intp *s)
{
    enum { SIZE = 16 };
    bool aligned = (((uintptr_t)p[1] | (uintptr_t)p[2] | (uintptr_t)p[3]) & 7) == 0;
    bool lies = aligned && s[0] == 1 && s[3] == SIZE, a = s[1] == SIZE, b = s[2] == SIZE;
    if (!lies || !(a || s[1] == 0) || !(b || s[2] == 0)) {
        return false;
    }
    const uint64_t *x = (const uint64_t *)p[1], *y = (const uint64_t *)p[2];
    (a && b ? pairs_both
     : a    ? pairs_first
     : b    ? pairs_second
            : pairs_neither)(p[0], x, y, (uint64_t *)p[3], n);
    return true;
}

void npa_select_line(char **p, int64_t n, const npy_intp *s, int size)
{
    switch (size) {
    case 1: select_uint8_t(p[0], p[1], p[2], p[3], n, s); break;
    case 2: select_uint16_t(p[0], p[1], p[2], p[3], n, s); break;
    case 4: select_uint32_t(p[0], p[1], p[2], p[3], n, s); break;
    case 8: select_uint64_t(p[0], p[1], p[2], p[3], n, s); break;
    default:
        if (size == 16 && select_pairs(p, n, s)) {
            break;
        }
        for (int64_t i = 0; i < n; i++) {
            const char *from = p[0][i * s[0]] ? p[1] + i * s[1] : p[2] + i * s[2];
            memmove(p[3] + i * s[3], from, (size_t)size);
        }
    }
}

void npa_own_loop(const npa_rule *rule, char **p, int64_t n, const npy_intp *s)
{
    int size = npa_item_sizes[rule->loop_type[rule->nin]];
    if (rule->own == NPA_WHERE) {
        npa_select_line(p, n, s, size);
    } else if (s[1] == size) {
        npa_pack(p[1], p[0], s[0], n, size);
    } else {
        npa_move(p[1], s[1], p[0], s[0], n, size);
    }
}

#define FILL_OF(T)                                                                         \
    NPA_EACH_PROCESSOR static void fill_##T(const char *start, const char *step,           \
                                            int64_t first, char *to, int64_t stride,       \
                                            int64_t n)                                     \
    {                                                                                      \
        T from, by;                                                                        \
        memcpy(&from, start, sizeof from), memcpy(&by, step, sizeof by);                   \
        for (int64_t i = 0; i < n; i++) {                                                  \
            *(T *)(to + i * stride) = (T)(from + (T)(first + i) * by);                     \
        }                                                                                  \
    }
FILL_OF(uint8_t)
FILL_OF(uint16_t)
FILL_OF(uint32_t)
FILL_OF(uint64_t)
FILL_OF(float)
FILL_OF(double)

/* to[i] = start + (first + i) * step */
void npa_fill_range(int type, const char *start, const char *step, int64_t first, char *to,
                    int64_t to_stride, int64_t n)
{
    switch (type) {
    case NPY_INT: case NPY_UINT: fill_uint32_t(start, step, first, to, to_stride, n); break;
    case NPY_LONG: case NPY_ULONG: fill_uint64_t(start, step, first, to, to_stride, n); break;
    case NPY_SHORT: case NPY_USHORT: fill_uint16_t(start, step, first, to, to_stride, n); break;
    case NPY_BYTE: case NPY_UBYTE: fill_uint8_t(start, step, first, to, to_stride, n); break;
    case NPY_FLOAT: fill_float(start, step, first, to, to_stride, n); break;
    case NPY_DOUBLE: fill_double(start, step, first, to, to_stride, n); break;
    }
}

/* Where an index leads, in bytes. One out of bounds, which somebody may write while this runs,
 * counts as 0. */
static int64_t place_of(const char *index, int64_t extent, int64_t step)
{
    int64_t k;
    memcpy(&k, index, 8);
    k = k < 0 ? k + extent : k;
    return (uint64_t)k < (uint64_t)extent ? k * step : 0;
}

/* p: source, index (of 8 bytes), extent, step, out. out[i] = source[i + index[i] * step]. */
void npa_take_line(int size, char **p, const npy_intp *s, int64_t n)
{
    int64_t extent, step;
    memcpy(&extent, p[2], 8), memcpy(&step, p[3], 8);
    step *= size;
    if (s[1] == 0) { /* a whole row */
        const char *from = p[0] + place_of(p[1], extent, step);
        if (s[4] == size) {
            npa_pack(p[4], from, s[0], n, size);
        } else {
            npa_move(p[4], s[4], from, s[0], n, size);
        }
        return;
    }
    const char *source = p[0], *index = p[1];
    char *out = p[4];
    bool line = s[0] == 0 && s[1] == 8 && s[4] == size && step == size;
#define TAKE_EACH(T, SOURCE, INDEX, STEP, OUT)                                             \
    for (int64_t i = 0; i < n; i++) {                                                      \
        int64_t k = place_of(index + i * (INDEX), extent, STEP);                           \
        memcpy(out + i * (OUT), source + i * (SOURCE) + k, sizeof(T));                     \
    }
#define TAKE(T)                                                                            \
    if (line) {                                                                            \
        TAKE_EACH(T, 0, 8, (int64_t)sizeof(T), (int64_t)sizeof(T))                         \
    } else {                                                                               \
        TAKE_EACH(T, s[0], s[1], step, s[4])                                               \
    }                                                                                      \
    break
    switch (size) {
    case 1: TAKE(uint8_t);
    case 2: TAKE(uint16_t);
    case 4: TAKE(uint32_t);
    case 8: TAKE(uint64_t);
    default: TAKE(npy_cdouble);
    }
}

#define PICK(T)                                                                                    \
    for (int64_t i = 0; i < n; i++) {                                                              \
        memcpy(to + i * (int64_t)sizeof(T), from + places[i], sizeof(T));                          \
    }                                                                                              \
    break

void npa_pick_places_of(char *to, const char *from, const int64_t *places, int64_t n, int64_t size)
{
    switch (size) {
    case 1: PICK(uint8_t);
    case 2: PICK(uint16_t);
    case 4: PICK(uint32_t);
    case 8: PICK(uint64_t);
    case 16: PICK(npy_cdouble);
    default:
        for (int64_t i = 0; i < n; i++) {
            memcpy(to + i * size, from + places[i], (size_t)size);
        }
    }
}
