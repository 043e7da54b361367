/* key.c: what is pending as a plan sees it: the key that its program is found by.
 *
 * key: per request   rule, axes, counts, errstate; shape; operands with their strides or value
 *      per buffer    size, whether it is ours, fresh, dead
 *      the backend that is asked for */
#include "record.h"

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

size_t npa_key_size(npa_request *r)
{
    size_t size = 4 * sizeof(uint32_t) + 8u * r->ndim;
    for (int k = 0; k < npa_operand_count(r); k++) {
        bool scalar = npa_operand_at(r, k)->buffer < 0;
        size += sizeof(npa_operand) + (!scalar ? 8u * r->ndim : r->rule->value_in_key ? 16 : 0);
    }
    return size;
}

char *npa_key_request(npa_request *r, char *p)
{
    uint32_t head[4] = {r->rule->id, r->axes,
                        (uint32_t)(r->ndim | r->nin << 8 | r->nout << 16 | r->mask << 24),
                        (uint32_t)(r->errstate | r->initial << 16)};
    memcpy(p, head, sizeof head), p += sizeof head;
    memcpy(p, r->shape, 8u * r->ndim), p += 8u * r->ndim;
    for (int k = 0; k < npa_operand_count(r); k++) {
        npa_operand *o = npa_operand_at(r, k);
        memcpy(p, o, sizeof *o), p += sizeof *o;
        if (o->buffer >= 0) {
            memcpy(p, o->at, 8u * r->ndim), p += 8u * r->ndim;
        } else if (r->rule->value_in_key) {
            npa_key_value(o->type, o->at, p), p += 16;
        }
    }
    return p;
}

uint64_t npa_key_state(const npa_buffer *b)
{
    bool dead = atomic_load(&b->dead) && !b->later;
    return (uint64_t)b->size << NPA_STATE_BITS | (b->range != NULL ? NPA_OWNED : 0) |
           (b->fresh ? NPA_FRESH : 0) | (dead ? NPA_DEAD : 0);
}

bool npa_new_key(int requests, uint64_t backend, npa_key *key)
{
    size_t size = 8 + npa_q.used + 24u * (size_t)npa_q.nbuffers + 64u * (size_t)npa_q.nrequests;
    char *p = key_room(size);
    if (p == NULL) {
        return false;
    }
    for (int i = 0; i < requests; i++) {
        p = npa_key_request((npa_request *)(npa_q.arena + npa_q.at[i]), p);
    }
    npa_mark_later(requests);
    for (int i = 0, n = npa_buffers_of(&npa_q, requests); i < n; i++) {
        uint64_t state = npa_key_state(npa_q.buffers[i]);
        memcpy(p, &state, 8), p += 8;
    }
    memcpy(p, &backend, 8), p += 8;
    key->bytes = room.at, key->size = (size_t)(p - room.at);
    key->hash = npa_hash(key->bytes, key->size);
    return true;
}

bool npa_make_key(int requests, uint64_t backend, npa_key *key)
{
    npa_key known;
    npa_match_unseen();
    bool matched = npa_match_key(requests, backend, &known);
    if (matched && !npa_match_verify) {
        *key = known;
        return true;
    }
    if (!npa_new_key(requests, backend, key)) {
        return false;
    }
    if (matched) {
        npa_match_wrong += key->size != known.size || memcmp(key->bytes, known.bytes, known.size) != 0;
    } else {
        npa_match_remember(requests, backend, key);
    }
    return true;
}
