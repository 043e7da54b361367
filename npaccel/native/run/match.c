/* match.c: requests of a block (`with npaccel.macro(...)`), matched against those of earlier times.
 *
 *   recordings   of one block (a name and control values): sequences of requests that were run
 *     recording    requests and their key; per request the header of its result and, between two
 *                  uses, an array with that header, over guarded memory without content
 *   following    where a thread that is in a block stands in a recording
 *
 * The requests of a block enter the queue like all others. But as long as they are those of a
 * recording, an operation only shows that its operands lie where the recording's did: then its
 * request is a copy of the recorded one, its result is an array that is there, and the key of the
 * whole is known. See Note [Matching] at the end. */
#include "run/run.h"
#include "run/recordings.h"
#include "native_docs.h"

#include <string.h>

enum {
    MOST_REQUESTS = 4096,
    MOST_BYTES = 16 << 20, /* of all recordings */
    MOST_SPARES = 1024,    /* arrays that are kept, in all */
    LARGE = 1 << 20,       /* results of more bytes are not kept: making one costs nothing then */
};

typedef npa_recording recording;
typedef npa_recorded_result result;

/* Where this thread is. */
static __thread struct {
    recording *at;         /* the requests so far are its first ones; NULL: none's */
    int n;                 /* how many; all that is pending, while `generation` is the queue's */
    uint64_t generation;
    PyObject **held; /* per request its result, if it is of a kind that is kept; owned */
    int nheld, held_cap;
} here;

static bool verify; /* for tests: matched keys are made as well, and compared */
static int wrong;   /* how many were others */

static uint64_t clock_of_uses;

/* ------------------------------------------------------------------------------------ following */

static void follow(recording *r)
{
    if (here.at != NULL) {
        here.at->users--;
    }
    here.at = r;
    if (r != NULL) {
        r->users++;
    }
}

/* ------------------------------------------------------------------------- the way through one */

/* With the lock: results of requests that a new count no longer numbers. */
static void let_go(void)
{
    for (int i = 0; i < here.nheld; i++) {
        npa_drop_later(here.held[i]);
    }
    here.nheld = 0;
}

/* With the lock and the GIL: whether all that is pending is this thread's block's. What another
 * thread ran or recorded, or a touch ran, begins the count anew. */
static bool is_alone(void)
{
    if (npa_matched_block == NULL) {
        return false;
    }
    if (here.generation != npa_queue_generation()) {
        let_go();
        follow(npa_q.nrequests == 0 && npa_matched_block->n > 0 ? npa_matched_block->of[0] : NULL);
        here.n = 0;
        here.generation = npa_queue_generation();
        return npa_q.nrequests == 0;
    }
    return here.n == npa_q.nrequests;
}

static bool continues(const recording *r, const char *segment, size_t size)
{
    int i = here.n;
    return i < r->n && r->key_at[i + 1] - r->key_at[i] == size &&
           memcmp(r->key + r->key_at[i], segment, size) == 0;
}

/* Another recording that begins like the one that is followed, and goes on with `segment`. */
static recording *branch(const char *segment, size_t size)
{
    for (int i = 0; i < npa_matched_block->n; i++) {
        recording *r = npa_matched_block->of[i];
        size_t before = here.at->key_at[here.n];
        if (r != here.at && continues(r, segment, size) && r->key_at[here.n] == before &&
            memcmp(r->key, here.at->key, before) == 0) {
            return r;
        }
    }
    return NULL;
}

/* Whether the array is nobody's but ours: then nobody can have it again. */
static bool is_unseen(PyObject *o)
{
    return Py_REFCNT(o) == 1 && ((PyArrayObject_fields *)o)->weakreflist == NULL;
}

/* Keeps a result in sight until the requests have run. A reference more, or none without memory. */
static void hold(int request, PyObject *o)
{
    if (request >= here.held_cap) {
        int cap = request < 64 ? 64 : 2 * request;
        PyObject **grown = realloc(here.held, sizeof *grown * (size_t)cap);
        if (grown == NULL) {
            return;
        }
        here.held = grown, here.held_cap = cap;
    }
    while (here.nheld <= request) {
        here.held[here.nheld++] = NULL;
    }
    if (here.held[request] == NULL) {
        here.held[request] = Py_NewRef(o);
    }
}

uint64_t npa_match_commit(npa_request *r, PyObject *made)
{
    bool alone = is_alone();
    uint64_t generation = npa_queue_commit(r);
    if (!alone) {
        return generation;
    }
    _Alignas(8) char small[512], *segment = small;
    size_t size = npa_words_size(r);
    if (size > sizeof small && (segment = malloc(size)) == NULL) {
        return generation;
    }
    npa_words_put(r, segment);
    if (here.at != NULL && !continues(here.at, segment, size)) {
        follow(branch(segment, size));
    }
    if (segment != small) {
        free(segment);
    }
    if (made != NULL && r->nout == 1 && PyArray_NBYTES((PyArrayObject *)made) <= LARGE) {
        hold(here.n, made);
    }
    here.n++;
    here.generation = generation;
    return generation;
}

/* ------------------------------------------------------------- matching before it is recorded */

/* Whether `a` is shown along the request's axes as operand `o` is; *covers: axes that it spans. */
static bool is_shown_alike(const npa_request *e, const npa_operand *o, PyArrayObject *a,
                           uint32_t *covers)
{
    int ndim = PyArray_NDIM(a), first = e->ndim - ndim;
    if (first < 0 || npa_canonical(PyArray_TYPE(a)) != o->type) {
        return false;
    }
    for (int i = 0; i < first; i++) {
        if (o->at[i] != 0) {
            return false;
        }
    }
    for (int i = 0; i < ndim; i++) {
        npy_intp extent = PyArray_DIM(a, i), wanted = e->shape[first + i];
        bool moves = extent != 1 && wanted != 1;
        if ((extent != wanted && extent != 1) ||
            o->at[first + i] != (moves ? PyArray_STRIDE(a, i) : 0)) {
            return false;
        }
        *covers |= (uint32_t)(extent == wanted) << (first + i);
    }
    return true;
}

/* An array of the result's header: one that is there, or a new one. NULL perhaps with an error. */
static PyObject *take_result(const npa_rule *rule, result *of)
{
    PyObject *o = of->spare;
    const npy_intp *strides = of->header + of->ndim;
    size_t bytes = sizeof(npy_intp) * (size_t)of->ndim;
    if (o == NULL) {
        return npa_new_array(rule->result[0], of->ndim, of->header, strides);
    }
    of->spare = NULL;
    npa_spares--;
    PyArrayObject *a = (PyArrayObject *)o;
    npa_buffer *b = npa_buffer_of(a);
    enum { FLAGS = NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE | NPY_ARRAY_ALIGNED };
    if (is_unseen(o) && b != NULL && b->index < 0 && b->fresh && b->range->work == NULL &&
        PyArray_BYTES(a) == b->base && PyArray_DESCR(a) == rule->result[0] &&
        PyArray_NDIM(a) == of->ndim && (PyArray_FLAGS(a) & FLAGS) == FLAGS &&
        memcmp(PyArray_DIMS(a), of->header, bytes) == 0 &&
        memcmp(PyArray_STRIDES(a), strides, bytes) == 0) {
        return o;
    }
    Py_DECREF(o); /* somebody changed it, or has it in a way that references don't show */
    return npa_new_array(rule->result[0], of->ndim, of->header, strides);
}

/* The recorded request that is to come, if it is such an operation, without what can't be here. */
static npa_request *expected(const npa_rule *rule, PyArrayObject *out)
{
    if (here.at == NULL || here.n == 0 || here.n >= here.at->n || npa_bodies_run()) {
        return NULL;
    }
    npa_request *e = npa_recorded_request(here.at, here.n);
    bool header = here.at->results[here.n].header != NULL;
    return e->rule == rule && e->axes == 0 && !e->mask && rule->kind == NPA_MAP &&
                   rule->nout == 1 && (out != NULL || header)
               ? e
               : NULL;
}

/* With the lock: whether `a` is operand `k`. `read`: nothing that it shows is written. */
static bool is_placed(npa_request *e, int k, PyArrayObject *a, bool read, uint32_t *covers)
{
    npa_operand *o = npa_operand_at(e, k);
    int64_t offset;
    if (o->buffer < 0 || !is_shown_alike(e, o, a, covers)) {
        return false;
    }
    npa_buffer *b = npa_place(a, true, read, &offset);
    return b != NULL && b->index == o->buffer && offset == o->offset && npa_hold(b, a);
}

/* With the lock: a given output, which must be ours and hidden already. */
static bool is_target(npa_request *e, PyArrayObject *out)
{
    npa_operand *o = npa_operand_at(e, e->nin);
    npa_buffer *b = npa_buffer_of(out);
    uint32_t covers = 0;
    int64_t offset;
    if (b == NULL || b->exported || b->flights > 0 || (!b->pending && !b->fresh) ||
        !PyArray_ISWRITEABLE(out) || PyArray_NDIM(out) != e->ndim ||
        !is_shown_alike(e, o, out, &covers) ||
        memcmp(PyArray_DIMS(out), e->shape, sizeof(npy_intp) * e->ndim) != 0) {
        return false;
    }
    return npa_place(out, true, false, &offset) == b && b->index == o->buffer &&
           offset == o->offset;
}

/* Whether the operands are the recorded ones. With the lock. */
static bool are_operands(npa_request *e, const npa_value *in, PyArrayObject *out)
{
    uint32_t axes = (1u << e->ndim) - 1, covers = out != NULL ? axes : 0;
    int ndim = out != NULL ? e->ndim : 0; /* an output is of the whole shape, whatever is read */
    npa_range *written = out != NULL ? npa_range_find(PyArray_DATA(out)) : NULL;
    for (int k = 0; k < e->nin; k++) {
        PyArrayObject *a = in[k].array;
        if (a == NULL) {
            continue;
        }
        bool apart = written == NULL || npa_range_find(PyArray_DATA(a)) != written;
        if (!is_placed(e, k, a, apart, &covers)) {
            return false;
        }
        ndim = PyArray_NDIM(a) > ndim ? PyArray_NDIM(a) : ndim;
    }
    return ndim == e->ndim && covers == axes;
}

/* Scalars in the loop's types; those that a plan depends on must be the recorded ones. */
static bool are_scalars(npa_request *e, const npa_value *in, char (*scalars)[16])
{
    for (int k = 0; k < e->nin; k++) {
        npa_operand *o = npa_operand_at(e, k);
        if (in[k].array != NULL) {
            if (o->buffer < 0 || PyArray_NDIM(in[k].array) == 0) {
                return false;
            }
            continue;
        }
        char now[16], then[16];
        if (o->buffer >= 0 || !npa_scalar_value(&in[k], e->rule->loop_type[k], scalars[k])) {
            return false;
        }
        if (e->rule->value_in_key) {
            npa_key_value(o->type, scalars[k], now), npa_key_value(o->type, o->at, then);
            if (memcmp(now, then, sizeof now) != 0) {
                return false;
            }
        }
    }
    return true;
}

/* With the lock, the operands being those of `e`: its copy is the queue's next one. */
static bool append_copy(const npa_request *e, const npa_value *in, char (*scalars)[16],
                        npa_site *site)
{
    npa_request *r = npa_queue_room(&npa_q, e->size);
    if (r == NULL) {
        return false;
    }
    memcpy(r, e, e->size);
    for (int k = 0; k < r->nin; k++) {
        if (in[k].array == NULL) {
            memcpy(npa_operand_at(r, k)->at, scalars[k], 16);
        }
    }
    r->code = site->code, r->globals = site->globals, r->lasti = site->lasti;
    return true;
}

/* With the lock: the output's place in the queue, which is the recorded one. */
static bool place_output(npa_request *e, PyArrayObject *out, PyObject *made)
{
    int64_t offset;
    return out != NULL ? is_target(e, out)
                       : npa_operand_at(e, e->nin)->buffer == npa_q.nbuffers &&
                             npa_place((PyArrayObject *)made, true, false, &offset) != NULL;
}

/* Request `n` of what is followed, if the operands are the recorded ones: 1, else 0. */
static int try_map(recording *followed, int n, const npa_value *in, PyArrayObject *out,
                   PyObject *made, char (*scalars)[16])
{
    npa_request *e = npa_recorded_request(followed, n);
    npa_site site;
    npa_capture_site(&site);
    npa_lock();
    bool done = is_alone() && here.at == followed && here.n == n && !npa_run_stopped() &&
                !npa_over_limit() && are_operands(e, in, out) && place_output(e, out, made) &&
                append_copy(e, in, scalars, &site);
    if (done) {
        npa_q.buffers[npa_operand_at(e, e->nin)->buffer]->pending = true;
        here.generation = npa_queue_commit((npa_request *)(npa_q.arena + npa_q.used));
        npa_matched_block->matched++;
        if (made != NULL) {
            hold(n, made);
        }
        here.n++;
    }
    npa_unlock();
    if (!done) {
        Py_XDECREF(site.code), Py_XDECREF(site.globals);
    }
    return done;
}

/* rule(in...), if it is the recorded request that is to come: 1 done, 0 record it, -1 error. `out`:
 * NULL, or the output. */
int npa_match_map(npa_rule *rule, const npa_value *in, PyArrayObject *out, PyObject **results)
{
    npa_request *e = npa_matched_block != NULL ? expected(rule, out) : NULL;
    char scalars[NPA_MAX_ARGS][16];
    if (e == NULL || !are_scalars(e, in, scalars)) {
        return 0;
    }
    if (npa_errstate_of(rule) != e->errstate || (rule->may_warn && npa_warnings_are_errors())) {
        return PyErr_Occurred() ? -1 : 0;
    }
    recording *followed = here.at;
    int n = here.n;
    followed->users++; /* what follows may run anything */
    PyObject *made = out == NULL ? take_result(rule, &followed->results[n]) : NULL;
    int status = made != NULL || out != NULL ? try_map(followed, n, in, out, made, scalars)
                 : PyErr_Occurred() ? -1 : 0;
    followed->users--;
    if (status > 0) {
        results[0] = made != NULL ? made : Py_NewRef((PyObject *)out);
    } else {
        Py_XDECREF(made);
    }
    return status;
}

/* -------------------------------------------------------------------------------- the whole */

static void drop_unseen(void)
{
    for (int i = 0; i < here.nheld; i++) {
        npa_buffer *b = here.held[i] != NULL && is_unseen(here.held[i])
                            ? npa_buffer_of((PyArrayObject *)here.held[i]) : NULL;
        if (b != NULL) {
            atomic_store(&b->dead, true);
        }
    }
}

/* Whether the buffers of the queue are in the state that the recording's key says. */
static bool are_states(const recording *r)
{
    const char *p = r->key + r->key_at[r->n];
    if (r->nbuffers != npa_q.nbuffers) {
        return false;
    }
    for (int i = 0; i < r->nbuffers; i++, p += sizeof(uint64_t)) {
        uint64_t wanted, state = npa_key_state(npa_q.buffers[i]);
        memcpy(&wanted, p, sizeof wanted);
        if (state != wanted) {
            return false;
        }
    }
    return true;
}

static bool is_like(const recording *r, const recording *other)
{
    return r == other || (r->n == other->n && r->key_at[r->n] == other->key_at[r->n] &&
                          memcmp(r->key, other->key, r->key_at[r->n]) == 0);
}

/* Whether the first `requests` of the queue are all of it, and the block's. */
static bool is_whole(int requests)
{
    return npa_matched_block != NULL && here.generation == npa_queue_generation() &&
           requests == here.n && requests == npa_q.nrequests;
}

static void use(recording *r, int place)
{
    npa_recordings *b = npa_matched_block;
    memmove(b->of + 1, b->of, sizeof *b->of * (size_t)place);
    b->of[0] = r;
    r->last_use = ++clock_of_uses;
    follow(r);
}

static bool known_key(int requests, uint64_t backend, npa_key *key)
{
    if (!is_whole(requests) || here.at == NULL || here.at->n != requests) {
        return false;
    }
    npa_mark_later(requests);
    for (int i = 0; i < npa_matched_block->n; i++) {
        recording *r = npa_matched_block->of[i];
        if (r->backend == backend && is_like(r, here.at) && are_states(r)) {
            use(r, i);
            npa_matched_block->hits++;
            *key = (npa_key){r->key, r->key_size, r->key_hash};
            return true;
        }
    }
    return false;
}

static void remember(int requests, uint64_t backend, const npa_key *key)
{
    npa_recordings *b = npa_matched_block;
    if (!is_whole(requests) || requests > MOST_REQUESTS ||
        (b->n == NPA_MOST_PER_BLOCK && !npa_forget_recording(b))) {
        return;
    }
    recording *r = npa_recording_new(here.n, here.held, here.nheld, backend, key);
    if (r == NULL) {
        return;
    }
    r->owner = b, r->next = npa_recordings_all, npa_recordings_all = r;
    npa_recorded_bytes += r->bytes;
    b->made++;
    use(r, b->n++);
    while (npa_recorded_bytes > MOST_BYTES && npa_forget_recording(NULL)) {
    }
}

bool npa_make_key(int requests, uint64_t backend, npa_key *key)
{
    npa_key known;
    drop_unseen();
    bool matched = known_key(requests, backend, &known);
    if (matched && !verify) {
        *key = known;
        return true;
    }
    if (!npa_new_key(requests, backend, key)) {
        return false;
    }
    if (matched) {
        wrong += key->size != known.size || memcmp(key->bytes, known.bytes, known.size) != 0;
    } else {
        remember(requests, backend, key);
    }
    return true;
}

/* Whether `o` can be the result of request `i` again. */
static bool is_spare(PyObject *o, const npa_buffer *b, int i)
{
    if (here.at == NULL || i >= here.at->n || !is_unseen(o) || !b->fresh ||
        b->range->work != NULL || here.at->results[i].spare != NULL ||
        here.at->results[i].header == NULL) {
        return false;
    }
    recording *old = npa_spares == MOST_SPARES ? npa_oldest_recording(NULL, true) : NULL;
    if (old != NULL) {
        npa_drop_spares(old);
    }
    return npa_spares < MOST_SPARES;
}

/* Under the lock: the evaluator may be running them. What goes may run anything, so it goes
 * last. */
void npa_match_settle(void)
{
    int waiting = 0;
    if (here.nheld == 0) {
        return;
    }
    npa_lock();
    for (int i = 0; i < here.nheld; i++) {
        PyObject *o = here.held[i];
        npa_buffer *b = o != NULL ? npa_buffer_of((PyArrayObject *)o) : NULL;
        if (b != NULL && b->index >= 0) {
            waiting = i + 1; /* its request has not run */
            continue;
        }
        here.held[i] = NULL;
        if (b != NULL && is_spare(o, b, i)) {
            atomic_store(&b->dead, false);
            here.at->results[i].spare = o;
            npa_spares++;
        } else {
            npa_drop_later(o);
        }
    }
    here.nheld = waiting;
    npa_unlock();
    npa_drop_garbage();
}

/* ------------------------------------------------------------------------------ for Python */

PyObject *npa_match_begin(PyObject *recordings)
{
    if (!Py_IS_TYPE(recordings, &npa_recordings_type)) {
        PyErr_SetString(PyExc_TypeError, "Recordings are needed");
        return NULL;
    }
    npa_match_end();
    npa_matched_block = (npa_recordings *)Py_NewRef(recordings);
    return recordings;
}

void npa_match_end(void)
{
    npa_recordings *before = npa_matched_block;
    npa_match_settle();
    PyObject **held = here.held;
    int n = here.nheld;
    follow(NULL);
    npa_matched_block = NULL, here.held = NULL;
    here.n = here.nheld = here.held_cap = 0, here.generation = UINT64_MAX;
    for (int i = 0; i < n; i++) {
        Py_XDECREF(held[i]);
    }
    free(held);
    Py_XDECREF(before);
}

/* verify_matches(on) -> how many keys of matched requests were others than they should be */
static PyObject *verify_matches(PyObject *module, PyObject *on)
{
    (void)module;
    verify = on == Py_True;
    return PyLong_FromLong(wrong);
}

static PyMethodDef functions[] = {
    {"verify_matches", verify_matches, METH_O, NPA_DOC_verify_matches},
    {NULL}};

int npa_match_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions) < 0 || PyType_Ready(&npa_recordings_type) < 0 ||
                   PyModule_AddObjectRef(module, "Recordings", (PyObject *)&npa_recordings_type) < 0
               ? -1 : 0;
}

/* Note [Matching]
 *
 * A recording is never taken for what is pending: every request is in the queue, and equals the
 * recorded one in all that a key says. Requests are compared in the ways below, so a block that
 * takes another path at any place is only recorded as ever from there on.
 *
 *   - before it is recorded, where it is a map of one result (npa_match_map): same rule, operands
 *     in the same buffers of the queue (they are numbered by first use), at the same offsets, with
 *     the same strides along axes of the same extents. What makes recording slow is not done:
 *     strides of the result, overlaps, a new array. All of it follows from what was compared.
 *   - after it was recorded, for all others and for those that begin a block (npa_match_commit), by
 *     the bytes that it has in a key; another recording that begins alike may go on like that.
 *
 * A result that the program does not see again was never computed: its header and its guarded
 * memory can serve the same request the next time. So results are held until the requests have run.
 * Whoever else has one has a reference (views do) or, noticed here too, a weak one; an array
 * without is "unseen": dead as far as the plan goes, since nobody can come to it any more. */
