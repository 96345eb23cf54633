"""Nothing that is stored tells about the machine or the person that recorded it."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence import scrub
from evidence.scrub import Scrubber

HERE = Scrubber(
    [
        ("/home/mira/course", "<project>"),
        ("/home/mira", "<home>"),
        ("/tmp", "<tmp>"),
        ("/opt/cuda-13.0", "<cuda>"),
    ],
    [
        ("node17.example.org", "<host>"),
        ("node17", "<host>"),
        ("mira", "<user>"),
        ("root", "<user>"),
    ],
)


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("cannot open /home/mira/course/kernels/a.cu", "cannot open <project>/kernels/a.cu"),
        ("/home/mira/other/x", "<home>/other/x"),
        ("-I/home/mira/course/include", "-I<project>/include"),
        ("-L/opt/cuda-13.0/lib", "-L<cuda>/lib"),
        ("file=/tmp/x.log", "file=<tmp>/x.log"),
        ("'/tmp'", "'<tmp>'"),
        ("/var/tmp/x", "/var/tmp/x"),
        ("/tmpfs/x", "/tmpfs/x"),
        ("/home/miranda/x", "/home/miranda/x"),
        ("run by mira on node17", "run by <user> on <host>"),
        ("node17.example.org:22", "<host>:22"),
        ("admiral miracle mira_x", "admiral miracle mira_x"),
        ("/data/mira/x", "/data/<user>/x"),
        ("square root of 2", "square root of 2"),
        ("see /home/mira.", "see <home>."),
        ("nothing here", "nothing here"),
    ],
)
def test_paths_and_names_are_replaced(text, scrubbed):
    assert HERE.text(text) == scrubbed


def test_every_text_of_a_document_but_no_key():
    document = {"/tmp": ["/tmp/a", {"x": ("/tmp", 3, None, True)}]}
    assert HERE.data(document) == {"/tmp": ["<tmp>/a", {"x": ["<tmp>", 3, None, True]}]}


@pytest.mark.parametrize("name", ["root", "Ubuntu", "runner", "max", "ada", "ab", "1000"])
def test_names_that_are_words_are_left_alone(name):
    assert Scrubber([], [(name, "<user>")]).text(f"the {name} of it") == f"the {name} of it"


def test_a_scrubber_of_nothing():
    assert Scrubber([("/", "<root>"), ("", "<empty>")]).text("/ and x") == "/ and x"


def test_a_link_to_a_folder_is_replaced_under_both_names(tmp_path):
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    found = Scrubber([(str(link), "<project>")])
    assert found.text(f"{link}/a {real}/b") == "<project>/a <project>/b"


def test_this_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(scrub.socket, "gethostname", lambda: "box-41.lab")
    monkeypatch.setattr(scrub.getpass, "getuser", lambda: "yvonne")
    found = scrub.of_machine(tmp_path, Path("/opt/cuda"))
    text = f"{tmp_path}/a {Path.home()}/b /opt/cuda/lib box-41 box-41.lab yvonne"
    assert found.text(text) == "<project>/a <home>/b <cuda>/lib <host> <host> <user>"


def test_where_packages_are_installed_is_not_said(tmp_path, monkeypatch):
    monkeypatch.setattr(scrub.sys, "prefix", "/opt/torch/.venv")
    monkeypatch.setattr(scrub.sys, "base_prefix", "/usr")
    found = scrub.of_machine(tmp_path)
    assert found.text("/opt/torch/.venv/lib/x.py:3: W") == "<python>/lib/x.py:3: W"
    # A system's own interpreter is nobody's: include paths stay as they are.
    monkeypatch.setattr(scrub.sys, "prefix", "/usr")
    assert scrub.of_machine(tmp_path).text("/usr/include/x.h") == "/usr/include/x.h"


def test_a_user_without_a_name(tmp_path, monkeypatch):
    def nobody():
        raise KeyError("uid not found")

    monkeypatch.setattr(scrub.getpass, "getuser", nobody)
    assert scrub.of_machine(tmp_path).text(f"{tmp_path}/x") == "<project>/x"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('"/home/mira/x"', "/home/mira"),
        ("-L/Users/mira/lib", "/Users/mira"),
        ("/root/.cache/x", "/root"),
        ("at /tmp/tmpxft_0001/a.o", "/tmp/tmpxft_0001"),
        ("C:\\Users\\mira\\x", "C:\\Users\\mira"),
        ('"C:\\\\Users\\\\mira"', "C:\\\\Users\\\\mira"),
        ("token ghp_" + "a" * 36, "ghp_aaaa…"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "-----BEG…"),
        ("AKIA" + "A1" * 8, "AKIAA1A1…"),
    ],
)
def test_a_leak(text, found):
    assert [leak.text for leak in scrub.leaks(text)] == [found]


@pytest.mark.parametrize(
    "text",
    [
        "<home>/x <tmp>/tmpxft_1 <project>/home/x",
        "the /root of it, a/home/b, x/tmp/y",
        "bytes/tmp, sk-short, ghp_short",
        "/usr/local/cuda/lib64",
    ],
)
def test_no_leak(text):
    assert scrub.leaks(text) == []


def test_a_leak_has_its_line():
    assert [leak.line for leak in scrub.leaks("a\nb /home/x\nc /tmp/y\n")] == [2, 3]


@given(st.text())
def test_scrubbing_twice_changes_nothing(text):
    once = HERE.text(text)
    assert HERE.text(once) == once


@given(
    st.lists(
        st.sampled_from(["/home/mira/course", "/home/mira", "/tmp", "x", " ", os.sep]), max_size=8
    )
)
def test_what_was_scrubbed_names_no_home(pieces):
    text = HERE.text(" ".join(pieces))
    assert "mira" not in text
