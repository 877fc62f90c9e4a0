// SPDX-License-Identifier: Apache-2.0
#include "tools/keel/run.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <stdexcept>
#include <utility>

#include "tools/local_job.h"

namespace keel::cli {
namespace {

struct RunOptions {
  LocalJob job;
  std::string hosts;
  std::string launch = kSshLaunch;
  std::string server;
  double timeout_s = 0;
  double grace_s = 5;
};

}  // namespace

void add_run_command(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("run", "Start a job of several processes, on this host or several");
  command->footer(
      "Each process finds KEEL_RANK, KEEL_WORLD, KEEL_LOCAL_RANK, KEEL_LOCAL_WORLD and\n"
      "KEEL_BOOTSTRAP in its environment, which keel_comm_init_env reads.\n"
      "The first process that fails is named, ends the job, and gives its exit code;\n"
      "124: not done in time; 127: the program cannot be started; 128 + a signal.\n"
      "Examples:\n"
      "  keel run -n 4 -- ./train --epochs 3\n"
      "  keel run --hosts node1:4,node2:4 -- ./train\n"
      "  keel run -n 8 --label --timeout 600 -- keel perf all_reduce -b 8 -e 64M -f 2");
  auto options = std::make_shared<RunOptions>();
  CLI::Option* const processes =
      command->add_option("-n,--processes", options->job.processes, "How many, 1 to 4096")
          ->check(CLI::Range(1, 4096));
  CLI::Option* const hosts =
      command
          ->add_option("--hosts", options->hosts,
                       "Hosts and their processes, a:2,b:2, instead of -n; rank 0 is on the first")
          ->type_name("HOST[:N],...");
  processes->excludes(hosts);
  command
      ->add_option("--launch", options->launch,
                   "How to start a process on a host: {host}, and {command} as words or\n"
                   "{shell} as one word for a shell")
      ->needs(hosts)
      ->capture_default_str();
  command
      ->add_option("--server", options->server,
                   "Address of the first host at which the ranks meet; default: its name")
      ->needs(hosts)
      ->type_name("HOST[:PORT]");
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
  command->add_flag("--keep-going", options->job.keep_going,
                    "Name a process that fails and let the others go on (keel_comm_shrink);\n"
                    "the exit code is 0 if one of them succeeds");
  command->add_flag("--label", options->job.label, "Write \"[rank] \" before each line of output");
  command->add_option("command", options->job.command, "The program and its arguments, after --")
      ->required()
      ->type_name("");
  command->callback([options, exit_code, hosts, processes] {
    const auto milliseconds = [](double seconds) {
      return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
    };
    options->job.timeout = milliseconds(options->timeout_s);
    options->job.grace = milliseconds(options->grace_s);
    if (*hosts) {
      HostLaunch launch;
      try {
        launch.hosts = parse_hosts(options->hosts);
      } catch (const std::invalid_argument& error) {
        throw CLI::ValidationError("--hosts", error.what());
      }
      launch.launch = options->launch;
      launch.server = server_address(options->server, launch.hosts);
      launch.secret = random_secret();
      options->job.processes = launch.processes();
      options->job.hosts = std::move(launch);
    } else if (!*processes) {
      throw CLI::RequiredError("-n (--processes) or --hosts");
    }
    *exit_code = run_local_job(options->job);
  });
}

}  // namespace keel::cli
