"""Accepting: what was recorded from this very tree is taken, everything else is refused."""

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

import fake_cuda
from evidence import accept, bundle, cli, key, store
from evidence.document import Origin
from recording import path_of, record, stored

AGAIN = " — record it again from this tree: evidence record 001-add/add --bundle FILE"
WHERE = "out.zip!001-add/add.h200:1: refused: "


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda")


@pytest.fixture
def made(tree, kit, tmp_path) -> Path:
    """A bundle of one program's record; nothing is in the tree yet."""
    tree.program(text=fake_cuda.source("echo 'Result'", "echo '  sum   12'"))
    target = tmp_path / "out.zip"
    record(tree, kit, target=target)
    assert not path_of(tree).exists()
    return target


def take(tree, *paths: Path) -> tuple[list[str], list[str]]:
    report = accept.accept(tree.load(), paths)
    return [filed.explain() for filed in report.filed], [f.explain() for f in report.refused]


def changed(made: Path, **changes) -> Path:
    """Rewrite the bundle with its one record changed and every hash made right again."""
    entry = bundle.read(made)[0]
    data = {**json.loads(entry.data), **changes}
    program = changes.pop("manifest_program", entry.program)
    data.pop("manifest_program", None)
    bundle.write(made, bundle.pack([(program, entry.device, store.dump(data))]))
    return made


def test_a_record_of_this_tree_is_taken(tree, made):
    assert take(tree, made) == (
        ["wrote kernels/001-add/evidence/add.h200.json (first record on this device)"], [],
    )  # fmt: skip
    assert stored(tree)["runs"][0]["stdout"] == ["Result", "  sum   12"]


def test_taking_it_twice_changes_nothing(tree, made):
    take(tree, made)
    before = path_of(tree).read_bytes()
    assert take(tree, made) == (
        ["kept kernels/001-add/evidence/add.h200.json (nothing changed)"], [],
    )  # fmt: skip
    assert path_of(tree).read_bytes() == before


def test_a_bundle_is_what_storing_directly_would_have_been(tree, made, kit):
    take(tree, made)
    from_bundle = stored(tree)
    path_of(tree).unlink()
    record(tree, kit)
    directly = stored(tree)
    for data in (from_bundle, directly):
        del data["body"]
        for run in data["runs"]:
            del run["seconds"]
        for found in data["sanitizers"].values():
            del found["seconds"]
    assert from_bundle == directly


def test_comments_may_differ(tree, made):
    path = tree.root / "kernels/001-add/add.cu"
    path.write_text(path.read_text() + "// a comment\n")
    assert take(tree, made)[1] == []


def test_another_source(tree, made):
    path = tree.root / "kernels/001-add/add.cu"
    old = key.inputs_of(tree.load().programs[0]).files["add.cu"].code[:12]
    path.write_text(path.read_text().replace("sum   12", "sum   13"))
    new = key.inputs_of(tree.load().programs[0]).files["add.cu"].code[:12]
    assert take(tree, made) == ([], [
        "kernels/001-add/add.cu:2: refused: 001-add/add was recorded from another source: "
        f"code of add.cu differs, {old} → {new}{AGAIN}"
    ])  # fmt: skip
    assert not path_of(tree).exists()


def test_other_flags(tree, made):
    path = tree.root / "kernels/001-add/add.cu"
    path.write_text(path.read_text().replace("-O3", "-O2"))
    assert take(tree, made)[1] == [
        "kernels/001-add/add.cu:2: refused: 001-add/add was recorded from another source: Build: "
        "line differs, nvcc -O3 -std=c++17 -arch=native -o add add.cu → "
        f"nvcc -O2 -std=c++17 -arch=native -o add add.cu{AGAIN}"
    ]


def test_a_hash_in_the_bundle_proves_nothing(tree, made):
    """A record that says of another source that it has this one's raw hash."""
    path = tree.root / "kernels/001-add/add.cu"
    path.write_text(path.read_text().replace("sum   12", "sum   13"))
    here = key.inputs_of(tree.load().programs[0]).files["add.cu"]
    data = json.loads(bundle.read(made)[0].data)
    data["inputs"]["files"]["add.cu"]["raw"] = here.raw
    filed, refused = take(tree, changed(made, inputs=data["inputs"]))
    assert filed == []
    assert "was recorded from another source" in refused[0]


def test_a_key_that_is_not_of_the_inputs(tree, made):
    right = key.key_of(key.inputs_of(tree.load().programs[0]))
    data = json.loads(bundle.read(made)[0].data)
    data["inputs"]["files"]["add.cu"]["code"] = "0" * 64
    assert take(tree, changed(made, inputs=data["inputs"], key=right)) == (
        [], [f"{WHERE}its key is not that of its inputs{AGAIN}"],
    )  # fmt: skip


def test_a_program_that_is_gone(tree, made):
    (tree.root / "kernels/001-add/add.cu").unlink()
    assert take(tree, made)[1] == [f"{WHERE}there is no program 001-add/add in this tree{AGAIN}"]


def test_a_program_of_which_the_source_is_broken(tree, made):
    (tree.root / "kernels/001-add/add.cu").write_text("no header\n")
    assert take(tree, made)[1] == [
        f"kernels/001-add/add.cu:1: refused: the header has no Build: line{AGAIN}"
    ]


def test_a_record_edited_by_hand(tree, made):
    entry = bundle.read(made)[0]
    text = entry.data.decode().replace("sum   12", "sum   13")
    bundle.write(made, bundle.pack([(entry.program, entry.device, text)]))
    (refused,) = take(tree, made)[1]
    assert refused.startswith(
        "out.zip!001-add/add.h200:1: refused: was edited after it was recorded: body "
    )


def test_a_record_of_a_newer_schema(tree, made):
    assert take(tree, changed(made, schema=2))[1] == [
        f"{WHERE}was written by a newer tool: schema 2, this one reads 1{AGAIN}"
    ]


def test_a_record_under_another_name(tree, made):
    tree.program("002-mul", "mul", fake_cuda.source("echo x", stem="mul"))
    assert take(tree, changed(made, manifest_program="002-mul/mul"))[1] == [
        "out.zip!002-mul/mul.h200:1: refused: its record is of 001-add/add on h200, not of "
        "002-mul/mul on h200"
        " — record it again from this tree: evidence record 002-mul/mul --bundle FILE"
    ]


@pytest.mark.parametrize("label", ["../../../x", "h200/../../x", "", "H200", ".h", "h200\n"])
def test_a_label_that_is_a_path(tree, made, label):
    entry = bundle.read(made)[0]
    data = json.loads(entry.data)
    data["device"]["label"] = label
    bundle.write(made, bundle.pack([(entry.program, label, store.dump(data))]))
    filed, refused = take(tree, made)
    assert filed == []
    assert len(refused) == 1
    assert [p for p in tree.root.rglob("*.json") if ".evidence" not in p.parts] == []


def test_a_record_with_a_leak(tree, made):
    data = json.loads(bundle.read(made)[0].data)
    data["runs"][0]["stdout"].append("from /home/mira/data")
    assert take(tree, changed(made, runs=data["runs"]))[1] == [
        f"{WHERE}holds '/home/mira', which tells about the machine it was recorded on{AGAIN}"
    ]


@pytest.mark.parametrize("field", ["inputs", "device", "outcome", "recorded", "runs"])
@pytest.mark.parametrize("value", [None, [3], {}, "x", 3])
def test_a_record_of_a_wrong_shape(tree, made, field, value):
    filed, refused = take(tree, changed(made, **{field: value}))
    assert filed == []
    assert len(refused) == 1


def test_a_record_of_another_command(tree, made):
    assert take(tree, changed(made, run_command=["./add", "--fast"]))[1] == [
        f"{WHERE}contradicts itself: it was run as './add --fast', not as './add'{AGAIN}"
    ]


def test_a_record_of_another_compilation(tree, made):
    build = json.loads(bundle.read(made)[0].data)["build"]
    build["command"][1] = "-O0"
    assert take(tree, changed(made, build=build))[1] == [
        f"{WHERE}contradicts itself: it was compiled with '-O0', not with '-O3'{AGAIN}"
    ]


def test_a_record_of_another_gpu_than_its_label_says(tree, made):
    device = {**json.loads(bundle.read(made)[0].data)["device"], "name": "NVIDIA H100"}
    assert take(tree, changed(made, device=device))[1] == [
        f"{WHERE}its device label is h200, but NVIDIA H100 is h100 here{AGAIN}"
    ]


@pytest.mark.parametrize("isolation", ["<b>", "bubblewrap", "none at all"])
def test_an_isolation_that_there_is_not(tree, made, isolation):
    recorded = {**json.loads(bundle.read(made)[0].data)["recorded"], "isolation": isolation}
    (said,) = take(tree, changed(made, recorded=recorded))[1]
    assert said.startswith(f"{WHERE}does not follow the schema at recorded/isolation: ")


def test_a_record_that_is_nested_without_end(tree, made):
    bundle.write(made, bundle.pack([("001-add/add", "h200", "[" * 100_000)]))
    assert take(tree, made)[1] == [f"{WHERE}is nested too deep for a record{AGAIN}"]


@pytest.mark.parametrize(
    "name", ["001-add/add\n```\n9 taken, 0 refused", "x\r##[error]y", "\x1b[2J"]
)
def test_a_name_that_would_be_a_line_of_its_own(tree, made, name):
    entry = bundle.read(made)[0]
    bundle.write(made, bundle.pack([(name, "h200", entry.data.decode())]))
    (said,) = take(tree, made)[1]
    assert "which is no name" in said
    assert said.isprintable()


def test_a_record_that_does_not_follow_the_schema_says_where(tree, made):
    data = json.loads(bundle.read(made)[0].data)
    data["runs"][1]["seconds"] = "long"
    assert take(tree, changed(made, runs=data["runs"]))[1] == [
        f"{WHERE}does not follow the schema at runs/1/seconds: 'long' is not of type 'number'{AGAIN}"
    ]


def test_good_records_are_taken_and_bad_ones_refused(tree, kit, tmp_path):
    tree.program("001-a", "p", fake_cuda.source("echo x", stem="p"))
    other = tree.program("002-b", "p", fake_cuda.source("echo x", stem="p"))
    record(tree, kit, target=tmp_path / "out.zip")
    other.write_text(other.read_text().replace("echo x", "echo y"))
    filed, refused = take(tree, tmp_path / "out.zip")
    assert filed == ["wrote kernels/001-a/evidence/p.h200.json (first record on this device)"]
    assert len(refused) == 1


def test_several_bundles(tree, kit, tmp_path):
    tree.program("001-a", "p", fake_cuda.source("echo x", stem="p"))
    tree.program("002-b", "p", fake_cuda.source("echo x", stem="p"))
    record(tree, kit, "001-a", target=tmp_path / "a.zip")
    record(tree, kit, "002-b", target=tmp_path / "b.zip")
    (tmp_path / "c.zip").write_bytes((tmp_path / "b.zip").read_bytes()[:-40])
    filed, refused = take(tree, tmp_path / "a.zip", tmp_path / "c.zip", tmp_path / "b.zip")
    assert len(filed) == 2
    assert refused == [
        f"{tmp_path}/c.zip:1: bad-bundle: is no bundle or is truncated: File is not a zip file"
        " — record it again: evidence record --bundle FILE"
    ]


def test_an_empty_bundle_is_no_success(tree, tmp_path):
    bundle.write(tmp_path / "out.zip", bundle.pack([]))
    assert take(tree, tmp_path / "out.zip")[1] == [
        f"{tmp_path}/out.zip:1: bad-bundle: holds no record — record it again: evidence record --bundle FILE"
    ]


def test_an_entry_with_a_path_outside_is_not_written(tree, made, tmp_path):
    with zipfile.ZipFile(made, "a") as file:
        file.writestr("../../../outside.json", "x")
    filed, refused = take(tree, made)
    assert filed == []
    assert "points outside of it; nothing was taken" in refused[0]
    assert not list(tmp_path.rglob("outside.json"))


def test_the_record_of_a_program_that_failed_is_taken_and_said(tree, kit, tmp_path, capsys):
    tree.program(text=fake_cuda.source("exit 3"))
    record(tree, kit, target=tmp_path / "out.zip")
    assert command(tree, capsys, tmp_path / "out.zip") == (
        0,
        [
            "wrote kernels/001-add/evidence/add.h200.json (first record on this device)",
            "wrote kernels/001-add/README.md",
            "1 taken, 0 refused",
            "warning: 001-add/add failed when it was recorded",
        ],
    )


def command(tree, capsys, *paths: Path) -> tuple[int, list[str]]:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), "accept", *map(str, paths)])
    said = capsys.readouterr()
    return caught.value.code, (said.out + said.err).splitlines()


def test_the_command(tree, made, capsys):
    assert command(tree, capsys, made) == (
        0,
        [
            "wrote kernels/001-add/evidence/add.h200.json (first record on this device)",
            "wrote kernels/001-add/README.md",
            "1 taken, 0 refused",
        ],
    )


def test_the_command_when_a_record_is_refused(tree, made, capsys):
    (tree.root / "kernels/001-add/add.cu").unlink()
    assert command(tree, capsys, made) == (
        1,
        ["0 taken, 1 refused", f"{WHERE}there is no program 001-add/add in this tree{AGAIN}"],
    )


def test_the_commit_is_named_where_the_recording_machine_had_only_the_files(
    tree, kit, tmp_path, monkeypatch
):
    tree.program(text=fake_cuda.source("echo x"))
    where = Origin("", dirty=False, date="2026-12-01")
    monkeypatch.setattr("recording.ORIGIN", where)
    record(tree, kit, target=tmp_path / "out.zip")

    def git(*words: str) -> str:
        given = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *given, *words],
            cwd=tree.root,
            check=True,
            capture_output=True,
            encoding="utf-8",
        )
        return done.stdout.strip()

    def commit_taken() -> str:
        path_of(tree).unlink(missing_ok=True)
        take(tree, tmp_path / "out.zip")
        return stored(tree)["recorded"]["commit"]

    assert commit_taken() == ""  # no repository
    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "nothing yet")
    assert commit_taken() == ""  # not in it
    git("add", "kernels/001-add/add.cu")
    git("commit", "-q", "-m", "a program")
    assert commit_taken() == git("rev-parse", "HEAD")
    source = tree.root / "kernels/001-add/add.cu"
    source.write_text(source.read_text() + "// a comment\n", encoding="utf-8")
    assert commit_taken() == ""  # not as committed

    # Recorded beside other changes, before the program was committed.
    monkeypatch.setattr("recording.ORIGIN", Origin("f" * 40, dirty=True, date="2026-12-01"))
    (tmp_path / "out.zip").unlink()
    record(tree, kit, target=tmp_path / "out.zip", everything=True)
    assert commit_taken() == "f" * 40
    assert stored(tree)["recorded"]["dirty"]
    git("commit", "-qam", "with its comment")
    assert commit_taken() == git("rev-parse", "HEAD")
    assert not stored(tree)["recorded"]["dirty"]
