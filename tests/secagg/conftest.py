"""Property tests here are seeded and measure no time."""

from hypothesis import settings

settings.register_profile("seeded", derandomize=True, deadline=None)
settings.load_profile("seeded")
