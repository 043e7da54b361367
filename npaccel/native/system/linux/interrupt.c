/* interrupt.c: Ctrl-C during an evaluation is noticed without the GIL.
 *
 * Who evaluates holds the queue's lock, and whoever holds the GIL may be waiting for that lock
 * inside a fault. So an evaluation can't ask Python whether a signal came (it would have to take
 * the GIL), nor run Python's handlers (they may record). While one runs on the main thread, SIGINT
 * goes through a handler that takes note and then calls Python's. */
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
