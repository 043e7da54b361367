"""What arrays and kernels are: requests over views of buffers, and the kernels they become.

Knows: views, scalar expressions, the operation table, kernel trees, passes; and what these mean in
NumPy (reference/, which nothing else in here asks).
Must not know: NumPy's objects at run time, back ends, memory, threads, configuration.
"""
