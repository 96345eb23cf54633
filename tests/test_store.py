"""Evidence files: whole or not at all, believed only if untouched, rewritten only for a reason."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from conftest import made_record
from evidence import merging, store
from evidence.errors import RecordError

WHERE = "kernels/001-add/evidence/add.h200.json"
AGAIN = "record it again: evidence record 001-add/add"


@pytest.fixture
def document(tree):
    tree.program()
    return made_record(tree.load(), "001-add/add")


def refusal(text: str | bytes) -> str:
    data = text.encode("utf-8") if isinstance(text, str) else text
    with pytest.raises(RecordError) as caught:
        store.parse(data, WHERE)
    return str(caught.value)


def test_what_is_dumped_is_read_back(document):
    text = store.dump(document)
    record = store.parse(text.encode("utf-8"), WHERE)
    assert {**record.data, "body": ""} == {**document, "body": ""}
    assert (record.program, record.device, record.key) == ("001-add/add", "h200", document["key"])


def test_the_file_is_made_for_diffs(document):
    text = store.dump(document)
    assert text.endswith("}\n")
    assert "\r" not in text
    assert list(json.loads(text)) == sorted(document | {"body": ""})
    assert '    "case n = 256",\n' in text


def test_a_checkout_with_crlf_is_still_believed(document):
    store.parse(store.dump(document).replace("\n", "\r\n").encode("utf-8"), WHERE)


def test_one_digit_edited_by_hand(document):
    text = store.dump(document)
    edited = text.replace("1.25", "1.24", 1)
    assert edited != text
    message = refusal(edited)
    assert message.startswith(f"{WHERE}:1: was edited after it was recorded: body ")
    assert message.endswith(f" — undo the edit (git checkout -- {WHERE}), or {AGAIN}")


def test_even_white_space_added_by_hand_is_seen(document):
    assert "was edited" in refusal(store.dump(document).replace("  time", "   time", 1))


def test_every_truncation_is_refused(document):
    text = store.dump(document)
    for end in range(0, len(text) - 1, 7):
        with pytest.raises(RecordError):
            store.parse(text[:end].encode("utf-8"), WHERE)
    lines = text[:2000].count("\n") + 1
    assert refusal(text[:2000]) == f"{WHERE}:{lines}: is truncated — {AGAIN}"


def test_a_newer_schema(document):
    assert refusal(store.dump({**document, "schema": 2})) == (
        f"{WHERE}:1: was written by a newer tool: schema 2, this one reads 1 — "
        "update the tool: pip install --upgrade ."
    )


def test_conflict_markers(document):
    text = store.dump(document)
    at = text.index(' "key"')
    line = text[:at].count("\n") + 1
    conflict = text[:at] + "<<<<<<< HEAD\n" + text[at:] + "=======\n>>>>>>> main\n"
    assert refusal(conflict) == (
        f"{WHERE}:{line}: has a merge conflict marker '<<<<<<<' — "
        f"take one side whole (git checkout --ours or --theirs), or {AGAIN}"
    )


def test_output_that_looks_like_a_conflict_marker_is_no_conflict(document):
    document["runs"][0]["stdout"] = ["<<<<<<< HEAD", "=======", ">>>>>>> main"]
    store.parse(store.dump(document).encode("utf-8"), WHERE)


def test_a_record_that_lacks_a_part(document):
    del document["runs"]
    assert refusal(store.dump(document)) == f"{WHERE}:1: lacks runs — {AGAIN}"


@pytest.mark.parametrize("device", [[], "h200", {}, {"label": 1}, None])
def test_a_device_that_is_none(document, device):
    assert refusal(store.dump({**document, "device": device})) == (
        f"{WHERE}:1: does not follow the schema at device — {AGAIN}"
    )


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\xff{}", "not UTF-8 at byte 0"),
        (b"[]\n", "is not an evidence record: it has no schema"),
        (b"{}\n", "is not an evidence record: it has no schema"),
        (b"", "is truncated"),
        (b"{,}\n", "is not JSON: "),
    ],
)
def test_what_is_no_record(data: bytes, says: str):
    assert says in refusal(data)


def test_writing_leaves_nothing_else_behind(tmp_path):
    path = tmp_path / "evidence" / "a.h200.json"
    store.write(path, "one\n")
    store.write(path, "two\n")
    assert path.read_bytes() == b"two\n"
    assert os.listdir(path.parent) == ["a.h200.json"]


@pytest.mark.parametrize("where", ["write", "fsync", "replace"])
def test_a_full_disk_keeps_the_old_file_whole(tmp_path, monkeypatch, where: str):
    path = tmp_path / "a.h200.json"
    store.write(path, "old\n")

    def full(*_args, **_kwargs):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if where == "replace":
        monkeypatch.setattr(Path, "replace", full)
    else:
        monkeypatch.setattr(os, "fsync" if where == "fsync" else "fdopen", full)
    with pytest.raises(RecordError) as caught:
        store.write(path, "new\n")
    assert str(caught.value) == (
        f"{path}:1: cannot be written: No space left on device; what stood there is unchanged — "
        "make room or mend the folder's permissions, then run the same command"
    )
    assert path.read_text(encoding="utf-8") == "old\n"
    assert os.listdir(tmp_path) == ["a.h200.json"]


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_killed_at_any_moment_the_file_is_whole(tmp_path):
    path = tmp_path / "a.h200.json"
    whole = {"x" * 400_000 + "\n", "y" * 400_000 + "\n"}
    store.write(path, min(whole))
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from evidence import store
        print("ready", flush=True)
        while True:
            for text in {sorted({w[0] for w in whole})!r}:
                store.write(Path({str(path)!r}), text * 400_000 + "\\n")
        """
    )
    for attempt in range(12):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(0.002 + 0.003 * attempt)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert path.read_text(encoding="utf-8") in whole


# Merging: what storing a new record of the same program changes.


def output(milliseconds: float, count: int = 7) -> list[str]:
    return ["case n = 256", f"  time (ms)   {milliseconds}", f"  rows        {count}"]


def made(document, times, count=7, **changes):
    runs = [{**document["runs"][0], "stdout": output(t, count)} for t in times]
    return {**document, "runs": runs, **changes}


def stored(data):
    return store.parse(store.dump(data).encode("utf-8"), WHERE)


TIMES = (1.0, 1.1, 1.2, 1.3, 1.4)


def test_the_first_record_is_stored(document):
    assert merging.merge(None, document).reasons == ("first record on this device",)


def test_other_inputs_replace_the_record(document):
    result = merging.merge(stored(document), {**document, "key": "0" * 64})
    assert result.reasons == ("its inputs changed",)


def test_within_its_bands_the_file_stays_as_it_is(document):
    old = stored(made(document, TIMES))
    again = made(document, (1.05, 1.15, 1.25, 1.35, 1.38), recorded={"date": "2027-01-01"})
    assert merging.merge(old, again) == merging.Merge(None)


def test_a_median_that_left_its_band_is_drift(document):
    result = merging.merge(stored(made(document, TIMES)), made(document, (3.0,) * 5))
    assert result.drift == (merging.Drift("case-n-256/time", "1 to 1.4", "3"),)
    assert result.reasons == ("a value changed",)
    assert json.loads(result.text)["drift"] == [
        {"address": "case-n-256/time", "old": "1 to 1.4", "new": "3"}
    ]


def test_an_exact_value_that_changed_is_drift_and_measured_for_good(document):
    first = stored(made(document, TIMES))
    result = merging.merge(first, made(document, TIMES, count=8))
    assert result.drift == (merging.Drift("case-n-256/rows", "7", "8"),)
    assert "case-n-256/rows" in json.loads(result.text)["measured"]
    second = store.parse(result.text.encode("utf-8"), WHERE)
    third = merging.merge(second, made(document, (9.0,) * 5, count=8))
    assert "case-n-256/rows" in json.loads(third.text)["measured"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outcome": {"passed": False, "reasons": ["x"]}}, "its outcome changed"),
        ({"sanitizers": {}}, "its sanitizers changed"),
        ({"toolchain": {"nvcc": "13.1.80"}}, "another compiler was used"),
    ],
)
def test_other_reasons_to_rewrite(document, changes: dict, reason: str):
    result = merging.merge(stored(made(document, TIMES)), made(document, TIMES, **changes))
    assert result.reasons == (reason,)


def test_more_runs_rewrite(document):
    result = merging.merge(stored(made(document, TIMES)), made(document, (*TIMES, 1.2)))
    assert result.reasons == ("it has more runs",)
