"""The LLVM backend: kernels as machine code for the host.

values: instructions; memory: loads and stores; printer -> IR text; target -> object code, linked;
compile joins these; compiled -> what a launch needs to know; launch runs a kernel without the C
core. Knows nothing of NumPy's functions, of requests or of caches.
"""
