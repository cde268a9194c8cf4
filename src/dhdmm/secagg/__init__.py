"""Secure aggregation: n participants, one coordinator, which learns the sum over Z_m and no more.

Bell, Bonawitz, Gascón, Lepoint and Raykova (CCS 2020), semi-honest and malicious. Nothing here
knows of time, sockets, logs or the operating system: messages and randomness come in as arguments.
"""
