"""The LLVM backend: kernels as machine code for the host.

widths -> how many lanes; emit, leaves, reduce, combine, finish -> IR text (code, frame, access,
body, scalar are their parts); target -> object code, linked; compile joins these; launch runs a
kernel without the C core. Knows nothing of NumPy's functions, of requests or of caches.
"""
