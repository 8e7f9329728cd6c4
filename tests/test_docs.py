"""What is rendered is fresh, and what the pages say of the command line is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import render

from ptlint import config, registry
from ptlint.findings import Impact
from ptlint.rule import AboutLint, Rule, RuleError, sections

ROOT = Path(__file__).parent.parent
RENDERED = render.rendered()


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.name)
def test_rendered_files_are_fresh(path: Path) -> None:
    stale = f"{path.name} is stale: run `python scripts/render.py`"
    assert path.exists(), stale
    assert path.read_text(encoding="utf-8") == RENDERED[path], stale


def test_every_config_key_is_documented() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8") + (ROOT / "docs" / "config.md").read_text(encoding="utf-8")
    assert [key for key in config.KEYS if f"`{key}`" not in text] == []


def test_every_rule_of_the_table_can_be_loaded() -> None:
    for entry in registry.BY_CODE.values():
        rule = registry.load(entry)
        assert (rule.code, rule.name, rule.roots) == (entry.code, entry.name, entry.roots)


def test_codes_and_names_are_unique() -> None:
    rules = list(registry.discover())
    assert len({rule.code for rule in rules}) == len({rule.name for rule in rules}) == len(rules)


def test_messages_have_no_full_stop_and_promise_no_number() -> None:
    for rule in registry.discover():
        assert not rule.message.endswith("."), rule.code
        assert not re.search(r"\d\s*(x|×|times|%)", rule.message), rule.code


DOC = "\n".join(f"## {title}\ntext\n" for title in Rule.headings).replace("## Example\n", "## Example\nUse instead:\n")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"code": "PT1"}, "not PTL and three digits", id="code"),
        pytest.param({"name": "NoWorkers"}, "lower case joined by hyphens", id="name"),
        pytest.param({"roots": ()}, "roots must be", id="no roots"),
        pytest.param({"roots": ("a", 3)}, "neither a word", id="root of another type"),
        pytest.param({"fixable": "yes"}, "fixable must be", id="fixable"),
        pytest.param({"torch": "2.0"}, "not a range", id="range"),
        pytest.param({"check": Rule.check}, "there is no check", id="check"),
        pytest.param({"__doc__": "## What it finds\nx\n"}, "must have exactly the headings", id="headings"),
        pytest.param({"__doc__": DOC.replace("Use instead:", "")}, "has no line `Use instead:`", id="use instead"),
        pytest.param({"__doc__": DOC.replace("## References\ntext", "## References\n")}, "nothing stands", id="empty"),
    ],
)
def test_a_malformed_rule_cannot_be_defined(values: dict[str, object], said: str) -> None:
    good: dict[str, object] = {
        "__doc__": DOC,
        "code": "PTL199",
        "name": "a-name",
        "message": "message",
        "impact": Impact.LOW,
        "roots": ("word", ("For|While", "backward")),
        "check": lambda self, program: iter(()),
    }
    type("Good", (Rule,), good)
    with pytest.raises(RuleError, match=re.escape(said)):
        type("Bad", (Rule,), {**good, **values})


def test_a_missing_attribute_is_named() -> None:
    with pytest.raises(RuleError, match="`message` is missing"):
        type("Bad", (AboutLint,), {"code": "PTL009", "name": "a-name", "impact": Impact.LOW})


def test_sections() -> None:
    assert list(sections(DOC)) == list(Rule.headings)
