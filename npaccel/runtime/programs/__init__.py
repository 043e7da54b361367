"""Knows how a plan becomes a program: code, tasks, templates for other sizes, files on disk.

Must not know when something is compiled, or by which process.
"""
