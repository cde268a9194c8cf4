"""Options of the commands that are servers: where they listen, and where the second server is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dhdmm.errors import DhdmmError

if TYPE_CHECKING:
    from dhdmm.aggregation.identity import Identity
    from dhdmm.network.helper_link import HelperLink
    from dhdmm.server.asgi import Application
    from dhdmm.server.limits import Limits
    from dhdmm.server.process import Server


@dataclass(frozen=True)
class Listening:
    """Where a server listens, whom it believes, and how much it lets callers do."""

    host: Annotated[str, "The address to listen on."] = "127.0.0.1"
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 for any free one.")] = (
        8443
    )
    tls_cert: Annotated[Path | None, "Certificate chain (PEM); without it only this machine."] = (
        None
    )
    tls_key: Annotated[Path | None, "The certificate's key (PEM)."] = None
    limits: Annotated[
        Path | None, "A YAML file with limits on callers, instead of the defaults."
    ] = None
    proxies: Annotated[str, "Addresses of reverse proxies whose word on clients counts."] = ""

    def server(self, app: Application, usual: Limits, **more: Any) -> Server:
        """As `make_server` makes it; `usual` are the limits where no file is given."""
        from dhdmm.server.limits import Limits
        from dhdmm.server.process import make_server

        limits = usual if self.limits is None else Limits.load(self.limits)
        place = self.host, self.port, self.tls_cert, self.tls_key
        return make_server(app, *place, limits, proxies=self.proxies, **more)


@dataclass(frozen=True)
class SecondServer:
    """Where the helper is, and how to know it."""

    helper: Annotated[str | None, "Where the second server is, for studies with two servers."] = (
        None
    )
    helper_key: Annotated[
        str | None, "Its key: a public identity's file, or 64 hexadecimal digits."
    ] = None
    helper_ca: Annotated[Path | None, "Who vouches for its certificate (PEM)."] = None
    helper_pin: Annotated[str | None, "Or the SHA-256 of its certificate."] = None

    def link(self, identity: Identity) -> HelperLink | None:
        """Its certificate is believed as a coordinator's is by participants."""
        if (self.helper is None) != (self.helper_key is None):
            raise DhdmmError("--helper and --helper-key are given together", hint="give both")
        if self.helper is None:
            return None
        from dhdmm.network.helper_link import HelperLink
        from dhdmm.network.trust import Address, parse_digest, trusting

        pin = self.helper_pin
        place = Address.parse(self.helper)
        pinned = None if pin is None else parse_digest(pin, "a certificate's SHA-256")
        tls = None if place.base.startswith("http:") else trusting(self.helper_ca, pinned)
        return HelperLink(place, identity, tls)

    @property
    def key(self) -> bytes | None:
        return None if self.helper_key is None else key_given(self.helper_key)


def key_given(written: str, what: str = "a key") -> bytes:
    """Of a public identity's file, or as digits."""
    from dhdmm.network.identity import load_public
    from dhdmm.network.trust import parse_digest

    digits = load_public(Path(written)).key if _is_file(written) else written
    return parse_digest(digits, what, "there is no file of this name either")


def _is_file(written: str) -> bool:
    try:
        return Path(written).is_file()
    except OSError:  # no file has so long a name
        return False
