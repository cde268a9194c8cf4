"""What every test relies on: reproducible hypothesis runs, and no timing verdicts."""

from hypothesis import settings

settings.register_profile("dhdmm", derandomize=True, deadline=None, print_blob=True)
settings.load_profile("dhdmm")
