"""Random small studies as plain values: what a user could have written in YAML."""

from hypothesis import strategies as st

from dhdmm.study.names import column, literal

NAMES = ["age", "order", "income>50K", 'so "called"', "Größe", "a b", "x'y", "Case"]
TEXTS = [
    "yes",
    "no",
    "1",
    "01",
    "null",
    "it's",
    "a, b",
    "",
    "NaN",
    "Ünï",
    "--",
    "{x}",
    "1e3",
    " lead",
]


@st.composite
def attributes(draw):
    missing = draw(st.sampled_from([{}, {"missing": True}, {"missing": "not known"}]))
    return draw(types_of_attributes()) | missing


@st.composite
def types_of_attributes(draw):
    kinds = ["integer", "texts", "numbers", "truth", "labelled", "bins", "date", "datetime"]
    kind = draw(st.sampled_from(kinds))
    size = draw(st.integers(1, 4))
    if kind == "date":
        return {"type": "date", "range": ["2023-12-30", f"2024-01-0{size}"]}
    if kind == "datetime":
        return {"type": "datetime", "range": ["2023-12-31T22", f"2024-01-01T0{size}"]}
    if kind == "integer":
        low = draw(st.integers(-3, 3))
        return {"type": "integer", "range": [low, low + size]}
    if kind == "bins":
        steps = draw(st.lists(st.sampled_from([0.1, 0.5, 1, 2.25]), min_size=1, max_size=4))
        edges = [draw(st.sampled_from([-1, 0, 0.3]))]
        for step in steps:
            edges.append(edges[-1] + step)
        return {"type": "number", "edges": draw(st.sampled_from([edges, "0:3:1", "-1:0.5:0.5"]))}
    pools = {"texts": TEXTS, "truth": [True, False]}
    pool = st.sampled_from(pools.get(kind, [-2, 0, 1, 5, 70]))
    values = draw(st.lists(pool, min_size=1, max_size=size, unique=True))
    if kind == "labelled":
        return {"type": "category", "values": {v: f"label {v}" for v in values}}
    return {"type": "category", "values": values}


@st.composite
def measured_columns(draw):
    missing = draw(st.sampled_from([{}, {"missing": True}]))
    spans = st.sampled_from([([0, 3], 1), ([-2, 2], 0.5), ([-5, -1], 2), ([0.25, 1], 0.25)])
    span, step = draw(spans)
    return {"type": "measure", "range": span, "step": step} | missing


def domain(attribute):
    """The values that a condition may name."""
    if attribute["type"] == "integer":
        return list(range(attribute["range"][0], attribute["range"][1] + 1))
    if attribute["type"] == "number":
        edges = attribute["edges"]
        return {"0:3:1": [0, 1, 2, 3], "-1:0.5:0.5": [-1, -0.5, 0, 0.5]}.get(str(edges), edges)
    if attribute["type"] == "date":
        return [f"2023-12-{day}" for day in (30, 31)] + ["2024-01-01"]
    if attribute["type"] == "datetime":
        return ["2023-12-31T22", "2023-12-31T23", "2024-01-01T00", "2024-01-01T01"]
    return list(attribute["values"])


@st.composite
def simple_conditions(draw, name, attribute):
    values, sql = domain(attribute), column(name)
    if "missing" in attribute and draw(st.integers(0, 3)) == 0:
        return f"{sql} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
    value = draw(st.sampled_from(values))
    if attribute["type"] in ("date", "datetime"):
        return draw(conditions_on_dates(sql, attribute["type"], value))
    if attribute["type"] == "number":
        edge = draw(st.sampled_from(values[:-1]))  # `< last edge` would cut the closed last bin
        return f"{sql} {draw(st.sampled_from(['<', '>=']))} {edge}"
    if attribute["type"] == "category":
        chosen = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        listed = ", ".join(literal(entry) for entry in chosen)
        equal = f"{sql} {draw(st.sampled_from(['=', '<>']))} {literal(value)}"
        return draw(st.sampled_from([equal, f"{sql} IN ({listed})"]))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    between = f"{sql} BETWEEN {value} AND {value + 1}"
    return draw(st.sampled_from([f"{sql} {operator} {value}", between]))


def conditions_on_dates(sql, kind, value):
    if kind == "datetime":
        moment = f"TIMESTAMP '{value.replace('T', ' ')}:00'"
        compared = [f"{sql} < {moment}", f"{sql} >= {moment}", f"EXTRACT(hour FROM {sql}) > 22"]
    else:
        moment = f"DATE '{value}'"
        compared = [f"{sql} {operator} {moment}" for operator in ("=", "<>", "<", "<=", ">")]
        compared += [f"{sql} BETWEEN '{value}' AND DATE '2024-01-01'", f"{sql} IN ('{value}')"]
    compared += [f"DATE_TRUNC('week', {sql}) >= DATE '2024-01-01'", f"month({sql}) = 12"]
    return st.sampled_from([*compared, f"EXTRACT(isodow FROM {sql}) IN (6, 7)"])


def conditions(schema):
    """Conditions over any attributes, coupled or not."""
    simple = st.one_of([simple_conditions(name, entry) for name, entry in schema.items()])
    joined = st.tuples(simple, st.sampled_from(["AND", "OR"]), simple).map(" ".join)
    negated = joined.map(lambda text: f"NOT ({text})")
    return st.one_of(simple, joined, negated)


@st.composite
def groupings(draw, schema):
    name = draw(st.sampled_from(list(schema)))
    attribute = schema[name]
    values = domain(attribute)
    dated = attribute["type"] in ("date", "datetime")
    if dated and draw(st.booleans()):
        return {"of": name, "by": draw(st.sampled_from(["week", "year", "weekday", "quarter"]))}
    if attribute["type"] != "category" and draw(st.booleans()):
        last = [values[-1] + 1] if attribute["type"] == "integer" else []
        pool = [*values, *last]
        edges = draw(st.lists(st.sampled_from(pool), min_size=2, max_size=4, unique=True))
        return {"of": name, "edges": sorted(edges)}
    sets = []
    for i in range(draw(st.integers(1, 3))):
        some = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
        condition = draw(simple_conditions(name, attribute))
        by_values = {"label": f"set {i}", "values": some}
        by_condition = {"label": f"set {i}", "where": condition}
        only = attribute["type"] in ("number", "datetime")
        options = [by_condition] if only else [by_values, by_condition]
        sets.append(draw(st.sampled_from(options)))
    if draw(st.booleans()):
        sets.insert(draw(st.integers(0, len(sets))), {"label": "others", "rest": True})
    if attribute["type"] == "integer" and draw(st.booleans()):
        sets.append(
            {"each": sorted(draw(st.lists(st.sampled_from(values), min_size=2, max_size=2)))}
        )
    return {"of": name, "sets": sets}


@st.composite
def breakdowns(draw, schema, groups):
    """`by` with at most one entry an attribute, and some of it with totals."""
    chosen = draw(st.lists(st.sampled_from(list(schema)), min_size=1, unique=True))
    by = []
    for name in chosen:
        own = [name, *(group for group, entry in groups.items() if entry["of"] == name)]
        by.append(draw(st.sampled_from(own)))
    totals = draw(st.lists(st.sampled_from(by), unique=True))
    return {"by": by} | ({"with_totals": totals} if totals else {})


@st.composite
def items(draw, schema, groups, measures, name):
    where = {"where": draw(conditions(schema))} if draw(st.booleans()) else {}
    weight = {"weight": 2.5} if draw(st.booleans()) else {}
    kind = draw(st.sampled_from(["by", "marginals", "ranges", "terms", "sql", "sum", "mean"]))
    numeric = [a for a in schema if schema[a]["type"] in ("integer", "number")] + list(measures)
    if kind in ("sum", "mean") and numeric:
        by = draw(breakdowns(schema, groups)) if draw(st.booleans()) else {}
        asked = {"of": draw(st.sampled_from(numeric))} | ({"by": by.pop("by")} if by else {})
        return {"name": name, kind: asked} | by | where | weight
    if kind == "marginals":
        ways = draw(st.integers(1, len(schema)))
        return {"name": name, "marginals": {"ways": ways}} | where | weight
    if kind == "sql":
        columns = ", ".join(column(entry) for entry in draw(breakdowns(schema, groups))["by"])
        form = draw(st.sampled_from(["{}", "CUBE ({})", "ROLLUP ({})", "GROUPING SETS (({}), ())"]))
        condition = f"WHERE {where['where']}" if where else ""
        sums = "".join(f", SUM({column(of)})" for of in measures)
        text = f"SELECT COUNT(*){sums} FROM data {condition} GROUP BY {form.format(columns)}"
        return {"name": name, "sql": text} | weight
    if kind == "terms":
        terms = draw(st.lists(breakdowns(schema, groups), min_size=1, max_size=2))
        inner = {"where": draw(conditions(schema))} if draw(st.booleans()) else {}
        return {
            "name": name,
            "terms": [*terms, {"total": True} | inner],
        } | where
    ordered = [a for a in schema if schema[a]["type"] != "category"]
    if kind == "ranges" and ordered:
        of = draw(st.sampled_from(ordered))
        forms = [{"kind": "prefix"}, {"kind": "all"}, {"kind": "width", "width": 1}]
        others = {a: schema[a] for a in schema if a != of}
        by = draw(breakdowns(others, groups)) if others and draw(st.booleans()) else {}
        return {"name": name, "ranges": {"of": of} | draw(st.sampled_from(forms))} | by | where
    return {"name": name} | draw(breakdowns(schema, groups)) | where | weight


@st.composite
def studies(draw):
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True))
    schema = {name: draw(attributes()) for name in names}
    groups = {f"group {i}": draw(groupings(schema)) for i in range(draw(st.integers(0, 2)))}
    measures = {} if draw(st.booleans()) else {"cost in €": draw(measured_columns())}
    workload = [
        draw(items(schema, groups, measures, f"item {i}")) for i in range(draw(st.integers(1, 2)))
    ]
    everything = schema | measures
    return {"study": "random", "schema": everything, "groupings": groups, "workload": workload}
