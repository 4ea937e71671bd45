"""Public-domain novels from Debian packages -> train.txt, valid.txt and heldout.txt.

Needs apt-get and dpkg-deb (no root) and, for the R packages, `pip install rdata`. Copyright files are kept
beside the texts. A passage is a chapter; passages are separated by END. The split is by position, so it never moves.
"""

import argparse
import hashlib
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

END = "<|endoftext|>"
# The last 5 % of every book are never trained on: 3.5 % choose the checkpoint, the last 1.5 % are the published test.
VALID_FROM, HELDOUT_FROM = 0.95, 0.985


@dataclass(frozen=True, slots=True)
class Book:
    """Where one novel lies in a package, and the lines (regular expressions) between which its prose stands."""

    package: str
    member: str  # an object of the package's R data, or the name of a text file
    title: str
    author: str
    year: int
    first: str  # the heading of the first chapter: all before it is front matter
    last: str | None = None  # the first line after the prose; None: the text runs to the end


# Austen died in 1817, Melville in 1891, Twain in 1910, Doyle in 1930: all four are in the public domain, in the United
# States (published before 1930) and where copyright lasts 70 years after the author's death.
_AUSTEN, _MOBY, _LZ4 = "r-cran-janeaustenr", "r-cran-tokenizers", "golang-github-pierrec-lz4-dev"
BOOKS = (
    Book(_AUSTEN, "sensesensibility", "Sense and Sensibility", "Jane Austen", 1811, r"CHAPTER 1$", r"THE END$"),
    Book(_AUSTEN, "prideprejudice", "Pride and Prejudice", "Jane Austen", 1813, r"Chapter 1$"),
    Book(_AUSTEN, "mansfieldpark", "Mansfield Park", "Jane Austen", 1814, r"CHAPTER I$", r"THE END$"),
    Book(_AUSTEN, "emma", "Emma", "Jane Austen", 1815, r"CHAPTER I$", r"FINIS$"),
    Book(_AUSTEN, "northangerabbey", "Northanger Abbey", "Jane Austen", 1817, r"CHAPTER 1$", r"A NOTE ON THE TEXT"),
    Book(_AUSTEN, "persuasion", "Persuasion", "Jane Austen", 1817, r"Chapter 1$", r"Finis$"),
    Book(_MOBY, "mobydick", "Moby-Dick", "Herman Melville", 1851, r"CHAPTER 1\. Loomings", r"End of (the )?Project"),
    Book(_LZ4, "Mark.Twain-Tom.Sawyer.txt", "The Adventures of Tom Sawyer", "Mark Twain", 1876, r"CHAPTER I$"),
    Book(
        _LZ4,
        "pg1661.txt",
        "The Adventures of Sherlock Holmes",
        "Arthur Conan Doyle",
        1892,
        r"ADVENTURE I\.",
        r"End of (the )?Project",
    ),
)

_HEADING = re.compile(
    r"(chapter|volume|adventure|part|book|epilogue|conclusion|finis|the end)\b[\s.:]*([ivxlc]+|\d+)?\b", re.IGNORECASE
)
_ASCII = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "—": "--", "–": "-", "…": "...", "\xa0": " "})


def prose_lines(text: str, first: str, last: str | None) -> list[str]:
    """The lines from the first chapter's heading to the end of the prose: no front matter, no licence."""
    lines = [line.strip() for line in text.removeprefix("\ufeff").splitlines()]
    begin = next((i for i, line in enumerate(lines) if re.match(first, line)), None)
    if begin is None:
        raise ValueError(f"text: expected a line that matches {first!r}, got none: has the package changed?")
    ends = (i for i, line in enumerate(lines) if i > begin and last is not None and re.match(last, line))
    end = next(ends, None if last is not None else len(lines))
    if end is None:
        raise ValueError(f"text: expected a line that matches {last!r}, got none: has the package changed?")
    return lines[begin:end]


def is_heading(block: str) -> bool:
    """A title, number, row of stars or illustration mark: a break between passages, not prose."""
    letters = [c for c in block if c.isalpha()]
    shouted = len(block) < 90 and not any(c.islower() for c in letters)
    numbered = _HEADING.match(block)
    return shouted or (numbered is not None and numbered[2] is not None and len(block) < 90)


def clean(block: str) -> str:
    """One hard-wrapped block as one line: plain quotes and dashes, no emphasis marks, single spaces."""
    text = block.translate(_ASCII).replace("_", "")
    text = re.sub(r"\[(illustration|footnote)[^\]]*\]", "", text, flags=re.IGNORECASE)
    text = re.sub(r"``|''", '"', text).replace("`", "'").replace("*", "")
    return re.sub(r"\s+", " ", text).strip()


def passages(lines: list[str]) -> list[list[str]]:
    """Chapters as lists of paragraphs."""
    chapters: list[list[str]] = [[]]
    for block in re.split(r"\n\s*\n", "\n".join(lines)):
        paragraph = clean(block)
        if not paragraph or is_heading(paragraph):
            if paragraph and chapters[-1] and any(c.isalnum() for c in paragraph):
                chapters.append([])
        else:
            chapters[-1].append(paragraph)
    return [chapter for chapter in chapters if chapter]


def split(chapters: list[list[str]]) -> tuple[str, str, str]:
    """(train, valid, heldout): a paragraph belongs to the part in which it ends."""
    total = sum(len(paragraph) for chapter in chapters for paragraph in chapter)
    parts: tuple[list[list[str]], ...] = ([], [], [])
    seen = 0
    for chapter in chapters:
        fresh = [True, True, True]
        for paragraph in chapter:
            seen += len(paragraph)
            part = 0 if seen <= VALID_FROM * total else 1 if seen <= HELDOUT_FROM * total else 2
            if fresh[part]:
                parts[part].append([])
                fresh[part] = False
            parts[part][-1].append(paragraph)
    train, valid, heldout = (f"\n\n{END}\n\n".join("\n\n".join(passage) for passage in part) for part in parts)
    return train, valid, heldout


def download(package: str, folder: Path) -> tuple[Path, dict[str, str]]:
    """Fetch a Debian package by name and unpack it below `folder`; returns its root and what it is."""
    root = folder / package
    root.mkdir(parents=True, exist_ok=True)
    if not list(root.glob("*.deb")):
        subprocess.run(["apt-get", "download", package], cwd=root, check=True, stdout=subprocess.DEVNULL)
    archive = sorted(root.glob("*.deb"))[-1]
    tree = root / "tree"
    subprocess.run(["dpkg-deb", "-x", str(archive), str(tree)], check=True)
    version = subprocess.run(
        ["dpkg-deb", "-f", str(archive), "Version"], check=True, capture_output=True, text=True
    ).stdout.strip()
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    return tree, {"package": package, "version": version, "sha256": digest}


def _r_value(serialised: bytes) -> Any:
    import rdata

    return rdata.conversion.convert(rdata.parser.parse_data(serialised, extension=".rds"))


def r_objects(tree: Path) -> Iterator[tuple[str, str]]:
    """(name, text) of every character vector in an installed R package's lazy-load data base (data/Rdata.rd[bx])."""
    for index_file in sorted(tree.rglob("data/Rdata.rdx")):
        content = index_file.with_suffix(".rdb").read_bytes()
        index = _r_value(zlib.decompress(index_file.read_bytes(), wbits=47))
        for name, (offset, size) in index["variables"].items():
            # Four bytes of unpacked size, then a zlib stream: R's compression type 1, which these packages use.
            stream = content[int(offset) + 4 : int(offset) + int(size)]
            value = _r_value(zlib.decompress(stream))
            yield str(name), "\n".join(str(line) for line in value)


def read_member(tree: Path, book: Book) -> str:
    """The raw text of one book from its unpacked package."""
    if book.member.endswith(".txt"):
        found = sorted(tree.rglob(book.member))
        if not found:
            raise ValueError(f"{book.package}: expected a file named {book.member}, got none")
        return found[0].read_text(encoding="utf-8-sig")
    texts = dict(r_objects(tree))
    if book.member not in texts:
        raise ValueError(f"{book.package}: expected an R object named {book.member}, got {sorted(texts)}")
    return texts[book.member]


def build(out: Path) -> None:
    """Write train.txt, valid.txt, heldout.txt, sources.json and the packages' copyright files."""
    (out / "copyright").mkdir(parents=True, exist_ok=True)
    trees: dict[str, tuple[Path, dict[str, str]]] = {}
    parts: tuple[list[str], ...] = ([], [], [])
    sources = []
    for book in BOOKS:
        if book.package not in trees:
            trees[book.package] = download(book.package, out / "packages")
            notice = trees[book.package][0] / "usr/share/doc" / book.package / "copyright"
            (out / "copyright" / f"{book.package}.txt").write_bytes(notice.read_bytes())
        tree, origin = trees[book.package]
        texts = split(passages(prose_lines(read_member(tree, book), book.first, book.last)))
        for part, text in zip(parts, texts, strict=True):
            part.append(text)
        sizes = dict(zip(("train_bytes", "valid_bytes", "heldout_bytes"), (len(t.encode()) for t in texts), strict=True))
        sources.append({key: asdict(book)[key] for key in ("title", "author", "year", "member")} | origin | sizes)
        print(f"{book.title}: " + ", ".join(f"{name} {size}" for name, size in sizes.items()), file=sys.stderr)
    for name, part in zip(("train", "valid", "heldout"), parts, strict=True):
        (out / f"{name}.txt").write_text(f"\n\n{END}\n\n".join(part) + "\n", encoding="utf-8")
    (out / "sources.json").write_text(json.dumps(sources, indent=1) + "\n")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(".corpus"), help="folder to write (default .corpus)")
    build(parser.parse_args().out)


if __name__ == "__main__":
    main()
