"""What a coordinator offers somebody who has a seat: the terms of its round, and a place in it.

A participant has the draft already. Of the plan it is sent what depends on who takes part, and
puts the rest together itself; of the roster it is shown its own place. Nothing of it is believed:
the plan is reviewed, and the place has to be one of the roster that the plan names.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any

import cbor2

from dhdmm.errors import DhdmmError

if TYPE_CHECKING:
    from dhdmm.network.roster import RosterFile


@dataclass(frozen=True)
class Place:
    """A place on a roster, the path from its leaf to the root, and what the registrar signed."""

    position: int
    name: str
    path: bytes
    registrar: bytes | None
    signature: bytes | None
    edition: list[Any] | None
    """Serial number, date and study, as in the roster file."""

    @classmethod
    def on(cls, file: RosterFile, position: int) -> Place:
        path = file.roster.tree.multiproof([position])
        edition = None if file.edition is None else list(astuple(file.edition))
        name = file.roster.names[position]
        return cls(position, name, path, file.registrar, file.signature, edition)


@dataclass(frozen=True)
class Offer:
    """Encoded as canonical CBOR of these fields."""

    state: str
    """Of the round, by now."""
    reason: str | None
    """Why the round was aborted, if it was."""
    terms: bytes
    """The encoded plan without study and strategy; empty if the round was aborted before it."""
    place: Place | None
    """None where the plan names the roster as dhdmm 0.1.0 did: then all of it is needed."""

    def to_bytes(self) -> bytes:
        place = None if self.place is None else vars(self.place)
        return bytes(cbor2.dumps(vars(self) | {"place": place}, canonical=True))

    @classmethod
    def from_bytes(cls, encoded: bytes) -> Offer:
        try:
            values = cbor2.loads(encoded)
        except (cbor2.CBORDecodeError, ValueError, RecursionError, OverflowError, MemoryError):
            values = None
        _require_fields(values, _OFFER)
        place = values["place"]
        if place is not None:
            _require_fields(place, _PLACE)
            place = Place(**place)
        return cls(**values | {"place": place})


_OFFER: dict[str, tuple[type, ...]] = {
    "state": (str,),
    "reason": (str, type(None)),
    "terms": (bytes,),
    "place": (dict, type(None)),
}
_PLACE: dict[str, tuple[type, ...]] = {
    "position": (int,),
    "name": (str,),
    "path": (bytes,),
    "registrar": (bytes, type(None)),
    "signature": (bytes, type(None)),
    "edition": (list, type(None)),
}
assert {field.name for field in fields(Offer)} == _OFFER.keys()
assert {field.name for field in fields(Place)} == _PLACE.keys()


def _require_fields(values: Any, known: dict[str, tuple[type, ...]]) -> None:
    fit = type(values) is dict and values.keys() == known.keys()
    if not fit or any(type(values[name]) not in kinds for name, kinds in known.items()):
        raise DhdmmError("the coordinator's offer cannot be understood")
