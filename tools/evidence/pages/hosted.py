"""Where a reader can run a notebook: a hosted service, or a download and a hint."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

SERVICE = "https://colab.research.google.com"

_GITHUB = re.compile(r"https?://(?:www\.)?github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?")
_EDIT = re.compile(r"/?(?:edit|blob|raw|tree)/([^/]+)/(.*)")


@dataclass(frozen=True, slots=True)
class Repository:
    """What a site says about its sources.

    Attributes:
        url: Its `repo_url`; empty for none.
        edit: Its `edit_uri`, which names the branch.
        docs: Name of the folder of its pages, with which `edit` ends.
    """

    url: str = ""
    edit: str = ""
    docs: str = "docs"

    def notebook(self, relative: str) -> str | None:
        """Return the address that opens a notebook of the repository in the hosted service.

        None if the repository is not where the service can find it. The address is of
        the form `/github/OWNER/NAME/blob/BRANCH/PATH`.

        Args:
            relative: The notebook's path, relative to the project's root.
        """
        match = _GITHUB.fullmatch(self.url)
        if match is None:
            return None
        edit = _EDIT.fullmatch(self.edit.strip())
        branch = edit[1] if edit else "main"
        # What lies between the branch and the pages is where the project's root lies.
        above = edit[2].strip("/").removesuffix(self.docs).strip("/") if edit else ""
        path = quote(f"{above}/{relative}" if above else relative)
        return f"{SERVICE}/github/{match[1]}/{match[2]}/blob/{branch}/{path}"


def bar(name: str, download: str, hosted: str | None, anchor: str = "") -> str:
    """Return how a reader gets and runs a notebook, as HTML.

    Args:
        name: The notebook's file name.
        download: Link to the file.
        hosted: Address that opens it in the hosted service; None if there is none.
        anchor: What other pages link to; empty for none.
    """
    own = f' id="{escape(anchor)}"' if anchor else ""
    get = f'<a href="{escape(download)}" download="{escape(name)}">Download {escape(name)}</a>'
    if hosted is not None:
        run = f'<a href="{escape(hosted)}" rel="noopener external">Open it in Colab</a>, '
        how = "choose a runtime with a GPU, and run all cells."
    else:
        run = "Or run it on a hosted GPU: download it, "
        upload = f'<a href="{SERVICE}/#upload=true" rel="noopener external">upload it to Colab</a>'
        how = f"{upload}, choose a runtime with a GPU, and run all cells."
    return f'<p class="ev-hosted"{own}>{get}. {run}{how}</p>'
