"""One round of a validated sum: the terms of the one below it, and what is proved of inputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from dhdmm.aggregation.method import Method, ParameterError, RoundTerms
from dhdmm.aggregation.wrapping import RoundOver, attach
from dhdmm.validated.attachments import ATTACHED_BYTES
from dhdmm.validation.group import ORDER
from dhdmm.validation.proof import Statement, StatementError


@dataclass(frozen=True)
class ValidatedRound(RoundOver):
    """`below` adds up the blindings of the commitments, beside the inputs."""

    statement: Statement | None
    """What inputs are proved to be; None if sums are checked and inputs are not."""
    corrupt: int
    helped: bool = False
    """Whether a second server verifies inputs, too, in place of what participants agree on."""

    @classmethod
    def over(
        cls, method: Method, parameters: Any, terms: RoundTerms, bounded: bool
    ) -> ValidatedRound:
        """`ParameterError` if the numbers do not allow for it."""
        try:
            statement = Statement(terms.length, terms.norm_bound) if bounded else None
        except StatementError as error:
            raise ParameterError(f"inputs cannot be validated: {error}") from None
        below = method.round(parameters, replace(terms, scalar_modulus=ORDER))
        return cls(below, statement, parameters.corrupt, method.has_helper)

    @property
    def list_is_agreed(self) -> bool:
        """Whether participants agree on one list of commitments before masks come off.

        Without proofs that would bind nobody: one survivor that colludes helps the coordinator to
        any sum with the commitment it sends at first.
        """
        return self.statement is not None and not self.helped

    @cached_property
    def quorum(self) -> int:
        """⌊(n + c)/2⌋ + 1: two lists accepted by so many would have an honest one in common."""
        return (self.participants + self.corrupt) // 2 + 1

    @property
    def attached_bytes(self) -> int:
        """Of what is attached to an input: a signed commitment and perhaps a proof."""
        return ATTACHED_BYTES + (0 if self.statement is None else self.statement.proof_bytes)

    @property
    def input_bytes(self) -> int:
        return len(attach(bytes(self.attached_bytes), b"")) + self.below.input_bytes
