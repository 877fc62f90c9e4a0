# SPDX-License-Identifier: Apache-2.0
"""Builds a plugin with one edit in a scratch copy of the tree, and runs the suite on it."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BAD = ("fail", "crash", "timeout")
# Of one suite: its quick profile takes 60 s on two cores, and both may be busy. A mutant that makes
# every case hang is not waited for to the end.
RUN_SECONDS = 300
# How long a run goes on for a case that fails by a check, after one that crashed or hung.
TEST_TIMEOUT_SECONDS = 60
BUILD_SECONDS = 900
LIST_SECONDS = 60
PLUGINS = "lib/keel/plugins"  # in a build and in a prefix


def text(value):
    return value if isinstance(value, str) else "\n".join(value)


class Broken(Exception):
    """An edit that does not apply or build, or a run that says nothing."""


class NoSuchCase(Broken):
    """A run whose filter selects no case."""


def mirror(scratch):
    """Makes |scratch| equal to the tree, files that are the same left as they are, so that ninja
    builds no more than what changed since the last time."""
    known = set()
    for folder, folders, files in os.walk(ROOT):
        if pathlib.Path(folder) == ROOT:
            folders[:] = [each for each in folders if each not in (".git", "build")]
            files = [each for each in files if each != ".git"]
        to = scratch / pathlib.Path(folder).relative_to(ROOT)
        to.mkdir(parents=True, exist_ok=True)
        for name in files:
            source, copy = pathlib.Path(folder, name), to / name
            known.add(copy)
            if source.is_symlink():
                continue
            if not copy.exists() or copy.read_bytes() != source.read_bytes():
                shutil.copy(source, copy)
    for folder, folders, files in os.walk(scratch):
        if pathlib.Path(folder) == scratch:
            folders[:] = [each for each in folders if each != "build"]
        for name in files:
            if pathlib.Path(folder, name) not in known:
                pathlib.Path(folder, name).unlink()


def call(command, folder, seconds, environment=None):
    """Runs |command| in a process group of its own; (exit status, output), None if it took longer."""
    process = subprocess.Popen(command, cwd=folder, env=environment, start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               errors="replace")
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        end(process)
        return None, process.communicate()[0]


def has_ended(process, seconds):
    """Waits up to |seconds| for it."""
    try:
        process.wait(timeout=seconds)
        return True
    except subprocess.TimeoutExpired:
        return False


def end(process):
    """Ends the process and, by their death signal, its workers."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=5)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def options_of(name):
    """The backend, and the chip that it runs on."""
    return ["--backend", name, *(["--emulated"] if name == "cuda" else [])]


def operators(prefix, name):
    """Those that the backend in |prefix| has a kernel for, as "operator/dtypes"; None if it does
    not say."""
    try:
        answer = subprocess.run([str(prefix / "bin/keel"), "ops", "list", *options_of(name), "--json"],
                                env=dict(os.environ, KEEL_PLUGIN_PATH=str(prefix / PLUGINS)),
                                capture_output=True, timeout=LIST_SECONDS, check=True)
        return {f"{each['op']}/{each['dtype']}" for each in json.loads(answer.stdout)["ops"]
                if each["support"].get(name, {}).get("kernel")}
    except (subprocess.SubprocessError, ValueError, KeyError):
        return None  # the suite sees a crash or a refusal


class Lane:
    """A scratch copy, in which one mutant after another is made."""

    def __init__(self, folder, build, compiler):
        self.tree = folder / "tree"
        self.build = self.tree / "build"
        self.unedited = build
        # The program that tests, and what it loads: --emulated takes the folder beside its library.
        self.prefix = folder / "prefix"
        self.plugins = None  # where that program finds the plugins beside the one that it tests
        self.compiler = compiler
        self.is_configured = False
        self.operators_before = {}  # of a backend's name: those of the unedited plugin
        mirror(self.tree)
        self.build.mkdir(exist_ok=True)
        shutil.rmtree(self.prefix, ignore_errors=True)
        (self.prefix / "bin").mkdir(parents=True)
        shutil.copy(build / "bin/keel", self.prefix / "bin")
        shutil.copytree(build / "lib", self.prefix / "lib", symlinks=True,
                        ignore=lambda *_: {"keel", "CMakeFiles"})
        # Objects that another lane, or the build of the tree, has made are found again.
        self.environment = dict(os.environ, CCACHE_BASEDIR=str(self.tree), CCACHE_NOHASHDIR="1")

    def make(self, command, seconds=BUILD_SECONDS):
        status, output = call(command, self.build, seconds, self.environment)
        if status != 0:
            raise Broken("does not build:\n" + output[-3000:].strip())

    def build_sample(self, with_ccl):
        """Without CMake, which would configure the whole tree for four sources."""
        sample = "samples/out_of_tree_plugin"
        sources = [f"{sample}/{name}.cc" for name in ("chip", "ops", "tables")]
        if with_ccl:
            sources += [f"conformance/faulty/{name}.cc"
                        for name in ("plain_ccl", "plain_plugin", "ccl_none")]
        else:
            sources.append(f"{sample}/plugin.cc")
        cache = ["ccache"] if shutil.which("ccache") else []
        objects = []
        for source in sources:
            objects.append(source.replace("/", "_")[:-3] + ".o")
            self.make([*cache, self.compiler, "-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden",
                       "-w", f"-I{self.tree}", f"-I{self.tree / 'include'}", "-c",
                       str(self.tree / source), "-o", objects[-1]])
        self.make([self.compiler, "-shared", "-pthread", *objects, "-o", "libkeel_mutant.so",
                   f"-Wl,--version-script={self.tree / 'cmake/plugin.map'}"])
        self.plugins = self.unedited / PLUGINS
        return ["--plugin", str(self.build / "libkeel_mutant.so")]

    def build_backend(self, name):
        if not self.is_configured:
            self.make(["cmake", "-S", str(self.tree), "-B", str(self.build), "-G", "Ninja",
                       "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_CXX_COMPILER={self.compiler}",
                       "-DKEEL_BUILD_TESTS=OFF", "-DKEEL_BUILD_SAMPLES=OFF",
                       "-DKEEL_BUILD_BENCH=OFF"])
            self.is_configured = True
        targets = [f"keel_{name}"]
        if name == "cuda":
            targets.append("keel_simt_host")
        self.make(["ninja", *targets])
        # The mutant in the place of the plugin it is of, beside the CPU's, which the suite needs.
        shutil.rmtree(self.prefix / "lib/keel", ignore_errors=True)
        self.plugins = self.prefix / PLUGINS
        self.plugins.mkdir(parents=True)
        shutil.copy(self.unedited / PLUGINS / "libkeel_cpu.so", self.plugins)
        shutil.copy(self.build / PLUGINS / f"libkeel_{name}.so", self.plugins)
        if name == "cuda":
            # The emulated driver runs an image only by the library of kernels built with it: that
            # of an edited kernel is the lane's, since that of the unedited tree has other images.
            emulated = f"lib/keel/emulated/{name}"
            shutil.copytree(self.unedited / emulated, self.prefix / emulated, symlinks=True)
            shutil.copy(self.build / emulated / "libkeel_simt_host.so", self.prefix / emulated)
        return options_of(name)

    def build_target(self, target, with_ccl=False):
        """Builds the tree as it is; the options of `keel conform run` for it."""
        return self.build_sample(with_ccl) if target == "sample" else self.build_backend(target)

    def lost_operators(self, name):
        """Sorted: those that the plugin has and the mutant has not."""
        if name not in self.operators_before:
            self.operators_before[name] = operators(self.unedited, name)
        now = operators(self.prefix, name)
        return [] if now is None else sorted(self.operators_before[name] - now)

    def built(self, target, entry):
        """Applies and builds; the options of `keel conform run` for it."""
        path = self.tree / entry["file"]
        source = path.read_text()
        path.write_text(source.replace(text(entry["before"]), text(entry["after"])))
        try:
            return self.build_target(target, entry["file"].startswith("conformance/"))
        finally:
            path.write_text(source)

    def run(self, options, until_caught, variables):
        """Runs the suite; (cases that did not pass, whether it ended well)."""
        report = self.build / "report.json"
        report.unlink(missing_ok=True)
        printed = self.build / "printed.txt"
        command = [str(self.prefix / "bin/keel"), "conform", "run", *options, "--jobs", "1", "--json",
                   str(report)]
        with open(printed, "w") as output:
            process = subprocess.Popen(command, cwd=self.build, stdout=output,
                                       stderr=subprocess.STDOUT, start_new_session=True,
                                       env=dict(os.environ, KEEL_PLUGIN_PATH=str(self.plugins),
                                                **variables))
        began = time.monotonic()
        first = None
        read = None  # the report that |cases| is of; it has 2 MB in the end, and is new each second
        cases = []
        while not has_ended(process, 0.2):
            if until_caught:
                if read != stamp(report):
                    read = stamp(report)
                    cases = bad_cases(report)
                if any(outcome == "fail" for _, outcome, _ in cases):
                    break
                if cases and first is None:
                    first = time.monotonic()
            if (time.monotonic() - began > RUN_SECONDS or
                    (first is not None and time.monotonic() - first > TEST_TIMEOUT_SECONDS)):
                break
        is_over = process.poll() is not None
        if not is_over:
            end(process)
        cases = bad_cases(report)
        if not cases and not is_over:
            raise Broken(f"neither done nor caught after {RUN_SECONDS} s")
        if not cases and process.returncode not in (0, 1):
            last = printed.read_text(errors="replace").strip().splitlines()[-1:]
            if "--filter" in options and process.returncode == 2:
                raise NoSuchCase(" ".join(last))
            cases = [("loading", "crash" if process.returncode < 0 else "fail", " ".join(last))]
        return cases, is_over and process.returncode == 0


def stamp(path):
    try:
        status = path.stat()
        return status.st_ino, status.st_mtime_ns
    except FileNotFoundError:
        return None


def bad_cases(report):
    """(id, outcome, message) of those so far, in the order in which they ran."""
    try:
        results = json.loads(report.read_text())["results"]
    except (OSError, ValueError):
        return []
    return [(each["id"], each["outcome"], each["message"])
            for each in results if each["outcome"] in BAD]
