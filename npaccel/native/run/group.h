/* group.h: requests over one index space, run together block by block. See Note [Groups] in
 * group.c.
 *
 * group.c       which requests make a group; where their operands lie
 * lower.c       the group as instructions on blocks
 * sink.c        reductions at its end
 * block_tier.c  runs it
 */
#ifndef NPACCEL_GROUP_H
#define NPACCEL_GROUP_H

#include "run/fold.h"
#include "loops/primitive.h"
#include "run/run.h"

enum { NPA_GROUP_REQUESTS = 512, NPA_GROUP_VIEWS = 256, NPA_GROUP_SINKS = 8 };

/* How a view moves along the elements of a block. */
enum npa_view_mode {
    NPA_STILL,  /* one element for all */
    NPA_DENSE,  /* the next element lies behind this one */
    NPA_APART,  /* a step apart, the same all along the block */
    NPA_ROWS,   /* dense along a row; blocks hold whole rows, which are a step apart */
    NPA_UNEVEN, /* none of these: blocks hold several rows */
};

/* Elements of a buffer that requests of the group read or write. */
typedef struct {
    int32_t buffer;
    int type, size; /* NumPy's number; bytes of an element */
    int64_t offset, strides[NPA_MAX_DIMS]; /* bytes; over the group's axes */
    int64_t low, high;                     /* of its bytes in the buffer */
    int uses;                              /* operands that it is */
    int next;                              /* of the same buffer, or -1 */
    bool written, read_first;              /* by any request; before it was written */
    bool folded; /* written by a reduction, when the group is through */
    bool hidden; /* nobody sees it afterwards, and the group alone uses it: it gets no memory */
    char *base;  /* its element at index 0 */
    enum npa_view_mode mode;
    int64_t step, row_step; /* in a block, unless UNEVEN; from row to row, if ROWS */
    int slot;     /* lower.c: that holds its content; -1: memory does */
} npa_view;

/* A reduction. parts: of each chunk of each row, what it gave, in the type it computes with. */
typedef struct {
    npa_request *request;
    const npa_arithmetic *arithmetic; /* of an ordered one; else NULL */
    npa_order order; /* over the request's axes */
    int type, size;
    int64_t nparts;
    char *parts;
} npa_sink;

typedef struct {
    npa_queue *q;
    int first, count; /* requests of the queue */
    double most; /* elements times requests */
    int nsinks, sinks[NPA_GROUP_SINKS]; /* reductions among them; all have this order */
    npa_order order;
    int ndim;
    int64_t shape[NPA_MAX_DIMS]; /* without axes of 1; afterwards simplified */
    int64_t points;
    int nviews;
    npa_view views[NPA_GROUP_VIEWS];
    int32_t operand[NPA_GROUP_REQUESTS][NPA_MAX_ARGS + 1]; /* its view, -1: a scalar */
    int32_t *heads; /* per buffer of the queue its first view, -1: none */
    /* How blocks lie. A block is part of a stretch: a row (the last axis), a plane of whole rows,
     * or all. */
    int inner; /* axes of a stretch */
    int64_t row, stretch, stretches; /* elements; how many stretches */
    int64_t across; /* rows that share lines of a view across them: blocks should hold all; or 0 */
} npa_group;

/* What an operand of an instruction is. */
enum npa_place { NPA_FIXED, NPA_VIEW, NPA_SLOT };
typedef struct {
    uint8_t place;
    bool still;    /* one element for all */
    int32_t index; /* of the view or slot */
    const char *value; /* FIXED */
} npa_ref;

enum npa_action { NPA_DO_LOOP, NPA_DO_OWN, NPA_DO_LOAD, NPA_DO_STORE, NPA_DO_CAST, NPA_DO_SPREAD,
                  NPA_DO_RANGE, NPA_DO_TAKE, NPA_DO_FOLD, NPA_DO_SELECT };

typedef struct {
    uint8_t action, n; /* n: operands, without the mask */
    bool masked, flags, plain; /* flags: what it raises is noted; plain: by vector units alone */
    bool loose;      /* masked, and what it writes where the mask is false may be anything */
    int16_t request; /* of the group */
    int16_t sink;    /* FOLD */
    npa_ref args[NPA_MAX_ARGS + 1];
    npa_rule *rule; /* LOOP, OWN, RANGE, TAKE */
    const npa_primitive *primitive; /* LOOP: our own code, or NULL */
    /* CAST: types; FOLD: in `from`, too; LOAD, STORE, SPREAD, SELECT: bytes of an element in
     * `to` */
    int from, to;
} npa_instruction;

typedef struct {
    npa_instruction *list;
    int n, cap;
    int nslots, slots_cap;
    int *slot_size; /* bytes of an element */
    int64_t block;  /* elements of a block at most */
    size_t scratch_bytes;
} npa_tape;

/* sink.c. possible: this reduction may be one. prepare: with nparts set; 0, or -1: no memory.
 * finish: the results, from all parts; kinds raised. */
bool npa_sink_possible(const npa_request *r);
int npa_sink_prepare(npa_sink *s, npa_request *r);
size_t npa_sink_state_bytes(const npa_sink *s);
void npa_sink_begin(const npa_sink *s, void *state);
void npa_sink_take(const npa_sink *s, void *state, const char *x, int type, int64_t n);
void npa_sink_end(const npa_sink *s, void *state, int64_t part);
int npa_sink_finish(const npa_sink *s, char *out, int raised);

/* The group that begins with request `first` of the queue, of requests below `end`. last: per
 * buffer the last request that uses it. False: request `first` is for evaluate.c. */
bool npa_group_form(npa_group *g, npa_queue *q, int first, int end, const int *last);
/* The same of all requests of a queue, however long that takes. */
bool npa_group_form_all(npa_group *g, npa_queue *q, const int *last);
/* 0, or -1: out of memory, and nothing was done. */
int npa_group_lower(npa_group *g, npa_tape *tape);
/* Whether it is one of ours, not NumPy's loop, that computes it */
bool npa_has_primitive(const npa_request *r);
void npa_tape_free(npa_tape *tape);
/* Run it; kinds: raised, per request of the queue. 0, or -1: out of memory, and nothing was
 * done. */
int npa_group_run(npa_group *g, const npa_tape *tape, uint8_t *kinds);

#endif
