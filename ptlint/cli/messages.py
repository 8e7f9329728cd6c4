"""Lines on stderr: what the user should know that is not the report."""

from __future__ import annotations

from typing import Any

import click

from ptlint.config import nearest


class NearChoice(click.Choice):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A choice that names the nearest right one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as problem:
            message = problem.message.removesuffix(".") + nearest(str(value), map(str, self.choices))
            raise click.BadParameter(message, ctx, param) from None


class NoEmptyPath(click.Path):
    """A path that is not the empty word, which `pathlib` takes for the current folder: `ptlint --fix "$UNSET"`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


def error(text: str) -> None:
    click.secho("ptlint: error: ", fg="red", bold=True, nl=False, err=True)
    click.echo(text, err=True)


def warning(text: str) -> None:
    click.secho("ptlint: warning: ", fg="yellow", bold=True, nl=False, err=True)
    click.echo(text, err=True)
