"""The JSON files of a checkpoint folder."""

from __future__ import annotations

import json
import os
from typing import Any


def read_json(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A JSON object from a file, or from the config.json of a folder.

    Raises FileNotFoundError or ValueError naming the file.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
    except FileNotFoundError:
        raise FileNotFoundError(f"{path}: no such file (a checkpoint folder holds a config.json)") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(data, dict):
        raise ValueError(f"{path}: expected a JSON object, got {type(data).__name__}")
    return data
