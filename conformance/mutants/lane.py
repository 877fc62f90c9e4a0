# SPDX-License-Identifier: Apache-2.0
"""Builds a plugin with one edit in a scratch copy of the tree, and runs the suite on it."""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import threading
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
PR_SET_CHILD_SUBREAPER = 36  # of <sys/prctl.h>
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


class Processes:
    """The processes of all lanes. A mutant may leave one in a session of its own, which no signal
    to its runner's group reaches, and which would run beside the mutants after it."""

    def __init__(self):
        self.lock = threading.Lock()
        self.running = set()  # ids

    def start(self, command, **arguments):
        """A process in a group of its own; forget() it when it has been waited for."""
        with self.lock:
            # An orphan becomes a child of this process.
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            process = subprocess.Popen(command, start_new_session=True, **arguments)
            self.running.add(process.pid)
            return process

    def forget(self, process):
        """Ends all orphans too, those of other lanes included."""
        with self.lock:
            self.running.discard(process.pid)
            # The children of an orphan that was ended are orphans.
            while orphans := children() - self.running:
                for pid in orphans:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)


PROCESSES = Processes()


def children():
    """Ids of the children of this process, ended ones that were not waited for included."""
    found = set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            # "PID (NAME) STATE PARENT ...", where NAME may contain any character.
            parent = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            continue  # it has ended
        if int(parent) == os.getpid():
            found.add(int(folder.name))
    return found


def call(command, folder, seconds, environment=None, errors=subprocess.STDOUT):
    """Runs |command|; (exit status, output), None if it took longer. |errors|: where its standard
    error goes."""
    process = PROCESSES.start(command, cwd=folder, env=environment, stdout=subprocess.PIPE,
                              stderr=errors, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        end(process)
        PROCESSES.forget(process)  # an orphan may hold the pipe open
        return None, process.communicate()[0]
    finally:
        PROCESSES.forget(process)


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
        status, answer = call([str(prefix / "bin/keel"), "ops", "list", *options_of(name), "--json"],
                              prefix, LIST_SECONDS,
                              dict(os.environ, KEEL_PLUGIN_PATH=str(prefix / PLUGINS)),
                              subprocess.DEVNULL)
        if status != 0:
            return None
        return {f"{each['op']}/{each['dtype']}" for each in json.loads(answer)["ops"]
                if each["support"].get(name, {}).get("kernel")}
    except (ValueError, KeyError):
        return None  # the suite sees a crash or a refusal


def with_ccl(entry):
    """Whether |entry|, of the sample plugin, is of that with a library of collectives."""
    return entry["file"].startswith("conformance/")


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
        self.samples = {}  # of with_ccl: the options for the unedited sample plugin
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

    def build_sample(self, with_ccl, name="libkeel_mutant.so"):
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
        self.make([self.compiler, "-shared", "-pthread", *objects, "-o", name,
                   f"-Wl,--version-script={self.tree / 'cmake/plugin.map'}"])
        self.plugins = self.unedited / PLUGINS
        return ["--plugin", str(self.build / name)]

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
        if name == "vulkan":
            failing = "lib/keel/failing"
            shutil.copytree(self.unedited / failing, self.prefix / failing)
        return options_of(name)

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
            if target == "sample":
                return self.build_sample(with_ccl(entry))
            return self.build_backend(target)
        finally:
            path.write_text(source)

    def run(self, options, until_caught, variables, known=frozenset()):
        """Runs the suite; (cases that did not pass, whether it ended well). |known|: cases that fail
        on the unedited plugin, of which neither speaks."""
        return self.run_in(self.prefix, self.plugins, options, until_caught, variables, known)

    def passed(self):
        """The cases that passed in the last run."""
        return {each["id"] for each in results_of(self.build / "report.json")
                if each["outcome"] == "pass"}

    def run_unedited(self, target, entry, only=()):
        """The cases that do not pass on the plugin before |entry| edits it, as run() returns them.
        |only|: options that choose among the cases."""
        if target != "sample":
            options = options_of(target)
        elif with_ccl(entry) in self.samples:
            options = self.samples[with_ccl(entry)]
        else:
            options = self.build_sample(with_ccl(entry), f"libkeel_unedited{with_ccl(entry):d}.so")
            self.samples[with_ccl(entry)] = options
        cases, _ = self.run_in(self.unedited, self.unedited / PLUGINS, [*options, *only], False,
                               entry.get("environment", {}), frozenset())
        return cases

    def run_in(self, prefix, plugins, options, until_caught, variables, known):
        variables = {name: value.replace("{prefix}", str(prefix))
                     for name, value in variables.items()}
        report = self.build / "report.json"
        report.unlink(missing_ok=True)
        printed = self.build / "printed.txt"
        command = [str(prefix / "bin/keel"), "conform", "run", *options, "--jobs", "1", "--json",
                   str(report)]
        with open(printed, "w") as output:
            process = PROCESSES.start(command, cwd=self.build, stdout=output,
                                      stderr=subprocess.STDOUT,
                                      env=dict(os.environ, KEEL_PLUGIN_PATH=str(plugins),
                                               **variables))
        began = time.monotonic()
        first = None
        read = None  # the report that |cases| is of; it has 2 MB in the end, and is new each second
        cases = []
        while not has_ended(process, 0.2):
            if until_caught:
                if read != stamp(report):
                    read = stamp(report)
                    cases = bad_cases(report, known)
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
        PROCESSES.forget(process)
        cases = bad_cases(report, known)
        if not is_over and not (cases and until_caught):
            raise Broken(f"neither done nor caught after {RUN_SECONDS} s")
        if not cases and process.returncode not in (0, 1):
            last = printed.read_text(errors="replace").strip().splitlines()[-1:]
            if "--filter" in options and process.returncode == 2:
                raise NoSuchCase(" ".join(last))
            cases = [("loading", "crash" if process.returncode < 0 else "fail", " ".join(last))]
        # The status is 1 where a known case alone has failed.
        is_known = process.returncode == 1 and not cases and bad_cases(report, frozenset())
        return cases, is_over and (process.returncode == 0 or bool(is_known))


def stamp(path):
    try:
        status = path.stat()
        return status.st_ino, status.st_mtime_ns
    except FileNotFoundError:
        return None


def results_of(report):
    """Those so far, in the order in which they ran."""
    try:
        return json.loads(report.read_text())["results"]
    except (OSError, ValueError):
        return []


def bad_cases(report, known):
    """(id, outcome, message) of those so far, in the order in which they ran, without |known|."""
    return [(each["id"], each["outcome"], each["message"])
            for each in results_of(report) if each["outcome"] in BAD and each["id"] not in known]
