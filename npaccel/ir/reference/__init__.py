"""What expressions, kernels and requests mean, by whole-array NumPy: the oracle, never fast.

Alone in this room it calls NumPy. Compiled code must have its bits; check mode and tests ask it.
"""
