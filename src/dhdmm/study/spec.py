"""The study file: loaded, checked in full, written back, and reduced to canonical bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from dhdmm.effort import work
from dhdmm.errors import StudyError
from dhdmm.study import canonical, document, hierarchy
from dhdmm.study.attributes.missing import declared
from dhdmm.study.cells import Cells
from dhdmm.study.document import Place
from dhdmm.study.grouping import Grouping, groupings
from dhdmm.study.items import Names, asked, item
from dhdmm.study.models import AggregationModel, PrivacyModel, StudyModel
from dhdmm.study.names import first_repeated, nearest
from dhdmm.study.persons import MOST_MARKS, Mark
from dhdmm.study.problems import study_error, together
from dhdmm.study.schema import Schema
from dhdmm.study.workload import Workload
from dhdmm.summary import Summarised

Made = TypeVar("Made")
Part = tuple[Callable[[], object], Place]
"""What makes a part of a study, and where it stands."""

PARSING = 100
"""Operations that a byte of an encoded study costs."""


@dataclass(frozen=True, eq=False, repr=False)
class Study(Summarised):
    """A checked study file: what is asked, of whom, and at what privacy.

    Make one with `Study.load` or `Study.from_text`.

    Example:
        >>> study = Study.from_text('''
        ... study: ages
        ... schema: {age: {type: integer, range: [0, 99]}}
        ... workload: [{name: by age, by: [age]}]
        ... ''')
        >>> study
        <Study name='ages' attributes=1 tables=1>
        >>> study.workload.queries
        100
    """

    model: StudyModel
    place: Place = field(default_factory=Place)

    def _summary(self) -> dict[str, Any]:
        model = self.model
        return {
            "name": self.name,
            "attributes": len(model.schema_),
            "tables": len(model.workload),
        }

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Read a study file.

        Args:
            path: A YAML file, see docs/study.md.

        Returns:
            The study.

        Raises:
            StudyError: The file cannot be read, or has a mistake; the error names the line.
        """
        source = Path(path)
        return cls._read(
            document.read_text(source), source.name, hierarchy.in_folder(source.parent)
        )

    @classmethod
    def from_text(
        cls, text: str, source: str = "study", *, tables: Mapping[str, str] | None = None
    ) -> Study:
        """Read a study from a text. Every mistake that can be found without data is found here.

        Args:
            text: The study as YAML, see docs/study.md.
            source: The name of the text in error messages.
            tables: The CSV tables that the text names with `from`, by their names.

        Returns:
            The study.

        Raises:
            StudyError: The text has a mistake; the error names the line.
        """
        return cls._read(text, source, hierarchy.in_memory(tables or {}))

    @classmethod
    def _read(cls, text: str, source: str, beside: hierarchy.Beside) -> Study:
        """`beside` has the tables that the text names."""
        values, place = document.parse(text, source)
        if not isinstance(values, dict):
            raise place.error("a study file is a mapping", "begin with 'study: some-name'")
        values = hierarchy.embedded(values, beside, place)
        try:
            study = cls(StudyModel.model_validate(values), place)
        except ValidationError as error:
            raise study_error(error, values, place) from None
        try:
            study.workload  # noqa: B018 - building it checks it
        except StudyError as error:
            raise together(study._mistakes() or [error]) from None
        return study

    def _mistakes(self) -> list[StudyError]:
        """What is wrong with each attribute; or else with each grouping; or else each item."""
        place, model = self.place, self.model
        stages: tuple[Callable[[], Iterator[Part]], ...] = (
            lambda: (
                (partial(declared, name, one), place / "schema" / name)
                for name, one in model.schema_.items()
            ),
            lambda: (
                (partial(groupings, name, one, self.schema, here), here)
                for name, one in model.groupings.items()
                for here in [place / "groupings" / name]
            ),
            lambda: (
                (partial(asked, one, names_of(self), here), here)
                for i, one in enumerate(model.workload)
                for here in [place / "workload" / i]
            ),
        )
        return next((found for stage in stages if (found := [*_failing(stage())])), [])

    @property
    def name(self) -> str:
        """The name that the file gives the study."""
        return self.model.study

    @property
    def privacy(self) -> PrivacyModel:
        """The section `privacy`: whose data is hidden; raises `StudyError` if there is none."""
        return self._section("privacy", self.model.privacy)

    @property
    def aggregation(self) -> AggregationModel:
        """The section `aggregation`: who adds up; raises `StudyError` if there is none."""
        return self._section("aggregation", self.model.aggregation)

    @property
    def only_asks(self) -> bool:
        """Whether a section that a plan needs is missing."""
        return self.model.privacy is None or self.model.aggregation is None

    def _section(self, key: str, given: Made | None) -> Made:
        if given is None:
            raise self.place.error(f"the study has no '{key}' section", "a plan needs it")
        return given

    @cached_property
    def schema(self) -> Schema:
        """The attributes of a record."""
        place, attributes = self.place / "schema", []
        for name, model in self.model.schema_.items():
            with (place / name).located():
                attributes.append(declared(name, model))
        with place.located():
            return Schema(tuple(attributes))

    @cached_property
    def groupings(self) -> dict[str, Grouping]:
        """The groupings of attributes' values, by name."""
        place = self.place / "groupings"
        taken = {name.casefold(): name for name in self.schema.names}
        if len(taken) < len(self.schema.names):
            names = first_repeated([name.casefold() for name in self.schema.names])
            raise (self.place / "schema").error(
                f"two attributes are called '{names}'", "upper and lower case are one to SQL"
            )
        for name, model in self.model.groupings.items():
            for made in model.levels or [name]:
                other = taken.get(made.casefold())
                if other is not None:
                    raise (place / name).error(f"the name '{other}' is already taken")
                taken[made.casefold()] = made
        found: dict[str, Grouping] = {}
        for name, model in self.model.groupings.items():
            found |= groupings(name, model, self.schema, place / name)
        return found

    @property
    def coverage(self) -> str | None:
        """The item that counts the rows left out, by name; None if the study does not ask."""
        return next((item.name for item in self.model.workload if item.coverage), None)

    @property
    def targets(self) -> dict[str, float]:
        """The largest standard error that a table's answers may have, by the table's name."""
        return {one.name: one.target for one in self.model.workload if one.target is not None}

    @cached_property
    def cells(self) -> Cells:
        """What the workload is over: the schema, and what no column holds."""
        cells = Cells(self.schema, self._marks(), self.coverage is not None)
        with (self.place / "schema").located():
            cells.schema  # noqa: B018 - there may be too many
        return cells

    def _marks(self) -> tuple[Mark, ...]:
        """The ways in which the study counts persons that may have several records."""
        place, names = self.place / "workload", names_of(self)
        if names.person is None or names.person.max_records == 1:
            return ()
        found: dict[Mark, None] = {}
        for i, model in enumerate(self.model.workload):
            if model.persons is None and model.sql is None:
                continue
            terms, _ = asked(model, names, place / i)
            found |= dict.fromkeys(term.mark for term in terms if term.mark is not None)
            if len(found) > MOST_MARKS:
                raise (place / i).error(
                    f"persons are counted in more than {MOST_MARKS} different breakdowns",
                    "each doubles the cells: ask for fewer",
                )
        return tuple(found)

    @cached_property
    def workload(self) -> Workload:
        """The queries as weighted Kronecker terms, built once."""
        place, names = self.place / "workload", names_of(self)
        first: dict[str, int] = {}
        for i, model in enumerate(self.model.workload):
            if first.setdefault(model.name, i) != i:
                raise (place / i / "name").error(f"two items are called '{model.name}'")
        covered = [i for i, model in enumerate(self.model.workload) if model.coverage]
        for i in covered[1:]:
            raise (place / i).error("the coverage is asked for twice")
        cells = self.cells
        items = (item(one, names, cells, place / i) for i, one in enumerate(self.model.workload))
        return Workload(cells.schema, tuple(items))

    def to_yaml(self) -> str:
        """Write the study as a file.

        Returns:
            YAML that `Study.from_text` reads as the same study, without the original's comments.
        """
        values = self.model.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
        return document.write(values)

    @cached_property
    def _encoded(self) -> bytes:
        return canonical.write(self.model)

    def canonical_bytes(self) -> bytes:
        """Encode the study, see docs/planning.md.

        Returns:
            The one encoding of this study; for a study that was read from bytes, those bytes.
        """
        return self._encoded

    @classmethod
    def from_canonical_bytes(
        cls, encoded: bytes, made_by: str | None = None, *, checked: bool = False
    ) -> Study:
        """Read an encoded study.

        Args:
            encoded: What `canonical_bytes` returned.
            made_by: The version of dhdmm that wrote the bytes, for error messages.
            checked: The study was checked before, so its workload is only built on first use.

        Returns:
            The study, which keeps these bytes.

        Raises:
            StudyError: The bytes are not the canonical encoding of a valid study.
        """
        work(PARSING * len(encoded))
        study = cls(canonical.read(encoded, made_by), Place("study"))
        vars(study)["_encoded"] = encoded
        if not checked:
            study.workload  # noqa: B018 - building it checks it
        return study

    @property
    def format(self) -> int:
        """The number of the format that its bytes are in."""
        return canonical.format_of(self.canonical_bytes())

    @property
    def digest(self) -> bytes:
        """SHA-256 of the canonical bytes: studies that mean the same have the same digest."""
        return hashlib.sha256(self.canonical_bytes()).digest()

    def with_privacy(self, **changes: Any) -> Study:
        """The same study with other privacy parameters.

        Args:
            **changes: Keys of the section `privacy` and their new values; None removes a key, as in
                `study.with_privacy(epsilon=None, delta=None, rho=0.01)`.

        Returns:
            A new study.

        Raises:
            StudyError: The changed section is not valid.
        """
        return self._changed("privacy", changes)

    def with_aggregation(self, **changes: Any) -> Study:
        """The same study with other aggregation parameters.

        Args:
            **changes: Keys of the section `aggregation` and their new values; None removes a key,
                as in `study.with_aggregation(participants=100, max_dropout=None)`.

        Returns:
            A new study.

        Raises:
            StudyError: The changed section is not valid.
        """
        return self._changed("aggregation", changes)

    def with_objective(self, objective: str) -> Study:
        """The same study with another objective, in place of its targets if it has any.

        Args:
            objective: "total", "per-table" or "max".

        Returns:
            A new study.

        Raises:
            StudyError: There is no such objective.
        """
        values = self._without_targets()
        return self._with(values | {"objective": objective})

    def with_targets(self, targets: Mapping[str, float]) -> Study:
        """The same study with other targets, in place of its objective.

        Args:
            targets: The largest standard error that answers of a table may have, by the table's
                name; other tables have no target.

        Returns:
            A new study.

        Raises:
            StudyError: There is no such table, or it cannot have such a target.
        """
        values = self._without_targets()
        tables = {table["name"]: table for table in values["workload"]}
        for name, target in targets.items():
            if name not in tables:
                raise StudyError(f"the study has no table '{name}'", hint=nearest(name, tables))
            tables[name]["target"] = target
        return self._with({key: entry for key, entry in values.items() if key != "objective"})

    def _without_targets(self) -> dict[str, Any]:
        values = self.model.model_dump(by_alias=True, exclude_none=True)
        for table in values["workload"]:
            table.pop("target", None)
        return values

    def _changed(self, section: str, changes: dict[str, Any]) -> Study:
        values = self.model.model_dump(by_alias=True, exclude_none=True)
        entries = {**values.get(section, {}), **changes}
        values[section] = {key: entry for key, entry in entries.items() if entry is not None}
        return self._with(values)

    def _with(self, values: dict[str, Any]) -> Study:
        try:
            return Study(StudyModel.model_validate(values), self.place)
        except ValidationError as error:
            raise study_error(error, values, Place()) from None


def _failing(parts: Iterable[Part]) -> Iterator[StudyError]:
    for make, place in parts:
        try:
            make()
        except StudyError as error:
            yield error if error.where else place.error(error.what, error.hint)


def names_of(study: Study) -> Names:
    """What a query over the study's table may name."""
    privacy = study.model.privacy
    person = None if privacy is None else privacy.person
    return Names(study.schema, study.groupings, person)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a study file, for editors that complete and check YAML."""
    schema = StudyModel.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
