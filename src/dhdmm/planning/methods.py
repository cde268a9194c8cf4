"""The ways to add up that a study may ask for: the one place that knows which there are."""

from __future__ import annotations

from importlib.util import find_spec

from dhdmm.aggregation.method import Method, ThreatModel
from dhdmm.errors import PrivacyError
from dhdmm.removal.method import RemovedExcess
from dhdmm.secagg.method import MODELS, SecureAggregation
from dhdmm.study.models import AggregationModel
from dhdmm.twoservers.method import TwoServers
from dhdmm.twoservers.sealing import Sealing

LIBRARY = "py_arkworks_bls12381"
"""What proofs and commitments need, of the extra `validation`."""
METHODS: dict[ThreatModel, Method] = {
    **{threat_model: SecureAggregation(threat_model) for threat_model in MODELS},
    ThreatModel.TWO_SERVERS: TwoServers(),
}
"""By threat model, without validation of inputs, which changes no phase."""


def method_for(aggregation: AggregationModel) -> Method:
    """What the study asks for; an error names the extra that validation needs."""
    method = _validated(aggregation)
    return RemovedExcess(method) if aggregation.excess_noise == "remove" else method


def _validated(aggregation: AggregationModel) -> Method:
    below = METHODS[ThreatModel(aggregation.threat_model)]
    if isinstance(below, TwoServers):
        below = TwoServers(Sealing(aggregation.sealing))
    if aggregation.validation == "none":
        return below
    if find_spec(LIBRARY) is None:
        raise PrivacyError(
            f"'validation: {aggregation.validation}' needs the package '{LIBRARY}',"
            " which is not installed",
            where="aggregation",
            hint="install dhdmm with its extra 'validation': pip install 'dhdmm[validation]'",
        )
    from dhdmm.validated.method import ValidatedSum

    return ValidatedSum(below, bounded=aggregation.validation == "bounded")
