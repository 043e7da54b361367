"""The backends' room: each turns a Kernel into something that runs, and knows one machine.

base: what a backend is. registry: finds one by name. emit: what kernels' code does, for all of
them. llvm: the host. c: the same by the system's compiler, and what C and OpenCL C share. opencl:
devices.
Knows the IR. Must not know: where requests come from, caches, plans, or (but for C's dialects)
another backend.
"""
