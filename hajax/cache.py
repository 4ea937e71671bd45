"""Key -> text on disk, for plans and for measured choices. Knows nothing of planning.

A damaged, foreign or unreachable entry is a miss and one warning.

HAJAX_CACHE_DIR moves the folder, HAJAX_CACHE=0 switches the disk off.
"""

import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import platformdirs

LAYOUT = "v2"
PLANS, TUNED = "plans", "tuned"  # kinds of entries
DAMAGES = (ValueError, KeyError, TypeError, RecursionError)  # what reading a damaged entry raises


def _base() -> Path | None:
    """The cache of hajax on this machine, or None when the disk is switched off."""
    switch = os.environ.get("HAJAX_CACHE", "1")
    if switch not in ("0", "1"):
        raise ValueError(f"HAJAX_CACHE: expected 0 or 1, got {switch!r}")
    if switch == "0":
        return None
    return Path(os.environ.get("HAJAX_CACHE_DIR") or platformdirs.user_cache_dir("hajax"))


def folder(kind: str = PLANS) -> Path | None:
    """Where plans lie, or what was TUNED, or None when the disk is switched off."""
    base = _base()
    return None if base is None else base / kind / LAYOUT


def programs_folder() -> Path | None:
    """Where the command line lets JAX keep compiled programs: None when the disk is switched off or cannot be written."""
    base = _base()
    if base is None:
        return None
    try:
        (base / "programs").mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return base / "programs" if os.access(base / "programs", os.W_OK) else None


def kernels_folder() -> Path | None:
    """Where kernels that were compiled for the emulated chip lie, or None when the disk is switched off."""
    base = _base()
    return None if base is None else base / "kernels"


def _path(root: Path, key: str) -> Path:
    return root / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def _warn(message: str) -> None:
    warnings.warn(f"hajax plan cache: {message}", RuntimeWarning, stacklevel=3)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def seal(key: str, text: str) -> str:
    """An entry: key, text and a digest, as a text may be changed and still read as one, of other numbers."""
    return json.dumps({"digest": _digest(text), "key": key, "text": text})


def unseal(entry: str) -> tuple[str, str]:
    """Key and text of an entry. Raises one of DAMAGES when it is damaged."""
    found = json.loads(entry)
    key, text = str(found["key"]), str(found["text"])
    if found["digest"] != _digest(text):
        raise ValueError("its text is not the one that was written")
    return key, text


def read(key: str, kind: str = PLANS) -> str | None:
    """The text stored under `key`, or None."""
    root = folder(kind)
    if root is None:
        return None
    path = _path(root, key)
    try:
        found, text = unseal(path.read_text(encoding="utf-8"))
        if found != key:
            raise ValueError(f"it holds the key {found!r}")
        return text
    except FileNotFoundError:
        return None
    except OSError as error:
        _warn(f"cannot read {path} ({error.strerror}); planning anew")
    except DAMAGES as error:
        _warn(f"{path} is damaged ({error}); planning anew")
    return None


def write(key: str, text: str, kind: str = PLANS) -> None:
    """Stores `text` under `key`: a temporary file, then a rename, so that no reader sees half an entry."""
    root = folder(kind)
    if root is None:
        return
    path = _path(root, key)
    temporary = None
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=root, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(seal(key, text))
        os.replace(temporary, path)
        temporary = None
    except OSError as error:
        _warn(f"cannot write {path} ({error.strerror}); going on without it")
    finally:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def warn_stale(key: str, reason: str, kind: str = PLANS) -> None:
    """Says that the entry under `key` was readable but is no longer valid."""
    root = folder(kind)
    _warn(f"{_path(root, key) if root else key} is stale ({reason}); planning anew")


def entries(kind: str = PLANS) -> Iterator[tuple[Path, str, str]]:
    """(file, key, text) of every readable entry, in file-name order."""
    root = folder(kind)
    if root is None or not root.is_dir():
        return
    for path in sorted(root.glob("*.json")):
        try:
            yield path, *unseal(path.read_text(encoding="utf-8"))
        except (OSError, *DAMAGES) as error:
            _warn(f"{path} is damaged ({error})")


def clear() -> int:
    """Removes every plan, measured choice, compiled program or kernel, and leftover temporary file; returns how many.

    Raises OSError when one stays.
    """
    files: list[Path] = []
    for root in (folder(PLANS), folder(TUNED)):
        files += [] if root is None or not root.is_dir() else [*root.glob("*.json"), *root.glob("*.tmp")]
    for other in (programs_folder(), kernels_folder()):
        files += [] if other is None or not other.is_dir() else [file for file in other.iterdir() if file.is_file()]
    for file in files:
        file.unlink(missing_ok=True)
    return len(files)
