"""Notebooks: read as programs, kept without what running them leaves, run in a kernel."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

import fake_cuda
from evidence import accept, check, doctor, key, lexing, nbdriver, notebookrun, notebooks, values
from evidence.errors import SourceError
from evidence.findings import failing
from recording import path_of, record, stored

NAME = "kernels/001-add/companion.ipynb"
PROGRAM = "001-add/companion"
WALK = (
    "import os\nprint('Result')\nprint('  sum   ', 12)\n",
    "# only a comment\n",
    "import sys\nprint('  rows  ', 3, end='')\nprint('careful', file=sys.stderr)\n40 + 2",
)


@pytest.fixture
def kit(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(notebooks.__file__).parent.parent))
    return fake_cuda.install(tmp_path / "cuda")


def write(tree, *sources: str, name: str = NAME, between: str = "") -> Path:
    document = json.loads(notebooks.made(*sources))
    if between:
        cell = {"cell_type": "markdown", "id": "m", "metadata": {}, "source": between}
        document["cells"].insert(1, cell)
    return tree.write(name, notebooks.dump(document))


def edit(tree, change, name: str = NAME) -> None:
    """Change the document of a notebook's file."""
    path = tree.root / name
    document = json.loads(path.read_text("utf-8"))
    change(document)
    path.write_text(notebooks.dump(document), encoding="utf-8")


def of_program(report) -> list[str]:
    return [f.explain() for f in report.findings if f.code not in ("readme", "missing")]


# What counts as code


def code(*sources: str) -> str:
    return lexing.code_text(notebooks.script(notebooks.made(*sources), "x.ipynb"), "notebook")


def test_the_code_of_a_notebook_is_one_text():
    text = notebooks.script(notebooks.made(*WALK), "x.ipynb")
    assert text == (
        "# %% [1]\nimport os\nprint('Result')\nprint('  sum   ', 12)\n\n"
        "# %% [2]\nimport sys\nprint('  rows  ', 3, end='')\n"
        "print('careful', file=sys.stderr)\n40 + 2\n"
    )


@pytest.mark.parametrize(
    "same",
    [
        ("x = 1\ny = 2",),
        ("x  =  1  # one\ny = 2",),
        ("# first\n\nx = 1\n\n\ny = 2\n",),
        ("", "x = 1\ny = 2", "# the end"),
        ("x = (\n  1\n)\ny = 2",),
    ],
)
def test_comments_and_layout_do_not_count(same):
    expected = code("x = (1)\ny = 2") if "(" in same[0] else code("x = 1\ny = 2")
    assert code(*same) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("x = 1\ny = 2",), ("x = 1", "y = 2")),  # where a cell ends, its output ends
        (("!pip install a  # b",), ("!pip install a",)),
        (("%timeit f('#')",), ("%timeit f('')",)),
        (("x = !grep '# a' b",), ("x = !grep '# c' b",)),
        (("%%bash\nls  # a",), ("%%bash\nls  # b",)),
        (("if x:\n    !ls # a",), ("if x:\n    !ls # b",)),
        (("!ls \\\n  # a",), ("!ls \\\n  # b",)),
        (("x = 1;",), ("x = 1",)),  # keeps a cell from showing its value
    ],
)
def test_every_other_change_counts(one, other):
    assert code(*one) != code(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("x = (7\n  % 5)  # a",), ("x = (7 % 5)",)),
        (('s = """\n%d # a\n"""  # b',), ('s = """\n%d # a\n"""',)),
        (("y = x \\\n  % 5  # a",), ("y = x \\\n  % 5",)),
        (("ok = a != b  # a",), ("ok = a != b",)),
    ],
)
def test_a_percent_sign_or_a_mark_is_not_always_a_magic(one, other):
    assert code(*one) == code(*other)


def test_the_key_is_taken_over_the_cells_with_code(tree):
    write(tree, *WALK)
    (program,) = tree.load().programs
    before = key.key_of(key.inputs_of(program))
    assert program.language == "notebook"
    assert program.run.text == "jupyter execute companion.ipynb"
    assert list(key.inputs_of(program).files) == ["companion.ipynb"]
    write(tree, WALK[0] + "  # more", *WALK[2:], between="# A title\n\nand a story")
    assert key.key_of(key.inputs_of(program)) == before
    write(tree, WALK[0].replace("12", "13"), *WALK[1:])
    assert key.key_of(key.inputs_of(program)) != before


def test_a_module_that_it_imports_counts_as_python(tree):
    write(tree, "import helper")
    tree.write("kernels/001-add/helper.py", "x = 7 \\\n% 5  # a\n")
    (program,) = tree.load().programs
    first = key.inputs_of(program)
    assert list(first.files) == ["companion.ipynb", "helper.py"]
    tree.write("kernels/001-add/helper.py", "x = 7 \\\n% 5\n")
    assert key.key_of(key.inputs_of(program)) == key.key_of(first)


# How a notebook is kept


def test_what_running_leaves_is_a_finding_and_tidy_mends_it(tree, cli):
    path = write(tree, *WALK, between="# Title")
    clean = path.read_text("utf-8")
    assert not of_program(check.run(tree.load()))

    def ran(document):
        cell = document["cells"][0]
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "12\n"}]
        cell["execution_count"] = 7
        cell["metadata"] = {"scrolled": True, "tags": ["gate"]}
        document["metadata"]["widgets"] = {}
        document["metadata"]["language_info"]["version"] = "3.12.3"
        document["metadata"]["accelerator"] = "GPU"

    edit(tree, ran)
    [text] = of_program(check.run(tree.load()))
    place, _, rest = text.partition(": ")
    assert place.startswith(f"{NAME}:")
    assert path.read_text("utf-8").split("\n")[int(place.rpartition(":")[2]) - 1].strip() == (
        '"import os\\n",'
    )
    assert rest == (
        "untidy: is not as notebooks are kept: cell [1] has outputs (and 4 more) — "
        f"run: evidence tidy {NAME}"
    )
    before = key.key_of(key.inputs_of(tree.load().programs[0]))
    assert cli("tidy") == (0, f"wrote {NAME}\n")
    document = json.loads(path.read_text("utf-8"))
    assert document["cells"][0]["metadata"] == {"tags": ["gate"]}
    assert document["metadata"]["accelerator"] == "GPU"
    edit(tree, lambda d: (d["metadata"].pop("accelerator"), d["cells"][0].update(metadata={})))
    assert path.read_text("utf-8") == clean
    assert key.key_of(key.inputs_of(tree.load().programs[0])) == before
    assert cli("tidy", "1") == (0, "the notebook is as kept\n")


@pytest.fixture
def cli(tree, monkeypatch, capsys):
    from evidence import cli as module

    def call(*words):
        monkeypatch.chdir(tree.root)
        with pytest.raises(SystemExit) as end:
            module.main(list(words))
        said = capsys.readouterr()
        return end.value.code, said.out + said.err

    return call


def test_only_another_layout_is_a_finding_too(tree):
    path = write(tree, *WALK)
    path.write_text(json.dumps(json.loads(path.read_text("utf-8"))), encoding="utf-8")
    [text] = of_program(check.run(tree.load()))
    assert "it is not laid out as it is kept" in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON: Expecting property name"),
        ("[]", "is no notebook, not format 4"),
        ('{"nbformat": 3, "worksheets": []}', "is notebook format 3, not format 4"),
        ('{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "cell 1 of the file is no cell"),
        (
            '{"nbformat": 4, "cells": [], "metadata": {"kernelspec": {"language": "julia"}}}',
            "is a notebook of julia, not of Python",
        ),
    ],
)
def test_what_is_no_notebook_is_said(tree, text, said):
    tree.write(NAME, text)
    project = tree.load()
    assert not project.programs
    [problem] = project.problems
    assert (problem.code, problem.path) == ("bad-source", NAME)
    assert said in problem.message


def test_a_line_that_separates_cells_is_refused(tree):
    write(tree, "x = 1\n# %% [2]\ny = 2")
    [problem] = tree.load().problems
    assert "cell [1] has a line `# %% [n]`" in problem.message


def test_a_setting_that_is_not_for_notebooks(tree):
    write(tree, *WALK)
    tree.write("kernels/001-add/evidence.toml", "[companion]\nquick = ['--quick']\n")
    [problem] = tree.load().problems
    assert problem.message == "[companion] quick is not for notebooks"
    assert problem.path == "kernels/001-add/evidence.toml"


def test_a_broken_region_is_told_by_cell_and_by_line_of_the_file(tree):
    path = write(tree, "x = 1", "y = 2\n# snippet: Bad\nz = 3\n# end snippet")
    [text] = [f for f in check.run(tree.load()).findings if f.code == "bad-region"]
    line = path.read_text("utf-8").split("\n").index('    "# snippet: Bad\\n",') + 1
    assert (text.path, text.line) == (NAME, line)
    assert text.message.startswith("cell [2], line 2: region name `Bad` is not kebab-case")


# Running it


def test_it_is_run_in_a_kernel_and_recorded(tree, kit):
    write(tree, *WALK, between="# Title")
    report, _ = record(tree, kit)
    assert report.succeeded, report
    data = stored(tree, PROGRAM)
    (run,) = data["runs"]
    assert run["stdout"] == ["Result", "  sum    12", "  rows   3"]
    assert run["stderr"] == ["careful"]
    assert run["cells"] == [
        [{"kind": "stdout", "first": 0, "count": 2}],
        [
            {"kind": "stdout", "first": 2, "count": 1},
            {"kind": "result", "lines": ["42"]},
            {"kind": "stderr", "first": 0, "count": 1},
        ],
    ]
    assert data["run_command"] == ["jupyter", "execute", "companion.ipynb"]
    assert data["toolchain"]["packages"].keys() == {"nbclient", "ipykernel"}
    assert data["build"] is None
    assert not data["sanitizers"]
    found = values.of_record(data)
    assert {a: v.text for a, v in found.items() if v.source == "run"} == {
        "Result/sum": "12", "Result/rows": "3",
    }  # fmt: skip
    (state,) = check.run(tree.load()).states
    assert state.name == "fresh"


def test_all_runs_print_and_the_first_keeps_what_its_cells_left(tree, kit):
    write(tree, "print('Result')\nprint('  sum  ', 1)")
    tree.write("kernels/001-add/evidence.toml", "[companion]\nruns = 2\n")
    record(tree, kit)
    assert ["cells" in run for run in stored(tree, PROGRAM)["runs"]] == [True, False]


def test_an_edit_of_its_code_makes_it_stale_and_one_of_its_record_is_seen(tree, kit):
    write(tree, *WALK)
    record(tree, kit)
    write(tree, WALK[0].replace("12", "13"), *WALK[1:])
    codes = {f.code: f for f in failing(check.run(tree.load()).findings)}
    assert "code of companion.ipynb changed" in codes["stale"].message
    assert codes["stale"].fix == f"run: evidence record {PROGRAM}"
    write(tree, *WALK)
    path = path_of(tree, "001-add", "companion")
    path.write_text(path.read_text("utf-8").replace("  sum    12", "  sum    13"), "utf-8")
    assert "edited" in {f.code for f in failing(check.run(tree.load()).findings)}


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "def f():\n    assert False, 'gate 2 failed'\nf()",
            "run 1 ended with exit status 1: cell [2], line 3: AssertionError: gate 2 failed",
        ),
        ("import os, signal\nos.kill(os.getpid(), 9)", "the kernel died in cell [2] by SIGKILL"),
        ("while True: print('x' * 1000)", "cell [2] printed more than 1000000 bytes"),
        ("x = (", "cell [2], line 1: SyntaxError: incomplete input (<cell>, line 1)"),
        ("print('Result')\nprint('  sum  ', float('nan'))", "run 1 printed nan at Result/sum"),
        ("input()", "cell [2], line 1: StdinNotImplementedError"),
    ],
)
def test_a_cell_that_fails_is_a_failure(tree, kit, source, said):
    write(tree, "x = 1", source, "print('never')")
    report, _ = record(tree, kit)
    ((name, reason),) = report.failed
    assert name == PROGRAM
    assert said in reason
    if "nan" not in said:
        assert "never" not in str(stored(tree, PROGRAM)["runs"][0]["stdout"])
    assert "failed" in {f.code for f in failing(check.run(tree.load()).findings)}


def test_a_notebook_without_end_is_killed_with_its_kernel(tree, kit, tmp_path):
    mark = tmp_path / "pid"
    write(
        tree, f"import os, time\nopen({str(mark)!r}, 'w').write(str(os.getpid()))\ntime.sleep(99)"
    )
    tree.write("kernels/001-add/evidence.toml", "[companion]\ntimeout = 8\n")
    begun = time.monotonic()
    report, _ = record(tree, kit)
    assert time.monotonic() - begun < 30
    assert "was killed after 8 s" in report.failed[0][1]
    stat = Path(f"/proc/{mark.read_text()}/stat")  # nobody may have asked for its status yet
    assert not stat.exists() or stat.read_text().rpartition(") ")[2].startswith("Z")


def test_a_cell_may_be_meant_to_fail(tree, kit):
    write(tree, "1 / 0", "print('on')")
    edit(tree, lambda d: d["cells"][0]["metadata"].update(tags=["raises-exception"]))
    report, _ = record(tree, kit)
    assert report.succeeded
    first, _ = stored(tree, PROGRAM)["runs"][0]["cells"]
    assert first[0]["kind"] == "error"
    assert first[0]["value"] == "division by zero"


PNG = base64.b64encode(b"\x89PNG" + bytes(90)).decode()


def test_what_is_kept_of_rich_output(tree, kit):
    show = (
        "from IPython.display import display\n"
        "class Two:\n"
        "    def _repr_mimebundle_(self, **_):\n"
        f"        return {{'text/plain': 'a table', 'text/html': '<b>', 'image/png': {PNG!r}}}\n"
        "display(Two())\nprint('after')\nobject()"
    )
    write(tree, show)
    record(tree, kit)
    ((shown, after, result),) = stored(tree, PROGRAM)["runs"][0]["cells"]
    assert shown == {
        "kind": "display", "lines": ["a table"],
        "image": {"type": "image/png", "base64": [PNG[:96], PNG[96:]]},
    }  # fmt: skip
    assert after["kind"] == "stdout"
    assert result["lines"] == ["<object at 0x…>"]  # an address is another one each time
    assert "<b>" not in str(stored(tree, PROGRAM)["runs"])


def test_a_large_image_is_refused(tree, kit, monkeypatch):
    monkeypatch.setattr(notebookrun, "IMAGE_BYTES", 50)
    write(
        tree, f"from IPython.display import Image\nimport base64\nImage(base64.b64decode({PNG!r}))"
    )
    report, _ = record(tree, kit)
    assert "cell [1] shows an image of 94 bytes, at most 50 are kept" in report.failed[0][1]


def test_nothing_of_the_machine_is_stored(tree, kit):
    source = (
        "import os, warnings\nprint(os.getcwd(), os.environ['HOME'])\n"
        "warnings.warn('old')\nos.getcwd()"
    )
    write(tree, source)
    tree.write("kernels/001-add/evidence.toml", "[companion]\nruns = 2\n")
    record(tree, kit)
    first, second = stored(tree, PROGRAM)["runs"]
    assert first["stdout"] == ["<tmp> <tmp>/home"]
    assert first["stderr"] == second["stderr"]
    assert first["stderr"][0] == "<cell>:3: UserWarning: old"
    assert first["cells"][0][1]["lines"] == ["'<tmp>'"]
    assert not [f for f in check.run(tree.load()).findings if f.code == "leak"]


def test_a_mutant_is_an_edit_of_one_cell(tree, kit):
    write(tree, "good = 1", "assert good == 1")
    tree.write(
        "kernels/001-add/evidence.toml",
        '[[companion.mutant]]\nname = "bad"\nfind = "good = 1"\nreplace = "good = 2"\n',
    )
    report, _ = record(tree, kit)
    assert report.succeeded, report
    mutant = stored(tree, PROGRAM)["mutants"]["bad"]
    assert (mutant["status"], mutant["by"]) == ("rejected", "gate")
    assert mutant["output"] == ["cell [2], line 1: AssertionError: "]


def test_a_machine_without_what_runs_notebooks_says_so_and_goes_on(tree, kit, monkeypatch):
    write(tree, *WALK)
    tree.program(text=fake_cuda.source("echo x"))
    monkeypatch.setattr(notebookrun, "PACKAGES", ("nbclient", "no_such_package"))
    report, _ = record(tree, kit)
    assert report.recorded == ("001-add/add",)
    [finding] = report.findings
    assert finding.explain() == (
        f"{NAME}:1: not-recorded: notebooks need no_such_package, which is not installed — "
        "install them: pip install '.[notebook]'"
    )


def test_a_bundle_of_a_notebook_is_accepted(tree, kit, tmp_path):
    write(tree, *WALK)
    target = tmp_path / "out.zip"
    record(tree, kit, target=target)
    report = accept.accept(tree.load(), [target])
    assert not report.refused, report.refused
    assert (tree.root / "kernels/001-add/evidence/companion.h200.json").is_file()


def test_the_doctor_runs_one(monkeypatch):
    row = doctor._notebooks(try_tools=True)
    assert row.state == "ok", row
    assert row.found.endswith("; one was run")
    monkeypatch.setattr(notebookrun, "PACKAGES", ("no_such_package",))
    row = doctor._notebooks(try_tools=True)
    assert (row.state, row.fix) == ("warning", "install them: pip install '.[notebook]'")


def test_the_driver_and_the_tool_agree_on_what_is_code():
    for text in ("", "\n \n", "# a\n  # b", "x", "# a\nx", '"""\n# a"""', "%%bash"):
        assert nbdriver.has_code(text) == notebooks.has_code(text)


def test_an_error_that_is_in_no_cell_is_left_alone(tmp_path):
    error = SourceError("wrong", path="x.ipynb", line=1)
    assert notebooks.placed(error, "no cell", tmp_path) is error


def test_commands_cope_with_a_notebook(tree, kit, cli):
    write(tree, *WALK)
    record(tree, kit)
    assert cli("readme")[0] == 0
    text = (tree.root / "kernels/001-add/README.md").read_text("utf-8")
    assert "```sh\njupyter execute companion.ipynb\n```" in text
    assert "  rows   3" in text
    status, said = cli("list")
    assert (status, said.split()[:3]) == (0, [PROGRAM, "h200", "fresh"])
    assert "Result/rows" in cli("values", PROGRAM)[1]
    assert cli("diff", PROGRAM)[0] in (0, 2)
    assert cli("check")[0] == 0
    assert "there is no program to compile" in cli("build", PROGRAM)[1]
