"""A study's bytes: one spelling, kept as they are read, and defaults that never change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dhdmm.errors import StudyError
from dhdmm.study import canonical
from dhdmm.study.attributes.base import AttributeModel
from dhdmm.study.forms import Section
from dhdmm.study.models import KEYS_SINCE, SumModel
from dhdmm.study.spec import Study
from tests.round.small import small_text
from tests.study.wider import KEY, SINCE, with_one_more_key

REQUIRED = "required"
NEW_ITEMS = ("sum", "mean", "quantiles", "persons")
DEFAULTS: dict[int, dict[str, dict[str, Any]]] = {
    1: {
        "IntegerModel": dict.fromkeys(("type", "range"), REQUIRED),
        "CategoryModel": dict.fromkeys(("type", "values"), REQUIRED),
        "NumberModel": dict.fromkeys(("type", "edges"), REQUIRED),
        "SetModel": dict.fromkeys(("label", "values", "rest", "each", "where")),
        "GroupingModel": {"of": REQUIRED, "edges": None, "sets": None},
        "MarginalsModel": {"ways": None, "of": None},
        "RangesModel": {"of": REQUIRED, "kind": REQUIRED, "width": None},
        "TermModel": {
            **dict.fromkeys(("by", "total", "with_totals", "where")),
            "weight": 1.0,
        },
        "ItemModel": {
            "name": REQUIRED,
            **dict.fromkeys(("by", "total", "marginals", "ranges", "terms", "sql")),
            **dict.fromkeys(("with_totals", "where")),
            "weight": 1.0,
        },
        "PersonModel": dict.fromkeys(("column", "max_records", "max_participants"), REQUIRED),
        "PersonUnit": {"person": REQUIRED},
        "PrivacyModel": {
            "unit": REQUIRED,
            **dict.fromkeys(("epsilon", "delta", "rho")),
            "corrupt_fraction": REQUIRED,
            "relation": "zero-out",
        },
        "CountModel": {"min": REQUIRED, "max": REQUIRED},
        "AggregationModel": {
            "threat_model": "malicious",
            "participants": REQUIRED,
            "max_dropout": 0.05,
            "max_records_per_participant": REQUIRED,
        },
        "StudyModel": {
            "study": REQUIRED,
            "schema": REQUIRED,
            "groupings": {},
            "workload": REQUIRED,
            "privacy": None,
            "aggregation": None,
        },
    },
    2: {
        "StudyModel": {"extra_measurements": None, "objective": "total"},
        "AggregationModel": {
            "validation": "none",
            "sealing": "mlkem768-x25519",
            "excess_noise": "keep",
        },
        "ItemModel": dict.fromkeys(("coverage", "target", *NEW_ITEMS)),
        **{
            f"{kind}Model": {"of": REQUIRED, "by": None, "representative": "midpoint"}
            for kind in ("Sum", "Mean")
        },
        "PersonsModel": {"by": None},
        "QuantilesModel": {"of": REQUIRED, "at": REQUIRED, "by": None},
        "MeasureModel": {"missing": None, "step": 1.0} | dict.fromkeys(("type", "range"), REQUIRED),
        **{f"{kind}Model": {"missing": None} for kind in ("Integer", "Category", "Number")},
        **{
            f"{kind}Model": {
                **dict.fromkeys(("type", "range"), REQUIRED),
                **dict.fromkeys(("missing", "format")),
            }
            for kind in ("Date", "Datetime")
        },
        "GroupingModel": dict.fromkeys(("by", "levels", "mapping")),
    },
}
"""What an absent key means, by the format that first had the key. Entries are added, with the key
in KEYS_SINCE, and never changed: an encoded study that leaves a key out relies on them."""


def test_defaults_are_those_of_every_released_format() -> None:
    pinned: dict[str, dict[str, Any]] = {}
    for sections in DEFAULTS.values():
        for name, keys in sections.items():
            pinned[name] = pinned.get(name, {}) | keys
    assert _defaults() == pinned


def test_keys_after_the_first_format_say_since_when() -> None:
    added = {key for keys in DEFAULTS[2].values() for key, value in keys.items() if value is None}
    new = {path.rpartition(".")[2] for path in KEYS_SINCE}
    others = {"step", "validation", "objective", "sealing", "two-servers", "excess_noise"}
    assert new == added | NEW_TYPES | others


NEW_TYPES = {"date", "datetime", "measure"}


def _defaults() -> dict[str, dict[str, Any]]:
    return {
        section.__name__: {
            field.alias or name: REQUIRED if field.is_required() else field.get_default()
            for name, field in section.model_fields.items()
        }
        for section in [
            *Section.__subclasses__(),
            *AttributeModel.__subclasses__(),
            *SumModel.__subclasses__(),
        ]
        if section.__module__.startswith("dhdmm.study.") and section is not AttributeModel
    }


ENCODED = Study.from_text(small_text()).canonical_bytes()


def respelled(change: Any) -> bytes:
    values = json.loads(ENCODED)
    change(values)
    return json.dumps(values, sort_keys=True, separators=(",", ":")).encode()


OTHER_SPELLINGS = {
    "a space": ENCODED.replace(b":", b": ", 1),
    "a trailing byte": ENCODED + b"\n",
    "keys in another order": json.dumps(
        dict(reversed(json.loads(ENCODED).items())), separators=(",", ":")
    ).encode(),
    "a key twice": ENCODED.replace(b'"study":', b'"study":"other","study":'),
    "a long number": ENCODED.replace(b"0.1", b"0.10", 1),
    "a whole number with a point": ENCODED.replace(b'"epsilon":1', b'"epsilon":1.0'),
    "null": respelled(lambda values: values["workload"][0].update(where=None)),
    "infinity": ENCODED.replace(b'"epsilon":1', b'"epsilon":Infinity'),
    "an escape that is not needed": ENCODED.replace(b"small", b"\\u0073mall"),
}


@pytest.mark.parametrize("name", OTHER_SPELLINGS)
def test_other_spellings_are_refused_as_such(name: str) -> None:
    assert OTHER_SPELLINGS[name] != ENCODED
    with pytest.raises(StudyError, match="not the canonical one"):
        Study.from_canonical_bytes(OTHER_SPELLINGS[name])


NO_STUDIES = {
    "nothing": (b"", "not an encoded study"),
    "a list": (b"[]", "not an encoded study"),
    "brackets without end": (b"[" * 100_000, "not an encoded study"),
    "an attribute twice": (
        respelled(lambda values: values["schema"].append(values["schema"][0])),
        "not an encoded study",
    ),
    "a labelled value twice": (
        respelled(lambda values: values["schema"][1].update(values=[["F", "a"], ["F", "b"]])),
        "not an encoded study",
    ),
    "a schema that is a mapping": (
        respelled(lambda values: values.update(schema={})),
        "missing|empty|not an encoded study",
    ),
    "format 1 with its number": (
        respelled(lambda values: values.update(format=1)),
        "format 1 has no number",
    ),
    "a format that is a word": (
        respelled(lambda values: values.update(format="2")),
        "'2' is not the number of a study format",
    ),
    "an unknown key": (
        respelled(lambda values: values["aggregation"].update(server=2)),
        "study: aggregation.server: unknown key 'server'",
    ),
}


@pytest.mark.parametrize("name", NO_STUDIES)
def test_what_is_no_study_is_refused_with_its_reason(name: str) -> None:
    encoded, reason = NO_STUDIES[name]
    with pytest.raises(StudyError, match=reason):
        Study.from_canonical_bytes(encoded)


def test_a_study_keeps_the_bytes_that_it_was_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canonical, "write", None)  # nothing is written again
    read = Study.from_canonical_bytes(ENCODED)
    assert read.canonical_bytes() == ENCODED


def test_a_changed_study_has_bytes_of_its_own() -> None:
    read = Study.from_canonical_bytes(ENCODED)
    assert read.with_privacy(epsilon=0.5).digest != read.digest
    assert read.with_privacy(epsilon=1.0).digest == read.digest


def test_a_format_2_study_leaves_defaults_out(monkeypatch: pytest.MonkeyPatch) -> None:
    with_one_more_key(monkeypatch)
    study = Study.from_text(small_text(dropout=0.05)).with_aggregation(servers=2)
    values = json.loads(study.canonical_bytes())
    assert (study.format, values["format"]) == (2, 2)
    assert values["aggregation"] == {
        "max_records_per_participant": 50,
        "participants": 12,
        "servers": 2,
    }
    assert "groupings" not in values
    assert all("weight" not in item for item in values["workload"])
    again = Study.from_canonical_bytes(study.canonical_bytes())
    assert again.model == study.model
    assert again.canonical_bytes() == study.canonical_bytes()


def test_a_key_that_is_new_changes_no_digest_until_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_one_more_key(monkeypatch)
    same, explicit = Study.from_text(small_text()), small_text() + "  servers: 1\n"
    assert same.canonical_bytes() == ENCODED
    assert Study.from_text(explicit).canonical_bytes() == ENCODED
    used = Study.from_text(small_text() + "  servers: 2\n")
    assert used.digest != same.digest


def test_format_1_has_none_of_the_newer_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    with_one_more_key(monkeypatch)
    smuggled = respelled(lambda values: values["aggregation"].update(servers=2))
    with pytest.raises(StudyError) as refused:
        Study.from_canonical_bytes(smuggled)
    assert str(refused.value) == (
        f"study: study format 1 has no key '{KEY}' (dhdmm {SINCE} and later know it, in format 2)"
    )


def test_an_unknown_key_names_the_version_that_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KEYS_SINCE, KEY, SINCE)
    with pytest.raises(StudyError) as refused:
        Study.from_text(small_text() + "  servers: 2\n")
    assert "unknown key 'servers' (dhdmm 0.3 and later know it)" in str(refused.value)


def test_an_unknown_key_in_somebody_elses_file_names_who_made_it() -> None:
    unknown = respelled(lambda values: values["aggregation"].update(servers=2))
    with pytest.raises(StudyError) as refused:
        Study.from_canonical_bytes(unknown, made_by="0.4")
    assert "unknown key 'servers' (made by dhdmm 0.4; this is dhdmm" in str(refused.value)


def test_a_newer_format_is_refused_by_its_number() -> None:
    newer = respelled(lambda values: values.update(format=3, more={"new": 1}))
    with pytest.raises(StudyError) as refused:
        Study.from_canonical_bytes(newer, made_by="0.4")
    assert "made by dhdmm 0.4, study format 3; this is dhdmm" in str(refused.value)
    assert "which reads formats 1–2" in str(refused.value)


def test_a_form_has_every_default_in_both_formats(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Study.from_text(small_text())
    written = json.loads(first.canonical_bytes())
    written["aggregation"] |= {"validation": "none", "sealing": "mlkem768-x25519"}  # since format 2
    written["aggregation"]["excess_noise"] = "keep"
    written["objective"] = "total"
    assert canonical.form(first.model) == written
    with_one_more_key(monkeypatch)
    second = Study.from_text(small_text() + "  servers: 2\n")
    shown = canonical.form(second.model)
    assert shown["aggregation"] == canonical.form(first.model)["aggregation"] | {"servers": 2}
    assert "format" not in shown
    assert second.format == 2
