"""Writes secagg-primitives.json: what each primitive must give, by a second, plain implementation.

Nothing here imports dhdmm: integers one at a time, loops, and the formulas as they are written in
the modules' documentation. Run it as `python tests/vectors/make_secagg_primitives.py`.
"""

import hashlib
import hmac
import json
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

VECTORS = Path(__file__).with_name("secagg-primitives.json")
SESSION = hashlib.sha256(b"a session").digest()


def label(name):
    return f"dhdmm1 {name}".encode().ljust(16, b"\0")


def place(*positions):
    return b"".join(position.to_bytes(4, "big") for position in positions)


def x25519(secret, public):
    """The Montgomery ladder of RFC 7748, section 5."""
    p = 2**255 - 19
    k = int.from_bytes(secret, "little") & ~7 & (2**255 - 1) | 2**254
    x1 = int.from_bytes(public, "little") % 2**255 % p
    x2, z2, x3, z3 = 1, 0, x1, 1
    for bit in reversed(range(255)):
        swap = k >> bit & 1
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % p, b * b % p, d * a % p, c * b % p
        x3, z3 = (da + cb) ** 2 % p, x1 * (da - cb) ** 2 % p
        x2, z2 = aa * bb % p, (aa - bb) * (aa + 121665 * (aa - bb)) % p
        if swap:
            x2, z2, x3, z3 = x3, z3, x2, z2
    return (x2 * pow(z2, p - 2, p) % p).to_bytes(32, "little")


def mac(key, message):
    return hmac.new(key, message, hashlib.sha256).digest()


def extract(secret):
    return mac(bytes(32), secret)


def expand(key, info):
    return mac(key, info + b"\1")


class Stream:
    """Bytes of SHA-256(seed ‖ counter), in order."""

    def __init__(self, seed):
        self.seed, self.block, self.left = seed, 0, b""

    def __call__(self, size):
        while len(self.left) < size:
            counter = self.block.to_bytes(8, "big")
            self.left += hashlib.sha256(self.seed.encode() + counter).digest()
            self.block += 1
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def word(self, size=4):
        return int.from_bytes(self(size), "little")


def below(stream, bounds):
    """Uniform integers below each bound: all words first, then those to be drawn again."""
    kept = [(1 << (bound - 1).bit_length()) - 1 for bound in bounds]
    drawn = [stream.word() & keep for keep in kept]
    while again := [i for i, bound in enumerate(bounds) if drawn[i] >= bound]:
        for i in again:
            drawn[i] = stream.word() & kept[i]
    return drawn


def keys():
    stream = Stream("keys")
    one, other = stream(32), stream(32)
    base = (9).to_bytes(32, "little")
    public_one, public_other = x25519(one, base), x25519(other, base)
    pairwise = extract(x25519(one, public_other))
    ends = place(5, 2) + public_one + public_other
    swapped = place(2, 5) + public_other + public_one
    bitmap_hash = stream(32)

    def derived(name, size=32, more=b""):
        return {
            "5 to 2": expand(pairwise, label(name) + SESSION + ends + more)[:size].hex(),
            "2 to 5": expand(pairwise, label(name) + SESSION + swapped + more)[:size].hex(),
        }

    own = label("selfmask") + SESSION + place(5)
    return {
        "session": SESSION.hex(),
        "secrets": {"5": one.hex(), "2": other.hex()},
        "publics": {"5": public_one.hex(), "2": public_other.hex()},
        "pairwise": pairwise.hex(),
        "share": derived("share"),
        "included": derived("included", 16),
        "bitmap_hash": bitmap_hash.hex(),
        "ack": derived("ack", 16, bitmap_hash),
        "mask_seed": expand(pairwise, label("mask") + SESSION + swapped).hex(),
        "self_mask_seed": expand(extract(one), own).hex(),
        "seed_commitment": hashlib.sha256(label("seed") + SESSION + place(5) + one).digest().hex(),
    }


def messages():
    stream = Stream("messages")
    key, seed, bitmap_hash = stream(32), stream(32), stream(32)
    plaintext = stream(72)
    header = label("share") + SESSION + place(5, 2)
    ack = label("ack") + SESSION + place(5, 2) + bitmap_hash
    identity = Ed25519PrivateKey.from_private_bytes(seed)
    return {
        "session": SESSION.hex(),
        "key": key.hex(),
        "plaintext": plaintext.hex(),
        "sealed": AESGCM(key).encrypt(bytes(12), plaintext, header).hex(),
        "bitmap_hash": bitmap_hash.hex(),
        "identity_seed": seed.hex(),
        "identity_public": identity.public_key().public_bytes_raw().hex(),
        "signed_ack": identity.sign(ack).hex(),
    }


def shares():
    p, threshold, holders = 2**31 - 1, 3, [0, 7, 2999, 12, 2**31 - 3]
    stream = Stream("secrets")
    secrets = [stream(32), stream(32)]
    limbs = [
        int.from_bytes(secret, "little") >> 30 * i & (2**30 - 1)
        for secret in secrets
        for i in range(9)
    ]
    random = below(Stream("coefficients"), [p] * (18 * (threshold - 1)))
    rows = [limbs, random[:18], random[18:]]
    dealt = [
        [sum(row[column] * (holder + 1) ** e for e, row in enumerate(rows)) % p
         for column in range(18)]
        for holder in holders
    ]  # fmt: skip
    return {
        "threshold": threshold,
        "holders": holders,
        "secrets": [secret.hex() for secret in secrets],
        "randomness": "coefficients",
        "shares": [
            [b"".join(v.to_bytes(4, "little") for v in values[9 * s : 9 * s + 9]).hex()
             for values in dealt]
            for s in range(2)
        ],
    }  # fmt: skip


def mask(seed, modulus, length):
    """AES in counter mode by hand: block by block."""
    block = Cipher(AES(seed[:16]), ECB()).encryptor()
    bits = (modulus - 1).bit_length()
    size = 4 if bits <= 32 else 8
    counter, left, vector = int.from_bytes(seed[16:], "big"), b"", []
    while len(vector) < length:
        if not left:
            left = block.update((counter % 2**128).to_bytes(16, "big"))
            counter += 1
        vector.append(int.from_bytes(left[:size], "little") & modulus - 1)
        left = left[size:]
    return vector


def packed(vector, modulus):
    whole, left_over = divmod((modulus - 1).bit_length(), 8)
    out = [x >> 8 * byte & 255 for byte in range(whole) for x in vector]
    for bit in range(8 * whole, 8 * whole + left_over):
        for start in range(0, len(vector), 8):
            eight = vector[start : start + 8]
            out.append(sum((x >> bit & 1) << i for i, x in enumerate(eight)))
    return bytes(out)


def masks():
    seed = Stream("mask")(24) + b"\xff" * 8  # the counter carries
    cases = []
    for modulus in (2, 2**9, 2**25, 2**32, 2**33, 2**63):
        vector = mask(seed, modulus, 37)
        cases.append(
            {
                "modulus": str(modulus),
                "mask": [str(x) for x in vector],
                "packed": packed(vector, modulus).hex(),
            }
        )
    return {"seed": seed.hex(), "cases": cases}


def node(contents, start, size):
    """The root of leaves `start`… of a complete subtree of `size` places, as far as it exists."""
    n = len(contents)
    if size == 1:
        content = contents[start]
        tag = b"\2" if content is None else b"\0"
        return hashlib.sha256(tag + place(n, start) + (content or b"")).digest()
    half = size // 2
    left = node(contents, start, half)
    if start + half >= n:
        return left
    return hashlib.sha256(b"\1" + left + node(contents, start + half, half)).digest()


def proof(contents, positions):
    """Level by level, left to right: the sibling of every known subtree that is not known."""
    n, size, nodes = len(contents), 1, b""
    while size < n:
        known = sorted({position // size for position in positions})
        for i in known:
            if i ^ 1 not in known and (i ^ 1) * size < n:
                nodes += node(contents, (i ^ 1) * size, size)
        size *= 2
    return nodes


def trees():
    cases = []
    for n, positions in ((1, [0]), (2, [1]), (5, [4]), (6, [0, 5]), (13, [2, 3, 9, 12])):
        contents = [None if i % 4 == 3 else f"keys of {i}".encode() for i in range(n)]
        size = 1 << (n - 1).bit_length()
        cases.append(
            {
                "contents": [None if c is None else c.hex() for c in contents],
                "root": node(contents, 0, size).hex(),
                "positions": positions,
                "proof": proof(contents, positions).hex(),
            }
        )
    return cases


def graphs():
    n, k, stream = 11, 4, Stream("circle")
    words = [stream.word(8) for _ in range(n)]
    circle = sorted(range(n), key=words.__getitem__)
    seat = {participant: i for i, participant in enumerate(circle)}
    neighbours = [sorted(circle[(seat[i] + step) % n] for step in (-2, -1, 1, 2)) for i in range(n)]
    position, chosen = 6, set()
    bounds = list(range(n - k, n))
    for bound, candidate in zip(bounds, below(Stream("choice"), bounds), strict=True):
        chosen.add(bound - 1 if candidate in chosen else candidate)
    return {
        "participants": n,
        "degree": k,
        "harary": {"randomness": "circle", "neighbours": neighbours},
        "out": {
            "randomness": "choice",
            "position": position,
            "chosen": sorted(i + (i >= position) for i in chosen),
        },
    }


def make_vectors():
    return {
        "keys": keys(),
        "messages": messages(),
        "shares": shares(),
        "masks": masks(),
        "trees": trees(),
        "graphs": graphs(),
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(make_vectors(), indent=1) + "\n")
