"""How the documentation site is built: ``python -m sphinx -W --keep-going docs docs/_build/html``.

Nothing is downloaded. ``GRAYZONE_DOCS_INVENTORIES=1`` asks for the inventories of other projects,
so that names of NumPy and scikit-learn become links.
"""

import importlib.util
import inspect
import os
import shutil
import sys
import tomllib
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTENSIONS = ROOT / "docs" / "_ext"
sys.path.insert(0, str(EXTENSIONS))
os.environ.setdefault("SCIPY_ARRAY_API", "1")
os.environ.setdefault("MPLBACKEND", "Agg")

import grayzone  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Source"]
EXAMPLES = ROOT / "examples"

project = "grayzone"
author = PROJECT["authors"][0]["name"]
copyright = f"{author}, BSD 3-Clause licence"
release = version = grayzone.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.linkcode",
    "sphinx_copybutton",
    "sphinx_design",
    # those of docs/_ext
    *(
        path.stem
        for path in sorted(EXTENSIONS.glob("*.py"))
        if "def setup(" in path.read_text("utf-8")
    ),
]
exclude_patterns = ["_build", "_ext", "api/_templates"]
templates_path = ["api/_templates"]

# ---------------------------------------------------------------- what is an error, and what is not

nitpicky = True
# Other libraries are names, not links, unless their inventories are asked for.
OTHERS = (
    r"array_api_compat|cupy|dask|joblib|matplotlib|numpy|pandas|polars|pyarrow|scipy|sklearn"
    r"|torch"
)
nitpick_ignore_regex = [("py:.*", rf"({OTHERS})(\..*)?")]
suppress_warnings = [
    "config.cache",  # functions in the settings of sphinx-gallery are never the same twice
]

# ----------------------------------------------------------------------------- Markdown, docstrings

# `repo:` is a file of the repository, wherever it is hosted.
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "fieldlist"]
myst_heading_anchors = 3
myst_url_schemes = {
    "http": None,
    "https": None,
    "mailto": None,
    "repo": f"{REPOSITORY}/blob/main/{{{{path}}}}",
}
html_math_renderer = "mathml"

autodoc_typehints = "none"  # numpydoc says what parameters are
# The reference is whole without what only some of its names need.
OPTIONAL = ("cupy", "dask", "distributed", "onnx", "onnxruntime", "skl2onnx", "torch")
autodoc_mock_imports = [name for name in OPTIONAL if importlib.util.find_spec(name) is None]
autosummary_generate = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

if os.environ.get("GRAYZONE_DOCS_INVENTORIES"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "numpy": ("https://numpy.org/doc/stable", None),
        "python": ("https://docs.python.org/3", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
    }


def linkcode_resolve(domain, info):
    """Return where the source of a Python object is."""
    if domain != "py" or not info["module"]:
        return None
    try:
        found = importlib.import_module(info["module"])
        for name in info["fullname"].split("."):
            found = getattr(found, name)
        found = inspect.unwrap(found.fget if isinstance(found, property) else found)
        file = Path(inspect.getsourcefile(found)).resolve()
        lines, first = inspect.getsourcelines(found)
    except (AttributeError, ImportError, OSError, TypeError):
        return None  # data, and what is not written in Python
    if not file.is_relative_to(ROOT):
        return None
    path = file.relative_to(ROOT).as_posix()
    return f"{REPOSITORY}/blob/main/{path}#L{first}-L{first + len(lines) - 1}"


# ------------------------------------------------------------------------------------------ gallery

if any(EXAMPLES.glob("*/plot_*.py")):
    extensions.append("sphinx_gallery.gen_gallery")
    FOLDERS = ["1_first_steps", "2_real_decisions", "3_papers", "4_under_the_hood"]
    warnings.filterwarnings("ignore", message=".*non-interactive.*", category=UserWarning)
    sphinx_gallery_conf = {
        "examples_dirs": "../examples",
        "gallery_dirs": "auto_examples",
        "filename_pattern": r"/plot_",
        "subsection_order": [f"../examples/{name}" for name in FOLDERS],
        "within_subsection_order": "FileNameSortKey",
        "doc_module": ("grayzone",),
        "reference_url": {"grayzone": None},
        "backreferences_dir": "api/generated/backreferences",
        "capture_repr": ("_repr_html_", "__repr__"),
        "min_reported_time": 1,
        "remove_config_comments": True,
        "download_all_examples": False,
        "copyfile_regex": r".*\.(csv|svg)",
        "image_scrapers": ("matplotlib",),
        "compress_images": ("images", "thumbnails") if shutil.which("optipng") else (),
        "thumbnail_size": (360, 252),
        "show_memory": False,
        "write_computation_times": False,  # its table asks another host for a script
        "show_signature": False,
        "junit": "",
    }

# --------------------------------------------------------------------------------------------- HTML

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_title = "grayzone"
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_sidebars = {"index": [], "which": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {
        "text": "grayzone",
        "image_light": "_static/logo.svg",
        "image_dark": "_static/logo.svg",
    },
    "icon_links": [{"name": "Source", "url": REPOSITORY, "icon": "fa-brands fa-github"}],
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
