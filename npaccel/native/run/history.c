/* history.c: what the latest flushes ran, for explain() and profiles. */
#include "run/run.h"
#include "run/flush.h"

#include <string.h>

/* Sites of recent flushes, for explain(); replaced ones are released with the GIL. */
typedef struct {
    uint64_t serial;
    PyObject *program;
    npa_moved moved; /* to devices and back for it */
    struct npa_store *there;
    uint64_t number;
    int n;
    npa_asked *asked;
} npa_flush_record;
#define HISTORY 16
static npa_flush_record history[HISTORY];

/* Its lines go to its program, which may know none yet. */
static void forget(npa_flush_record *h)
{
    npa_ledger *ledger = npa_program_ledger((npa_program *)h->program);
    if (ledger != NULL && npa_ledger_keep(ledger, h->asked, h->n)) {
        h->asked = NULL, h->n = 0;
    }
    for (int i = 0; i < h->n; i++) {
        npa_drop_later(h->asked[i].code);
    }
    npa_drop_later(h->program);
}

/* What explain() will ask of these requests; their references go, but for those it keeps. */
void npa_remember(PyObject *program, int done)
{
    npa_flush_record *h = &history[npa_q.serial % HISTORY];
    forget(h);
    h->program = program;
    h->serial = npa_q.serial;
    npa_moved before = npa_q.run.moved, now = npa_count.moved;
    h->moved = (npa_moved){now.bytes_up - before.bytes_up, now.bytes_down - before.bytes_down,
                           now.up_ns - before.up_ns, now.down_ns - before.down_ns};
    h->there = npa_q.run.there, h->number = npa_q.run.number;
    npa_q.run.there = NULL;
    npa_asked *asked = realloc(h->asked, sizeof *asked * (size_t)done + 1);
    h->asked = asked != NULL ? asked : h->asked;
    h->n = asked != NULL ? done : 0;
    for (int i = 0; i < done; i++) {
        npa_request *r = (npa_request *)(npa_q.arena + npa_q.at[i]);
        if (i < h->n) {
            h->asked[i] = (npa_asked){r->rule, r->code, r->lasti};
        } else {
            npa_drop_later(r->code);
        }
        npa_drop_later(r->globals);
    }
}

void npa_note_home(uint64_t serial, uint64_t ns)
{
    npa_flush_record *h = &history[serial % HISTORY];
    if (h->serial == serial && h->program != NULL) {
        npa_program_note_home((npa_program *)h->program, ns);
    }
}

/* A copy of what is remembered of a run; NULL: no memory. */
static npa_asked *copied(const npa_flush_record *h)
{
    npa_asked *copy = malloc(sizeof *copy * (size_t)h->n + 1);
    for (int i = 0; copy != NULL && i < h->n; i++) {
        copy[i] = h->asked[i];
        Py_XINCREF(copy[i].code);
    }
    return copy;
}

void npa_history_lend(void)
{
    for (int i = 0; i < HISTORY; i++) {
        npa_ledger *ledger = npa_program_ledger((npa_program *)history[i].program);
        npa_asked *copy = ledger != NULL && ledger->asked == NULL ? copied(&history[i]) : NULL;
        if (copy != NULL) {
            npa_ledger_keep(ledger, copy, history[i].n);
        }
    }
}

PyObject *npa_history_entry(uint64_t serial)
{
    npa_lock(); /* a run in flight may end meanwhile */
    npa_flush_record found = history[serial % HISTORY], *h = &found;
    bool known = npa_q.serial != 0 && h->serial == serial && h->asked != NULL;
    h->asked = known ? copied(h) : NULL;
    Py_XINCREF(known ? h->program : NULL);
    npa_unlock();
    if (!known) {
        Py_RETURN_NONE;
    }
    PyObject *told = h->asked != NULL ? npa_asked_told(h->asked, h->n) : PyErr_NoMemory();
    for (int i = 0; h->asked != NULL && i < h->n; i++) {
        Py_XDECREF(h->asked[i].code);
    }
    free(h->asked);
    PyObject *entry = told == NULL ? NULL
                                   : Py_BuildValue("(KON(KKdd)OK)", (unsigned long long)h->serial,
                                                   h->program ? h->program : Py_None, told,
                                                   (unsigned long long)h->moved.bytes_up,
                                                   (unsigned long long)h->moved.bytes_down,
                                                   1e-9 * (double)h->moved.up_ns,
                                                   1e-9 * (double)h->moved.down_ns,
                                                   h->there ? (PyObject *)h->there : Py_None,
                                                   (unsigned long long)h->number);
    Py_XDECREF(h->program);
    return entry;
}
