"""Ways to spoil a file, each a pure function of a random generator."""

import re


def flip(data, random):
    """One bit of one byte, or one byte. (contents, words)"""
    place = random.randrange(len(data))
    mask = 1 << random.randrange(8) if random.random() < 0.6 else random.randrange(1, 256)
    spoilt = bytearray(data)
    spoilt[place] ^= mask
    return bytes(spoilt), f"byte {place} of {len(data)} xor {mask:#04x}"


def truncate(data, random):
    """Cut short: anywhere, at the end of a line, or to nothing. (contents, words)"""
    ends = [match.end() for match in re.finditer(rb"\n", data[:-1])]
    way = random.random()
    if way < 0.1:
        place = 0
    elif way < 0.5 and ends:
        place = random.choice(ends)
    else:
        place = random.randrange(len(data))
    return data[:place], f"cut to {place} of {len(data)} bytes"


WAYS = {"flip": flip, "truncate": truncate}
