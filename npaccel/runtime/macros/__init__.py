"""Knows macro sections: what a body did, whether it still holds, and how it is replayed.

Must not know NumPy's functions.
"""
