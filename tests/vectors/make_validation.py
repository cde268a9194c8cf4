"""Writes validation.json: generators, a commitment, a proof and a masked blinding, all seeded.

`tests.validation.plain` verifies the proof with nothing of dhdmm. Run it as
`python -m tests.vectors.make_validation`.
"""

import json
from pathlib import Path

import numpy as np

from dhdmm.aggregation.group import Group
from dhdmm.aggregation.modulus import Modulus
from dhdmm.validation.commitment import draw_blinding
from dhdmm.validation.group import ORDER, bases, encode_point
from tests.secagg.seeded import seeded
from tests.validation.claims import SHORT, STATEMENT, honest

VECTORS = Path(__file__).with_name("validation.json")


def make_vectors():
    around, blinding = bases(STATEMENT.length), draw_blinding(seeded("blinding"))
    claim = honest(y=SHORT, r=blinding, seed="vectors")
    modulus, mask_seed = Modulus(2**30), seeded("mask")(32)
    group = Group(modulus, len(SHORT), ORDER)
    masked = group.element(modulus.residues(np.array(SHORT)), blinding)
    group.add_masks(masked, [(mask_seed, 1)])
    named = {"g": around.g, "w": around.w, "f": [around.f], "h": [around.h]}
    return {
        "generators": {
            name: [encode_point(p).hex() for p in points] for name, points in named.items()
        },
        "bound": STATEMENT.bound,
        "vector": SHORT,
        "blinding": str(blinding),
        "modulus": modulus.value,
        "mask seed": mask_seed.hex(),
        "masked": group.pack(masked).hex(),
        "context": claim.context.hex(),
        "commitment": claim.commitment.hex(),
        "proof": claim.proof.hex(),
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(make_vectors(), indent=1) + "\n", encoding="utf-8")
