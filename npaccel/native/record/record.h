/* record.h: operations become requests; or are done at once, where that takes less.
 *
 * Knows operands, masks, sizes from which on it pays. Must not know the ways by which calls come
 * here. */
#ifndef NPA_RECORD_H
#define NPA_RECORD_H

#include "macro/macro.h"

/* The call of a function that NumPy writes in Python, recorded without that code: a new reference.
 * NULL, perhaps without error: not for here. */
typedef PyObject *npa_recorder(PyObject *const *args, Py_ssize_t n, PyObject *names);

/* What NumPy's function or method gives. NULL, perhaps with an error: its own to do. */
typedef PyObject *npa_own(void *what, PyObject *self, PyObject *const *args, Py_ssize_t n,
                          PyObject *names);

/* ------------------------------------------------------------------------------------- record.c */

bool npa_classify(PyObject *object, npa_value *out);
/* Bytes (in the widest operand's items) of what operands broadcast to; an outer product of two
 * small vectors is large. */
size_t npa_broadcast_bytes(const npa_value *values, int n);
/* Who asks is about to record: a section that stands aside is one that is recorded from then on. */
bool npa_wants(const npa_value *values, int n);
/* Record; 1 done, 0 not recordable (NumPy should do it), -1 error set. New references in results.
 * axes: 0, or for a scan the bit of its axis. */
int npa_record_map(npa_rule *rule, npa_value *in, PyArrayObject **out, PyArrayObject *mask,
                   char order, uint32_t axes, PyObject **results);
int npa_record_copy(PyArrayObject *in, PyArrayObject *out, PyObject **result);
/* Shape and strides of a new result, whose axes lie in the order of the input, and of a mask where
 * that has a say, as NumPy's iterator has it. How many axes; -1: no elements. */
int npa_reduced_shape(const npa_rule *rule, PyArrayObject *in, PyArrayObject *mask, uint32_t axes,
                      bool keepdims, npy_intp *kept, npy_intp *strides);
int npa_record_reduce(npa_rule *rule, PyArrayObject *in, uint32_t axes, bool keepdims,
                      PyArrayObject *out, PyArrayObject *mask, PyObject *initial,
                      PyObject **result);
/* out[i] = base[i + index[i] * step]; base: of source, at index 0, broadcasts to out. Indices were
 * found to lie in [-extent, extent). */
int npa_record_gather(npa_rule *rule, PyArrayObject *source, PyArrayObject *base,
                      PyArrayObject *index, npy_intp extent, npy_intp step, PyArrayObject *out,
                      PyObject **result);
int npa_record_pick(npa_rule *rule, PyArrayObject *a, PyArrayObject *mask, PyArrayObject *out,
                    PyObject **result);
int npa_record_iota(npa_rule *rule, npy_intp n, PyObject *start, PyObject *step, PyObject **result);

/* ------------------------------------------------------------------------------------- masked.c */

/* The same as masked_compress.c, recorded; for a mask that covers the first axes of an array, and
 * has `count` elements in. 1 done; 0 it is to be done at once; -1 error. */
int npa_pick_later(PyArrayObject *a, PyArrayObject *mask, int64_t count, PyObject **result);
/* The mask as a view of all axes of the target. */
PyObject *npa_spread_mask(PyArrayObject *mask, PyArrayObject *target);
void npa_picked(PyArrayObject *result); /* that was done at once */
int npa_put_later(PyArrayObject *target, PyArrayObject *mask, PyArrayObject *values);
/* Before what is pending is planned or run, with the lock, perhaps without the GIL: it has neither
 * picks nor twins any more. False: out of memory, and nothing has changed. */
bool npa_masked_settle(void);

/* ---------------------------------------------------------------------------- masked_compress.c */

/* For a mask over the first axes, where the others are contiguous. 1 done; 0 NumPy must, or another
 * way be found; -1 error */
int npa_pick(PyArrayObject *a, PyObject *mask, PyObject **result);
int npa_put(PyArrayObject *a, PyObject *mask, PyObject *values);
/* For all; of a's type */
int npa_put_number(PyArrayObject *a, PyArrayObject *mask, const char *number);
/* The axes of a mask and of what it covers, joined where they can be: elements, bytes between them
 * in the mask, and in the array. `ndim` begins with 0. */
typedef struct {
    int ndim;
    int64_t shape[NPA_MAX_DIMS], by[NPA_MAX_DIMS], steps[NPA_MAX_DIMS];
} npa_mask_rows;
void npa_add_mask_axis(npa_mask_rows *r, int64_t n, int64_t by, int64_t step);
/* `size` bytes of each place of `from` that is in. With the lock. */
void npa_pick_into(char *to, const char *from, const char *mask, const npa_mask_rows *rows,
                   size_t size);

/* ----------------------------------------------------------------------------------- nonzero.c */

npa_own npa_nonzero, npa_where;

/* ------------------------------------------------------------------------------------- opened.c */

/* Arrays that are read and written at once, by all threads. What lies hidden stays so. */
enum { NPA_MOST_OPENED = 6 };
typedef struct {
    char *at[NPA_MOST_OPENED]; /* their first elements */
    bool locked;
} npa_opened;
/* Bits; 0, or -1: error set */
int npa_open(npa_opened *o, PyArrayObject *const *arrays, int n, unsigned written);
void npa_close(const npa_opened *o); /* nothing that needs the GIL may happen before */
/* A new array for such a result, and where it is to be written: in our memory where it is large, so
 * that operations on it in place may wait. NULL: error set. */
PyObject *npa_new_result(int type, int ndim, npy_intp *dims, char **place);
/* A large new plain array that nobody else has is replaced by one of ours, which owns its memory
 * from then on. */
PyObject *npa_adopted(PyObject *result);
PyObject *npa_adopted_each(PyObject *result); /* and each of a tuple's */

/* ------------------------------------------------------------------------------------ at_once.c */

bool npa_waits(PyArrayObject *a);
/* Whether other threads may read it (write: and write it) where it lies: it waits for nothing, and
 * what was hidden is shown now. A touch of theirs is not served while this one waits for them.
 * False, perhaps with an exception: NumPy's to do */
bool npa_lies_open(PyArrayObject *a, bool write);
/* Whether NumPy may have a call on these, of at most so many bytes, at once. */
bool npa_at_once(PyObject *const *args, Py_ssize_t n, size_t most);
/* Whether fold(array, axis, ...), where `out` is at that place, takes less than recording it.
 * first: without an axis it is the first one. And whether NumPy may have it. */
bool npa_fold_is_brief(const char *fold, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       Py_ssize_t out_place, bool first);
bool npa_folds_at_once(const char *fold, PyObject *const *args, Py_ssize_t n, PyObject *names,
                       Py_ssize_t out_place, bool first);
bool npa_fold_is_ours(const char *fold, PyArrayObject *a);
/* Of `most` bytes, up to which a function runs as one, those up to which one may that sums floats:
 * sums that are ours by their size would be NumPy's in it, where it is not in a block that takes
 * them (npa_fold_in_whole). */
size_t npa_most_summed(size_t most, PyObject *names);
/* Whether a trial, or that it is new, leaves ufunc.reduce(a, ...), which would be recorded, to who
 * does it at once. */
bool npa_fold_passes(PyObject *ufunc, PyArrayObject *a, uint32_t axes);

/* ---------------------------------------------------------------------------------------- few.c */

/* Times the threshold of bytes below which NumPy picks, or assigns, at once; see Note
 * [Worthwhile] in dispatch/gather.py */
/* rows: read, one behind the other */
enum { NPA_FEW_READ = 4, NPA_FEW_ROWS = 16, NPA_FEW_WRITTEN = 1 };
/* Integers of Python's or NumPy's own, so that no code runs for them; *value: false, it is too
 * large. */
bool npa_is_index(PyObject *o);
bool npa_take_index(PyObject *o, Py_ssize_t *value);
/* How many indices of an axis a slice names, from *start on; -1: NumPy's to say. */
Py_ssize_t npa_slice_length(PyObject *slice, npy_intp extent, Py_ssize_t *start, Py_ssize_t *step);
size_t npa_view_bytes(PyArrayObject *a, PyObject *key);
bool npa_is_few(PyArrayObject *a, PyObject *key, int times);
bool npa_pick_passes(PyArrayObject *a, PyObject *key);
bool npa_takes_few(PyArrayObject *a, PyObject *const *args, Py_ssize_t n, PyObject *names);

#endif
