/* channel.h: how the process that drives a cluster is spoken to. See channel.c. */
#ifndef NPACCEL_CHANNEL_H
#define NPACCEL_CHANNEL_H

#include "place/place.h"
#include "place/store.h"

enum {
    NPA_CHANNEL_RUN = 1,
    NPA_CHANNEL_WRITE,
    NPA_CHANNEL_READ,
    NPA_CHANNEL_CALL,
    NPA_CHANNEL_CHECK
};
enum { NPA_CHANNEL_DONE, NPA_CHANNEL_CANT, NPA_CHANNEL_LOST }; /* answers: cluster/messages.py */
enum { NPA_CHANNEL_PARTS = 4 }; /* of a question's body, at most */

/* losses: how many workers had died when the last answer came; news: what they had is to be looked
 * for. text: the last answer's body. why: what was lost last was. broken: the driver has ended, or
 * was sent away. */
struct npa_channel {
    int socket;
    long pid;
    uint64_t pieces, runs, *released; /* runs: that were done there */
    size_t nreleased, released_cap;
    uint32_t losses;
    bool broken, closed, news, told;
    char *text;
    size_t text_size;
    char why[512];
};

npa_channel *npa_channel_new(int socket, void **functions); /* NULL: no memory */
/* With the lock: where a queue can run; NULL: it is no cluster, or there is none any more. */
npa_channel *npa_channel_of(const npa_store *s);
void npa_channel_describe(void *memory, size_t size, uint64_t map); /* a new piece */
void npa_channel_row(void *memory, uint64_t *row); /* its number and map; NULL: zeros */
/* DONE: `kinds` are those of the requests; CANT: it has done nothing; LOST: what it writes is; or
 * the driver has ended */
int32_t npa_channel_run(npa_channel *c, npa_part *body, int n, uint8_t *kinds,
                        size_t requests);
void npa_channel_settle(npa_store *s); /* after workers have died */
PyObject *npa_channel_call(npa_store *s, PyObject *body); /* (status, bytes), or an exception */
void npa_channel_close(npa_store *s); /* all of it comes home first */

#endif
