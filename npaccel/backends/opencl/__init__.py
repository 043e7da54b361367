"""The OpenCL backend: kernels as OpenCL C, for processors through PoCL and for other devices.

widths -> how many lanes; emit, leaves, tiles, reduce, combine, finish -> text (code, frame, access,
body, scalar are their parts); target -> the device and its builds; helper builds in a process that
can be killed; compile joins these; launch runs a kernel without the queue. Knows nothing of
NumPy's functions, of requests or of caches.
"""
