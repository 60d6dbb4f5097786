"""Checkpoints as any other program would read them."""

import json

import numpy as np

DTYPES = {"F32": np.float32, "F64": np.float64, "I64": np.int64, "U8": np.uint8}


def tensors(file):
    """The arrays of a safetensors file, by the format's own description."""
    data = file.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        bytes_ = data[8 + size + begin : 8 + size + end]
        result[name] = np.frombuffer(bytes_, DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return result
