"""Several bundles at once: the same tree in whatever order they are given."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fake_cuda
from conftest import Tree
from evidence import accept, bundle, readme, selecting, store
from evidence.device import Device
from evidence.trial import Request
from recording import record

T4 = Device("Tesla T4", "7.5", "550.1", 15360, 40, f"{fake_cuda.H200.uuid}-t4")
PROGRAMS = ("001-a", "002-b", "003-c")
REQUEST = Request(runs=1, sanitize=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, dict[str, Path]]:
    """A tree with one old record, and bundles: three shards, a device, and doubtful ones."""
    folder = tmp_path_factory.mktemp("bundles")
    tree = Tree(folder / "project")
    tree.write("pyproject.toml", '[tool.evidence]\ndevice = "h200"\nreviewed = ""\nsources = ""\n')
    (tree.root / "docs").mkdir()
    kit = fake_cuda.install(folder / "cuda", tools=False)
    tree.program("003-c", "p", fake_cuda.source("echo old", stem="p"))
    record(tree, kit, request=REQUEST)  # stale below
    for name in PROGRAMS:
        text = fake_cuda.source("echo Result", 'echo "  count   $(date +%N)"', stem="p")
        tree.program(name, "p", text)
    paths = {
        n: folder / f"{n}.bundle"
        for n in ("one", "two", "three", "t4", "again", "same", "bad", "gone")
    }
    project = tree.load()
    for number, name in enumerate(("one", "two", "three"), 1):
        part = selecting.narrow(project, project.programs, "h200", (number, 3)).part
        record(
            tree, kit, *part.programs, request=REQUEST, target=paths[name], part=part
        )  # fmt: skip
    record(tree, kit, gpu=fake_cuda.Gpu(T4), request=REQUEST, target=paths["t4"], everything=True)
    # The second shard once more, at another time; the first just so; the third damaged; one gone.
    record(tree, kit, "002-b", request=REQUEST, target=paths["again"])
    shutil.copy(paths["one"], paths["same"])
    paths["bad"].write_bytes(paths["three"].read_bytes()[:-30])
    return tree.root, paths


def outcome(made, names) -> tuple[dict[str, bytes], list[str], list[str]]:
    """Accept bundles into a copy of the tree; return its files and what was said."""
    root, paths = made
    copy = root.parent / "copy"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(root, copy)
    report = accept.accept(Tree(copy).load(), [paths[name] for name in names])
    readme.write_all(Tree(copy).load())
    files = {
        path.relative_to(copy).as_posix(): path.read_bytes()
        for path in copy.rglob("*") if path.is_file() and ".evidence" not in path.parts
    }  # fmt: skip
    filed = [done.explain() for done in report.filed]
    return files, filed, [finding.explain() for finding in report.refused]


@pytest.mark.slow
def test_shards_and_devices_in_every_order(made):
    names = ("one", "two", "three", "t4")
    first = outcome(made, names)
    assert sum(path.endswith(".json") for path in first[0]) == 6
    assert first[2] == []
    assert [line.split(" (")[0] for line in first[1]] == [
        f"wrote kernels/{name}/evidence/p.{device}.json"
        for name in PROGRAMS for device in ("h200", "t4")
    ]  # fmt: skip
    for order in itertools.permutations(names):
        assert outcome(made, order) == first, order


def test_one_call_or_several_is_the_same(made):
    root, paths = made
    together = outcome(made, ("one", "two", "three", "t4"))[0]
    outcome(made, ("t4",))
    copy = Tree(root.parent / "copy")
    for name in ("three", "one", "two"):
        accept.accept(copy.load(), [paths[name]])
    readme.write_all(copy.load())
    for name, data in together.items():
        assert (copy.root / name).read_bytes() == data, name


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_doubtful_bundles_in_any_order(made, data):
    names = data.draw(st.lists(st.sampled_from(sorted(made[1])), min_size=1, max_size=7))
    order = data.draw(st.permutations(names))
    assert outcome(made, order) == outcome(made, names)


def test_different_records_of_a_program_are_refused_in_both_orders(made):
    paths = made[1]
    for order in (("two", "again", "one"), ("again", "one", "two")):
        files, filed, refused = outcome(made, order)
        assert "kernels/002-b/evidence/p.h200.json" not in files
        assert [line.split(" (")[0] for line in filed] == [
            "wrote kernels/001-a/evidence/p.h200.json"
        ]
        assert refused[0] == (
            "kernels/002-b/p.cu:1: conflict: 002-b/p has different records on h200 in "
            f"{paths['again']} and {paths['two']}; none of them was taken"
            f" — choose one: evidence accept {paths['again']}"
        )
        # Its shard is there; what is missing is the third.
        assert [line.split(":")[2] for line in refused] == [" conflict", " missing-shard"]


def test_the_same_record_twice_is_one(made):
    assert outcome(made, ("same", "one")) == outcome(made, ("one",))
    assert len(outcome(made, ("one", "same", "one"))[1]) == 1


def test_a_damaged_bundle_does_not_hide_that_its_shard_is_missing(made):
    _, filed, refused = outcome(made, ("bad", "two", "one"))
    assert len(filed) == 2
    assert [line.split(":")[2] for line in refused] == [" bad-bundle", " missing-shard"]


def test_a_plan_that_names_strangers_or_nonsense(made, tmp_path):
    """What a manifest says of shards is only ever used to say what is missing."""
    root, paths = made
    entries = [(e.program, e.device, e.data.decode()) for e in bundle.read(paths["one"])]
    for plan in ([["001-a/p"], ["../../etc/passwd"]], "x", [[]], [["001-a/p"], [3]]):

        class Part:
            programs = ()

            @staticmethod
            def document(plan=plan):
                return {"number": 1, "device": "h200", "plan": plan}

        odd = tmp_path / "odd.bundle"
        bundle.write(odd, bundle.pack(entries, Part()))
        copy = Tree(root.parent / "copy")
        report = accept.accept(copy.load(), [odd])
        assert (len(report.filed), report.refused) == (1, ())


def test_the_manifest_names_the_shard(made):
    part = bundle.part_of(made[1]["two"])
    assert part is not None
    assert json.loads(json.dumps(part.document())) == {
        "number": 2, "device": "h200", "plan": [["001-a/p"], ["002-b/p"], ["003-c/p"]],
    }  # fmt: skip
    assert bundle.part_of(made[1]["t4"]) is None


def test_stored_records_are_sound(made):
    outcome(made, ("one", "two", "three", "t4"))
    for path in (made[0].parent / "copy").rglob("evidence/*.json"):
        assert store.read(path).passed
