/* choice.c: which of two ways that give the same takes less time, as measured by turns.
 *
 * A round goes one of two ways: the usual one, or the other. At first all are the usual way. Then
 * there is a trial: a few rounds of each by turns, since many loops work on less and less, and a
 * few, since the first round of either finds caches, memory and processors as the other one left
 * them; of long rounds, of which that is a small part, one each. The way with the better best time
 * is kept for a while, and then there is a trial again. A decision that is made again is kept twice
 * as long. For the other way only where it is clear: who may come to lose by it looks again soon.
 *
 * Rounds may differ in what they do; the caller says which are compared. A trial waits for those,
 * but not for ever.
 *
 * A choice says which way, never with what result: both have the same bits. */
#include "base/base.h"

#include <math.h>

enum {
    TURNS = 5,         /* of a trial; the usual way has the first and the last */
    LONG_NS = 1000000, /* of rounds as long one is a turn */
    HOPELESS = 2,      /* that takes so many times the other one's best time */
    PATIENCE = 4,      /* turns that a trial waits, per turn that counts */
};

static uint32_t turn_of(const npa_choice *c, const npa_choice_rules *rules)
{
    return c->is_long ? 1 : rules->turn;
}

enum npa_way npa_choice_way(npa_choice *c, const npa_choice_rules *rules)
{
    if (c->left == 0) {
        c->left = rules->first;
        if (c->kept == 0) { /* no trial was before */
            c->best[NPA_WAY_USUAL] = c->best[NPA_WAY_OTHER] = UINT64_MAX;
        }
    }
    return c->on_trial ? (enum npa_way)(c->left / turn_of(c, rules) & 1) : (enum npa_way)c->way;
}

/* Whether more rounds of this way would change nothing: the other one has had all of a turn. */
static bool is_clear(const npa_choice *c, const npa_choice_rules *rules, enum npa_way way)
{
    uint32_t turn = turn_of(c, rules);
    uint64_t mine = c->best[way], others = c->best[!way];
    return c->on_trial && c->left % turn == 0 && mine != UINT64_MAX && others != UINT64_MAX &&
           (way == NPA_WAY_OTHER || c->left < 3 * turn) && mine / HOPELESS > others;
}

bool npa_choice_took(npa_choice *c, const npa_choice_rules *rules, enum npa_way way, uint64_t ns,
                     bool compared)
{
    if (!c->on_trial) {
        c->is_long = rules->turn > 1 && ns >= LONG_NS;
    }
    if (c->on_trial && !compared && c->patience > 0) {
        c->patience--;
        return false;
    }
    c->best[way] = compared && ns < c->best[way] ? ns : c->best[way];
    bool clear = is_clear(c, rules, way);
    c->left = clear || c->left == 0 ? 0 : c->left - 1;
    return c->left == 0;
}

/* Both ways are measured: the one to keep, which is the present one unless the other wins. */
static enum npa_way better(const npa_choice *c)
{
    uint64_t usual = c->best[NPA_WAY_USUAL], other = c->best[NPA_WAY_OTHER];
    if (usual == UINT64_MAX || other == UINT64_MAX) {
        return NPA_WAY_USUAL;
    }
    bool back = usual + usual / NPA_MARGIN < other, over = other + other / NPA_MARGIN < usual;
    bool others = c->way == NPA_WAY_OTHER ? !back : over;
    return others ? NPA_WAY_OTHER : NPA_WAY_USUAL;
}

void npa_choice_decide(npa_choice *c, const npa_choice_rules *rules, bool worth)
{
    if (!c->on_trial) {
        c->on_trial = worth || c->way == NPA_WAY_OTHER;
        c->left = c->on_trial ? TURNS * turn_of(c, rules) - 1 : rules->first;
        c->patience = PATIENCE * TURNS * turn_of(c, rules);
        c->best[NPA_WAY_USUAL] = c->best[NPA_WAY_OTHER] = UINT64_MAX;
        return;
    }
    enum npa_way way = better(c);
    uint64_t usual = c->best[NPA_WAY_USUAL], other = c->best[NPA_WAY_OTHER];
    bool again = way == c->way && (way == NPA_WAY_USUAL || usual / 3 > other / 2);
    uint32_t most = rules->most[way];
    c->kept = !again || c->kept == 0 ? rules->kept : c->kept < most ? 2 * c->kept : most;
    c->way = (uint8_t)way, c->left = c->kept, c->on_trial = false;
}

static double seconds(uint64_t ns) { return ns != UINT64_MAX ? 1e-9 * (double)ns : NAN; }

PyObject *npa_choice_told(const npa_choice *c)
{
    return c->kept == 0 ? Py_NewRef(Py_None)
                        : Py_BuildValue("(ddN)", seconds(c->best[NPA_WAY_USUAL]),
                                        seconds(c->best[NPA_WAY_OTHER]),
                                        PyBool_FromLong(c->way == NPA_WAY_OTHER));
}
