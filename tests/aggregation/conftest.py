"""Coordinators in the tests' own process."""

from tests.service.quick import quick_coordinators as quick_coordinators
