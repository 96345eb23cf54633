"""`python -m evidence`, for machines where the package is not installed."""

from __future__ import annotations

from evidence.cli import main

main()
