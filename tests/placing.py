"""Where a block of a page may stand."""

from __future__ import annotations

# The block in place of a number in braces, indented by as much, or quoted in place of `{>}`.
PLACES = {
    "after a paragraph": "Text\n{0}\nmore",
    "in a tab": '=== "One"\n\n{4}\n\n=== "Two"\n\n    text',
    "in an admonition": "!!! note\n\n{4}\n\n    text",
    "in details": '??? note "Folded"\n\n{4}',
    "in a block": "//// details | Title\n\n{0}\n\n////",
    "in a list": "- item\n\n{4}\n\n- item",
    "in a numbered list": "1. item\n\n{4}\n\n2. item",
    "in a list in a list": "- item\n\n    - item\n\n{8}\n",
    "in a tab in a list": '- item\n\n    === "Tab"\n\n{8}',
    "in a quote": "{>}",
    "in a definition": "Term\n:   words\n\n{4}",
    "in an element": '<div markdown="1">\n\n{0}\n\n</div>',
}


def placed(place: str, block: str) -> tuple[str, int]:
    """Return a text with a block in it, and how many lines stand above the block."""
    pattern = PLACES[place]
    lines = block.split("\n")
    shapes = {
        "{0}": lines,
        "{4}": [f"    {line}" if line else "" for line in lines],
        "{8}": [f"        {line}" if line else "" for line in lines],
        "{>}": [f"> {line}".rstrip() for line in lines],
    }
    [shape] = [shape for shape in shapes if shape in pattern]
    above = pattern.partition(shape)[0].count("\n")
    return pattern.replace(shape, "\n".join(shapes[shape])), above
