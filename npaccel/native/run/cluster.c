/* cluster.c: a queue's first requests run on a cluster, where their data lives.
 *
 *     words (key.c) ┐
 *     scalars       ├──► driver: planned for the workers, run there ──► warnings per request
 *     rules, pieces ┘                                     └─ or refused: they run here, as ever
 *
 * Their data goes there first, if it is not there, and results stay. Needs neither Python nor the
 * GIL. */
#include "place/channel.h"
#include "run/flush.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>

enum { READS = 1, WRITES = 2 };

/* What is sent behind the words: of each rule its number, kind, types and name. */
enum { RULE_HEAD = 4, NAME_BYTES = 48 };
typedef struct {
    uint32_t id;
    uint8_t kind, n, name_size, unused;
    uint8_t types[NPA_MAX_ARGS];
    char name[NAME_BYTES];
} rule_text;

/* A run, as it is put together. */
typedef struct {
    int n;          /* of buffers */
    uint8_t *how;   /* per buffer: READS, WRITES */
    uint64_t *rows; /* per buffer: its piece's number and map, or zeros */
    rule_text *rules;
    int nrules;
    npa_snapshot s;
    npa_key key;
} job;

bool npa_cluster_wants(npa_queue *q, int requests)
{
    npa_store *s = npa_stores != NULL ? npa_store_of(q, requests) : NULL;
    if (s != NULL && s->channel != NULL) {
        npa_channel_settle(s);
    }
    bool named = q->backend != 0 || npa_is_numpys_backend(0);
    return npa_channel_of(s) != NULL && !named && !npa_check_mode && q->run.done == 0 &&
           npa_until < 0;
}

static void look_at_requests(job *j, npa_queue *q, int requests)
{
    for (int i = 0; i < requests; i++) {
        npa_request *r = (npa_request *)(q->arena + q->at[i]);
        for (int k = 0; k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            bool written = k >= r->nin && k < r->nin + r->nout;
            if (buffer >= 0) {
                j->how[buffer] |= written ? WRITES : READS;
            }
        }
    }
}

/* Each rule once. False: one has a name that does not fit. */
static bool take_rules(job *j, npa_queue *q, int requests)
{
    npa_rule *last = NULL;
    for (int i = 0; i < requests; i++) {
        npa_rule *r = ((npa_request *)(q->arena + q->at[i]))->rule;
        int at = r == last ? -1 : j->nrules - 1;
        while (at >= 0 && j->rules[at].id != r->id) {
            at--;
        }
        if (r != last && at < 0) {
            size_t size = (size_t)PyUnicode_GET_LENGTH(r->name);
            if (!PyUnicode_IS_COMPACT_ASCII(r->name) || size > NAME_BYTES) {
                return false;
            }
            rule_text *t = &j->rules[j->nrules++];
            *t = (rule_text){.id = r->id, .kind = r->kind, .n = (uint8_t)(r->nin + r->nout),
                             .name_size = (uint8_t)size};
            for (int k = 0; k < t->n; k++) {
                t->types[k] = (uint8_t)r->loop_type[k];
            }
            memcpy(t->name, PyUnicode_1BYTE_DATA(r->name), size);
        }
        last = r;
    }
    return true;
}

/* New, and nobody sees it in the end: it is the workers' own affair. */
static bool is_temporary(const job *j, int i)
{
    uint64_t state = npa_snapshot_state(&j->s, i);
    return (state & NPA_FRESH) != 0 && (state & NPA_DEAD) != 0;
}

static bool is_usable(const npa_buffer *b)
{
    return b->inherited == NULL && !b->gone && b->lost == NULL && !b->unreachable;
}

/* All that is used and not temporary gets a piece there, with its content. */
static bool bring(job *j, npa_queue *q, npa_store *s)
{
    int n = 0;
    npa_access *accesses = malloc(sizeof *accesses * (size_t)(j->n + 1));
    bool good = accesses != NULL;
    for (int i = 0; good && i < j->n; i++) {
        good = j->how[i] == 0 || is_usable(q->buffers[i]);
        if (j->how[i] != 0 && !is_temporary(j, i)) {
            accesses[n++] = (npa_access){i, (j->how[i] & READS) != 0, (j->how[i] & WRITES) != 0,
                                         true, 0, -1};
        }
    }
    good = good && npa_store_bring(s, q, accesses, n);
    for (int k = 0; good && k < n; k++) {
        int i = accesses[k].buffer;
        npa_channel_row(q->buffers[i]->copy->at.memory, j->rows + 2 * i);
    }
    free(accesses);
    return good;
}

static bool begin(job *j, npa_queue *q, int requests)
{
    *j = (job){.n = npa_buffers_of(q, requests)};
    j->how = calloc((size_t)j->n + 1, 1);
    j->rows = calloc(2 * (size_t)j->n + 1, sizeof *j->rows);
    j->rules = malloc(sizeof *j->rules * (size_t)requests);
    if (j->how == NULL || j->rows == NULL || j->rules == NULL ||
        !npa_new_key(requests, 0, &j->key) ||
        !npa_snapshot_take(&j->s, q, requests, j->n, false)) {
        return false;
    }
    j->s.words = j->key.bytes;
    look_at_requests(j, q, requests);
    return take_rules(j, q, requests);
}

static void end(job *j)
{
    npa_snapshot_drop(&j->s);
    free(j->how), free(j->rows), free(j->rules);
}

static int32_t post(job *j, npa_channel *c, uint8_t *kinds, int requests)
{
    uint64_t head[RULE_HEAD] = {j->key.size, j->s.nscalars, (uint64_t)j->nrules, (uint64_t)j->n};
    size_t rows = 2 * sizeof *j->rows * (size_t)j->n, rules = sizeof *j->rules * (size_t)j->nrules;
    char *all = malloc(rows + rules + 1);
    if (all == NULL) {
        return NPA_CHANNEL_CANT;
    }
    memcpy(all, j->rows, rows), memcpy(all + rows, j->rules, rules);
    npa_part parts[] = {{head, sizeof head}, {all, rows + rules},
                            {j->key.bytes, j->key.size},
                            {j->s.scalars, 16 * j->s.nscalars}};
    int32_t status = npa_channel_run(c, parts, NPA_CHANNEL_PARTS, kinds, (size_t)requests);
    free(all);
    return status;
}

/* What was written lies there, all of it. */
static void keep_results(job *j, npa_queue *q, npa_store *s)
{
    for (int i = 0; i < j->n; i++) {
        npa_buffer *b = q->buffers[i];
        if ((j->how[i] & WRITES) != 0 && b->copy != NULL) {
            b->copy->newer = b->copy->valid = (npa_span){0, b->size};
            b->placed = b->placed == NULL && b->range != NULL ? s : b->placed;
        }
    }
}

static void lose_results(job *j, npa_queue *q, npa_store *s)
{
    for (int i = 0; i < j->n; i++) {
        npa_access a = {i, false, (j->how[i] & WRITES) != 0, true, 0, -1};
        npa_lost_results(q, &a, 1, s);
    }
}

bool npa_cluster_run(npa_queue *q, int requests, uint8_t *kinds)
{
    npa_store *s = npa_store_of(q, requests);
    npa_channel *c = npa_channel_of(s);
    job j;
    int32_t status = NPA_CHANNEL_CANT;
    if (begin(&j, q, requests) && bring(&j, q, s)) {
        status = post(&j, c, kinds, requests);
    }
    if (status == NPA_CHANNEL_DONE) {
        keep_results(&j, q, s);
        q->run.there = s, q->run.number = ++c->runs;
        npa_count.cluster_runs++, npa_count.cluster_requests += (uint64_t)requests;
    } else if (status != NPA_CHANNEL_CANT) {
        lose_results(&j, q, s);
    }
    npa_count.cluster_refused += status == NPA_CHANNEL_CANT;
    end(&j);
    npa_channel_settle(s);
    return status != NPA_CHANNEL_CANT;
}
