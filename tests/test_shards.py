"""Shards: a recording split by expected cost, the same way on every machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import evidence
import fake_cuda
from evidence import bundle, cli, costs, selecting, shards, store
from evidence.errors import EvidenceError
from evidence.shards import Part

COSTS = st.dictionaries(st.text("abc/0123", min_size=1, max_size=6), st.floats(0, 1e4), max_size=40)


def test_the_longest_goes_first():
    cost = {"a": 1.0, "b": 60.0, "c": 30.0, "d": 29.0, "e": 3.0}
    assert shards.split(cost, 2) == (("a", "b"), ("c", "d", "e"))
    assert shards.split(cost, 1) == (("a", "b", "c", "d", "e"),)
    assert shards.split({"a": 1.0}, 3) == (("a",), (), ())
    assert shards.split({"b": 60.0, "a": 60.0}, 2) == (("a",), ("b",))


@given(COSTS, st.integers(1, 9), st.randoms())
def test_every_program_is_in_one_shard_whatever_the_order(cost, count, random):
    split = shards.split(cost, count)
    assert len(split) == count
    assert sorted(name for shard in split for name in shard) == sorted(cost)
    items = list(cost.items())
    random.shuffle(items)
    assert shards.split(dict(items), count) == split
    # What longest-first guarantees: no shard is ahead of another by more than a program.
    loads = [sum(cost[name] for name in shard) for shard in split]
    assert max(loads) - min(loads) <= max(cost.values(), default=0.0) + 1e-6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", "--shard '5' is not NUMBER/COUNT — give which shard of how many: --shard 2/5"),
        ("a/b", "--shard 'a/b' is not NUMBER/COUNT — give which shard of how many: --shard 2/5"),
        ("-1/5", "--shard '-1/5' is not NUMBER/COUNT — give which shard of how many: --shard 2/5"),
        ("0/5", "--shard 0/5: shards are counted from 1 — the first is --shard 1/5, the last --shard 5/5"),
        ("6/5", "--shard 6/5: there are only 5 shards — the last is --shard 5/5"),
        ("2/1", "--shard 2/1: there is only 1 shard — the last is --shard 1/1"),
        ("1/0", "--shard 1/0: there is no shard of none — give which shard of how many: --shard 2/5"),
    ],
)  # fmt: skip
def test_what_is_no_shard(text, message):
    with pytest.raises(EvidenceError) as caught:
        shards.read(text)
    assert str(caught.value) == message


def test_a_shard_is_read():
    assert shards.read("2/5") == (2, 5)


@pytest.mark.parametrize(
    "document",
    [None, [], {}, {"number": 3, "device": "h200", "plan": [["a"], ["b"]]},
     {"number": 0, "device": "h200", "plan": [["a"]]}, {"number": 1, "device": 7, "plan": [["a"]]},
     {"number": 1, "device": "../h200", "plan": [["a"]]}, {"number": 1, "device": "h200", "plan": ["a"]}, {"number": 1, "device": "h200", "plan": [[1]]}],
)  # fmt: skip
def test_a_manifest_that_names_no_sound_shard(document):
    assert shards.of_document(document) is None


def test_a_shard_in_a_manifest_and_back():
    part = Part(2, "h200", (("a",), ("b", "c")))
    assert shards.of_document(json.loads(json.dumps(part.document()))) == part
    assert part.programs == ("b", "c")


# -- what it costs ------------------------------------------------------------------


def test_the_cost_is_what_the_plan_took_before(tree):
    tree.program()
    assert cost(tree) == costs.UNKNOWN == 60.0
    path = tree.record()
    # compiled in 1 s; 5 runs of 0.5 s; 4 sanitizers of 1 s
    assert cost(tree) == 1 + 5 * 0.5 + 4 * 1.0
    tree.write("kernels/001-add/evidence.toml", "[add]\nruns = 3\nsanitizers = ['memcheck']\n")
    assert cost(tree) == 1 + 3 * 0.5 + 1.0
    tree.write(
        "kernels/001-add/evidence.toml",
        "[add]\nruns = 1\nsanitizers = []\n[add.profile]\nmetrics = ['m']\nruns = 2\n"
        "[[add.mutant]]\nname = 'a'\nfind = 'hello'\nreplace = 'bye'\n",
    )
    assert cost(tree) == 1 + 0.5 + 2 * 5 * 0.5 + 2 * 0.5
    path.write_text("{")
    assert cost(tree) == costs.UNKNOWN


def test_another_device_is_judged_by_the_projects_own(tree):
    tree.program()
    tree.record()
    assert costs.expected(tree.load(), tree.load().programs[0], "t4") == 7.5


def test_what_never_ran_costs_as_if_it_were_new(tree):
    tree.program()
    tree.record(runs=[])
    assert cost(tree) == costs.UNKNOWN


def cost(tree) -> float:
    project = tree.load()
    return costs.expected(project, project.programs[0], "h200")


def test_list_tells_the_cost(tree, capsys):
    tree.program()
    tree.program("002-b", "p")
    tree.record()
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), "list", "--stale", "--json"])
    assert caught.value.code == 0
    assert json.loads(capsys.readouterr().out) == [
        {
            "program": "002-b/p", "source": "kernels/002-b/p.cu", "device": "h200",
            "state": "missing", "recorded": None, "runs": 0, "seconds": None, "cost": 60.0,
            "note": "002-b/p has no evidence on h200",
        }
    ]  # fmt: skip


def test_list_for_programs_does_not_hide_a_source_that_cannot_be_read(tree, capsys):
    tree.write("kernels/002-b/b.cu", "no header\n")
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), "list", "--stale", "--json"])
    said = capsys.readouterr()
    assert (caught.value.code, said.out) == (1, "[]\n")
    assert said.err.startswith("kernels/002-b/b.cu:1: bad-source: ")


# -- recording one ------------------------------------------------------------------

CLI = """\
import sys
sys.path[:0] = {paths!r}
import fake_cuda
from evidence import cli
from evidence.commands import record
record.LocalGpu = fake_cuda.Gpu
cli.main(sys.argv[1:])
"""


def command(tree, kit, *words: str) -> subprocess.CompletedProcess[str]:
    paths = [str(Path(__file__).parent), str(Path(evidence.__file__).parent.parent)]
    return subprocess.run(
        [sys.executable, "-c", CLI.format(paths=paths), "--project", str(tree.root), *words],
        env={**kit.environ, "PYTHONWARNINGS": "error"}, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def kit(tmp_path):
    return fake_cuda.install(tmp_path / "cuda", tools=False)


@pytest.fixture
def three(tree):
    for folder in ("001-a", "002-b", "003-c"):
        tree.program(folder, "p", fake_cuda.source("echo x", stem="p"))
    return tree


def test_shards_together_are_the_whole(three, kit, tmp_path):
    files = [str(tmp_path / f"{n}.bundle") for n in (1, 2, 3, 4)]
    for number, file in enumerate(files, 1):
        done = command(
            three, kit, "record", "--no-sanitize", "--runs", "1", "--bundle", file, "--shard", f"{number}/4"
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        size = 1 if number < 4 else 0
        assert done.stdout.splitlines()[0] == (
            f"shard {number}/4: {size} of 3 programs, about {60 * size} s"
        )
    done = command(three, kit, "accept", *files[:2])
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "2 taken, 0 refused, 1 shard missing"
    # The fourth is missing too, but nothing is left to do in it.
    assert done.stderr == (
        "kernels/003-c/p.cu:1: missing-shard: shard 3/4 is in none of these bundles: h200 lacks "
        "003-c/p — accept its bundle too, or record what is left: evidence record --bundle FILE\n"
    )
    # Alone, later: nothing is missing any more.
    done = command(three, kit, "accept", files[2])
    assert (done.returncode, done.stderr) == (0, "")
    done = command(three, kit, "accept", files[3])
    assert (done.returncode, done.stderr) == (0, "")
    states = json.loads(command(three, kit, "list", "--json").stdout)
    assert [row["state"] for row in states] == ["partial"] * 3  # one run of five, as asked


def test_what_is_left_of_missing_shards_is_recorded_without_them(three, kit, tmp_path):
    file = str(tmp_path / "1.bundle")
    command(three, kit, "record", "--no-sanitize", "--bundle", file, "--shard", "1/2")
    done = command(three, kit, "accept", file)
    assert done.stdout.splitlines()[-1] == "2 taken, 0 refused, 1 shard missing"
    rest = str(tmp_path / "rest.bundle")
    done = command(three, kit, "record", "002-b", "--no-sanitize", "--bundle", rest)
    assert done.stdout.splitlines()[-2:] == [
        f"wrote {rest} (1 records)",
        "1 passed, 0 failed, 0 not recorded on h200; 1 files written",
    ]
    # The first again, with the rest: what it lacked is there.
    done = command(three, kit, "accept", rest, file)
    assert done.stdout.splitlines()[-1] == "3 taken, 0 refused"


def test_a_shard_is_recorded_into_a_bundle_only(three, kit):
    done = command(three, kit, "record", "--shard", "1/2")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "evidence: --shard needs --bundle: what one shard stores would move the others' programs"
        " — evidence record --shard 1/2 --bundle FILE, then: evidence accept FILE…\n"
    )


def test_a_shard_is_the_same_after_an_interruption(three, kit, tmp_path):
    """What a killed recording left changes neither the selection nor the plan."""
    project = three.load()
    wanted = selecting.select(project, (), "h200", "13.0.88", everything=False)
    before = selecting.narrow(project, wanted, "h200", (1, 2))
    folder = tmp_path / "1.bundle.partial"
    store.write(folder / "001-a--p.json", "{}")
    assert selecting.narrow(project, wanted, "h200", (1, 2)) == before
    assert [p.name for p in before.programs] == ["001-a/p", "003-c/p"]
    assert before.seconds == 120.0


def test_the_same_shard_makes_the_same_bundle():
    part = Part(1, "h200", (("a",), ()))
    assert bundle.pack([], part) == bundle.pack([], part) != bundle.pack([])
