/* staging.c: bytes between the host and a device, through memory that the driver has pinned.
 *
 * A device reads pinned memory by itself, several times as fast as a driver moves what is not: that
 * it copies to such memory first, with one thread. Here the pool's threads do that, chunk by chunk,
 * while the chunk before is on its way:
 *
 *     host --threads--> slot 0 --device--> there
 *          --threads--> slot 1 --device-->
 *
 * With the lock, as all that moves. */
#include "place/store.h"

#include <stdlib.h>
#include <string.h>

/* On an H100 with 16 threads: see docs/gpu.md. */
enum { CHUNK = 4 << 20, PIECE = 256 << 10, SLOTS = 4, THREADS = 4 };
/* Pinning takes as long as moving some ten chunks. */
enum { WORTH = 16 };
enum { ALLOC_HOST_PTR = 1 << 4, MAP_READ_WRITE = 3 };

typedef void *map_function(void *queue, void *memory, uint32_t wait, uint64_t flags, size_t offset,
                           size_t size, uint32_t nevents, void *const *events, void **event,
                           int32_t *error);
typedef int32_t wait_function(uint32_t n, void *const *events);

struct npa_staging {
    void *memory[SLOTS];
    void *events[SLOTS]; /* what a slot's content waits for; NULL: nothing */
    char *slots[SLOTS];
};

static struct npa_staging *make(npa_store *s)
{
    struct npa_staging *made = calloc(1, sizeof *made);
    int32_t error = made == NULL ? NO_HOST_MEMORY : 0;
    for (int k = 0; error == 0 && k < SLOTS; k++) {
        made->memory[k] = ((create_function *)s->functions[CREATE])(
            s->context, READ_WRITE | ALLOC_HOST_PTR, CHUNK, NULL, &error);
        if (error == 0) {
            made->slots[k] = ((map_function *)s->functions[MAP])(
                s->transfers, made->memory[k], 1, MAP_READ_WRITE, 0, CHUNK, 0, NULL, NULL, &error);
        }
    }
    for (int k = 0; made != NULL && error != 0 && k < SLOTS; k++) {
        if (made->memory[k] != NULL) {
            ((release_function *)s->functions[RELEASE])(made->memory[k]);
        }
    }
    if (error != 0) {
        free(made);
    }
    return error == 0 ? made : NULL;
}

bool npa_staging_serves(npa_store *s, size_t size)
{
    if (s->channel != NULL || size < CHUNK || npa_pool_size() < THREADS) {
        return false;
    }
    s->unstaged += s->staging == NULL ? size / CHUNK : 0;
    if (s->staging == NULL && s->unstaged >= WORTH) {
        s->staging = make(s);
        s->unstaged = s->staging == NULL ? INT64_MIN : 0; /* it is not asked again */
    }
    return s->staging != NULL;
}

typedef struct { char *to; const char *from; size_t size; } copy;

static void copy_piece(void *context, int64_t task, int worker)
{
    (void)worker;
    const copy *c = context;
    size_t at = (size_t)task * PIECE;
    memcpy(c->to + at, c->from + at, c->size - at < PIECE ? c->size - at : PIECE);
}

static void copy_bytes(char *to, const char *from, size_t size)
{
    copy c = {to, from, size};
    npa_pool_run(copy_piece, &c, (int64_t)((size + PIECE - 1) / PIECE), NULL);
}

/* Until what was asked of a slot is done. */
static int32_t settle(npa_store *s, int slot)
{
    void **event = &s->staging->events[slot];
    int32_t error = 0;
    if (*event != NULL) {
        error = ((wait_function *)s->functions[WAIT])(1, event);
        ((release_function *)s->functions[RELEASE_EVENT])(*event);
        *event = NULL;
    }
    return error;
}

static int32_t settle_all(npa_store *s, int32_t error)
{
    for (int slot = 0; slot < SLOTS; slot++) {
        int32_t its = settle(s, slot);
        error = error != 0 ? error : its;
    }
    return error;
}

static inline size_t length_at(size_t done, size_t size)
{
    return size - done < CHUNK ? size - done : CHUNK;
}

int32_t npa_staged_write(npa_store *s, void *memory, size_t at, size_t size, const char *from)
{
    int32_t error = 0;
    int slot = 0;
    for (size_t done = 0; error == 0 && done < size; done += CHUNK, slot = (slot + 1) % SLOTS) {
        char *host = s->staging->slots[slot];
        size_t length = length_at(done, size);
        if ((error = settle(s, slot)) == 0) {
            copy_bytes(host, from + done, length);
            error = ((write_function *)s->functions[WRITE])(s->transfers, memory, 0, at + done,
                                                            length, host, 0, NULL,
                                                            &s->staging->events[slot]);
            ((finish_function *)s->functions[FLUSH])(s->transfers);
        }
    }
    return settle_all(s, error);
}

int32_t npa_staged_read(npa_store *s, void *memory, size_t at, size_t size, char *to)
{
    int32_t error = 0;
    size_t asked = 0;
    for (size_t done = 0; error == 0 && done < size; done += CHUNK) {
        for (; error == 0 && asked < size && asked < done + SLOTS * CHUNK; asked += CHUNK) {
            int slot = (int)(asked / CHUNK % SLOTS);
            error = ((read_function *)s->functions[READ])(s->transfers, memory, 0, at + asked,
                                                          length_at(asked, size),
                                                          s->staging->slots[slot], 0, NULL,
                                                          &s->staging->events[slot]);
        }
        ((finish_function *)s->functions[FLUSH])(s->transfers);
        int slot = (int)(done / CHUNK % SLOTS);
        if (error == 0 && (error = settle(s, slot)) == 0) {
            copy_bytes(to + done, s->staging->slots[slot], length_at(done, size));
        }
    }
    return settle_all(s, error);
}
