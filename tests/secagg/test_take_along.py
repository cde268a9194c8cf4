"""A participant that is put to sleep may take its agreed keys along, and loses nothing by it."""

import pytest

from dhdmm.secagg.channels import Channels, Neighbour
from dhdmm.secagg.keys import KeyPair, Label
from tests.secagg.seeded import seeded

SESSION = bytes(32)


def test_reused_keys_say_and_hear_what_agreed_ones_do(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = (KeyPair.from_secret(seeded(name)(32)) for name in ("mine", "theirs"))
    neighbours = [Neighbour(2, 3, bytes(32), theirs.public)]
    before = Channels(SESSION, 1, mine)
    said, kept = before.evidence_for(Label.ACK, neighbours[0]), before.agreed(neighbours)
    resumed = Channels(SESSION, 1, mine)
    resumed.reuse(neighbours, kept)
    monkeypatch.setattr(KeyPair, "agree", None)  # nothing is agreed upon again
    assert resumed.evidence_for(Label.ACK, neighbours[0]) == said
