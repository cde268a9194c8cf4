"""What the cryptography that secure aggregation prescribes costs a participant: counts × costs.

The narrow floor is agreements, key stream, additions, signatures and MACs. The whole floor has the
rest of what the protocol prescribes too: derived keys, sealed shares, sharing, set-ups of ciphers,
one's own key pairs, the hashes of the key tree. Neither has encodings, checks or the journal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dhdmm.secagg.round import RoundParameters

Costs = Mapping[str, float]  # µs of a primitive, by its name in bench.primitives


@dataclass(frozen=True)
class Item:
    """So many calls of a primitive, or bytes or words through it."""

    name: str
    primitive: str
    count: float
    narrow: bool

    def milliseconds(self, costs: Costs) -> float:
        return self.count * costs[self.primitive] / 1000


def items(parameters: RoundParameters, neighbours: float) -> list[Item]:
    """What a participant with so many neighbours does in a round; N = neighbours, k = degree.

    In the semi-honest model N = k. In the malicious model shares go to the k neighbours that the
    participant chose, whose signatures it checks, and come from as many that chose it; "included"
    goes to and comes from all N, an ack to and from k.
    """
    n, k, length, malicious = (
        parameters.participants,
        parameters.degree,
        parameters.length,
        parameters.malicious,
    )
    masks, spoken = neighbours + 1, 2 * neighbours + 2 * k if malicious else 0.0
    counted = [
        Item("agreements", "x25519", 2 * neighbours, True),
        Item("key stream", "aes-ctr byte", 4 * length * masks, True),
        Item("additions", "add 32-bit word", length * masks, True),
        Item("MACs", "hmac", spoken, True),
        Item("derived keys", "hmac", 3 * neighbours + 2 * k + 2, False),
        Item("sealed shares", "aes-gcm", 2 * k, False),
        Item("sharing", "shamir", 1, False),
        Item("cipher set-ups", "aes-ctr set-up", masks, False),
        Item("key pairs", "x25519 base", 2, False),
    ]
    if malicious:
        hashed = masks * (2 + math.log2(n / masks))  # leaves, nodes between, nodes above them
        counted += [
            Item("signatures checked", "ed25519 verify", k, True),
            Item("signatures made", "ed25519 sign", 1, True),
            Item("key tree", "sha256", hashed, False),
        ]
    return counted


def floors(counted: list[Item], costs: Costs) -> tuple[float, float]:
    """Milliseconds: the narrow floor and the whole one."""
    narrow = sum(item.milliseconds(costs) for item in counted if item.narrow)
    return narrow, sum(item.milliseconds(costs) for item in counted)
