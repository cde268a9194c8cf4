"""The ways to add up that a study may ask for: the one place that knows which there are."""

from __future__ import annotations

from dhdmm.aggregation.method import Method, ThreatModel
from dhdmm.secagg.method import SecureAggregation
from dhdmm.study.models import AggregationModel

METHODS: dict[ThreatModel, Method] = {
    threat_model: SecureAggregation(threat_model) for threat_model in ThreatModel
}
"""By threat model, without validation of inputs, which changes no phase."""


def method_for(aggregation: AggregationModel) -> Method:
    """What the study asks for; an error names the extra that validation needs."""
    below = METHODS[ThreatModel(aggregation.threat_model)]
    if aggregation.validation == "none":
        return below
    from dhdmm.validated.method import ValidatedSum  # with a library that is an extra

    return ValidatedSum(below, bounded=aggregation.validation == "bounded")
