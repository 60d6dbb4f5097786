"""Calls a function of the user's on whole segments: `lacuna transform` with `python: FILE.py:FUNCTION`.

    transform_function.py FILE.py FUNCTION OUT.npy INFO SOURCE.npy...

FUNCTION(*sources, **info) gets the rows of its sources as arrays [T, ...] and, where it takes them, session, segment and
rate; it returns an array [T, ...]."""

import importlib.util
import inspect
import json
import sys

import numpy as np


def main(file, function, out, info, *sources):
    spec = importlib.util.spec_from_file_location("transform", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    call = getattr(module, function, None)
    if call is None:
        sys.exit(f"{file} has no function {function}")
    parameters = inspect.signature(call).parameters
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    known = {key: value for key, value in json.loads(info).items() if takes_all or key in parameters}
    result = np.ascontiguousarray(call(*(np.load(source, mmap_mode="r") for source in sources), **known))
    if result.dtype not in (np.uint8, np.float32):
        result = result.astype(np.float32)
    np.save(out, result)


main(*sys.argv[1:])
