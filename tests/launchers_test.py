#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The launchers' variables and the commands of docs/operations.md and docs/hosts.md, as a job of
two hosts of two ranks runs with them.

    tests/launchers_test.py --keel build/bin/keel --docs docs

The pages are read: a launcher, or a variable, that they name and that is unknown here fails the
test, and so does a job that the documented variables do not suffice for. The commands of torchrun
and Slurm are read for the size of the job, whose ranks then get the variables that the launcher
would give them. Open MPI, MPICH and torchrun start a job of two ranks themselves, where they are
installed; the test prints the others.
"""

import argparse
import os
import pathlib
import re
import shlex
import shutil
import socket
import subprocess
import sys

TIMEOUT = 60  # seconds of a job

# The programs that users call, for the printed line.
PROGRAMS = {"torchrun": "torchrun", "Open MPI": "mpirun.openmpi", "MPICH": "mpiexec.hydra",
            "Slurm": "srun"}

# How two ranks are started by those whose start needs no other service, and the rank's variable.
STARTS = {
    "torchrun": (["torchrun", "--no-python", "--nnodes", "1", "--nproc-per-node", "2",
                  "--master-addr", "127.0.0.1", "--master-port", "{port}"], "RANK"),
    "Open MPI": (["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
                  "-n", "2", "-x", "KEEL_SERVER"], "OMPI_COMM_WORLD_RANK"),
    "MPICH": (["mpiexec.hydra", "-n", "2"], "PMI_RANK"),
}


# How a command says the hosts, and the ranks of each.
COMMANDS = {"torchrun": ("torchrun", r"--nnodes (\d+)", r"--nproc-per-node (\d+)"),
            "srun": ("Slurm", r"--nodes (\d+)", r"--ntasks-per-node (\d+)")}


def values(rank, port, nodes, per_node):
    """Every variable that a launcher gives rank |rank| of |nodes| hosts of |per_node| ranks;
    |port|: a free one."""
    world = nodes * per_node
    local, node = rank % per_node, rank // per_node
    return {
        "KEEL_RANK": rank, "KEEL_WORLD": world, "KEEL_LOCAL_RANK": local,
        "KEEL_LOCAL_WORLD": per_node,
        "KEEL_BOOTSTRAP": f"launchers-{port}", "KEEL_SERVER": f"127.0.0.1:{port}",
        "RANK": rank, "WORLD_SIZE": world, "LOCAL_RANK": local, "LOCAL_WORLD_SIZE": per_node,
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": world,
        "OMPI_COMM_WORLD_LOCAL_RANK": local, "OMPI_COMM_WORLD_LOCAL_SIZE": per_node,
        "PMIX_NAMESPACE": port, "OMPI_MCA_ess_base_jobid": port,
        "PMI_RANK": rank, "PMI_SIZE": world, "MPI_LOCALRANKID": local, "MPI_LOCALNRANKS": per_node,
        "SLURM_PROCID": rank, "SLURM_STEP_NUM_TASKS": world, "SLURM_NTASKS": world,
        "SLURM_LOCALID": local, "SLURM_NODEID": node,
        "SLURM_STEP_TASKS_PER_NODE": f"{per_node}(x{nodes})",
        "SLURM_NTASKS_PER_NODE": per_node, "SLURM_JOB_ID": port, "SLURM_STEP_ID": 0,
        "SLURM_STEP_NODELIST": "localhost,other",
    }


def rows(page, heading):
    """The rows of the first table behind |heading|: lists of cells."""
    text = page.read_text().split(heading, 1)[1]
    found = []
    for line in text.splitlines():
        if line.startswith("|"):
            found.append([cell.strip() for cell in line.strip("|").split("|")])
        elif found:
            break
    return found[2:]  # without the head and the line below it


def variables_of(cell):
    """The variables that a cell names; of alternatives the first. `_SIZE` shares the start of the
    name before it."""
    names, before = [], ""
    for match in re.finditer(r"(or )?`([A-Z_]+)`", cell):
        alternative, name = match.groups()
        if name.startswith("_"):
            # OMPI_COMM_WORLD_RANK, _LOCAL_SIZE
            name = before.rsplit("_", 1)[0] + name
        else:
            before = name
        if not alternative:
            names.append(name)
    return names


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def environment(keel):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "KEEL_PLUGIN_PATH")
            if name in os.environ}
    return {**kept, "PATH": f"{keel.parent}:{kept.get('PATH', '')}", "KEEL_BACKENDS": "cpu",
            "KEEL_COLLECTIVE_TABLE": "builtin"}


PERF = ["perf", "all_reduce", "-b", "4K", "-e", "4K", "-n", "1", "-w", "1", "--explain"]


def run_launcher(keel, names, nodes=2, per_node=2):
    """Runs a job whose ranks have the variables |names|. Returns what is wrong, or None."""
    port = free_port()
    known = values(0, port, nodes, per_node)
    unknown = [each for each in names if each not in known]
    if unknown:
        return f"the pages name {', '.join(unknown)}, which this test does not know"
    processes = []
    for rank in range(nodes * per_node):
        known = values(rank, port, nodes, per_node)
        given = {each: str(known[each]) for each in names}
        host = f"host{rank // per_node}"
        processes.append(subprocess.Popen(
            [keel, *PERF], env={**environment(keel), "KEEL_HOST_ID": host, **given},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True))
    try:
        outputs = [each.communicate(timeout=TIMEOUT)[0] for each in processes]
    except subprocess.TimeoutExpired:
        return "the ranks do not meet"
    finally:
        for each in processes:
            each.kill()
    for rank, (process, output) in enumerate(zip(processes, outputs)):
        if process.returncode != 0:
            return f"rank {rank} exits with {process.returncode}: {output[-600:]}"
    if not re.search(r'"path": "hosts"', outputs[0]):
        return f"rank 0 shows no hosts: {outputs[0][-600:]}"
    return None


def start_launcher(keel, name):
    """Lets the launcher itself start two ranks, each a host. Returns what is wrong, or None."""
    words, rank = STARTS[name]
    command = f'KEEL_HOST_ID=host${rank} exec "$0" "$@"'
    # torchrun has a server of its own at MASTER_PORT.
    words = [word.format(port=free_port()) for word in words]
    variables = {**environment(keel), "KEEL_SERVER": f"127.0.0.1:{free_port()}"}
    done = subprocess.run([*words, "sh", "-c", command, keel, *PERF], env=variables,
                          capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0 or '"path": "hosts"' not in done.stdout:
        return f"exits with {done.returncode}: {done.stdout[-300:]} {done.stderr[-600:]}"
    return None


def run_command(keel, line):
    """Runs the page's |line| of `keel run`, with another program. Returns what is wrong, or None."""
    words = shlex.split(line)
    words[words.index("--") + 1:] = [str(keel), *PERF]
    done = subprocess.run([keel, *words[1:]], env=environment(keel), capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)
    if done.returncode != 0 or '"path": "hosts"' not in done.stdout:
        return f"exits with {done.returncode}: {done.stdout[-300:]} {done.stderr[-600:]}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keel", type=pathlib.Path, required=True)
    parser.add_argument("--docs", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    keel = arguments.keel.resolve()
    servers = {}
    for name, address in rows(arguments.docs / "hosts.md", "the server tells all ranks"):
        for each in name.split(", "):
            servers[each] = variables_of(re.sub(r"`mpirun -x (\w+)`", "", address))
    problems, tried, variables = [], 0, {}
    for name, cell in rows(arguments.docs / "operations.md", "## Launchers"):
        server = servers.get(name.strip("`"), servers.get(f"{name.strip('`')} --hosts"))
        if name == "`keel run`":
            server = ["KEEL_SERVER"]
        if server is None:
            problems.append(f"{name}: hosts.md does not say where its ranks meet")
            continue
        names = [*variables_of(cell), *server]
        variables[name] = dict.fromkeys(names)
        problem = run_launcher(keel, variables[name])
        print(f"{name}: {problem or 'runs with its variables'}", flush=True)
        problems += [f"{name}: {problem}"] if problem else []
        tried += 1
        program = PROGRAMS.get(name)
        if program is None:
            continue
        if name not in STARTS or not shutil.which(program):
            why = "wants its services" if shutil.which(program) else "is not installed"
            print(f"{name}: not started: {program} {why}", flush=True)
            continue
        problem = start_launcher(keel, name)
        print(f"{name}: {problem or 'starts two ranks'}", flush=True)
        problems += [f"{program}: {problem}"] if problem else []
    text = (arguments.docs / "hosts.md").read_text()
    lines = [line for line in re.findall(r"^keel run .*$", text, re.MULTILINE)
             if "KEEL_HOST_ID={host}" in line]
    for line in lines:
        problem = run_command(keel, line)
        print(f"{line}: {problem or 'runs'}", flush=True)
        problems += [f"{line}: {problem}"] if problem else []
    for line in re.findall(r"^(?:torchrun|srun) .*$", text, re.MULTILINE):
        name, nodes, per_node = COMMANDS[line.split()[0]]
        sizes = [int(re.search(option, line).group(1)) for option in (nodes, per_node)]
        problem = run_launcher(keel, variables[name], *sizes)
        print(f"{line}: {problem or f'{sizes[0]} hosts of {sizes[1]} ranks meet'}", flush=True)
        problems += [f"{line}: {problem}"] if problem else []
        lines.append(line)
    if tried < 5 or len(lines) < 3:
        problems.append(f"{tried} launchers and {len(lines)} commands were found in the pages")
    for problem in problems:
        print(f"failed: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
