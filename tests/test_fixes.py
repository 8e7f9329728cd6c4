"""Which fixes go in together, when they count as unsafe, and how a file is written."""

from __future__ import annotations

import ast
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptlint import fixes
from ptlint.findings import Edit, Finding, Fix, Position, Safety
from ptlint.fixes.splice import collide
from ptlint.outline.statements import outline
from ptlint.source.text import SourceFile, read_source, source_from_bytes, source_from_text

SAFE, UNSAFE = Safety.SAFE, Safety.UNSAFE


def source(text: str, name: str = "sample.py") -> SourceFile:
    return source_from_text(Path(name), text)


def finding(
    *edits: Edit,
    safety: Safety = SAFE,
    imports: tuple[str, ...] = (),
    code: str = "PTL101",
    filename: str = "sample.py",
) -> Finding:
    fix = Fix("Change it", safety, edits, imports)
    return Finding(code, "some-rule", "it is slow", filename, Position(1, 1), Position(1, 2), fix=fix)


def replaced(text: str, old: str, new: str, **more: object) -> Finding:
    start = text.index(old)
    return finding(Edit(start, start + len(old), new), **more)  # type: ignore[arg-type]


def is_unsafe(found: Finding, text: str) -> bool:
    fix = fixes.demote(found, text).fix
    assert fix is not None
    return fix.safety is UNSAFE


# Safety

DEMOTED = {
    "comment goes": ("f(a,  # why\n  b)\n", "a,  # why\n  b", "a, b", True),
    "comment stays": ("f(a,  # why\n  b)\n", "a,  # why\n  b", "b,  # why\n  a", False),
    "hash in a string": ("f('# no')\n", "'# no'", "a", False),
    "comment outside": ("f(a)  # why\n", "a", "b", False),
    "bare hash": ("f(a,  #\n  b)\n", "a,  #\n  b", "a, b", False),
    "comment after CR": ("f(a, # x\r b)\r", "a, # x\r b", "a", True),
    "in an f-string": ("x = f'{a}'\n", "a", "b", True),
    "in a raw f-string": ("x = Rf'{a}'\n", "a", "b", True),
    "behind an f-string": ("x = f'{c}', a\n", "a", "b", False),
    "in front of an f-string": ("x = a, f'{c}'\n", "a", "b", False),
    "the whole f-string": ("x = f'{a}'\n", "f'{a}'", "b", False),
    "in a long f-string": ('x = f"""\n\n{a}\n"""\n', "a", "b", True),
    "behind a long f-string": ('x = f"""\n\n{c}\n"""\na\n', "\na", "\nb", False),
    "in a plain string": ("x = '{a}'\n", "a", "b", False),
    "a name that ends in f": ("f('', a)\n", "a", "b", False),
    "f-string in an f-string": ("x = f'{f\"{a}\"}'\n", "a", "b", True),
}


@pytest.mark.parametrize(("text", "old", "new", "unsafe"), DEMOTED.values(), ids=DEMOTED)
def test_demote(text: str, old: str, new: str, unsafe: bool) -> None:
    assert is_unsafe(replaced(text, old, new), text) is unsafe


@pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
def test_demote_in_an_f_string_of_several_rows() -> None:
    text = "x = f'{\n  a\n}'\n"
    assert is_unsafe(replaced(text, "a", "b"), text)


def test_a_comment_that_another_edit_puts_back_is_not_lost() -> None:
    text = "a  # why\nb\n"
    assert not is_unsafe(finding(Edit(0, 9, ""), Edit(11, 11, "  # why\n")), text)


def test_fixes_about_comments_are_not_demoted() -> None:
    text = "a  # noqa: PTL201\n"
    assert not is_unsafe(finding(Edit(1, 17, ""), code="PTL001"), text)


def test_demote_leaves_what_has_no_fix() -> None:
    bare = Finding("PTL101", "some-rule", "it is slow", "a.py", Position(1, 1), Position(1, 2))
    assert fixes.demote(bare, "a") is bare


# One round


def test_fixes_apart_go_in_together() -> None:
    text = "a\nb\n"
    done = fixes.fix_round(source(text), [replaced(text, "b", "d"), replaced(text, "a", "c")])
    assert done.text == "c\nd\n"
    assert len(done.applied) == 2


def test_the_later_of_two_that_overlap_waits() -> None:
    text = "f(a, b)\n"
    first, second = replaced(text, "f(a, b)", "g(a, b)"), replaced(text, "b", "c")
    done = fixes.fix_round(source(text), [second, first])
    assert done.text == "g(a, b)\n"
    assert done.applied == (first,)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Edit(0, 2, ""), Edit(2, 3, ""), False),
        (Edit(0, 2, ""), Edit(1, 3, ""), True),
        (Edit(2, 2, "x"), Edit(2, 2, "y"), True),
        (Edit(2, 2, "x"), Edit(2, 3, ""), True),
        (Edit(2, 2, "x"), Edit(0, 2, ""), True),
        (Edit(2, 2, "x"), Edit(3, 4, ""), False),
        (Edit(2, 2, "x"), Edit(3, 3, ""), False),
    ],
)
def test_what_collides(first: Edit, second: Edit, expected: bool) -> None:
    assert collide(first, second) is expected
    assert collide(second, first) is expected


def test_all_edits_of_a_fix_go_in_or_none() -> None:
    text = "abcd\n"
    one = finding(Edit(1, 2, "B"))
    two = finding(Edit(1, 2, "x"), Edit(3, 4, "D"), code="PTL102")
    assert fixes.fix_round(source(text), [two, one]).text == "aBcd\n"


def test_unsafe_fixes_only_when_asked_for() -> None:
    text = "a\nb  # why\n"
    findings = [replaced(text, "a", "c", safety=UNSAFE), replaced(text, "b  # why", "d")]
    assert fixes.fix_round(source(text), findings).text == text
    assert fixes.fix_round(source(text), findings, unsafe=True).text == "c\nd\n"


def test_imports_are_added_once() -> None:
    text = "import torch\n\na\nb\n"
    findings = [
        replaced(text, "\na", "\nos.a", imports=("import os",)),
        replaced(text, "\nb", "\nos.b(re)", imports=("import os", "import re")),
    ]
    assert fixes.fix_round(source(text), findings).text == "import os\nimport re\n\nimport torch\n\nos.a\nos.b(re)\n"


def test_an_import_goes_in_front_of_what_else_is_put_there() -> None:
    text = "import torch\na\n"
    found = finding(Edit(13, 13, "\nb\n"), imports=("import zlib", "import torch.amp"))
    assert fixes.fix_round(source(text), [found]).text == "import zlib\n\nimport torch\nimport torch.amp\n\nb\na\n"


def test_a_fix_whose_import_cannot_be_placed_is_left_out() -> None:
    text = "os = 1\na\n"
    found = replaced(text, "a", "os.b", imports=("import os",))
    assert fixes.fix_round(source(text), [found]) == fixes.Round(text)


def test_an_import_does_not_go_into_a_replaced_row() -> None:
    text = "import abc\nimport torch\n"
    outer = finding(Edit(0, len(text), "import abc\nimport torch as t\n"))
    inner = finding(Edit(len(text), len(text), "os.a\n"), imports=("import os",), code="PTL102")
    done = fixes.fix_round(source(text), [outer, inner])
    assert done.applied == (outer,)


def test_a_result_that_does_not_parse_is_dropped_and_reported() -> None:
    text = "a\nb\nc\n"
    broken = replaced(text, "b", "(", code="PTL202")
    done = fixes.fix_round(source(text), [replaced(text, "a", "x"), broken, replaced(text, "c", "y")])
    assert done.text == "x\nb\ny\n"
    (failure,) = done.failures
    assert failure.code == "PTL000"
    assert "PTL202" in failure.message
    again = fixes.fix_round(source(text), [broken], leave_out=done.broken)
    assert again == fixes.Round(text)


@pytest.mark.parametrize("edits", [(), (Edit(0, 99, ""),), (Edit(0, 2, "x"), Edit(1, 2, "y")), (Edit(2, 1, ""),)])
def test_edits_that_make_no_sense_are_reported(edits: tuple[Edit, ...]) -> None:
    done = fixes.fix_round(source("abc\n"), [finding(*edits)])
    assert done.text == "abc\n"
    assert [failure.code for failure in done.failures] == ["PTL000"]


def test_a_file_that_ast_refuses_is_held_to_libcst() -> None:
    newer = "async def f():\n  return [await x for x in y]\nprint(a)\nclass A[T]: pass\n"
    try:
        ast.parse(newer)
    except SyntaxError:
        done = fixes.fix_round(source(newer), [replaced(newer, "print(a)", "print(b)")])
        assert "print(b)" in done.text
        done = fixes.fix_round(source(newer), [replaced(newer, "print(a)", "print(b")])
        assert done.text == newer
        assert done.failures


def test_a_file_that_cannot_be_written_back_is_left_alone() -> None:
    made = SourceFile(Path("a.py"), "a\n", "utf-7", exact=False)
    assert fixes.fix_round(made, [replaced("a\n", "a", "b")]).text == "a\n"


EDITS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 4), st.sampled_from(["", "x", "(", "x\n"])), max_size=3)


@settings(max_examples=300, deadline=None)
@given(st.lists(EDITS, max_size=6))
def test_a_round_leaves_text_that_parses(drawn: list[list[tuple[int, int, str]]]) -> None:
    text = "ab = cd\nef(gh)\n"
    findings = [
        finding(*(Edit(start, start + length, new) for start, length, new in edits), code=f"PTL10{index}")
        for index, edits in enumerate(drawn)
    ]
    done = fixes.fix_round(source(text), findings)
    ast.parse(done.text)
    edits = [edit for item in done.applied if item.fix for edit in item.fix.edits]
    assert done.text == fixes.apply_edits(text, edits)
    assert {*done.applied}.isdisjoint({*done.failures})


# Rounds


@dataclass
class Report:
    findings: list[Finding]
    sources: dict[str, SourceFile]


class Program:
    """A program whose findings are made from its texts by `(pattern, new text)` pairs."""

    def __init__(self, texts: Mapping[str, str], rewrites: Iterable[tuple[str, str]]) -> None:
        self.texts = dict(texts)
        self.rewrites = list(rewrites)
        self.runs = 0

    def lint(self, overlay: Mapping[Path, str]) -> Report:
        self.runs += 1
        sources = {name: source(overlay.get(Path(name), text), name) for name, text in self.texts.items()}
        return Report(
            [
                finding(Edit(match.start(), match.end(), new), filename=name, code=f"PTL10{index}")
                for name, made in sources.items()
                for index, (pattern, new) in enumerate(self.rewrites)
                for match in re.finditer(pattern, made.text)
            ],
            sources,
        )


def test_rounds_go_on_until_nothing_is_left() -> None:
    program = Program({"a.py": "one, one\n", "b.py": "two\n", "c.py": "x\n"}, [("one", "two"), ("two", "three")])
    fixed = fixes.fix_to_fixpoint(program.lint)
    assert fixed.texts == {"a.py": "three, three\n", "b.py": "three\n"}
    assert fixed.originals["a.py"].text == "one, one\n"
    assert len(fixed.applied["a.py"]) == 4
    assert fixed.report.findings == []
    assert program.runs == 3


def test_a_text_that_comes_back_ends_it() -> None:
    program = Program({"a.py": "one\n"}, [("one", "two"), ("two", "one")])
    fixed = fixes.fix_to_fixpoint(program.lint)
    assert fixed.texts == {"a.py": "two\n"}
    assert program.runs == 2


def test_there_are_ten_rounds_at_most() -> None:
    program = Program({"a.py": "x = 0\n"}, [(r"\n\Z", " + 1\n")])
    fixed = fixes.fix_to_fixpoint(program.lint)
    assert fixed.texts == {"a.py": "x = 0" + " + 1" * 10 + "\n"}
    assert fixed.report.findings


def test_a_broken_fix_is_reported_once() -> None:
    program = Program({"a.py": "one, two\n"}, [("one", "("), ("two", "three"), ("three", "four")])
    fixed = fixes.fix_to_fixpoint(program.lint)
    assert fixed.texts == {"a.py": "one, four\n"}
    assert [failure.code for failure in fixed.failures] == ["PTL000"]


def test_nothing_to_fix() -> None:
    fixed = fixes.fix_to_fixpoint(Program({"a.py": "x\n"}, []).lint)
    assert (fixed.texts, fixed.originals, fixed.applied, fixed.failures) == ({}, {}, {}, ())


# What a report shows


def test_complete_puts_the_imports_into_the_edits() -> None:
    text = "import torch\na  # why\n"
    found = fixes.complete(replaced(text, "a  # why", "os.a", imports=("import os",)), source(text), outline(text))
    assert found.fix is not None
    assert found.fix.safety is UNSAFE
    assert found.fix.imports == ()
    assert fixes.apply_edits(text, found.fix.edits) == "import os\n\nimport torch\nos.a\n"


def test_complete_withholds_a_fix_whose_import_cannot_be_placed() -> None:
    text = "os = 1\na\n"
    found = fixes.complete(replaced(text, "a", "os.b", imports=("import os",)), source(text), outline(text))
    assert found.fix is None
    assert "`os`" in found.withheld


# Diffs

DIFFED = [
    ("a\nb\n", "a\nc\n"),
    ("a", "b"),
    ("a\n", "a"),
    ("a", "a\n"),
    ("a\r\nb\r\n", "a\r\n"),
    ("a\rb\r", "a\rc\r"),
    ("", "a\n"),
]


@pytest.mark.parametrize(("before", "after"), DIFFED)
def test_git_applies_the_diff(before: str, after: str, tmp_path: Path) -> None:
    target = tmp_path / "a.py"
    target.write_bytes(before.encode())
    patch = fixes.unified_diff("a.py", before, after).encode()
    subprocess.run(["git", "apply", "-p0", "-"], input=patch, cwd=tmp_path, check=True)
    assert target.read_bytes() == after.encode()


def test_no_change_is_no_diff() -> None:
    assert fixes.unified_diff("a.py", "a\n", "a\n") == ""


# Writing


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbfa\r\nb",
        "# -*- coding: latin-1 -*-\ns = 'é'\n".encode("latin-1"),
        "# coding: cp1252\r\ns = '€'".encode("cp1252"),
        "s = '😀'\r".encode(),
    ],
)
def test_write_keeps_encoding_and_line_ends(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(data)
    made = read_source(path)
    fixes.write(made, made.text + "x")
    assert path.read_bytes() == data + b"x"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.py"]


def test_write_keeps_the_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"a\n")
    path.chmod(0o754)
    fixes.write(read_source(path), "b\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o754


def test_write_replaces_the_target_of_a_link(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    target = folder / "a.py"
    target.write_bytes(b"a\n")
    link = tmp_path / "link.py"
    link.symlink_to(target)
    fixes.write(read_source(link), "b\n")
    assert link.is_symlink()
    assert target.read_bytes() == b"b\n"


def test_write_refuses_a_file_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"a\n")
    made = read_source(path)
    path.write_bytes(b"theirs\n")
    with pytest.raises(fixes.WriteError):
        fixes.write(made, "b\n")
    assert path.read_bytes() == b"theirs\n"


def test_write_refuses_a_file_that_vanished(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"a\n")
    made = read_source(path)
    path.unlink()
    with pytest.raises(fixes.WriteError):
        fixes.write(made, "b\n")
    assert list(tmp_path.iterdir()) == []


def test_write_refuses_what_the_encoding_lacks(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: latin-1\n")
    with pytest.raises(fixes.WriteError):
        fixes.write(read_source(path), "# coding: latin-1\n'€'\n")
    assert path.read_bytes() == b"# coding: latin-1\n"


def test_write_refuses_text_that_would_not_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"# coding: utf-7\nx = '+AOk-'\n")
    made = source_from_bytes(path, path.read_bytes())
    if not made.exact:
        with pytest.raises(fixes.WriteError):
            fixes.write(made, made.text)


def test_a_failed_write_leaves_the_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"a\n")
    made = read_source(path)

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(fixes.WriteError, match="No space"):
        fixes.write(made, "b\n")
    assert path.read_bytes() == b"a\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.py"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is read-only to root")
def test_write_refuses_a_read_only_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"a\n")
    path.chmod(0o444)
    with pytest.raises(fixes.WriteError):
        fixes.write(read_source(path), "b\n")
