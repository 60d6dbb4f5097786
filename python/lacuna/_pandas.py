"""pandas, for what gives tables; the package does without it elsewhere."""

from __future__ import annotations

from typing import Any


def load_pandas(what: str) -> Any:
    """The module; where it is missing, the error says what needs it and how it comes."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError(f"lacuna: {what} needs pandas: `pip install 'lacuna[data]'`, or `pip install pandas`") from error
    return pandas
