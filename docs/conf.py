"""How the documentation site is built: ``python -m sphinx -W -n docs docs/_build/html``."""

import os
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs" / "_ext"))
os.environ.setdefault("SCIPY_ARRAY_API", "1")

import grayzone  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
REPOSITORY = PROJECT["urls"]["Source"]

project = "grayzone"
author = PROJECT["authors"][0]["name"]
copyright = author
release = version = grayzone.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.linkcode",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_ext"]
nitpicky = True

# Markdown: `repo:` is a file of the repository, wherever it is hosted.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "repo": f"{REPOSITORY}/blob/main/{{{{path}}}}",
}

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_title = "grayzone"
