"""Lines on stderr: what the user should know that is not the report."""

from __future__ import annotations

import click


def error(text: str) -> None:
    click.secho("ptlint: error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(text, err=True)


def warning(text: str) -> None:
    click.secho("ptlint: warning: ", fg="yellow", bold=True, nl=False, err=True)
    click.echo(text, err=True)
