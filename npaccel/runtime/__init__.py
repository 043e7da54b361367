"""Knows time and place: when requests run, planned how, on which backend; what they warn.

Must not know NumPy's functions: dispatch hands it requests through the C core.
"""
