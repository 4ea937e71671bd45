"""Tracked files: not too long, no machine's paths, no registry's hosts; and README and docs hold code that runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONGEST = 500
# Written in pieces, so that this file does not hold them itself.
MACHINE = [f"/{p}/" for p in ("work", "root", "home", "opt/pypi", "tmp/v1")]
HOSTS = [
    ".".join(p)
    for p in (("pypi", "org"), ("pythonhosted", "org"), ("proxy", "golang", "org"), ("index", "url"), ("extra", "index"))
]


def tracked():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a git checkout")
    return [path for path in listed.stdout.splitlines() if (ROOT / path).is_file()]


def text_of(path):
    try:
        return (ROOT / path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_source_files_are_shorter_than_500_lines():
    sources = [path for path in tracked() if path.endswith((".py", ".h", ".cpp"))]
    assert len(sources) > 50
    long = {path: count for path in sources if (count := len(text_of(path).splitlines())) >= LONGEST}
    assert not long


def offending(text):
    return [word for word in (*MACHINE, *HOSTS) if re.search(rf"(?<![\w.$}}~-]){re.escape(word)}", text)]


def test_no_tracked_file_holds_a_machine_path_or_a_registry_host():
    sources = [
        p
        for p in tracked()
        if p.endswith((".py", ".h", ".cpp", ".md", ".toml", ".txt", ".def", ".sh")) or "." not in Path(p).name
    ]
    assert not {path: words for path in sources if (words := offending(text_of(path)))}


@pytest.mark.parametrize(
    "text", ["see " + MACHINE[0] + "main/x", "open('" + MACHINE[2] + "me/x')", "https://" + HOSTS[0] + "/simple"]
)
def test_a_planted_one_is_found(text):
    assert offending(text) or offending(text.replace("https://", " "))


NEEDS_TORCH = "# needs torch"


def blocks():
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        for number, match in enumerate(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
            marks = [pytest.mark.torch] if NEEDS_TORCH in match[1] else []  # also run where torch is
            yield pytest.param(match[1], id=f"{path.relative_to(ROOT)}-{number}", marks=marks)


@pytest.mark.parametrize("code", list(blocks()))
def test_a_python_block_of_the_docs_runs(code, tmp_path):
    if NEEDS_TORCH in code:
        pytest.importorskip("torch", reason="torch is not installed")
    (tmp_path / "models").symlink_to(ROOT / "models")  # the docs name models/demo
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
