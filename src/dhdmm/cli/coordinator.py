"""What the commands of a participant have in common: where things are, and whom to speak with."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dhdmm.errors import DhdmmError, RoundAborted

if TYPE_CHECKING:
    from dhdmm.secagg.keys import Identity
    from dhdmm.service.client import CoordinatorClient, Status
    from dhdmm.service.home import Home

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
OperatorToken = Annotated[
    str | None, typer.Option(envvar="DHDMM_OPERATOR_TOKEN", help="As the coordinator said.")
]
OperatorTokenFile = Annotated[
    Path | None, typer.Option(help="The coordinator's --operator-token-file.")
]
Yes = Annotated[
    bool, typer.Option("--yes", help="Consent without asking to what your policy allows.")
]


def home(state: Path | None) -> Home:
    """The participant's folder: one a person, so that there is one ledger wherever one stands."""
    from dhdmm.service.home import Home

    if state is not None:
        return Home(state)
    states = os.environ.get("XDG_STATE_HOME")
    return Home((Path(states) if states else Path.home() / ".local" / "state") / "dhdmm")


def require_service() -> None:
    """What speaks with a network is not part of the smallest installation."""
    try:
        import httpx  # noqa: F401
        import starlette  # noqa: F401
    except ImportError as error:
        raise DhdmmError(
            f"the package '{error.name}' is missing", hint="pip install 'dhdmm[service]'"
        ) from None


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
    require_service()
    from dhdmm.service.client import CoordinatorClient
    from dhdmm.service.trust import Address, parse_digest, trusting

    for name, secret in (("enrolment", token), ("operator's", operator)):
        if secret is not None and not (secret.isascii() and secret.isprintable()):
            raise DhdmmError(f"the {name} token has characters that no token has")
    pinned = None if pin is None else parse_digest(pin, "the SHA-256 of a certificate")
    address, trust = Address.parse(url), trusting(authority, pinned)
    return CoordinatorClient(address, trust, identity, token=token, operator=operator)


def identity_at(home: Home, path: Path | None) -> Identity | None:
    """The identity in the file given, or the one that is kept at home, if there is one."""
    from dhdmm.service import identity as identities

    if path is None and not home.identity.exists():
        return None
    return identities.load(path or home.identity).identity


def operator_token(given: str | None, path: Path | None) -> str | None:
    """What the operator's requests carry, from the file if there is one."""
    if path is None:
        return given
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError as error:
        raise DhdmmError(error.strerror or str(error), where=str(path)) from None


def the_round(client: CoordinatorClient, url: str, wanted: str | None) -> Status:
    """The round that was named, or the only one; of several, the only one that is going on."""
    from dhdmm.service.trust import Address

    named = wanted or (Address.parse(url).round_id or b"").hex()
    rounds = client.rounds()
    found = [status for status in rounds if not named or status.round == named]
    candidates = [status for status in found if not status.over] or found
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise RoundAborted("the coordinator has no such round", where=url)
    listed = ", ".join(f"{status.round} ({status.state})" for status in candidates[:10])
    raise DhdmmError("the coordinator has several rounds", where=url, hint=f"--round: {listed}")


def note(words: str) -> None:
    """A line for whoever watches, beside what the command prints."""
    print(words, file=sys.stderr, flush=True)
