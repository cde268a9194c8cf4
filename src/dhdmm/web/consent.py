"""`dhdmm review` as a page on the participant's own machine: what is asked, its cost, yes or no.

Nothing else is served, and no record is here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import Route

from dhdmm.client.consent import words
from dhdmm.errors import DhdmmError, Refused
from dhdmm.web.local import served_here
from dhdmm.web.site import environment, static_file

LINGER_SECONDS = 5.0
"""How long the page stays after the end, for the browser to hear of it."""
SETTLE_SECONDS = 0.5
"""And then for what belongs to the page."""

Endpoint = Callable[[Request], Awaitable[Response]]
Document = dict[str, Any]


@dataclass(eq=False)
class ConsentPage:
    """One review, one decision, and then the course of the round."""

    document: Document
    consented: bool
    _decided: threading.Event = field(default_factory=threading.Event)
    _agreed: bool = False
    _said: list[str] = field(default_factory=list)
    _ending: Document | None = None
    _seen: threading.Event = field(default_factory=threading.Event)

    # What the command does with it

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address to open, once; the page is gone when the block ends."""
        with served_here(self.application()) as address:
            try:
                yield address
            except DhdmmError as error:
                self.end({"ending": "refused", "reason": error.what, "hint": error.hint})
                raise
            finally:
                if self._ending is not None:
                    self._seen.wait(LINGER_SECONDS)
                    time.sleep(SETTLE_SECONDS)

    def agree(self) -> None:
        """What `--yes` says before anybody is asked."""
        self._decide(True)

    def require_consent(self) -> None:
        """Returns when somebody clicked yes; raises when it was no."""
        self._decided.wait()
        if not self._agreed:
            raise Refused("you refused on the page", hint="nothing was sent, nothing is spent")

    def watch(self, words: str) -> None:
        """What happens in the round; the same words again change nothing."""
        if words not in self._said[-1:]:
            self._said.append(words)

    def end(self, ending: Document) -> None:
        """How it ended, as `dhdmm join --json` prints it."""
        self._ending = ending

    # What the browser sees

    def application(self) -> Starlette:
        routes = [
            Route("/", self._page, methods=["GET"]),
            Route("/progress", self._progress, methods=["GET"]),
            Route("/consent", self._decision(True), methods=["POST"]),
            Route("/refuse", self._decision(False), methods=["POST"]),
            Route("/static/{name}", static_file, methods=["GET"]),
        ]
        return Starlette(routes=routes)

    async def _page(self, _request: Request) -> Response:
        state, template = self._state(), environment().get_template("consent.html")
        shown = self.document | {"consented": self.consented, "words": words(self.document)}
        text = template.render(shown, progress=state)
        if state["state"] in ("over", "declined"):
            self._seen.set()
        return HTMLResponse(text)

    async def _progress(self, _request: Request) -> Response:
        return JSONResponse(self._state())

    def _decision(self, yes: bool) -> Endpoint:
        async def decide(_request: Request) -> Response:
            if yes and self.document["left_after"] < 0:
                return PlainTextResponse("The budget does not suffice.", 409)
            self._decide(yes)
            return RedirectResponse("/", 303)

        return decide

    def _decide(self, yes: bool) -> None:
        """The first decision counts."""
        if not self._decided.is_set():
            self._agreed = yes
            self._decided.set()

    def _state(self) -> Document:
        if not self._decided.is_set():
            state = "asking"
        elif not self._agreed:
            state = "declined"
        else:
            state = "running" if self._ending is None else "over"
        return {"state": state, "said": list(self._said), "ending": self._ending}
