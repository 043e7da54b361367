"""Knows what there is once in a process: warnings, errors, the collector, the guard, the disk.

Must not know how anything is planned or compiled.
"""
