"""This checkout. Apart from `crawls`, whose imports read the clock before `virtual` replaces it."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[1]
