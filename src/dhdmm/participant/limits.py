"""A participant's own limits: what it is willing to take part in, and the words for refusing.

The limits live in a YAML file next to the data. `dhdmm policy` writes one with these defaults.
"""

from __future__ import annotations

import textwrap
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from dhdmm import formats
from dhdmm.errors import StudyError
from dhdmm.study import document
from dhdmm.study.forms import Delta, Fraction, Positive, Section
from dhdmm.study.problems import study_error

LINE = 96


Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
UnitName = Literal["record", "person", "participant"]


class Policy(Section):
    """What a participant accepts. The descriptions are the comments of the file."""

    threat_models: list[Literal["malicious", "semi-honest", "two-servers"]] = Field(
        default=["malicious"],
        description="Against whom the aggregation must protect: a coordinator that may do anything"
        " (malicious), also rounds that trust it to follow the protocol (semi-honest), or rounds"
        " that are safe while one of two servers is honest (two-servers).",
    )
    helpers: dict[str, Digest] | Literal["any"] = Field(
        default={},
        description="The second servers you trust not to conspire with the coordinator: the name"
        " you give each, and the key that whoever runs it has told you. A two-server round with"
        " another one is refused, since one party might run both servers. With any, whoever the"
        " coordinator names is believed.",
    )
    rosters: list[Digest] = Field(
        default=[],
        description="Fingerprints of the rosters you know. Compare a fingerprint with the other"
        " participants, not with the coordinator, before you list it. A malicious round under a"
        " roster that is not listed is refused.",
    )
    studies: list[Digest] = Field(
        default=[],
        description="Fingerprints of the studies you agreed to. While the list is empty, any"
        " study is accepted that fits the other limits.",
    )
    units: list[UnitName] = Field(
        default=["record", "person", "participant"],
        description="What a study may protect: single records, all records of a person, or"
        " everything that one participant holds. Remove 'record' if a person may have several.",
    )
    person_columns: list[str] | Literal["any"] = Field(
        default=[],
        description="The columns of your table that identify a person, or any. A study that"
        " protects persons must tell them apart by one of these: by a visit's number it would"
        " protect visits.",
    )
    min_person_participants: Annotated[int, Field(ge=1)] = Field(
        default=1,
        description="At how many participants a person may have records: a study that protects"
        " persons must allow for as many.",
    )
    max_epsilon: Positive = Field(
        default=1.0, description="The most that one round may cost: ε at the δ below."
    )
    max_delta: Delta = Field(default=1e-5, description="The δ at which ε is computed.")
    min_participants: Annotated[int, Field(ge=3)] = Field(
        default=10, description="The fewest participants among whom your data may be added up."
    )
    max_honest_floor: Annotated[int, Field(ge=1)] = Field(
        default=10_000,
        description="The most honest others whose noise yours may rely on. A longer roster means"
        " less noise for everybody; invented names in it would mean too little.",
    )
    min_corrupt_fraction: Fraction = Field(
        default=0.05,
        description="The share of participants that must be allowed to conspire with the"
        " coordinator without harm.",
    )
    max_rows: Annotated[int, Field(ge=1)] = Field(
        default=1_000_000, description="The most measurements in a plan."
    )
    max_plan_bytes: Annotated[int, Field(ge=1)] = Field(
        default=64 * 2**20, description="The largest plan that is read at all."
    )
    total_rho: Positive = Field(
        default=1.0,
        description="The budget of a new ledger, in ρ: all rounds together, over tables that dhdmm"
        " data add has not named. ρ = 1 is ε = 7.77 at δ = 1e-6 in all; rounds of ε = 1 at δ = 1e-5"
        " cost 0.0359 each. An existing ledger keeps its budget.",
    )

    @classmethod
    def load(cls, path: str | Path) -> Policy:
        """The policy in a YAML file; an unknown key or a wrong value names its line."""
        values, place = document.parse(document.read_text(Path(path)), Path(path).name)
        if isinstance(values, dict):
            number = values.pop("format", 1)  # the first format has no number
            formats.readable(formats.POLICY, number, partial(StudyError, where=Path(path).name))
        try:
            return cls.model_validate(values if values is not None else {})
        except ValidationError as error:
            raise study_error(error, values, place) from None


def permissive(**limits: Any) -> Policy:
    """Whatever is safe, within these limits: of who wrote the study, or checks others' rounds."""
    return Policy(
        threat_models=["malicious", "semi-honest", "two-servers"],
        helpers="any",
        min_participants=3,
        min_corrupt_fraction=0.0,
        person_columns="any",
        **limits,
    )


def written(policy: Policy) -> str:
    """The policy as a file, without comments."""
    return document.write({"format": formats.POLICY.writes, **policy.model_dump()})


def commented() -> str:
    """The default policy as a file: every limit under the comment that explains it."""
    opening = "# What this participant agrees to take part in. Whatever goes beyond is refused."
    parts = [f"{opening}\nformat: {formats.POLICY.writes}\n"]
    for name, field in Policy.model_fields.items():
        comment = textwrap.fill(field.description or "", LINE - 2)
        value = document.inline(field.get_default())
        parts.append(f"{textwrap.indent(comment, '# ')}\n{name}: {value}\n")
    return "\n".join(parts)
