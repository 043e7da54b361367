"""Tests of npaccel/dispatch: the same program with plain arrays and with npaccel's."""
