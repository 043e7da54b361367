/* place.h: devices: their kernels and memory, what of a buffer lies there, parts of what does not
 * fit.
 *
 * Knows buffers and queues. Must not know programs, plans, or what made a kernel. */
#ifndef NPA_PLACE_H
#define NPA_PLACE_H

#include "trace/trace.h"

/* ------------------------------------------------------------------------------------- device.c */

/* Kernels that a device's driver runs. */
enum { NPA_DEVICE_FUNCTIONS = 5, NPA_DEVICE_WORDS = 7 }; /* words beyond those of other backends */
typedef struct {
    void *functions[NPA_DEVICE_FUNCTIONS]; /* clSetKernelArgSVMPointer, clEnqueueNDRangeKernel,
                                              clWaitForEvents, clGetEventInfo, clReleaseEvent */
    void *queue, *run, *finish;            /* finish NULL: without one */
    npa_store *store;                      /* of its device */
    /* It is given the host's addresses, and nothing is moved */
    bool host_memory;
    int rank, narrays, nwords;
    int64_t groups;    /* work groups at most */
    size_t group_size; /* work items of each */
    int32_t error;
    bool failed;
} npa_device;
typedef struct {
    int64_t band, band_step, inner, inner_step;
    size_t scratch_bytes;
    int64_t band_low, inner_low; /* where they begin; 0 but in parts */
} npa_device_grid;
extern PyTypeObject npa_device_type;
int npa_device_ready(void);
npa_device *npa_device_of(PyObject *object); /* borrowed; NULL with an exception */
/* The whole step, or in_parts its loops over the grid; 0, or the error's number. begun: it may have
 * written. Needs no GIL. */
int32_t npa_device_run(npa_device *d, const int64_t *words, const npa_device_grid *grid,
                       char *partials, uint32_t *flags, bool in_parts, bool *begun);
bool npa_device_trouble(void); /* a launch failed, and Python does not know yet */
PyObject *npa_device_errors(void);
void npa_device_inject(int launches, int reads, int midway, int after, size_t room);
size_t npa_device_groups(const npa_device *d, const npa_device_grid *grid);
/* What only this backend's kernels know goes behind `words`. Work groups of the finish function. */
size_t npa_device_words(const npa_device *d, int64_t *own, const int64_t *words,
                        const npa_device_grid *grid, bool finish);
int32_t npa_device_injected(void); /* an error, when a test wants one; or 0 */
int32_t npa_device_injected_read(void);
int32_t npa_device_injected_midway(void);
bool npa_device_injected_room(size_t bytes); /* whether the driver has no room for so many in all */
void npa_device_note_failure(npa_device *d, int32_t error);

/* ----------------------------------------------------------------------------------- resident.c */

/* What of buffers lies in a device's own memory; with the lock, GIL not needed */
typedef struct {
    int32_t buffer; /* of the queue */
    bool read, written;
    bool looped; /* false: only what follows the loops of a split reduction uses it */
    int64_t low, high; /* bytes of it that are read or written; high < 0: to its end */
} npa_access;
/* A step as its device gets it. words: as for npa_device_run, with offsets for addresses. ahead:
 * what the next step uses, which may move meanwhile. partials: on the host. in_parts: these are
 * left to the host. */
typedef struct {
    npa_queue *q;
    const npa_access *accesses; /* one per array */
    const int64_t *words;
    npa_device_grid grid;
    size_t partial_bytes;
    char *partials;
    bool in_parts;
    uint32_t *flags;
    int nslots;
    const npa_access *ahead;
    int nahead;
} npa_launch;
/* HOST_MUST: nothing was done. PARTLY: it is done, the host helped. DIVIDED: so it was to be.
 * LOST: a launch failed when it had written over what it reads; its results are lost. STOPPED: the
 * host's code was, before all was done. */
enum npa_ran {
    NPA_HOST_MUST, NPA_THERE, NPA_IN_PARTS, NPA_PARTLY, NPA_DIVIDED, NPA_LOST, NPA_STOPPED
};
/* What place/ asks rooms above it; filled in by numpy/hooks.c. */
extern struct npa_place_hooks {
    void (*came_home)(uint64_t serial, uint64_t ns);  /* npa_note_home */
    int (*touch)(PyArrayObject *array, bool write);   /* npa_touch */
} npa_place_hooks;
/* Whether a device holds data of any array; a hint, without the lock. */
bool npa_copies_exist(void);
/* The step on its device, whose memory is not the host's. */
enum npa_ran npa_store_run(npa_device *d, const npa_launch *l);
/* Why: what a step of the host's uses; to make room; who read through a pointer; a fork or a
 * setting. Who called is counted by line (CALL). */
enum npa_home {
    NPA_HOME_STEP,
    NPA_HOME_ROOM,
    NPA_HOME_POINTER,
    NPA_HOME_PART,
    NPA_HOME_ALL,
    NPA_HOME_CALL,
    NPA_HOMES
};
enum npa_home npa_home_because(enum npa_home why); /* until set again; what it was */
/* All of it is on the host, and there alone; or the device is lost */
bool npa_copy_home(npa_buffer *b);
void npa_copy_drop(npa_buffer *b);  /* nobody needs what is there */
bool npa_copy_stays(npa_buffer *b); /* it may stay hidden after a run */
void npa_copies_home(void);
bool npa_copy_lost(void);           /* that could not be done for want of the device; told once */
bool npa_copy_is_lost(void);        /* the same, still to be told */
npa_store *npa_copy_store(const npa_buffer *b); /* where it has a copy, or NULL */
char *npa_buffer_address(npa_buffer *b); /* for the host to read and write: no copy is elsewhere */

/* -------------------------------------------------------------------------------------- store.c */

extern PyTypeObject npa_store_type;
/* What is computed from data that lives somewhere lives there. */
void npa_spread_place(npa_queue *q, const npa_access *accesses, int n);
npa_store *npa_store_of(const npa_queue *q, int requests); /* where these are to run, or NULL */
size_t npa_store_limit(const npa_store *s); /* bytes that it may use */
npa_store *npa_store_of_array(PyArrayObject *array);       /* where it lives, or NULL */
PyObject *npa_place_of(PyObject *self, PyObject *arrays);
PyObject *npa_cluster_memory(PyObject *module, PyObject *args);
PyObject *npa_echo(PyObject *module, PyObject *socket);
PyObject *npa_clusters(PyObject *module, PyObject *nothing);
/* Part of keys: where data of the first requests lives; 0: on the host */
uint64_t npa_places_number(const npa_queue *q, int requests);
/* Not in a forked process, which lacks the driver's threads */
bool npa_store_here(const npa_store *s);
PyObject *npa_store_name(const npa_store *s); /* a new reference; None for NULL */

/* --------------------------------------------------------------------------------------- cuda.c */

PyObject *npa_cuda_functions(PyObject *module, PyObject *addresses);
PyObject *npa_cuda_queue(PyObject *module, PyObject *args);
PyObject *npa_cuda_kernel(PyObject *module, PyObject *args);

/* --------------------------------------------------------------------------------------- look.c */

/* With the lock: these bytes of what lies on a device, which stays there; false: it would not pay,
 * or can't be. */
bool npa_copy_look(npa_buffer *b, size_t low, size_t high, char *to);
bool npa_copy_put(npa_buffer *b, size_t low, size_t high, const char *from); /* the same, written */
/* A part of that around its byte `at` appears at the array's address, to be read, while all of it
 * stays there. False: it would not pay, or can't be; or one has, so that it is written. */
bool npa_copy_show(npa_buffer *b, size_t at);
npa_buffer *npa_there(PyArrayObject *a); /* its buffer, if a device has something of it; or NULL */
/* With the GIL. Whether npa_fetched gives something; write: of an array that is to be written. */
bool npa_may_fetch(PyArrayObject *a, bool write);
/* Whether work on it is best done on a device, where its data lies. */
bool npa_is_far(PyArrayObject *a);
/* A plain copy of what it shows, all of which stays on a device. NULL without error: it is not
 * there, or not worth it. */
PyObject *npa_fetched(PyArrayObject *a);
/* Home, for the user's line */
void npa_count_shown(const npa_store *from, bool write, uint64_t moved);
PyObject *npa_take_homes(PyObject *module, PyObject *nothing);
PyObject *npa_fetched_py(PyObject *module, PyObject *array);
PyObject *npa_copies_exist_py(PyObject *module, PyObject *nothing);
PyObject *npa_is_far_py(PyObject *module, PyObject *array);

/* ------------------------------------------------------------------------------------- tiling.c */

/* A step whose operands do not fit, in parts that do. The band's axes may be cut, and so many of
 * the inner ones, into multiples of `step`. here: runs a part with the host's code, or (grid NULL)
 * what follows the loops of a split reduction; false: it was stopped. */
typedef struct { int band_rank, inner_axes; long long step; } npa_tiling;
typedef bool npa_run_here(void *context, int64_t *words, const npa_device_grid *grid);
enum npa_ran npa_tiling_run(npa_device *d, const npa_launch *l, npa_tiling may, npa_run_here *here,
                         void *context);
/* Whether it reads bytes that it writes, perhaps. */
bool npa_writes_over(const npa_queue *q, const npa_access *accesses, int n);

/* ------------------------------------------------------------------------------------ divided.c */

/* A setting: steps are divided between their device and the host; TRIED: where that takes less
 * time, by trials, on devices that share the host's memory. */
enum { NPA_DIVIDE_NONE, NPA_DIVIDE_ALL, NPA_DIVIDE_TRIED };
extern int npa_divide;
/* Of a step: how often it was divided, what of it the device did then, from 0 to 1; what each does,
 * host and device, in parts of the whole a nanosecond; how late the device was. */
typedef struct { uint64_t runs; double there, speeds[2], late; } npa_shares;
/* A step on both sides. HOST_MUST: it is not divided, and nothing was done. */
enum npa_ran npa_divided_run(npa_device *d, const npa_launch *l, npa_tiling may,
                             npa_run_here *here, void *context, npa_shares *shares);

/* --------------------------------------------------------------------------------------- lost.c */

/* With the lock but for error. */
extern bool npa_losses; /* something was lost with a device, ever */
bool npa_lost_pending(void); /* something in the queue is; the devices are asked again */
/* Whether a request, or a step with such buffers, needs what is lost; then so is what it writes. */
bool npa_lost_request(npa_queue *q, int index);
bool npa_lost_step(npa_queue *q, const int32_t *used, int nused, const int32_t *written,
                   int nwritten);
/* A kernel with these accesses failed there, and can't be repeated: what it writes is lost. */
void npa_lost_results(npa_queue *q, const npa_access *accesses, int n, npa_store *s);
bool npa_lost_hide(npa_buffer *b); /* after the run; false: it can't be */
const char *npa_lost_why(const npa_buffer *b); /* "" where nobody has said it */
int npa_lost_error(PyArrayObject *array, const npa_buffer *b); /* -1 */

#endif
