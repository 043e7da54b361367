/* contention.c: whether to wait for another thread's run, or to have NumPy do an operation then.
 *
 * There is one queue and one lock. A thread that records while another plans or runs what is
 * pending would wait for its end, where NumPy would let it go on; and requests of two threads in
 * one queue are a program that is met once. So an operation that needs nothing of the queue falls
 * back to NumPy, which is always right, unless the run is known to end before NumPy would. */
#include "run/run.h"


#define UNKNOWN UINT64_MAX
#define BYTES_PER_NS 8      /* that NumPy's loops move, at most */
#define HANDING_OVER 300000 /* ns that waiting costs, with the turns of the interpreter lock */
enum { PATIENCE = 8 };      /* then what another thread left is added to */
enum { MOMENTS = 2 };       /* in which it may come to run it, where NumPy would take long */
/* For which all is NumPy's where threads record by turns */
enum { CROWD_NS = 20000000, MOST_CROWD_NS = 1000000000 };
static const struct timespec moment = {.tv_nsec = 50000};

static atomic_int running;   /* runs, with their planning, of all threads */
static __thread int mine;    /* those of this one */
static _Atomic uint64_t end; /* of the last one that began; UNKNOWN while it is planned */
/* With the GIL: who recorded last, by the address of its `mine`, and operations of others since
 * that were passed to NumPy. */
static const void *recorder;
static int passed;
static const void *asker; /* who asked last whether they do so by turns */
static uint64_t crowd_until, crowd_ns;

static uint64_t now(void) { return (uint64_t)npa_clock_ns(); }

void npa_contention_begin(void)
{
    mine++;
    atomic_store(&end, UNKNOWN);
    atomic_fetch_add(&running, 1);
}

void npa_contention_end(void)
{
    atomic_fetch_sub(&running, 1);
    mine--;
}

void npa_contention_expect(uint64_t ns) { atomic_store(&end, ns == 0 ? UNKNOWN : now() + ns); }

void npa_contention_recorded(void) { recorder = &mine, passed = 0; }

/* The others are not here; what they left is ours. */
void npa_contention_forked(void)
{
    atomic_store(&running, mine);
    npa_contention_recorded();
}

/* Another thread's requests are in the queue, and it is about to add to them. */
static bool unfinished(void)
{
    return npa_q.nrequests > 0 && recorder != &mine && passed < PATIENCE;
}

static bool busy(void) { return atomic_load_explicit(&running, memory_order_relaxed) > mine; }

bool npa_contention_passes(PyArrayObject *const *inputs, int n)
{
    size_t bytes = 0;
    if (!(unfinished() || busy()) || npa_here != NULL || !npa_guard_on || npa_check_mode) {
        return false;
    }
    for (int k = 0; k < n; k++) {
        if (inputs[k] != NULL && npa_run_hooks.waits(inputs[k])) {
            return false;
        }
        bytes += inputs[k] != NULL ? (size_t)PyArray_NBYTES(inputs[k]) : 0;
    }
    uint64_t numpys = bytes / BYTES_PER_NS;
    for (int k = 0; numpys > HANDING_OVER && unfinished() && !busy() && k < MOMENTS; k++) {
        Py_BEGIN_ALLOW_THREADS
        nanosleep(&moment, NULL);
        Py_END_ALLOW_THREADS
    }
    uint64_t until = atomic_load(&end);
    bool passing = busy() ? until == UNKNOWN || until + HANDING_OVER > now() + numpys
                          : unfinished();
    passed += passing;
    if (passing) {
        npa_pass_because("another thread was evaluating");
    }
    return passing;
}

/* In a block, whether several threads record by turns. What the queue holds then are parts of their
 * rounds, cut where the interpreter changed threads, so no two programs are alike; and one thread
 * runs it while all others wait, where NumPy's loops would run side by side: two threads took 29 ms
 * without this, and 11 with it. Twice as long each time that it is seen again soon. With the
 * GIL. */
bool npa_contention_crowded(void)
{
    if (asker == &mine && crowd_until == 0) {
        return false;
    }
    uint64_t time = now();
    if (asker != &mine && asker != NULL && npa_q.nrequests > 0 && recorder != &mine) {
        bool soon = time < crowd_until + 2 * crowd_ns;
        crowd_ns = soon && crowd_ns < MOST_CROWD_NS ? 2 * crowd_ns : soon ? crowd_ns : CROWD_NS;
        crowd_until = time + crowd_ns;
    } else if (time > crowd_until + 2 * crowd_ns) {
        npa_contention_uncrowded();
    }
    asker = &mine;
    return time < crowd_until;
}

void npa_contention_uncrowded(void) { crowd_until = crowd_ns = 0; }
