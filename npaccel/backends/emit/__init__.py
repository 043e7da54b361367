"""Kernels as code, written once for all targets.

skeletons -> a kernel's functions, by tiles, leaves and effects (loops over rows, chunks, vectors;
an iteration), reduce and combine (folds), groups (items that share a task), body (expressions),
scalars (one node), access (elements); frame -> arguments and places. All write through a `Builder`,
which a target's printer is; what it has its `Machine` says. widths, tasks: numbers of a kernel.
"""
