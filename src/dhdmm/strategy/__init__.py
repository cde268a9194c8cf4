"""How to measure it: the best strategy for a workload, as exact integers, with a certificate.

symmetry.py finds the structure, optimum.py solves the convex problem, integer.py rounds it,
strategy.py is the result; optimise.py is the entry point.
"""
