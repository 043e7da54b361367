"""The C backend: kernels as C11, for the host, and what C11 and OpenCL C have in common.

values -> expressions; text -> functions, memory, branches; halves -> f2 where there is no
arithmetic of its own; printer -> C11; target -> the system's compiler; compile joins these.
"""
