"""Writes validation.json: generators, a commitment and a proof, from seeded randomness.

`tests.validation.plain` verifies the proof with nothing of dhdmm. Run it as
`python -m tests.vectors.make_validation`.
"""

import json
from pathlib import Path

from dhdmm.validation.commitment import Limbs
from dhdmm.validation.group import bases, encode_point
from tests.secagg.seeded import seeded
from tests.validation.claims import SHORT, STATEMENT, honest

VECTORS = Path(__file__).with_name("validation.json")


def make_vectors():
    around, limbs = bases(STATEMENT.length), Limbs.for_sums(1000, 2**30)
    drawn = limbs.draw(seeded("limbs"))
    claim = honest(y=SHORT, r=limbs.blinding(drawn), seed="vectors")
    named = {"g": around.g, "w": around.w, "f": [around.f], "h": [around.h]}
    return {
        "generators": {
            name: [encode_point(p).hex() for p in points] for name, points in named.items()
        },
        "bound": STATEMENT.bound,
        "vector": SHORT,
        "limb bits": limbs.bits,
        "limbs": drawn,
        "blinding": str(limbs.blinding(drawn)),
        "context": claim.context.hex(),
        "commitment": claim.commitment.hex(),
        "proof": claim.proof.hex(),
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(make_vectors(), indent=1) + "\n", encoding="utf-8")
