# cython: language_level=3, boundscheck=False, wraparound=False
"""Typed memoryviews as a reader and a writer: what Cython code of others does."""


def total(const double[:, :] a):
    """The sum of what it shows, read element by element."""
    cdef Py_ssize_t i, j
    cdef double s = 0.0
    with nogil:
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                s += a[i, j]
    return s


def scale(double[:, :] a, double factor):
    """Multiply in place."""
    cdef Py_ssize_t i, j
    with nogil:
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] *= factor


cdef class Holder:
    """A memoryview that is taken once and used later."""

    cdef double[:, :] view

    def __init__(self, double[:, :] view):
        self.view = view

    def first(self):
        return self.view[0, 0]

    def scale(self, double factor):
        scale(self.view, factor)
