"""What everybody agrees on: study, strategy, noise, modulus and graph as one value, one digest."""
