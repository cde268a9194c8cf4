"""A data holder's end of a round over a network. Needs `dhdmm[join]`."""
