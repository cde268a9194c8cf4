"""The coordinator's end of rounds over a network. Needs `dhdmm[serve]`."""
