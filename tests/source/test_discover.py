"""Which files a run reads: excludes, `.gitignore`, links, and what the user named."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from ptlint.source.discover import Discovery, discover
from ptlint.source.project import find_root, too_wide


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    return tmp_path


def _write(root: Path, *names: str, text: str = "") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _names(found: Discovery, root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in found.files]


def _discover(root: Path, *paths: str, exclude: Iterable[str] | None = None, force: bool = False) -> list[str]:
    found = discover(
        [root / path for path in paths or (".",)],
        root=root,
        exclude=None if exclude is None else tuple(exclude),
        force_exclude=force,
    )
    return _names(found, root)


def test_python_files_below_a_folder_sorted(tree: Path) -> None:
    _write(tree, "b.py", "a/z.py", "a/b/c.py", "a/notes.txt", "a/stub.pyi", "Z.py")
    assert _discover(tree) == ["Z.py", "a/b/c.py", "a/z.py", "b.py"]


def test_default_excludes(tree: Path) -> None:
    _write(tree, "a.py", ".venv/x.py", "src/node_modules/x.py", "build/x.py", "pkg/dist/x.py", ".hidden/y.py")
    assert _discover(tree) == [".hidden/y.py", "a.py"]
    assert _discover(tree, exclude=[".hidden"]) == [".venv/x.py", "a.py", "build/x.py", "pkg/dist/x.py",
                                                    "src/node_modules/x.py"]  # fmt: skip


def test_excludes_read_like_a_gitignore_at_the_root(tree: Path) -> None:
    _write(tree, "a/x.py", "a/y.py", "b/a/x.py", "old_1.py", "b/old_2.py")
    assert _discover(tree, exclude=["/a/*.py", "old_*.py"]) == ["b/a/x.py"]
    assert _discover(tree, exclude=["a/"]) == ["b/old_2.py", "old_1.py"]


def test_named_paths_are_taken_all_the_same(tree: Path) -> None:
    _write(tree, "build/x.py", "build/lib/y.py", "skipped.py", "script")
    _write(tree, ".gitignore", text="skipped.py\nbuild/\n")
    assert _discover(tree, "build/x.py", "skipped.py", "script") == ["build/x.py", "script", "skipped.py"]
    assert _discover(tree, "build") == ["build/lib/y.py", "build/x.py"]
    assert _discover(tree, "build/lib") == ["build/lib/y.py"]
    assert _discover(tree, "build/x.py", "build", "skipped.py", force=True) == ["skipped.py"]


def test_nested_gitignores(tree: Path) -> None:
    _write(tree, "a/gen.py", "a/keep/gen.py", "a/keep/x.py", "b/gen.py", "b/only.py", "b/c/only.py", "info.py")
    _write(tree, ".gitignore", text="gen.py\n# a comment\n\n[\n[z-a]\n!\n[[:x:]]\n\\\n")
    _write(tree, "a/keep/.gitignore", text="!gen.py\n")
    _write(tree, "b/.gitignore", text="/only.py\n")
    _write(tree, ".git/info/exclude", text="info.py\n")
    assert _discover(tree) == ["a/keep/gen.py", "a/keep/x.py", "b/c/only.py"]
    assert _discover(tree, "b") == ["b/c/only.py"]


def test_a_gitignore_that_cannot_be_read(tree: Path) -> None:
    _write(tree, "a/x.py")
    (tree / ".gitignore").write_bytes(b"\xff\xfe*.nothing\n")
    (tree / "a/.gitignore").mkdir()
    assert _discover(tree) == ["a/x.py"]


def test_links_are_not_followed_but_may_be_named(tree: Path) -> None:
    _write(tree, "a/x.py")
    (tree / "a/loop").symlink_to(tree / "a")
    (tree / "a/self.py").symlink_to(tree / "a/self.py")
    (tree / "link.py").symlink_to(tree / "a/x.py")
    (tree / "folder").symlink_to(tree / "a")
    assert _discover(tree) == ["a/x.py"]
    assert _discover(tree, "link.py", "a/self.py") == ["a/self.py", "link.py"]
    assert _discover(tree, "folder") == ["folder/x.py"]


def test_each_file_once_and_missing_paths_named(tree: Path) -> None:
    _write(tree, "a.py")
    found = discover([tree / "a.py", tree, tree / "gone.py"], root=tree)
    assert _names(found, tree) == ["a.py"]
    assert found.missing == (tree / "gone.py",)


def test_notebooks_and_stubs_get_one_line(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tree, "n/a.ipynb", "n/b.pyi", "n/c.py", "skipped/d.ipynb")
    _write(tree, ".gitignore", text="skipped\n")
    monkeypatch.chdir(tree)
    found = discover([tree, tree / "n/a.ipynb", tree / "n/b.pyi"], root=tree)
    assert _names(found, tree) == ["n/c.py"]
    assert found.warnings == (
        f"{os.path.join('n', 'a.ipynb')}: notebooks cannot be read yet; skipped",
        f"{os.path.join('n', 'b.pyi')}: a type stub has no code that runs; skipped",
    )


def test_a_folder_that_cannot_be_read(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tree, "a.py", "locked/b.py")
    scandir = os.scandir

    def refuse(path: str) -> Any:
        if path.endswith("locked"):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = discover([tree], root=tree)
    assert _names(found, tree) == ["a.py"]
    assert len(found.warnings) == 1
    assert "locked: the folder cannot be read: Permission denied" in found.warnings[0]


@pytest.mark.parametrize("marker", ["pyproject.toml", "ptlint.toml", "setup.py", ".git"])
def test_the_root_is_the_nearest_marked_folder(tmp_path: Path, marker: str) -> None:
    _write(tmp_path, f"project/{marker}", "project/a/b/x.py")
    _write(tmp_path, "pyproject.toml")
    project = tmp_path / "project"
    assert find_root(project / "a/b/x.py") == project
    assert find_root(project / "a/b") == project
    assert find_root(project) == project
    assert find_root(project / "a/b/x.py", tmp_path / "project/a") == project / "a"


def test_without_a_mark_the_root_is_the_files_folder(tmp_path: Path) -> None:
    _write(tmp_path, "a/b/x.py")
    assert find_root(tmp_path / "a/b/x.py") == tmp_path / "a/b"
    assert find_root(tmp_path / "a/b/not_yet.py") == tmp_path / "a/b"


def test_home_is_never_taken_for_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home/me"
    _write(home, ".git", "x.py", "scripts/y.py", "work/setup.py", "work/a/z.py")
    _write(tmp_path, "pyproject.toml")
    monkeypatch.setenv("HOME", str(home))
    assert find_root(home / "scripts/y.py") == home / "scripts"
    assert find_root(home / "work/a/z.py") == home / "work"
    assert find_root(home / "x.py") == home
    assert [too_wide(path) for path in (Path("/"), tmp_path, home, home / "work")] == [True, True, True, False]
