"""One round of a validated sum: the terms of the one below it, and what is proved of inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dhdmm.aggregation.method import Method, ParameterError, RoundParameters, RoundTerms
from dhdmm.aggregation.modulus import Modulus, Vector
from dhdmm.validated.attachments import ATTACHED_BYTES, attach
from dhdmm.validated.below import Below
from dhdmm.validation.commitment import BlindingError, Limbs
from dhdmm.validation.proof import Statement, StatementError


@dataclass(frozen=True)
class ValidatedRound:
    """`below` adds up longer vectors: an input's entries, then the limbs of its blinding."""

    below: RoundParameters
    length: int
    limbs: Limbs
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
            limbs = Limbs.for_sums(terms.participants, terms.modulus.value)
            statement = Statement(terms.length, terms.norm_bound) if bounded else None
        except (BlindingError, StatementError) as error:
            raise ParameterError(f"inputs cannot be validated: {error}") from None
        longer = replace(terms, length=terms.length + limbs.count)
        below = method.round(parameters, longer)
        helped = method.has_helper
        return cls(below, terms.length, limbs, statement, parameters.corrupt, helped)

    session = Below[bytes](attrgetter("session"))
    round_id = Below[bytes](attrgetter("round_id"))
    participants = Below[int](attrgetter("participants"))
    minimum_survivors = Below[int](attrgetter("minimum_survivors"))
    modulus = Below[Modulus](attrgetter("modulus"))

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

    def lengthened(self, vector: Vector, limbs: Sequence[int]) -> Vector:
        return np.concatenate([vector, np.array(limbs, dtype=vector.dtype)])

    def entries(self, total: Vector) -> NDArray[np.int64]:
        """The integers that a vector's residues stand for, without the limbs."""
        return self.modulus.signed(total[: self.length])

    def blinding(self, total: Vector) -> int:
        """The sum of all blindings: limbs never wrap, so their residues are their sums."""
        return self.limbs.blinding(self.modulus.reduce(total[self.length :]).tolist())
