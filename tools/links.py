"""Follow every link of a built site, as a reader's browser would ask for it.

Run by `make links`. Pages are served on this machine; addresses of others are not
asked, so the answer does not depend on them.
"""

from __future__ import annotations

import functools
import http.server
import subprocess
import sys
import threading
from pathlib import Path

IGNORED = (
    "url-too-long",  # Compiler Explorer takes whole programs in an address
    "http-redirected",
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing: LinkChecker says what was wrong."""


def main(folder: Path) -> int:
    """Serve a folder, follow its links, and return LinkChecker's exit status."""
    if not (folder / "index.html").is_file():
        print(f"{folder}/index.html: is not there — run: make site", file=sys.stderr)
        return 2
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        rules = Path(__file__).with_name("linkchecker.ini")
        words = [sys.executable, "-m", "linkcheck", "--config", str(rules)]
        address = f"http://127.0.0.1:{server.server_port}/"
        done = subprocess.run([*words, address], check=False)
        server.shutdown()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "site")))
