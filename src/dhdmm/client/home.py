"""A participant's own folder: identity, policy, ledger, journals, rosters, checks and consents.

Consent is to a draft: a study, a strategy and ρ, by the digest over all three. A coordinator that
changes any of them asks for something nobody here agreed to.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from dhdmm import formats
from dhdmm.client.checked import KeptChecks
from dhdmm.network.files import locked, private_folder, replace_durably, writing
from dhdmm.network.identity import File, read_document
from dhdmm.participant.limits import Policy
from dhdmm.privacy.ledger import Ledger
from dhdmm.release.made import now as now
from dhdmm.study.spec import Study

if TYPE_CHECKING:
    from dhdmm.client.journal import FileJournal
    from dhdmm.network.roster import RosterCredentials
    from dhdmm.planning.draft import Draft


class Consent(File):
    """Who looked at a draft here has agreed to it."""

    FORMAT = formats.CONSENT
    draft: str
    study: str
    rho: str
    threat_model: str
    given: str


class SeenRoster(File):
    """The newest roster of a registrar for a study that was accepted here."""

    FORMAT = formats.ROSTER_SEEN
    registrar: str
    study: str
    serial: int
    roster: str


@dataclass(frozen=True)
class Home:
    """The folder, made for its owner alone when something is first kept in it."""

    root: Path

    @property
    def identity(self) -> Path:
        return self.root / "identity.json"

    def policy(self, path: Path | None) -> Policy:
        """The limits in the file given, or in the one that is kept here, or the defaults."""
        kept = self.root / "policy.yaml"
        if path is None and not kept.exists():
            return Policy()
        return Policy.load(path or kept)

    def existing_ledger(self, path: Path | None) -> Ledger | None:
        place = path or self._ledger
        return Ledger(place, now) if place.exists() else None

    def ledger(self, path: Path | None, policy: Policy) -> Ledger:
        """The ledger given or kept here; a new one has the policy's budget."""
        found = self.existing_ledger(path)
        if found is not None:
            return found
        if path is None:
            private_folder(self.root)
        return Ledger.create(path or self._ledger, Fraction(repr(policy.total_rho)), now)

    @property
    def _ledger(self) -> Path:
        return self.root / "ledger"

    @property
    def journals(self) -> Path:
        return self.root / "journals"

    def journal(self, round_id: bytes, identity: bytes) -> FileJournal:
        from dhdmm.client.journal import FileJournal  # with all of secure aggregation

        private_folder(self.root)
        return FileJournal(self.journals, round_id, identity)

    @property
    def checked(self) -> KeptChecks:
        """Studies and strategies that were checked here."""
        return KeptChecks(self.root / "checked")

    def consent_to(self, draft: Draft) -> None:
        folder = private_folder(private_folder(self.root) / "consents")
        consent = Consent(
            draft=draft.digest.hex(),
            study=draft.study.name,
            rho=str(draft.rho),
            threat_model=draft.study.aggregation.threat_model,
            given=now().isoformat(),
        )
        study = folder / f"{consent.draft}.study"
        with writing(study):
            replace_durably(study, draft.study.canonical_bytes())
        consent.keep(study.with_suffix(".json"))

    def consented(self, draft: Draft) -> bool:
        place = self.root / "consents" / f"{draft.digest.hex()}.json"
        return place.exists() and read_document(Consent, place).draft == draft.digest.hex()

    def accept_roster(self, given: RosterCredentials, study: str) -> None:
        """Remember the highest serial number of this registrar's rosters; refuse a lower one."""
        registrar = (given.registrar or b"").hex()
        name = sha256(f"{registrar} {study}".encode()).hexdigest()
        folder = private_folder(private_folder(self.root) / "rosters")
        place = folder / f"{name}.json"
        with locked(folder):
            if place.exists():
                seen = read_document(SeenRoster, place)
                given.require_not_older(seen.serial, bytes.fromhex(seen.roster))
            SeenRoster(
                registrar=registrar,
                study=study,
                serial=given.serial,
                roster=given.fingerprints[0].hex(),
            ).keep(place)

    def studies(self) -> Iterator[Study]:
        """What was consented to here, so that a table can be counted before anybody is asked."""
        for place in sorted((self.root / "consents").glob("*.study")):
            if place.with_suffix(".json").exists():
                yield Study.from_canonical_bytes(place.read_bytes(), checked=True)
