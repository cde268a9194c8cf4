"""A way to add up over another one, in which noise that turns out to be in excess is removed.

Participants add noise in parts, some of them from seeds. When they know who survived they attach
the seeds of the parts that are not needed to their last message, and the coordinator subtracts what
these expand to. docs/noise.md describes it, docs/proofs.md why that is private.
"""
