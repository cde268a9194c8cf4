"""The command line: thin commands over the public API. Heavy imports wait until a command runs."""
