/* step.c: a step of a program gets addresses and scalars; its code is called, with scratch
 * memory. */
#include "run/step.h"

#include "loops/loops.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WORDS = 512, SETS = 1024, WAYS = 4, WRITTEN_LINES = 256 };

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

/* ------------------------------------------------------------------- arrays that lie across rows */

/* Whether the lines that a row of array number k goes to are too many to stay in the second-level
 * cache until the next row uses them: in half of the eight that each of SETS sets has, and those a
 * power of two apart fall in few sets. What is written should stay in the first: so many lines are
 * half of it. */
static bool crosses(const step *s, const int64_t *words, const int64_t *range, int k)
{
    const int64_t *strides = words + s->patches[k].word + 1;
    int64_t step = strides[s->rank - 1], sets = SETS, n = range[3] - range[2];
    if (!(s->uses[k] & NPA_USE_ACROSS) || range[1] - range[0] < 2 ||
        !npa_lies_across(strides[s->rank - 2], step)) {
        return false;
    }
    for (int64_t even = llabs(step); even % (2 * NPA_LINE) == 0 && sets > 1; even /= 2) {
        sets /= 2;
    }
    return n >= sets * WAYS || (s->uses[k] & NPA_USE_WRITTEN && n >= WRITTEN_LINES);
}

/* Bytes from row to row in the task's memory: an odd number of lines, as rows would share sets. */
static int64_t row_bytes(const int64_t *range, int size)
{
    return (((range[3] - range[2]) * size / NPA_LINE + 1) | 1) * NPA_LINE;
}

/* Between the array, part by part along the band's last axis, and rows in the task's memory. */
static void carry(const step *s, const int64_t *words, const int64_t *range, int k, char *rows,
                  bool out)
{
    int64_t word = s->patches[k].word, n = range[3] - range[2];
    int last = s->rank - 1, beside = last - 1, size = s->uses[k] >> NPA_USE_BYTES;
    const int64_t *strides = words + word + 1;
    int64_t row = row_bytes(range, size), step = strides[last], row_step = strides[beside];
    for (int64_t b = range[0], some; b < range[1]; b += some, rows += some * row) {
        int64_t at = b % words[beside], rest = b / words[beside], left = words[beside] - at;
        char *p = (char *)(intptr_t)words[word] + at * row_step + range[2] * step;
        for (int axis = beside - 1; axis >= 0; axis--) {
            p += rest % words[axis] * strides[axis];
            rest /= words[axis];
        }
        some = left < range[1] - b ? left : range[1] - b;
        if (out) {
            npa_turn(p, row_step, step, rows, row, size, some, n, size);
        } else {
            npa_turn(rows, row, size, p, row_step, step, some, n, size);
        }
    }
}

/* The kernel's words, with these arrays where they lie in rows. */
static void point_to_rows(const step *s, int64_t *words, const int64_t *range, int k, char *rows)
{
    int size = s->uses[k] >> NPA_USE_BYTES, last = s->rank - 1;
    int64_t *array = words + s->patches[k].word, row = row_bytes(range, size);
    array[0] = (int64_t)(intptr_t)rows - range[0] * row - range[2] * size;
    array[1 + last] = size;
    for (int axis = last - 1; axis >= 0; row *= words[axis--]) {
        array[1 + axis] = row;
    }
}

/* All that lie across (a bit each) by way of rows. */
static void call_by_rows(const step *s, const int64_t *words, const int64_t *range, char *scratch,
                         char *rows, uint64_t across, uint32_t *flags)
{
    int64_t own[MOST_WORDS], rows_of = range[1] - range[0];
    char *at = rows;
    memcpy(own, words, 8 * (size_t)s->nwords);
    for (int k = 0; k < s->narrays; k++) {
        if (across >> k & 1) {
            if (s->uses[k] & NPA_USE_LOADED) {
                carry(s, words, range, k, at, false);
            }
            point_to_rows(s, own, range, k, at);
            at += rows_of * row_bytes(range, s->uses[k] >> NPA_USE_BYTES);
        }
    }
    s->main(own, range, scratch, flags);
    at = rows;
    for (int k = 0; k < s->narrays; k++) {
        if (across >> k & 1) {
            if (s->uses[k] & NPA_USE_WRITTEN) {
                carry(s, words, range, k, at, true);
            }
            at += rows_of * row_bytes(range, s->uses[k] >> NPA_USE_BYTES);
        }
    }
}

void npa_step_call(const step *s, const int64_t *words, const int64_t *range, int worker,
                   uint32_t *flags)
{
    uint64_t across = 0;
    size_t room = 0, own = (s->scratch_bytes + 64) / 64 * 64;
    for (int k = 0; k < s->nuses && k < 64 && s->nwords <= MOST_WORDS && s->nwraps == 0; k++) {
        if (crosses(s, words, range, k)) {
            across |= (uint64_t)1 << k;
            room += (size_t)((range[1] - range[0]) *
                             row_bytes(range, s->uses[k] >> NPA_USE_BYTES));
        }
    }
    char *scratch = npa_pool_scratch(worker, own + room);
    if (scratch != NULL && across != 0) {
        call_by_rows(s, words, range, scratch, scratch + own, across, flags);
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

int npa_step_bind(const step *s, npa_queue *q, int64_t *words, char *partials, bool there)
{
    memcpy(words, s->words, 8 * (size_t)s->nwords);
    for (int i = 0; i < s->npatches; i++) {
        const patch *p = &s->patches[i];
        if (p->kind == PATCH_ADDRESS) {
            npa_memory_notes = true;
            char *base = there ? NULL : npa_buffer_address(q->buffers[p->a]);
            npa_memory_notes = false;
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
