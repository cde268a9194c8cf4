"""For ways to add up over another one: what they have of it unchanged, and what they attach to it.

A message is the other way's message after the attachment and its length: one byte, or 255 and four
bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Self, TypeVar

import cbor2

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, AggregationError, MalformedMessage
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.method import (
    CoordinatorMachine,
    Method,
    ParticipantMachine,
    Phase,
    RoundParameters,
)
from dhdmm.aggregation.modulus import Modulus

_LONG, _LENGTH_BYTES = 255, 4
T = TypeVar("T")


class Below(Generic[T]):
    """An attribute that is the one of `self.below` with the same name.

    >>> class Wrapper:
    ...     def __init__(self, below: complex) -> None:
    ...         self.below = below
    ...     real = Below[float]()
    >>> Wrapper(3 + 4j).real
    3.0
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        found: T = getattr(instance.below, self._name)
        return found


def attach(attachment: bytes, message: bytes) -> bytes:
    return _length(len(attachment)) + attachment + message


def detach(data: bytes) -> tuple[bytes, bytes]:
    """The attachment, and the other way's message."""
    start = 1 if data[:1] < bytes([_LONG]) else 1 + _LENGTH_BYTES
    length = int.from_bytes(data[:1] if start == 1 else data[1:start], "big")
    if data[:start] != _length(length) or len(data) < start + length:
        raise MalformedMessage("an attachment of another length than it says")
    return data[start : start + length], data[start + length :]


def _length(length: int) -> bytes:
    if length < _LONG:
        return bytes([length])
    return bytes([_LONG]) + length.to_bytes(_LENGTH_BYTES, "big")


class Account(ABC):
    """What a transcript says of a sum, in canonical CBOR."""

    about: ClassVar[str]

    @abstractmethod
    def _fields(self) -> dict[str, Any]: ...

    @classmethod
    @abstractmethod
    def _of(cls, fields: Any) -> Self:
        """The inverse of `_fields`, of anything that CBOR can say."""

    def encode(self) -> bytes:
        return bytes(cbor2.dumps(self._fields(), canonical=True))

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        try:
            account = cls._of(cbor2.loads(encoded))
            canonical = account.encode() == encoded
        except (cbor2.CBORDecodeError, AggregationError, *_UNEXPECTED):
            canonical = False
        if not canonical:
            raise MalformedMessage(f"not an account of {cls.about}")
        return account


_UNEXPECTED = (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError)


# ---- what every wrapper has of the one below it -------------------------------------------------


@dataclass(frozen=True)
class MethodOver:
    """A way to add up over the one `below`."""

    below: Method

    version = Below[int]()
    phases = Below[tuple[Phase, ...]]()
    needs_pinned_roster = Below[bool]()
    has_helper = Below[bool]()
    announces_root = Below[bool]()
    parameter_names = Below[tuple[str, ...]]()
    choose = Below[Callable[[int, float, float], Any]]()
    check = Below[Callable[[Any, int, float, float], None]]()
    parameters_of = Below[Callable[[Mapping[str, int], int], Any]]()

    def fewest_senders(self, round: RoundOver, phase: Phase) -> int:
        return self.below.fewest_senders(round.below, phase)

    def carries_input(self, data: bytes) -> bool:
        return self.below.carries_input(detach(data)[1])


@dataclass(frozen=True)
class RoundOver:
    """The terms of one round, which are those of the round `below`."""

    below: RoundParameters

    session = Below[bytes]()
    round_id = Below[bytes]()
    participants = Below[int]()
    minimum_survivors = Below[int]()
    modulus = Below[Modulus]()
    length = Below[int]()


class AttachingJournal:
    """Between a machine and its journal: attaches to what leaves, before that is kept.

    Behind the machine's own state it keeps something for the wrapper: `kept`, a number of times
    `unit` bytes. `attached_to` is asked what is attached to a message, and what is kept from then
    on.
    """

    def __init__(
        self,
        journal: Journal,
        attached_to: Callable[[bytes], tuple[bytes, bytes]],
        unit: int = 1,
    ) -> None:
        self._journal, self._attached_to, self._unit = journal, attached_to, unit
        self.kept = b""
        self.outgoing: bytes | None = None

    def write(self, state: bytes, outgoing: bytes) -> None:
        attachment, kept = self._attached_to(outgoing)
        sent = attach(attachment, outgoing)
        self._journal.write(state + kept + bytes([len(kept) // self._unit]), sent)
        self.kept, self.outgoing = kept, sent

    def read(self) -> tuple[bytes, bytes] | None:
        written = self._journal.read()
        if written is None:
            return None
        state, self.outgoing = written
        end = len(state) - 1 - self._unit * state[-1]
        self.kept = state[end:-1]
        return state[:end], detach(self.outgoing)[1] if self.outgoing else b""


class ParticipantOver:
    """One participant in one round, around the machine `below`, to whose messages it attaches."""

    below: ParticipantMachine
    _journal: AttachingJournal

    ready_for_input = Below[bool]()
    input_is_outgoing = Below[bool]()
    over = Below[bool]()
    abort_reason = Below[AbortReason | None]()
    round_aborted = Below[AbortReason | None]()
    root = Below[bytes | None]()
    survivors = Below[Bitmap | None]()
    progress = Below[str]()
    computed = Below[Callable[[], bytes]]()
    reuse = Below[Callable[[bytes], None]]()

    @property
    def outgoing(self) -> bytes | None:
        return self._journal.outgoing

    def begin(self) -> bytes | None:
        return self._sent_or_nothing(self.below.begin())

    def abort(self, reason: AbortReason) -> bytes:
        return self._sent(self.below.abort(reason))

    def _sent_or_nothing(self, answer: bytes | None) -> bytes | None:
        return None if answer is None else self._sent(answer)

    def _sent(self, message: bytes) -> bytes:
        """What was kept, which is this message and its attachment."""
        assert self._journal.outgoing is not None
        assert self._journal.outgoing.endswith(message)
        return self._journal.outgoing


class CoordinatorOver:
    """The coordinator of one round, around the machine `below`."""

    below: CoordinatorMachine

    invited = Below[Collection[int]]()
    departed = Below[Mapping[int, AbortReason]]()
    survivors = Below[Bitmap | None]()
    announced = Below[bytes | None]()
    introduced = Below[Callable[[int], Sequence[int]]]()
    abort = Below[Callable[[AbortReason], frozenset[int]]]()
    settled = Below[int | None]()
    asks_helper = Below[bool]()
    waits_for_helper = Below[bool]()
    flush = Below[Callable[[], None]]()
