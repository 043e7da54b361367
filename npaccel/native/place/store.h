/* store.h: a device's own memory, for the files that use it. */
#ifndef NPACCEL_STORE_H
#define NPACCEL_STORE_H

#include "place/place.h"

/* The parts of OpenCL's interface that are needed; see the specification for their meaning. cuda.c
 * has them over CUDA's, channel.c over a cluster's driver. */
typedef void *create_function(void *context, uint64_t flags, size_t size, void *host,
                              int32_t *error);
typedef int32_t release_function(void *object);
typedef int32_t read_function(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                              void *host, uint32_t nevents, void *const *events, void **event);
typedef int32_t write_function(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                               const void *host, uint32_t nevents, void *const *events,
                               void **event);
typedef int32_t set_function(void *kernel, uint32_t index, size_t size, const void *value);
typedef int32_t enqueue_function(void *queue, void *kernel, uint32_t rank, const size_t *offset,
                                 const size_t *global, const size_t *local, uint32_t nevents,
                                 void *const *events, void **event);
typedef int32_t finish_function(void *queue);

enum {
    CREATE, RELEASE, READ, WRITE, SET, ENQUEUE, FINISH, FLUSH, MAP, WAIT, RELEASE_EVENT, FUNCTIONS
};
enum { READ_WRITE = 1 };
enum { WORDS, SCRATCH, PARTIALS, FLAGS, AUXILIARY }; /* a launch's own memory, in argument order */
/* Freed memory serves what is nearly as large; sizes are multiples of a page. */
enum { GRAIN = 4096, SLACK = 8, MOST_FREE = 64 };
enum { NPA_NO_ROOM = -10002 }; /* beside the driver's errors */
/* CL_MEM_OBJECT_ALLOCATION_FAILURE, and of whom only has to allocate all of these: some drivers
 * find out when a piece is first used. */
enum { NO_OBJECT = -4, NO_RESOURCES = -5, NO_HOST_MEMORY = -6 };

typedef struct npa_channel npa_channel;
typedef struct { void *memory; size_t size; } npa_piece;

struct npa_store {
    PyObject_HEAD
    npa_channel *channel; /* of a cluster, see channel.h; NULL: it is a device */
    void *functions[FUNCTIONS];
    void *context, *queue, *transfers; /* queues: of kernels; of data that moves */
    size_t limit, used; /* bytes: that may be used; that are, those of `free` included */
    size_t largest;     /* bytes that the driver gives in one piece */
    int pid;
    uint64_t launches, number;
    PyObject *name;
    npa_piece free[MOST_FREE], own[AUXILIARY];
    int nfree;
    struct npa_staging *staging; /* NULL: none yet, or none to be had */
    int64_t unstaged;            /* chunks that moved without */
    bool moving; /* what was written to `transfers` need not be there yet */
    bool wanted; /* of a device, something is to lie there */
    struct npa_copy *copies;
    struct { uint64_t calls, bytes; } homes[NPA_HOMES]; /* what came home, by why */
    npa_store *next;
};

/* Bytes of a buffer. */
typedef struct { size_t low, high; } npa_span;
static inline bool npa_span_empty(npa_span s) { return s.low >= s.high; }
static inline size_t npa_span_length(npa_span s) { return npa_span_empty(s) ? 0 : s.high - s.low; }

/* What of a buffer lies there; see resident.c. */
struct npa_copy {
    npa_store *store;
    npa_buffer *buffer;
    npa_piece at;
    npa_span valid, newer;
    uint64_t used; /* the last launch that needed it */
    size_t looked; /* what looking at parts of it has cost since, in bytes */
    struct npa_copy *before, *after;
};

/* A cluster that is closed, or a device whose kernels use the host's memory, once nothing is
 * there. */
void npa_store_leave(npa_store *s);
/* What a piece of so many bytes takes. */
static inline size_t npa_piece_size(size_t size)
{
    return size == 0 ? GRAIN : (size + GRAIN - 1) / GRAIN * GRAIN;
}

npa_piece npa_piece_take(npa_store *s, size_t size); /* memory NULL: there is not enough */
void npa_piece_give(npa_store *s, npa_piece p);      /* or NULL */
void npa_store_trim(npa_store *s);                   /* nothing is kept for reuse */
/* What these accesses use is there, and right. False: it can't be. */
bool npa_store_bring(npa_store *s, npa_queue *q, const npa_access *accesses, int n);
/* Something that it can do without leaves; false: there is nothing */
bool npa_store_make_room(npa_store *s);
/* Between the host and memory there, to its end, and counted; 0, or the driver's error. */
int32_t npa_store_write(npa_store *s, void *memory, size_t at, size_t size, const char *from);
int32_t npa_store_read(npa_store *s, void *memory, size_t at, size_t size, char *to);
/* staging.c: whether so many bytes are to move through pinned memory; and the same through it. */
bool npa_staging_serves(npa_store *s, size_t size);
int32_t npa_staged_write(npa_store *s, void *memory, size_t at, size_t size, const char *from);
int32_t npa_staged_read(npa_store *s, void *memory, size_t at, size_t size, char *to);
/* What a write's error means. */
static inline int32_t npa_write_error(int32_t error)
{
    return NO_HOST_MEMORY <= error && error <= NO_OBJECT ? NPA_NO_ROOM : error;
}
/* Bytes that a launch needs besides */
size_t npa_store_own(const npa_device *d, const npa_launch *l);
/* The kernel on these memories, to its end: 0, NPA_NO_ROOM, or the driver's error. begun: it may
 * have written. Flags are only touched where it is 0. */
int32_t npa_store_compute(npa_device *d, const npa_launch *l, void *const *memories, bool *begun);
/* Whether the host has anything that the device may need: a new array's pages are made when first
 * written. */
bool npa_host_has(const npa_buffer *b);

#endif
