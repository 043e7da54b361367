/* lower.c: a group as instructions on blocks.
 *
 * for each request:  LOAD, CAST what it reads, if it must be; the operation; CAST, STORE what it
 * writes
 *
 * A slot is scratch memory for one value per element of a block. */
#include "run/run.h"
#include "run/group.h"

#include <string.h>

/* Bytes of slots and of what is read and written directly that should stay in the first caches, and
 * bounds of a block. Half as many: calls are too short; twice as many: slots leave the first
 * cache. */
enum { BLOCK_BYTES = 48 << 10, LEAST_BLOCK = 512, MOST_BLOCK = 32768, GRANULE = 64 };

typedef struct {
    npa_group *g;
    npa_tape *tape;
    int *spare; /* slots that are free */
    int nspare, spare_cap;
    int ending[2 * NPA_MAX_ARGS + 2]; /* slots that are free after the request at hand */
    int nending;
    int request;
    bool failed;
} lowering;

/* ------------------------------------------------------------------------------------- slots */

static int new_slot(lowering *l, int size)
{
    npa_tape *t = l->tape;
    for (int i = l->nspare - 1; i >= 0; i--) {
        if (t->slot_size[l->spare[i]] == size) {
            int slot = l->spare[i];
            l->spare[i] = l->spare[--l->nspare];
            return slot;
        }
    }
    if (!npa_grow(&t->slot_size, t->nslots, &t->slots_cap, sizeof *t->slot_size) ||
        !npa_grow(&l->spare, t->nslots, &l->spare_cap, sizeof *l->spare)) {
        l->failed = true;
        return 0;
    }
    t->slot_size[t->nslots] = size;
    return t->nslots++;
}

static void end_slot(lowering *l, int slot) { l->ending[l->nending++] = slot; }

static void end_request(lowering *l)
{
    for (int i = 0; i < l->nending; i++) {
        l->spare[l->nspare++] = l->ending[i];
    }
    l->nending = 0;
}

/* ------------------------------------------------------------------------------ instructions */

static npa_instruction *add(lowering *l, enum npa_action action, int n)
{
    static npa_instruction nothing;
    npa_tape *t = l->tape;
    if (!npa_grow(&t->list, t->n, &t->cap, sizeof *t->list)) {
        l->failed = true;
        return &nothing;
    }
    npa_instruction *i = &t->list[t->n++];
    memset(i, 0, sizeof *i);
    i->action = (uint8_t)action, i->n = (uint8_t)n, i->request = (int16_t)l->request;
    return i;
}

static npa_ref slot_ref(int slot) { return (npa_ref){.place = NPA_SLOT, .index = slot}; }

static npa_ref view_ref(const npa_group *g, int view)
{
    bool still = g->views[view].mode == NPA_STILL;
    return (npa_ref){.place = NPA_VIEW, .index = view, .still = still};
}

static npa_ref cast(lowering *l, npa_ref value, int from, int to, bool flags)
{
    int slot = new_slot(l, npa_item_sizes[to]);
    npa_instruction *i = add(l, NPA_DO_CAST, 2);
    i->args[0] = value, i->args[1] = slot_ref(slot);
    i->args[1].still = value.still;
    i->from = from, i->to = to, i->flags = flags;
    end_slot(l, slot);
    return i->args[1];
}

static void load(lowering *l, int view)
{
    npa_view *v = &l->g->views[view];
    v->slot = new_slot(l, v->size);
    npa_instruction *i = add(l, NPA_DO_LOAD, 2);
    i->args[0] = view_ref(l->g, view), i->args[1] = slot_ref(v->slot), i->to = v->size;
}

/* Whether the operation at hand may use the view where it lies. */
static bool is_direct(const npa_view *v, bool any_step)
{
    return v->mode == NPA_STILL || v->mode == NPA_DENSE || v->mode == NPA_ROWS ||
           (v->mode == NPA_APART && any_step);
}

/* An input as it is; dense: one element or one behind the other. */
static npa_ref source(lowering *l, npa_request *r, int k, bool dense)
{
    int view = l->g->operand[l->request][k];
    if (view < 0) {
        return (npa_ref){.place = NPA_FIXED, .still = true,
                         .value = (const char *)npa_operand_at(r, k)->at};
    }
    npa_view *v = &l->g->views[view];
    if (v->slot < 0 && !is_direct(v, v->uses == 1 && !dense)) {
        load(l, view);
    }
    npa_ref found = v->slot >= 0 ? slot_ref(v->slot) : view_ref(l->g, view);
    if (--v->uses == 0 && v->slot >= 0) {
        end_slot(l, v->slot);
    }
    return found;
}

/* An input as the operation takes it. */
static npa_ref input(lowering *l, npa_request *r, int k, bool flags, bool dense)
{
    npa_operand *o = npa_operand_at(r, k);
    int wanted = k < r->nin ? r->rule->loop_type[k] : o->type;
    npa_ref found = source(l, r, k, dense || o->type != wanted);
    bool ready = o->type == wanted || found.place == NPA_FIXED;
    return ready ? found : cast(l, found, o->type, wanted, flags);
}

/* Where output k goes, and what follows the operation. */
typedef struct {
    npa_ref to;
    bool stored, converted;
    bool first; /* nothing was written there before, and nobody sees it */
    /* The operation goes over all of the block, into `to`; `kept` gets what the mask says */
    bool apart;
    npa_ref kept;
} target;

static target output(lowering *l, npa_request *r, int k, bool dense)
{
    npa_operand *o = npa_operand_at(r, k);
    int view = l->g->operand[l->request][k], type = r->rule->loop_type[k];
    npa_view *v = &l->g->views[view];
    target t = {.converted = o->type != type, .first = v->hidden && v->slot < 0};
    bool alone = v->uses == 1 && !t.converted && !r->mask && !dense;
    t.stored = !v->hidden && (v->slot >= 0 || !is_direct(v, alone));
    if ((v->hidden || t.stored) && v->slot < 0) {
        if (r->mask && !v->hidden) {
            load(l, view);
        } else {
            v->slot = new_slot(l, v->size);
        }
    }
    if (t.converted) {
        int slot = new_slot(l, npa_item_sizes[type]);
        end_slot(l, slot);
        t.to = slot_ref(slot);
    } else {
        t.to = v->slot >= 0 ? slot_ref(v->slot) : view_ref(l->g, view);
    }
    t.apart = r->mask && !t.first && r->rule->own != NPA_COPY && !t.to.still;
    if (t.apart) {
        int slot = new_slot(l, npa_item_sizes[type]);
        end_slot(l, slot);
        t.kept = t.to, t.to = slot_ref(slot);
    }
    return t;
}

static void finish_output(lowering *l, npa_request *r, int k, const target *t, npa_ref mask,
                          bool flags)
{
    int view = l->g->operand[l->request][k];
    npa_view *v = &l->g->views[view];
    if (t->apart) {
        npa_instruction *i = add(l, NPA_DO_SELECT, 2);
        i->args[0] = t->to, i->args[1] = t->kept, i->args[2] = mask, i->masked = true;
        i->to = v->size;
    }
    if (t->converted) {
        npa_instruction *i = add(l, NPA_DO_CAST, 2);
        i->args[0] = t->to;
        i->args[1] = v->slot >= 0 ? slot_ref(v->slot) : view_ref(l->g, view);
        i->from = r->rule->loop_type[k], i->to = v->type, i->flags = flags;
    }
    if (t->stored) {
        npa_instruction *i = add(l, NPA_DO_STORE, 2);
        i->args[0] = slot_ref(v->slot), i->args[1] = view_ref(l->g, view), i->to = v->size;
    }
    if (--v->uses == 0 && v->slot >= 0) {
        end_slot(l, v->slot);
    }
}

/* One element for all becomes one for each. */
static npa_ref spread(lowering *l, npa_ref value, int type)
{
    int slot = new_slot(l, npa_item_sizes[type]);
    npa_instruction *i = add(l, NPA_DO_SPREAD, 2);
    i->args[0] = value, i->args[1] = slot_ref(slot), i->to = npa_item_sizes[type];
    end_slot(l, slot);
    return i->args[1];
}

/* Our own code for the operation on these inputs, perhaps after one of them is spread; or NULL. */
static const npa_primitive *choose(lowering *l, const npa_request *r, npa_ref *args)
{
    const npa_rule *rule = r->rule;
    unsigned still = 0;
    for (int k = 0; k < r->nin; k++) {
        still |= args[k].still ? 1u << k : 0;
    }
    if (still + 1 == 1u << r->nin) {
        args[0] = spread(l, args[0], rule->loop_type[0]);
        still &= ~1u;
    }
    const npa_ref *last = &args[r->nin - 1];
    bool fast = (r->errstate & NPA_FAST) != 0;
    return npa_find_primitive(rule, fast, still, last->place == NPA_FIXED ? last->value : NULL);
}

bool npa_has_primitive(const npa_request *r)
{
    return r->rule->nprimitives > 0 && !(r->errstate & NPA_NUMPYS) &&
           !npa_is_numpys_backend(npa_q.backend);
}

static enum npa_action action_of(const npa_rule *rule)
{
    switch (rule->own) {
    case NPA_UFUNC: return NPA_DO_LOOP;
    case NPA_FILL_RANGE: return NPA_DO_RANGE;
    case NPA_TAKE: return NPA_DO_TAKE;
    default: return NPA_DO_OWN;
    }
}

/* A reduction takes what it folds, in the type it computes with. */
static void lower_sink(lowering *l, npa_request *r, int sink)
{
    bool flags = r->rule->may_warn && (r->errstate & 0xff) != 0;
    bool counts = r->rule->counts && npa_operand_at(r, 0)->type == NPY_BOOL;
    npa_ref value = counts ? source(l, r, 0, true) : input(l, r, 0, flags, true);
    int type = counts ? NPY_BOOL : r->rule->loop_type[0], wide = type;
    if (value.still) {
        value = spread(l, value, type);
    }
    if (r->rule->ordered) {
        npa_fold_arithmetic(r->rule, &wide);
    }
    if (wide != type) {
        value = cast(l, value, type, wide, false);
    }
    npa_instruction *i = add(l, NPA_DO_FOLD, 1);
    i->args[0] = value, i->flags = flags, i->sink = (int16_t)sink, i->from = type;
    end_request(l);
}

/* Whether only vector units raise flags: all that the operation works on are singles and doubles,
 * and it is no function of NumPy's, which may raise them by the C library (exp of singles). */
static bool is_plain(const npa_rule *rule, const npa_primitive *primitive)
{
    if (rule->inexact && primitive == NULL) {
        return false;
    }
    for (int k = 0; k < rule->nin + rule->nout; k++) {
        int type = rule->loop_type[k];
        if (type != NPY_DOUBLE && type != NPY_FLOAT && type != NPY_BOOL) {
            return false;
        }
    }
    return true;
}

/* A copy to another type, one behind the other. False: its one element is for all. */
static bool lower_conversion(lowering *l, npa_request *r, bool flags)
{
    int view = l->g->operand[l->request][0], type = r->rule->loop_type[1];
    if (r->mask || view < 0 || l->g->views[view].mode == NPA_STILL ||
        npa_operand_at(r, 0)->type == type || npa_operand_at(r, 1)->type != type) {
        return false;
    }
    npa_ref from = source(l, r, 0, true);
    target t = output(l, r, 1, true);
    npa_instruction *i = add(l, NPA_DO_CAST, 2);
    i->args[0] = from, i->args[1] = t.to;
    i->from = npa_operand_at(r, 0)->type, i->to = type, i->flags = flags;
    finish_output(l, r, 1, &t, from, flags);
    end_request(l);
    return true;
}

static void lower_request(lowering *l, npa_request *r)
{
    npa_ref args[NPA_MAX_ARGS + 1] = {{0}};
    target targets[NPA_MAX_ARGS];
    int n = r->nin + r->nout;
    bool flags = r->rule->may_warn && (r->errstate & 0xff) != 0, ours = npa_has_primitive(r);
    if (r->rule->own == NPA_COPY && lower_conversion(l, r, flags)) {
        return;
    }
    for (int k = 0; k < r->nin; k++) {
        args[k] = input(l, r, k, flags, ours);
    }
    if (r->mask) {
        args[n] = input(l, r, n, false, false);
    }
    const npa_primitive *primitive = ours ? choose(l, r, args) : NULL;
    bool loose = r->mask;
    for (int k = r->nin; k < n; k++) {
        targets[k] = output(l, r, k, ours);
        args[k] = targets[k].to;
        loose &= targets[k].first || targets[k].apart;
    }
    npa_instruction *i = add(l, action_of(r->rule), n);
    i->rule = r->rule, i->masked = r->mask, i->flags = flags, i->primitive = primitive;
    i->plain = is_plain(r->rule, primitive), i->loose = loose;
    memcpy(i->args, args, sizeof *args * (size_t)(n + r->mask));
    for (int k = r->nin; k < n; k++) {
        finish_output(l, r, k, &targets[k], args[n], flags);
    }
    end_request(l);
}

/* ------------------------------------------------------------------------------------- blocks */

static void choose_block(const npa_group *g, npa_tape *t)
{
    int64_t slots = 0, least = LEAST_BLOCK;
    for (int i = 0; i < t->nslots; i++) {
        slots += t->slot_size[i];
    }
    int64_t bytes = slots;
    for (int i = 0; i < g->nviews; i++) {
        const npa_view *v = &g->views[i];
        bytes += !v->hidden && (v->mode == NPA_DENSE || v->mode == NPA_ROWS) ? v->size : 0;
    }
    int64_t fits = BLOCK_BYTES / (bytes > 0 ? bytes : 1);
    fits = t->n == 1 ? MOST_BLOCK : fits; /* nothing is met again */
    if (g->across > 0) {
        int64_t rows = MOST_BLOCK / g->row;
        least = g->row * (rows < g->across ? rows : g->across);
    }
    int64_t block = fits < least ? least : fits > MOST_BLOCK ? MOST_BLOCK : fits;
    int64_t parts = (g->stretch + block - 1) / block, granule = g->inner == 2 ? g->row : GRANULE;
    block = (g->stretch + parts - 1) / parts;
    t->block = (block + granule - 1) / granule * granule;
    if (g->nsinks > 0) { /* chunks are whole blocks */
        for (t->block = MOST_BLOCK; t->block > fits && t->block > LEAST_BLOCK; t->block /= 2) {
        }
    }
    t->scratch_bytes = (size_t)(t->block * slots);
}

int npa_group_lower(npa_group *g, npa_tape *tape)
{
    lowering l = {.g = g, .tape = tape};
    tape->n = tape->nslots = 0;
    for (int i = 0, sinks = 0; i < g->count && !l.failed; i++) {
        npa_request *r = (npa_request *)(g->q->arena + g->q->at[g->first + i]);
        l.request = i;
        if (sinks < g->nsinks && g->sinks[sinks] == i) {
            lower_sink(&l, r, sinks++);
        } else {
            lower_request(&l, r);
        }
    }
    free(l.spare);
    choose_block(g, tape);
    return l.failed ? -1 : 0;
}

void npa_tape_free(npa_tape *tape)
{
    free(tape->list), free(tape->slot_size);
    *tape = (npa_tape){0};
}
