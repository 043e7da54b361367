/* recordings.c: requests of a block at earlier times, as match.c follows them: which are kept. */
#include "run/run.h"
#include "run/recordings.h"

#include <stdlib.h>
#include <string.h>

typedef npa_recording recording;
typedef npa_recorded_result result;

npa_recording *npa_recordings_all;
size_t npa_recorded_bytes;
int npa_spares;

void npa_drop_spares(recording *r)
{
    for (int i = 0; i < r->n; i++) {
        npa_spares -= r->results[i].spare != NULL;
        Py_CLEAR(r->results[i].spare);
    }
}

/* It is in no list any more. */
static void recording_free(recording *r)
{
    if (r->results != NULL) {
        npa_drop_spares(r);
        for (int i = 0; i < r->n; i++) {
            free(r->results[i].header);
        }
    }
    free(r->arena), free(r->at), free(r->key), free(r->key_at), free(r->results);
    free(r);
}

static void unlink_recording(recording *r)
{
    recording **at = &npa_recordings_all;
    while (*at != r) {
        at = &(*at)->next;
    }
    *at = r->next;
    npa_recorded_bytes -= r->bytes;
    npa_recordings *b = r->owner;
    for (int i = 0, k = 0; i < b->n; i++) {
        b->of[k] = b->of[i];
        k += b->of[i] != r;
    }
    b->n--;
}

static bool has_spares(const recording *r)
{
    int i = 0;
    while (i < r->n && r->results[i].spare == NULL) {
        i++;
    }
    return i < r->n;
}

/* The one that nobody follows and that was used longest ago; of one block, or of all. */
recording *npa_oldest_recording(const npa_recordings *of, bool with_spares)
{
    recording *found = NULL;
    for (recording *r = npa_recordings_all; r != NULL; r = r->next) {
        if (r->users == 0 && (of == NULL || r->owner == of) && (!with_spares || has_spares(r)) &&
            (found == NULL || r->last_use < found->last_use)) {
            found = r;
        }
    }
    return found;
}

bool npa_forget_recording(const npa_recordings *of)
{
    recording *r = npa_oldest_recording(of, false);
    if (r != NULL) {
        unlink_recording(r);
        recording_free(r);
    }
    return r != NULL;
}

/* --------------------------------------------------------------------------- what is pending */

static void *copied(const void *from, size_t size)
{
    void *to = malloc(size + 1);
    return to != NULL ? memcpy(to, from, size) : NULL;
}

/* Whether the array is as request `i` made it: its header may have been changed since. */
static bool is_as_made(int i, PyArrayObject *a)
{
    npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
    const int64_t *strides = npa_operand_at(r, r->nin)->at;
    bool same = PyArray_NDIM(a) == r->ndim;
    for (int k = 0; same && k < r->ndim; k++) {
        same = PyArray_DIM(a, k) == r->shape[k] &&
               (PyArray_STRIDE(a, k) == strides[k] || r->shape[k] == 1);
    }
    return same;
}

static result *headers(int n, PyObject *const *held, int nheld)
{
    result *results = calloc((size_t)n + 1, sizeof *results);
    for (int i = 0; results != NULL && i < nheld; i++) {
        PyArrayObject *a = (PyArrayObject *)held[i];
        bool good = a != NULL && is_as_made(i, a);
        size_t size = good ? sizeof(npy_intp) * (size_t)PyArray_NDIM(a) : 0;
        npy_intp *header = good ? malloc(2 * size + 1) : NULL;
        if (header != NULL) {
            results[i].header = header, results[i].ndim = PyArray_NDIM(a);
            memcpy(header, PyArray_DIMS(a), size);
            memcpy(header + PyArray_NDIM(a), PyArray_STRIDES(a), size);
        }
    }
    return results;
}

recording *npa_recording_new(int n, PyObject *const *held, int nheld, uint64_t backend,
                             const npa_key *key)
{
    recording *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return NULL;
    }
    r->n = n, r->nbuffers = npa_q.nbuffers, r->used = npa_q.used, r->backend = backend;
    r->arena = copied(npa_q.arena, npa_q.used);
    r->at = copied(npa_q.at, sizeof *r->at * (size_t)r->n);
    r->key = copied(key->bytes, key->size), r->key_size = key->size, r->key_hash = key->hash;
    r->key_at = malloc(sizeof *r->key_at * ((size_t)r->n + 1));
    r->results = headers(n, held, nheld);
    r->bytes = r->used + r->key_size + (sizeof *r->results + 3 * sizeof *r->at) * (size_t)r->n;
    if (!r->arena || !r->at || !r->key || !r->key_at || !r->results) {
        recording_free(r);
        return NULL;
    }
    size_t at = 0;
    for (int i = 0; i <= r->n; i++) {
        r->key_at[i] = at;
        at += i < r->n ? npa_words_size(npa_recorded_request(r, i)) : 0;
    }
    return r;
}

/* ------------------------------------------------------------------------------- for Python */

static PyObject *recordings_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {NULL};
    return PyArg_ParseTupleAndKeywords(args, kwargs, "", names) ? type->tp_alloc(type, 0) : NULL;
}

static void recordings_free(PyObject *self)
{
    npa_recordings *b = (npa_recordings *)self;
    while (b->n > 0) {
        recording *r = b->of[0];
        unlink_recording(r);
        recording_free(r);
    }
    Py_TYPE(self)->tp_free(self);
}

static PyObject *recordings_get(PyObject *self, void *name)
{
    npa_recordings *b = (npa_recordings *)self;
    return PyLong_FromUnsignedLongLong(strcmp(name, "hits") == 0      ? b->hits
                                       : strcmp(name, "made") == 0    ? b->made
                                       : strcmp(name, "matched") == 0 ? b->matched
                                       : strcmp(name, "bodies") == 0  ? b->bodies
                                       : strcmp(name, "replays") == 0 ? b->replays
                                       : strcmp(name, "aside") == 0   ? b->aside
                                                                      : (uint64_t)b->n);
}

static PyObject *recordings_times(PyObject *self, void *unused)
{
    (void)unused;
    npa_recordings *b = (npa_recordings *)self;
    return npa_choice_told(&b->choice);
}

static PyGetSetDef recordings_getset[] = {
    {"hits", recordings_get, NULL, "Runs whose requests were known.", "hits"},
    {"made", recordings_get, NULL, "Runs whose requests were new.", "made"},
    {"matched", recordings_get, NULL, "Requests matched before they were recorded.", "matched"},
    {"bodies", recordings_get, NULL, "Rounds of the block.", "bodies"},
    {"replays", recordings_get, NULL, "Rounds whose requests were all known.", "replays"},
    {"aside", recordings_get, NULL, "Rounds in which nothing small was recorded.", "aside"},
    {"times", recordings_times, NULL, "See Choice.", NULL},
    {"count", recordings_get, NULL, "How many are kept.", "count"},
    {NULL}};

PyTypeObject npa_recordings_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "npaccel._native.Recordings",
    .tp_basicsize = sizeof(npa_recordings),
    .tp_dealloc = recordings_free,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "What a block's requests were, at earlier times.",
    .tp_getset = recordings_getset,
    .tp_new = recordings_new,
};
