"""The ways to add up that a study may ask for: the one place that knows which there are."""

from __future__ import annotations

from dhdmm.aggregation.method import Method, ThreatModel
from dhdmm.secagg.method import SecureAggregation

METHODS: dict[ThreatModel, Method] = {
    threat_model: SecureAggregation(threat_model) for threat_model in ThreatModel
}
