"""The study builder in a real browser: from a header to a study, from a study to its release."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from playwright.sync_api import Page, Request, expect

from dhdmm.release.release import Release
from dhdmm.study.models import ItemModel
from dhdmm.study.spec import Study
from dhdmm.web import builder as builder_pages
from dhdmm.web.planners import Planners
from tests.browser.participants import joining
from tests.service.coordinators import Listening
from tests.web.coordinators import served

pytestmark = pytest.mark.slow

EMERGENCY = Path(__file__).parents[2] / "examples" / "emergency"
SECRET = "8541-canary"
CSV = f'age,sex,"income, yearly"\n41,F,{SECRET}\n17,M,{SECRET}\n'


@pytest.fixture(scope="module")
def coordinator(
    tmp_path_factory: pytest.TempPathFactory, forked_dhdmm: Path
) -> Iterator[Listening]:
    """One for all tests here: drafts leave nothing behind. Its planners start at once."""
    quick = partial(Planners, (str(forked_dhdmm / "planner"),))
    folder = tmp_path_factory.mktemp("coordinator")
    with patch.object(builder_pages, "Planners", quick), served(folder) as made:
        yield made


@pytest.fixture
def builder(signed_in: Page, coordinator: Listening) -> Page:
    signed_in.goto(f"{coordinator.address}/builder")
    expect(signed_in.get_by_label("Name of the study")).to_be_visible()
    return signed_in


def planned(page: Page) -> None:
    expect(page.locator("#state")).to_have_text("Up to date.")


def fact(page: Page, term: str) -> str:
    """The figure without its small print."""
    box = page.locator("#facts > div", has_text=term).locator("dd")
    return box.evaluate("dd => dd.firstChild.textContent")


def exported(page: Page, folder: Path) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name="Export study.yaml").click()
    assert download.value.suggested_filename == "study.yaml"
    place = folder / "study.yaml"
    download.value.save_as(place)
    return place


def load(page: Page, text: str) -> None:
    page.get_by_label("A study file").set_input_files(
        {"name": "study.yaml", "mimeType": "application/yaml", "buffer": text.encode()}
    )


def read_small_header(page: Page) -> None:
    page.get_by_label("Columns of a CSV file").set_input_files(
        {"name": "people.csv", "mimeType": "text/csv", "buffer": CSV.encode()}
    )
    page.get_by_role("button", name="+ age").click()
    page.get_by_role("button", name="+ sex").click()


def describe_small_study(page: Page) -> None:
    """Ages and sexes, as one would click them together."""
    page.get_by_label("Name of the study").fill("ages & sexes")
    read_small_header(page)
    age, sex = page.locator("#attributes > li").all()
    age.get_by_label("Type").select_option("integer")
    age.get_by_label("From").fill("0")
    age.get_by_label("To", exact=True).fill("9")
    sex.get_by_label("Values").fill("F, M")
    page.get_by_role("button", name="Counts by …").click()
    table = page.locator("#tables > li").first
    for name in ("age", "sex"):
        table.get_by_role("button", name=name, exact=True).click()
    page.get_by_role("button", name="Ranges", exact=True).click()


def test_a_study_from_a_header_is_exported_and_no_record_leaves_the_browser(
    builder: Page, tmp_path: Path
):
    sent: list[Request] = []
    builder.on("request", lambda request: sent.append(request))
    describe_small_study(builder)
    planned(builder)
    study = Study.load(exported(builder, tmp_path))
    assert study.name == "ages & sexes"
    assert study.schema.names == ("age", "sex")
    assert [item.queries for item in study.workload.items] == [20, 10]
    sent_to = {request.url for request in sent if not request.url.startswith("blob:")}
    assert {url.rpartition("/builder")[2] for url in sent_to} == {"/figures"}
    bodies = [request.post_data or "" for request in sent]
    assert any("ages & sexes" in body for body in bodies)
    assert not any(SECRET in body or "income" in body for body in bodies)


def test_figures_follow_the_budget_and_the_tables(builder: Page):
    describe_small_study(builder)
    planned(builder)
    assert fact(builder, "Answers") == "30"
    assert fact(builder, "Measured sums") == "20"
    assert fact(builder, "Privacy").startswith("ε = 1")
    before = fact(builder, "Typical error")
    builder.get_by_label("ε", exact=True).fill("0.5")
    expect(builder.locator("#facts")).to_contain_text("ε = 0.5")
    after = fact(builder, "Typical error")
    assert 1.5 < _number(after) / _number(before) < 2.5  # noise is about 1/ε
    builder.get_by_role("button", name="All one-way").click()
    expect(builder.locator("#facts")).to_contain_text("42")
    expect(builder.locator("#items tr")).to_have_count(3)


def test_an_objective_or_targets_say_what_is_made_small(builder: Page):
    describe_small_study(builder)
    planned(builder)
    builder.get_by_label("Make as small as possible").select_option("max")
    words = "largest error of any answer at most"
    expect(builder.locator("#facts")).to_contain_text(words)
    expect(builder.locator("#yaml")).to_contain_text("objective: max")
    builder.get_by_label("Make as small as possible").select_option("total")
    builder.locator("#tables summary").first.click()
    builder.get_by_label("Target").first.fill("3")
    expect(builder.locator("#facts")).to_contain_text("The targets take")
    expect(builder.locator("#facts")).to_contain_text("more than the budget: they are missed")
    expect(builder.locator("#items")).to_contain_text("(target 3)")
    expect(builder.locator("#yaml")).to_contain_text("target: 3")


def test_inputs_noise_and_seals_of_a_round_are_chosen(builder: Page):
    describe_small_study(builder)
    planned(builder)
    yaml = builder.locator("#yaml")
    builder.get_by_label("Inputs are").select_option("sum")
    expect(yaml).to_contain_text("validation: sum")
    builder.get_by_label("Noise for participants").select_option("remove")
    expect(yaml).to_contain_text("excess_noise: remove")
    builder.get_by_label("Parties").select_option("two-servers")  # where none can be removed
    expect(yaml).to_contain_text("threat_model: two-servers")
    expect(yaml).not_to_contain_text("excess_noise")
    expect(builder.get_by_label("Noise for participants")).to_have_count(0)
    builder.get_by_label("Reports are sealed").select_option("x25519")
    expect(yaml).to_contain_text("sealing: x25519")
    builder.get_by_label("Parties").select_option("malicious")
    expect(yaml).to_contain_text("excess_noise: remove")
    expect(yaml).not_to_contain_text("sealing")
    planned(builder)


def _number(words: str) -> float:
    return float(words.replace(",", ""))


def test_mistakes_are_shown_at_their_field(builder: Page):
    describe_small_study(builder)
    planned(builder)
    cases = [
        ("From", "50", "write the smaller first"),
        ("Only records where", "agee > 3", "did you mean 'age'?"),
        ("θ", "1.5", "must be less than 1"),
    ]
    for label, wrong, words in cases:
        for summary in builder.locator("#tables summary").all():
            if summary.evaluate("summary => !summary.parentElement.open"):
                summary.click()
        control = builder.get_by_label(label, exact=True).first
        right = control.input_value()
        control.fill(wrong)
        said = control.locator("xpath=following-sibling::p[contains(@class, 'wrong')]")
        expect(said).to_contain_text(words)
        expect(control).to_have_attribute("aria-invalid", "true")
        expect(builder.get_by_role("button", name="Export study.yaml")).to_be_disabled()
        control.fill(right)
        planned(builder)
        expect(said).to_be_hidden()


@pytest.mark.parametrize("text", ["MANY_KINDS", "OF_PERSONS", "OF_UNITS"])
def test_a_study_file_comes_back_as_it_was(builder: Page, tmp_path: Path, text: str):
    """Also what has no fields of its own: several terms, conditions in groupings."""
    given = globals()[text]
    load(builder, given)
    name = builder.get_by_label("Name of the study")
    expect(name).to_have_value("all kinds")
    name.fill("all other kinds")
    expect(builder.locator("#yaml")).to_contain_text("all other kinds")
    came = Study.load(exported(builder, tmp_path))
    asked = Study.from_text(given.replace("all kinds", "all other kinds"))
    assert came.canonical_bytes() == asked.canonical_bytes()


def add_number_and_date(page: Page) -> None:
    """Beside age and sex, what has bins and what has units."""
    for name, kind in (("hours", "number"), ("day", "date")):
        page.get_by_role("button", name="Add an attribute").click()
        card = page.locator("#attributes > li").last
        card.get_by_label("Attribute", exact=True).fill(name)
        card.get_by_label("Type").select_option(kind)
    page.locator("#attributes > li").nth(2).get_by_label("Edges of the bins").fill("0:40:10")
    page.get_by_label("First day").fill("2024-01-01")
    page.get_by_label("Last day").fill("2024-01-21")


def test_sums_means_quantiles_and_persons_have_forms(builder: Page, tmp_path: Path):
    """Added by a button, edited, put right after a mistake, and removed."""
    for name in ("Sum", "Mean", "Median, quantiles"):
        expect(builder.get_by_role("button", name=name, exact=True)).to_be_disabled()
    describe_small_study(builder)
    add_number_and_date(builder)
    tables = builder.locator("#tables > li")

    builder.get_by_role("button", name="Sum", exact=True).click()
    tables.last.get_by_label("Of", exact=True).select_option("hours")
    tables.last.get_by_label("A bin counts as").select_option("lower")
    tables.last.get_by_role("button", name="sex", exact=True).click()
    builder.get_by_role("button", name="Mean", exact=True).click()
    expect(tables.last.get_by_label("A bin counts as")).to_have_count(0)  # ages are whole numbers
    builder.get_by_role("button", name="Median, quantiles").click()
    card = tables.last
    card.get_by_role("button", name="sex", exact=True).click()
    card.get_by_label("Of", exact=True).select_option("week of day")
    at = card.get_by_label("At", exact=True)
    at.fill("0.5, 1.5")
    said = at.locator("xpath=following-sibling::p[contains(@class, 'wrong')]")
    expect(said).to_contain_text("must be less than 1")
    at.fill("0.5, 0.9")
    planned(builder)
    expect(said).to_be_hidden()
    expect(card.get_by_label("Target")).to_have_count(0)

    builder.get_by_role("button", name="Persons", exact=True).click()
    expect(tables.last).to_contain_text("choose that below")
    expect(builder.locator("#mistake")).to_contain_text("does not say who")
    builder.get_by_label("The release hides").select_option("person")
    builder.get_by_label("Column with the person's id").fill("id")
    builder.get_by_label("Records at a participant").fill("2")
    tables.last.get_by_role("button", name="sex", exact=True).click()
    planned(builder)
    builder.get_by_role("button", name="Rows left out").click()
    expect(builder.locator("#yaml")).to_contain_text("coverage: true")
    tables.last.get_by_role("button", name="Remove").click()
    planned(builder)
    builder.locator("#tables").get_by_role("button", name="Remove").first.click()
    expect(builder.locator("#items tr")).to_have_count(5)
    asked = [item.model_dump(exclude_defaults=True) for item in _exported_items(builder, tmp_path)]
    assert asked == [
        {"name": "cumulative", "ranges": {"of": "age", "kind": "prefix"}},
        {"name": "sum", "sum": {"of": "hours", "by": ["sex"], "representative": "lower"}},
        {"name": "mean", "mean": {"of": "age"}},
        {"name": "quantiles", "quantiles": {"of": "week of day", "at": [0.5, 0.9], "by": ["sex"]}},
        {"name": "persons", "persons": {"by": ["sex"]}},
    ]


def _exported_items(page: Page, folder: Path) -> list[ItemModel]:
    return Study.load(exported(page, folder)).model.workload


def test_quantiles_are_not_broken_down_by_what_they_are_of(builder: Page):
    describe_small_study(builder)
    builder.get_by_role("button", name="Median, quantiles").click()
    card = builder.locator("#tables > li").last
    expect(card.get_by_role("button", name="age", exact=True)).to_have_count(0)
    builder.locator("summary", has_text="Groupings").click()
    builder.get_by_role("button", name="Add a grouping").click()
    builder.get_by_label("Edges", exact=True).fill("0, 5, 10")
    card.get_by_role("button", name="groups", exact=True).click()
    said = card.locator(".wrong:visible")
    expect(said).to_contain_text("of the same attribute")
    card.get_by_role("button", name="groups", exact=True).click()
    planned(builder)
    card.get_by_label("Of", exact=True).select_option("groups")
    expect(builder.locator("#yaml")).to_contain_text("of: groups")


def test_a_study_is_read_together_with_the_tables_that_it_names(builder: Page, tmp_path: Path):
    files = [EMERGENCY / "study.yaml", EMERGENCY / "places.csv"]
    builder.get_by_label("A study file").set_input_files(files[:1])
    expect(builder.locator("#mistake")).to_contain_text("'places.csv' is beside the study")
    builder.get_by_label("A study file").set_input_files(files)
    name = builder.get_by_label("Name of the study")
    expect(name).to_have_value("emergency visits of a quarter")
    planned(builder)
    came = Study.load(exported(builder, tmp_path))
    assert came.canonical_bytes() == Study.load(files[0]).canonical_bytes()


OF_UNITS = """
study: all kinds
schema:
  sex: {type: category, values: [Female, Male]}
  day: {type: date, range: [2024-01-01, 2024-01-21]}
  age: {type: integer, range: [0, 3]}
workload:
  - {name: median week, quantiles: {of: week of day, at: [0.5], by: [sex]}, with_totals: [sex]}
  - {name: weekdays, sum: {of: age, by: [weekday of day, age]}, where: "age > 1"}
  - {name: up to a week, ranges: {of: week of day, kind: prefix}, by: [sex]}
  - {name: in SQL, sql: "SELECT sex, COUNT(*), MEDIAN(age) FROM data GROUP BY sex"}
extra_measurements: true
privacy: {unit: record, rho: 0.05, corrupt_fraction: 0.1}
aggregation: {participants: 40, max_records_per_participant: 5000, excess_noise: remove}
"""
OF_PERSONS = """
study: all kinds
schema: {sex: {type: category, values: [Female, Male]}}
workload:
  - {name: different persons, persons: {by: [sex]}, where: "sex = 'Male'"}
  - {name: all persons, persons: {}}
  - {name: rows, coverage: true}
privacy:
  unit: {person: {column: id, max_records: 3, max_participants: 2}}
  rho: 0.05
  corrupt_fraction: 0.1
aggregation:
  threat_model: two-servers
  participants: 40
  max_records_per_participant: 5000
  validation: bounded
  sealing: x25519
"""
MANY_KINDS = """
study: all kinds
schema:
  age: {type: integer, range: [0, 9], missing: true}
  sex: {type: category, values: {0: Female, 1: "Male, or else", 2: 'so: "quoted"'}}
  zip: {type: category, values: ["01", "2", plain, "true", "a, b"], missing: "12: not known"}
  hours: {type: number, edges: "0:100:25"}
  day: {type: date, range: [2024-01-01, 2024-01-21], format: "%d.%m.%Y"}
  hour: {type: datetime, range: [2024-01-01T00, 2024-01-01T03]}
  cost: {type: measure, range: [-5, 20], step: 2.5, missing: true}
groupings:
  place:
    of: zip
    levels: [county]
    mapping: {"01": [A], "2": [A], plain: [B], "true": [B], "a, b": [C]}
  weeks: {of: day, by: week}
  two parts: {of: day, edges: [2024-01-01, 2024-01-11, 2024-01-22]}
  halves: {of: age, edges: [0, 5, 10]}
  odd: {of: age, sets: [{label: odd, where: "age % 2 = 1"}, {label: even, rest: true}]}
  some: {of: zip, sets: [{label: "a: few", values: ["01", "a, b"]}, {label: others, rest: true}]}
workload:
  - {name: pairs, marginals: {ways: 2}}
  - {name: weeks, ranges: {of: weeks, kind: prefix}}
  - {name: counties, by: [county]}
  - {name: costs, sum: {of: cost, by: [sex]}, with_totals: [sex]}
  - {name: mean cost, mean: {of: cost}}
  - {name: upper hours, mean: {of: hours, representative: upper, by: [sex]}}
  - {name: median age, quantiles: {of: age, at: [0.5, 0.9], by: [sex]}}
  - {name: listed, marginals: {of: [[age, sex], [zip]]}}
  - {name: banded, by: [sex, halves], with_totals: [sex], where: "hours >= 25", weight: 2}
  - {name: windows, ranges: {of: age, kind: width, width: 3}, by: [sex]}
  - {name: several, terms: [{by: [some]}, {by: [zip], where: "age > 3"}, {total: true}]}
  - {name: asked, sql: "SELECT zip, COUNT(*) FROM data WHERE age >= 5 GROUP BY zip"}
  - {name: everybody, total: true}
objective: per-table
privacy:
  unit: {person: {column: id, max_records: 3, max_participants: 2}}
  rho: 0.05
  corrupt_fraction: 0.1
  relation: replace
aggregation: {threat_model: semi-honest, participants: 40, max_records_per_participant: 5000}
"""
QUICK_KINDS = MANY_KINDS.replace("  relation: replace\n", "").replace("ways: 2", "ways: 1")
"""As many fields, and planned in a twentieth of the time."""


def test_hostile_names_stay_text(builder: Page):
    name = '<img src=x onerror="document.title=1">'
    load(builder, json.dumps(_tiny(name)))
    planned(builder)
    expect(builder.locator("#items")).to_contain_text(name)
    expect(builder.get_by_role("button", name=name, exact=True).first).to_be_visible()
    assert builder.locator("main img").count() == 0
    assert builder.title() == "Build a study"


def _tiny(name: str) -> dict[str, object]:
    return {
        "study": name,
        "schema": {name: {"type": "category", "values": ["a", "b"]}},
        "workload": [{"name": name, "by": [name]}],
        "privacy": {"unit": "record", "rho": 0.1, "corrupt_fraction": 0.0},
        "aggregation": {"participants": 10, "max_records_per_participant": 10},
    }


def test_all_of_it_fits_and_export_stays_in_view_at_any_size(builder: Page):
    load(builder, QUICK_KINDS)
    planned(builder)
    export = builder.get_by_role("button", name="Export study.yaml")
    for width, tall in ((1280, 700), (375, 667), (360, 700)):
        builder.set_viewport_size({"width": width, "height": tall})
        assert builder.evaluate("document.documentElement.scrollWidth") <= width
        height = builder.evaluate("document.documentElement.scrollHeight")
        assert height > 2 * tall
        for share in (0, 0.3, 0.6, 0.9):
            builder.evaluate("y => scrollTo(0, y)", share * height)
            expect(export).to_be_in_viewport(ratio=1)
    builder.locator("#summary").click()
    expect(builder.get_by_role("heading", name="What it would give")).to_be_in_viewport()


def test_from_a_click_to_a_release(
    builder: Page, coordinator: Listening, tmp_path: Path, forked_dhdmm: Path
):
    """Build a study, start a round with real participants, watch it, read it, download it."""
    describe_small_study(builder)
    builder.get_by_label("At least", exact=True).fill("4")
    builder.get_by_label("At most", exact=True).fill("4")
    builder.get_by_label("Parties").select_option("semi-honest")
    planned(builder)
    builder.get_by_text("Start a round with this study").click()
    builder.get_by_label("enrolment tokens to make").fill("4")
    builder.get_by_role("button", name="Start a round").click()
    tokens = builder.get_by_label("Enrolment tokens: one").input_value()
    tables = [tmp_path / f"table {number}.csv" for number in range(4)]
    for number, table in enumerate(tables):
        table.write_text("age,sex\n" + f"{number},F\n{number + 4},M\n" * 20)

    builder.get_by_role("link", name="Watch the round").click()
    expect(builder.locator("[data-state]")).to_have_attribute("data-state", "enrolling")
    with joining(forked_dhdmm, coordinator.address, tmp_path, tables, tokens.split(), "--yes"):
        expect(builder.locator("[data-state]")).to_have_attribute("data-state", "finished")
    builder.get_by_role("link", name="Read the release").click()
    expect(builder.locator("h1")).to_contain_text("ages & sexes")
    expect(builder.locator("main")).to_contain_text("4 of 4 participants")
    with builder.expect_download() as download:
        builder.get_by_role("link", name="CSV").first.click()
    lines = Path(download.value.path()).read_text().splitlines()
    assert len(lines) == 1 + 20
    (saved,) = coordinator.hub.out.iterdir()
    release = Release.load(saved)
    assert release.survivors == 4
