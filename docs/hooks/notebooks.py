"""The notebook of the examples becomes a page, with the outputs it is kept with.

`docs/notebook.md` is only its place in the navigation: the page's text is made here, from the
notebook's cells. Nothing is run, and pictures become part of the page.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

PAGE = "notebook.md"
NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook" / "hospitals.ipynb"
ALTERNATIVE = "Picture that the code above draws"
STYLE = re.compile(r"<style[^>]*>.*?</style>\n?|\s*<!--.*?-->", re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by MkDocs for every page."""
    if page.file.src_uri != PAGE:
        return markdown
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(as_markdown(cell) for cell in cells) + "\n"


def as_markdown(cell: dict[str, Any]) -> str:
    """One cell: its text, or its code and what that printed, returned and drew."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([f"```python\n{source}\n```", *(shown(out) for out in cell["outputs"])])


def shown(output: dict[str, Any]) -> str:
    """What a reader of the notebook sees of one output: a picture, a table or text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture = "".join(data["image/png"]).replace("\n", "")
        return f'<figure><img alt="{ALTERNATIVE}" src="data:image/png;base64,{picture}"></figure>'
    if "text/html" in data:
        table = STYLE.sub("", "".join(data["text/html"])).replace(' border="1"', "")
        return re.sub(r"\n\s*", "\n", table).replace(' class="dataframe"', "").strip()
    return f"```text\n{''.join(output.get('text') or data['text/plain']).rstrip()}\n```"
