"""The CUDA backend: kernels as PTX, which LLVM writes and NVIDIA's driver runs.

Knows the LLVM printer, the emitter and the driver. Must not know NumPy or the queue.
"""
