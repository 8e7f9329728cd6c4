"""Rule fixtures: programs with `# expect:` markers on the lines where a rule must speak.

`tests/fixtures/PTLnnn/` holds `bad_*.py` (with markers), `bad_*.fixed.py` (the text after all fixes) and
`good_*.py` (silent, the name says why). A folder `bad_x/` with `bad_x.fixed/` is a program of several files. A `.toml`
of the same stem holds settings as ptlint.toml does. A marker is

    code()  # expect: PTL102 @9 safe, PTL201 @17 unsafe preview

with the column of the finding, `safe` or `unsafe` where it has a fix, and `preview` where only `--preview` shows it.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from ptlint import config as configs
from ptlint.findings import Finding
from ptlint.registry import INTERNAL_ERROR
from ptlint.runner import Outcome, Request, run
from ptlint.source.text import SourceFile, read_source, source_from_bytes
from ptlint.suppression import comment_row

FOLDER = Path(__file__).parent / "fixtures"

_MARKER = re.compile(r"[ \t]*#[ \t]*expect:[ \t]*(?P<list>[^\r\n]*)")
_EXPECTED = re.compile(r"(PTL\d{3}) @(\d+)(?: (safe|unsafe))?( preview)?\Z")


class Expected(NamedTuple):
    """One marker, or what a finding would be marked with."""

    file: str
    row: int
    column: int
    code: str
    safety: str
    preview: bool

    @property
    def marker(self) -> str:
        return f"{self.code} @{self.column}{self.safety and ' ' + self.safety}{' preview' if self.preview else ''}"


@dataclass(frozen=True)
class Fixture:
    """A file or folder below `fixtures/PTLnnn/`."""

    path: Path

    @property
    def code(self) -> str:
        return self.path.parent.name

    @property
    def name(self) -> str:
        return f"{self.code}/{self.path.stem}"

    @property
    def bad(self) -> bool:
        return self.path.name.startswith("bad_")

    @property
    def fixed(self) -> Path:
        return self.path.with_name(f"{self.path.stem}.fixed{self.path.suffix}")

    @property
    def settings(self) -> Path:
        return self.path.with_name(f"{self.path.stem}.toml")

    def files(self) -> dict[str, SourceFile]:
        """The program's Python files as written, by their path in it."""
        return python_files(self.path)

    def expected(self) -> list[Expected]:
        """What the markers say, in order."""
        return sorted(item for name, source in self.files().items() for item in _markers(name, source))

    def copy(self, folder: Path) -> Path:
        """The program below `folder`, without its markers."""
        for name, source in self.files().items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.encode(stripped(source.text)))
        if self.path.is_dir():
            for other in self.path.rglob("*"):
                if other.is_file() and other.suffix != ".py":
                    shutil.copy(other, folder / other.relative_to(self.path))
        return folder

    def lint(self, folder: Path, *, fix: bool = False, every_rule: bool = False) -> Outcome:
        """Run ptlint on a copy: the folder's own rule unless the settings say more, previews shown."""

        def override(config: configs.Config) -> configs.Config:
            given = self._given()
            if every_rule:
                config = replace(config, select=("ALL",))
            elif "select" not in given:
                config = replace(config, select=(self.code,))
            preview = every_rule or given.get("preview", True) is True
            return replace(config, preview=preview, fix=fix, unsafe_fixes=fix)

        settings = self.settings if self.settings.exists() else None
        return run(Request((folder,), config_file=settings, isolated=settings is None, root=folder, override=override))

    def update(self, scratch: Path) -> None:
        """Rewrite the markers and the fixed text to what ptlint says now."""
        folder = self.copy(scratch)
        findings = self.lint(folder).report.findings
        failed = [finding.message for finding in findings if finding.code == INTERNAL_ERROR]
        if failed:
            raise ValueError(f"{self.name}: {failed[0]}")
        found = expected_of(findings, folder)
        if self.bad:
            for name, source in self.files().items():
                path = self.path / name if self.path.is_dir() else self.path
                marked = _with_markers(source.with_text(stripped(source.text)), [e for e in found if e.file == name])
                path.write_bytes(source.encode(marked))
        if self.fixed.is_dir():
            shutil.rmtree(self.fixed)
        else:
            self.fixed.unlink(missing_ok=True)
        if any(item.safety for item in found):
            self.lint(folder, fix=True)
            if self.path.is_dir():
                shutil.copytree(folder, self.fixed)
            else:
                shutil.copy(folder / self.path.name, self.fixed)

    def _given(self) -> dict[str, object]:
        if not self.settings.exists():
            return {}
        if sys.version_info >= (3, 11):
            import tomllib
        else:
            import tomli as tomllib
        return tomllib.loads(self.settings.read_text(encoding="utf-8"))


def fixtures() -> list[Fixture]:
    """All of them, in order."""
    found = [
        Fixture(path)
        for path in FOLDER.glob("PTL*/*")
        if path.name.startswith(("bad_", "good_"))
        and ".fixed" not in path.name
        and (path.is_dir() or path.suffix == ".py")
    ]
    return sorted(found, key=lambda fixture: fixture.path)


def python_files(path: Path) -> dict[str, SourceFile]:
    """The Python files of a file or folder, by relative path; text that is no Python is kept as bytes are."""
    paths = sorted(path.rglob("*.py")) if path.is_dir() else [path]
    base = path if path.is_dir() else path.parent
    return {found.relative_to(base).as_posix(): _read(found) for found in paths}


def stripped(text: str) -> str:
    """A fixture's text without its markers."""
    return _MARKER.sub("", text)


def expected_of(findings: Iterable[Finding], folder: Path) -> list[Expected]:
    """Findings as markers would say them."""
    found = []
    for finding in findings:
        name = Path(finding.filename).absolute().relative_to(folder).as_posix()
        safety = finding.fix.safety.value if finding.fix else ""
        found.append(
            Expected(name, finding.location.row, finding.location.column, finding.code, safety, finding.preview)
        )
    return sorted(found)


def _read(path: Path) -> SourceFile:
    data = path.read_bytes()
    # Fixtures of PTL002 may hold what no source may hold: read those as bytes, one character each.
    try:
        return read_source(path)
    except Exception:  # noqa: BLE001
        return replace(source_from_bytes(path, b""), text=data.decode("latin-1"), encoding="latin-1")


def _markers(name: str, source: SourceFile) -> Iterator[Expected]:
    for match in _MARKER.finditer(source.text):
        row = source.position(match.start()).row
        for word in match["list"].split(","):
            read = _EXPECTED.match(word.strip())
            if read is None:
                raise ValueError(f"{source.path}:{row}: `{word.strip()}` is not CODE @COLUMN [safe|unsafe] [preview]")
            code, column, safety, preview = read.groups()
            yield Expected(name, row, int(column), code, safety or "", preview is not None)


def _with_markers(source: SourceFile, expected: list[Expected]) -> str:
    by_row = defaultdict(list)
    for item in expected:
        by_row[item.row].append(item)
    text = source.text
    for row, items in sorted(by_row.items(), reverse=True):
        if comment_row(source, row) != row:
            raise ValueError(f"{source.path}:{row}: no marker can stand at this row's end; write the fixture otherwise")
        end = source.offset(row) + len(source.line(row))
        text = f"{text[:end]}  # expect: {', '.join(item.marker for item in items)}{text[end:]}"
    return text
