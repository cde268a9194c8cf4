"""Participants that live together, and whoever moves their bytes: for the runner and the simulator.

Their sessions are the real ones. A cohort lives in this process, in a worker process, or elsewhere.
"""
