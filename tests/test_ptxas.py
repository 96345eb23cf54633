"""The compiler's report: registers, stack, spills and shared memory per kernel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import ptxas

# nvcc 13.0.88, -Xptxas=-v; the second kernel spills, the third is a function that is called.
REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z4addTILi64EdEvPT0_' for 'sm_90'
ptxas info    : Function properties for _Z4addTILi64EdEvPT0_
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 1 barriers, 512 bytes smem
ptxas info    : Compile time = 1.934 ms
ptxas info    : Compiling entry function '_Z15attentionOnlinePfi' for 'sm_90'
ptxas info    : Function properties for _Z15attentionOnlinePfi
    256 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 18 registers, used 0 barriers, 256 bytes cumulative stack size, 360 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Function properties for _Z6helperi
    40 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
x.cu(3): warning #177-D: variable "unused" was declared but never referenced
""".splitlines()


def fields(**given_fields: int) -> dict[str, int]:
    return {**dict.fromkeys(ptxas.FIELDS, 0), **given_fields}


def test_the_report_is_parted_from_everything_else():
    report, other = ptxas.split(REPORT)
    assert len(report) == len(REPORT) - 1
    assert other == ['x.cu(3): warning #177-D: variable "unused" was declared but never referenced']


def test_every_kernel_has_its_numbers():
    assert ptxas.parse(REPORT, "sm_90") == {
        "_Z4addTILi64EdEvPT0_": fields(registers=14, shared=512),
        "_Z15attentionOnlinePfi": fields(
            registers=18, stack=256, spill_stores=8, spill_loads=12, constant=368
        ),
    }


def test_kernels_have_readable_names():
    assert list(ptxas.kernels(REPORT, "sm_90")) == ["addT<64, double>", "attentionOnline"]


def test_of_several_architectures_the_asked_one_counts():
    report = []
    for architecture, registers in (("sm_80", 20), ("sm_90", 18), ("sm_100", 22)):
        report += [
            f"ptxas info    : Compiling entry function '_Z1kv' for '{architecture}'",
            "ptxas info    : Function properties for _Z1kv",
            "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
            f"ptxas info    : Used {registers} registers",
        ]
    assert ptxas.parse(report, "sm_90")["_Z1kv"]["registers"] == 18
    assert ptxas.parse(report, "sm_75")["_Z1kv"]["registers"] == 20


def test_overloads_do_not_share_an_entry():
    report = []
    for name, registers in (("_Z1kPf", 10), ("_Z1kPd", 12)):
        report += [
            f"ptxas info    : Compiling entry function '{name}' for 'sm_90'",
            f"ptxas info    : Used {registers} registers",
        ]
    found = ptxas.kernels(report, "sm_90")
    assert {name: k["registers"] for name, k in found.items()} == {"k": 10, "_Z1kPd": 12}


@pytest.mark.parametrize(
    ("signature", "name"),
    [
        ("attentionOnline(const float *, float *, int)", "attentionOnline"),
        ("void addT<(int)32, float>(T2 *)", "addT<32, float>"),
        ("void addT<32, float>(float*)", "addT<32, float>"),
        ("void k<(bool)1, (unsigned int)4, foo::bar<int> >(float)", "k<true, 4, foo::bar<int>>"),
        ("void k<true, 4u, foo::bar<int> >(float)", "k<true, 4, foo::bar<int>>"),
        ("<unnamed>::hidden(int *)", "hidden"),
        ("(anonymous namespace)::hidden(int*)", "hidden"),
        ("foo::stream(const float4 *, float4 *, int)", "foo::stream"),
        ("plainC", "plainC"),
        ("_Z15attentionOnlinePfi", "attentionOnline"),
        ("_ZL6hiddenPi", "hidden"),
        ("_Z4addTILi64EdEvPT0_", "_Z4addTILi64EdEvPT0_"),
    ],
)
def test_a_kernels_name(signature, name):
    assert ptxas.base_name(signature) == name


@given(st.text())
def test_any_signature_has_some_name(signature):
    assert isinstance(ptxas.base_name(signature), str)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\n\r"))))
def test_nothing_is_lost_in_parting(lines):
    report, other = ptxas.split(lines)
    assert sorted(report + other) == sorted(lines)


def test_without_a_demangler_names_stay_distinct(tmp_path, monkeypatch):
    monkeypatch.setattr(ptxas.shutil, "which", lambda name: None)
    names = ptxas.readable(
        ["_Z15attentionOnlinePfi", "_Z4addTILi64EdEvPT0_", "_Z4addTILi32EdEvPT0_"]
    )
    assert list(names.values()) == [
        "attentionOnline",
        "_Z4addTILi64EdEvPT0_",
        "_Z4addTILi32EdEvPT0_",
    ]
