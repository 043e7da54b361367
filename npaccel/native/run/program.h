/* program.h: a program as it is laid out; for those who make it, and run it. See program.c. */
#ifndef NPA_PROGRAM_H
#define NPA_PROGRAM_H

#include "run/chain.h"

/* Why a device did not do it; IN_PARTS: it did; DIVIDED: with the host. */
enum { DONE_THERE, NO_ROOM, LAUNCH_FAILED, WAS_TOUCHED, IN_PARTS, DIVIDED };
struct npa_program {
    PyObject_HEAD
    step *steps;
    int nsteps;
    uint64_t dropped, used; /* used: number of the last flush that looked it up */
    uint64_t runs, best_ns, last_ns, total_ns; /* whole runs of it, and how long they took */
    uint64_t baseline_ns; /* the best time of NumPy's loops for the same; 0: not known */
    bool compares;     /* those are to run once, to show it, where it is a loop's round */
    uint64_t lost_ns;  /* and of its kernels, where they were given up for that */
    uint64_t home_ns;  /* bringing home what it left on a device, of all runs */
    /* Runs, and total_ns, from which it is reviewed; runs 0: never */
    uint64_t review_runs, review_ns;
    bool single; /* request by request with NumPy's loops */
    bool foreign; /* has kernels for the host that are not of our making */
    bool missed;  /* in the run at hand the host did what a device was to do */
    int borrowed;    /* references beyond those that Python counts */
    npa_ledger ledger;
    PyObject *keep, *devices, *info; /* compiled code; kernels; whatever Python wants to remember */
    /* Of a copy for other sizes: the key that it was made for; info is of other requests, then */
    char *key;
    size_t key_size;
};

npa_program *npa_program_copy(const npa_program *of); /* with the GIL; NULL: error set */
PyObject *npa_program_fill(PyObject *self, PyObject *args); /* template.c */

#endif
