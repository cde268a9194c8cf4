"""Adding up with two servers: a participant sends one message, and is done.

Safe while one of the two is honest. The leader is the coordinator; the helper is run by somebody
else. Each gets one of two shares of every input, and either share alone is uniform: docs/adr/041.
Nothing here knows of time, sockets, logs or the operating system.
"""
