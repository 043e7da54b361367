"""Knows time and place: when requests run, planned how, on which backend; what they warn.

Its rooms, from bottom to top: process, programs, devices, checking, helper, engine, macros. A room
imports only those below it.

Must not know NumPy's functions: dispatch hands it requests through the C core.
"""
