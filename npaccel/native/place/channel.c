/* channel.c: memory that lies on a cluster's workers, reached through the process that drives them.
 *
 *     this process ──socket──► driver ──► workers
 *
 * To the core it is a device's memory (resident.c): pieces are created, written, read, released.
 * What runs there is no kernel but a queue's first requests, see run/cluster.c. One question is
 * under way at a time, with the lock. Nothing here needs Python, so a fault can be served. The
 * socket's end is the driver's end. */
#include "place/channel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A driver that has ended, or that said no. */
enum { GONE = -10010, REFUSED = -10011 };

typedef struct {
    npa_channel *channel;
    uint64_t number, map, size;
} piece;

/* All that precedes the released pieces' numbers and the body; see cluster/messages.py. */
typedef struct {
    uint32_t what, released;
    uint64_t number, map, total, low, size, body;
} question;
typedef struct {
    uint32_t status, losses;
    uint64_t body;
} answer;

/* With the lock. `into`: where the answer's body goes if it has `room` bytes, as that of a read
 * has; else it is kept. */
static bool converse(npa_channel *c, question *q, npa_part *body, int n, char *into,
                     size_t room, answer *a)
{
    npa_part parts[2 + NPA_CHANNEL_PARTS] = {
        {q, sizeof *q}, {c->released, sizeof *c->released * c->nreleased}};
    q->released = (uint32_t)c->nreleased;
    for (int i = 0; i < n; i++) {
        parts[2 + i] = body[i];
        q->body += body[i].size;
    }
    if (!npa_socket_send(c->socket, parts, 2 + n) ||
        !npa_socket_receive(c->socket, a, sizeof *a)) {
        return false;
    }
    c->nreleased = 0;
    free(c->text), c->text = NULL, c->text_size = 0;
    if (into != NULL && a->body == room && a->status == 0) {
        return npa_socket_receive(c->socket, into, room);
    }
    c->text = malloc(a->body + 1);
    if (c->text == NULL || !npa_socket_receive(c->socket, c->text, a->body)) {
        return false;
    }
    c->text_size = a->body;
    return true;
}

/* An answer that something is lost says with what. */
static void note_why(npa_channel *c, const answer *a)
{
    if (c->broken) {
        snprintf(c->why, sizeof c->why, "the process that drives the cluster has ended");
    } else if (a->status == NPA_CHANNEL_LOST && c->text != NULL) {
        snprintf(c->why, sizeof c->why, "%.*s", (int)c->text_size, c->text);
    }
}

static int32_t ask(npa_channel *c, question *q, npa_part *body, int n, char *into, size_t room)
{
    answer a = {0};
    if (!c->broken && c->pid == npa_process_here()) {
        c->broken = !converse(c, q, body, n, into, room, &a);
        note_why(c, &a);
    }
    if (c->broken || c->pid != npa_process_here()) {
        return GONE;
    }
    c->news |= a.losses != c->losses;
    c->losses = a.losses;
    return (int32_t)a.status;
}

/* ---------------------------------------------------------------------- as a device's functions */

static void *create(void *context, uint64_t flags, size_t size, void *host, int32_t *error)
{
    (void)flags, (void)host;
    npa_channel *c = context;
    piece *p = c->broken ? NULL : malloc(sizeof *p);
    *error = p != NULL ? 0 : GONE;
    if (p != NULL) {
        *p = (piece){c, ++c->pieces, 0, size};
    }
    return p;
}

/* The driver hears of it with the next question. */
static int32_t release(void *object)
{
    piece *p = object;
    npa_channel *c = p->channel;
    if (c->nreleased == c->released_cap) {
        size_t cap = c->released_cap ? 2 * c->released_cap : 64;
        uint64_t *grown = realloc(c->released, sizeof *grown * cap);
        c->released = grown != NULL ? grown : c->released;
        c->released_cap = grown != NULL ? cap : c->released_cap;
    }
    if (c->nreleased < c->released_cap) { /* else it stays there until the end */
        c->released[c->nreleased++] = p->number;
    }
    free(p);
    return 0;
}

static int32_t read_piece(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                          void *host, uint32_t nevents, void *const *events, void **event)
{
    (void)queue, (void)wait, (void)nevents, (void)events, (void)event;
    piece *p = memory;
    question q = {.what = NPA_CHANNEL_READ, .number = p->number, .map = p->map, .total = p->size,
                  .low = offset, .size = size};
    return ask(p->channel, &q, NULL, 0, host, size);
}

static int32_t write_piece(void *queue, void *memory, uint32_t wait, size_t offset, size_t size,
                           const void *host, uint32_t nevents, void *const *events, void **event)
{
    (void)queue, (void)wait, (void)nevents, (void)events, (void)event;
    piece *p = memory;
    question q = {.what = NPA_CHANNEL_WRITE, .number = p->number, .map = p->map, .total = p->size,
                  .low = offset, .size = size};
    npa_part body = {host, size};
    return ask(p->channel, &q, &body, 1, NULL, 0);
}

static int32_t nothing(void *queue)
{
    (void)queue;
    return 0;
}

/* ------------------------------------------------------------------------------ what runs there */

npa_channel *npa_channel_of(const npa_store *s)
{
    return s != NULL && s->channel != NULL && !s->channel->broken && npa_store_here(s)
               ? s->channel : NULL;
}

void npa_channel_describe(void *memory, size_t size, uint64_t map)
{
    piece *p = memory;
    p->size = size, p->map = map;
}

void npa_channel_row(void *memory, uint64_t *row)
{
    const piece *p = memory;
    row[0] = p != NULL ? p->number : 0, row[1] = p != NULL ? p->map : 0;
}

int32_t npa_channel_run(npa_channel *c, npa_part *body, int n, uint8_t *kinds, size_t requests)
{
    question q = {.what = NPA_CHANNEL_RUN, .size = requests};
    return ask(c, &q, body, n, (char *)kinds, requests);
}

static bool is_lost_there(npa_channel *c, const struct npa_copy *copy)
{
    const piece *p = copy->at.memory;
    question q = {.what = NPA_CHANNEL_CHECK, .number = p->number};
    return ask(c, &q, NULL, 0, NULL, 0) != 0;
}

/* What the host has, too, is there no longer; of the rest whoever needs it is told. */
void npa_channel_settle(npa_store *s)
{
    npa_channel *c = s->channel;
    if (c == NULL || !(c->news || (c->broken && !c->told))) {
        return;
    }
    c->news = false, c->told = c->broken;
    for (struct npa_copy *copy = s->copies, *after; copy != NULL; copy = after) {
        after = copy->after;
        if (!c->broken && !is_lost_there(c, copy)) {
            continue;
        }
        if (npa_span_empty(copy->newer)) {
            npa_copy_drop(copy->buffer);
        } else {
            copy->buffer->unreachable = npa_losses = true;
        }
    }
}

/* --------------------------------------------------------------------------------- for Python */

npa_channel *npa_channel_new(int socket, void **functions)
{
    npa_channel *c = calloc(1, sizeof *c);
    if (c != NULL) {
        c->socket = socket, c->pid = npa_process_here();
        functions[CREATE] = (void *)create, functions[RELEASE] = (void *)release;
        functions[READ] = (void *)read_piece, functions[WRITE] = (void *)write_piece;
        functions[FINISH] = functions[FLUSH] = (void *)nothing;
    }
    return c;
}

PyObject *npa_channel_call(npa_store *s, PyObject *body)
{
    char *bytes;
    Py_ssize_t size;
    if (s->channel == NULL || PyBytes_AsStringAndSize(body, &bytes, &size) < 0) {
        return s->channel == NULL ? PyErr_Format(PyExc_TypeError, "this is no cluster") : NULL;
    }
    npa_channel *c = s->channel;
    question q = {.what = NPA_CHANNEL_CALL};
    npa_part part = {bytes, (size_t)size};
    npa_lock();
    PyThreadState *mine = PyEval_SaveThread();
    int32_t status = ask(c, &q, &part, 1, NULL, 0);
    char *text = c->text;
    size_t length = c->text_size;
    c->text = NULL, c->text_size = 0; /* to settle is to ask again */
    npa_channel_settle(s);
    npa_unlock();
    PyEval_RestoreThread(mine);
    PyObject *made = status == GONE
        ? PyErr_Format(PyExc_ConnectionError, "the process that drives the cluster has ended")
        : Py_BuildValue("(iy#)", (int)status, text != NULL ? text : "", (Py_ssize_t)length);
    free(text);
    return made;
}

void npa_channel_close(npa_store *s)
{
    npa_channel *c = s->channel;
    npa_lock();
    if (c != NULL) {
        c->closed = true;
    }
    if (c != NULL && !c->broken && c->pid == npa_process_here()) {
        enum npa_home before = npa_home_because(NPA_HOME_ALL);
        for (struct npa_copy *copy = s->copies, *after; copy != NULL; copy = after) {
            after = copy->after;
            npa_copy_home(copy->buffer);
        }
        npa_home_because(before);
        c->broken = true;
        npa_socket_close(c->socket);
    }
    npa_unlock();
}
