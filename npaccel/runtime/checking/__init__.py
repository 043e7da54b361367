"""Knows what a result should be: compared with NumPy, looked at while pending, watched.

Must not know the engine, whose programs it is given.
"""
