"""Knows what to tell the user: `explain` (what ran, how, and why so) and `devices`.

Must not know how anything is done: it reads what the runtime and the C core remember, and changes
nothing.
"""
