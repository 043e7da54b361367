/* ledger.c: how often each program ran since counts were reset, how long, and from which lines; for
 * explain().
 *
 * Counted where a run ends, with the queue's lock. Lines come from the runs that flush.c remembers:
 * what that forgets a program keeps, once. So a run costs two additions, and a comparison of its
 * lines. */
#include "run/run.h"

#include <stdatomic.h>
#include <stdlib.h>

static npa_ledger *first; /* of those of all programs; with the GIL */
static _Atomic uint64_t epoch = 1; /* of counts: one more for each reset */
/* Of programs that are gone, or never were known. */
static _Atomic uint64_t other_runs, other_ns;

void npa_ledger_begin(npa_ledger *l, PyObject *program)
{
    l->program = program;
    l->next = first, l->at = &first;
    if (first != NULL) {
        first->at = &l->next;
    }
    first = l;
}

static void count_other(uint64_t runs, uint64_t ns)
{
    atomic_fetch_add(&other_runs, runs), atomic_fetch_add(&other_ns, ns);
}

void npa_ledger_end(npa_ledger *l)
{
    if (l->at != NULL) {
        *l->at = l->next;
        if (l->next != NULL) {
            l->next->at = l->at;
        }
    }
    if (l->epoch == epoch) {
        count_other(l->runs, l->ns);
    }
    for (int i = 0; i < l->n; i++) {
        Py_XDECREF(l->asked[i].code);
    }
    free(l->asked);
}

void npa_ledger_count(npa_ledger *l, uint64_t ns)
{
    if (l == NULL) {
        count_other(1, ns);
        return;
    }
    if (l->epoch != epoch) {
        l->epoch = epoch, l->runs = l->ns = 0;
    }
    l->runs++, l->ns += ns;
}

bool npa_ledger_keep(npa_ledger *l, npa_asked *asked, int n)
{
    if (l->asked == NULL && asked != NULL) {
        l->asked = asked, l->n = n;
        return true;
    }
    for (int i = 0; !l->elsewhere && i < n && i < l->n; i++) {
        l->elsewhere = l->asked[i].code != asked[i].code || l->asked[i].lasti != asked[i].lasti;
    }
    return false;
}

void npa_ledger_pass(npa_ledger *from, npa_ledger *to)
{
    if (from->epoch == epoch) {
        if (to->epoch != epoch) {
            to->epoch = epoch, to->runs = to->ns = 0;
        }
        to->runs += from->runs, to->ns += from->ns;
        from->runs = from->ns = 0;
    }
}

void npa_ledger_reset(void)
{
    atomic_fetch_add(&epoch, 1);
    atomic_store(&other_runs, 0), atomic_store(&other_ns, 0);
}

/* [(rule's number, code, lasti)] */
PyObject *npa_asked_told(const npa_asked *asked, int n)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < n; i++) {
        npa_append(&list, Py_BuildValue("(IOi)", (unsigned)asked[i].rule->id,
                                        asked[i].code != NULL ? asked[i].code : Py_None,
                                        (int)asked[i].lasti));
    }
    return list;
}

/* A program that ran, as it was at one moment; the reference is ours. */
typedef struct {
    npa_ledger *of;
    uint64_t runs, ns;
    const npa_asked *asked; /* which stay as they are */
    int n;
    bool elsewhere;
} entry;

/* With the GIL. All that ran: *n of them; NULL: no memory. */
static entry *entries(int *n)
{
    npa_lock(); /* a run in flight may end meanwhile */
    npa_history_lend();
    int most = 0;
    for (const npa_ledger *l = first; l != NULL; l = l->next) {
        most += l->epoch == epoch;
    }
    entry *all = calloc((size_t)most + 1, sizeof *all);
    for (npa_ledger *l = first; all != NULL && l != NULL; l = l->next) {
        if (l->epoch == epoch && l->runs > 0) { /* none: another program has its counts */
            all[(*n)++] =
                (entry){l, l->runs, l->ns, l->asked, l->asked != NULL ? l->n : 0, l->elsewhere};
            Py_INCREF(l->program);
        }
    }
    npa_unlock();
    return all;
}

static PyObject *entry_told(const entry *e)
{
    return Py_BuildValue("(OKdNO)", e->of->program, (unsigned long long)e->runs,
                         1e-9 * (double)e->ns, npa_asked_told(e->asked, e->n),
                         e->elsewhere ? Py_True : Py_False);
}

/* ([(program, runs, seconds, [(rule, code, lasti)], whether other lines ran it, too)], runs,
 * seconds of others) */
PyObject *npa_ledger_told(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    int n = 0;
    entry *all = entries(&n);
    PyObject *list = all != NULL ? PyList_New(0) : PyErr_NoMemory();
    for (int i = 0; list != NULL && i < n; i++) {
        npa_append(&list, entry_told(&all[i]));
    }
    for (int i = 0; i < n; i++) {
        Py_DECREF(all[i].of->program);
    }
    free(all);
    return list == NULL ? NULL
                        : Py_BuildValue("(NKd)", list, (unsigned long long)atomic_load(&other_runs),
                                        1e-9 * (double)atomic_load(&other_ns));
}
