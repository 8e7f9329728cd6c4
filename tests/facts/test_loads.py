"""In which order a program's files load libraries."""

from __future__ import annotations

from pathlib import Path

from programs import facts_of

from ptlint.facts.program import ProgramFacts


def loads_torch(facts: ProgramFacts) -> dict[str, tuple[str, int] | None]:
    """By variable, the import that had loaded PyTorch when it was set."""
    found = {}
    for setting in facts.settings:
        load = facts.loads.before(("torch",), setting.event.place, setting.event.ctx)
        found[setting.variable.name] = (load.path.name, load.row) if load is not None else None
    return found


def test_rows_of_one_file(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path,
        main="""
        import os
        os.environ["OMP_NUM_THREADS"] = "1"
        from torchvision import models
        os.environ["MKL_NUM_THREADS"] = "1"
        """,
    )
    assert loads_torch(facts) == {"OMP_NUM_THREADS": None, "MKL_NUM_THREADS": ("main.py", 4)}


def test_files_run_where_they_are_imported(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path,
        main="""
        import os
        import early
        os.environ["OMP_PROC_BIND"] = "true"
        import heavy
        os.environ["OMP_NUM_THREADS"] = "1"
        """,
        early="""
        import os
        os.environ["MKL_NUM_THREADS"] = "1"
        """,
        heavy="""
        import os
        import torch
        os.environ["OMP_DYNAMIC"] = "false"
        """,
    )
    assert loads_torch(facts) == {
        "MKL_NUM_THREADS": None,
        "OMP_PROC_BIND": None,
        "OMP_DYNAMIC": ("heavy.py", 3),
        "OMP_NUM_THREADS": ("heavy.py", 3),
    }


def test_functions_run_where_they_are_called(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path,
        main="""
        import os

        def early():
            os.environ["OMP_NUM_THREADS"] = "1"

        def late():
            os.environ["MKL_NUM_THREADS"] = "1"

        def own():
            os.environ["OMP_PLACES"] = "cores"
            import torch
            os.environ["OMP_SCHEDULE"] = "static"

        early()
        own()
        import torch
        late()
        """,
    )
    assert loads_torch(facts) == {
        "OMP_NUM_THREADS": None,
        "OMP_PLACES": None,
        "OMP_SCHEDULE": ("main.py", 12),
        "MKL_NUM_THREADS": ("main.py", 17),
    }


def test_transformers_is_lazy(tmp_path: Path) -> None:
    facts = facts_of(
        tmp_path,
        main="""
        import os
        import transformers
        os.environ["OMP_NUM_THREADS"] = "1"
        from transformers import AutoModel
        os.environ["MKL_NUM_THREADS"] = "1"
        """,
    )
    assert loads_torch(facts) == {"OMP_NUM_THREADS": None, "MKL_NUM_THREADS": ("main.py", 5)}
