"""PTL002 file-not-parsed."""

from __future__ import annotations

from ptlint.findings import Impact
from ptlint.rule import AboutLint


class FileNotParsed(AboutLint):
    """
    ## What it finds
    A file that cannot be read as Python: a syntax error, bytes that are not text in the declared encoding, a NUL
    byte, brackets nested too deeply, a file above 2 MB or a line above 200 kB, a file that may not be read.

    ```python
    for batch in loader
        step(batch)
    ```

    ## Why it matters
    Nothing in this file was linted, so silence about it means nothing. All other files are linted as usual; what
    they import from this one counts as unknown. The finding is shown whatever is selected; `--ignore PTL002` or
    `exclude` silences it.

    ## Fix safety
    There is no fix.
    """

    code = "PTL002"
    name = "file-not-parsed"
    message = "this file cannot be read as Python"
    impact = Impact.HIGH
