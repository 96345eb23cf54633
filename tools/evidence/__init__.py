"""Recorded evidence for programs, and pages that cannot disagree with it."""

from __future__ import annotations

__version__ = "0.1.0"
