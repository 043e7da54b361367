/* flush.h: a flush and its parts; for the files that share it. See flush.c. */
#ifndef NPA_FLUSH_H
#define NPA_FLUSH_H

#include "run/run.h"

typedef int (*poll_function)(void *);

/* ------------------------------------------------------------------------------------ history.c */

/* What explain() will ask of these requests; their references go, but for those it keeps. */
void npa_remember(PyObject *program, int done);

/* ------------------------------------------------------------------------------------- finish.c */

/* With the lock, or the GIL: this thread's queue has changed. */
uint64_t npa_change(void);
/* The number of a flush to come: no two queues have the same. */
uint64_t npa_next_serial(void);
/* What lay on a device alone can't be had any more. */
void npa_lost_device(const npa_buffer *b);
/* The first `done` requests have run. Their results appear and they leave the queue, with all that
 * no other one uses. With the lock, perhaps without the GIL. */
int npa_finish_queue(PyObject *program, int done);

/* looks.c, with the lock: whether a result is to appear as soon as it is computed; and somebody had
 * it appear who looked, unannounced or not. */
bool npa_appears(const npa_buffer *b);
void npa_looked_at(const npa_buffer *b, bool unannounced);

/* ------------------------------------------------------------------------------------ running.c */

/* Run what is pending; `program` (the run's from here on) and the number of `requests` that it is
 * for, perhaps each `round` of them, are those of a run that has not begun. As run_to_end; after 0,
 * npa_finish_run. */
int npa_run_queue(PyObject *program, int requests, int round, bool alone, poll_function poll,
                  bool *interrupted);
int npa_finish_run(void);
/* All that is pending, a run that stopped may have been for a part of it. Where there is no GIL, or
 * may be none. `program`: of a run that begins; NULL: NumPy's loops. False: out of memory. */
bool npa_run_everything(npa_program *program);
/* On the evaluator's thread: what is pending, as a touch needs it; by its program where one is
 * known, see fault_evaluation.c. False: out of memory. */
bool npa_run_touched(void);

/* ------------------------------------------------------------------------------------- rounds.c */

/* A run that a limit forces goes on while there are two rounds: the last one may show more than
 * others. */
bool npa_goes_on(bool rounds);
/* How many requests run next; *round > 0: those are of a loop with so many a round, of which one
 * runs if there is code for it. rounds: a limit forces it, and the end of a loop's last round may
 * wait; as may all where there is no loop, and room (0). */
int npa_next_to_run(bool rounds, int *round);
/* How many requests of rounds show what `period` of them take block by block, in chains as long as
 * they may be. */
int npa_to_compare(int period);
/* How many run without code, where the first round has none: all, but where rounds have other
 * sizes: for those to come there may be code. */
int npa_to_run_uncompiled(int requests, int period);
/* So many requests have run, and left the queue; compiled: by code for one round of `period`, if
 * that is not 0. before: the generation until then. limited: nobody has looked at results. */
void npa_note_ran(int requests, int period, bool compiled, uint64_t before, bool limited);

#endif
