"""Where a rule's page stands on the web, as the installed package says."""

from __future__ import annotations

import functools


def rule_url(code: str) -> str | None:
    page = _rules_page()
    return f"{page}#{code.lower()}" if page else None


@functools.cache
def _rules_page() -> str | None:
    from importlib import metadata

    try:
        entries = metadata.metadata("ptlint").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return None
    urls = dict(entry.split(", ", 1) for entry in entries if ", " in entry)
    return urls.get("Rules")
