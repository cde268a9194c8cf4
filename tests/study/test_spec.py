"""Study files: examples, canonical bytes, JSON Schema, defaults."""

import json
from pathlib import Path

import pytest

from dhdmm.errors import StudyError
from dhdmm.study.describe import describe
from dhdmm.study.skeleton import example
from dhdmm.study.spec import Study, json_schema

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = {  # queries, cells
    "adult-5/study.yaml": (3_807, 240_000),
    "adult-14/study.yaml": (148_137, 641_263_392_000_000_000),
    "census-sf1/study.yaml": (4_151, 500_480),
    "census-sf1-states/study.yaml": (215_852, 25_524_480),
    "ranges/all-256.yaml": (32_896, 256),
    "ranges/all-1024.yaml": (524_800, 1_024),
    "ranges/prefix-256.yaml": (256, 256),
    "ranges/width.yaml": (241, 256),
}
SMALL = (
    "study: x\nschema: {a: {type: integer, range: [0, 1]}}\nworkload: [{name: t, total: true}]\n"
)


@pytest.mark.parametrize("name", SIZES)
def test_example_loads_round_trips_and_describes_itself(name):
    study = Study.load(EXAMPLES / name)
    assert (study.workload.queries, study.workload.cells) == SIZES[name]
    again = Study.from_text(study.to_yaml())
    assert again.canonical_bytes() == study.canonical_bytes()
    assert again.digest == study.digest
    described = describe(study)
    assert sum(table["queries"] for table in described["tables"]) == study.workload.queries


def test_adult_14_has_the_published_sizes():
    study = Study.load(EXAMPLES / "adult-14" / "study.yaml")
    assert study.schema.shape == (85, 9, 100, 16, 7, 15, 6, 5, 2, 100, 100, 99, 42, 2)
    assert study.schema.names[-1] == "income>50K"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("schema: {", "schema:  # a comment\n  {"),
        ("type: integer, range: [0, 1]", "range: [0, 1], type: integer"),
        ("type: integer, range: [0, 1]", "type: integer, range: [+0, 1]"),
        ("total: true", "total: true, weight: 1"),
        ("total: true", "total: true, weight: 1.0, where: null"),
    ],
)
def test_one_meaning_has_one_canonical_form(first, second):
    one, other = Study.from_text(SMALL), Study.from_text(SMALL.replace(first, second))
    assert one.canonical_bytes() == other.canonical_bytes()


def test_edges_have_one_canonical_form_however_written():
    written = ['"0:1:0.25"', "[0, 0.25, 0.5, 0.75, 1]", "[0.0, 2.5e-1, 0.5, 0.75, 1.0]"]
    studies = [
        Study.from_text(
            SMALL.replace("type: integer, range: [0, 1]", f"type: number, edges: {edges}")
        )
        for edges in written
    ]
    assert len({study.digest for study in studies}) == 1


def test_order_of_attributes_and_values_is_part_of_the_meaning():
    text = "study: x\nschema: {%s}\nworkload: [{name: t, total: true}]\n"
    a, b = "a: {type: category, values: {1: x, 2: y}}", "b: {type: integer, range: [0, 1]}"
    swapped = a.replace("1: x, 2: y", "2: y, 1: x")
    digests = {
        Study.from_text(text % s).digest for s in (f"{a}, {b}", f"{b}, {a}", f"{swapped}, {b}")
    }
    assert len(digests) == 3


def test_canonical_bytes_are_frozen():
    """Digests are compared between machines and versions: this line must not change."""
    text = SMALL + "privacy: {unit: record, epsilon: 1, delta: 1e-6, corrupt_fraction: 0.05}\n"
    assert Study.from_text(text).canonical_bytes() == (
        b'{"groupings":{},"privacy":{"corrupt_fraction":0.05,"delta":1e-06,"epsilon":1,'
        b'"relation":"zero-out","unit":"record"},"schema":[{"name":"a","range":[0,1],'
        b'"type":"integer"}],"study":"x","workload":[{"name":"t","total":true,"weight":1}]}'
    )


def test_privacy_and_aggregation_as_a_user_writes_them():
    study = Study.from_text(
        SMALL + "privacy: {unit: {person: {column: id, max_records: 3, max_participants: 2}},"
        " rho: 0.5, corrupt_fraction: 0, relation: replace}\n"
        "aggregation: {participants: {min: 8, max: 12}, max_records_per_participant: 7}\n"
    )
    assert study.privacy.unit.person.max_records == 3
    assert (study.privacy.rho, study.privacy.epsilon, study.privacy.delta) == (0.5, None, None)
    assert (study.aggregation.participants.min, study.aggregation.participants.max) == (8, 12)
    assert (study.aggregation.threat_model, study.aggregation.max_dropout) == ("malicious", 0.05)


def test_words_of_yaml_1_1_and_codes_with_zeros_stay_text():
    text = SMALL.replace(
        "type: integer, range: [0, 1]", "type: category, values: [no, on, 01, 1_0]"
    )
    assert Study.from_text(text).schema.attributes[0].values == ("no", "on", "01", "1_0")


def test_the_commented_example_loads_and_uses_every_section():
    study = Study.from_text(example())
    assert study.model.model_fields_set >= {"groupings", "privacy", "aggregation"}


def test_json_schema_describes_every_section():
    schema = json.loads(json.dumps(json_schema()))
    assert set(schema["properties"]) == {
        "study",
        "schema",
        "groupings",
        "workload",
        "extra_measurements",
        "objective",
        "privacy",
        "aggregation",
    }
    assert schema["required"] == ["study", "schema", "workload"]
    assert schema["additionalProperties"] is False


def test_a_changed_section_means_what_the_changed_file_means():
    text = (EXAMPLES / "phones" / "study.yaml").read_text()
    study = Study.from_text(text)
    dearer = study.with_privacy(epsilon=0.5)
    assert dearer.digest == Study.from_text(text.replace("epsilon: 2.0", "epsilon: 0.5")).digest
    assert study.privacy.epsilon == 2.0
    assert study.with_aggregation(threat_model="malicious").aggregation.threat_model == "malicious"
    in_rho = study.with_privacy(epsilon=None, delta=None, rho=0.1).privacy
    assert (in_rho.epsilon, in_rho.delta, in_rho.rho) == (None, None, 0.1)


@pytest.mark.parametrize(
    ("section", "changes", "message"),
    [
        ("privacy", {"epsilon": -1}, "privacy.epsilon: must be more than 0, not -1"),
        ("privacy", {"rho": 1}, "not 'epsilon' and 'rho'"),
        ("privacy", {"epsilom": 1}, "epsilom"),
        ("aggregation", {"max_dropout": 0.99}, "leave no honest participant"),
    ],
)
def test_a_change_is_checked_as_the_file_is(section, changes, message):
    study = Study.load(EXAMPLES / "phones" / "study.yaml")
    with pytest.raises(StudyError, match=message):
        getattr(study, f"with_{section}")(**changes)
