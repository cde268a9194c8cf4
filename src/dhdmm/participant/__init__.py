"""A data holder: its table, its policy, its measurement."""
