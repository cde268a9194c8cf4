"""A round over a network: the coordinator's application, and the participant's way to it.

The sessions know the protocol; here bytes are moved, kept and refused. Needs `dhdmm[service]`.
"""
