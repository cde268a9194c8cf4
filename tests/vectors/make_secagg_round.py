"""Vectors of messages and of whole small rounds; python -m tests.vectors.make_secagg_round

Everything is a function of the seeds in the file: identity i is SHA-256("identity of i"), party p
draws from AES-256-CTR under SHA-256(repr((seed, p))), p a position or "coordinator".
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from dhdmm.aggregation.errors import AbortReason
from dhdmm.aggregation.method import ThreatModel
from dhdmm.secagg import messages as m
from dhdmm.secagg.parameters import MODELS
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState
from tests.protocol.network import Network, setting

HERE = Path(__file__).parent
SESSION = bytes(range(32))


def sample_messages() -> list[m.Message]:
    """One message of every type."""
    key, other, hashed, signature = b"\x01" * 32, b"\x02" * 32, b"\x03" * 32, b"\x04" * 64
    ciphertexts = (b"\x05" * m.CIPHERTEXT_BYTES, b"\x06" * m.CIPHERTEXT_BYTES)
    some, alive = m.Bitmap.of(3, [0, 2]), m.Bitmap.of(10, [0, 1, 3, 4, 5, 6, 7, 9])
    tags, share = (b"\x07" * 16, b"\x08" * 16), b"\x09" * 36
    fields: dict[type[m.Message], tuple[Any, ...]] = {
        m.Keys: (key, other),
        m.SignedKeys: (key, other, signature),
        m.Root: (hashed,),
        m.Choice: ((0, 3, 9),),
        m.Neighbours: ((m.PublicKeys(0, key, other), m.PublicKeys(9, other, key)),),
        m.ProvenNeighbours: ((m.SignedPublicKeys(3, 1, key, other, signature),), hashed),
        m.Shares: (hashed, ciphertexts),
        m.RelayedShares: (some, ciphertexts),
        m.MaskedInput: (b"packed",),
        m.EvidencedInput: (b"packed", some, tags),
        m.Survivors: (alive,),
        m.EvidencedSurvivors: (alive, tags),
        m.Acks: (tags[:1],),
        m.RelayedAcks: (some, tags),
        m.Unmask: ((m.Reveal(0, 0, share), m.Reveal(9, 1, share)),),
        m.Aborted: (AbortReason.TOO_FEW_ACKS,),
    }
    return [message(SESSION, 2, *fields[message]) for message in m.MESSAGES]


def message_vectors() -> dict[str, str]:
    return {type(message).__name__: message.encode().hex() for message in sample_messages()}


def round_vectors(threat_model: ThreatModel) -> dict[str, Any]:
    """Six participants, four neighbours each; participant 2 is silent from its masked input on."""
    chosen = setting(6, threat_model, degree=4, threshold=3, minimum_survivors=4, modulus=2**13)
    # the roster is named as by dhdmm 0.1.0: that these bytes stay is part of what is tested
    flat = replace(chosen.parameters, roster_digest=chosen.roster.flat_digest)
    chosen = replace(chosen, parameters=flat)
    traffic: list[dict[str, Any]] = []

    def upward(phase: CoordinatorState, position: int, data: bytes) -> bytes | None:
        if phase is CoordinatorState.COLLECTING_INPUTS and position == 2:
            return None
        traffic.append({"from": position, "message": data.hex()})
        return data

    def downward(phase: CoordinatorState, position: int, data: bytes) -> bytes:
        traffic.append({"to": position, "message": data.hex()})
        return data

    network = Network.of(chosen, "vector", to_coordinator=upward, to_participant=downward)
    result = network.run().result
    assert result is not None
    return {
        "seed": "vector",
        "parameters": _described(chosen.parameters),
        "identities": [identity.hex() for identity in chosen.roster.identities],
        "session": chosen.parameters.session.hex(),
        "inputs": [chosen.unit_vector(i).tolist() for i in chosen.everybody],
        "traffic": traffic,
        "survivors": list(result.survivors.members()),
        "sum": result.total.tolist(),
    }


def _described(parameters: RoundParameters) -> dict[str, Any]:
    return {
        "plan_digest": parameters.plan_digest.hex(),
        "round_id": parameters.round_id.hex(),
        "threat_model": parameters.threat_model,
        "roster_digest": parameters.roster_digest.hex(),
        "participants": parameters.participants,
        "degree": parameters.degree,
        "threshold": parameters.threshold,
        "minimum_survivors": parameters.minimum_survivors,
        "modulus": parameters.modulus.value,
        "length": parameters.length,
        "evidence": "mac",
    }


def files() -> dict[str, Any]:
    """Every vector file and its content."""
    rounds = {f"secagg-round-{model}.json": round_vectors(model) for model in MODELS}
    return {"secagg-messages.json": message_vectors(), **rounds}


if __name__ == "__main__":
    for name, content in files().items():
        (HERE / name).write_text(json.dumps(content, indent=1) + "\n")
