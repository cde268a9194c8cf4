"""A way to add up over another one, in which inputs are committed to and the sum is checked.

It has the other add up a blinding beside the input, and attaches something to three of its
messages: commitment, signature and proof to the input, the hash of all commitments to who survived,
and a signature of that hash to what follows. docs/validation.md describes it.
"""
