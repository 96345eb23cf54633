"""A notebook on a page: converted by mkdocs-jupyter, with the outputs that were recorded.

Nothing is run here. The notebook's source and what its evidence holds of each cell make an
executed notebook, and that is converted. Of the result the text, the headings and rich
outputs are taken; code gets the site's colours, and what was printed stands there like
every recorded output, each value with its anchor. The converter's own styles and scripts
are left out: they are half a megabyte, and some would be fetched from elsewhere.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import json
import os
import re
import tempfile
import warnings
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evidence import key, lexing, notebookrun, notebooks
from evidence.pages import colours, ids, paper, provenance

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from evidence.model import Program
    from evidence.states import State
    from evidence.values import Value

FOLDER = Path(".evidence") / "notebooks"
"""Where converted notebooks are kept, under the project's root; not in version control."""

_STYLES = re.compile(r"<(style|script)\b.*?</\1>", re.DOTALL)
_HEADINGS = re.compile(r"h[1-6]")
# A kernel's source in a text of its own lines.
_SOURCE = re.compile(r'r"""\n(?P<cuda>(?:(?!""").)*__global__(?:(?!""").)*)\n"""', re.DOTALL)
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a shown notebook.

    Attributes:
        html: Its HTML; of a heading its text.
        level: Of a heading, 2 for `h2`; 0 for anything else.
    """

    html: str
    level: int = 0


def parts(
    program: Program,
    state: State,
    values: Mapping[str, Value],
    *,
    wanted: Collection[str],
    cache: Path | None,
    bar: str,
) -> list[Part]:
    """Return a notebook, piece by piece.

    Args:
        program: The notebook.
        state: Its evidence.
        values: The evidence's values by address.
        wanted: Addresses of the values that need an anchor.
        cache: Folder that keeps what was converted; None for none.
        bar: How a reader gets and runs it, as HTML; stands first.
    """
    record = state.record
    text = lexing.to_lf(program.path.read_bytes()).decode("utf-8")
    belongs = record is not None and record.passed and _same(state)
    run = record.data["runs"][0] if record is not None and belongs else {}
    left: list[Any] = run.get("cells") or []
    printed = paper.Printed(program, record.data, values, wanted) if record and left else None
    cells = notebooks.cells(text, program.relative)
    converted = iter(_converted(executed(text, program.relative, run), cache))
    made: list[Part] = []
    for cell in cells:
        if cell.kind == "markdown":
            made += _text(next(converted))
        elif cell.kind == "code":
            rich = next(converted)
            if cell.number:
                outputs = left[cell.number - 1] if cell.number <= len(left) else []
                shown = "".join(_outputs(outputs, run, rich, printed))
                made.append(Part(_cell(program, cell) + shown))
    head = bar
    if record is not None and printed is not None:
        head += (
            f'<figure class="ev-output ev-from" data-search-exclude="">{_runs(record.data["runs"])}'
            f"{provenance.details(program, record, values, printed.places)}</figure>"
        )
    return [Part(head), *made]


def _same(state: State) -> bool:
    """Whether the evidence is of the very cells that the source has now."""
    if state.record is None or state.inputs is None:
        return False
    return key.key_of(state.inputs) == state.record.key


def executed(text: str, relative: str, run: Mapping[str, Any]) -> str:
    """Return a notebook's file as it is after a recorded run, as Jupyter would keep it.

    Args:
        text: Its file without outputs.
        relative: Its path, for messages.
        run: The stored run; without `cells` nothing is added.
    """
    document = json.loads(notebooks.tidy(text, relative))
    left = run.get("cells") or []
    for cell, at in zip(document["cells"], notebooks.cells(text, relative), strict=True):
        if at.number and at.number <= len(left):
            cell["execution_count"] = at.number
            cell["outputs"] = [_jupyter(output, run, at.number) for output in left[at.number - 1]]
    return notebooks.dump(document)


def _jupyter(output: Mapping[str, Any], run: Mapping[str, Any], number: int) -> dict[str, Any]:
    lines = list(notebookrun.lines_of(run, output))
    kind = output["kind"]
    if kind in ("stdout", "stderr"):
        return {"output_type": "stream", "name": kind, "text": "".join(f"{x}\n" for x in lines)}
    if kind == "error":
        said = {"ename": output["name"], "evalue": output["value"], "traceback": lines}
        return {"output_type": "error", **said}
    data = {"text/plain": "\n".join(lines)}
    if "image" in output:
        data[output["image"]["type"]] = "".join(output["image"]["base64"])
    made: dict[str, Any] = {"output_type": "display_data", "metadata": {}, "data": data}
    if kind == "result":
        made |= {"output_type": "execute_result", "execution_count": number}
    return made


def _converted(document: str, cache: Path | None) -> list[str]:
    """Return what mkdocs-jupyter makes of each cell of text or code, as HTML."""
    recipe = f"{_VERSION} {importlib.metadata.version('mkdocs-jupyter')}\n{document}"
    path = cache / f"{_hash(recipe)}.json" if cache is not None else None
    if path is not None:
        with contextlib.suppress(OSError, ValueError, KeyError):
            kept = json.loads(path.read_text(encoding="utf-8"))
            if kept["hash"] == _hash(json.dumps(kept["cells"])):
                return [str(cell) for cell in kept["cells"]]
    made = _convert(document)
    if path is not None:
        # A tree that nobody may write to is built all the same, only slower.
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            part = path.with_name(f"{path.name}.{os.getpid()}.tmp")
            text = json.dumps({"cells": made, "hash": _hash(json.dumps(made))})
            part.write_text(text, encoding="utf-8")
            part.replace(path)
    return made


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _convert(document: str) -> list[str]:
    soup = _soup(_STYLES.sub("", _html(document)))
    return [str(cell) for cell in soup.select("div.jp-Cell[id]")]


def _html(document: str) -> str:
    """Convert a notebook, without anything that this user or machine has configured."""
    before = os.environ.get("JUPYTER_NO_CONFIG")
    os.environ["JUPYTER_NO_CONFIG"] = "1"
    try:
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")  # about where Jupyter will keep things one day
            convert: Any = importlib.import_module("mkdocs_jupyter.convert")
            path = Path(folder) / "notebook.ipynb"
            path.write_text(document, encoding="utf-8")
            html: str = convert.nb2html(str(path), execute=False)
            return html
    finally:
        if before is None:
            del os.environ["JUPYTER_NO_CONFIG"]
        else:
            os.environ["JUPYTER_NO_CONFIG"] = before


def _soup(html: str) -> Any:
    return importlib.import_module("bs4").BeautifulSoup(html, "html.parser")


def _text(html: str) -> Iterator[Part]:
    """Yield the headings of a cell of text, and what stands between them."""
    body = _soup(html).select_one(".jp-RenderedMarkdown")
    pending = ""
    for child in list(body.children) if body is not None else ():
        name = getattr(child, "name", None)
        if name is None or not _HEADINGS.fullmatch(name):
            for pre in child.select("pre") if name == "div" else [child] * (name == "pre"):
                pre["tabindex"] = "0"
            pending += str(child)
            continue
        if pending.strip():
            yield Part(f'<div class="ev-text">{pending}</div>')
        pending = ""
        for link in child.select("a.anchor-link"):
            link.decompose()
        level = int(name[1])
        if level > 1:  # the page has a title of its own
            yield Part(child.get_text().strip(), level)
    if pending.strip():
        yield Part(f'<div class="ev-text">{pending}</div>')


def _runs(runs: list[Any]) -> str:
    if len(runs) == 1:
        return ""
    differ = any(run["stdout"] != runs[0]["stdout"] for run in runs)
    text = "what differs between them is dotted" if differ else "all of them printed the same"
    return f'<p class="ev-same">the first of {len(runs)} runs; {text}</p>'


def _cell(program: Program, cell: notebooks.Cell) -> str:
    anchor = escape(f"{ids.source(program)}~cell-{cell.number}")
    code = "".join(f"{row}\n" for row in _coloured(cell.text.strip("\n")))
    return (
        f'<figure class="ev-code ev-cell" id="{anchor}">'
        f'<figcaption class="ev-bar"><span class="ev-file">[{cell.number}]</span></figcaption>'
        f'<div class="highlight"><pre><code class="language-python">{code}</code></pre></div>'
        "</figure>"
    )


def _coloured(text: str) -> list[str]:
    """Return the lines of a cell as HTML; a text that is a CUDA source, as that."""
    rows = list(colours.lines(text, "python"))
    for match in _SOURCE.finditer(text):
        first = text.count("\n", 0, match.start("cuda"))
        source = colours.lines(match["cuda"], "cuda")
        rows[first : first + len(source)] = source
    return rows


def _outputs(
    outputs: list[Any], run: Mapping[str, Any], rich: str, printed: paper.Printed | None
) -> Iterator[str]:
    children = _soup(rich).select(".jp-OutputArea-child") if outputs else []
    shown = []
    for number, output in enumerate(outputs):
        if output["kind"] == "stdout" and printed is not None:
            shown.append(printed.rows(output["first"], output["count"]))
        elif "image" in output:
            shown += _images(children[number], "\n".join(output["lines"]))
        else:
            text = escape("\n".join(notebookrun.lines_of(run, output)), quote=False)
            quiet = output["kind"] in ("stderr", "error")
            row = f'<span class="ev-stderr">{text}</span>' if quiet else text
            shown.append(paper.sheet(f"{row}\n"))
    if shown:
        html = "".join(shown)
        yield f'<figure class="ev-output ev-left" data-search-exclude="">{html}</figure>'


def _images(child: Any, text: str) -> Iterator[str]:
    for image in child.select("img"):
        yield f'<img src="{escape(image["src"])}" alt="{escape(text)}">'
