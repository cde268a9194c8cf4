"""The bytes of docs/protocol.md, against a second implementation."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import numpy as np
import pytest

from dhdmm.aggregation.derivation import session_of
from dhdmm.aggregation.group import Group
from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.aggregation.method import ThreatModel
from dhdmm.aggregation.modulus import Modulus, SumRange
from dhdmm.twoservers import messages as m
from dhdmm.twoservers import shares
from dhdmm.twoservers.sealing import PublicKey, Sealing, SecretKey, number_of
from tests.vectors.make_two_servers import VECTORS, make_vectors

V = json.loads(VECTORS.read_text())
SESSION, POSITION = bytes.fromhex(V["session"]), V["position"]
SUITES = list(Sealing)


def of(suite: Sealing, name: str) -> bytes:
    return bytes.fromhex(V["reports"][suite][name])


def closing(suite: Sealing, name: str) -> bytes:
    return bytes.fromhex(V["closings"][suite][name])


def test_the_vectors_are_current() -> None:
    assert json.loads(json.dumps(make_vectors())) == V


def test_the_session_names_plan_round_model_and_roster() -> None:
    names = [bytes.fromhex(V[name]) for name in ("plan_digest", "round_id", "roster_digest")]
    assert session_of(*names[:2], ThreatModel.TWO_SERVERS, names[2]) == SESSION


@pytest.mark.parametrize("suite", SUITES)
def test_sealed_seeds_open_for_their_round_and_participant(suite: Sealing) -> None:
    secret, info = SecretKey(suite, of(suite, "helper_secret")), of(suite, "info")
    assert secret.public == of(suite, "helper_public")
    assert shares.seal_info(SESSION, POSITION) == info
    assert secret.open(of(suite, "sealed"), info) == of(suite, "seed")
    again = PublicKey(suite, secret.public).seal(of(suite, "seed"), info)
    assert secret.open(again, info) == of(suite, "seed")


@pytest.mark.parametrize("suite", SUITES)
def test_shares_are_those_of_the_stream(suite: Sealing) -> None:
    modulus = Modulus(V["modulus"])
    ranges = tuple(SumRange(*one) for one in V["sum_ranges"])
    group = Group(modulus, len(V["vector"]), sum_ranges=ranges)
    total, share = group.zero(), group.element(np.array(V["vector"]), 0)
    shares.add_helper_share(group, total, SESSION, POSITION, of(suite, "seed"), 1)
    assert modulus.reduce(total.vector).tolist() == V["reports"][suite]["helper_share"]
    shares.add_helper_share(group, share, SESSION, POSITION, of(suite, "seed"), -1)
    assert modulus.reduce(share.vector).tolist() == V["reports"][suite]["leader_share"]
    assert group.pack(share) == of(suite, "packed")
    received = group.unpack(of(suite, "packed"))
    assert group.pack(received) == of(suite, "packed")
    group.add(received, total)
    assert group.residues(received).tolist() == V["vector"]


@pytest.mark.parametrize("suite", SUITES)
def test_messages_have_these_bytes(suite: Sealing) -> None:
    signature = of(suite, "signature")
    report = m.Report(SESSION, POSITION, of(suite, "sealed"), of(suite, "packed"), signature)
    assert report.encode() == of(suite, "report")
    assert m.decode(of(suite, "report")) == report
    key = m.decode(of(suite, "helper_key_message"))
    assert key.key == of(suite, "helper_public")
    summed = m.decode(closing(suite, "sum_message"))
    assert summed.root == closing(suite, "root")
    assert m.decode(closing(suite, "closing_message")).members.members() == (POSITION,)


@pytest.mark.parametrize("suite", SUITES)
def test_what_is_signed_is_what_the_page_says(suite: Sealing) -> None:
    identity = Identity(bytes.fromhex(V["identity_seed"]))
    vector_hash = sha256(of(suite, "packed")).digest()
    said = shares.report_statement(SESSION, POSITION, of(suite, "sealed"), vector_hash)
    assert said == of(suite, "statement")
    assert identity.sign(said) == of(suite, "signature")
    reported = m.Reported(POSITION, vector_hash, of(suite, "signature"))
    known = shares.report_hash(SESSION, reported, of(suite, "sealed"))
    assert known == of(suite, "report_hash")
    helper = bytes.fromhex(V["helper_identity_public"])
    key = m.decode(of(suite, "helper_key_message"))
    said = shares.key_statement(SESSION, number_of(suite), key.key)
    assert signature_holds(helper, said, key.signature)
    leaves = [known if i == POSITION else None for i in range(V["participants"])]
    assert shares.reports_root(leaves) == closing(suite, "root")
    commitment = shares.leader_commitment(SESSION, closing(suite, "salt"), of(suite, "packed"))
    assert commitment == closing(suite, "commitment")
    summed: Any = m.decode(closing(suite, "sum_message"))
    said = shares.sum_statement(SESSION, commitment, summed.root, summed.vector)
    assert signature_holds(helper, said, summed.signature)
