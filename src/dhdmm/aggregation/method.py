"""A way to add up: what plans, parties, pages and transcripts need to know of it, and nothing else.

`dhdmm.secagg` is one, in two threat models, and `dhdmm.twoservers` another; tests have a trusted
party in their place. `dhdmm.planning.methods` names those that a study may ask for. All parties are
state machines without input or output: others move their bytes, own the clock and decide when a
phase is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence, Set
from dataclasses import dataclass, fields
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from typing import Any, NoReturn, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError
from dhdmm.aggregation.group import Group
from dhdmm.aggregation.identity import Identity
from dhdmm.aggregation.journal import Journal
from dhdmm.aggregation.modulus import Modulus, SumRange, Vector
from dhdmm.aggregation.randomness import Randomness
from dhdmm.aggregation.roster import KnownRoster, Roster

Store = MutableMapping[str, bytes]
"""What a coordinator must not forget: its state, one record per message, and the running sum."""

Lookup = Callable[[str], bytes | None]
"""The record of a coordinator's store with this name, if there is one."""

STATE, SUM, PENDING = "state", "sum/", "pending/"
"""Names in a store: of the record of the phase, and before the names of a shard of the sum and of
what is deleted again. A store without the first belongs to no round yet."""


class ThreatModel(StrEnum):
    """Against whom a round protects: a coordinator that follows the protocol, any coordinator, or
    any of two servers while the other is honest."""

    SEMI_HONEST = "semi-honest"
    MALICIOUS = "malicious"
    TWO_SERVERS = "two-servers"


# ---- phases, as data ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Phase:
    """A part of a round in which everybody who is invited says one thing.

    It is closed at its deadline, or when nobody is awaited any more. Whoever has spoken is invited
    to the next phase; with too few of them the round is aborted.
    """

    name: str
    """In statuses, stores and transcripts; never changed."""
    title: str
    explanation: str
    carries_input: bool = False
    """Who sends a message in this phase is a survivor: its input is in the sum."""


ENROLMENT = Phase("enrolling", "Enrolment", "Participants are enrolling.")
"""The first phase of a round over a network whose roster is not given."""
FINISHED = Phase("finished", "Release", "The round is finished.")
ABORTED = Phase("aborted", "Aborted", "The round was aborted.")
OVER = frozenset({FINISHED.name, ABORTED.name})


class Reply(StrEnum):
    """What became of a participant's message."""

    ACCEPTED = "accepted"
    REPEATED = "repeated"  # the same bytes as before: nothing was done again
    EXCLUDED = "excluded"  # well-formed, but its sender cannot be among the survivors
    WAITING = "waiting"  # kept; it counts when the helper has accepted it, too


# ---- what a plan fixes --------------------------------------------------------------------------


class ParameterError(ValueError):
    """No parameters, or not these, keep the promises for such a round."""


class Parameters(Protocol):
    """What a plan says of its way to add up; everybody checks it for itself."""

    @property
    def minimum_survivors(self) -> int:
        """u_min: with fewer the round is aborted."""

    @property
    def corrupt(self) -> int:
        """How many may collude with the coordinator."""

    @property
    def honest_floor(self) -> int:
        """h: the honest noise shares in every sum that can be found out."""

    def fields(self) -> dict[str, int]:
        """As a plan's encoding has them."""


@dataclass(frozen=True, kw_only=True)
class AgreedTerms:
    """What every way to add up fixes of one round of one plan, for one roster."""

    plan_digest: bytes
    round_id: bytes
    roster_digest: bytes
    participants: int
    modulus: Modulus
    length: int
    scalar_modulus: int = 1
    """Of one number that is added up beside the vector; modulo 1 there is none."""
    sum_ranges: tuple[SumRange, ...] = ()
    """Of all coordinates, for ways to add up that send no more bits than sums need."""

    def __post_init__(self) -> None:
        sizes = len(self.plan_digest), len(self.round_id), len(self.roster_digest)
        if sizes != (32, 16, 32):
            raise LocalProtocolError(
                "a plan digest has 32 bytes, a round id 16, a roster digest 32"
            )
        if self.length < 1:
            raise LocalProtocolError("a round needs one coordinate")

    def agreed(self) -> dict[str, Any]:
        """These terms alone, by name."""
        return {field.name: getattr(self, field.name) for field in fields(AgreedTerms)}

    @cached_property
    def group(self) -> Group:
        """In which inputs are added up."""
        return Group(self.modulus, self.length, self.scalar_modulus, self.sum_ranges)


@dataclass(frozen=True, kw_only=True)
class RoundTerms(AgreedTerms):
    """With what only some ways to add up have to know."""

    norm_bound: int
    """No honest input is longer, as a vector of integers, but for a probability of 2⁻⁸⁰."""
    helper: bytes = b""
    """The Ed25519 key of a second server, where there is one."""
    noise_variance: Fraction = Fraction(0)
    """Of the noise in an honest input."""


class RoundParameters(Protocol):
    """The terms of a round and the parameters of its way to add up."""

    @property
    def session(self) -> bytes:
        """Of 32 bytes; names the plan, the round and the roster."""

    @property
    def round_id(self) -> bytes: ...

    @property
    def participants(self) -> int: ...

    @property
    def minimum_survivors(self) -> int: ...

    @property
    def modulus(self) -> Modulus: ...

    @property
    def length(self) -> int: ...

    @property
    def input_bytes(self) -> int:
        """Of an input as it leaves, with what is attached to it."""


# ---- the two parties ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Aggregate:
    """The result: the residues of Σ x_i over the survivors, and of the numbers beside them."""

    survivors: Bitmap
    total: Vector
    scalar: int = 0
    unremoved: tuple[int, ...] = ()
    """Survivors who have left noise in it that was to be removed."""


class ParticipantMachine(Protocol):
    """One participant in one round, once. Nothing leaves before its journal has kept it.

    `receive` takes the coordinator's messages and gives the answers; when it is `ready_for_input`
    its caller pays for the input and hands it to `give_input`. An answer may say that it
    has left; then `abort_reason` says why.
    """

    @property
    def outgoing(self) -> bytes | None:
        """The last message, to be sent again after a restart."""

    @property
    def ready_for_input(self) -> bool: ...

    @property
    def input_is_outgoing(self) -> bool:
        """Whether the last message is the one with the input: paid for before it leaves."""

    @property
    def over(self) -> bool:
        """Whether it has said all, or left."""

    @property
    def abort_reason(self) -> AbortReason | None:
        """Why it left."""

    @property
    def round_aborted(self) -> AbortReason | None:
        """Why the coordinator ended the round, if it said that it did."""

    @property
    def root(self) -> bytes | None:
        """What it was told that everybody's keys are committed to by, if anything."""

    @property
    def survivors(self) -> Bitmap | None:
        """Who it was told is counted, if it knows: whom it reveals under, when it has revealed."""

    @property
    def progress(self) -> str:
        """What it has done and what it waits for, in words."""

    def begin(self) -> bytes | None:
        """The first message, if it does not wait to be told something."""

    def receive(self, data: bytes) -> bytes | None: ...

    def agree_also(self, said: bytes) -> None:
        """Whoever has been told something else than this is told of other survivors, too.

        Said before the message with the survivors is received, and again after a restart.
        """

    def give_input(self, vector: NDArray[Any], scalar: int = 0) -> bytes: ...

    def abort(self, reason: AbortReason) -> bytes:
        """Leave for good; the message that says so."""

    def computed(self) -> bytes:
        """Secrets that would be computed again after a restart."""

    def reuse(self, computed: bytes) -> None:
        """Take what `computed` gave earlier instead of computing it again."""


class CoordinatorMachine(Protocol):
    """The coordinator of one round. `receive` messages, `close_phase` when it is time.

    What must survive a restart is in its store. Several may share a round if they take turns: each
    adds to a shard of the sum of its own and is told with `follow` what the others have recorded.
    """

    @property
    def state(self) -> str:
        """The name of the phase, or of how the round ended."""

    @property
    def invited(self) -> Collection[int]:
        """Who may speak in this phase."""

    @property
    def awaited(self) -> Set[int]:
        """Whose message of this phase may still come; if nobody's, there is nothing to wait for."""

    @property
    def departed(self) -> Mapping[int, AbortReason]:
        """Who said that it left, and why."""

    @property
    def survivors(self) -> Bitmap | None:
        """Whose inputs are in the sum, once that is fixed."""

    @property
    def announced(self) -> bytes | None:
        """What everybody is told in this phase that must be the same for all: a root of keys."""

    @property
    def result(self) -> Aggregate | None: ...

    @property
    def abort_reason(self) -> AbortReason | None: ...

    @property
    def account(self) -> bytes | None:
        """What a transcript says of the inputs, if anything, once there is a result."""

    def prepare(self, messages: Iterable[tuple[int, bytes]]) -> None:
        """These are about to be received: what is cheaper to check together is checked now."""

    def receive(self, position: int, data: bytes) -> Reply:
        """Take a participant's message, or refuse it with `RemoteProtocolError` untouched."""

    def close_phase(self) -> frozenset[int]:
        """Fix whose messages count. Gives those who have a message now."""

    def abort(self, reason: AbortReason) -> frozenset[int]: ...

    @property
    def settled(self) -> int | None:
        """How many inputs the helper has accepted; None where there is no helper."""

    @property
    def asks_helper(self) -> bool:
        """Whether there is something to ask the helper now."""

    @property
    def waits_for_helper(self) -> bool:
        """Whether the phase cannot end before the helper has answered."""

    def to_helper(self) -> bytes | None:
        """What the helper is to be asked now, if there is a helper; the same until it answered."""

    def from_helper(self, request: bytes, answer: bytes) -> Mapping[int, bytes]:
        """Take its answer: which participants' messages count from now on, and the messages.

        An answer that comes again changes nothing.
        """

    def message_for(self, position: int) -> bytes | None:
        """What this participant is to be sent in this phase, as often as it asks."""

    def introduced(self, position: int) -> Sequence[int]:
        """Whose signatures are in that message, in order; the receiver has to know their keys."""

    def follow(self, records: Iterable[tuple[str, bytes]]) -> None: ...

    def flush(self) -> None:
        """Bring the store up to date with this machine's shard of the sum, if it has grown."""


class Secrets(Protocol):
    """What a helper keeps through a restart and must never get back from a backup."""

    def load(self) -> Mapping[str, bytes]: ...

    def save(self, changes: Mapping[str, bytes]) -> None:
        """All or nothing, durably, before returning."""

    def erase(self) -> None:
        """For good, before returning."""


class HelperMachine(Protocol):
    """The second server of one round."""

    @property
    def accepted(self) -> int:
        """How many inputs it has taken."""

    @property
    def refused(self) -> int:
        """How many times it has refused an input since this process began."""

    @property
    def answered(self) -> bool:
        """Whether it has given its sum, after which it knows nothing more."""

    def answer(self, request: bytes, refused: Collection[int] = ()) -> bytes:
        """To the coordinator, or `RemoteProtocolError`; a request again is answered the same.

        New inputs of those who are `refused` are not accepted.
        """


@dataclass(frozen=True)
class PublishedSum:
    """What a transcript says of a sum."""

    survivors: Bitmap
    measurement: Sequence[int]
    account: bytes | None
    """The coordinator machine's."""
    replayed: bool = False
    """Whether the messages of the round were received once more."""
    scalar: int = 0
    """The sum of the numbers beside the inputs."""


@dataclass(frozen=True)
class Checked:
    """What was found to hold of a published sum, and what was not looked at, in words."""

    holds: Sequence[str] = ()
    open: Sequence[str] = ()
    unremoved: tuple[int, ...] = ()
    """As in `Aggregate`."""


# ---- what a round costs, without executing it ---------------------------------------------------

Numbers = NDArray[Any]  # one per participant
ByPhase = Mapping[str, Numbers]


@dataclass(frozen=True)
class ModelledSeconds:
    """Processor time by phase; the first three for each participant."""

    participant: ByPhase
    opening: ByPhase
    """The coordinator's, to make one participant's message."""
    taking: ByPhase
    closing: Mapping[str, float]


class CountedRound(Protocol):
    """How much of everything each participant meets: what sizes and operations depend on."""

    def opened(self, position: int, message: bytes) -> None:
        """Count what a coordinator's message says."""

    def answered(self, position: int, message: bytes) -> None: ...

    def draw(self, answered: NDArray[np.bool_], binomial: Callable[..., NDArray[np.int64]]) -> None:
        """Instead of reading messages: each neighbour is present, alive, … independently."""

    def received_bytes(self) -> ByPhase: ...

    def sent_bytes(self) -> ByPhase: ...

    def introduced(self) -> ByPhase:
        """How many others' signatures are in what opens a phase, where there are any."""

    def seconds(self, answered: NDArray[np.bool_]) -> ModelledSeconds: ...


class SimplifiedMachine(Protocol):
    """A participant without secrecy whose messages a coordinator takes for a real one's."""

    def begin(self) -> bytes: ...

    def answer(self, data: bytes, vector: Callable[[], Vector]) -> bytes:
        """To a message of the coordinator; the input is asked for when it is due."""


# ---- all of it ----------------------------------------------------------------------------------


P = TypeVar("P", bound=Parameters)
R = TypeVar("R", bound=RoundParameters)


class Aggregation(Protocol[P, R]):
    """A way to add up. Its instances hold no state."""

    @property
    def version(self) -> int:
        """Of its messages on the wire."""

    @property
    def phases(self) -> tuple[Phase, ...]:
        """In their order."""

    @property
    def needs_pinned_roster(self) -> bool:
        """Whether a roster of the coordinator's making would break its promise."""

    @property
    def has_helper(self) -> bool:
        """Whether a second server takes part, which the plan names."""

    @property
    def announces_root(self) -> bool:
        """Whether its transcripts have a root of everybody's keys."""

    # What a plan needs

    def choose(self, participants: int, corrupt_fraction: float, max_dropout: float) -> P:
        """Parameters that keep the promises, or `ParameterError` that says what would do."""

    def check(
        self,
        parameters: P,
        participants: int,
        corrupt_fraction: float,
        max_dropout: float,
    ) -> None:
        """`ParameterError` unless these, from whoever proposed them, keep the promises."""

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Of the fields that a plan's encoding has for them."""

    def parameters_of(self, fields: Mapping[str, int], participants: int) -> P:
        """The inverse of `Parameters.fields`; nothing is checked."""

    def round(self, parameters: P, terms: RoundTerms) -> R: ...

    def fewest_senders(self, round: R, phase: Phase) -> int:
        """With fewer messages in this phase there is no result."""

    # The parties

    def participant(
        self,
        round: R,
        roster: KnownRoster,
        identity: Identity | None,
        position: int,
        randomness: Randomness,
        journal: Journal,
    ) -> ParticipantMachine:
        """A new one, or the one that the journal knows."""

    def coordinator(
        self,
        round: R,
        roster: Roster,
        randomness: Randomness,
        store: Store,
        shard: str = "only",
    ) -> CoordinatorMachine:
        """A new one, or the one that the store knows."""

    def helper(
        self,
        round: R,
        roster: Roster,
        identity: Identity,
        randomness: Randomness,
        secrets: Secrets,
        journal: Journal,
    ) -> HelperMachine:
        """A new one, or the one that the journal knows. Only where there is a helper."""

    def recorded_helper(self, round: R, account: bytes | None) -> Callable[[bytes], bytes]:
        """Answers as the helper of a recorded round did, to the same questions."""

    def asked_about(self, request: bytes) -> Sequence[int]:
        """Whose inputs the helper is asked to accept, in order."""

    # Its messages, from outside

    def largest_message(self, round: R) -> int:
        """No participant's message is longer."""

    def carries_input(self, data: bytes) -> bool:
        """Whether this is a participant's message with its input."""

    def was_received(self, record: Lookup, data: bytes, position: int) -> bool:
        """Whether the coordinator whose store has these records took this very message."""

    def abort_message(self, round: R, position: int, reason: AbortReason) -> bytes:
        """What a participant is told of a round that was aborted."""

    # What a round costs

    def counted(self, round: R) -> CountedRound: ...

    def simplified_participant(
        self,
        round: R,
        identity: Identity,
        position: int,
        randomness: Randomness,
        gone: Collection[int],
    ) -> SimplifiedMachine:
        """For measuring a coordinator; `gone` are those who will send no input."""

    def check_account(self, round: R, roster: Roster, published: PublishedSum) -> Checked:
        """What the account shows of the sum; `RemoteProtocolError` if it does not hold."""


Method = Aggregation[Any, Any]


class WithoutHelper:
    """For ways to add up that have no second server."""

    has_helper = False

    def helper(self, *_: object) -> NoReturn:
        raise LocalProtocolError("there is one server, and no helper")

    recorded_helper = asked_about = helper


def input_phase(method: Method) -> Phase:
    """The one whose senders are the survivors."""
    return next(phase for phase in method.phases if phase.carries_input)
