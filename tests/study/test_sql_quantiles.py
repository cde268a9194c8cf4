"""Medians and quantiles in a study's SQL are the item `quantiles`, in other words."""

from __future__ import annotations

import numpy as np
import pytest

from dhdmm.errors import StudyError
from dhdmm.study.derived import Mean, Measured, Quantiles
from dhdmm.study.describe import describe
from dhdmm.study.spec import Study

STUDY = """\
study: stays
schema:
  ward: {{type: category, values: [A, B, C]}}
  days: {{type: integer, range: [0, 20], missing: true}}
  hours: {{type: number, edges: "0:20:5"}}
  came: {{type: date, range: [2024-01-01, 2024-01-31]}}
  left: {{type: datetime, range: [2024-01-01T00, 2024-01-02T23]}}
  cost: {{type: measure, range: [0, 1000], step: 10}}
groupings:
  band: {{of: days, edges: [0, 5, 10, 21]}}
  odd: {{of: days, sets: [{{label: odd, where: "days % 2 = 1"}}, {{label: others, rest: true}}]}}
workload:
  - {{name: asked, {item}}}
"""


def study(item: str) -> Study:
    return Study.from_text(STUDY.format(item=item), "stays")


def in_sql(text: str) -> Study:
    return study(f'sql: "{text}"')


@pytest.mark.parametrize(
    ("sql", "item"),
    [
        ("SELECT MEDIAN(days) FROM data", "quantiles: {of: days, at: [0.5]}"),
        (
            "SELECT ward, median(Days) FROM data GROUP BY ward",
            "quantiles: {of: days, at: [0.5], by: [ward]}",
        ),
        (
            "SELECT PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY days) FROM data",
            "quantiles: {of: days, at: [0.25]}",
        ),
        (
            "SELECT ward, PERCENTILE_DISC([0.25, 0.9]) WITHIN GROUP (ORDER BY hours ASC) AS q"
            " FROM data GROUP BY ward",
            "quantiles: {of: hours, at: [0.25, 0.9], by: [ward]}",
        ),
        ("SELECT QUANTILE_CONT(days, 0.9) FROM data", "quantiles: {of: days, at: [0.9]}"),
        ("SELECT QUANTILE(days, [0.25, 0.5]) FROM data", "quantiles: {of: days, at: [0.25, 0.5]}"),
        (
            "SELECT MEDIAN(days), QUANTILE_DISC(days, 0.25 ORDER BY days) FROM data",
            "quantiles: {of: days, at: [0.5, 0.25]}",
        ),
        (
            "SELECT ward, MEDIAN(came) FROM data WHERE ward <> 'B' AND hours >= 5 GROUP BY ward",
            "quantiles: {of: came, at: [0.5], by: [ward]}, where: ward <> 'B' AND hours >= 5",
        ),
        (
            "SELECT MEDIAN(days) FROM data WHERE days > 3 OR hours < 10",
            "quantiles: {of: days, at: [0.5]}, where: days > 3 OR hours < 10",
        ),
        ("SELECT MEDIAN(left) FROM data", "quantiles: {of: left, at: [0.5]}"),
        ("SELECT MEDIAN(band) FROM data", "quantiles: {of: band, at: [0.5]}"),
        (
            "SELECT MEDIAN(DATE_TRUNC('week', came)) FROM data",
            "quantiles: {of: week of came, at: [0.5]}",
        ),
    ],
)
def test_it_is_the_item_quantiles(sql: str, item: str) -> None:
    (asked,), (same,) = in_sql(sql).workload.items, study(item).workload.items
    (found,), (expected,) = asked.derived, same.derived
    assert isinstance(found, Quantiles)
    assert isinstance(expected, Quantiles)
    assert (found.of, found.prefixes, found.axis, found.at, [*found.steps]) == (
        expected.of, expected.prefixes, expected.axis, expected.at, [*expected.steps],
    )  # fmt: skip
    left, right = in_sql(sql).workload, study(item).workload
    assert [left.query(i) for i in range(left.queries)] == [
        right.query(i) for i in range(right.queries)
    ]
    for one, other in zip(left.terms, right.terms, strict=True):
        assert one.weight == other.weight
        for p, q in zip(one.products, other.products, strict=True):
            assert p.coefficient == q.coefficient
            for f, g in zip(p.factors, q.factors, strict=True):
                np.testing.assert_array_equal(f.to_sparse().toarray(), g.to_sparse().toarray())
    words = [describe(study)["tables"][0] for study in (in_sql(sql), study(item))]
    assert words[0] == words[1]


def test_beside_counts_sums_and_means_in_every_grouping_set() -> None:
    text = (
        "SELECT ward, AVG(hours), COUNT(*), MEDIAN(days), SUM(cost), QUANTILE(days, 0.9),"
        " MEDIAN(hours) FROM data GROUP BY CUBE (ward)"
    )
    (item,) = in_sql(text).workload.items
    kinds = [Mean, Measured, Quantiles, Measured, Quantiles]
    assert [type(one) for one in item.derived] == 2 * kinds
    assert [one.at for one in item.derived if isinstance(one, Quantiles)] == 2 * [
        (0.5, 0.9), (0.5,),
    ]  # fmt: skip
    assert len(item.terms) == 10, "sum and count, prefixes, sum, prefixes, twice"
    (table,) = describe(in_sql(text))["tables"]
    assert table["summary"] == (
        "means of hours, from sums and counts; quantiles 0.5, 0.9 of days, from the records up to"
        " each value; median of hours, from the records up to each value; a record counts as the"
        " midpoint of its bin of hours, off by up to 2.5"
    )


@pytest.mark.parametrize(
    ("selected", "message"),
    [
        ("MEDIAN(ward)", "column 8: 'ward' has no order to take ranges or quantiles of (they are"),
        ("MEDIAN(odd)", "'odd' has no order to take ranges or quantiles of"),
        ("MEDIAN(cost)", "column 8: 'cost' is measured: no table is broken down by it"),
        ("MEDIAN(dais)", "unknown attribute or grouping 'dais' (did you mean 'days'?)"),
        ("MEDIAN(days + 1)", "MEDIAN(days + 1) is not of a column"),
        ("MEDIAN(DISTINCT days)", "MEDIAN(DISTINCT days) is not of a column"),
        ("QUANTILE(days)", "QUANTILE(days) needs a column and a share (QUANTILE(x, 0.5) is the"),
        ("QUANTILE(days, 1.5)", "QUANTILE(days, 1.5): 1.5 is not a share between 0 and 1"),
        ("QUANTILE(days, [0.5, -0.1])", "-0.1 is not a share between 0 and 1"),
        ("QUANTILE(days, 1)", "1 is not a share between 0 and 1 (0.5 is the median"),
        ("QUANTILE(days, hours)", "hours is not a share between 0 and 1"),
        ("QUANTILE(days, [])", "QUANTILE(days, []) needs a column and a share"),
        ("PERCENTILE_CONT(0.5)", "QUANTILE_CONT(0.5) needs a column and a share"),
        (
            "PERCENTILE_CONT(0.1) WITHIN GROUP (ORDER BY days DESC)",
            "quantiles are of one column in rising order (write ORDER BY with the column alone)",
        ),
        ("QUANTILE_CONT(days, 0.5 ORDER BY hours)", "quantiles are of one column in rising order"),
        ("MEDIAN(days), QUANTILE(days, 0.5)", "the quantile 0.5 of 'days' is selected twice"),
        ("COUNT(*), MEDIAN(came)", "quantiles of 'came' are dates, and other answers of this"),
        ("MEDIAN(left), MEDIAN(came)", "quantiles of 'left' are dates, and other answers of this"),
        ("MEDIAN(days) FILTER (WHERE hours < 5)", "the restriction belongs into WHERE"),
        ("MEDIAN(days) + 1", "MEDIAN(days) + 1 cannot be selected (select grouped columns and"),
        (
            f"QUANTILE(days, [{', '.join(str(i / 200) for i in range(1, 102))}])",
            "101 quantiles of 'days' are more than 100",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(selected: str, message: str) -> None:
    with pytest.raises(StudyError) as refused:
        _ = in_sql(f"SELECT {selected} FROM data").workload
    assert message in str(refused.value)
    assert "stays:13: workload[0].sql, SQL line 1, column " in str(refused.value)


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            'sql: "SELECT band, MEDIAN(days) FROM data GROUP BY band"',
            "sql, SQL line 1, column 14: quantiles of 'days' are not broken down by 'band'",
        ),
        (
            "quantiles: {of: days, at: [0.5], by: [days]}",
            "quantiles.by: quantiles of 'days' are not broken down by 'days'",
        ),
        (
            'sql: "SELECT ward, MEDIAN(days) FROM data GROUP BY ward HAVING MEDIAN(days) > 3"',
            "this chooses groups by their exact counts, which nobody sees",
        ),
        (
            'sql: "SELECT MEDIAN(days) FROM data", target: 3',
            "target: 'target' goes with counts and sums, not with means and quantiles",
        ),
        (
            'sql: "SELECT AVG(days) FROM data", target: 3',
            "the error of what is derived from them depends on the data",
        ),
    ],
)
def test_what_an_item_cannot_be_is_refused(item: str, message: str) -> None:
    with pytest.raises(StudyError) as refused:
        _ = study(item).workload
    assert message in str(refused.value)
