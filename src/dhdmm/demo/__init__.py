"""A round to look at: a small study and synthetic records that resemble a census."""
