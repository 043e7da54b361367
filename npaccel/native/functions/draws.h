/* draws.h: the generators that NumPy draws with, as draws.c knows them and shuffle.c uses them. */
#ifndef NPA_FUNCTIONS_DRAWS_H
#define NPA_FUNCTIONS_DRAWS_H

#include "functions/functions.h"
#include "loops/stream.h"

enum { NPA_TRIED = 3001 }; /* numbers of a proof */
enum npa_proved { NPA_UNKNOWN, NPA_GOOD, NPA_BAD };

/* As NumPy's declarations have them; a proof compares what is made of them with what Python
 * shows. */
typedef struct {
    npa_wide *words; /* state, inc */
    int has_half;
    uint32_t half;
} npa_pcg_state;

typedef struct {
    uint32_t key[NPA_TWISTER_WORDS];
    int pos;
} npa_twister_state;

extern struct npa_rng {
    PyObject *pcg64, *generator, *twister, *old; /* NumPy's classes */
    PyObject *bit_generator, *old_bit_generator, *capsule, *lock, *acquire, *release; /* names */
    enum { NPA_NOT_YET, NPA_READY, NPA_OTHER } is;
} npa_rng; /* npa_draws_ready() fills it in */

extern bool npa_draws_in_proof; /* NumPy's own methods draw */

/* Where the state of a generator's source is; NULL, without error: it is of another class. */
void *npa_source_state(PyObject *source, PyObject *type);
/* Whether another thread draws from it, without the GIL. */
bool npa_source_taken(PyObject *source);
PyObject *npa_new_generator(bool old);
/* What Python shows of its state: something to compare. */
PyObject *npa_state_shown(PyObject *generator);
bool npa_same_bytes(PyObject *a, PyObject *b);
bool npa_draws_ready(void);

#endif
