"""The published evaluation and its baselines. Not part of the installed package: run it in a clone.

`python -m research` needs the dependency group `research`, which `make test` installs as well.
"""
