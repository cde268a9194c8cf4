"""A release to read: its tables and pictures, further questions, files, and another one beside."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode
from xml.etree.ElementTree import tostring

import numpy as np
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from dhdmm.errors import DhdmmError, NotMeasured
from dhdmm.network.problems import Problem, Reason
from dhdmm.release.charts.draw import draw, key
from dhdmm.release.charts.svg import NARROW, WIDE
from dhdmm.release.comparison import MEANING
from dhdmm.release.directory import file_stems
from dhdmm.release.frames import plain_rows
from dhdmm.release.panels import panels_of
from dhdmm.release.pictures import Panel
from dhdmm.release.release import Release
from dhdmm.release.tables import Table
from dhdmm.release.wording import moment
from dhdmm.server.limits import Buckets, Rate
from dhdmm.study.describe import describe
from dhdmm.study.names import column
from dhdmm.web.listing import MEDIA, encoded, listing
from dhdmm.web.release_cache import LoadedRelease, ReleaseCache
from dhdmm.web.site import Site, address_of

LONGEST_SQL = 4000
QUESTIONS = Rate(per_second=0.5, burst=20)
"""Of one address: each may take a second of this machine."""
CALLERS = 10_000
MOST_EXAMPLES = 8
COUNTED = "SELECT COUNT(*) FROM data"
COMPARED = ("first", "second", "difference", "standard_error", "z")


def routes(site: Site, cache: ReleaseCache) -> list[Route]:
    pages = _ReleasePages(site, cache)
    base = "/releases/{name}"
    return [
        site.reader_route(base, pages.release),
        site.reader_route(f"{base}/release.json", pages.whole),
        site.reader_route(f"{base}/tables/{{number:int}}", pages.table),
        site.reader_route(f"{base}/tables/{{number:int}}.{{kind}}", pages.file),
        site.reader_route(f"{base}/ask", pages.ask),
        site.reader_route(f"{base}/ask.{{kind}}", pages.answer_file),
        site.reader_route(f"{base}/compare", pages.compare),
    ]


class _ReleasePages:
    def __init__(self, site: Site, cache: ReleaseCache) -> None:
        self._site, self._cache = site, cache
        self._questions = Buckets(QUESTIONS, CALLERS, time.monotonic)

    # -- the release and its tables ---------------------------------------------------------------

    async def release(self, request: Request) -> Response:
        loaded = await self._loaded(request)
        transcript, items = loaded.release.transcript, loaded.release.plan.study.workload.items
        return self._site.page(
            request,
            "release.html",
            **await self._frame(request, loaded),
            tables=[(item, *told) for item, told in zip(items, loaded.written, strict=True)],
            others=await self._cache.source.others(_name(request)),
            place=loaded.place,
            key=None if transcript is None else transcript.key.hex(),
            base_url=str(request.base_url).rstrip("/"),
        )

    async def whole(self, request: Request) -> Response:
        """Everything as JSON: where it comes from, and every table."""
        loaded = await self._loaded(request)
        found = await loaded.tables()

        def work() -> bytes:
            tables = [{"name": table.name, "rows": plain_rows(table.to_arrow())} for table in found]
            document = {"provenance": loaded.release.provenance(), "tables": tables}
            return json.dumps(document, ensure_ascii=False).encode()

        stem = file_stems([loaded.release.plan.study.name])[0]
        return _download(await asyncio.to_thread(work), stem, "json")

    async def table(self, request: Request) -> Response:
        loaded = await self._loaded(request)
        tables = await loaded.tables()
        number, table = _table(request, tables)
        page, chosen = _number(request, "page", 1), _number(request, "chart", 1)

        def work() -> dict[str, Any]:
            panels = panels_of(table)
            place = min(max(chosen, 1), len(panels))
            return {
                "listing": listing(table.to_arrow(), page, request.query_params.get("sort", "")),
                "panels": [panel.name for panel in panels],
                "chosen": place,
                **_drawn(panels[place - 1]),
            }

        return self._site.page(
            request,
            "table.html",
            **await self._frame(request, loaded),
            **await asyncio.to_thread(work),
            table=table,
            number=number,
            tables=len(tables),
            link=_links(request),
        )

    async def file(self, request: Request) -> Response:
        loaded = await self._loaded(request)
        tables = await loaded.tables()
        number, table = _table(request, tables)
        stem = file_stems(one.name for one in tables)[number - 1]
        kind = _kind(request)
        return _download(await asyncio.to_thread(encoded, table.to_arrow(), kind), stem, kind)

    # -- further questions ------------------------------------------------------------------------

    async def ask(self, request: Request) -> Response:
        loaded = await self._loaded(request)
        sql, page = request.query_params.get("sql", "").strip(), _number(request, "page", 1)
        answer: dict[str, Any] = {"table": None, "refused": None}
        if sql:
            try:
                table = await self._answer(request, loaded, sql)
                sort = request.query_params.get("sort", "")
                parts = table.separately()
                answer |= {
                    "table": table,
                    "parts": {name: _part(one, page, sort) for name, one in parts.items()},
                }
            except DhdmmError as refused:
                nearest = refused.nearest if isinstance(refused, NotMeasured) else ()
                answer |= {"refused": refused, "nearest": nearest}
        return self._site.page(
            request,
            "ask.html",
            422 if answer["refused"] else 200,
            **await self._frame(request, loaded),
            **answer,
            sql=sql,
            examples=_examples(await loaded.tables()),
            described=describe(loaded.release.plan.study),
            link=_links(request),
        )

    async def answer_file(self, request: Request) -> Response:
        loaded, kind = await self._loaded(request), _kind(request)
        sql = request.query_params.get("sql", "").strip()
        try:
            table = await self._answer(request, loaded, sql)
        except DhdmmError as refused:
            raise Problem(422, Reason.INVALID, refused.what, hint=refused.hint) from None
        return _download(encoded(table.to_arrow(), kind), "answers", kind)

    async def _answer(self, request: Request, loaded: LoadedRelease, sql: str) -> Table:
        """One question at a time: looking for the nearest answerable one takes a while."""
        caller = address_of(request)
        if wait := self._questions.wait_or_take(caller):
            raise Problem(429, Reason.RATE, "too many questions at once", retry_after=wait)
        if len(sql) > LONGEST_SQL:
            raise DhdmmError(f"a question has at most {LONGEST_SQL:,} characters")
        async with self._site.computing:
            return await asyncio.to_thread(loaded.release.query, sql)

    # -- another release --------------------------------------------------------------------------

    async def compare(self, request: Request) -> Response:
        loaded, second = await self._loaded(request), request.query_params.get("with", "")
        if second not in await self._cache.source.others(_name(request)):
            raise Problem(404, Reason.NOT_FOUND, "there is no such release of this study")
        try:
            async with self._site.computing:
                differences = await self._cache.differences(_name(request), second)
        except DhdmmError as refused:
            raise Problem(422, Reason.INVALID, refused.what, hint=refused.hint) from None
        other = (await self._cache.loaded(second)).release
        number = min(max(_number(request, "table", 1), 1), len(differences))
        shown = differences[number - 1]
        page, sort = _number(request, "page", 1), request.query_params.get("sort", "")
        return self._site.page(
            request,
            "compare.html",
            **await self._frame(request, loaded),
            second=second,
            second_called=_called(other),
            differences=[(one.name, len(one), float(abs(one.z).max())) for one in differences],
            number=number,
            shown=shown.name,
            listing=listing(shown.to_arrow(), page, sort, COMPARED),
            meaning=MEANING,
            link=_links(request),
        )

    # -- what several pages need ------------------------------------------------------------------

    async def _loaded(self, request: Request) -> LoadedRelease:
        return await self._cache.loaded(_name(request))

    async def _frame(self, request: Request, loaded: LoadedRelease) -> dict[str, Any]:
        """What the pages of a release say on top."""
        return {
            "base": f"/releases/{_name(request)}",
            "parents": await self._cache.source.parents(_name(request)),
            "called": _called(loaded.release),
            "study": loaded.release.plan.study.name,
            "facts": loaded.release.provenance(),
            "made": loaded.release.maker.words,
            "rows_counted": loaded.rows_counted,
        }


def _called(release: Release) -> str:
    """Releases of a study differ by when they were made."""
    date = release.maker.date
    return "Release" if date is None else f"Release of {moment(date)}"


def _table(request: Request, tables: list[Table]) -> tuple[int, Table]:
    number: int = request.path_params["number"]
    if not 1 <= number <= len(tables):
        raise Problem(404, Reason.NOT_FOUND, "the release has no such table")
    return number, tables[number - 1]


def _drawn(panel: Panel) -> dict[str, Any]:
    """The chart twice: the style sheet shows the one that fits."""
    name = f"Chart of {panel.title}"
    widths = {"wide": WIDE, "narrow": NARROW}
    drawn = {
        kind: tostring(draw(panel.picture, name, at), "unicode") for kind, at in widths.items()
    }
    return {
        "charts": {kind: Markup(text) for kind, text in drawn.items()},
        "chart_title": panel.title,
        "chart_key": key(panel.picture),
    }


def _part(table: Table, page: int, sort: str) -> dict[str, Any]:
    """One number of an answer: its rows, and a picture if all are there and have errors."""
    drawable = table.chosen is None and bool(np.isfinite(table.standard_errors).all())
    return {
        "listing": listing(table.to_arrow(), page, sort),
        **(_drawn(panels_of(table)[0]) if drawable else {}),
    }


def _examples(tables: list[Table]) -> list[str]:
    """Questions that surely have an answer: what some tables count, as a whole and one by one."""
    found: dict[str, None] = {}
    for table in tables:
        term, first = table.item.terms[0], next(table.queries())[1]
        by = ", ".join(column(one.header) for one in term.axes if one and not one.is_fixed)
        kind = "COUNT(*)"
        if term.sum_of:
            kind = f"{'SUM' if table.is_linear else 'AVG'}({column(term.sum_of)})"
        elif term.mark is not None:
            kind = f"COUNT(DISTINCT {column(term.mark.column)})"
        elif not first.startswith(COUNTED):
            continue
        if by and not term.condition and len(found) < MOST_EXAMPLES:
            found[f"SELECT {by}, {kind} FROM data GROUP BY {by}"] = None
        if not term.sum_of and term.mark is None and len(found) < MOST_EXAMPLES:
            found[first] = None
    return list(found)


def _links(request: Request) -> Callable[..., str]:
    """This page's address with something in its query changed."""

    def link(page: int | None = None, **changes: object) -> str:
        query = dict(request.query_params) | {k: str(v) for k, v in changes.items()}
        query.pop("page", None)
        if page is not None and page > 1:
            query["page"] = str(page)
        return f"{request.url.path}?{urlencode(query)}" if query else request.url.path

    return link


def _name(request: Request) -> str:
    return str(request.path_params["name"])


def _number(request: Request, name: str, otherwise: int) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else otherwise


def _kind(request: Request) -> str:
    kind = str(request.path_params["kind"])
    if kind not in MEDIA:
        raise Problem(404, Reason.NOT_FOUND, "there are CSV, Parquet and JSON files")
    return kind


def _download(data: bytes, stem: str, kind: str) -> Response:
    """Always saved, never shown: a label is no page."""
    headers = {"Content-Disposition": f'attachment; filename="{stem}.{kind}"'}
    return Response(data, media_type=MEDIA[kind], headers=headers)
