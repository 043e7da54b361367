"""Knows time and choice: what runs block by block, when compiling pays, what a key runs as.

Must not know macro sections.
"""
