"""Adding up vectors that nobody may see: what every way to do so offers, and what all share."""
