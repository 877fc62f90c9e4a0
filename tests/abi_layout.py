#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what a program or a plugin is compiled against to tests/abi_layout.txt: each struct, member
and constant of the headers, as the compiler lays them out, and each function that libkeel exports.

--check compares instead. An addition fails too, until it is written down; a line that went missing
or changed, except for a struct with a header or a number of constants that grew, breaks every plugin
and program of before (docs/abi-stability.md).
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "abi_layout.txt"
HEADERS = ["ops.h", "abi.h", "keel.h", "shrink.h", "comm_start.h", "store.h",
           "rank_status.h"]


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    # Directives, with what their macros continue on further lines.
    return re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.MULTILINE)


def members(body):
    for declaration in body.split(";"):
        pointer = re.search(r"\(\*\s*(\w+)\)", declaration)
        if pointer:
            yield pointer.group(1)
            continue
        names = re.sub(r"\[[^]]*\]", "", declaration).strip()
        if names:
            for each in names.split(","):
                yield re.search(r"(\w+)\s*$", each).group(1)


def read_header(name):
    """Returns the lines of C that print the header's structs and constants."""
    text = without_comments((ROOT / "include" / "keel" / name).read_text())
    for kind, struct, body in re.findall(r"typedef (struct|union) (\w+) \{(.*?)\} \2;", text,
                                         re.DOTALL):
        yield f'printf("{kind} {struct} %zu\\n", sizeof({struct}));'
        for member in members(body):
            place = f"offsetof({struct}, {member}), sizeof((({struct}*)0)->{member})"
            yield f'printf("{struct}.{member} at %zu, %zu bytes\\n", {place});'
    for body in re.findall(r"enum(?: \w+)? \{(.*?)\}", text, re.DOTALL):
        for constant in re.findall(r"(KEEL_\w+)\s*(?:=|,|$)", body.strip() + ","):
            yield f'printf("{constant} = %lld\\n", (long long){constant});'


def layout(compiler):
    lines = [line for name in HEADERS for line in read_header(name)]
    includes = "".join(f"#include <keel/{name}>\n" for name in HEADERS)
    source = f"{includes}#include <stdio.h>\nint main(void) {{\n" + "\n".join(lines) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "layout"
        subprocess.run([compiler, "-std=c11", "-x", "c", "-", "-I", ROOT / "include", "-o", program],
                       input=source, text=True, check=True)
        return subprocess.run([program], capture_output=True, text=True, check=True).stdout


def functions(library):
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True,
                            check=True).stdout
    names = (line.split()[-1] for line in listed.splitlines() if line.split()[-2] == "T")
    return "".join(f"function {name.replace('@@', ' ')}\n" for name in sorted(names))


def may_grow(line, before):
    """Whether |line| of before may have another number now: a larger one."""
    what = line.rsplit(" ", 1)[0]
    if what.endswith("_COUNT ="):
        return True
    return what.startswith("struct ") and f"{what.split()[1]}.header at 0, 16 bytes" in before


def changes(before, after):
    """Returns the lines that break what was compiled before, and those that are not written down."""
    number = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in after
              if line.rsplit(" ", 1)[1].isdigit()}
    lost = []
    for line in sorted(set(before) - set(after)):
        what, _, old = line.rpartition(" ")
        if not (may_grow(line, set(before)) and number.get(what, 0) > int(old)):
            lost.append(line)
    return lost, [line for line in after if line not in set(before)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail on a difference")
    parser.add_argument("--compiler", default="cc")
    parser.add_argument("--library", default=ROOT / "build" / "lib" / "libkeel.so")
    arguments = parser.parse_args()
    now = layout(arguments.compiler) + functions(arguments.library)
    if not arguments.check:
        GOLDEN.write_text(now)
        print(f"wrote {GOLDEN.relative_to(ROOT)}")
        return
    lost, added = changes(GOLDEN.read_text().splitlines(), now.splitlines())
    for line in lost:
        print(f"- {line}")
    for line in added:
        print(f"+ {line}")
    if lost:
        sys.exit("programs and plugins of before break: docs/abi-stability.md")
    if added:
        sys.exit("write the additions down: tests/abi_layout.py")


if __name__ == "__main__":
    main()
