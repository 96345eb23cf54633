"""Who recorded a bundle: a signature by an SSH key over its manifest.

The manifest holds the sha256 of every entry, so the signature vouches for all of
them. It lies in the bundle beside the manifest. OpenSSH's own tool signs and
verifies; who may sign is said in its own format (ALLOWED SIGNERS in
`man ssh-keygen`), in a file that is the verifier's and not the bundle's.
"""

from __future__ import annotations

import io
import re
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from evidence import bundle
from evidence.errors import EvidenceError, RecordError, ToolchainError
from evidence.findings import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable

TOOL = "ssh-keygen"
# A signature for anything else, of a commit for instance, is none of a bundle.
NAMESPACE = "evidence-bundle"

_KEY = re.compile(r"with (\S+) key (\S+)")
_WAIT = 60.0
_AGAIN = "have it recorded and signed again: evidence record --bundle FILE --sign KEY"


@dataclass(frozen=True, slots=True)
class Seal:
    """What a sound bundle says about who made it.

    Attributes:
        signed: Whether there is a signature, and it is of this very manifest.
        key: Such as `ED25519 SHA256:NNG+…`.
        who: The name under which the key is allowed; "" if it is not.
        why: Why it is not.
    """

    signed: bool
    key: str = ""
    who: str = ""
    why: str = ""


def sign(path: Path, key: Path) -> str:
    """Sign a bundle, in place of any signature it has.

    Args:
        path: The bundle.
        key: A private key, or the public one of a key that an agent holds.

    Returns:
        The key, as `ED25519 SHA256:NNG+…`.

    Raises:
        EvidenceError: It is no bundle, or the key does not sign.
    """
    bundle.read(path)
    with zipfile.ZipFile(path) as file:
        entries = [(info, file.read(info)) for info in file.infolist()]
    manifest = next(data for info, data in entries if info.filename == bundle.MANIFEST)
    signature = signature_of(manifest, key)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for info, data in entries:
            if info.filename != bundle.SIGNATURE:
                file.writestr(info, data)
        file.writestr(bundle.info_of(bundle.SIGNATURE), signature)
    bundle.write(path, buffer.getvalue())
    return _key_of(path, manifest, signature)


def signature_of(data: bytes, key: Path) -> bytes:
    """Return a key's signature of some bytes.

    Raises:
        EvidenceError: There is no such key, or it does not sign.
    """
    done = _ask("sign", "-f", str(key), data=data)
    if done.returncode != 0 or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise EvidenceError(
            f"does not sign: {_said(done)}", path=key,
            fix="give a private key without a passphrase, or add it to the agent: ssh-add KEY",
        )  # fmt: skip
    return done.stdout


def examine(path: Path, allowed: Path | None) -> Seal:
    """Verify the signature of a bundle.

    Args:
        path: The bundle.
        allowed: OpenSSH's file of allowed signers, if there is one.

    Raises:
        EvidenceError: It is no bundle, it has a signature that is not of its
            manifest, or there is no tool to tell.
    """
    entries = bundle.read(path)
    with zipfile.ZipFile(path) as file:
        if bundle.SIGNATURE not in file.namelist():
            return Seal(signed=False, why="is not signed")
        manifest, signature = file.read(bundle.MANIFEST), file.read(bundle.SIGNATURE)
    key = _key_of(path, manifest, signature)
    for entry in entries:
        if entry.problem:
            raise _altered(path, f": {entry.program} on {entry.device}: {entry.problem}")
    if allowed is None:
        return Seal(signed=True, key=key, why=f"is signed by {key}, and nobody said who that is")
    if not allowed.is_file():
        raise EvidenceError(
            "is not there, and says who may sign", path=allowed,
            fix="give it: evidence accept --allowed-signers FILE …",
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file_of = Path(folder) / "signature"
        file_of.write_bytes(signature)
        common = ("-f", str(allowed), "-s", str(file_of))
        found = _ask("find-principals", *common)
        who = found.stdout.decode("utf-8", "replace").split("\n")[0].strip()
        if found.returncode == 0 and who:
            found = _ask("verify", "-I", who, *common, data=manifest)
    if found.returncode == 0 and who:
        return Seal(signed=True, key=key, who=who)
    said = found.stderr.decode("utf-8", "replace").splitlines()
    reason = next((line.partition(": ")[2] for line in said if line.startswith(str(allowed))), "")
    why = reason or f"{allowed} does not name it"
    return Seal(signed=True, key=key, why=f"is signed by {key}, which may not sign: {why}")


def judge(
    paths: Iterable[Path], allowed: Path | None, *, required: bool
) -> tuple[list[Path], list[str], list[Finding]]:
    """Tell bundles that may be read from those that may not.

    Args:
        paths: The bundles.
        allowed: The file of allowed signers, if there is one.
        required: Whether only what an allowed signer signed may be read.

    Returns:
        The bundles that may be read; a line on each that is signed; a finding
        on each that may not be read.
    """
    good: list[Path] = []
    lines: list[str] = []
    refused: list[Finding] = []
    for path in paths:
        try:
            seal = examine(path, allowed)
            if required and not seal.who:
                raise RecordError(
                    seal.why, path=path, fix=f"have it signed: evidence sign {path} --key KEY"
                )
        except EvidenceError as error:
            refused.append(Finding.of(error, "bad-bundle", str(path)))
            continue
        good.append(path)
        if seal.signed:
            lines.append(f"{path}: {f'signed by {seal.who}, {seal.key}' if seal.who else seal.why}")
    return good, lines, refused


def _key_of(path: Path, manifest: bytes, signature: bytes) -> str:
    """Return the key that a signature is of.

    Raises:
        RecordError: The signature is not of this manifest, or is none.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "signature"
        file.write_bytes(signature)
        done = _ask("check-novalidate", "-s", str(file), data=manifest)
    match = _KEY.search(done.stdout.decode("utf-8", "replace"))
    if done.returncode == 0 and match:
        return f"{match.group(1)} {match.group(2)}"
    said = _said(done)
    if "incorrect signature" in said:
        raise _altered(path, ": its manifest is not the one that was signed")
    why = f"cannot be read: {said}"
    if "namespace" in said:
        why = f"was made for something else than {NAMESPACE}"
    raise RecordError(f"its signature {why}", path=path, fix=_AGAIN)


def _altered(path: Path, how: str) -> RecordError:
    return RecordError(f"was altered after it was signed{how}", path=path, fix=_AGAIN)


def _ask(what: str, *words: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    tool = shutil.which(TOOL)
    if tool is None:
        raise ToolchainError(
            f"{TOOL} is not installed", fix="install it: apt-get install openssh-client"
        )
    space = () if what == "find-principals" else ("-n", NAMESPACE)
    try:
        return subprocess.run(
            [tool, "-Y", what, *space, *words], input=data, capture_output=True, check=False,
            timeout=_WAIT,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise ToolchainError(
            f"{TOOL} did not answer within {_WAIT:.0f} s", fix="see that it needs no passphrase"
        ) from None


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = done.stderr.decode("utf-8", "replace").splitlines()
    lines = [line for line in lines if line.strip() and line != "Signing data on standard input"]
    return lines[0].strip() if lines else f"exit status {done.returncode}"
