"""Bodies for f4 in f4: the common case, 16 numbers to a register of which f8 has 8.

Where the argument is unusual (large, tiny, not finite) the f8 body takes over, which is rare.
The methods are like those in f8, but for divisions, which take longer than polynomials here.
"""
