"""Common mistakes in a study file and the exact message that a user sees."""

import json

import pytest

from dhdmm.errors import StudyError
from dhdmm.study.spec import Study
from tests.cli.commands import Shell

GOOD = """\
study: demo
schema:
  age:  {type: integer, range: [17, 91]}
  race: {type: category, values: [White, Black, Other]}
  hours: {type: number, edges: "0:100:5"}
groupings:
  band: {of: age, edges: [17, 25, 65, 92]}
workload:
  - {name: pairs, marginals: {ways: 2}}
privacy: {unit: record, epsilon: 1.0, delta: 1e-6, corrupt_fraction: 0.05}
aggregation: {participants: 100, max_dropout: 0.05, max_records_per_participant: 10}
"""
MISTAKES = [  # (what is right, what was written instead, what the user is told)
    (
        "type: integer, range",
        "typ: integer, range",
        "study.yaml:3: schema.age: missing key 'type' (not 'typ')",
    ),
    (
        "type: integer, range: [17, 91]",
        "type: integer",
        "study.yaml:3: schema.age: missing key 'range' (the domain is needed, for example"
        " range: [0, 99])",
    ),
    (
        "type: integer",
        "type: int",
        "study.yaml:3: schema.age: 'int' is not one of integer, date, datetime, category, number,"
        " measure (did you mean 'integer'?)",
    ),
    (
        "[17, 91]",
        "[91, 17]",
        "study.yaml:3: schema.age.range: the range [91, 17] is empty (write the smaller first)",
    ),
    (
        "[White, Black, Other]",
        "[White, Black, White]",
        "study.yaml:4: schema.race: 'race' lists the value 'White' twice",
    ),
    (
        "[White, Black, Other]",
        "[White, 1]",
        "study.yaml:4: schema.race: the values of 'race' mix types (quote all of them, or"
        " none: a column has one type)",
    ),
    (
        "0:100:5",
        "0:100:7",
        "study.yaml:5: schema.hours.edges: the steps of '0:100:7' do not meet its last edge",
    ),
    (
        "[17, 25, 65, 92]",
        "[17, 65, 25]",
        "study.yaml:7: groupings.band.edges: bins overlap: edge 25 follows 65, but edges "
        "must increase",
    ),
    (
        "of: age",
        "of: agee",
        "study.yaml:7: groupings.band.of: unknown attribute 'agee' (did you mean 'age'?)",
    ),
    (
        "band:",
        "race:",
        "study.yaml:7: groupings.race: the name 'race' is already taken",
    ),
    (
        "  - {name: pairs, marginals: {ways: 2}}\n",
        "",
        "study.yaml:8: workload: expected a list, but nothing is given",
    ),
    (
        "workload:\n  - {name: pairs, marginals: {ways: 2}}\n",
        "workload: []\n",
        "study.yaml:8: workload: must not be empty",
    ),
    (
        "  - {name: pairs, marginals: {ways: 2}}\n",
        "  - {name: pairs, marginals: {ways: 2}}\n  - {name: pairs, marginals: {ways: 2}}\n",
        "study.yaml:10: workload[1].name: two items are called 'pairs'",
    ),
    (
        "marginals: {ways: 2}",
        "by: [agee]",
        "study.yaml:9: workload[0].by: unknown attribute or grouping 'agee' (did you mean 'age'?)",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age, band]",
        "study.yaml:9: workload[0]: 'age' and 'band' both break down 'age' (make one "
        "grouping that holds the sets of both)",
    ),
    (
        "marginals: {ways: 2}",
        "by: age",
        "study.yaml:9: workload[0].by: expected a list, not 'age' (write [age])",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], with_totals: [race]",
        "study.yaml:9: workload[0].with_totals: 'race' is not in 'by', so it has no total"
        " ('by' has age)",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], where: rce = 'White'",
        "study.yaml:9: workload[0].where, SQL line 1, column 1: unknown attribute 'rce' "
        "(did you mean 'race'?)",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], where: race = 'Whyte'",
        "study.yaml:9: workload[0].where, SQL line 1, column 8: 'Whyte' is not a value of"
        " 'race' (did you mean 'White'?)",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], where: race = White",
        "study.yaml:9: workload[0].where, SQL line 1, column 8: unknown attribute 'White'"
        " (the value of 'race' stands in single quotes: 'White')",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], where: hours >= 33",
        "study.yaml:9: workload[0].where, SQL line 1, column 10: 'hours' >= 33 cuts the "
        "bin [30, 35) (a bin is taken whole: use < or >= with 30 or 35)",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], where: age > 91",
        "study.yaml:9: workload[0]: no record can satisfy the condition, so the answers "
        "would all be 0",
    ),
    (
        "marginals: {ways: 2}",
        "marginals: {ways: 5}",
        "study.yaml:9: workload[0].marginals.ways: the schema has only 3 attributes, not 5",
    ),
    (
        "marginals: {ways: 2}",
        "marginal: {ways: 2}",
        "study.yaml:9: workload[0].marginal: unknown key 'marginal' (did you mean 'marginals'?)",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], weight: 0",
        "study.yaml:9: workload[0].weight: must be more than 0, not 0",
    ),
    (
        "marginals: {ways: 2}",
        "by: [age], sql: SELECT 1",
        "study.yaml:9: workload[0]: exactly one of 'by', 'total', 'marginals', 'ranges', "
        "'terms', 'sql', 'coverage', 'sum', 'mean', 'quantiles', 'persons' is needed, not 'by' "
        "and 'sql'",
    ),
    (
        "marginals: {ways: 2}",
        "sql: SELECT SUM(race) FROM data",
        "study.yaml:9: workload[0].sql, SQL line 1, column 12: the values of 'race' cannot be "
        "added up",
    ),
    (
        "marginals: {ways: 2}",
        "ranges: {of: race, kind: all}",
        "study.yaml:9: workload[0].ranges.of: 'race' has no order to take ranges or quantiles of "
        "(they are of integers, numbers, dates, or a grouping of them with 'edges' or 'by')",
    ),
    (
        "marginals: {ways: 2}",
        "ranges: {of: age, kind: width}",
        "study.yaml:9: workload[0].ranges: 'width' is needed for kind: width, and only then",
    ),
    (
        "marginals: {ways: 2}",
        "weight: 3",
        "study.yaml:9: workload[0]: exactly one of 'by', 'total', 'marginals', 'ranges', "
        "'terms', 'sql', 'coverage', 'sum', 'mean', 'quantiles', 'persons' is needed",
    ),
    (
        "unit: record",
        "unit: recrd",
        "study.yaml:10: privacy.unit: 'recrd' is not one of record, participant (did you "
        "mean 'record'?)",
    ),
    (
        "unit: record",
        "unit: {person: {column: id}}",
        "study.yaml:10: privacy.unit.person: missing key 'max_records'",
    ),
    (
        "epsilon: 1.0",
        "epsilon: -1",
        "study.yaml:10: privacy.epsilon: must be more than 0, not -1",
    ),
    (
        "corrupt_fraction: 0.05",
        "corrupt_fraction: 5%",
        "study.yaml:10: privacy.corrupt_fraction: expected a number, not '5%'",
    ),
    (
        "corrupt_fraction: 0.05",
        "corrupt_fraction: 5",
        "study.yaml:10: privacy.corrupt_fraction: must be less than 1, not 5",
    ),
    (
        "corrupt_fraction: 0.05",
        "corrupt_fraction: 0.96",
        "study.yaml:11: aggregation.max_dropout: max_dropout and corrupt_fraction leave "
        "no honest participant",
    ),
    (
        "participants: 100",
        "participants: {min: 10, max: 5}",
        "study.yaml:11: aggregation.participants: min 10 is larger than max 5",
    ),
    (
        "study: demo\n",
        "study: demo\nstudy: again\n",
        "study.yaml:2: study: key 'study' is repeated (it is first given in line 1)",
    ),
    (
        "study: demo\n",
        "",
        "study.yaml:1: missing key 'study'",
    ),
    (
        "groupings:",
        "  groupings:",
        "study.yaml:6: schema.groupings: expected a mapping, but nothing is given",
    ),
    (
        "study: demo\n",
        "study: demo\ncolour: red\n",
        "study.yaml:2: colour: unknown key 'colour' (known: study, schema, groupings, "
        "workload, objective, extra_measurements, privacy, aggregation)",
    ),
    (
        "edges: [17, 25, 65, 92]",
        "sets: [{label: old, values: [92]}]",
        "study.yaml:7: groupings.band.sets[0].values: 92 is not a value of 'age' (the "
        "domain is 17–91)",
    ),
    (
        "edges: [17, 25, 65, 92]",
        "sets: [{values: [90]}]",
        "study.yaml:7: groupings.band.sets[0]: a set needs a 'label'",
    ),
    (
        "of: age, edges: [17, 25, 65, 92]",
        "of: race, sets: [{label: a, values: [white]}]",
        "study.yaml:7: groupings.band.sets[0].values: 'white' is not a value of 'race' "
        "(did you mean 'White'?)",
    ),
]


def test_the_study_without_mistakes_loads():
    assert Study.from_text(GOOD).workload.queries == 75 * 3 + 75 * 20 + 3 * 20


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES)
def test_mistake_is_explained(right, wrong, message):
    assert right in GOOD
    with pytest.raises(StudyError) as caught:
        Study.from_text(GOOD.replace(right, wrong, 1), "study.yaml")
    assert str(caught.value) == message


MANY = """
study: many
schema:
  age: {type: integer, range: [0, 9]}
  sex: {type: category, values: [F, M]}
workload:
  - {name: a, by: [agee]}
  - {name: b, by: [sex], where: "age >"}
  - {name: c, by: [sex]}
  - {name: d, sql: "SELECT COUNT(*) FROM data WHERE six = 'F'"}
"""


def test_all_mistakes_are_told_at_once():
    with pytest.raises(StudyError) as caught:
        Study.from_text(MANY, "study.yaml")
    first, more = caught.value, caught.value.more
    assert [str(error.where).split(":")[1] for error in (first, *more)] == ["7", "8", "10"]
    with pytest.raises(StudyError) as caught:
        Study.from_text(MANY.replace("range:", "rang:").replace("values:", "value:"))
    assert [str(error.where)[:7] for error in (caught.value, *caught.value.more)] == [
        "study:4",
        "study:5",
    ]


def test_no_more_than_20_mistakes_are_told():
    items = "".join(f"  - {{name: i{n}, by: [nothing]}}\n" for n in range(30))
    with pytest.raises(StudyError) as caught:
        Study.from_text(MANY[: MANY.index("  - {name: a")] + items)
    assert len(caught.value.more) == 19


def test_the_command_line_lists_every_mistake(tmp_path, monkeypatch, capsys):
    shell = Shell(tmp_path, monkeypatch, capsys)
    (tmp_path / "study.yaml").write_text(MANY)
    said = shell("describe", "study.yaml")
    assert said.code == 3
    assert said.err.count("error: study.yaml:") == 3
    assert said.err.endswith("3 mistakes in all\n")
    document = json.loads(shell("describe", "study.yaml", "--json").err)
    assert len(document["more"]) == 2
