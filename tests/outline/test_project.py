"""Projects: listing, overlays, imports as Python resolves them, and programs."""

from __future__ import annotations

import gc
from collections.abc import Mapping
from pathlib import Path

import pytest

from ptlint.outline import project as project_module
from ptlint.outline.project import Program, Project
from ptlint.source.text import source_from_bytes

GUARD = 'if __name__ == "__main__":\n    pass\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def _write(root: Path, files: Mapping[str, str]) -> Project:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Project(root)


def _named(program: Program, root: Path) -> list[str]:
    assert program.files[0] == program.entry
    return [path.relative_to(root).as_posix() for path in program.files]


def _programs(project: Project) -> list[list[str]]:
    return [_named(program, project.root) for program in project.programs()]


def test_files_are_listed_once_sorted_and_without_excludes(root: Path) -> None:
    project = _write(root, {"b.py": "", "a/c.py": "", ".venv/d.py": "", "skip/e.py": ""})
    assert [path.relative_to(root).as_posix() for path in project.files] == ["a/c.py", "b.py", "skip/e.py"]
    narrowed = Project(root, extend_exclude=["skip"], extra=[root / ".venv/d.py", root / "b.py"])
    assert [path.relative_to(root).as_posix() for path in narrowed.files] == [".venv/d.py", "a/c.py", "b.py"]


def test_excludes_count_from_their_own_root(root: Path) -> None:
    _write(root, {"sub/a.py": "", "sub/b/c.py": ""})
    project = Project(root / "sub", exclude=["/sub/b"], exclude_root=root)
    assert project.files == (root / "sub/a.py",)


def test_too_many_files_are_cut_with_a_note(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_module, "MAX_FILES", 2)
    project = _write(root, {"a.py": "", "b.py": "", "c.py": "", "d.py": ""})
    assert project.files == (root / "a.py", root / "b.py")
    assert "more than 2 Python files" in project.notes[0]
    assert Project(root, extra=[root / "d.py"]).files == (root / "a.py", root / "b.py", root / "d.py")


def test_home_is_listed_without_its_folders(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root))
    project = _write(root, {"a.py": "import b", "b.py": "", "other/c.py": ""})
    assert project.files == (root / "a.py", root / "b.py")
    assert len(Project(root, wide=True).files) == 3


def test_what_is_wrong_with_a_file(root: Path) -> None:
    project = _write(root, {"broken.py": "x = (\n", "fine.py": "import os\n", "empty.py": ""})
    (root / "latin.py").write_bytes(b"x = '\xe9'\n")
    broken, latin = project.file(root / "broken.py"), project.file(root / "latin.py")
    gone = project.file(root / "gone.py")
    assert project.file(root / "fine.py").error is None
    assert project.file(root / "fine.py") is project.file(root / "fine.py")
    assert project.file(root / "empty.py").outline.statements == ()
    assert broken.error is not None
    assert broken.source is not None
    assert latin.error is not None
    assert (latin.source, latin.error.row, latin.error.column) == (None, 1, 6)
    assert gone.error is not None
    assert "No such file" in gone.error.message


def test_a_file_that_vanishes_is_still_part_of_its_programs(root: Path) -> None:
    project = _write(root, {"a.py": "import b\n", "b.py": "import c\n", "c.py": ""})
    assert len(project.files) == 3
    (root / "b.py").unlink()
    assert _programs(project) == [["a.py", "b.py"], ["c.py"]]


def test_overlays_stand_for_files(root: Path) -> None:
    project = _write(root, {"a.py": "import b\n", "b.py": ""})
    (root / "a.py").write_bytes(b"# coding: latin-1\nx = '\xe9'\n")
    assert _programs(project) == [["a.py"], ["b.py"]]
    changed = project.with_overlay({root / "a.py": "# coding: latin-1\nimport b, c\n", root / "c.py": "x = 1\n"})
    source = changed.file(root / "a.py").source
    assert source is not None
    assert source.encoding == "iso8859-1"
    assert _programs(changed) == [["a.py", "b.py", "c.py"]]
    assert changed.file(root / "b.py") is project.file(root / "b.py")
    again = changed.with_overlay({root / "c.py": "import a\n"})
    assert again.file(root / "a.py") is changed.file(root / "a.py")
    assert changed.file(root / "c.py").outline.imports == ()


def test_an_overlay_may_be_bytes_that_were_decoded(root: Path) -> None:
    source = source_from_bytes(root / "not_there.py", b"import a\n")
    project = Project(root, overlay={root / "not_there.py": source})
    assert project.file(root / "not_there.py").source is source
    assert project.file(root / "not_there.py").source is not None


def test_a_text_alone_is_a_project(tmp_path: Path) -> None:
    nowhere = tmp_path / "-"
    project = Project(nowhere, overlay={nowhere: "import os\n"})
    assert [program.files for program in project.programs()] == [(nowhere,)]
    assert project.notes == ()


LAYOUT = {
    "train.py": "",
    "utils.py": "",
    "logging.py": "",
    "src/lib/__init__.py": "",
    "src/lib/core.py": "",
    "src/lib/math.py": "",
    "src/lib/sub/__init__.py": "",
    "src/lib/sub/deep.py": "",
    "src/lib/sub/utils.py": "",
    "tools/run.py": "",
    "tools/utils.py": "",
    "tools/logging.py": "",
    "plain/part/mod.py": "",
}


@pytest.mark.parametrize(
    ("importer", "module", "level", "entry", "found"),
    [
        ("train.py", "utils", 0, None, "utils.py"),
        ("train.py", "lib", 0, None, "src/lib/__init__.py"),
        ("train.py", "lib.core", 0, None, "src/lib/core.py"),
        ("train.py", "lib.core.Net", 0, None, None),
        ("train.py", "src.lib.core", 0, None, "src/lib/core.py"),
        ("train.py", "torch.utils", 0, None, None),
        ("train.py", "plain", 0, None, None),
        ("train.py", "plain.part.mod", 0, None, "plain/part/mod.py"),
        # The entry's folder first, then the root, then the folders between.
        ("tools/run.py", "utils", 0, None, "tools/utils.py"),
        ("tools/run.py", "utils", 0, "train.py", "utils.py"),
        ("train.py", "utils", 0, "tools/run.py", "tools/utils.py"),
        ("tools/run.py", "train", 0, None, "train.py"),
        ("src/lib/sub/deep.py", "sub.utils", 0, "train.py", "src/lib/sub/utils.py"),
        ("src/lib/sub/deep.py", "core", 0, "train.py", "src/lib/core.py"),
        # The standard library gives way to a script's own folder only.
        ("train.py", "logging", 0, None, "logging.py"),
        ("tools/utils.py", "logging", 0, "tools/run.py", "tools/logging.py"),
        ("src/lib/core.py", "math", 0, None, None),
        ("src/lib/sub/deep.py", "math", 0, "train.py", None),
        ("src/lib/core.py", "math", 1, None, "src/lib/math.py"),
        # Relative.
        ("src/lib/sub/deep.py", "utils", 1, None, "src/lib/sub/utils.py"),
        ("src/lib/sub/deep.py", "", 1, None, "src/lib/sub/__init__.py"),
        ("src/lib/sub/deep.py", "", 2, None, "src/lib/__init__.py"),
        ("src/lib/sub/deep.py", "core", 2, None, "src/lib/core.py"),
        ("src/lib/sub/__init__.py", "deep", 1, None, "src/lib/sub/deep.py"),
        ("plain/part/mod.py", "mod", 1, None, "plain/part/mod.py"),
        ("train.py", "utils", 2, None, None),
        ("train.py", "utils", 9, None, None),
    ],
)
def test_resolve(root: Path, importer: str, module: str, level: int, entry: str | None, found: str | None) -> None:
    project = _write(root, LAYOUT)
    expected = None if found is None else root / found
    assert project.resolve(root / importer, module, level, root / entry if entry else None) == expected


def test_imports_pull_packages_and_submodules_in_order(root: Path) -> None:
    project = _write(
        root,
        {
            "train.py": "def main():\n    import a.b.c\nfrom pkg import sub, value\nfrom other import *\n",
            "a/__init__.py": "import last",
            "a/b/__init__.py": "",
            "a/b/c.py": "from ..d import x\nfrom . import e",
            "a/b/e.py": "",
            "a/d.py": "",
            "pkg/__init__.py": "",
            "pkg/sub.py": "",
            "other.py": "",
            "last.py": "",
        },
    )
    assert _programs(project) == [
        [
            *("train.py", "a/__init__.py", "a/b/__init__.py", "a/b/c.py", "pkg/__init__.py", "pkg/sub.py", "other.py"),
            *("last.py", "a/d.py", "a/b/e.py"),
        ]
    ]


def test_an_import_of_a_missing_module_still_runs_its_packages(root: Path) -> None:
    project = _write(root, {"train.py": "from pkg._C import op", "pkg/__init__.py": ""})
    assert _programs(project) == [["train.py", "pkg/__init__.py"]]


def test_entries_are_what_nobody_imports_or_has_a_guard(root: Path) -> None:
    project = _write(
        root,
        {
            "train.py": "import model",
            "test.py": "import train, model",
            "model.py": "import layers\n" + GUARD,
            "layers.py": "",
            "alone.py": "",
        },
    )
    assert _programs(project) == [
        ["alone.py"],
        ["model.py", "layers.py"],
        ["test.py", "train.py", "model.py", "layers.py"],
    ]
    holders = [program.entry.name for program in project.programs_of(root / "layers.py")]
    assert holders == ["model.py", "test.py"]
    of_both = project.programs_of(root / "alone.py", root / "train.py")
    assert [program.entry.name for program in of_both] == ["alone.py", "test.py"]
    assert project.programs()[0] is of_both[0]


def test_circles_are_covered(root: Path) -> None:
    project = _write(
        root,
        {
            "a.py": "import b",
            "b.py": "import a, leaf",
            "leaf.py": "",
            "itself.py": "import itself",
            "0first.py": "",
            "c.py": "import d",
            "d.py": "import c",
            "train.py": "import c",
        },
    )
    assert _programs(project) == [
        ["0first.py"],
        ["a.py", "b.py", "leaf.py"],
        ["itself.py"],
        ["train.py", "c.py", "d.py"],
    ]


def test_each_script_folder_has_its_own_modules(root: Path) -> None:
    files = {
        f"{name}/{file}": text
        for name in ("gan", "vae")
        for file, text in (("main.py", GUARD + "import models"), ("models.py", "import shared"))
    }
    project = _write(root, {**files, "shared.py": "import models"})
    assert _programs(project) == [
        ["gan/main.py", "gan/models.py", "shared.py"],
        ["vae/main.py", "vae/models.py", "shared.py"],
    ]
    assert [program.entry.parent.name for program in project.programs_of(root / "shared.py")] == ["gan", "vae"]


def test_the_entrys_folder_decides_for_what_it_reaches(root: Path) -> None:
    project = _write(
        root,
        {
            "train.py": "import pkg.mod",
            "utils.py": "",
            "pkg/mod.py": "import utils",
            "pkg/utils.py": "",
            "pkg/tool.py": GUARD + "import mod",
        },
    )
    assert _programs(project) == [
        ["pkg/tool.py", "pkg/mod.py", "pkg/utils.py"],
        ["train.py", "pkg/mod.py", "utils.py"],
    ]


def test_searches_beyond_the_bound_leave_no_file_out(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ptlint.outline.programs.MAX_VISITS", 0)
    project = _write(
        root, {"a/x.py": "import pkg.mod", "a/utils.py": "", "pkg/mod.py": "import utils", "pkg/utils.py": ""}
    )
    for path in project.files:
        holders = project.programs_of(path)
        assert holders
        assert all(path in program.files for program in holders)


def test_tests_are_nobodys_entry(root: Path) -> None:
    files = {"train.py": "", "tests/test_train.py": "import train, helper", "tests/helper.py": "", "run_test.py": ""}
    project = _write(root, files)
    assert _programs(project) == [["train.py"]]
    (of_train,) = project.programs_of(root / "train.py")
    assert of_train.entry == root / "train.py"
    (of_test,) = project.programs_of(root / "tests/test_train.py")
    assert _named(of_test, root) == ["tests/test_train.py", "train.py", "tests/helper.py"]
    assert project.is_test(root / "run_test.py")
    with_tests = Project(root, tests=())
    assert _programs(with_tests) == [["run_test.py"], ["tests/test_train.py", "train.py", "tests/helper.py"]]


def test_tests_are_told_by_their_path_below_the_root(tmp_path: Path) -> None:
    project = _write(tmp_path / "tests/project", {"a.py": "", "conftest.py": "", "x/tests/b.py": "", "tests.py": ""})
    assert [path.name for path in project.files if project.is_test(path)] == ["conftest.py", "b.py"]


def test_a_file_from_outside_joins(root: Path) -> None:
    project = _write(root / "in", {"a.py": ""})
    (root / "b.py").write_text("import a, c\n")
    (root / "c.py").write_text("")
    (program,) = project.programs_of(root / "b.py")
    assert program.files == (root / "b.py", root / "in/a.py")


def test_broken_files_take_part(root: Path) -> None:
    project = _write(
        root, {"train.py": "import broken", "broken.py": "from m import x\nprint 'old'\n", "m.py": "x = ("}
    )
    assert _programs(project) == [["train.py", "broken.py", "m.py"]]


def test_a_long_chain_of_imports(root: Path) -> None:
    count = 3000
    texts = {root / f"m{number}.py": f"import m{number + 1}\n" for number in range(count)}
    project = Project(root, overlay=texts)
    (program,) = project.programs()
    assert len(program.files) == count
    assert gc.isenabled()


@pytest.mark.parametrize(
    "argument",
    [
        '"models." + name',
        '"models." + name + "_net"',
        'f"models.{name}"',
        '"models.%s" % name',
        '"models.{}".format(name)',
    ],
)
def test_import_module_pulls_a_package_whose_name_is_written(root: Path, argument: str) -> None:
    text = f"from importlib import import_module\n\n\ndef load(name):\n    return import_module({argument})\n"
    project = _write(root, {"run.py": text, "models/a.py": "import deep\n", "models/b/__init__.py": "", "deep.py": ""})
    assert _programs(project) == [["run.py", "models/a.py", "models/b/__init__.py", "deep.py"]]
    found = [(item.module, item.row) for item in project.loaded(root / "run.py")]
    assert found == [("models.a", 5), ("models.b", 5)]


def test_import_module_pulls_a_module_by_its_name(root: Path) -> None:
    text = "import importlib\nfrom importlib import import_module as load\n\nsteps = load('lib.steps')\n"
    text += "other = importlib.import_module(name)\nthird = importlib.import_module('.' + name)\n"
    text += "last = importlib.import_module('a' + name)\n"
    project = _write(root, {"run.py": text, "lib/steps.py": "", "lib/other.py": "", "a.py": ""})
    assert _programs(project) == [["a.py"], ["lib/other.py"], ["run.py", "lib/steps.py"]]
