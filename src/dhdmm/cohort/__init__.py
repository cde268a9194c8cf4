"""Many participants on one machine, and what moves their bytes: for the runner and the simulator.

Their sessions are the real ones. A cohort is in this process, in a worker process, or elsewhere.
"""
