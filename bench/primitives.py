"""Microseconds of every primitive of secure aggregation: the libraries' bare, then dhdmm's own.

The bare ones are the units in which a protocol's floor is counted (bench of whole rounds).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from hashlib import sha256
from time import process_time

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES128
from cryptography.hazmat.primitives.ciphers.modes import CTR
from nacl.bindings import crypto_scalarmult, crypto_scalarmult_base, crypto_sign_open
from nacl.signing import SigningKey

from dhdmm.aggregation import masks, merkle
from dhdmm.aggregation.identity import Identity, signature_holds
from dhdmm.aggregation.modulus import Modulus, pack, unpack
from dhdmm.secagg import graph, keys, shamir

REPEATS = 5
BATCH_SECONDS = 0.01
COORDINATES = 100_000
MODULI = {"2^25": 2**25, "2^32": 2**32, "2^63": 2**63}
SHARINGS = ((34, 18), (62, 44), (74, 51))  # degree, threshold
TREES = ((3_000, 136), (10_000, 148))  # roster, neighbours proved
SESSION, MESSAGE = bytes(32), bytes(121)

Timed = tuple[str, Callable[[], object]]


def microseconds(work: Callable[[], object]) -> float:
    """Processor time of one call, the best of several batches."""
    count, best = 1, float("inf")
    while best == float("inf") or best * count < BATCH_SECONDS * 1e6:
        best, count = _batch(work, count), 2 * count
    return min(best, *(_batch(work, count) for _ in range(REPEATS)))


def _batch(work: Callable[[], object], count: int) -> float:
    start = process_time()
    for _ in range(count):
        work()
    return (process_time() - start) / count * 1e6


def bare() -> Iterator[Timed]:
    """One call of the library's primitive, with no code of ours around it."""
    secret, public = os.urandom(32), crypto_scalarmult_base(os.urandom(32))
    signing = SigningKey.generate()
    signed, identity = bytes(signing.sign(MESSAGE)), bytes(signing.verify_key)
    key, block = os.urandom(32), os.urandom(64)
    yield "x25519", lambda: crypto_scalarmult(secret, public)
    yield "x25519 base", lambda: crypto_scalarmult_base(secret)
    yield "ed25519 sign", lambda: signing.sign(MESSAGE)
    yield "ed25519 verify", lambda: crypto_sign_open(signed, identity)
    yield "hmac", lambda: sha256(block + sha256(block + MESSAGE).digest()).digest()
    yield "sha256", lambda: sha256(MESSAGE).digest()
    yield "aes-gcm", lambda: AESGCM(key).encrypt(bytes(12), bytes(72), MESSAGE)
    yield "aes-ctr set-up", lambda: Cipher(AES128(key[:16]), CTR(key[16:])).encryptor()


def bare_bulk() -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Work on many bytes or words at once: name, how many, call."""
    zeros, buffer = bytes(1 << 17), bytearray((1 << 17) + 15)
    stream = Cipher(AES128(os.urandom(16)), CTR(os.urandom(16))).encryptor()
    yield "aes-ctr byte", len(zeros), lambda: stream.update_into(zeros, buffer)
    for name, dtype in (("add 32-bit word", np.uint32), ("add 64-bit word", np.uint64)):
        total, term = (np.zeros(1 << 14, dtype=dtype) for _ in range(2))
        yield name, len(total), partial(np.add, total, term, out=total)


def composed_keys() -> Iterator[Timed]:
    mine, other = (keys.KeyPair.from_secret(os.urandom(32)) for _ in range(2))
    pairwise, identity = mine.agree(other.public), Identity.generate(os.urandom)
    here, there = keys.Endpoint(1, mine.public), keys.Endpoint(2, other.public)
    label, signature = keys.Label.INCLUDED, identity.sign(MESSAGE)
    sealed = keys.seal(pairwise, SESSION, 1, 2, bytes(72))
    yield "key pair", lambda: keys.KeyPair.from_secret(mine.secret)
    yield "agree", lambda: mine.agree(other.public)
    yield "channel key", lambda: keys.channel_key(pairwise, label, SESSION, here, there)
    yield "mask seed", lambda: keys.pairwise_mask_seed(pairwise, SESSION, here, there)
    yield "seal", lambda: keys.seal(pairwise, SESSION, 1, 2, bytes(72))
    yield "unseal", lambda: keys.unseal(pairwise, SESSION, 1, 2, sealed)
    yield "evidence", lambda: keys.evidence(pairwise, label, SESSION, here, there)
    yield "sign", lambda: identity.sign(MESSAGE)
    yield "verify", lambda: signature_holds(identity.public, MESSAGE, signature)


def composed_masks() -> Iterator[Timed]:
    for name, value in MODULI.items():
        modulus, seed = Modulus(value), os.urandom(32)
        vector = modulus.zeros(COORDINATES)
        masks.add_masks(modulus, vector, [(seed, 1)])
        packed = pack(modulus, vector)
        yield f"mask {name}", partial(masks.add_masks, modulus, vector, [(seed, 1)])
        yield f"pack {name}", partial(pack, modulus, vector)
        yield f"unpack {name}", partial(unpack, modulus, COORDINATES, packed)


def composed_shares() -> Iterator[Timed]:
    for degree, threshold in SHARINGS:
        secrets, holders = [os.urandom(32), os.urandom(32)], list(range(degree))
        shares = shamir.split(secrets, threshold, holders, os.urandom)[0]
        alive = degree * 19 // 20
        limbs = np.frombuffer(b"".join(shares[:alive] * 1000), "<u4").reshape(-1, shamir.LIMBS)
        ends = np.arange(1, 1001) * alive
        rows = ends - alive, ends, np.tile(np.arange(alive), 1000), limbs
        name = f"{threshold} of {degree}"
        yield f"split {name}", partial(shamir.split, secrets, threshold, holders, os.urandom)
        yield f"reconstruct 1000 × {name}", partial(shamir.reconstruct, *rows, threshold)


def composed_trees_and_graphs() -> Iterator[Timed]:
    for size, neighbours in TREES:
        contents: list[bytes | None] = [bytes(128)] * size
        tree = merkle.MerkleTree(contents)
        proved = graph.sample_out_neighbours(0, size, neighbours, os.urandom).tolist()
        leaves, proof = {i: contents[i] for i in proved}, tree.multiproof(proved)
        name = f"{neighbours} of {size}"
        yield f"tree {size}", partial(merkle.MerkleTree, contents)
        yield f"prove {name}", partial(tree.multiproof, proved)
        yield f"check {name}", partial(merkle.verify_multiproof, tree.root, size, leaves, proof)
    yield "harary 10000, 38", lambda: graph.harary_neighbours(10_000, 38, os.urandom)
    yield "choose 74 of 10000", lambda: graph.sample_out_neighbours(7, 10_000, 74, os.urandom)


def unit_costs() -> dict[str, float]:
    """Microseconds of each bare primitive: a call, or a byte or word of bulk work."""
    costs = {name: microseconds(work) for name, work in bare()}
    return costs | {name: microseconds(work) / count for name, count, work in bare_bulk()}


def composed_costs() -> dict[str, float]:
    """Microseconds of each of dhdmm's own; masks and packing of 100,000 coordinates."""
    groups = (composed_keys, composed_masks, composed_shares, composed_trees_and_graphs)
    return {name: microseconds(work) for group in groups for name, work in group()}


def main() -> None:
    print("Primitives of secure aggregation, µs of processor time")
    for title, costs in (("the libraries'", unit_costs()), ("dhdmm's", composed_costs())):
        print(f"\n{title}")
        for name, cost in costs.items():
            print(f"  {name:<32}{cost:>14,.2f}" if cost > 0.01 else f"  {name:<32}{cost:>14.6f}")


if __name__ == "__main__":
    main()
