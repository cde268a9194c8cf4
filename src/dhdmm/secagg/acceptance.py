"""The coordinator's checks of a message before it counts.

A message that no honest participant sends is refused and changes nothing.
"""

from __future__ import annotations

from dhdmm.aggregation.errors import AbortReason, MalformedMessage, RemoteProtocolError
from dhdmm.aggregation.identity import signature_holds
from dhdmm.aggregation.lists import RecordTable
from dhdmm.aggregation.method import Reply
from dhdmm.aggregation.roster import Roster
from dhdmm.secagg import keys
from dhdmm.secagg import messages as m
from dhdmm.secagg.channels import keys_statement
from dhdmm.secagg.collected import Collected
from dhdmm.secagg.round import RoundParameters


class Acceptance:
    """What has been accepted in a round so far, and the running sum."""

    def __init__(self, parameters: RoundParameters, roster: Roster, collected: Collected) -> None:
        self.parameters, self._roster, self._collected = parameters, roster, collected
        self._taken_keys: set[bytes] = set()
        self._sum = parameters.group.zero()
        self._sum_is_ahead = False  # of its record

    def _check(self, message: m.Message) -> Reply:
        match message:
            case m.SignedKeys():
                self._check_signature(message)
                self._check_keys(message)
            case m.Keys():
                self._check_keys(message)
            case m.Choice():
                self._check_choice(message)
            case m.Shares():
                expected = self._collected.expected_ciphertexts(message.position)
                _require_count(len(message.ciphertexts), expected)
            case m.EvidencedInput():
                return self._check_evidenced_input(message)
            case m.MaskedInput():
                self._add(message)
            case m.Acks():
                expected = self._collected.expected_acks(message.position)
                _require_count(len(message.evidence), expected)
            case m.Unmask():
                self._check_reveals(message)
        return Reply.ACCEPTED

    def _check_keys(self, message: m.Keys) -> None:
        pair = {message.mask_key, message.channel_key}
        for key in pair:
            keys.check_public_key(key)
        if len(pair) != 2 or pair & self._taken_keys:
            raise RemoteProtocolError(AbortReason.REPEATED_KEY)

    def _check_signature(self, message: m.SignedKeys) -> None:
        i, session = message.position, message.session
        said = keys_statement(session, i, message.mask_key, message.channel_key)
        if not signature_holds(self._roster.identities[i], said, message.signature):
            raise RemoteProtocolError(AbortReason.BAD_SIGNATURE)

    def _check_choice(self, message: m.Choice) -> None:
        chosen, n = message.out_neighbours, self.parameters.participants
        _require_count(len(chosen), self.parameters.degree)
        if chosen[-1] >= n or message.position in chosen:
            raise MalformedMessage("a neighbour that cannot be one")

    def _add(self, message: m.MaskedInput) -> None:
        """At once: the coordinator keeps the sum, not the summands."""
        group = self.parameters.group
        group.add(self._sum, group.unpack(message.vector))
        self._sum_is_ahead = True

    def _check_evidenced_input(self, message: m.EvidencedInput) -> Reply:
        """A MAC cannot be verified here, but it can be seen to be missing.

        A sender that lacks one to or from somebody already accepted stays out, so that no edge
        among the survivors is one-sided. (Only a corrupt end makes one so: dropouts do not.)
        """
        i, included = message.position, message.included
        if not self._collected.is_possible(i, included):
            raise MalformedMessage("neighbours are included that cannot be, or the reverse")
        _require_count(len(message.evidence), len(included))
        if self._collected.is_one_sided(i, included):
            return Reply.EXCLUDED
        self._add(message)
        return Reply.ACCEPTED

    def _check_reveals(self, message: m.Unmask) -> None:
        assert isinstance(message.reveals, RecordTable)  # as decoded
        if not self._collected.is_asked_for(message.position, message.reveals):
            raise MalformedMessage("a share that was not asked for")

    def _keep(self, message: m.Message) -> None:
        if isinstance(message, m.Keys):
            self._taken_keys |= {message.mask_key, message.channel_key}
        self._collected.keep(message)


def _require_count(given: int, expected: int) -> None:
    if given != expected:
        raise MalformedMessage(f"{given} items where {expected} are due")
