"""Reading `[tool.ptlint]`: what is taken, and how a mistake is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ptlint import config, registry, torch_version
from ptlint.config import Config, ConfigError
from ptlint.findings import Impact


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_all_keys_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "ptlint.toml",
        """
        select = ["PTL1", "PTL201"]
        ignore = ["PTL103"]
        extend-select = ["PTL3"]
        preview = true
        min-impact = "medium"
        exclude = ["a"]
        extend-exclude = ["b"]
        force-exclude = true
        tests = []
        device = "cuda"
        torch-version = "2.1"
        num-workers = 4
        amp-dtype = "float16"
        no-grad-style = "inference_mode"
        fix = true
        unsafe-fixes = true
        output-format = "concise"
        [per-file-ignores]
        "scripts/*" = ["PTL1"]
        [rules.PTL001]
        impact = "high"
        """,
    )
    read = config.load(path, tmp_path)
    assert read == Config(
        select=("PTL1", "PTL201"),
        ignore=("PTL103",),
        extend_select=("PTL3",),
        per_file_ignores=(("scripts/*", ("PTL1",)),),
        preview=True,
        min_impact=Impact.MEDIUM,
        exclude=("a",),
        extend_exclude=("b",),
        force_exclude=True,
        tests=(),
        device="cuda",
        torch_version=(2, 1),
        num_workers="4",
        amp_dtype="float16",
        no_grad_style="inference_mode",
        rules={"PTL001": {"impact": "high"}},
        fix=True,
        unsafe_fixes=True,
        output_format="concise",
        root=tmp_path,
        source=path,
    )


def test_a_folder_without_our_table_has_no_config(tmp_path: Path) -> None:
    write(tmp_path / "a" / "pyproject.toml", "[project]\nname = 'x'\n")
    write(tmp_path / "b" / "pyproject.toml", "[project]\nname = 'ptlint'\n")
    ours = write(tmp_path / "c" / "pyproject.toml", "[tool.ptlint]\n")
    inner = write(tmp_path / "d" / "ptlint.toml", "")
    write(tmp_path / "d" / "pyproject.toml", "[tool.ptlint]\n")
    assert [config.in_folder(tmp_path / name) for name in "abcd"] == [None, None, ours, inner]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        pytest.param({"selct": []}, "unknown key `selct`; did you mean `select`?", id="near key"),
        pytest.param({"min_impact": "low"}, "unknown key `min_impact`; did you mean `min-impact`?", id="underscore"),
        pytest.param({"stdin-filename": "x"}, "is an option of the command line", id="an option only"),
        pytest.param({"select": "PTL1"}, "`select` must be a list of strings", id="string for list"),
        pytest.param({"preview": "yes"}, "`preview` must be true or false", id="string for boolean"),
        pytest.param({"device": "cuba"}, "did you mean `cuda`?", id="near choice"),
        pytest.param({"torch-version": 2.1}, "`torch-version` must be a version", id="number for version"),
        pytest.param({"num-workers": "min("}, "`num-workers` must be a Python expression", id="broken expression"),
        pytest.param({"per-file-ignores": {"a": "PTL1"}}, "of `a` must be a list", id="string in table"),
        pytest.param({"rules": {"PTL101": 1}}, "one table a rule", id="number for rule table"),
    ],
)
def test_a_mistake_is_named(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        config.parse(table, "ptlint.toml")
    assert said in str(caught.value)
    assert str(caught.value).startswith("ptlint.toml: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"select = [", b"\xff\xfe", b"[tool]\nptlint = 3\n"])
def test_a_broken_file_is_an_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_bytes(b"# ptlint\n" + data)
    with pytest.raises(ConfigError, match=r"pyproject\.toml: "):
        config.load(path, tmp_path)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"select": ("PTL999",)}, "`select`: unknown rule `PTL999`", id="unknown code"),
        pytest.param({"ignore": ("unused-supression",)}, "did you mean `unused-suppression`?", id="near name"),
        pytest.param({"per_file_ignores": (("a", ("E501",)),)}, "unknown rule `E501`", id="another tool's code"),
        pytest.param({"rules": {"PTL009": {}}}, "[rules.PTL009]: unknown rule `PTL009`", id="table of no rule"),
        pytest.param({"rules": {"PTL001": {"impct": 1}}}, "did you mean `impact`?", id="near key in rule table"),
        pytest.param({"rules": {"PTL001": {"impact": "big"}}}, "must be one of high, medium, low", id="impact"),
    ],
)
def test_unknown_rules_are_errors(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry.select(Config(**values))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("values", "on", "off"),
    [
        pytest.param({}, {"PTL001", "PTL003"}, set(), id="default"),
        pytest.param({"ignore": ("PTL00",)}, {"PTL000"}, {"PTL001", "PTL003"}, id="prefix ignored, PTL000 stays"),
        pytest.param({"select": ("PTL001",), "ignore": ("PTL",)}, {"PTL001"}, {"PTL003"}, id="precise select wins"),
        pytest.param({"select": ("PTL0",), "ignore": ("PTL001",)}, {"PTL003"}, {"PTL001"}, id="precise ignore wins"),
        pytest.param({"select": ("unused-suppression",)}, {"PTL001"}, {"PTL003"}, id="by name"),
        pytest.param({"select": ("ptl001",), "extend_select": ("PTL003",)}, {"PTL001", "PTL003"}, set(), id="extend"),
        pytest.param({"select": ("ALL",), "ignore": ("PTL001",)}, {"PTL003"}, {"PTL001"}, id="all but one"),
    ],
)
def test_selection(values: dict[str, Any], on: set[str], off: set[str]) -> None:
    codes = registry.select(Config(**values)).codes
    assert on <= codes
    assert not off & codes


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("requirements.txt", "torch>=1.8,<2\n", (1, 8)),
        ("requirements.txt", "torchvision>=0.9\ntorch<2,>=1.10  # why\n", (1, 10)),
        ("requirements.txt", "# torch>=1.0\ntorch==2.3.1+cu118\n", (2, 3)),
        ("requirements.txt", "torch\n", torch_version.DEFAULT),
        ("requirements.txt", "pytorch-lightning>=1.5\n", torch_version.DEFAULT),
        ("pyproject.toml", '[project]\ndependencies = ["numpy", "torch >= 2.0"]\n', (2, 0)),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^2.2"\n', (2, 2)),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = {version = "~=2.1.0", extras = []}\n', (2, 1)),
        ("setup.py", "setup(install_requires=['torch>1.7', 'numpy>=1.20'])\n", (1, 7)),
        ("environment.yml", "dependencies:\n  - pytorch=2.1\n", (2, 1)),
    ],
)
def test_torch_version_comes_from_the_project(tmp_path: Path, name: str, text: str, version: tuple[int, int]) -> None:
    write(tmp_path / name, text)
    assert config.load(None, tmp_path).torch_version == version


@pytest.mark.parametrize(
    ("text", "below"),
    [
        ("torch>=1.8", None),
        ("torch>=1.8,<2", (2, 0)),
        ("torch>=1.8,<=2.1", (2, 2)),
        ("torch>=1.8,<2.1.1", (2, 2)),
        ("torch==1.13.1+cu117", (1, 14)),
        ("torch~=2.1", (3, 0)),
        ("torch~=2.1.0", (2, 2)),
        ("torch==1.12; python_version < '3.8'\ntorch>=1.13; python_version >= '3.8'", None),
        ("torch", None),
    ],
)
def test_the_newest_torch_that_the_project_allows(tmp_path: Path, text: str, below: tuple[int, int] | None) -> None:
    write(tmp_path / "requirements.txt", text)
    assert config.load(None, tmp_path).torch_below == below


def test_rules_that_need_a_newer_torch_than_is_allowed_are_left_out() -> None:
    compiling = registry.BY_CODE["PTL401"]
    chosen = registry.select(Config(select=("PTL401",)))
    assert compiling in chosen.rules(Config(torch_version=(1, 8)))
    assert compiling in chosen.rules(Config(torch_version=(1, 8), torch_below=(2, 1)))
    assert compiling not in chosen.rules(Config(torch_version=(1, 8), torch_below=(2, 0)))


def test_versions() -> None:
    assert torch_version.parse("2.4.1+cu121") == (2, 4)
    assert torch_version.parse("two") is None
    assert torch_version.within(">=1.10,<2.5", (2, 4))
    assert not torch_version.within(">=1.10,<2.4", (2, 4))
    assert not torch_version.within(">=2.5", (2, 4))
    assert torch_version.within(None, (1, 0))
    assert torch_version.overlaps(">=2.5", (2, 4), None)
    assert torch_version.overlaps("<2.5", (2, 4), None)
    assert not torch_version.overlaps("<2.4", (2, 4), None)
