"""Processor time from counted operations: what a model puts in the place of measurements.

Every step of docs/secure-aggregation.md is a sum of counts times unit costs. The unit costs are
fixed here, so that a model's output is the same everywhere. They are those of one core of a cloud
machine, 2026, whose fixed loop in `python -m bench checks` takes 5.3 ms: single units measured, the
rest fitted to whole rounds of 100 to 100,000 participants. Other machines are faster or slower as a
whole, and differ in what cryptography costs beside Python: `python -m bench simulation coordinator`
sets the model, and single units, beside what is measured on the machine it runs on. What a
processor's caches do to a coordinator with 100,000 participants is not in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.merkle import expected_proof
from dhdmm.secagg.counts import Counts
from dhdmm.secagg.round import RoundParameters
from dhdmm.secagg.states import CoordinatorState

Seconds = NDArray[np.floating[Any]]

_C = CoordinatorState

MICROSECONDS = {
    # both
    "key pair": 17.5,  # X25519, with its public half
    "agreement": 35.0,  # X25519 and HKDF-Extract
    "derivation": 2.3,  # HKDF-Expand of a key for one purpose
    "verification": 56.0,
    "mask": 12.0,  # set-up of one key stream
    "mask word": 0.0007,  # key stream and addition, a coordinate
    "hash": 1.2,  # one node of a tree
    # a participant's
    "signature": 21.0,
    "seal": 2.1,  # AES-GCM of two shares; to open one takes as long
    "tag": 3.4,  # one MAC, said or heard
    "input word": 0.25,  # measurement and noise, a coordinate
    "packed word": 0.0013,
    "share": 2.9,  # for one holder, of two secrets
    "choice": 0.57,  # one out-neighbour drawn and written
    "neighbour": 14.0,  # read, checked and journalled
    "introduction": 5.6,  # of one out-neighbour, read and hashed
    "item": 0.7,  # one ciphertext, tag or share that is read or written
    "message": 50.0,  # read, answered and journalled
    # the coordinator's
    "opened": 3.6,  # the least that making a message takes
    "gathered": 6.5,  # if it has to be gathered from what others said
    "taken": 14.0,  # the least that taking one takes
    "checked": 26.0,  # if its parts have to be looked at
    "unpacked word": 0.012,  # hashed and added, too
    "entry": 0.08,  # one item that is read or written in a row with others
    "kept ciphertext": 0.42,  # one ciphertext that is kept, and hashed
    "edge": 0.53,  # an entry of the graph, and telling of it
    "proof": 28.0,  # one multiproof, with nothing in it
    "node": 0.07,  # a node of one
    "introduced": 0.35,  # who somebody is
    "holder": 1.1,  # one share of a secret to reconstruct
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
        + sealed * c.held
        + (cost["input word"] + cost["packed word"]) * length
        + (cost["agreement"] + cost["derivation"] + masked) * c.included
        + masked
    )
    reveals = journalled + cost["item"] * c.held
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
        _C.COLLECTING_SHARES: shares
        + (cost["verification"] + cost["introduction"]) * c.out
        + cost["hash"] * hashed,
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
    opened, gathered = cost["opened"], cost["opened"] + cost["gathered"]
    taken, entry, none = cost["taken"], cost["entry"], 0 * c.out
    checked = taken + cost["checked"]
    opening: dict[str, Seconds] = {
        _C.COLLECTING_SHARES: opened + cost["edge"] * c.neighbours,
        _C.COLLECTING_INPUTS: gathered + entry * c.held,
        _C.COLLECTING_REVEALS: opened + none,
    }
    taking: dict[str, Seconds] = {
        _C.COLLECTING_KEYS: taken + none,
        _C.COLLECTING_SHARES: taken + cost["kept ciphertext"] * c.out,
        _C.COLLECTING_INPUTS: taken + cost["unpacked word"] * length + none,
        _C.COLLECTING_REVEALS: checked + 2 * entry * c.held,
    }
    if parameters.malicious:
        nodes = c.proof + expected_proof(parameters.participants, c.out)
        opening[_C.COLLECTING_CHOICES] = opened + none
        opening[_C.COLLECTING_SHARES] += (
            2 * cost["proof"] + cost["node"] * nodes + cost["introduced"] * c.out
        )
        opening[_C.COLLECTING_ACKS] = gathered + entry * c.alive
        opening[_C.COLLECTING_REVEALS] = gathered + entry * c.acked
        taking[_C.COLLECTING_KEYS] += cost["verification"]
        taking[_C.COLLECTING_CHOICES] = taken + entry * k + none
        taking[_C.COLLECTING_INPUTS] += cost["checked"] + 2 * entry * c.included
        taking[_C.COLLECTING_ACKS] = taken + entry * c.to_ack
    return opening, taking


def closing_seconds(
    parameters: RoundParameters, counts: Counts, answered: NDArray[np.bool_]
) -> dict[str, float]:
    """The tree of everybody's keys, and the masks that are left in the end."""
    c, length = counts, parameters.length
    cost = _SECONDS
    masked = cost["mask"] + cost["derivation"] + cost["mask word"] * length
    inputs = -3 if parameters.malicious else -2
    survivors, dropped = answered[inputs], answered[inputs - 1] & ~answered[inputs]
    # a dropped one's masks are in the inputs of its included neighbours that survived
    left_in = c.included[dropped].sum() * survivors.mean()
    holders = c.out[answered[inputs - 1]] * answered[-1].mean()
    unmasking = (
        cost["holder"] * float(holders.sum())
        + (cost["derivation"] + masked) * float(survivors.sum())
        + (cost["agreement"] + masked) * float(left_in)
    )
    tree = cost["hash"] * 2 * parameters.participants if parameters.malicious else 0.0
    return {_C.COLLECTING_KEYS: tree, _C.COLLECTING_REVEALS: unmasking}
