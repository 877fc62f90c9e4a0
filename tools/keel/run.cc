// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/run.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "tools/local_job.h"

namespace keel::cli {
namespace {

struct RunOptions {
  LocalJob job;
  double timeout_s = 0;
  double grace_s = 5;
};

}  // namespace

void add_run_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("run", "Start a job of several processes on this host");
  command->footer(
      "Each process finds KEEL_RANK, KEEL_WORLD, KEEL_LOCAL_RANK, KEEL_LOCAL_WORLD and\n"
      "KEEL_BOOTSTRAP in its environment, which keel_comm_init_env reads.\n"
      "The first process that fails is named, ends the job, and gives its exit code;\n"
      "124: not done in time; 127: the program cannot be started; 128 + a signal.\n"
      "Examples:\n"
      "  keel run -n 4 -- ./train --epochs 3\n"
      "  keel run -n 8 --label --timeout 600 -- keel perf all_reduce -b 8 -e 64M -f 2");
  auto options = std::make_shared<RunOptions>();
  command->add_option("-n,--processes", options->job.processes, "How many, 1 to 4096")
      ->required()
      ->check(CLI::Range(1, 4096));
  command->add_option("--timeout", options->timeout_s, "End the job after this long")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.001, 1e8));
  command->add_option("--grace", options->grace_s, "From SIGTERM to SIGKILL")
      ->type_name("SECONDS")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 1e8));
  command->add_flag("--bind", options->job.bind,
                    "Bind each process to an even share of the cores; of more processes than\n"
                    "cores, neighbours to one");
  command->add_flag("--label", options->job.label, "Write \"[rank] \" before each line of output");
  command->add_option("command", options->job.command, "The program and its arguments, after --")
      ->required()
      ->type_name("");
  command->callback([options, exit_code] {
    const auto milliseconds = [](double seconds) {
      return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    };
    options->job.timeout = milliseconds(options->timeout_s);
    options->job.grace = milliseconds(options->grace_s);
    *exit_code = run_local_job(options->job);
  });
}

}  // namespace keel::cli
