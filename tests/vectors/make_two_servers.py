"""Writes two-servers.json: a report byte by byte, by a second, plain implementation.

Nothing here imports dhdmm. HPKE with X25519 is written out after RFC 9180, with a fixed ephemeral
key; with MLKEM768-X25519 the library seals, at random, so a sealed seed that is in the file and
opens is kept. Run it as `python tests/vectors/make_two_servers.py`.
"""

import hashlib
import json
from pathlib import Path

from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.vectors.make_secagg_primitives import (
    Stream,
    expand,
    extract,
    label,
    mac,
    mask,
    node,
    packed,
    place,
    x25519,
)

VECTORS = Path(__file__).with_name("two-servers.json")
PARTICIPANTS, POSITION, MODULUS = 5, 3, 2**19
RANGES = [[3, -70_000, 17], [5, -200_000, 19], [2, 0, 12], [1, -1, 17]]
LENGTH = sum(rows for rows, _, _ in RANGES)
PLAN, ROUND, ROSTER = (hashlib.sha256(name).digest() for name in (b"plan", b"round", b"roster"))
SESSION = hashlib.sha256(b"dhdmm session 1" + PLAN + ROUND[:16] + b"\2" + ROSTER).digest()
HYBRID = hpke.Suite(hpke.KEM.MLKEM768_X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_256_GCM)


def sha(data):
    return hashlib.sha256(data).digest()


def blob(data):
    return len(data).to_bytes(4, "big") + data


def message(number, position, *fields):
    return bytes([1, number]) + SESSION + place(position) + b"".join(fields)


def labeled_extract(suite, salt, name, secret):
    return mac(salt or bytes(32), b"HPKE-v1" + suite + name + secret)


def labeled_expand(suite, key, name, info, size):
    return expand(key, size.to_bytes(2, "big") + b"HPKE-v1" + suite + name + info)[:size]


def hpke_x25519(ephemeral, public, info, plaintext):
    """RFC 9180: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, base mode, no aad."""
    base = (9).to_bytes(32, "little")
    enc = x25519(ephemeral, base)
    kem, suite = b"KEM\0\x20", b"HPKE\0\x20\0\1\0\2"
    agreed = labeled_extract(kem, b"", b"eae_prk", x25519(ephemeral, public))
    shared = labeled_expand(kem, agreed, b"shared_secret", enc + public, 32)
    hashes = [labeled_extract(suite, b"", b"psk_id_hash", b"")]
    hashes += [labeled_extract(suite, b"", b"info_hash", info)]
    context = b"\0" + b"".join(hashes)
    secret = labeled_extract(suite, shared, b"secret", b"")
    key = labeled_expand(suite, secret, b"key", context, 32)
    nonce = labeled_expand(suite, secret, b"base_nonce", context, 12)
    return enc + AESGCM(key).encrypt(nonce, plaintext, b"")


def packed_by_bits(vector):
    """Those of the fewest bits first, each number of bits as a vector by itself."""
    bits = [own for rows, _, own in RANGES for _ in range(rows)]
    parts = {own: [x for x, b in zip(vector, bits, strict=True) if b == own] for own in bits}
    return b"".join(packed(parts[own], 2**own) for own in sorted(parts))


def hybrid_key(secret):
    mlkem = MLKEM768PrivateKey.from_seed_bytes(secret[:64])
    x = X25519PrivateKey.from_private_bytes(secret[64:])
    public = mlkem.public_key().public_bytes_raw() + x.public_key().public_bytes_raw()
    return hpke.MLKEM768X25519PrivateKey(mlkem, x), public


def kept_or_sealed(private, info, seed):
    """With the library; a sealed seed that the file has is kept."""
    known = json.loads(VECTORS.read_text())["reports"] if VECTORS.exists() else {}
    if "mlkem768-x25519" in known:
        sealed = bytes.fromhex(known["mlkem768-x25519"]["sealed"])
        if HYBRID.decrypt(sealed, private, info) == seed:
            return sealed
    return HYBRID.encrypt(seed, private.public_key(), info)


def report(suite, number, secret, public, sealed, seed, vector, participant, helper):
    """One participant's, under one suite."""
    share_seed = expand(extract(seed), label("split") + SESSION + place(POSITION))
    helper_share = mask(share_seed, MODULUS, LENGTH)
    leader_share = [(y - h) % MODULUS for y, h in zip(vector, helper_share, strict=True)]
    shared = packed_by_bits(leader_share)
    key_said = label("sealing") + SESSION + bytes([number]) + public
    said = label("report") + SESSION + place(POSITION) + sha(sealed) + sha(shared)
    signature = participant.sign(said)
    return {
        "helper_secret": secret.hex(),
        "helper_public": public.hex(),
        "helper_key_message": message(0x11, POSITION, blob(public), helper.sign(key_said)).hex(),
        "info": (label("sealed") + SESSION + place(POSITION)).hex(),
        "seed": seed.hex(),
        "sealed": sealed.hex(),
        "stream_seed": share_seed.hex(),
        "helper_share": helper_share,
        "leader_share": leader_share,
        "packed": shared.hex(),
        "statement": said.hex(),
        "signature": signature.hex(),
        "report": message(0x12, POSITION, blob(sealed), blob(shared), signature).hex(),
        "report_hash": sha(said + signature).hex(),
    }


def closing(suite, one, helper):
    """The end of a round in which that report and nobody else's counts."""
    contents = [bytes.fromhex(one["report_hash"]) if i == POSITION else None for i in range(5)]
    root = node(contents, 0, 8)
    salt = Stream(f"salt {suite}")(32)
    commitment = sha(label("leadersum") + SESSION + salt + bytes.fromhex(one["packed"]))
    summed = packed_by_bits(one["helper_share"])
    said = label("helpersum") + SESSION + commitment + root + sha(summed)
    members = place(PARTICIPANTS) + bytes([1 << POSITION])
    return {
        "salt": salt.hex(),
        "commitment": commitment.hex(),
        "root": root.hex(),
        "closing_message": message(0x15, 0, members, commitment).hex(),
        "sum_message": message(0x16, 0, root, blob(summed), helper.sign(said)).hex(),
    }


def make_vectors():
    stream = Stream("two servers")
    participant = Ed25519PrivateKey.from_private_bytes(identity := stream(32))
    helper = Ed25519PrivateKey.from_private_bytes(helper_identity := stream(32))
    ranges = [(low, 2**bits) for rows, low, bits in RANGES for _ in range(rows)]
    vector = [(low + stream.word() % width) % MODULUS for low, width in ranges]
    seed, ephemeral, plain, hybrid = stream(32), stream(32), stream(32), stream(96)
    info = label("sealed") + SESSION + place(POSITION)
    public = x25519(plain, (9).to_bytes(32, "little"))
    private, hybrid_public = hybrid_key(hybrid)
    sealed = hpke_x25519(ephemeral, public, info, seed)
    rest = seed, vector, participant, helper
    reports = {
        "x25519": {
            "ephemeral": ephemeral.hex(),
            **report("x25519", 2, plain, public, sealed, *rest),
        },
        "mlkem768-x25519": report(
            "mlkem768-x25519",
            1,
            hybrid,
            hybrid_public,
            kept_or_sealed(private, info, seed),
            *rest,
        ),
    }
    return {
        "plan_digest": PLAN.hex(),
        "round_id": ROUND[:16].hex(),
        "roster_digest": ROSTER.hex(),
        "session": SESSION.hex(),
        "participants": PARTICIPANTS,
        "position": POSITION,
        "modulus": MODULUS,
        "sum_ranges": RANGES,
        "vector": vector,
        "identity_seed": identity.hex(),
        "identity_public": participant.public_key().public_bytes_raw().hex(),
        "helper_identity_seed": helper_identity.hex(),
        "helper_identity_public": helper.public_key().public_bytes_raw().hex(),
        "reports": reports,
        "closings": {suite: closing(suite, one, helper) for suite, one in reports.items()},
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(make_vectors(), indent=1) + "\n")
