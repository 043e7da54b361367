/* warn.c: floating-point warnings that evaluation found, kept until Python may issue them.
 *
 * A warning belongs to the warning filters that were in force when its request was recorded. When
 * the filters are about to change, requests that may still warn are given a scope (a Python object
 * that remembers the filters), and go on waiting:
 *
 *     requests   0 ......... 11 12 ...... 30 31 ......... 40
 *                   scope A        none      no scope yet
 *                (may warn)    (can't warn)
 */
#include "trace/trace.h"

#include <stdlib.h>

/* Something to warn about. */
typedef struct {
    npa_rule *rule;
    PyObject *code, *globals; /* owned */
    PyObject *scope;          /* borrowed; NULL: the filters in force */
    int32_t lasti;
    int kinds;
    uint16_t errstate;
} warning;

static struct {
    warning *at; /* found while evaluating, issued at the next safe point */
    int n, cap;
} late;

/* Scopes of late warnings whose requests are over. Owned. */
static struct {
    PyObject **at;
    int n, cap;
} held;

/* Requests of a queue up to `end`, from the end of the mark before, have this scope. */
typedef struct npa_mark { int end; PyObject *scope; /* owned; NULL: they can't warn */ } mark;

/* Which kinds the errstate at recording wants to hear of. */
int npa_heard(const npa_request *r, int kinds)
{
    int result = 0;
    for (int i = 0; i < 4 && r->rule->may_warn; i++) {
        result |= (r->errstate >> (2 * i) & 3) == 1 ? kinds & 1 << i : 0;
    }
    return result;
}

static npa_request *request(int i) { return (npa_request *)(npa_q.arena + npa_q.at[i]); }

/* With the lock, perhaps without the GIL: the queue's own references to code and globals pass to
 * the warnings; scopes are borrowed until npa_end_scopes. */
void npa_note_warnings(const uint8_t *kinds)
{
    for (int i = 0, m = 0; i < npa_q.nrequests; i++) {
        while (m < npa_q.marks.n && npa_q.marks.at[m].end <= i) {
            m++;
        }
        npa_request *r = request(i);
        int wanted = kinds[i] ? npa_heard(r, kinds[i]) : 0;
        if (wanted && npa_grow(&late.at, late.n, &late.cap, sizeof *late.at)) {
            late.at[late.n++] =
                (warning){r->rule,           r->code,
                          r->globals,        m < npa_q.marks.n ? npa_q.marks.at[m].scope : NULL,
                          r->lasti,          wanted,
                          r->errstate & 0xff};
            r->code = r->globals = NULL;
        }
    }
}

PyObject *npa_scope_of(int request)
{
    int m = 0;
    while (m < npa_q.marks.n && npa_q.marks.at[m].end <= request) {
        m++;
    }
    return m < npa_q.marks.n ? npa_q.marks.at[m].scope : NULL;
}

static void end_scope(PyObject *scope)
{
    if (scope == NULL) {
        return;
    }
    if (late.n > 0 && npa_grow(&held.at, held.n, &held.cap, sizeof *held.at)) {
        held.at[held.n++] = scope;
    } else {
        npa_drop_later(scope); /* out of memory: warnings in it lose their filters */
    }
}

/* The first `done` requests are over; scopes live on with the warnings that were found in them. */
void npa_end_scopes(int done)
{
    int kept = 0;
    for (int m = 0; m < npa_q.marks.n; m++) {
        if (npa_q.marks.at[m].end > done) {
            npa_q.marks.at[kept++] = (mark){npa_q.marks.at[m].end - done, npa_q.marks.at[m].scope};
        } else {
            end_scope(npa_q.marks.at[m].scope);
        }
    }
    npa_q.marks.n = kept;
}

void npa_trim_scopes(void)
{
    for (int m = 0; m < npa_q.marks.n; m++) {
        npa_q.marks.at[m].end = npa_q.marks.at[m].end < npa_q.nrequests ? npa_q.marks.at[m].end
                                                                        : npa_q.nrequests;
    }
}

/* ----------------------------------------------------------------------------- with the GIL */

bool npa_warnings_found(void) { return late.n > 0; }

static PyObject *as_tuple(const warning *w)
{
    return Py_BuildValue("(iOOiOiO)", w->kinds, (PyObject *)w->rule, w->code ? w->code : Py_None,
                         (int)w->lasti, w->globals ? w->globals : Py_None, (int)w->errstate,
                         w->scope ? w->scope : Py_None);
}

/* Call the warn hook with what evaluation found; it may raise. */
int npa_issue_warnings(void)
{
    if (late.n == 0) {
        return 0;
    }
    npa_lock();
    warning *mine = late.at;
    PyObject **scopes = held.at;
    int n = late.n, nscopes = held.n;
    late.at = NULL, late.n = late.cap = 0;
    held.at = NULL, held.n = held.cap = 0;
    npa_unlock();
    PyObject *list = PyList_New(0);
    for (int i = 0; i < n; i++) {
        npa_append(&list, list == NULL ? NULL : as_tuple(&mine[i]));
        Py_XDECREF(mine[i].code);
        Py_XDECREF(mine[i].globals);
    }
    for (int i = 0; i < nscopes; i++) {
        Py_DECREF(scopes[i]);
    }
    free(mine), free(scopes);
    PyObject *done = list != NULL ? npa_without_us(PyObject_CallOneArg(npa_hook_warn, list)) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Whether requests from the first one on, or warnings that were found, may be heard. */
static bool may_warn_from(const npa_queue *q, int first)
{
    for (int i = first; i < q->nrequests; i++) {
        if (npa_heard((npa_request *)(q->arena + q->at[i]), 15)) {
            return true;
        }
    }
    return false;
}

static int first_unmarked(const npa_queue *q)
{
    return q->marks.n > 0 ? q->marks.at[q->marks.n - 1].end : 0;
}

bool npa_may_warn(bool without_scope)
{
    npa_lock();
    bool found = late.n > 0 && !without_scope;
    for (int i = 0; i < late.n; i++) {
        found |= late.at[i].scope == NULL;
    }
    for (npa_queue *q = npa_next_queue(NULL); q != NULL && !found; q = npa_next_queue(q)) {
        found = may_warn_from(q, without_scope ? first_unmarked(q) : 0);
    }
    npa_unlock();
    return found;
}

/* Its requests that have none yet are given this scope; there is room. */
static void mark_rest(npa_queue *q, PyObject *scope)
{
    int first = first_unmarked(q);
    if (first < q->nrequests) {
        bool wanted = may_warn_from(q, first);
        q->marks.at[q->marks.n++] = (mark){q->nrequests, wanted ? Py_NewRef(scope) : NULL};
    }
}

/* All that has none yet is given this scope. False: out of memory, and nothing was given it. */
static bool give(PyObject *scope)
{
    bool room = npa_grow(&held.at, held.n, &held.cap, sizeof *held.at);
    for (npa_queue *q = npa_next_queue(NULL); q != NULL && room; q = npa_next_queue(q)) {
        room = npa_grow(&q->marks.at, q->marks.n, &q->marks.cap, sizeof *q->marks.at);
    }
    for (int i = 0; room && i < late.n; i++) {
        late.at[i].scope = late.at[i].scope ? late.at[i].scope : scope;
    }
    if (room && late.n > 0) {
        held.at[held.n++] = Py_NewRef(scope);
    }
    for (npa_queue *q = npa_next_queue(NULL); q != NULL && room; q = npa_next_queue(q)) {
        mark_rest(q, scope);
    }
    return room;
}

int npa_give_scope(PyObject *scope)
{
    npa_lock();
    bool given = give(scope);
    npa_unlock();
    return given ? 0 : (PyErr_NoMemory(), -1);
}
