"""How Sphinx builds the documentation; `make docs` does it, in an environment of its own."""

import re
import sys
from pathlib import Path

from pygments.lexers.shell import BashLexer

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

extensions = ["myst_parser", "from_docstrings"]

project = "keras_bert"
release = re.search(r'__version__ = "(.+)"', (HERE.parent / "keras_bert/__init__.py").read_text())[
    1
]
nitpicky = True
myst_heading_anchors = 3

# One theme that comes with Sphinx, and nothing from other hosts.
html_theme = "alabaster"
html_theme_options = {
    "description": "BERT for TensorFlow and Keras 3",
    "fixed_sidebar": True,
    "page_width": "64rem",
    "show_powered_by": False,
}
html_static_path = ["static"]
html_css_files = ["wide.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False


def setup(app):
    """Called by Sphinx. Our commands stand without a prompt, to be copied."""
    app.add_lexer("console", BashLexer)
