"""Options and helpers of the commands that talk to a coordinator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
    from dhdmm.participant.limits import Policy
    from dhdmm.privacy.ledger import Ledger

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
LedgerOption = Annotated[
    str | None,
    "Your budget: a data set's name or a file. By default that of the data set, or the one in"
    " --state.",
]

NOT_FOUND = 404
ROUND_DIGITS = 32
SHOWN = 10


def home(state: Path | None) -> Home:
    """The participant's folder: one per person, so that there is one ledger in every directory."""
    from dhdmm.client.home import Home
    from dhdmm.participant.data_sets import state_folder

    return Home(state or state_folder())


@dataclass(frozen=True)
class Coordinator:
    """Where a coordinator is, and how to know it."""

    url: Annotated[
        str, typer.Argument(metavar="URL", help="The coordinator, such as https://host:8443.")
    ]
    ca: Annotated[Path | None, "The authority that signed the coordinator's key."] = None
    pin: Annotated[str | None, "SHA-256 of the coordinator's certificate."] = None

    def connect(
        self,
        identity: Identity | None = None,
        *,
        token: str | None = None,
        operator: str | None = None,
    ) -> CoordinatorClient:
        """A client that authenticates with whatever of these is given."""
        extras.require("join")
        from dhdmm.client.http import CoordinatorClient
        from dhdmm.network.trust import Address, parse_digest, trusting

        for name, secret in (("enrolment", token), ("operator's", operator)):
            if secret is not None and not (secret.isascii() and secret.isprintable()):
                raise DhdmmError(f"the {name} token has characters that no token has")
        what = "the SHA-256 of a certificate"
        pinned = None if self.pin is None else parse_digest(self.pin, what)
        address, trust = Address.parse(self.url), trusting(self.ca, pinned)
        return CoordinatorClient(
            address, trust, identity, token=token, operator=operator, watch=note
        )

    def round(self, client: CoordinatorClient, wanted: str | None) -> Status:
        """The round that was named, or the only one; of several, the only one that is going on."""
        from dhdmm.network.trust import Address

        named = wanted or (Address.parse(self.url).round_id or b"").hex()
        if named:
            return self._named_round(client, named)
        candidates = client.rounds(running=True, most=SHOWN) or client.rounds(most=SHOWN)
        if len(candidates) == 1:
            return candidates[0]
        if not candidates:
            raise RoundAborted("the coordinator has no round", where=self.url)
        listed = ", ".join(f"{status.round} ({status.state})" for status in candidates)
        raise DhdmmError(
            "the coordinator has several rounds", where=self.url, hint=f"--round: {listed}"
        )

    def _named_round(self, client: CoordinatorClient, named: str) -> Status:
        from dhdmm.client.http import RequestRefused

        try:
            return client.status(parse_round(named))
        except RequestRefused as refusal:
            if refusal.status != NOT_FOUND:
                raise
            raise RoundAborted("the coordinator has no such round", where=self.url) from None


@dataclass(frozen=True, repr=False)
class Person:
    """Who asks the coordinator, if not its operator."""

    identity: Annotated[Path | None, "Your identity; by default identity.json in --state."] = None
    state: StateOption = None
    token: Annotated[
        str | None,
        typer.Option(envvar="DHDMM_TOKEN", help="Where the coordinator enrols by tokens: yours."),
    ] = None

    @property
    def home(self) -> Home:
        return home(self.state)

    def known(self) -> Identity | None:
        """The identity in the file given, or the one that is kept at home, if there is one."""
        from dhdmm.network import identity as identities

        if self.identity is None and not self.home.identity.exists():
            return None
        return identities.load(self.identity or self.home.identity).identity


@dataclass(frozen=True, repr=False)
class Participant(Person):
    """Whoever decides on a round and takes part in it."""

    round_id: RoundOption = None
    policy: Annotated[Path | None, "Your limits; by default policy.yaml in --state."] = None
    ledger: LedgerOption = None
    yes: Annotated[bool, "Consent without asking to what your policy allows."] = False

    def ledger_for(self, data: str | None, limits: Policy) -> Ledger:
        """The ledger given, or that of the data set, or the one in --state; made if it is new."""
        new = Path(self.ledger) if self.ledger is not None and self._is_new else None
        return self.existing_ledger(data) or self.home.ledger(new, limits)

    def existing_ledger(self, data: str | None = None) -> Ledger | None:
        """The ledger that would pay, if it exists."""
        from dhdmm.participant.data_sets import ledgers_for

        if self._is_new:
            return None
        found = ledgers_for([] if data is None else [data], self.ledger, self.state)
        return found[0] if found else self.home.existing_ledger(None)

    @property
    def _is_new(self) -> bool:
        from dhdmm.cli.places import is_new_file

        return self.ledger is not None and is_new_file(self.ledger, self.state)


@dataclass(frozen=True, repr=False)
class Operator:
    """What the operator's requests carry."""

    operator_token: Annotated[
        str | None,
        typer.Option(envvar="DHDMM_OPERATOR_TOKEN", help="The token that the coordinator printed."),
    ] = None
    operator_token_file: Annotated[Path | None, "The coordinator's --operator-token-file."] = None

    def token(self) -> str | None:
        """From the file if there is one."""
        if self.operator_token_file is None:
            return self.operator_token
        from dhdmm.network.files import read_secret

        return read_secret(self.operator_token_file)

    def client(self, at: Coordinator) -> CoordinatorClient:
        """A client with the operator's token."""
        token = self.token()
        if token is None:
            raise DhdmmError(
                "only the operator may do this",
                hint="--operator-token-file FILE, or DHDMM_OPERATOR_TOKEN in the environment",
            )
        return at.connect(operator=token)


@dataclass(frozen=True)
class OperatedRound(Operator, Coordinator):
    """A round of a coordinator, for its operator."""

    round_id: RoundOption = None

    @contextmanager
    def found(self) -> Iterator[tuple[CoordinatorClient, Status]]:
        """A client for the operator, and the round's status."""
        with self.client(self) as client:
            yield client, self.round(client, self.round_id)


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


def note(words: str) -> None:
    """Print a line on standard error, beside what the command prints."""
    print(words, file=sys.stderr, flush=True)
