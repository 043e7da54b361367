/* parts.h: a part of a step on its device: where it lies, what moves for it. For the files that
 * run steps in parts. */
#ifndef NPACCEL_PARTS_H
#define NPACCEL_PARTS_H

#include "place/store.h"

/* Of a part: bytes that lie together, of one buffer. */
typedef struct {
    int32_t buffer;
    int64_t low, high;
    int members; /* arrays in it */
    bool read, written, dense;
    npa_piece at;
} npa_part_group;

typedef struct {
    npa_device *d;
    const npa_launch *l;
    npa_tiling may;
    size_t room;      /* bytes that a part may take */
    /* `axis` is cut; of those in [from, axis) one index at a time, of all others all */
    int from, axis;
    int64_t n;        /* so much of it at a time */
    int64_t *low, *high; /* the part at hand, per axis of the domain */
    npa_device_grid grid;
    int64_t *words;   /* for it: places in the groups' memory, or on the host */
    int64_t *items;   /* per array the bytes of an element; 0: it is used as a whole */
    char **bases;     /* per array the host's memory of its buffer */
    bool *fresh;      /* per array: it held nothing before */
    npa_part_group *groups, *before; /* of this part, and of the one before it */
    int *of;          /* per array its group */
    int ngroups, nbefore;
    void **memories;
} npa_parts;

static inline const int64_t *npa_parts_place(const npa_parts *c, int k)
{
    return &c->l->words[c->d->rank + k * (c->d->rank + 1)];
}

static inline int64_t npa_parts_extent(const npa_parts *c, int axis) { return c->l->words[axis]; }

/* How many indices the axes in [from, to) have. */
static inline int64_t npa_parts_points(const npa_parts *c, int from, int to)
{
    int64_t all = 1;
    for (int axis = from; axis < to; axis++) {
        all *= npa_parts_extent(c, axis);
    }
    return all;
}

/* False: no memory, or the device is not to be used. */
bool npa_parts_begin(npa_parts *c, npa_device *d, const npa_launch *l, npa_tiling may);
void npa_parts_end(npa_parts *c);
/* The part at hand is that of index `before` of the axes in [from, axis), and begins at `at`. */
void npa_parts_set(npa_parts *c, int64_t before, int64_t at);
/* False: what the accesses say does not follow from the words. */
bool npa_parts_find_items(npa_parts *c);
/* Between which bytes an array lies in the part at hand. */
void npa_parts_span(const npa_parts *c, int k, int64_t *low, int64_t *high);
/* What a part takes there, at most, with so much of the axis; and its largest piece. */
size_t npa_parts_bytes(npa_parts *c, int64_t n, size_t *largest);
/* How much of the axis fits; 0: nothing. And so much as a part may have. */
int64_t npa_parts_most(npa_parts *c);
int64_t npa_parts_rounded(const npa_parts *c, int64_t n);
/* Whether parts would write the same. */
bool npa_parts_write_twice(const npa_parts *c);
/* All on the host, and there alone; false: it can't be. */
bool npa_parts_bring_home(npa_parts *c);
/* The words, for memory that begins so far before or behind where they say; NULL: for the groups'
 * there. */
int64_t *npa_parts_words(npa_parts *c, const char *const *bases);
/* The part at hand, there: 0, or an error. home: its results may have come back in part. */
int32_t npa_parts_run(npa_parts *c, bool *home);
void npa_parts_leave(npa_parts *c); /* what the last part left there is not needed any more */

#endif
