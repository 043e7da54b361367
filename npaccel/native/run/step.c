/* step.c: a step of a program gets addresses and scalars; its code is called, with scratch
 * memory. */
#include "run/step.h"

#include <stdlib.h>
#include <string.h>

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

void npa_step_call(const step *s, const int64_t *words, const int64_t *range, int worker,
                   uint32_t *flags)
{
    char *scratch = npa_pool_scratch(worker, s->scratch_bytes + 64);
    if (scratch != NULL) {
        s->main(words, range, scratch, flags);
        return;
    }
    pthread_mutex_lock(&spare.lock);
    s->main(words, range, spare.data, flags);
    pthread_mutex_unlock(&spare.lock);
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
