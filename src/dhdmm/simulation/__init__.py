"""Rounds under a virtual clock: real sessions and cryptography, measured once; only the network is
a model, and every network replays the same trace."""
