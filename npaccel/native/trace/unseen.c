/* unseen.c: requests whose results nobody sees any more: no array shows them, and nothing that is
 * to run reads them. They run for what they may warn of; not at all where nobody would hear that.
 *
 *     y = a / b      nobody has y: runs for its warnings
 *     y = sqrt(a)    the same, but its line has shown its warning: Python would not show it again
 *
 * Plans find the same (ir/passes/liveness.py), view by view; here a buffer counts as a whole. */
#include "trace/trace.h"

#include <stdlib.h>

enum { MOST_ASKED = 32, REMEMBERED = 256 };

static npa_request *request(const npa_queue *q, int i)
{
    return (npa_request *)(q->arena + q->at[i]);
}

bool npa_walk_back(const npa_queue *q, int requests, npa_needed *needed, uint8_t *told)
{
    bool *matters = malloc(sizeof *matters * (size_t)(q->nbuffers + 1));
    for (int b = 0; matters != NULL && b < q->nbuffers; b++) {
        npa_buffer *buffer = q->buffers[b];
        matters[b] = buffer->range == NULL || buffer->later || !atomic_load(&buffer->dead);
    }
    for (int i = requests - 1; matters != NULL && i >= 0; i--) {
        npa_request *r = request(q, i);
        bool seen = false;
        for (int k = r->nin; k < r->nin + r->nout; k++) {
            seen |= matters[npa_operand_at(r, k)->buffer];
        }
        told[i] = needed(r, seen);
        for (int k = 0; told[i] != NPA_FOR_NOTHING && k < npa_operand_count(r); k++) {
            int buffer = npa_operand_at(r, k)->buffer;
            if (buffer >= 0 && (k < r->nin || k >= r->nin + r->nout)) {
                matters[buffer] = true;
            }
        }
    }
    free(matters);
    return matters != NULL;
}

static uint8_t why_it_runs(const npa_request *r, bool seen)
{
    return seen ? NPA_FOR_VALUES : npa_heard(r, 15) ? NPA_FOR_WARNINGS : NPA_FOR_NOTHING;
}

bool npa_find_unseen(const npa_queue *q, int requests, uint8_t *why)
{
    return npa_walk_back(q, requests, why_it_runs, why);
}

/* ------------------------------------------------------------------------- shown once already */

/* Where nothing was shown when it was asked, and how much the module had shown of all lines
 * then. */
static struct { PyObject *code; npa_rule *rule; int32_t lasti; Py_ssize_t size; } asked[REMEMBERED];

static size_t place_of(const npa_request *r)
{
    uint64_t h = ((uintptr_t)r->code >> 4) ^ ((uintptr_t)r->rule >> 4) * 31 ^
                 (uint32_t)r->lasti * 127u;
    return (size_t)(h * 0x9E3779B97F4A7C15u >> 40) % REMEMBERED;
}

/* How many warnings the module of the request's line has shown, about. */
static Py_ssize_t shown_by_module(const npa_request *r)
{
    static PyObject *name;
    name = name != NULL ? name : PyUnicode_InternFromString("__warningregistry__");
    PyObject *globals = r->globals;
    PyObject *registry = globals != NULL && PyDict_CheckExact(globals) && name != NULL
                             ? PyDict_GetItemWithError(globals, name) : NULL;
    return registry != NULL && PyDict_CheckExact(registry) ? PyDict_GET_SIZE(registry) : 0;
}

/* Casts on the way in and out may warn of more than the operation does. */
static bool casts(const npa_request *r)
{
    bool any = false;
    for (int k = 0; k < r->nin + r->nout; k++) {
        any |= npa_operand_at((npa_request *)r, k)->type != r->rule->loop_type[k];
    }
    return any;
}

static bool is_worth_asking(const npa_request *r)
{
    Py_ssize_t size = shown_by_module(r);
    size_t i = place_of(r);
    bool known = asked[i].code == r->code && asked[i].rule == r->rule &&
                 asked[i].lasti == r->lasti && asked[i].size == size;
    return size > 0 && !known && r->rule->kind == NPA_MAP && r->code != NULL && !casts(r);
}

/* What Python is asked of a request; with references. */
typedef struct {
    npa_rule *rule;
    PyObject *code, *globals, *scope;
    int lasti, kinds, place;
} question;

/* Of those that run for warnings only. With the lock. */
static int find_questions(question *questions)
{
    uint8_t *why = malloc((size_t)npa_q.nrequests + 1);
    bool found = why != NULL && npa_find_unseen(&npa_q, npa_q.nrequests, why);
    int n = 0;
    for (int i = 0; found && i < npa_q.nrequests && n < MOST_ASKED; i++) {
        npa_request *r = request(&npa_q, i);
        if (why[i] == NPA_FOR_WARNINGS && is_worth_asking(r)) {
            PyObject *scope = npa_scope_of(i);
            questions[n++] = (question){
                r->rule, Py_NewRef(r->code), Py_NewRef(r->globals),
                Py_NewRef(scope != NULL ? scope : Py_None), r->lasti, npa_heard(r, 15), i};
        }
    }
    free(why);
    return n;
}

/* Per question whether its request would not be heard: a list, or NULL with an exception. */
static PyObject *ask(const question *questions, int n)
{
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < n; i++) {
        const question *q = &questions[i];
        npa_append(&list, Py_BuildValue("(iOOiOO)", q->kinds, (PyObject *)q->rule, q->code,
                                        q->lasti, q->globals, q->scope));
    }
    PyObject *answers = list != NULL ? npa_without_us(PyObject_CallOneArg(npa_hook_shown, list))
                                     : NULL;
    Py_XDECREF(list);
    return answers;
}

/* Whoever would not be heard needs no errstate. With the lock. */
static void hush(PyObject *answers, const question *questions)
{
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(answers); n++) {
        npa_request *r = request(&npa_q, questions[n].place);
        size_t i = place_of(r);
        if (PyList_GET_ITEM(answers, n) == Py_True) {
            r->errstate &= (uint16_t)~0xff;
        } else {
            asked[i].code = r->code, asked[i].rule = r->rule, asked[i].lasti = r->lasti;
            asked[i].size = shown_by_module(r);
        }
    }
}

int npa_hush_unseen(void)
{
    question questions[MOST_ASKED];
    npa_lock();
    npa_collect_dead();
    uint64_t seen = npa_queue_generation();
    int n = npa_q.unread && !npa_check_mode ? find_questions(questions) : 0;
    npa_unlock();
    PyObject *answers = n > 0 ? ask(questions, n) : NULL;
    if (answers != NULL) {
        npa_lock();
        if (npa_queue_generation() == seen) { /* else they are asked again, or have run */
            hush(answers, questions);
        }
        npa_unlock();
    }
    for (int i = 0; i < n; i++) {
        Py_DECREF(questions[i].code), Py_DECREF(questions[i].globals),
            Py_DECREF(questions[i].scope);
    }
    Py_XDECREF(answers);
    return n > 0 && answers == NULL ? -1 : 0;
}
