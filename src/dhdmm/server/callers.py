"""Who is asking: found out from a request's header, before a byte of its body is read.

    member      has a seat in a round: its key is on the roster or enrolled, its signature holds
    invited     holds an enrolment token of a round
    operator    has the operator's token, or has signed in to the pages with it
    stranger    everybody else

A round is read by its members, by those who are invited to it and by the operator, and by
everybody if the coordinator is public. What names people, its roster and the transcript with the
roster in it, is for members and the operator alone. To all others the answer is the same whether
there is such a round or not.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from dhdmm.network import signing
from dhdmm.network.problems import Problem, Reason
from dhdmm.server.asgi import Scope, headers_of
from dhdmm.server.members import NONE, Members, Rounds
from dhdmm.server.round_state import Seats
from dhdmm.server.studies import Hub

CALLER = "dhdmm.caller"
"""Where a request's scope keeps who is asking, once that is known."""
SEATED = "dhdmm.seated"
"""Where it keeps the round, its seats and the caller's position, once they are known."""
BEARER = "Bearer "
_PATH = re.compile(r"/v1/rounds/([0-9a-f]{32})(/message)?(?:/|$)")
_HINT = "sign with an identity of the round (--state, --identity), or give its token (--token)"


@dataclass(frozen=True)
class Caller:
    """Who is asking. A stranger has no name."""

    name: str | None = None
    """What its requests are counted under."""
    key: bytes | None = None
    """A member's, verified."""
    rounds: Rounds = NONE
    """Those it may read as a member or as invited."""
    operator: bool = False

    @property
    def is_stranger(self) -> bool:
        return self.name is None


STRANGER = Caller()


class Callers:
    """Tells who is asking, and refuses those who may not."""

    def __init__(
        self,
        hub: Hub,
        operator_token: str,
        *,
        public: bool = False,
        signed_in: Callable[[Scope], bool] = lambda _scope: False,
    ) -> None:
        self._hub, self._token = hub, operator_token.encode()
        self._public, self._signed_in = public, signed_in
        self.members = Members(hub.database)

    # What the guard asks before it reads a body

    async def admit(self, scope: Scope) -> tuple[str | None, int | None]:
        """The caller's name, and how long its body may be where that is known.

        A `Problem` for credentials that do not hold, and for a message that no round expects.
        """
        caller = await self.caller(scope)
        path = _PATH.match(scope["path"])
        if path is None or path[2] is None or scope["method"] != "POST":
            return caller.name, None
        return caller.name, (await self.seated(scope, path[1]))[0].largest_message

    # What the routes ask

    async def caller(self, scope: Scope) -> Caller:
        """Who is asking; a `Problem` for credentials that do not hold."""
        if CALLER not in scope:
            scope[CALLER] = await self._recognised(scope)
        found: Caller = scope[CALLER]
        return found

    async def reader(self, scope: Scope, round_id: str, *, names: bool = False) -> Caller:
        """Whoever may read this round; with `names`, also who takes part in it."""
        caller = await self.caller(scope)
        inside = round_id in caller.rounds and (caller.key is not None or not names)
        if caller.operator or inside or (self._public and not names):
            return caller
        raise _refusal(scope)

    async def readable(self, scope: Scope) -> Callable[[str], bool]:
        """Which rounds may be listed for whoever is asking."""
        caller = await self.caller(scope)
        if caller.operator or self._public:
            return lambda _round_id: True
        if caller.is_stranger:
            raise _refusal(scope)
        return lambda round_id: round_id in caller.rounds

    async def require_operator(self, scope: Scope) -> None:
        if not (await self.caller(scope)).operator:
            raise Problem(403, Reason.NOT_THE_OPERATOR, "this is for the operator")

    async def seated(self, scope: Scope, round_id: str) -> tuple[Seats, int]:
        """The seats of a round that has begun, and where the caller sits."""
        if SEATED not in scope:
            scope[SEATED] = round_id, await self._seated(scope, round_id)
        asked, found = scope[SEATED]
        assert asked == round_id, "a request is about one round"
        seats, position = found
        return seats, position

    async def _seated(self, scope: Scope, round_id: str) -> tuple[Seats, int]:
        caller = await self.caller(scope)
        if caller.key is None or round_id not in caller.rounds:
            raise _refusal(scope)
        live = await self._hub.live(round_id)
        if live.seats is None:
            if live.over:
                raise Problem(410, Reason.OVER, "the round was aborted before it began")
            raise Problem(409, Reason.NOT_YET, "enrolment is still open")
        position = live.seats.roster.position_of(caller.key)
        if position is None:
            raise _refusal(scope)
        return live.seats, position

    # From a header to a caller

    async def _recognised(self, scope: Scope) -> Caller:
        headers = headers_of(scope)
        path = _PATH.match(scope["path"])
        round_id = path[1] if path else None
        given = headers.get("authorization", "")
        if given.startswith(BEARER):
            return self._operator(given.removeprefix(BEARER))
        if signing.KEY_HEADER in headers:
            key = signing.claimed_key(headers)
            rounds = await self.members.rounds_of(key, round_id)
            if rounds:
                signing.require_signature(key, headers, scope["method"], target(scope))
                return Caller(f"key {key.hex()}", key, rounds)
        if signing.TOKEN_HEADER in headers:
            return await self._invited(headers[signing.TOKEN_HEADER])
        if scope["method"] == "GET" and self._signed_in(scope):
            return Caller("operator", operator=True)
        return STRANGER

    def _operator(self, token: str) -> Caller:
        if not hmac.compare_digest(token.encode("latin-1"), self._token):
            raise Problem(403, Reason.NOT_THE_OPERATOR, "this is for the operator")
        return Caller("operator", operator=True)

    async def _invited(self, token: str) -> Caller:
        round_id = await self.members.round_of(token)
        if round_id is None:
            raise Problem(
                401,
                Reason.BAD_TOKEN,
                "the token is unknown, or has expired",
                hint="ask for another one",
            )
        digest = sha256(token.encode()).hexdigest()
        return Caller(f"token {digest}", rounds=frozenset([round_id]))


def target(scope: Scope) -> str:
    """Path and query as they were sent."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    query: bytes = scope["query_string"]
    return (path + b"?" + query if query else path).decode("latin-1")


def _refusal(scope: Scope) -> Problem:
    """The same for every round, be it there or not."""
    if signing.KEY_HEADER in headers_of(scope):
        return Problem(
            401, Reason.UNKNOWN_IDENTITY, "the key is not on the round's roster", hint=_HINT
        )
    return Problem(401, Reason.UNSIGNED, "this is for those who take part", hint=_HINT)
