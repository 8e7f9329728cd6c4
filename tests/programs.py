"""Facts of small programs given as text."""

from __future__ import annotations

import textwrap
from pathlib import Path

from ptlint.config import Config
from ptlint.facts.program import ProgramFacts, analyse
from ptlint.outline.project import Project


def facts_of(folder: Path, **files: str) -> ProgramFacts:
    """The facts of the program whose entry is `main`; a keyword is a file's name without its suffix."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text), encoding="utf-8")
    project = Project(folder)
    entry = folder / "main.py"
    program = next(program for program in project.programs_of(entry) if program.entry == entry)
    return analyse(project, program, Config())
