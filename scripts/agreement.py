"""Whether `ptlint FILE` says of FILE exactly what `ptlint FOLDER` says, for every file that the latter lints.

    python scripts/agreement.py FOLDER…                 whole findings are compared: places, words, fixes, reasons
    python scripts/agreement.py --sample 50 FOLDER…     that many files drawn at random

Each file is linted by a run of its own that shares nothing with the others. Fails where one disagrees.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import click

from ptlint.config import Config
from ptlint.findings import Finding
from ptlint.paths import shown
from ptlint.plan import plan
from ptlint.runner import Request, run


@dataclass(frozen=True)
class Disagreement:
    """What only one of the two runs says of a file."""

    file: str
    alone: tuple[Finding, ...]
    together: tuple[Finding, ...]

    def lines(self) -> Iterator[str]:
        places = {_key(each): each for each in self.together}
        for finding in self.alone:
            other = places.pop(_key(finding), None)
            if other is None:
                yield f"{_where(finding)} only by `ptlint {self.file}`: {finding.message}"
                continue
            for each in fields(Finding):
                one, two = getattr(finding, each.name), getattr(other, each.name)
                if one != two:
                    yield f"{_where(finding)} differs in {each.name}:\n    file:   {one}\n    folder: {two}"
        for finding in places.values():
            yield f"{_where(finding)} only by the run on the folder: {finding.message}"


def disagreements(
    folder: Path, *, root: Path | None = None, sample: int | None = None, seed: int = 0, show: bool = False
) -> Iterator[Disagreement]:
    """Compare the runs on a folder and on each of its files (or on `sample` of them), every rule and preview on."""
    whole = Request((folder,), root=root, override=_everything)
    together = Counter(run(whole).report.findings)
    files = [path for group in plan(whole).groups for path in group.files]
    if sample is not None:
        files = sorted(random.Random(seed).sample(sorted(files), min(sample, len(files))))
    for path in files:
        alone = Counter(run(replace(whole, paths=(path,))).report.findings)
        here = Counter({finding: n for finding, n in together.items() if finding.filename == shown(path)})
        if show:
            print(f"{shown(path)}: {alone.total()}", flush=True)
        if alone != here:
            yield Disagreement(shown(path), tuple((alone - here).elements()), tuple((here - alone).elements()))


def _everything(config: Config) -> Config:
    return replace(config, select=("ALL",), preview=True, min_impact=None)


def _key(finding: Finding) -> tuple[object, ...]:
    return (finding.code, finding.location, finding.end_location)


def _where(finding: Finding) -> str:
    return f"{finding.filename}:{finding.location.row}:{finding.location.column}: {finding.code}"


@click.command()
@click.argument("folders", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--root", type=click.Path(exists=True, file_okay=False, path_type=Path), help="As of ptlint.")
@click.option("--sample", type=click.IntRange(1), help="Only that many files of each folder.")
@click.option("--seed", default=0, show_default=True, help="Which ones.")
@click.option("--verbose", is_flag=True, help="Name each file with the number of its findings.")
def main(folders: Sequence[Path], root: Path | None, sample: int | None, seed: int, verbose: bool) -> None:
    """Compare `ptlint FILE` and `ptlint FOLDER` for the files of FOLDERS."""
    differing = 0
    for folder in folders:
        before = time.perf_counter()
        found = list(disagreements(folder, root=root, sample=sample, seed=seed, show=verbose))
        for disagreement in found:
            print(*disagreement.lines(), sep="\n")
        differing += len(found)
        print(f"{folder}: {len(found)} files disagree, {time.perf_counter() - before:.1f} s", flush=True)
    sys.exit(differing > 0)


if __name__ == "__main__":
    main()
