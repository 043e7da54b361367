"""Knows backends that are open, what a run takes on each, and which device a kernel runs on.

Must not know how programs are asked for.
"""
