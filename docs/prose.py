#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the prose of headers and pages: pronouns per 100 words, and sentences that begin with
Who, What, Whose, Of or That. A sentence that leans on pronouns seldom names its actor; CONTRIBUTING.md
has the style. Fails above 6 pronouns per 100 words or 2 % such sentences in headers or in pages.

  docs/prose.py             totals by folder
  docs/prose.py FILE...     each file
"""
import collections
import pathlib
import re
import subprocess
import sys

PRONOUNS = frozenset(
    "it its itself that which what who whom whose this these those one ones such none other others "
    "another whoever whatever whichever somebody nobody anybody everybody something nothing anything "
    "everything they them their theirs he him his she her".split())
ODD_START = re.compile(r"(Who|What|Whose|Of|That|Whoever|Whatever)\b")
COMMENT = re.compile(r"\s*(?://+|/\*+|\*(?!/))\s?(.*?)(?:\*/)?\s*$")
SHORTEST = 4  # words; a shorter sentence is a label
MOST_PRONOUNS = 6.0
MOST_ODD_STARTS = 2.0
# Pages of figures, and the history, whose words are those of their day.
LEFT_OUT = re.compile(r"docs/results/(gpu-)?20|docs/renames|CHANGELOG\.md")


def comments(text):
    block = []
    for line in text.splitlines():
        match = COMMENT.match(line)
        if match:
            block.append(match.group(1))
        elif block:
            yield " ".join(block)
            block = []
    if block:
        yield " ".join(block)


def paragraphs(text):
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for part in re.split(r"\n\s*\n", text):
        lines = [line for line in part.splitlines() if not line.lstrip().startswith(("|", "#"))]
        yield " ".join(" ".join(lines).split())


class Count:
    def __init__(self):
        self.words = self.pronouns = self.sentences = self.odd_starts = 0

    def add(self, path):
        text = path.read_text(errors="replace")
        for block in paragraphs(text) if path.suffix == ".md" else comments(text):
            for sentence in re.split(r"(?<=[.:;?!])\s+", block):
                words = re.findall(r"[A-Za-z']+", sentence)
                if len(words) < SHORTEST:
                    continue
                self.words += len(words)
                self.pronouns += sum(word.lower() in PRONOUNS for word in words)
                self.sentences += 1
                self.odd_starts += ODD_START.match(sentence.strip()) is not None

    def rates(self):
        return (100 * self.pronouns / max(self.words, 1),
                100 * self.odd_starts / max(self.sentences, 1))

    def line(self, name):
        pronouns, odd_starts = self.rates()
        return f"{pronouns:5.1f} {odd_starts:5.1f} % {self.words:7d} words  {name}"


def main(files):
    if not files:
        listed = subprocess.run(["git", "ls-files", "*.h", "*.hpp", "*.md"], check=True,
                                capture_output=True, text=True)
        counts = collections.defaultdict(Count)
        totals = {".md": Count(), ".h": Count()}
        for name in listed.stdout.splitlines():
            if LEFT_OUT.match(name):
                continue
            path = pathlib.Path(name)
            suffix = ".md" if path.suffix == ".md" else ".h"
            counts[path.parts[0] if len(path.parts) > 1 else "."].add(path)
            totals[suffix].add(path)
        print("pronouns per 100 words, odd starts")
        for folder, count in sorted(counts.items()):
            print(count.line(folder))
        print(totals[".h"].line("all headers"))
        print(totals[".md"].line("all pages"))
        bad = [total for total in totals.values()
               if total.rates()[0] > MOST_PRONOUNS or total.rates()[1] > MOST_ODD_STARTS]
        return 1 if bad else 0
    for name in files:
        count = Count()
        count.add(pathlib.Path(name))
        print(count.line(name))
    return 0


sys.exit(main(sys.argv[1:]))
