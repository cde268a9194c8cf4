"""The two parties of a round, without input or output: others move bytes and own the clock."""
