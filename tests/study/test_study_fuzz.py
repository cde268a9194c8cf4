"""Malformed study files: whatever is in them, a `StudyError` that says where, or a valid study."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dhdmm.errors import StudyError
from dhdmm.study import document
from dhdmm.study.skeleton import example
from dhdmm.study.spec import Study
from tests.amounts import examples

TEXT = example()
VALUES, _ = document.parse(TEXT, "study.yaml")
SNIPPETS = [
    "{",
    "}",
    "[",
    "]",
    ":",
    "- ",
    "*a",
    "&a ",
    "!!x ",
    "\t",
    "\n",
    '"',
    "'",
    "#",
    "%",
    "\x00",
]
SNIPPETS += ["---\n", "? ", "| ", "0:1:0", "1e999", "-", ".nan", "é", "\ud800", "9" * 400, "null"]

fuzzed = settings(max_examples=examples(30, 1000), deadline=None, derandomize=True)


def load(text):
    """A study, or an error that names its place."""
    try:
        outcome = Study.from_text(text, "study.yaml").workload
    except StudyError as error:
        outcome = error
    if isinstance(outcome, StudyError):
        assert outcome.what
        assert (outcome.where or "").startswith("study.yaml")
    else:
        assert outcome.queries > 0


def nodes(value, path=()):
    """Every position in nested lists and mappings."""
    yield path
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from nodes(value[key], (*path, key))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.sampled_from(
        ["age", "sex", "hours >= 35", "0:100:5", "", "record", "all", "total", "age >"]
    ),
    st.text(max_size=8),
)
junk = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["of", "by", "label", "values", "where", "type", "x"]),
            inner,
            max_size=3,
        ),
    ),
    max_leaves=6,
)


@pytest.mark.slow
@fuzzed
@given(st.sampled_from([path for path in nodes(VALUES) if path]), junk)
def test_any_value_in_any_place_is_understood_or_refused_with_its_place(path, value):
    values = copy.deepcopy(VALUES)
    parent = values
    for key in path[:-1]:
        parent = parent[key]
    parent[path[-1]] = value
    load(document.write(values))


@pytest.mark.slow
@fuzzed
@given(st.integers(0, len(TEXT)), st.integers(0, 12), st.sampled_from(SNIPPETS))
def test_any_slip_of_the_pen_is_understood_or_refused_with_its_place(at, removed, inserted):
    load(TEXT[:at] + inserted + TEXT[at + removed :])


@fuzzed
@given(st.text(max_size=60) | st.lists(st.sampled_from(SNIPPETS), max_size=20).map("".join))
def test_any_text_is_refused_with_its_place(text):
    load(text)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"study: \xff\n", "study.yaml:1: the file is not UTF-8 text"),
        (b"a: b\n\xe9: c\n", "study.yaml:2: the file is not UTF-8 text"),
        (b"#" * (256 * 1024 + 1), "study.yaml: the file is larger than 256 KiB"),
        (b"", "study.yaml: the file is empty"),
        (b"- 1\n", "study.yaml:1: a study file is a mapping (begin with 'study: some-name')"),
        (
            b"a: &a [x]\nb: [*a, *a]\n",
            "study.yaml:1: a: anchors and aliases (& and *) are not allowed (write it out)",
        ),
        (b"[" * 5000, "study.yaml:1: " + "[0]" * 12 + ": nested deeper than 12 levels"),
    ],
)
def test_hostile_files_are_refused(tmp_path, raw, message):
    path = tmp_path / "study.yaml"
    path.write_bytes(raw)
    with pytest.raises(StudyError) as caught:
        Study.load(path)
    assert str(caught.value) == message


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StudyError, match=r"nowhere\.yaml: cannot read the file: No such file"):
        Study.load(tmp_path / "nowhere.yaml")
