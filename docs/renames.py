#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Applies the pairs of renames.txt, beside this script, to a tree or to patches.

  docs/renames.py FOLDER          a clone of Keel (git moves its files), or an out-of-tree plugin,
                                  to which the pairs of the section "public" alone apply
  docs/renames.py FILE.patch...   patches of Keel, paths included
"""
import os
import pathlib
import re
import subprocess
import sys

PAIRS = pathlib.Path(__file__).with_name("renames.txt")
# History, and the code that still reads an old name.
LEFT_ALONE = re.compile(r"docs/(renames\.|results/|glossary\.md)|CHANGELOG\.md$|"
                        r"collectives/bootstrap/launcher_environment")


class Pair:
    def __init__(self, old, new, prefixes, section):
        self.old = old.replace("~", " ")
        self.new = new.replace("~", " ")
        self.prefixes = tuple(prefixes)
        self.section = section
        self.is_path = re.fullmatch(r"[\w./-]*/[\w./-]*", old) is not None
        # A folder of one word is written with a slash at its end.
        self.is_word_folder = self.is_path and old.endswith("/")
        self.old = self.old.rstrip("/")
        self.is_prefix = old.endswith("*")
        if self.is_prefix:
            self.old = self.old[:-1]

    def pattern(self):
        begin = r"(?<![\w])" if re.match(r"\w", self.old) else ""
        end = r"(?![\w])" if re.search(r"\w$", self.old) and not self.is_prefix else ""
        if self.is_path:
            begin, end = r"(?<![\w.-])(?<![\w.-]/)", r"(?![\w])"
        if self.is_word_folder:
            end = r"(?=/)"
        return re.compile(begin + re.escape(self.old) + end)


def read_pairs():
    pairs, section = [], ""
    for line in PAIRS.read_text().splitlines():
        if line.startswith("# ----"):
            section = line.strip("# -")
        elif line.strip() and not line.startswith("#"):
            old, new, *prefixes = line.split()
            pairs.append(Pair(old, new, prefixes, section))
    return pairs


def guard(path):
    return "KEEL_" + re.sub(r"^(KEEL_)?(INCLUDE_KEEL_)?", "", re.sub(r"\W", "_", path).upper()) + "_"


def rename_path(texts, pair):
    """Moves a file or folder, and changes what names it: paths, include guards, lists beside it."""
    moved = {}
    for path in list(texts):
        if path == pair.old or path.startswith(pair.old + "/"):
            moved[path] = pair.new + path[len(pair.old):]
    is_folder = pair.old not in moved
    guards = None
    if is_folder:
        guards = (guard(pair.old), guard(pair.new), "")
    elif pair.old.endswith((".h", ".hpp")):
        guards = (guard(pair.old), guard(pair.new), r"\b")
    pattern = pair.pattern()
    for path, text in texts.items():
        text = pattern.sub(pair.new, text)
        if guards and path.endswith((".h", ".hpp")):
            text = re.sub(r"\b" + guards[0] + guards[2], guards[1], text)
        folder = os.path.dirname(path)
        if path.endswith(("CMakeLists.txt", ".md")) and pair.old.startswith(folder + "/"):
            old, new = os.path.relpath(pair.old, folder), os.path.relpath(pair.new, folder)
            text = re.sub(r"(?<![\w/.-])" + re.escape(old) + r"(?![\w])", new, text)
        texts[path] = text
    for old, new in moved.items():
        texts[new] = texts.pop(old)
    return moved


def rename_words(texts, pair):
    pattern = pair.pattern()
    for path, text in texts.items():
        if pair.old in text and (not pair.prefixes or path.startswith(pair.prefixes)):
            texts[path] = pattern.sub(lambda _: pair.new, text)


def apply(texts, pairs):
    moves = {}
    for pair in pairs:
        if not pair.is_path:
            rename_words(texts, pair)
            continue
        for old, new in rename_path(texts, pair).items():
            first = next((key for key, value in moves.items() if value == old), old)
            moves[first] = new
    return moves


def read_text(path):
    try:
        return path.read_text()
    except UnicodeDecodeError:
        return None


def apply_to_folder(folder, pairs):
    is_keel = (folder / "include/keel/abi.h").exists()
    if not is_keel:
        pairs = [pair for pair in pairs if pair.section.startswith("public")]
    if (folder / ".git").exists():
        listed = subprocess.run(["git", "ls-files"], cwd=folder, check=True, capture_output=True)
        names = [name for name in listed.stdout.decode().splitlines() if (folder / name).is_file()]
    else:
        names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    texts = {name: read_text(folder / name) for name in names if not LEFT_ALONE.match(name)}
    # A file that is no text has no names in it, but its folder may move.
    binary = {name for name, text in texts.items() if text is None}
    texts = {name: text or "" for name, text in texts.items()}
    before = dict(texts)
    moves = apply(texts, pairs)
    for old, new in moves.items():
        (folder / new).parent.mkdir(parents=True, exist_ok=True)
        if (folder / ".git").exists():
            subprocess.run(["git", "mv", old, new], cwd=folder, check=True)
        else:
            (folder / old).rename(folder / new)
    origin = {new: old for old, new in moves.items()}
    for name, text in texts.items():
        old = origin.get(name, name)
        if old not in binary and text != before[old]:
            (folder / name).write_text(text)


def apply_to_patch(path, pairs):
    """Each file's part of the patch by that file's path, so that pairs with a PREFIX apply."""
    parts = re.split(r"^(?=diff --git )", path.read_text(), flags=re.MULTILINE)
    changed = []
    for part in parts:
        name = re.match(r"diff --git a/(\S+)", part)
        texts = {name.group(1) if name else "": part}
        moves = apply(texts, pairs)
        text = next(iter(texts.values()))
        for old, new in moves.items():
            text = text.replace("a/" + old, "a/" + new).replace("b/" + old, "b/" + new)
        changed.append(text)
    path.write_text("".join(changed))


def main(arguments):
    if not arguments or arguments[0].startswith("-"):
        print(__doc__)
        return 2
    pairs = read_pairs()
    for argument in map(pathlib.Path, arguments):
        if argument.is_dir():
            apply_to_folder(argument, pairs)
        elif "diff --git" in argument.read_text(errors="replace"):
            apply_to_patch(argument, pairs)
        else:
            print(f"{argument}: neither a folder nor a patch of git's", file=sys.stderr)
            return 2
    return 0


sys.exit(main(sys.argv[1:]))
