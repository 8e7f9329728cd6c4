#!/bin/sh
# Make .venv, install ptlint with its tools there, and run everything that must pass. PYTHON names another Python.
set -eu
cd "$(dirname "$0")/.."
[ -x .venv/bin/python ] || "${PYTHON:-python3}" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
# Fixes are proven by running what they wrote, on one Python; elsewhere these tests are skipped.
if .venv/bin/python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0
fi
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
.venv/bin/lint-imports
.venv/bin/pytest -n auto --cov --cov-report=term "$@"
