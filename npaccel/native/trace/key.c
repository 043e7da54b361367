/* key.c: what is pending as all see it who do not run it: as words of eight bytes, which are the
 * key that a program is found by, and what the helper, the disk and the passes read of requests.
 *
 *     per request   npa_words: rule, axes; counts, errstate; shape; per operand
 *                   npa_operand: buffer, type; offset; strides. Of a scalar its value, as far
 *                   as plans look at it
 *     per buffer    size, whether it is ours, fresh, dead
 *     how many requests and buffers; how many a round has where each has kernels of its own;
 *     the backend that is asked for
 *
 * Values of scalars stand beside them (npa_snapshot): a program serves them all. */
#include "trace/trace.h"

#include <math.h>
#include <string.h>

int npa_buffers_of(const npa_queue *q, int requests)
{
    int n = requests == q->nrequests ? q->nbuffers : 0;
    for (int i = 0; i < requests && n < q->nbuffers; i++) {
        npa_request *r = (npa_request *)(q->arena + q->at[i]);
        for (int k = 0; k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            n = buffer >= n ? buffer + 1 : n;
        }
    }
    return n;
}

/* A scalar's value; of a float only one that a rewrite may use, as x / 2**k and x ** n do
 * (ir/passes/rewrite.py), else 0: all others are for one plan. More than are used do no harm. */
void npa_key_value(int type, const void *at, char *to)
{
    double value = 0;
    float single = 0;
    int exponent;
    if (type == NPY_DOUBLE) {
        memcpy(&value, at, sizeof value);
    } else if (type == NPY_FLOAT) {
        memcpy(&single, at, sizeof single);
        value = single;
    } else {
        memcpy(to, at, 16);
        return;
    }
    bool power_of_two = fabs(frexp(value, &exponent)) == 0.5;
    bool small_whole = value >= 1 && value <= 8 && value == (int)value;
    memset(to, 0, 16);
    memcpy(to, &value, power_of_two || small_whole ? sizeof value : 0);
    to[sizeof value] = value == 0; /* no other value has this */
}

uint64_t npa_hash(const char *bytes, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325u, word = 0;
    for (; size >= 8; bytes += 8, size -= 8) {
        memcpy(&word, bytes, 8);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, bytes, size);
    hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
}

/* Room for a key, kept from one to the next; under the lock. */
static struct { char *at; size_t size; } room;

static char *key_room(size_t size)
{
    if (room.size < size) {
        free(room.at);
        room.at = malloc(2 * size);
        room.size = room.at != NULL ? 2 * size : 0;
    }
    return room.at;
}

size_t npa_words_size(npa_request *r)
{
    size_t size = sizeof(npa_words) + 8u * r->ndim;
    for (int k = 0; k < npa_operand_count(r); k++) {
        bool scalar = npa_operand_at(r, k)->buffer < 0;
        size += sizeof(npa_operand) + (!scalar ? 8u * r->ndim : r->rule->value_in_key ? 16 : 0);
    }
    return size;
}

char *npa_words_put(npa_request *r, char *p)
{
    npa_words *w = (npa_words *)p;
    *w = (npa_words){.rule = r->rule->id,
                     .axes = r->axes,
                     .ndim = r->ndim,
                     .nin = r->nin,
                     .nout = r->nout,
                     .mask = r->mask,
                     .errstate = r->errstate,
                     .initial = r->initial};
    memcpy(w->shape, r->shape, 8u * r->ndim), p = (char *)(w->shape + r->ndim);
    for (int k = 0; k < npa_operand_count(r); k++) {
        npa_operand *o = npa_operand_at(r, k), *to = (npa_operand *)p;
        *to = *o, p = (char *)to->at;
        if (o->buffer >= 0) {
            memcpy(p, o->at, 8u * r->ndim), p += 8u * r->ndim;
        } else if (r->rule->value_in_key) {
            to->offset = 2;
            npa_key_value(o->type, o->at, p), p += 16;
        }
    }
    return p;
}

static char *put_requests(const npa_queue *q, int requests, char *p)
{
    for (int i = 0; i < requests; i++) {
        p = npa_words_put((npa_request *)(q->arena + q->at[i]), p);
    }
    return p;
}

static char *put_end(int requests, int nbuffers, int apart, uint64_t backend, char *p)
{
    uint64_t end[] = {(uint64_t)requests | (uint64_t)nbuffers << 32, (uint64_t)apart, backend};
    memcpy(p, end, sizeof end);
    return p + sizeof end;
}

PyObject *npa_words_with(const npa_queue *q, const uint64_t *states, int nbuffers)
{
    size_t size = NPA_KEY_END + 8 * (size_t)nbuffers;
    for (int i = 0; i < q->nrequests; i++) {
        size += npa_words_size((npa_request *)(q->arena + q->at[i]));
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (bytes != NULL) {
        char *p = put_requests(q, q->nrequests, PyBytes_AS_STRING(bytes));
        memcpy(p, states, 8 * (size_t)nbuffers);
        put_end(q->nrequests, nbuffers, 0, 0, p + 8 * (size_t)nbuffers);
    }
    return bytes;
}

uint64_t npa_key_state(const npa_buffer *b)
{
    bool dead = atomic_load(&b->dead) && !b->later, made = b->maker != NULL && b->maker != &npa_q;
    return (uint64_t)b->size << NPA_STATE_BITS | (b->range != NULL ? NPA_OWNED : 0) |
           (b->fresh && !made ? NPA_FRESH : 0) |
           /* made: it is, before what this is the key of runs */ (dead ? NPA_DEAD : 0);
}

bool npa_new_key(int requests, uint64_t backend, npa_key *key)
{
    int nbuffers = npa_buffers_of(&npa_q, requests);
    /* Words are less than requests */
    size_t size = NPA_KEY_END + npa_q.used + 8 * (size_t)nbuffers;
    char *p = key_room(size);
    if (p == NULL) {
        return false;
    }
    p = put_requests(&npa_q, requests, p);
    npa_mark_later(requests);
    for (int i = 0; i < nbuffers; i++) {
        uint64_t state = npa_key_state(npa_q.buffers[i]);
        memcpy(p, &state, 8), p += 8;
    }
    p = put_end(requests, nbuffers, npa_loop_apart(requests), backend, p);
    key->bytes = room.at, key->size = (size_t)(p - room.at);
    key->hash = npa_hash(key->bytes, key->size);
    return true;
}
