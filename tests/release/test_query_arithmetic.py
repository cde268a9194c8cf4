"""SQL on a release: FILTER, arithmetic, HAVING, ORDER BY and LIMIT, against the same by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dhdmm.errors import NotMeasured, StudyError
from dhdmm.release.release import Release
from tests.release.releases import plan_of, release_of

FLAT = """
study: flat
schema:
  age: {type: integer, range: [0, 29]}
workload:
  - {name: ages, by: [age]}
"""


@pytest.fixture(scope="module")
def release():
    return release_of()


def test_a_filter_counts_part_of_every_group(release):
    table = release.query("SELECT sex, COUNT(*) FILTER (WHERE age >= 18) FROM data GROUP BY sex")
    assert table.values == pytest.approx(release["adults"].values)
    assert table.standard_errors == pytest.approx(release["adults"].standard_errors)
    assert table.to_arrow().column_names == ["sex", "value", "standard_error", "low", "high"]


def test_groups_that_a_filter_leaves_empty_stay(release):
    sql = "SELECT band, COUNT(*) FILTER (WHERE age < 10) AS young FROM data GROUP BY band"
    table = release.query(sql)
    assert len(table) == 3
    assert table.values[1:] == pytest.approx([0, 0], abs=1e-6)
    assert table.standard_errors[1:] == pytest.approx([0, 0], abs=1e-3)


def test_a_share_is_the_quotient_of_python(release):
    table = release.query(
        "SELECT sex, 100.0 * COUNT(*) FILTER (WHERE age >= 18) / COUNT(*) AS adults"
        " FROM data GROUP BY sex"
    )
    everyone = release["parts"].answers[:2]
    share = 100 * (release["adults"].answers / everyone)
    assert table.values == pytest.approx(share.values)
    assert table.standard_errors == pytest.approx(share.standard_errors)
    for mine, by_hand in zip(table.bounds(), share.bounds(), strict=True):
        assert mine == pytest.approx(by_hand)


def test_a_difference_of_shares_is_that_of_python(release):
    """Of two denominators: the ends of both intervals, each with half the error probability."""
    women, men = (
        f"COUNT(*) FILTER (WHERE age >= 18 AND sex = '{sex}')"
        f" / COUNT(*) FILTER (WHERE sex = '{sex}')"
        for sex in ("Female", "Male")
    )
    table = release.query(f"SELECT {women} - 2 * ({men}) + 1 AS difference FROM data")
    adults, everyone = release["adults"].answers, release["parts"].answers
    first, second = (adults[i] / everyone[i] for i in (0, 1))
    by_hand = first + 1 - 2 * second
    assert table.values == pytest.approx(by_hand.values)
    for mine, python in zip(table.bounds(), by_hand.bounds(), strict=True):
        assert mine == pytest.approx(python)
    low = (first + 1).bounds(0.975)[0] - 2 * second.bounds(0.975)[1]
    assert table.bounds()[0] == pytest.approx(low)


def test_shares_of_one_total_are_one_quotient(release):
    women, men = (f"COUNT(*) FILTER (WHERE sex = '{sex}')" for sex in ("Female", "Male"))
    apart = release.query(f"SELECT {women} / COUNT(*) - {men} / COUNT(*) FROM data")
    joined = release.query(f"SELECT ({women} - {men}) / COUNT(*) FROM data")
    assert apart.bounds()[0] == pytest.approx(joined.bounds()[0])


def test_a_count_and_a_quotient_can_be_added(release):
    table = release.query("SELECT COUNT(*) + 1 / COUNT(*) FROM data")
    everyone = release["everyone"]
    assert table.values == pytest.approx(everyone.values + 1 / everyone.values)
    assert np.all(table.bounds()[0] < everyone.bounds()[0])


def test_differences_and_constants(release):
    table = release.query(
        "SELECT 2 * (COUNT(*) FILTER (WHERE sex = 'Male') - COUNT(*) FILTER (WHERE sex = 'Female'))"
        " / 4 - 10 FROM data"
    )
    half = (release["parts"].answers[1] - release["parts"].answers[0]) / 2
    assert table.values == pytest.approx(half.values - 10)
    assert table.standard_errors == pytest.approx(half.standard_errors)


def test_growth_in_sql_is_a_quotient_less_one(release):
    counts = "COUNT(*) FILTER (WHERE sex = 'Male') / COUNT(*) FILTER (WHERE sex = 'Female')"
    ratio, growth = (release.query(f"SELECT {counts}{less} FROM data") for less in ("", " - 1"))
    assert growth.values == pytest.approx(ratio.values - 1)
    assert growth.bounds()[0] == pytest.approx(ratio.bounds()[0] - 1)


def test_several_numbers_have_columns_by_their_names(release):
    table = release.query(
        "SELECT sex, COUNT(*) AS n, COUNT(*) FILTER (WHERE age >= 18) / COUNT(*) AS share"
        " FROM data GROUP BY sex"
    )
    names = ["sex", "n", "n_standard_error", "n_low", "n_high"]
    names += ["share", "share_standard_error", "share_low", "share_high"]
    assert table.to_arrow().column_names == names
    assert table.to_arrow()["n"].to_pylist() == pytest.approx(release["parts"].values[:2].tolist())


def test_order_and_limit_choose_rows_and_warn(release):
    sql = "SELECT age, COUNT(*) AS n FROM data GROUP BY age ORDER BY {} DESC LIMIT 5"
    for by in ("n", "2", "COUNT(*)"):
        table = release.query(sql.format(by))
        everything = release.query("SELECT age, COUNT(*) FROM data GROUP BY age")
        best = np.sort(everything.values)[::-1][:5]
        assert table.values == pytest.approx(best)
        assert table.to_arrow()["age"].to_pylist() == [
            str(age) for age in np.argsort(-everything.values, kind="stable")[:5]
        ]
        assert "tend to be too high" in table.note
        assert "30 groups" in table.note
        assert table.together == 30
        assert "joint_low" in table.to_arrow().column_names


def test_order_by_labels_chooses_nothing(release):
    table = release.query("SELECT age, COUNT(*) FROM data GROUP BY age ORDER BY age DESC LIMIT 2")
    assert table.to_arrow()["age"].to_pylist() == ["29", "28"]
    ordered = release.query("SELECT age, COUNT(*) FROM data GROUP BY age ORDER BY COUNT(*)")
    assert np.all(np.diff(ordered.values) >= 0)
    assert not ordered.note


def test_offset_skips(release):
    sql = "SELECT age, COUNT(*) FROM data GROUP BY age ORDER BY age LIMIT 2 OFFSET 3"
    assert release.query(sql).to_arrow()["age"].to_pylist() == ["3", "4"]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("COUNT(*) > 100", lambda n: n > 100),
        ("n BETWEEN 50 AND 100", lambda n: (n >= 50) & (n <= 100)),
        ("NOT (n < 50 OR n > 100)", lambda n: (n >= 50) & (n <= 100)),
        ("n / 2 >= 60 AND 300 > n", lambda n: (n >= 120) & (n < 300)),
    ],
)
def test_having_keeps_groups_by_their_answers(release, condition, expected):
    everything = release.query("SELECT age, COUNT(*) FROM data GROUP BY age").values
    sql = f"SELECT age, COUNT(*) AS n FROM data GROUP BY age HAVING {condition}"
    table = release.query(sql)
    assert 0 < len(table) < 30
    assert table.values == pytest.approx(everything[expected(everything)])
    assert table.note


def test_cubes_can_be_ordered(release):
    sql = "SELECT sex, value, COUNT(*) FROM data GROUP BY CUBE (sex, value) ORDER BY COUNT(*) DESC"
    table = release.query(sql)
    assert table.values == pytest.approx(np.sort(release["cube"].values)[::-1])
    assert table.to_arrow()["sex"][0].as_py() == "total"


def test_answers_of_a_query_can_be_calculated_with(release):
    sql = "SELECT sex, COUNT(*) FILTER (WHERE age >= 18) FROM data GROUP BY sex ORDER BY 2 DESC"
    table = release.query(sql)
    rest = release["everyone"].answers - table.answers.sum()
    adults = release["adults"].answers.sum()
    assert rest.values == pytest.approx((release["everyone"].answers - adults).values)


@pytest.mark.slow
def test_joint_bounds_after_a_choice_hold_the_truth_where_single_ones_do_not():
    """The largest of 30 equal answers, in 200 simulated rounds. With another seed, the share of the
    joint bounds (at least 95 %) would be seen below 90 % with a probability of 0.3 %."""
    sql = "SELECT age, COUNT(*) AS n FROM data GROUP BY age ORDER BY n DESC LIMIT 1"
    plan, rng = plan_of(FLAT), np.random.default_rng(4)
    measured = plan.strategy.measure(np.full(30, 100))
    deviation = float(57 * plan.participant_variance) ** 0.5
    held = {"": 0, "joint_": 0}
    for noise in np.rint(rng.normal(0, deviation, (200, len(measured)))).astype(np.int64):
        row = Release(plan, bytes(16), 57, measured + noise).query(sql).to_arrow().to_pylist()[0]
        for kind in held:
            held[kind] += row[f"{kind}low"] <= 100 <= row[f"{kind}high"]
    assert held["joint_"] >= 180
    assert held[""] < 150


@pytest.mark.parametrize(
    ("sql", "complaint"),
    [
        ("SELECT COUNT(*) * COUNT(*) FROM data", "multiplies two answers"),
        ("SELECT COUNT(*) / 0 FROM data", "divides by 0"),
        ("SELECT SQRT(COUNT(*)) FROM data", "cannot be calculated"),
        ("SELECT MEDIAN(age) + 1 FROM data", "is no sum of records: nothing is calculated from it"),
        ("SELECT sex, COUNT(*) AS sex FROM data GROUP BY sex LIMIT 1", "'sex' is selected twice"),
        ("SELECT COUNT(*) FROM data ORDER BY 2", "nothing is selected at place 2"),
        ("SELECT COUNT(*) FROM data ORDER BY sex", "'sex' is not selected"),
        ("SELECT sex, COUNT(*) FROM data GROUP BY sex LIMIT 1 + 1", "needs a whole number"),
        ("SELECT sex, COUNT(*) FROM data GROUP BY sex HAVING sex LIKE 'F%'", "is not understood"),
        ("SELECT sex FROM data GROUP BY sex ORDER BY sex", "nothing is counted"),
        ("SELECT sec, COUNT(*) / 2 FROM data GROUP BY sec", "unknown attribute or grouping 'sec'"),
    ],
)
def test_what_has_no_exact_answer_is_refused_with_its_reason(release, sql, complaint):
    with pytest.raises(StudyError, match=complaint.replace("*", "\\*")):
        release.query(sql)


def test_a_filter_that_was_not_measured_is_refused_with_the_nearest(release):
    sql = "SELECT value, COUNT(*) FILTER (WHERE age >= 7) / COUNT(*) FROM data GROUP BY value"
    with pytest.raises(NotMeasured) as refused:
        release.query(sql)
    moved = "SELECT value, COUNT(*) FROM data WHERE age >= 10 AND age < 30 GROUP BY value"
    assert refused.value.nearest[0] == moved


def test_a_sum_may_be_measured_where_its_parts_are_not(release):
    parts = "COUNT(*) FILTER (WHERE age < 7) + COUNT(*) FILTER (WHERE age >= 7)"
    table = release.query(f"SELECT value, {parts} FROM data GROUP BY value")
    whole = release.query("SELECT value, COUNT(*) FROM data GROUP BY value")
    assert table.values == pytest.approx(whole.values)
