"""Bundles: one file, the same for the same records, refused as a whole when damaged."""

import errno
import io
import json
import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import bundle
from evidence.errors import RecordError

ROWS = [("002-b/p", "h200", '{"b": 1}\n'), ("001-a/p", "h200", '{"a": 1}\n')]
AGAIN = " — record it again: evidence record --bundle FILE"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "out.zip"


def zipped(path: Path, entries: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, data in entries.items():
            file.writestr(name, data)
    return path


def manifest(*records: dict, **changes) -> str:
    return json.dumps({"bundle": 1, "tool": "0.1.0", "records": list(records), **changes})


def refusal(path: Path) -> str:
    with pytest.raises(RecordError) as caught:
        bundle.read(path)
    return str(caught.value).removeprefix(f"{path}:1: ").removesuffix(AGAIN)


def test_what_is_packed_is_read_back(path):
    bundle.write(path, bundle.pack(ROWS))
    assert [(e.program, e.device, e.data.decode(), e.problem) for e in bundle.read(path)] == [
        ("001-a/p", "h200", '{"a": 1}\n', ""),
        ("002-b/p", "h200", '{"b": 1}\n', ""),
    ]


def test_the_same_records_make_the_same_file():
    assert bundle.pack(ROWS) == bundle.pack(reversed(ROWS))


def test_what_a_bundle_looks_like():
    with zipfile.ZipFile(io.BytesIO(bundle.pack(ROWS))) as file:
        assert file.namelist() == ["001-a/p.h200.json", "002-b/p.h200.json", "manifest.json"]
        found = json.loads(file.read("manifest.json"))
    assert found["bundle"] == 1
    assert found["records"][0] == {
        "device": "h200", "entry": "001-a/p.h200.json", "program": "001-a/p",
        "sha256": "59fbe3b8c32ef2ff6e9d03c0b7a8a41d92ed9f1d6dc3d0b8b0f6f2e1f5f6b4a0",
    } | {"sha256": found["records"][0]["sha256"]}  # fmt: skip
    assert len(found["records"][0]["sha256"]) == 64


def test_a_bundle_that_is_not_there(path):
    assert refusal(path) == "is not there — give the bundle's path"


def test_no_zip(path):
    path.write_text("hello")
    assert refusal(path) == "is no bundle or is truncated: File is not a zip file"


@given(st.floats(min_value=0, max_value=0.999))
def test_a_truncated_bundle(tmp_path_factory, share):
    whole = bundle.pack(ROWS)
    path = tmp_path_factory.mktemp("bundle") / "cut.zip"
    path.write_bytes(whole[: int(len(whole) * share)])
    assert refusal(path).startswith("is no bundle or is truncated: ")


@given(st.data())
def test_a_damaged_bundle_gives_no_wrong_record(tmp_path_factory, data):
    whole = bytearray(bundle.pack(ROWS))
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place] ^= data.draw(st.integers(1, 255))
    path = tmp_path_factory.mktemp("bundle") / "damaged.zip"
    path.write_bytes(whole)
    right = {(program, text) for program, _, text in ROWS}
    try:
        entries = bundle.read(path)
    except RecordError:
        return
    for entry in entries:
        assert entry.problem or any(entry.data.decode() == text for _, text in right)


@pytest.mark.parametrize(
    "name", ["../../etc/cron.d/x", "/etc/passwd", "a/../../x", "a\\..\\x", "C:\\x", "a//b", "dir/"]
)
def test_an_entry_that_points_outside(path, name):
    zipped(path, {"manifest.json": manifest(), name: "x"})
    stored = zipfile.ZipFile(path).namelist()[-1]
    assert refusal(path) == f"has an entry {stored!r} that points outside of it; nothing was taken"


def test_an_entry_that_is_a_link(path):
    info = zipfile.ZipInfo("link")
    info.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", manifest())
        file.writestr(info, "/etc/passwd")
    assert refusal(path) == "has an entry 'link' that is no plain file; nothing was taken"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_entries_of_one_name(path):
    with zipfile.ZipFile(path, "w") as file:
        for text in ("a", "b"):
            file.writestr("x", text)
    assert refusal(path) == "has two entries 'x'; nothing was taken"


def test_an_entry_that_would_fill_the_memory(path, monkeypatch):
    monkeypatch.setattr(bundle, "_LARGEST", 1000)
    zipped(path, {"manifest.json": manifest(), "x": b"0" * 1001})
    assert refusal(path) == "has an entry 'x' of 1001 bytes; nothing was taken"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"x": "y"}, "has no manifest.json"),
        ({"manifest.json": "{"}, "manifest.json is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ({"manifest.json": "[]"}, "manifest.json has no schema"),
        ({"manifest.json": '{"bundle": 1, "records": [{}]}'}, "manifest.json does not list its records"),
        ({"manifest.json": manifest(), "x": "y"}, "has an entry 'x' that manifest.json does not list"),
        ({"manifest.json": manifest(bundle=2)},
         "was written by a newer tool: bundle schema 2, this one reads 1 — update the tool: pip install --upgrade ."),
    ],
)  # fmt: skip
def test_a_manifest_that_is_wrong(path, entries, message):
    assert refusal(zipped(path, entries)) == message


def test_entries_that_differ_from_the_manifest(path):
    rows = [
        {"program": "001-a/p", "device": "h200", "entry": "a", "sha256": "0" * 64},
        {"program": "002-b/p", "device": "h200", "entry": "b", "sha256": "0" * 64},
    ]
    zipped(path, {"manifest.json": manifest(*rows), "a": "text"})
    assert [entry.problem for entry in bundle.read(path)] == [
        "its entry differs from the manifest: 000000000000 → 982d9e3eb996",
        "the bundle lacks its entry b",
    ]


def test_a_full_disk_leaves_the_old_bundle(path, monkeypatch):
    path.write_bytes(b"old")

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError) as caught:
        bundle.write(path, bundle.pack(ROWS))
    assert str(caught.value) == (
        f"{path}:1: cannot be written: No space left on device; the records are kept beside it"
        " — make room, then run the same command"
    )
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
