/* interrupt.c: Ctrl-C during an evaluation is noticed without the GIL, and signals wait for the end
 * of our Python code.
 *
 * Who evaluates holds the queue's lock, and whoever holds the GIL may be waiting for that lock
 * inside a fault. So an evaluation can't ask Python whether a signal came (it would have to take
 * the GIL), nor run Python's handlers (they may record). While one runs on the main thread, SIGINT
 * goes through a handler that takes note and then calls Python's.
 *
 * Python would run the program's handlers between any two instructions of our Python code. There
 * what they raise could be taken for an error of ours (a TimeoutError is an OSError), and arrays
 * that they use would ask a planner that is half loaded, or within a plan. So signals that have
 * handlers of the program's are noted meanwhile, and sent again at the end. */
#define _GNU_SOURCE
#include "system/system.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct sigaction before; /* the handler that was in force */
static atomic_int came;

static void take_note(int number, siginfo_t *info, void *context)
{
    atomic_store_explicit(&came, 1, memory_order_relaxed);
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    }
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == take_note;
}

bool npa_on_main_thread(void) { return syscall(SYS_gettid) == getpid(); }

/* Python runs signal handlers on the main thread alone: elsewhere nothing is watched for. */
bool npa_interrupts_begin(void)
{
    struct sigaction now;
    if (!npa_on_main_thread() || sigaction(SIGINT, NULL, &now) != 0 ||
        (!(now.sa_flags & SA_SIGINFO) &&
         (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN))) {
        return false;
    }
    atomic_store_explicit(&came, 0, memory_order_relaxed);
    if (is_ours(&now)) { /* another thread forked while we evaluated: nobody took it away */
        return true;
    }
    before = now;
    now.sa_sigaction = take_note;
    now.sa_flags |= SA_SIGINFO;
    return sigaction(SIGINT, &now, NULL) == 0;
}

void npa_interrupts_end(void)
{
    struct sigaction now;
    if (sigaction(SIGINT, &before, &now) == 0 && !is_ours(&now)) {
        sigaction(SIGINT, &now, NULL); /* somebody else's came in between: it stays */
    }
}

int npa_interrupted(void *unused)
{
    (void)unused;
    return atomic_load_explicit(&came, memory_order_relaxed);
}

/* ------------------------------------------------------------------------ signals that wait */

static struct sigaction waiting[NSIG]; /* the handlers that were in force, of those in `held` */
static uint64_t held;
static _Atomic uint64_t noted;
static int depth;

static uint64_t bit(int number) { return (uint64_t)1 << (number - 1); }

static void note(int number) { atomic_fetch_or(&noted, bit(number)); }

/* Those of faults are handled where these happen. */
static bool may_wait(int number)
{
    return number != SIGSEGV && number != SIGBUS && number != SIGFPE && number != SIGILL &&
           number != SIGTRAP && number != SIGABRT && number != SIGSYS;
}

static void hold(int number, bool (*handled)(int number))
{
    struct sigaction now;
    if (!may_wait(number) || !handled(number) || sigaction(number, NULL, &now) != 0 ||
        (now.sa_flags & SA_SIGINFO) || now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN) {
        return; /* Python's own wants no information. Asking Python first costs no system call */
    }
    waiting[number] = now;
    now.sa_handler = note;
    held |= sigaction(number, &now, NULL) == 0 ? bit(number) : 0;
}

bool npa_signals_hold(bool (*handled)(int number))
{
    if (!npa_on_main_thread()) {
        return false;
    }
    for (int n = 1; depth == 0 && n < NSIG && n <= 64; n++) {
        hold(n, handled);
    }
    depth++;
    return true;
}

static void put_back(void)
{
    struct sigaction now;
    for (int n = 1; held != 0; n++, held >>= 1) {
        if ((held & 1) && sigaction(n, &waiting[n], &now) == 0 && now.sa_handler != note) {
            sigaction(n, &now, NULL); /* somebody else's came in between: it stays */
        }
    }
}

void npa_signals_release(void)
{
    if (depth == 0 || --depth > 0) { /* 0: in the child of a fork, which holds none */
        return;
    }
    put_back();
    uint64_t all = atomic_exchange(&noted, 0);
    for (int n = 1; all != 0; n++, all >>= 1) {
        if (all & 1) {
            raise(n);
        }
    }
}

void npa_signals_forked(void)
{
    put_back();
    depth = 0, atomic_store(&noted, 0);
}
