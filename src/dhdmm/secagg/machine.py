"""How a participant receives and answers messages, whatever they are about.

A message is looked up in the transition table, acted upon once, and answered with bytes that are
journalled first. The same message again gets the same answer; a different one of the same type is
an attack.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from hashlib import sha256
from typing import Self

from dhdmm.aggregation.bitmap import Bitmap
from dhdmm.aggregation.errors import AbortReason, LocalProtocolError, RemoteProtocolError
from dhdmm.aggregation.journal import Journal
from dhdmm.secagg import messages as m
from dhdmm.secagg.memory import Memory, Seen
from dhdmm.secagg.round import RoundParameters, session_under_root
from dhdmm.secagg.states import PARTICIPANT, Event, Local, ParticipantState, state_after

_UNDER_SESSION = (m.Neighbours, m.Root, m.Aborted)  # the others carry session' if there is a root
_SECOND = {
    m.Root: AbortReason.SECOND_ROOT,
    m.Survivors: AbortReason.SECOND_BITMAP,
    m.EvidencedSurvivors: AbortReason.SECOND_BITMAP,
}


class JournalledMachine(ABC):
    """A machine in some state, its memory, and the last message it gave."""

    def __init__(self, parameters: RoundParameters, position: int, journal: Journal) -> None:
        self.parameters, self.position, self._journal = parameters, position, journal
        self._memory = Memory(parameters.session, position.to_bytes(4, "big"))
        self._table = PARTICIPANT[parameters.threat_model]
        self._journal_failed = False
        self.outgoing: bytes | None = None  # the last message, to be sent again after a restart
        self.round_aborted: AbortReason | None = None
        self.survivors: Bitmap | None = None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.position}: {self.state}>"

    @property
    def state(self) -> ParticipantState:
        return self._memory.state

    @property
    def abort_reason(self) -> AbortReason | None:
        return self._memory.reason

    @property
    def progress(self) -> str:
        return self.state.words

    @property
    def ready_for_input(self) -> bool:
        return self.state is ParticipantState.READY_FOR_INPUT

    @property
    def input_is_outgoing(self) -> bool:
        return self.state is ParticipantState.AWAITING_SURVIVORS

    @property
    def over(self) -> bool:
        return self.state in (ParticipantState.DONE, ParticipantState.ABORTED)

    @property
    def root(self) -> bytes | None:
        return self._memory.root or None

    def receive(self, data: bytes) -> bytes | None:
        """Take a message of the coordinator; the answer, if there is one."""
        if self.state is ParticipantState.ABORTED and not self._journal_failed:
            return self.outgoing
        message = m.decode(data)
        self._require_addressed_here(message)
        seen = Seen(message.TYPE, sha256(data).digest())
        earlier = dict(self._memory.seen).get(message.TYPE)
        if earlier is not None:
            return self._receive_again(type(message), earlier == seen.digest)
        following = self._state_after(type(message))
        if isinstance(message, m.Aborted):
            self.round_aborted = message.reason
            return None if following is self.state else self._leave(message.reason)
        self._memory.seen = tuple(sorted((*self._memory.seen, seen)))
        try:
            answer = self._act(message)
        except RemoteProtocolError as error:
            return self._leave(error.reason)
        if answer is None:
            self._memory.state = following
            return None
        return self._send(answer, following)

    def abort(self, reason: AbortReason) -> bytes:
        """Leave the session for good."""
        self._state_after(Local.ABORT)
        return self._leave(reason)

    @abstractmethod
    def _act(self, message: m.Message) -> m.Message | None:
        """The step of the protocol that this message begins, and the answer if it has one."""

    @abstractmethod
    def _forget(self) -> None:
        """Erase every secret."""

    @property
    def _session(self) -> bytes:
        root, session = self._memory.root, self.parameters.session
        return session_under_root(session, root) if root else session

    def _require_addressed_here(self, message: m.Message) -> None:
        under = self.parameters.session if isinstance(message, _UNDER_SESSION) else self._session
        if message.session != under or message.position != self.position:
            raise RemoteProtocolError(AbortReason.WRONG_SESSION, status_hint=409)

    def _state_after(self, event: Event) -> ParticipantState:
        if self._journal_failed:
            raise LocalProtocolError("the journal failed; resume from what it last kept")
        return state_after(self._table, self.state, event)

    def _send(self, message: m.Message, following: ParticipantState) -> bytes:
        self._memory.state, outgoing = following, message.encode()
        self._journal_failed = True  # unless the next line returns
        self._journal.write(self._memory.encode(), outgoing)
        self._journal_failed, self.outgoing = False, outgoing
        return outgoing

    def _receive_again(self, kind: type[m.Message], same: bool) -> bytes | None:
        """The last message again gets the last answer again; a different one is an attack."""
        if same:
            return self.outgoing if self._memory.seen[-1].type == kind.TYPE else None
        reason = _SECOND.get(kind, AbortReason.CONFLICTING_MESSAGE)
        if self.state is ParticipantState.DONE:
            raise RemoteProtocolError(reason, "after the release")
        return self._leave(reason)

    def _leave(self, reason: AbortReason) -> bytes:
        self._memory.reason = reason
        self._forget()
        message = m.Aborted(self.parameters.session, self.position, reason)
        return self._send(message, ParticipantState.ABORTED)

    def resume(self) -> Self:
        """Resume from what the journal last kept, if anything; `outgoing` is to be sent again."""
        written = self._journal.read()
        if written is not None:
            memory = Memory.decode(written[0])
            if (memory.session, memory.position) != (self._memory.session, self._memory.position):
                raise LocalProtocolError("the journal belongs to another session or participant")
            self._memory, self.outgoing = memory, written[1]
            self.survivors = memory.alive if memory.alive.size else None
        return self
