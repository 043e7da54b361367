"""Kernels as C: what C11 and OpenCL C have in common.

values -> expressions; text -> functions, memory, blocks; halves -> f2 where there is no
arithmetic of its own. A dialect's printer says what differs.
"""
