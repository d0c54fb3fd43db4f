"""Settings of the documentation site; `make docs` builds the site in its own environment."""

import re
import sys
from pathlib import Path

from pygments.lexers.shell import BashLexer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

extensions = ["myst_parser", "sphinx_copybutton", "from_docstrings"]

project = "keras_bert"
release = re.search(r'__version__ = "(.+)"', (HERE.parent / "keras_bert/__init__.py").read_text())[
    1
]
nitpicky = True
myst_heading_anchors = 3

# Pages fetch nothing from other hosts: the theme brings its fonts, icons and search.
html_theme = "pydata_sphinx_theme"
html_title = "keras_bert"
html_theme_options = {
    "article_header_start": [],
    "footer_end": [],
    "footer_start": ["sphinx-version"],
    "navbar_center": [],
    "secondary_sidebar_items": ["page-toc"],
    "show_prev_next": True,
}
html_sidebars = {"**": ["sidebar-pages"]}
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False


def setup(app):
    """Highlights `console` blocks as shell commands; they have no prompt, so they can be copied."""
    app.add_lexer("console", BashLexer)
