"""Knows keys: what was compiled before, found again.

Must not know back ends or what the values are.
"""
