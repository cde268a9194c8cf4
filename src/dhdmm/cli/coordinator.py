"""What the commands of a participant have in common: where things are, and whom to speak with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dhdmm.cli import extras
from dhdmm.errors import DhdmmError, RoundAborted

if TYPE_CHECKING:
    from dhdmm.aggregation.identity import Identity
    from dhdmm.client.home import Home
    from dhdmm.client.http import CoordinatorClient
    from dhdmm.network.status import Status

Url = Annotated[
    str, typer.Argument(metavar="URL", help="The coordinator, such as https://host:8443.")
]
RoundOption = Annotated[
    str | None, typer.Option("--round", help="Which round, if the coordinator has several.")
]
StateOption = Annotated[
    Path | None,
    typer.Option(
        "--state",
        envvar="DHDMM_STATE",
        help="Your own folder: identity, policy, ledger, consents, journals.",
    ),
]
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", help="Your limits; by default policy.yaml in --state.")
]
LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", help="Your budget; by default in --state.")
]
AuthorityOption = Annotated[
    Path | None, typer.Option("--ca", help="The authority that signed the coordinator's key.")
]
PinOption = Annotated[
    str | None, typer.Option("--pin", help="SHA-256 of the coordinator's very certificate.")
]
IdentityOption = Annotated[
    Path | None,
    typer.Option("--identity", help="Your identity; by default identity.json in --state."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="DHDMM_TOKEN", help="Where the coordinator enrols by tokens: yours."
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Consent without asking to what your policy allows.")
]
OperatorToken = Annotated[
    str | None,
    typer.Option(
        "--operator-token", envvar="DHDMM_OPERATOR_TOKEN", help="As the coordinator said."
    ),
]
OperatorTokenFile = Annotated[
    Path | None,
    typer.Option("--operator-token-file", help="The coordinator's --operator-token-file."),
]

NOT_FOUND = 404
ROUND_DIGITS = 32
SHOWN = 10


def home(state: Path | None) -> Home:
    """The participant's folder: one a person, so that there is one ledger wherever one stands."""
    from dhdmm.client.home import Home

    if state is not None:
        return Home(state)
    states = os.environ.get("XDG_STATE_HOME")
    return Home((Path(states) if states else Path.home() / ".local" / "state") / "dhdmm")


def connect(
    url: str,
    authority: Path | None,
    pin: str | None,
    identity: Identity | None = None,
    *,
    token: str | None = None,
    operator: str | None = None,
) -> CoordinatorClient:
    """A client that shows the coordinator who is asking, as far as that is given."""
    extras.require("join")
    from dhdmm.client.http import CoordinatorClient
    from dhdmm.network.trust import Address, parse_digest, trusting

    for name, secret in (("enrolment", token), ("operator's", operator)):
        if secret is not None and not (secret.isascii() and secret.isprintable()):
            raise DhdmmError(f"the {name} token has characters that no token has")
    pinned = None if pin is None else parse_digest(pin, "the SHA-256 of a certificate")
    address, trust = Address.parse(url), trusting(authority, pinned)
    return CoordinatorClient(address, trust, identity, token=token, operator=operator)


def identity_at(home: Home, path: Path | None) -> Identity | None:
    """The identity in the file given, or the one that is kept at home, if there is one."""
    from dhdmm.network import identity as identities

    if path is None and not home.identity.exists():
        return None
    return identities.load(path or home.identity).identity


def operator_token(given: str | None, path: Path | None) -> str | None:
    """What the operator's requests carry, from the file if there is one."""
    if path is None:
        return given
    from dhdmm.network.files import read_secret

    return read_secret(path)


def the_round(client: CoordinatorClient, url: str, wanted: str | None) -> Status:
    """The round that was named, or the only one; of several, the only one that is going on."""
    from dhdmm.network.trust import Address

    named = wanted or (Address.parse(url).round_id or b"").hex()
    if named:
        return _named_round(client, url, named)
    candidates = client.rounds(running=True, most=SHOWN) or client.rounds(most=SHOWN)
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise RoundAborted("the coordinator has no round", where=url)
    listed = ", ".join(f"{status.round} ({status.state})" for status in candidates)
    raise DhdmmError("the coordinator has several rounds", where=url, hint=f"--round: {listed}")


def _named_round(client: CoordinatorClient, url: str, named: str) -> Status:
    from dhdmm.client.http import Answered

    try:
        return client.status(parse_round(named))
    except Answered as refusal:
        if refusal.status != NOT_FOUND:
            raise
        raise RoundAborted("the coordinator has no such round", where=url) from None


def parse_round(written: str) -> bytes:
    """A round's identifier as it is listed."""
    try:
        found = bytes.fromhex(written)
    except ValueError:
        found = b""
    if len(written) != ROUND_DIGITS or not found:
        raise DhdmmError(
            f"a round has {ROUND_DIGITS} hexadecimal digits",
            where=written[:80],
            hint="dhdmm status URL lists a coordinator's, dhdmm rounds yours",
        )
    return found


def operator_secret(given: str | None, path: Path | None) -> str:
    """The same where nobody else may ask."""
    secret = operator_token(given, path)
    if secret is None:
        raise DhdmmError(
            "only the operator may do this",
            hint="--operator-token-file FILE, or DHDMM_OPERATOR_TOKEN in the environment",
        )
    return secret


def note(words: str) -> None:
    """A line for whoever watches, beside what the command prints."""
    print(words, file=sys.stderr, flush=True)
