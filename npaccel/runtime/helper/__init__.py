"""Knows the process that plans and compiles beside the program, on both sides of the pipe.

Must not know why it is asked, or what is done with an answer.
"""
