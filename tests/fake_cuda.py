"""A CUDA toolkit and a GPU for tests on machines that have neither.

The fake nvcc makes a shell script out of a source: of every line `#pragma sh …`
its shell line. `#pragma kernel NAME REGISTERS STACK` makes a line of the ptxas
report, `#pragma error TEXT` and `#pragma warning TEXT` what a compiler would say.
The fake compute-sanitizer counts what `#pragma sanitize TOOL N` says, the fake
ncu reports what `#pragma launch KERNEL X METRIC=VALUE …` says.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from evidence.device import Device

# The identifier names the lock: tests that run side by side do not share a GPU.
H200 = Device("NVIDIA H200", "9.0", "580.1", 143771, 132, f"GPU-of-test-{os.getpid()}")

NVCC = """\
import os, re, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("Cuda compilation tools, release 13.0, V{version}")
    raise SystemExit
try:
    with open("{calls}", "a") as log:
        log.write(" ".join(words) + "\\n")
except OSError:
    pass  # in a sandbox
source = next(w for w in words if w.endswith(".cu"))
output = words[words.index("-o") + 1]
architecture = next((w.split("=")[1] for w in words if w.startswith("-arch=")), "sm_52")
folders = [os.path.dirname(source)] + [w[2:] for w in words if w.startswith("-I")]
seen = []
def read(path):
    seen.append(path)
    with open(path) as stream:
        text = stream.read()
    for name in re.findall(r'^#include "(.*)"', text, re.M):
        here = [os.path.dirname(path), *folders]
        found = [os.path.normpath(os.path.join(f, name)) for f in here]
        text += read(next(p for p in found if os.path.exists(p)))
    return text
text = read(source)
status = 0
script = ["#!/bin/sh"]
for number, line in enumerate(text.split("\\n"), 1):
    match = re.match(r"#pragma ([a-z]+) (.*)", line)
    if not match:
        continue
    kind, rest = match.groups()
    if kind == "sh":
        script.append(rest)
    elif kind == "kernel":
        name, registers, stack = rest.split()
        mangled = "_Z%d%sv" % (len(name), name)
        if "-Xptxas=-v" in words:
            print("ptxas info    : Compiling entry function '%s' for '%s'" % (mangled, architecture))
            print("ptxas info    : Function properties for " + mangled)
            print("    %s bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" % stack)
            print("ptxas info    : Used %s registers, used 1 barriers, 64 bytes smem" % registers)
    elif kind == "error":
        status = 2
        print("%s(%d): error: %s" % (source, number, rest))
    elif kind == "warning":
        strict = "all-warnings" in words
        status = 1 if strict else status
        print("%s(%d): %s #177-D: %s" % (source, number, "error" if strict else "warning", rest))
    else:
        script.append("# %s: %s" % (kind, rest))
with open(words[words.index("-MF") + 1], "w") as stream:
    stream.write(output + " : " + " \\\\\\n    ".join([*seen, "/usr/include/stdio.h"]) + "\\n")
if status == 0:
    with open(output, "w") as stream:
        stream.write("\\n".join(script) + "\\n")
    os.chmod(output, 0o755)
raise SystemExit(status)
"""

SANITIZER = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "Version 2025.3.1.0 (build 1)"; exit; fi
while [ "${1#./}" = "$1" ]; do
  [ "$1" = --tool ] && tool=$2
  shift
done
echo "========= COMPUTE-SANITIZER"
"$@"
status=$?
count=$(sed -n "s/^# sanitize: $tool //p" "$1")
count=${count:-0}
if [ "$count" -gt 0 ]; then
  echo "========= Invalid __global__ write of size 4 bytes"
  status=86
fi
if [ "$tool" = racecheck ]; then
  echo "========= RACECHECK SUMMARY: $count hazards displayed ($count errors, 0 warnings)"
else
  echo "========= ERROR SUMMARY: $count errors"
fi
exit $status
"""

NCU = """\
#!/bin/sh
if [ "$1" = --version ]; then echo "Version 2025.3.1.0 (build 1)"; exit; fi
while [ "${1#./}" = "$1" ]; do
  [ "$1" = --log-file ] && log=$2
  shift
done
"$@" || { status=$?; echo "==ERROR== The application returned an error code ($status)." >"$log"; exit $status; }
{
  echo "==PROF== Connected to process 7 (/somewhere/program)"
  head='"ID","Kernel Name","Grid Size"'
  unit='"","",""'
  first=1
  sed -n "s/^# launch: //p" "$1" | while read -r kernel x metrics; do
    row="\\"0\\",\\"$kernel(float *)\\",\\"($x, 1, 1)\\""
    for metric in $metrics; do
      row="$row,\\"${metric#*=}\\""
      head="$head,\\"${metric%%=*}\\""
      unit="$unit,\\"byte\\""
    done
    [ $first = 1 ] && echo "$head" && echo "$unit"
    first=0
    echo "$row"
  done
} >"$log"
"""


@dataclass(frozen=True)
class Gpu:
    """A GPU that is always there."""

    device: Device = H200

    def query(self) -> Device:
        return self.device

    def every(self) -> list[Device]:
        return [self.device]


@dataclass(frozen=True)
class Toolkit:
    """A fake toolkit in a folder."""

    home: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environ(self) -> dict[str, str]:
        path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/bin", "/bin"])
        return {"CUDA_HOME": str(self.home), "PATH": path, **self.extra}

    def calls(self) -> list[str]:
        """Return the compiler's command lines so far."""
        path = self.home / "calls"
        return path.read_text().splitlines() if path.is_file() else []

    def script(self, name: str, text: str) -> Path:
        path = self.home / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path


def install(home: Path, *, version: str = "13.0.88", tools: bool = True) -> Toolkit:
    """Put a fake toolkit into a folder."""
    kit = Toolkit(home)
    text = NVCC.replace("{version}", version).replace("{calls}", str(home / "calls"))
    python = os.path.realpath(sys.executable)
    kit.script("nvcc", f"#!{python} -IS\n{text}")
    if tools:
        kit.script("compute-sanitizer", SANITIZER)
        kit.script("ncu", NCU)
    return kit


def source(*lines: str, stem: str = "add", run: str = "") -> str:
    """Return a source for the fake compiler; plain lines are shell."""
    body = [line if line.startswith(("//", "#")) else f"#pragma sh {line}" for line in lines]
    head = [
        f"// Build: nvcc -O3 -std=c++17 -arch=native -o {stem} {stem}.cu",
        f"// Run: ./{stem}{' ' if run else ''}{run}",
    ]
    return "\n".join([*head, *body, ""])
