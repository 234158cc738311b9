"""The picture of the study of probabilities."""

from pathlib import Path
from typing import Any


def draw_figure(results: dict[str, Any], path: Path) -> None:
    """Draw."""
