"""The OpenCL backend: kernels as OpenCL C, for processors through PoCL and for other devices.

printer -> text, with its preamble; target -> the device and its builds; helper builds in a process
that can be killed; compile joins these; compiled -> what a launch needs to know; launch runs a
kernel without the queue. Knows nothing of NumPy's functions, of requests or of caches.
"""
