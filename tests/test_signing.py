"""Who recorded a bundle: signed by the right key or refused, with real OpenSSH keys."""

import io
import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import fake_cuda
from evidence import bundle, cli, signing, store
from evidence.errors import EvidenceError, ToolchainError
from recording import path_of, record
from test_untrusted_recording import command

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed"
)
AGAIN = " — have it recorded and signed again: evidence record --bundle FILE --sign KEY"


@pytest.fixture(scope="module")
def keys(tmp_path_factory) -> Path:
    """A folder with the keys `ada` and `eve`, and what says that ada may sign."""
    folder = tmp_path_factory.mktemp("keys")
    for name, passphrase in (("ada", ""), ("eve", ""), ("shut", "secret")):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", folder / name],
            check=True,
        )  # fmt: skip
    folder.joinpath("allowed").write_text(f"ada@example.org {(folder / 'ada.pub').read_text()}")
    return folder


def fingerprint(keys: Path, name: str) -> str:
    said = subprocess.check_output(["ssh-keygen", "-l", "-f", keys / name], text=True)
    return f"ED25519 {said.split()[1]}"


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda")


@pytest.fixture
def made(tree, kit, tmp_path) -> Path:
    tree.program(text=fake_cuda.source("echo 'Result'", "echo '  sum   12'"))
    target = tmp_path / "out.zip"
    record(tree, kit, target=target)
    return target


def rewritten(path: Path, name: str, data: bytes | None) -> None:
    """Replace an entry of a bundle, or remove it."""
    with zipfile.ZipFile(path) as file:
        entries = {info.filename: file.read(info) for info in file.infolist()}
    entries.pop(name, None)
    if data is not None:
        entries[name] = data
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for each, content in entries.items():
            file.writestr(each, content)
    path.write_bytes(buffer.getvalue())


def judged(path: Path, allowed: Path | None, *, required: bool = True) -> str:
    """Return what is said about one bundle: how it is signed, or why it is refused."""
    good, lines, refused = signing.judge([path], allowed, required=required)
    assert bool(good) is not bool(refused)
    text = refused[0].explain() if refused else "".join(lines)
    return text.replace(str(path), "out.zip").removeprefix("out.zip:1: bad-bundle: ")


def test_a_signed_bundle(made, keys):
    said = signing.sign(made, keys / "ada")
    assert said == fingerprint(keys, "ada")
    assert judged(made, keys / "allowed") == f"out.zip: signed by ada@example.org, {said}"
    assert [entry.program for entry in bundle.read(made)] == ["001-add/add"]


def test_signing_again_replaces_the_signature(made, keys):
    signing.sign(made, keys / "eve")
    signing.sign(made, keys / "ada")
    assert judged(made, keys / "allowed").startswith("out.zip: signed by ada@example.org")


def test_the_signature_of_the_same_records_is_the_same(made, keys, tmp_path):
    copy = tmp_path / "copy.zip"
    shutil.copy(made, copy)
    for path in (made, copy):
        signing.sign(path, keys / "ada")
    assert made.read_bytes() == copy.read_bytes()


def test_an_unsigned_bundle(made, keys):
    assert judged(made, keys / "allowed") == (
        "is not signed — have it signed: evidence sign out.zip --key KEY"
    )
    assert judged(made, keys / "allowed", required=False) == ""
    assert judged(made, None, required=False) == ""


def test_a_bundle_signed_by_somebody_else(made, keys):
    signing.sign(made, keys / "eve")
    why = (
        f"is signed by {fingerprint(keys, 'eve')}, which may not sign: "
        f"{keys}/allowed does not name it"
    )
    assert judged(made, keys / "allowed") == (
        f"{why} — have it signed: evidence sign out.zip --key KEY"
    )
    assert judged(made, keys / "allowed", required=False) == f"out.zip: {why}"


def test_a_signature_that_nobody_can_judge(made, keys):
    signing.sign(made, keys / "ada")
    why = f"is signed by {fingerprint(keys, 'ada')}, and nobody said who that is"
    assert judged(made, None, required=False) == f"out.zip: {why}"


def test_a_key_that_has_expired(made, keys, tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text(f'ada valid-before="20200101" {(keys / "ada.pub").read_text()}')
    signing.sign(made, keys / "ada")
    said = judged(made, allowed)
    assert said.startswith(
        f"is signed by {fingerprint(keys, 'ada')}, which may not sign: key has expired: verify time"
    )


def test_a_key_that_may_only_sign_other_things(made, keys, tmp_path):
    allowed = tmp_path / "allowed"
    allowed.write_text(f'ada namespaces="git" {(keys / "ada.pub").read_text()}')
    signing.sign(made, keys / "ada")
    assert "which may not sign" in judged(made, allowed)


@pytest.mark.parametrize("required", [True, False])
def test_a_record_that_was_altered(made, keys, required):
    signing.sign(made, keys / "ada")
    entry = bundle.read(made)[0]
    rewritten(made, "001-add/add.h200.json", entry.data.replace(b"sum   12", b"sum   99"))
    said = judged(made, keys / "allowed", required=required)
    assert said.startswith(
        "was altered after it was signed: 001-add/add on h200: its entry differs from the manifest: "
    )
    assert said.endswith(AGAIN)


@pytest.mark.parametrize("required", [True, False])
def test_a_record_that_was_altered_with_every_hash_made_right(made, keys, required):
    signing.sign(made, keys / "ada")
    with zipfile.ZipFile(made) as file:
        signature = file.read(bundle.SIGNATURE)
    data = json.loads(bundle.read(made)[0].data)
    data["runs"][0]["stdout"] = ["Result", "  sum   99"]
    bundle.write(made, bundle.pack([("001-add/add", "h200", store.dump(data))]))
    rewritten(made, bundle.SIGNATURE, signature)
    assert judged(made, keys / "allowed", required=required) == (
        f"was altered after it was signed: its manifest is not the one that was signed{AGAIN}"
    )


def test_a_record_that_was_taken_out(made, keys):
    signing.sign(made, keys / "ada")
    rewritten(made, "001-add/add.h200.json", None)
    assert "was altered after it was signed: 001-add/add on h200: the bundle lacks" in judged(
        made, keys / "allowed"
    )


def test_a_record_that_was_put_in(made, keys):
    signing.sign(made, keys / "ada")
    rewritten(made, "002-b/p.h200.json", b"{}")
    assert "which manifest.json does not list" not in judged(made, keys / "allowed")
    assert "that manifest.json does not list" in judged(made, keys / "allowed")


def test_a_signature_that_was_taken_off(made, keys):
    signing.sign(made, keys / "ada")
    rewritten(made, bundle.SIGNATURE, None)
    assert judged(made, keys / "allowed").startswith("is not signed")


@pytest.mark.parametrize("required", [True, False])
def test_a_signature_of_something_else(made, keys, required):
    signing.sign(made, keys / "ada")
    with zipfile.ZipFile(made) as file:
        manifest = file.read(bundle.MANIFEST)
    other = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-f", keys / "ada", "-n", "git"], input=manifest,
        capture_output=True, check=True,
    ).stdout  # fmt: skip
    rewritten(made, bundle.SIGNATURE, other)
    assert judged(made, keys / "allowed", required=required) == (
        f"its signature was made for something else than evidence-bundle{AGAIN}"
    )


def test_a_signature_that_is_none(made, keys):
    signing.sign(made, keys / "ada")
    rewritten(made, bundle.SIGNATURE, b"hello\n")
    assert judged(made, keys / "allowed") == (
        f"its signature cannot be read: Couldn't parse signature: missing header{AGAIN}"
    )


def test_no_file_of_allowed_signers(made, keys, tmp_path):
    signing.sign(made, keys / "ada")
    assert judged(made, tmp_path / "none") == (
        f"{tmp_path}/none:1: bad-bundle: is not there, and says who may sign"
        " — give it: evidence accept --allowed-signers FILE …"
    )


@pytest.mark.parametrize("name", ["nothing", "shut", "allowed"])
def test_a_key_that_does_not_sign(made, keys, name, monkeypatch):
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("SSH_ASKPASS", "/bin/false")  # nobody is asked for the passphrase
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    with pytest.raises(EvidenceError) as caught:
        signing.sign(made, keys / name)
    assert str(caught.value).startswith(f"{keys}/{name}:1: does not sign: ")
    assert str(caught.value).endswith(
        " — give a private key without a passphrase, or add it to the agent: ssh-add KEY"
    )


def test_signing_what_is_no_bundle(keys, tmp_path):
    path = tmp_path / "x.zip"
    path.write_text("hello")
    with pytest.raises(EvidenceError) as caught:
        signing.sign(path, keys / "ada")
    assert "is no bundle or is truncated" in str(caught.value)


def test_a_machine_without_the_tool(made, keys, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(ToolchainError) as caught:
        signing.sign(made, keys / "ada")
    assert str(caught.value) == (
        "ssh-keygen is not installed — install it: apt-get install openssh-client"
    )


# The commands.


def accept(tree, capsys, *words: str | Path) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), "accept", *map(str, words)])
    said = capsys.readouterr()
    return caught.value.code, said.out, said.err


def test_what_accept_takes(tree, made, keys, capsys):
    assert accept(tree, capsys, made, "--require-signed", "--allowed-signers", keys / "allowed") == (
        1, "0 taken, 1 refused\n",
        f"{made}:1: bad-bundle: is not signed — have it signed: evidence sign {made} --key KEY\n",
    )  # fmt: skip
    assert not path_of(tree).exists()
    signing.sign(made, keys / "ada")
    code, out, err = accept(
        tree, capsys, made, "--require-signed", "--allowed-signers", keys / "allowed"
    )
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{made}: signed by ada@example.org, {fingerprint(keys, 'ada')}"
    assert path_of(tree).exists()


def test_who_may_sign_can_stand_in_the_configuration(tree, made, keys, capsys):
    code, _, err = accept(tree, capsys, made, "--require-signed")
    assert code == 2
    assert "--require-signed needs to know who may sign: --allowed-signers FILE" in err
    tree.write("pyproject.toml", '[tool.evidence]\nallowed_signers = "signers"\n')
    tree.write("signers", (keys / "allowed").read_text())
    signing.sign(made, keys / "ada")
    assert accept(tree, capsys, made, "--require-signed")[0] == 0


def test_a_bundle_of_a_stranger_is_no_hindrance_where_nobody_asks(tree, made, keys, capsys):
    signing.sign(made, keys / "eve")
    code, out, err = accept(tree, capsys, made)
    assert (code, err) == (0, "")
    assert "and nobody said who that is" in out


def test_recording_and_signing(tree, kit, keys, tmp_path):
    tree.program(text=fake_cuda.source("echo x"))
    target = tmp_path / "out.zip"
    done = command(tree, kit, "record", "--bundle", str(target), "--sign", str(keys / "ada"))
    assert (done.returncode, done.stderr) == (0, "")
    assert f"signed {target} with {fingerprint(keys, 'ada')}\n" in done.stdout
    assert judged(target, keys / "allowed").startswith("out.zip: signed by ada@example.org")


def test_recording_with_a_key_that_does_not_sign_does_not_begin(tree, kit, keys, tmp_path):
    tree.program(text=fake_cuda.source("echo x"))
    target = tmp_path / "out.zip"
    done = command(tree, kit, "record", "--bundle", str(target), "--sign", str(keys / "nothing"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "nothing:1: does not sign: " in done.stderr
    assert not target.exists()
    done = command(tree, kit, "record", "--sign", str(keys / "ada"))
    assert done.returncode == 2
    assert "--sign signs a bundle: add --bundle FILE" in done.stderr


def test_signing_afterwards(made, keys, capsys):
    with pytest.raises(SystemExit) as caught:
        cli.main(["sign", str(made), "--key", str(keys / "ada")])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"signed {made} with {fingerprint(keys, 'ada')}\n"
