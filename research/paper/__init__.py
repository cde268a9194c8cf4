"""The published evaluation again: one file a table or figure, ours beside theirs.

An item says what the paper shows, which units of work it needs, how their results become rows, and
how rows become a figure. Units are shared between items and kept on disk, so a run can be resumed.
"""
