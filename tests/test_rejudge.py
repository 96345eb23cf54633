"""A record is judged by its facts: as it was when recorded, whatever it says of itself."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import fake_cuda
from evidence import bundle, cli, project, rejudge, store
from evidence.model import Program
from recording import path_of, record, stored

ROOT = Path(__file__).resolve().parent.parent
PLAN = """\
[add]
runs = 2
sanitizers = ["memcheck", "racecheck"]
[[add.mutant]]
name = "wrong"
find = "sum=12"
replace = "sum=13"
[[add.mutant]]
name = "race"
find = "sh : no race"
replace = "sanitize racecheck 2"
sanitizers = ["racecheck"]
"""
GOOD = ("sum=12", "echo Result", 'echo "  sum   $sum"', ": no race", "test $sum = 12")
ADD = "001-add/add: the bundle says"
TAKEN = "wrote kernels/001-add/evidence/add.h200.json (first record on this device)"


def of_the_tree() -> Iterator[tuple[Program, dict]]:
    """Every stored record of the project itself."""
    for program in project.load(ROOT).programs:
        for path in sorted((program.directory / "evidence").glob(f"{program.stem}.*.json")):
            yield program, store.read(path).data


def test_every_stored_record_has_the_outcome_that_its_facts_have():
    """Over the real tree: what was recorded there is judged as it was then."""
    looked_at = failing = 0
    for program, data in of_the_tree():
        reasons = rejudge.reasons_of(program, data)
        assert {"passed": not reasons, "reasons": reasons} == data["outcome"], program.name
        assert list(rejudge.contradictions(program, data)) == [], program.name
        looked_at += 1
        failing += program.plan.expect.kind != "success"
    there = [p for root in ("kernels", "snippets") for p in ROOT.glob(f"{root}/*/evidence/*.json")]
    assert looked_at == len(there) > 180
    assert failing > 10


def test_what_is_read_back_is_what_was_stored():
    kinds = set()
    for program, data in of_the_tree():
        trial = rejudge.trial_of(data)
        runs = [run.document(cells="cells" in data["runs"][n]) for n, run in enumerate(trial.runs)]
        assert runs == data["runs"], program.name
        found = {tool: done.document() for tool, done in trial.sanitizers.items()}
        assert found == data["sanitizers"], program.name
        profile = trial.profile.document(None)
        assert profile["launches"] == data["profile"]["launches"], program.name
        assert (profile["status"], profile["reason"]) == (
            data["profile"]["status"], data["profile"]["reason"],
        )  # fmt: skip
        for mutant in program.plan.mutants:
            verdict = trial.mutants[mutant.name].document(mutant)
            assert verdict == data["mutants"][mutant.name], program.name
        kinds |= {name for name in ("runs", "sanitizers", "mutants") if data[name]}
        kinds |= {"launches"} if data["profile"]["launches"] else set()
    assert kinds == {"runs", "sanitizers", "mutants", "launches"}


# -- bundles that lie ---------------------------------------------------------


@pytest.fixture
def made(tree, tmp_path) -> Path:
    """A bundle of one program's record, which passed; nothing is in the tree yet."""
    kit = fake_cuda.install(tmp_path / "cuda")
    tree.write("kernels/001-add/evidence.toml", PLAN)
    tree.program(text=fake_cuda.source(*GOOD))
    target = tmp_path / "out.zip"
    report, _ = record(tree, kit, target=target)
    assert report.succeeded
    return target


def crafted(made: Path, change) -> Path:
    """Change the one record of a bundle and make every hash right again."""
    entry = bundle.read(made)[0]
    data = json.loads(entry.data)
    change(data)
    bundle.write(made, bundle.pack([(entry.program, entry.device, store.dump(data))]))
    return made


def command(tree, capsys, path: Path) -> tuple[int, list[str]]:
    with pytest.raises(SystemExit) as caught:
        cli.main(["--project", str(tree.root), "accept", str(path)])
    said = capsys.readouterr()
    return caught.value.code, (said.out + said.err).splitlines()


def run_failed(data):
    data["runs"][0]["exit_status"] = 4
    data["runs"][0]["stderr"] = ["no 12"]


def out_of_time(data):
    data["runs"][1] |= {"exit_status": None, "timed_out": True, "seconds": 120.0}


def printed_too_much(data):
    data["runs"][1] |= {"exit_status": None, "problems": ["printed more than 9 bytes on stdout"]}


def printed_nan(data):
    data["runs"][1]["stdout"] = ["Result", "  sum   nan"]


def never_run(data):
    data["runs"] = []


def not_compiled(data):
    data["build"] |= {"exit_status": 2, "output": ["add.cu(7): error: no such thing"]}


def never_compiled(data):
    data["build"] = None


def compiler_killed(data):
    data["build"]["exit_status"] = -1


def sanitizer_with_errors(data):
    output = ["========= ERROR SUMMARY: 3 errors"]
    data["sanitizers"]["memcheck"] |= {"status": "errors", "errors": 3, "output": output}


def sanitizer_not_done(data):
    reason = "memcheck was not done after 300 s"
    data["sanitizers"]["memcheck"] |= {"status": "timeout", "reason": reason}


def profile_failed(data):
    data["profile"] |= {"status": "failed", "reason": "no kernel was profiled"}


def mutant_survived(data):
    data["mutants"]["wrong"] |= {"status": "survived", "by": "", "exit_status": 0}


def mutant_broken(data):
    data["mutants"]["wrong"] |= {"status": "broken", "reason": "it does not compile: no"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (run_failed, "run 1 ended with exit status 4: no 12"),
        (out_of_time, "run 2 was killed after 120 s"),
        (printed_too_much, "run 2 printed more than 9 bytes on stdout"),
        (printed_nan, "run 2 printed nan at Result/sum"),
        (never_run, "it was never run"),
        (not_compiled, "it does not compile: add.cu:7: no such thing"),
        (never_compiled, "it was not compiled"),
        (compiler_killed, "the compiler did not come to an end"),
        (sanitizer_with_errors, "memcheck found 3 errors"),
        (sanitizer_not_done, "memcheck was not done after 300 s"),
        (profile_failed, "the profile failed: no kernel was profiled"),
        (mutant_survived, "mutant wrong survived: nothing noticed it"),
        (mutant_broken, "mutant wrong proves nothing: it does not compile: no"),
    ],
)
def test_a_bundle_that_says_passed_over_what_did_not(tree, made, capsys, change, reason):
    status, lines = command(tree, capsys, crafted(made, change))
    assert (status, lines[0]) == (0, TAKEN)
    assert lines[-2:] == [
        f"warning: {ADD} it passed; judged here: {reason}",
        "warning: 001-add/add failed when it was recorded",
    ]
    assert stored(tree)["outcome"] == {"passed": False, "reasons": [reason]}


def test_an_honest_bundle_is_judged_in_silence(tree, made, capsys):
    assert command(tree, capsys, made) == (
        0, [TAKEN, "wrote kernels/001-add/README.md", "1 taken, 0 refused"],
    )  # fmt: skip
    assert stored(tree)["outcome"] == {"passed": True, "reasons": []}


def test_a_bundle_that_says_failed_over_what_passed(tree, made, capsys):
    def change(data):
        data["outcome"] = {"passed": False, "reasons": ["the moon"]}

    _, lines = command(tree, capsys, crafted(made, change))
    assert lines[-1] == f"warning: {ADD} it failed (the moon); judged here: it passed"
    assert stored(tree)["outcome"] == {"passed": True, "reasons": []}


def test_why_it_was_not_run_only_the_recorder_knows(tree, made, capsys):
    reasons = ["add.cuh changed while it was being compiled"]

    def change(data):
        data["outcome"] = {"passed": False, "reasons": reasons}
        data["runs"] = []

    _, lines = command(tree, capsys, crafted(made, change))
    assert lines[-1] == "warning: 001-add/add failed when it was recorded"
    assert stored(tree)["outcome"]["reasons"] == reasons


def clean_with_errors(data):
    data["sanitizers"]["memcheck"]["output"] = ["========= ERROR SUMMARY: 3 errors"]


def clean_without_summary(data):
    data["sanitizers"]["memcheck"]["output"] = []


def rejected_with_a_good_end(data):
    data["mutants"]["wrong"]["exit_status"] = 0


def survived_with_a_bad_end(data):
    data["mutants"]["wrong"] |= {"status": "survived", "by": ""}


def rejected_by_nothing(data):
    data["mutants"]["race"]["output"] = []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (clean_with_errors, "memcheck is said to come to clean (0), but its output counts 3"),
        (clean_without_summary,
         "memcheck is said to come to clean (0), but its output counts nothing"),
        (rejected_with_a_good_end, "mutant wrong is said to be rejected, but ended with exit "
         "status 0, as the program must"),
        (survived_with_a_bad_end,
         "mutant wrong is said to survive, but ended with exit status 1"),
        (rejected_by_nothing,
         "mutant race is said to be rejected by racecheck, which counts no error"),
    ],
)  # fmt: skip
def test_a_record_that_contradicts_itself_is_refused(tree, made, capsys, change, said):
    status, lines = command(tree, capsys, crafted(made, change))
    assert (status, lines) == (1, [
        "0 taken, 1 refused",
        f"out.zip!001-add/add.h200:1: refused: contradicts itself: {said} — record it again "
        "from this tree: evidence record 001-add/add --bundle FILE",
    ])  # fmt: skip
    assert not path_of(tree).exists()


# -- judged by the tree's plan --------------------------------------------------


def test_a_mutant_that_is_said_to_survive_only_after_it_was_recorded(tree, made, capsys):
    """The same bundle, accepted again: only the outcome is another."""
    path = crafted(made, mutant_survived)
    command(tree, capsys, path)
    before = stored(tree)
    said = 'name = "wrong"\nsurvives = true\nwhy = "too small"'
    tree.write("kernels/001-add/evidence.toml", PLAN.replace('name = "wrong"', said))
    assert command(tree, capsys, path) == (0, [
        "wrote kernels/001-add/evidence/add.h200.json (its outcome changed)",
        "wrote kernels/001-add/README.md",
        "1 taken, 0 refused",
    ])  # fmt: skip
    after = stored(tree)
    assert (before["outcome"]["passed"], after["outcome"]["passed"]) == (False, True)
    assert {n for n in after if after[n] != before[n]} == {"outcome", "body"}


def test_what_the_plan_expects_is_the_trees(tree, made, capsys):
    tree.write(
        "kernels/001-add/evidence.toml",
        PLAN.replace("runs = 2", 'runs = 2\nexpect = { exit = 1, text = "oh" }'),
    )
    _, lines = command(tree, capsys, crafted(made, lambda data: data.update(mutants={})))
    assert lines[-2] == (
        f"warning: {ADD} it passed; judged here: run 1 ended with exit status 0: sum   12, although "
        "it must be 1; run 2 ended with exit status 0: sum   12, although it must be 1; "
        "no run says 'oh'"
    )
