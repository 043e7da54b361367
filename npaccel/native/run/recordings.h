/* recordings.h: requests of earlier times, which recordings.c keeps and match.c follows. */
#ifndef NPA_RECORDINGS_H
#define NPA_RECORDINGS_H

#include "run/run.h"

enum { NPA_MOST_PER_BLOCK = 16 };

typedef struct npa_recordings npa_recordings;

typedef struct {
    PyObject *spare;  /* owned; NULL: none */
    npy_intp *header; /* shape, then strides; NULL: not known */
    int ndim;
} npa_recorded_result;

typedef struct npa_recording {
    struct npa_recording *next; /* of all */
    npa_recordings *owner;
    int n, nbuffers, users; /* users: threads that follow it */
    char *arena;            /* its requests, as in the queue */
    size_t used, *at;
    char *key;
    size_t *key_at; /* where each request, and then the rest, begins in the key */
    size_t key_size, bytes;
    uint64_t key_hash, backend, last_use;
    /* Of each request; a header is known of those that made one array */
    npa_recorded_result *results;
} npa_recording;

struct npa_recordings {
    PyObject_HEAD
    npa_recording *of[NPA_MOST_PER_BLOCK]; /* the latest used first */
    int n;
    uint64_t hits, made; /* runs of requests that were known; that were new */
    uint64_t matched;    /* requests that were matched before they were recorded */
    uint64_t bodies, replays, aside; /* rounds; all of whose requests were known; not recorded */
    uint64_t skipped;    /* rounds not recorded since one was */
    bool needs_recording; /* some of its results would have other bits */
    npa_choice choice;
};

extern npa_recording *npa_recordings_all;
extern size_t npa_recorded_bytes;
extern int npa_spares; /* arrays that are kept, in all */
extern PyTypeObject npa_recordings_type;

/* The n requests that are pending, with their results as far as they are held. NULL: out of
 * memory. */
npa_recording *npa_recording_new(int n, PyObject *const *held, int nheld, uint64_t backend,
                                 const npa_key *key);
void npa_drop_spares(npa_recording *r);
/* The one that nobody follows and that was used longest ago; of one block, or of all. */
npa_recording *npa_oldest_recording(const npa_recordings *of, bool with_spares);
bool npa_forget_recording(const npa_recordings *of); /* that one; false: there is none */

static inline npa_request *npa_recorded_request(const npa_recording *r, int i)
{
    return (npa_request *)(r->arena + r->at[i]);
}

#endif
