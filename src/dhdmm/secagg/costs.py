"""Processor time from counted operations: what a model puts in the place of measurements.

Every step of docs/secure-aggregation.md is a sum of counts times unit costs. The unit costs are
fixed here, so that a model's output is the same everywhere; `python -m bench simulation` measures
them anew and sets the model beside real rounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.secagg.counts import Counts
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState

Seconds = NDArray[np.floating[Any]]

_C = CoordinatorState

MICROSECONDS = {
    "key pair": 24.0,  # X25519, with its public half
    "agreement": 42.0,  # X25519 and HKDF-Extract
    "derivation": 2.4,  # HKDF-Expand of a key for one purpose
    "signature": 25.0,
    "verification": 61.0,
    "seal": 2.9,  # AES-GCM of two shares; to open one takes as long
    "tag": 4.5,  # one MAC, said or heard
    "hash": 1.0,  # one node of a tree
    "mask": 12.0,  # set-up of one key stream
    "mask word": 0.0009,  # key stream and addition, a coordinate
    "input word": 0.4,  # measurement and noise, a coordinate
    "packed word": 0.009,
    "unpacked word": 0.03,  # hashed and added, too
    "share": 2.0,  # for one holder, of two secrets
    "holder": 0.7,  # one share of a secret to reconstruct
    "choice": 1.5,  # one out-neighbour drawn and written
    "neighbour": 12.0,  # read, checked and journalled
    "item": 0.7,  # one ciphertext, tag or share that a participant reads or writes
    "entry": 0.2,  # one that the coordinator reads or writes in a row with others
    "relay": 1.1,  # one that it picks from a record
    "edge": 0.2,  # the coordinator's view of an entry of the graph
    "message": 90.0,  # read, answered and journalled
    "record": 22.0,  # read and kept by the coordinator
}
_SECONDS = {name: microseconds * 1e-6 for name, microseconds in MICROSECONDS.items()}


def participant_seconds(parameters: RoundParameters, counts: Counts) -> dict[str, Seconds]:
    """Of each participant in each phase."""
    c, k, length = counts, parameters.degree, parameters.length
    cost = _SECONDS
    journalled = cost["message"] + cost["item"] * c.neighbours
    sealed = cost["derivation"] + cost["seal"]
    masked = cost["mask"] + cost["mask word"] * length
    keys = 2 * cost["key pair"] + cost["message"]
    shares = (
        cost["message"]
        + (cost["neighbour"] + cost["agreement"]) * c.neighbours
        + cost["share"] * k
        + sealed * c.out
    )
    inputs = (
        journalled
        + sealed * c.deposits
        + (cost["input word"] + cost["packed word"]) * length
        + (cost["agreement"] + cost["derivation"] + masked) * c.included
        + masked
    )
    reveals = journalled + cost["item"] * c.deposits
    if not parameters.malicious:
        return {
            _C.COLLECTING_KEYS: keys + 0 * c.out,
            _C.COLLECTING_SHARES: shares,
            _C.COLLECTING_INPUTS: inputs,
            _C.COLLECTING_REVEALS: reveals,
        }
    hashed = 2 * c.neighbours + c.proof
    return {
        _C.COLLECTING_KEYS: keys + cost["signature"] + 0 * c.out,
        _C.COLLECTING_CHOICES: cost["message"] + cost["choice"] * k + 0 * c.out,
        _C.COLLECTING_SHARES: shares + cost["verification"] * c.out + cost["hash"] * hashed,
        _C.COLLECTING_INPUTS: inputs + cost["tag"] * c.included,
        _C.COLLECTING_ACKS: journalled + cost["tag"] * (c.alive + c.to_ack),
        _C.COLLECTING_REVEALS: reveals + cost["tag"] * c.acked,
    }


def coordinator_seconds(
    parameters: RoundParameters, counts: Counts
) -> tuple[dict[str, Seconds], dict[str, Seconds]]:
    """To make each participant's message, and to take each one's answer."""
    c, k, length = counts, parameters.degree, parameters.length
    cost = _SECONDS
    record, entry, relay, none = cost["record"], cost["entry"], cost["relay"], 0 * c.out
    opening: dict[str, Seconds] = {
        _C.COLLECTING_SHARES: record + entry * c.neighbours,
        _C.COLLECTING_INPUTS: record + relay * c.deposits,
        _C.COLLECTING_REVEALS: record + none,
    }
    taking: dict[str, Seconds] = {
        _C.COLLECTING_KEYS: record + none,
        _C.COLLECTING_SHARES: record + entry * c.out,
        _C.COLLECTING_INPUTS: record + cost["unpacked word"] * length + none,
        _C.COLLECTING_REVEALS: record + relay * c.deposits,
    }
    if parameters.malicious:
        opening[_C.COLLECTING_CHOICES] = record + none
        opening[_C.COLLECTING_SHARES] = opening[_C.COLLECTING_SHARES] + entry * c.proof
        opening[_C.COLLECTING_ACKS] = record + none
        taking[_C.COLLECTING_KEYS] = taking[_C.COLLECTING_KEYS] + cost["verification"]
        taking[_C.COLLECTING_CHOICES] = record + entry * k + none
        taking[_C.COLLECTING_INPUTS] = taking[_C.COLLECTING_INPUTS] + entry * c.included
        taking[_C.COLLECTING_ACKS] = record + entry * c.to_ack
    return opening, taking


def closing_seconds(
    parameters: RoundParameters, counts: Counts, answered: NDArray[np.bool_]
) -> dict[str, float]:
    """The graph once everybody is known, and the masks that are left in the end."""
    c, length = counts, parameters.length
    cost = _SECONDS
    graph = _C.COLLECTING_CHOICES if parameters.malicious else _C.COLLECTING_KEYS
    masked = cost["mask"] + cost["derivation"] + cost["mask word"] * length
    inputs = -3 if parameters.malicious else -2
    survivors, dropped = answered[inputs], answered[inputs - 1] & ~answered[inputs]
    # a dropped one's masks are in the inputs of its included neighbours that survived
    left_in = c.included[dropped].sum() * survivors.mean()
    holders = c.out[answered[inputs - 1]] * answered[-1].mean()
    unmasking = (
        cost["holder"] * float(holders.sum())
        + (cost["record"] + masked) * float(survivors.sum())
        + (cost["agreement"] + masked) * float(left_in)
    )
    tree = cost["hash"] * 2 * parameters.participants if parameters.malicious else 0.0
    return {
        graph: cost["edge"] * float(c.neighbours.sum()) + tree,
        _C.COLLECTING_REVEALS: unmasking,
    }
