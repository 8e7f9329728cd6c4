"""The command line as its users meet it: what is printed where, and the exit status."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ptlint import __version__
from ptlint.cli import main

UNUSED = "x = 1  # ptlint: ignore\n"
BROKEN = "for batch in loader\n    step(batch)\n"


class Run(NamedTuple):
    status: int
    out: str
    err: str


class Ptlint:
    """`ptlint` in a scratch folder."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._capfd = capfd
        self._monkeypatch = monkeypatch

    def __call__(self, *words: str, stdin: str | None = None) -> Run:
        if stdin is not None:
            self._monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        self._capfd.readouterr()
        status = main(words)
        captured = self._capfd.readouterr()
        assert "Traceback" not in captured.err
        return Run(status, captured.out, captured.err)

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


@pytest.fixture
def ptlint(tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ptlint:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (tmp_path / ".git").mkdir()
    return Ptlint(tmp_path, capfd, monkeypatch)


def test_a_clean_file(ptlint: Ptlint) -> None:
    ptlint.write("a.py", "x = 1\n")
    assert ptlint("a.py") == Run(0, "Nothing found in 1 file.\n", "")
    assert ptlint("check", "a.py") == Run(0, "Nothing found in 1 file.\n", "")
    assert ptlint() == Run(0, "Nothing found in 1 file.\n", "")


def test_no_python_file_is_a_warning(ptlint: Ptlint) -> None:
    (ptlint.folder / "empty").mkdir()
    run = ptlint("empty")
    assert run.status == 0
    assert run.err.startswith("ptlint: warning: no Python file")


def test_findings_exit_with_one_and_exit_zero_masks_it(ptlint: Ptlint) -> None:
    ptlint.write("a.py", UNUSED)
    run = ptlint("a.py", "--output-format", "concise")
    assert run.status == 1
    assert run.out.splitlines()[0] == "a.py:1:8: PTL001 [*] this comment suppresses nothing"
    assert ptlint("a.py", "--exit-zero").status == 0


def test_a_syntax_error_is_a_finding_and_the_rest_is_linted(ptlint: Ptlint) -> None:
    ptlint.write("a.py", BROKEN)
    ptlint.write("b.py", UNUSED)
    run = ptlint(".", "--output-format", "concise")
    assert run.status == 1
    assert run.out.splitlines()[0].startswith("a.py:1:")
    assert "PTL002" in run.out.splitlines()[0]
    assert "b.py:1:8: PTL001" in run.out
    assert ptlint("a.py", "--ignore", "PTL002").status == 0
    assert ptlint("a.py", "--select", "PTL003").status == 1


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\xff\xfe\x00", id="undecodable"),
        pytest.param(b"x = 1\x00\n", id="NUL"),
        pytest.param(b"# -*- coding: no-such -*-\n", id="unknown encoding"),
        pytest.param(b"x = " + b"(" * 5000 + b")" * 5000, id="5,000 nested brackets"),
        pytest.param(b"x = '" + b"a" * 10_000_000 + b"'\n", id="10 MB on one line"),
        pytest.param(b"def f(:\n", id="syntax"),
    ],
)
def test_bad_input_is_one_finding(ptlint: Ptlint, data: bytes) -> None:
    ptlint.write("bad.py", data)
    ptlint.write("good.py", "x = 1\n")
    run = ptlint(".", "--output-format", "json")
    assert run.status == 1
    assert [(row["filename"], row["code"]) for row in json.loads(run.out)] == [("bad.py", "PTL002")]
    assert run.err == ""


@pytest.mark.parametrize("data", [b"", b"\n", b"\xef\xbb\xbf", b"# only a comment", b"\x0c\n"])
def test_empty_files_are_clean(ptlint: Ptlint, data: bytes) -> None:
    ptlint.write("a.py", data)
    assert ptlint("a.py").status == 0


@pytest.mark.skipif(os.getuid() == 0, reason="root reads everything")
def test_an_unreadable_file(ptlint: Ptlint) -> None:
    ptlint.write("a.py", "x = 1\n").chmod(0)
    run = ptlint("a.py", "--output-format", "concise")
    assert run.status == 1
    assert "PTL002" in run.out


def test_a_symlink_loop(ptlint: Ptlint) -> None:
    ptlint.write("sub/a.py", "x = 1\n")
    (ptlint.folder / "sub" / "loop").symlink_to("..", target_is_directory=True)
    assert ptlint(".") == Run(0, "Nothing found in 1 file.\n", "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        pytest.param(["--selct", "PTL1"], "--select", id="unknown option"),
        pytest.param(["--output-format", "jsonlines"], "did you mean `json-lines`?", id="unknown format"),
        pytest.param(["--select", "PTL999"], "'--select': unknown rule `PTL999`", id="unknown code"),
        pytest.param(["--per-file-ignores", "a.py:PTL999"], "unknown rule `PTL999`", id="unknown code in a pair"),
        pytest.param(["--select", "unused-supression"], "did you mean `unused-suppression`?", id="near name"),
        pytest.param(["--per-file-ignores", "a.py"], "GLOB:CODE", id="not a pair"),
        pytest.param(["--torch-version", "two"], "must be a version", id="not a version"),
        pytest.param(["--root", "nowhere"], "nowhere", id="no such root"),
        pytest.param(["--config", "nowhere.toml"], "nowhere.toml", id="no such config"),
        pytest.param(["--isolated", "--config", "a.py"], "exclude each other", id="contradiction"),
        pytest.param(["--stdin-filename", "x.py"], "needs `-`", id="no stdin"),
        pytest.param(["--output-file", "no/such/folder"], "no/such/folder", id="no such folder"),
        pytest.param(["--output-file", "no/such/file"], "error: --output-file: ", id="a report that cannot be written"),
        pytest.param(["missing.py"], "missing.py", id="missing path"),
        pytest.param([""], "the path is empty", id="empty path"),
    ],
)
def test_wrong_use_is_one_line_and_two(ptlint: Ptlint, words: list[str], said: str) -> None:
    ptlint.write("a.py", "x = 1\n")
    run = ptlint("a.py", *words, "--exit-zero")
    assert run.status == 2
    assert run.err.startswith("ptlint: error: ")
    assert said in run.err
    assert run.err.count("\n") == 1


def test_a_mistyped_command(ptlint: Ptlint) -> None:
    run = ptlint("chek", ".")
    assert run == Run(2, "", "ptlint: error: no such command or path `chek`; did you mean `check`?\n")


def test_a_missing_path_does_not_cost_the_others(ptlint: Ptlint) -> None:
    ptlint.write("a.py", UNUSED)
    run = ptlint("a.py", "missing.py", "--output-format", "concise")
    assert run.status == 2
    assert "a.py:1:8: PTL001" in run.out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[tool.ptlint]\nselct = []\n", "unknown key `selct`; did you mean `select`?"),
        ("[tool.ptlint]\nselect = ['PTL999']\n", "unknown rule `PTL999`"),
        ("[tool.ptlint\n", "not valid TOML"),
    ],
)
def test_a_broken_config_is_one_line_and_two(ptlint: Ptlint, text: str, said: str) -> None:
    ptlint.write("pyproject.toml", text)
    ptlint.write("a.py", "x = 1\n")
    run = ptlint("a.py")
    assert run.status == 2
    assert run.out == ""
    assert run.err.startswith("ptlint: error: ")
    assert "error: " + str(ptlint.folder / "pyproject.toml") in run.err
    assert said in run.err
    assert run.err.count("\n") == 1
    assert ptlint("a.py", "--isolated").status == 0


def test_config_of_the_nearest_folder_counts(ptlint: Ptlint) -> None:
    ptlint.write("ptlint.toml", "ignore = ['PTL001']\n")
    ptlint.write("a.py", UNUSED)
    ptlint.write("inner/ptlint.toml", "")
    ptlint.write("inner/b.py", UNUSED)
    assert "inner/b.py" in ptlint(".", "--output-format", "concise").out
    assert "\na.py" not in "\n" + ptlint(".", "--output-format", "concise").out


def test_select_of_the_command_line_starts_afresh(ptlint: Ptlint) -> None:
    ptlint.write("ptlint.toml", "ignore = ['PTL001']\n")
    ptlint.write("a.py", "x = 1  # ptlint: ignore[PTL998]\n" + UNUSED)
    assert "PTL001" not in ptlint("a.py", "--output-format", "concise").out
    assert "PTL001" in ptlint("a.py", "--select", "ALL", "--output-format", "concise").out
    assert ptlint("a.py", "--ignore", "PTL003").status == 0


def test_per_file_ignores_and_exclude(ptlint: Ptlint) -> None:
    ptlint.write("scripts/a.py", UNUSED)
    ptlint.write("b.py", "x = 1\n")
    assert ptlint(".").status == 1
    assert ptlint(".", "--per-file-ignores", "scripts/*:PTL001").status == 0
    assert ptlint(".", "--per-file-ignores", "other/*:PTL001,PTL003").status == 1
    assert ptlint(".", "--extend-exclude", "scripts").status == 0
    assert ptlint("scripts/a.py", "--extend-exclude", "scripts").status == 1
    assert ptlint("scripts/a.py", "b.py", "--extend-exclude", "scripts", "--force-exclude").status == 0


def test_min_impact(ptlint: Ptlint) -> None:
    ptlint.write("a.py", UNUSED)
    assert ptlint("a.py", "--min-impact", "medium").status == 0
    ptlint.write("ptlint.toml", "[rules.unused-suppression]\nimpact = 'high'\n")
    assert ptlint("a.py", "--min-impact", "medium").status == 1


def test_fix_writes_and_a_second_run_has_nothing_to_do(ptlint: Ptlint) -> None:
    path = ptlint.write("a.py", UNUSED)
    run = ptlint("a.py", "--fix")
    assert run == Run(0, "Fixed 1 finding in 1 file.\nNothing more to find in 1 file.\n", "")
    assert path.read_text() == "x = 1\n"
    assert ptlint("a.py", "--fix") == Run(0, "Nothing found in 1 file.\n", "")


def test_diff_writes_nothing(ptlint: Ptlint) -> None:
    path = ptlint.write("a.py", UNUSED)
    run = ptlint("a.py", "--diff")
    assert run.status == 1
    assert "-x = 1  # ptlint: ignore\n+x = 1\n" in run.out
    assert path.read_text() == UNUSED
    path.write_text("x = 1\n")
    assert ptlint("a.py", "--diff") == Run(0, "", "")


def test_stdin(ptlint: Ptlint) -> None:
    run = ptlint("-", "--output-format", "concise", stdin=UNUSED)
    assert run.status == 1
    assert run.out.startswith("-:1:8: PTL001")
    run = ptlint("-", "--stdin-filename", "sub/a.py", "--output-format", "concise", stdin=UNUSED)
    assert run.out.startswith("sub/a.py:1:8: PTL001")
    assert ptlint("-", "--stdin-filename", "sub/a.py", "--extend-exclude", "sub", stdin=UNUSED).status == 0
    assert ptlint("-", stdin="").status == 0
    assert "PTL002" in ptlint("-", "--output-format", "concise", stdin=BROKEN).out


def test_fix_on_stdin_writes_the_text_to_stdout(ptlint: Ptlint) -> None:
    run = ptlint("-", "--fix", stdin=UNUSED)
    assert run.out == "x = 1\n"
    assert "Fixed 1 finding" in run.err
    assert run.status == 0


def test_add_ignores(ptlint: Ptlint) -> None:
    path = ptlint.write("a.py", "x = 1\n")
    assert ptlint("a.py", "--add-ignores") == Run(0, "Added 0 suppressions in 0 files.\n", "")
    assert path.read_text() == "x = 1\n"


def test_output_file(ptlint: Ptlint) -> None:
    ptlint.write("a.py", UNUSED)
    run = ptlint("a.py", "--output-format", "json", "--output-file", "out.json")
    assert run == Run(1, "", "")
    assert json.loads((ptlint.folder / "out.json").read_text())[0]["code"] == "PTL001"


def test_statistics(ptlint: Ptlint) -> None:
    ptlint.write("a.py", UNUSED)
    assert ptlint("a.py", "--statistics").out.startswith("1  PTL001  [*] unused-suppression\n")


def test_a_notebook_is_skipped_with_one_line(ptlint: Ptlint) -> None:
    ptlint.write("a.ipynb", "{}")
    run = ptlint("a.ipynb")
    assert run.status == 0
    assert run.err.count("\n") == 1
    assert "a.ipynb" in run.err


def test_a_path_named_like_a_command(ptlint: Ptlint) -> None:
    (ptlint.folder / "rule").mkdir()
    run = ptlint("rule", "PTL001")
    assert run.status == 0
    assert "`./rule`" in run.err


def test_version_and_help(ptlint: Ptlint) -> None:
    assert ptlint("--version") == Run(0, f"ptlint {__version__}\n", "")
    assert "ptlint --fix train.py" in ptlint("--help").out
    assert "--unsafe-fixes" in ptlint("check", "--help").out


def test_rule(ptlint: Ptlint) -> None:
    assert ptlint("rule", "PTL002").out.startswith("PTL002 file-not-parsed\n")
    assert ptlint("rule", "file-not-parsed").out == ptlint("rule", "ptl002").out
    row: dict[str, Any] = json.loads(ptlint("rule", "PTL002", "--output-format", "json").out)
    assert row["name"] == "file-not-parsed"
    assert len(json.loads(ptlint("rule", "--all", "--output-format", "json").out)) >= 4
    for words in (["rule"], ["rule", "PTL009"], ["rule", "PTL001", "--all"]):
        assert ptlint(*words).status == 2


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(UNUSED)
    command = f"{sys.executable} -m ptlint rule --all --output-format json | true"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("rest", "status", "said"),
    [
        pytest.param("a.py >&-", 1, "", id="closed stdout"),
        pytest.param("a.py 2>&- >/dev/null", 1, "", id="closed stderr"),
        pytest.param("- <&- >/dev/null", 0, "", id="closed stdin"),
        pytest.param("- <&- >&- 2>&-", 0, "", id="all closed"),
        pytest.param("a.py >/dev/full", 2, "ptlint: error: the report cannot be written: ", id="full disk"),
    ],
)
@pytest.mark.skipif(sys.platform != "linux", reason="shells and /dev/full")
def test_closed_and_full_streams(tmp_path: Path, rest: str, status: int, said: str) -> None:
    (tmp_path / "a.py").write_text(UNUSED)
    command = f"{sys.executable} -m ptlint {rest}"
    done = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert done.stderr[: len(said)] == said
    assert done.stderr.count("\n") == bool(said)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names are text, and folders in use stay")
def test_odd_names_and_a_folder_that_is_gone(ptlint: Ptlint) -> None:
    (ptlint.folder / os.fsdecode(b"caf\xe9.py")).write_text(UNUSED)
    run = ptlint(".", "--output-format", "sarif")
    assert run.status == 1
    assert "caf%E9.py" in run.out
    (ptlint.folder / "gone").mkdir()
    os.chdir("gone")
    (ptlint.folder / "gone").rmdir()
    run = ptlint()
    assert run.status == 2
    assert run.err == "ptlint: error: the current folder cannot be used: No such file or directory\n"


def test_a_clean_file_needs_neither_libcst_nor_rules(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\n\n\ndef f(x):\n    return os.path.join(x, 'y')\n")
    code = (
        "import sys\nfrom ptlint.cli import main\nmain(['a.py'])\n"
        "print([m for m in sys.modules if m.startswith(('libcst', 'ptlint.facts', 'ptlint.fixes', 'ptlint.rules.'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "['ptlint.rules.index']"


def test_the_version_needs_neither_libcst_nor_rules() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ptlint", "--version"], capture_output=True, text=True, check=True
    )
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert not [name for name in imported if name.split(".")[0] in ("libcst", "torch", "numpy", "pathspec")]
    assert not [name for name in imported if name.startswith("ptlint.rules")]
