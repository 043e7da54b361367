"""Knows how a plan becomes a program: code, tasks, patterns for other sizes, files on disk.

Must not know when something is compiled, or by which process.
"""
