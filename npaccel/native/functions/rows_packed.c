/* rows_packed.c: rows of transforms, a few at a time, where each lies one element behind the other.
 * Real ones become complex there, where NumPy converts the whole array before. Where the elements
 * of a row lie whole pages apart, as those of a matrix's columns may do, they all want the same few
 * places of the cache: rows that are neighbours are read and written there together, in 0.7 to 0.87
 * of the time. Elsewhere this was tried, and takes longer than what NumPy's loops do. */
#include "functions/rows.h"

#include <string.h>

enum {
    APART = 4096,         /* bytes after which places of a processor's first cache come again */
    PLACES = 64,          /* elements of a row that may want the same, before it is worth while */
    LEAST = 4, MOST = 64, /* rows at a time */
    IN_CACHE = 1 << 18,   /* bytes of them, if there are more than the least */
    LONGEST = 1 << 18,    /* bytes of a row */
    GAP = 64,             /* behind each: of a line of the cache */
    AHEAD = 8,            /* so many elements before they are needed, a row's lines are fetched */
};

/* Rows of an operand or a result, where they are. */
typedef struct {
    int type;
    npy_intp n, row, step; /* elements; bytes from row to row, and from one to the next */
    char *at;
} rows;

static rows rows_of(const npa_rows_job *j, int k, const npy_intp *steps)
{
    const PyUFuncObject *u = j->u;
    int type = j->given[k] ? PyArray_TYPE(j->arrays[k]) : u->types[(npy_intp)j->loop * j->n + k];
    return (rows){type, j->cores[u->core_dim_ixs[u->core_offsets[k]]], steps[k],
                  steps[j->n + u->core_offsets[k]], NULL};
}

static bool share_places(npy_intp n, npy_intp step)
{
    return n > PLACES && step != 0 && step % APART == 0;
}

/* What the loop reads or writes of them, with a gap behind each row. */
static rows packed(const npa_rows_job *j, int k, npy_intp n)
{
    int type = j->u->types[(npy_intp)j->loop * j->n + k];
    npy_intp size = npa_item_sizes[type];
    return (rows){type, n, (n * size + GAP - 1) / GAP * GAP + GAP, size, NULL};
}

static void copy_line(rows from, npy_intp from_step, rows to, npy_intp step, npy_intp n)
{
    if (from.type == to.type) {
        npa_move(to.at, step, from.at, from_step, n, npa_item_sizes[to.type]);
    } else {
        npa_cast(from.type, from.at, from_step, to.type, to.at, step, n);
    }
}

/* Neighbours that are soon to be read or written, where they are in few lines. */
static void fetch(const rows *r, npy_intp count)
{
    for (npy_intp i = 0; r->row > 0 && r->row <= GAP && i < count * r->row; i += GAP) {
        __builtin_prefetch(r->at + AHEAD * r->step + i);
    }
}

/* across: it is not far from row to row, but from one element to the next. */
static void copy_rows(rows from, rows to, npy_intp count, bool across)
{
    npy_intp lines = across ? from.n : count, n = across ? count : from.n;
    for (npy_intp i = 0; i < lines; i++) {
        if (across) {
            fetch(&from, count), fetch(&to, count);
        }
        copy_line(from, across ? from.row : from.step, to, across ? to.row : to.step, n);
        from.at += across ? from.step : from.row, to.at += across ? to.step : to.row;
    }
}

static npy_intp together(npy_intp row)
{
    npy_intp most = MOST;
    while (most > LEAST && most * row > IN_CACHE) {
        most /= 2;
    }
    return most;
}

/* Of `from` as many rows as are in `in` at a time, if `reads`, and so on. */
typedef struct {
    rows from, in, out, to;
    bool reads, writes;
    npy_intp each;
} packing;

bool npa_rows_share_places(const npa_rows_job *j)
{
    PyArrayObject *a = j->arrays[0];
    int axis = j->axes[0][PyArray_NDIM(a) - 1];
    return npa_item_sizes[PyArray_TYPE(a)] > 0 &&
           share_places(PyArray_DIM(a, axis), PyArray_STRIDE(a, axis));
}

static void run_some(npa_rows_job *j, const packing *p, char *const *args, npy_intp count,
                     const npy_intp *dims, const npy_intp *steps)
{
    npy_intp part[1 + NPA_ROWS_CORES], own[NPA_ROWS_MOST + NPA_ROWS_STEPS];
    int last = j->n - 1;
    char *at[NPA_ROWS_MOST];
    rows from = p->from, to = p->to;
    memcpy(part, dims, sizeof part);
    memcpy(own, steps, sizeof own);
    memcpy(at, args, sizeof *at * (size_t)j->n);
    part[0] = count, from.at = at[0], to.at = at[last];
    if (p->reads) {
        copy_rows(from, p->in, count, share_places(from.n, from.step));
        at[0] = p->in.at, own[0] = p->in.row, own[j->n] = p->in.step;
    }
    if (p->writes) {
        at[last] = p->out.at, own[last] = p->out.row;
        own[j->n + j->u->core_offsets[last]] = p->out.step;
    }
    npa_rows_call_loop(j, at, part, own);
    if (p->writes) {
        copy_rows(p->out, to, count, true);
    }
}

bool npa_rows_packed(npa_rows_job *j, char *const *args, const npy_intp *dims,
                     const npy_intp *steps)
{
    int last = j->n - 1;
    packing p = {.from = rows_of(j, 0, steps), .to = rows_of(j, last, steps)};
    p.in = packed(j, 0, p.from.n), p.out = packed(j, last, p.to.n);
    bool few = dims[0] > 1 && p.in.step > 0 && p.in.row <= LONGEST && p.out.row <= LONGEST;
    p.reads = j->widens || (few && share_places(p.from.n, p.from.step));
    p.writes = few && share_places(p.to.n, p.to.step);
    if (!p.reads && !p.writes) {
        return false;
    }
    npy_intp each = together(Py_MAX(p.in.row, p.out.row));
    char *room = npa_pool_scratch(0, (size_t)(each * (p.in.row + (p.writes ? p.out.row : 0))));
    if (room == NULL) {
        atomic_store(&j->raised, 1); /* NumPy does it */
        return true;
    }
    p.in.at = room, p.out.at = room + each * p.in.row;
    for (npy_intp done = 0, count; done < dims[0]; done += count) {
        char *at[NPA_ROWS_MOST];
        count = Py_MIN(dims[0] - done, each);
        for (int k = 0; k < j->n; k++) {
            at[k] = args[k] + done * steps[k];
        }
        run_some(j, &p, at, count, dims, steps);
    }
    return true;
}
