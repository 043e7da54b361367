/* primitive.h: operations on blocks, compiled ahead (backends/llvm/shipped.py). */
#ifndef NPACCEL_PRIMITIVE_H
#define NPACCEL_PRIMITIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* words: elements; per operand that is no constant, inputs then the output, its address and step.
 * range: 0, 1, 0, elements. flags: kinds of warnings, or'ed into the first. */
typedef void npa_block_function(const int64_t *words, const int64_t *range, char *scratch,
                                uint32_t *flags);

typedef struct npa_primitive {
    const char *op, *loop; /* NumPy's name, or one of the IR's; dtypes between spaces */
    unsigned still;        /* inputs that are one element for all; others are contiguous */
    bool constant;         /* the last input is `value`, and no argument */
    double value;
    const char *facts; /* what NumPy's loops must be like: ir/differences.py */
    bool exact;        /* it has NumPy's bits */
    bool fast;         /* of the second accuracy class */
    npa_block_function *run;
} npa_primitive;

/* Of each kind of processor; an operation without a name ends it. Made by the build. */
extern const npa_primitive npa_primitives_v4[], npa_primitives_v3[], npa_primitives_neon[];

/* primitive.c: the first one of an operation of our own; NULL: this processor has none. */
npa_block_function *npa_primitive_of(const char *op);

/* Those with NumPy's bits, by which inputs are one element for all (bit k: number k). types: of the
 * inputs and the result. False: there are none. They do not tell of underflow. */
bool npa_exact_primitives(const char *op, const int *types, int nin, const npa_primitive **found);
/* On `elements`, with the address and step of each of `nargs` operands, of which a constant is
 * passed over. The kinds of warnings, or'ed. */
unsigned npa_run_primitive(const npa_primitive *p, char *const *args, const ptrdiff_t *steps,
                           int nargs, int64_t elements);

#endif
