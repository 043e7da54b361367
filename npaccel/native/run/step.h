/* step.h: one step of a program. program.c makes them, program_run.c runs them, chain.c several of
 * them together. */
#ifndef NPACCEL_STEP_H
#define NPACCEL_STEP_H

#include "run/run.h"

typedef void kernel_function(const int64_t *words, const int64_t *range, char *scratch,
                             uint32_t *flags);

enum patch_kind { PATCH_ADDRESS, PATCH_SCALAR, PATCH_PARTIALS };
typedef struct {
    int32_t word, kind, a;    /* a: buffer, or request */
    int32_t request, operand; /* whose offset it is; request -1: that of `b` */
    int64_t b;                /* byte offset, or input position */
} patch;

/* Where an array begins in its buffer. */
static inline int64_t npa_patch_offset(const patch *p, const npa_queue *q)
{
    if (p->request < 0) {
        return p->b;
    }
    return npa_operand_at((npa_request *)(q->arena + q->at[p->request]), p->operand)->offset;
}

/* From index `cut` of the axis on an array lies `bytes` further. Note [Boxes] */
typedef struct { int64_t array, axis, cut, bytes; } wrap;

/* What a kernel does with an array: bits below the bytes of an element. LOADED: what it held
 * matters. ACROSS: it lies across rows. wire_format.py has the same. */
enum { NPA_USE_WRITTEN = 1, NPA_USE_LOADED = 2, NPA_USE_ACROSS = 4, NPA_USE_BYTES = 3 };

typedef struct {
    int32_t request; /* >= 0: that request by NumPy's loop; else a kernel */
    kernel_function *main, *finish;
    int64_t *words;
    patch *patches;
    bool crossed; /* an array lies across its rows */
    int nwords, npatches, nslots, nwrites, nreleases, nrequests;
    int32_t *slots, *writes, *releases;
    int64_t band, band_step, inner, inner_step, parts;
    int64_t band_low, inner_low; /* 0 but in a part */
    int64_t took; /* what one thread takes for all tasks, in nanoseconds; 0: unknown */
    size_t scratch_bytes, partial_bytes, bytes_read, bytes_written;
    npa_device *device; /* one of `devices`; NULL: the host's code */
    uint8_t missed;     /* why the host did it in the last run, or how the device did */
    int owner;          /* whose launches they are; 0: the host's own */
    npa_device_grid device_grid;
    npa_access *accesses; /* of the device's kernel, one per array */
    npa_tiling may_cut;
    npa_shares shares; /* where it is divided between that and the host */
    npa_choice division; /* whether that takes less time; the usual way is the device alone */
    int rank, narrays, band_rank, nwraps, nuses; /* band_rank: where there are wraps */
    wrap *wraps;
    int32_t *uses; /* per array NPA_USE_ and bytes of an element; none: indices say which */
    int64_t chain_took; /* as `took`, of the chain that begins here; -1: none does */
} step;

/* The host's code, of a part of its grid: range as kernels take it. There is scratch memory for
 * it. */
void npa_step_call(const step *s, const int64_t *words, const int64_t *range, int worker,
                   uint32_t *flags);
/* What is to be done once all parts of the grid are. */
void npa_step_finish(const step *s, const int64_t *words, uint32_t *flags);
/* There are so many bytes for tasks that can't have scratch memory of their own; false: no. */
bool npa_step_reserve(size_t bytes);
/* Where a buffer's bytes are, which get memory if they have none; NULL: there is none. */
char *npa_step_address(npa_buffer *b);
/* Addresses and scalars into `words`. there: with offsets for addresses. 0, or -1: no memory. */
int npa_step_bind(const step *s, npa_queue *q, int64_t *words, char *partials, bool there);

#endif
