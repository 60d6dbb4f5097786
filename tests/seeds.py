"""The seed of a random test: the same in every run, so that a change passes or fails twice alike.

LACUNA_TEST_SEED=n takes n instead, LACUNA_TEST_SEED=fresh a new one (`make test-all` does); a failure prints it.
The C++ tests read the same variable (lacuna/core/testing.h).
"""

import os
import random
import zlib


def seed_of(name):
    asked = os.environ.get("LACUNA_TEST_SEED", "")
    seed = random.SystemRandom().randrange(1 << 32) if asked == "fresh" else int(asked or zlib.crc32(name.encode()))
    print(f"LACUNA_TEST_SEED={seed}")
    return seed
