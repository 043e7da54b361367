/* lost.c: what lay on a device alone when the device failed, and what was to be computed from it.
 *
 *     unreachable   the device does not give it back; it is asked again when somebody needs it
 *     lost          a result that was to be computed from such data, and will not be: it is hidden
 *
 * Requests that need either are skipped and their results are lost; all others run. Who looks at a
 * lost array is told. With the lock but for npa_lost_error. */
#include "place/channel.h"

bool npa_losses; /* there was one, ever */

static bool is_lost(const npa_buffer *b) { return b->lost != NULL || b->unreachable; }

static npa_store *device_of(const npa_buffer *b)
{
    return b->lost != NULL ? b->lost : npa_copy_store(b);
}

bool npa_lost_pending(void)
{
    bool found = false;
    for (int i = 0; npa_losses && i < npa_q.nbuffers; i++) {
        npa_buffer *b = npa_q.buffers[i];
        if (b->unreachable) {
            npa_copy_home(b);
        }
        found |= is_lost(b);
    }
    return found;
}

/* The first of these that is not there, or NULL. */
static npa_buffer *missing(npa_queue *q, const int32_t *buffers, int n)
{
    for (int i = 0; i < n; i++) {
        if (is_lost(q->buffers[buffers[i]])) {
            return q->buffers[buffers[i]];
        }
    }
    return NULL;
}

bool npa_lost_step(npa_queue *q, const int32_t *used, int nused, const int32_t *written,
                   int nwritten)
{
    npa_buffer *source = npa_losses ? missing(q, used, nused) : NULL;
    for (int i = 0; source != NULL && i < nwritten; i++) {
        npa_buffer *b = q->buffers[written[i]];
        b->lost = b->lost != NULL ? b->lost : device_of(source);
    }
    return source != NULL;
}

bool npa_lost_request(npa_queue *q, int index)
{
    npa_request *r = (npa_request *)(q->arena + q->at[index]);
    int32_t used[NPA_MAX_ARGS] = {0}, written[NPA_MAX_ARGS] = {0};
    int nused = 0, nwritten = 0;
    for (int k = 0; npa_losses && k < npa_operand_count(r); k++) {
        int32_t buffer = npa_operand_at(r, k)->buffer;
        if (buffer >= 0) {
            used[nused++] = buffer;
            if (k >= r->nin && k < r->nin + r->nout) {
                written[nwritten++] = buffer;
            }
        }
    }
    if (!npa_lost_step(q, used, nused, written, nwritten)) {
        return false;
    }
    for (int i = 0; i < nused; i++) {
        q->buffers[used[i]]->inherited = NULL; /* an attempt at it that failed */
    }
    return true;
}

void npa_lost_results(npa_queue *q, const npa_access *accesses, int n, npa_store *s)
{
    for (int k = 0; k < n; k++) {
        npa_buffer *b = q->buffers[accesses[k].buffer];
        if (accesses[k].written) {
            npa_copy_drop(b);
            b->lost = s;
        }
    }
    npa_losses = true;
}

bool npa_lost_hide(npa_buffer *b)
{
    npa_copy_drop(b);
    b->fresh = false;
    return npa_range_withdraw(b->range) == 0;
}

const char *npa_lost_why(const npa_buffer *b)
{
    const npa_store *store = device_of(b);
    return store != NULL && store->channel != NULL ? store->channel->why : "";
}

/* With the GIL, without the lock. */
int npa_lost_error(PyArrayObject *array, const npa_buffer *b)
{
    npa_store *store = device_of(b);
    const char *why = npa_lost_why(b);
    PyObject *shape = PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array));
    PyObject *device = store != NULL ? npa_store_name(store) : PyUnicode_FromString("a device");
    if (shape != NULL && device != NULL) {
        PyErr_Format(
            PyExc_RuntimeError,
            b->lost != NULL
                ? "this array (shape %R, %S) was not computed: it needs data that lay on %U "
                  "alone, which failed%s%s"
                : "this array (shape %R, %S) lies on %U alone, which does not give it back%s%s",
            shape, PyArray_DESCR(array), device, *why ? ": " : "", why);
    }
    Py_XDECREF(shape), Py_XDECREF(device);
    npa_shortage_tell(&(npa_shortage){.rule = NULL});
    return -1;
}
