/* step.c: a step of a program gets addresses and scalars; its code is called, with scratch
 * memory. */
#include "run/step.h"

#include "loops/loops.h"

#include <stdlib.h>
#include <string.h>

/* Of a task whose arrays pass through memory: words, arrays, bytes at most. */
enum { MOST_WORDS = 512, MOST_ARRAYS = 64, MOST_ROOM = 1 << 20 };
/* A second-level cache of 512 KiB, eight lines a set, of which these may stay; measured in
 * docs/benchmarks.md, "Arrays that lie across the others". */
enum { SETS = 1024, WAYS = 4, WRITTEN_LINES = 256 };

/* Scratch for a task that can't have its own: once a kernel has begun, it is carried to its end.
 * One at a time uses it. */
static struct {
    pthread_mutex_t lock;
    char *data;
    size_t size;
} spare = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool npa_step_reserve(size_t bytes)
{
    pthread_mutex_lock(&spare.lock);
    char *larger = spare.size < bytes ? npa_aligned(64, bytes) : NULL;
    if (larger != NULL) {
        npa_aligned_free(spare.data);
        spare.data = larger, spare.size = bytes;
    }
    bool enough = spare.size >= bytes;
    pthread_mutex_unlock(&spare.lock);
    return enough;
}

/* ------------------------------------------------------------------ arrays that lie across rows */

/* Rows, all axes but the last as one, and of each of them these elements. */
typedef struct { int64_t row, end, low, high; } part;

/* What of its space a task computes. False: it is none such. */
static bool find_part(const step *s, const int64_t *words, const int64_t *range, part *p)
{
    int last = s->rank - 1;
    int64_t rows = s->band > 0 ? 1 : 0, each;
    for (int axis = 0; axis < last; axis++) {
        rows *= words[axis];
    }
    each = s->band > 0 ? rows / s->band : 0; /* of a point of the band */
    *p = (part){range[0] * each, range[1] * each, 0, words[last]};
    if (s->inner > 1 && each == 1) {
        p->low = range[2], p->high = range[3];
    } else if (s->inner > 1 && range[1] - range[0] == 1) {
        p->row = range[0] * each + range[2], p->end = range[0] * each + range[3];
    } else if (s->inner > 1 && range[3] - range[2] < each) {
        return false;
    }
    return p->end - p->row > 1;
}

/* Whether the lines that a row of array number k goes to are too many to stay in the second-level
 * cache until the next row uses them: in half of the eight that each of SETS sets has, and those a
 * power of two apart fall in few sets. What is written should stay in the first: so many lines are
 * half of it. */
static bool crosses(const step *s, const int64_t *words, const part *p, int k)
{
    const int64_t *strides = words + s->patches[k].word + 1;
    int64_t step = strides[s->rank - 1], sets = SETS, n = p->high - p->low;
    if (!(s->uses[k] & NPA_USE_ACROSS) || !npa_lies_across(strides[s->rank - 2], step)) {
        return false;
    }
    for (int64_t even = llabs(step); even % (2 * NPA_LINE) == 0 && sets > 1; even /= 2) {
        sets /= 2;
    }
    return n >= sets * WAYS || (s->uses[k] & NPA_USE_WRITTEN && n >= WRITTEN_LINES);
}

/* Bytes from row to row in the task's memory: an odd number of lines, as rows would share sets. */
static int64_t row_bytes(const part *p, int size)
{
    return (((p->high - p->low) * size / NPA_LINE + 1) | 1) * NPA_LINE;
}

/* Between the array, as far as rows follow each other along one axis, and rows in the task's
 * memory. */
static void carry(const step *s, const int64_t *words, const part *part, int k, char *rows,
                  bool out)
{
    int64_t word = s->patches[k].word, n = part->high - part->low;
    int last = s->rank - 1, beside = last - 1, size = s->uses[k] >> NPA_USE_BYTES;
    const int64_t *strides = words + word + 1;
    int64_t row = row_bytes(part, size), step = strides[last], row_step = strides[beside];
    for (int64_t r = part->row, some; r < part->end; r += some, rows += some * row) {
        int64_t at = r % words[beside], rest = r / words[beside], left = words[beside] - at;
        char *p = (char *)(intptr_t)words[word] + at * row_step + part->low * step;
        for (int axis = beside - 1; axis >= 0; axis--) {
            p += rest % words[axis] * strides[axis];
            rest /= words[axis];
        }
        some = left < part->end - r ? left : part->end - r;
        if (out) {
            npa_turn(p, row_step, step, rows, row, size, some, n, size);
        } else {
            npa_turn(rows, row, size, p, row_step, step, some, n, size);
        }
    }
}

/* The kernel's words, with these arrays where they lie in rows. */
static void point_to_rows(const step *s, int64_t *words, const part *p, int k, char *rows)
{
    int size = s->uses[k] >> NPA_USE_BYTES, last = s->rank - 1;
    int64_t *array = words + s->patches[k].word, row = row_bytes(p, size);
    array[0] = (int64_t)(intptr_t)rows - p->row * row - p->low * size;
    array[1 + last] = size;
    for (int axis = last - 1; axis >= 0; row *= words[axis--]) {
        array[1 + axis] = row;
    }
}

/* The arrays of which a bit is set come and go by way of rows. */
static void call_by_rows(const step *s, const int64_t *words, const int64_t *range, const part *p,
                         uint64_t across, char *scratch, char *rows, uint32_t *flags)
{
    int64_t own[MOST_WORDS];
    char *at[MOST_ARRAYS];
    memcpy(own, words, 8 * (size_t)s->nwords);
    for (int k = 0; k < s->nuses; k++) {
        if (across >> k & 1) {
            at[k] = rows;
            if (s->uses[k] & NPA_USE_LOADED) {
                carry(s, words, p, k, rows, false);
            }
            point_to_rows(s, own, p, k, rows);
            rows += (p->end - p->row) * row_bytes(p, s->uses[k] >> NPA_USE_BYTES);
        }
    }
    s->main(own, range, scratch, flags);
    for (int k = 0; k < s->nuses; k++) {
        if (across >> k & 1 && s->uses[k] & NPA_USE_WRITTEN) {
            carry(s, words, p, k, at[k], true);
        }
    }
}

/* Bits of the arrays that are to pass through the task's memory, and how much of it they need. */
static uint64_t find_across(const step *s, const int64_t *words, const part *p, size_t *room)
{
    uint64_t across = 0;
    for (int k = 0; k < s->nuses; k++) {
        if (crosses(s, words, p, k)) {
            across |= (uint64_t)1 << k;
            *room += (size_t)((p->end - p->row) * row_bytes(p, s->uses[k] >> NPA_USE_BYTES));
        }
    }
    return *room <= MOST_ROOM ? across : 0;
}

void npa_step_call(const step *s, const int64_t *words, const int64_t *range, int worker,
                   uint32_t *flags)
{
    size_t room = 0, own = (s->scratch_bytes + 64) / 64 * 64;
    part p;
    bool may = s->crossed && s->nwraps == 0 && s->nuses <= MOST_ARRAYS && s->nwords <= MOST_WORDS;
    uint64_t across =
        may && find_part(s, words, range, &p) ? find_across(s, words, &p, &room) : 0;
    char *scratch = npa_pool_scratch(worker, own + (across != 0 ? room : 0));
    if (scratch != NULL && across != 0) {
        call_by_rows(s, words, range, &p, across, scratch, scratch + own, flags);
    } else if (scratch != NULL) {
        s->main(words, range, scratch, flags);
    } else {
        pthread_mutex_lock(&spare.lock);
        s->main(words, range, spare.data, flags);
        pthread_mutex_unlock(&spare.lock);
    }
}

void npa_step_finish(const step *s, const int64_t *words, uint32_t *flags)
{
    int64_t range[4] = {0, s->band, s->parts, 0};
    pthread_mutex_lock(&spare.lock);
    s->finish(words, range, spare.data, flags);
    pthread_mutex_unlock(&spare.lock);
}

char *npa_step_address(npa_buffer *b)
{
    npa_memory_notes = true;
    char *base = npa_buffer_address(b);
    npa_memory_notes = false;
    return base;
}

int npa_step_bind(const step *s, npa_queue *q, int64_t *words, char *partials, bool there)
{
    memcpy(words, s->words, 8 * (size_t)s->nwords);
    for (int i = 0; i < s->npatches; i++) {
        const patch *p = &s->patches[i];
        if (p->kind == PATCH_ADDRESS) {
            char *base = there ? NULL : npa_step_address(q->buffers[p->a]);
            if (base == NULL && !there) {
                return -1;
            }
            words[p->word] = (int64_t)(intptr_t)base + npa_patch_offset(p, q);
        } else if (p->kind == PATCH_SCALAR) {
            npa_request *r = (npa_request *)(q->arena + q->at[p->a]);
            memcpy(words + p->word, npa_operand_at(r, (int)p->b)->at, 16);
        } else {
            words[p->word] = (int64_t)(intptr_t)partials;
        }
    }
    return 0;
}
