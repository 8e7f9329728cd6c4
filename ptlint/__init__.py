"""ptlint finds what makes PyTorch code slow, and rewrites what can be rewritten.

The pipeline, each arrow one way: paths > sources (`source`) > outlines by `ast` (`outline`) > libcst trees of the
statements that matter (`syntax`) > facts (`facts`) > rules (`rules`) > findings (`engine`) > fixes (`fixes`) >
report (`report`). Importing this package imports none of them.
"""

from __future__ import annotations

__version__ = "0.1.0"
