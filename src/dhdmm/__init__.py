"""Query workloads over data that many parties hold, without a trusted curator."""

__version__ = "0.1.0"
