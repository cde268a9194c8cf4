"""Commitments to integer vectors, and proofs that a committed vector is short; docs/validation.md.

`commitment` hides a vector in one group element, and such elements add up as vectors do. `proof`
shows, and `verification` checks, that the vector in one is no longer than a bound. Nothing here
knows of rounds. Needs the extra `validation`.
"""
