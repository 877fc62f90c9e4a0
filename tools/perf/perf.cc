// SPDX-License-Identifier: Apache-2.0
#include "tools/perf/perf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "tools/command.h"
#include "tools/local_job.h"
#include "tools/output_file.h"
#include "tools/perf/perf_job.h"
#include "tools/perf/perf_options.h"
#include "tools/perf/perf_peers.h"

namespace keel::cli {
namespace {

// Returns this command with the same arguments.
std::vector<std::string> own_command() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path));
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (length < 0 || text.empty()) throw std::runtime_error("--procs: /proc cannot be read");
  std::vector<std::string> command;
  for (size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) {
    command.emplace_back(text.c_str() + at);
  }
  command[0].assign(path, static_cast<size_t>(length));
  return command;
}

// Returns whether a launcher started this process; |*out| describes the launch.
bool find_launch(keel_launch_info* out) {
  const keel_status status = keel_launch_info_get(out);
  if (status == KEEL_NOT_FOUND) return false;
  check(status);
  return true;
}

// Returns whether to start --procs processes: not if a launcher started this process.
bool starts_processes(const PerfOptions& options) {
  if (options.processes == 1) return false;
  auto quiet = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
  quiet.backends = "";
  const Runtime runtime(quiet);  // shut down before this process forks
  auto launch = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
  if (find_launch(&launch)) return false;
  // Otherwise a process started by this command would start processes again, without end.
  if (std::getenv("KEEL_BOOTSTRAP") != nullptr) {
    throw std::runtime_error("KEEL_BOOTSTRAP is set, and no launcher's variables are found");
  }
  return true;
}

int run_beside_peers(const PerfOptions& options) {
  check_perf_options(options);
  check_perf_peers(options);
  {
    auto quiet = KEEL_STRUCT_INIT(keel_init_options, KEEL_STRUCT_INIT_OPTIONS);
    quiet.backends = "";
    const Runtime runtime(quiet);  // shut down before this process forks
    auto launch = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
    if (find_launch(&launch)) {
      throw UsageError(
          fmt::format("--peers starts its ranks itself, and {} has started this", launch.launcher));
    }
  }
  return run_perf_peers(options) ? 0 : 1;
}

int run(PerfOptions& options) {
  if (!options.peers.empty()) return run_beside_peers(options);
  if (starts_processes(options)) {
    fit_ranks_to_devices(&options);
    check_perf_options(options);
    const OutputFile output("--output_file", options.output_file);  // fails early if not writable
    LocalJob job;
    job.processes = options.processes;
    job.command = own_command();
    return run_local_job(job);
  }
  const Session session(options.plugins);
  auto launch = KEEL_STRUCT_INIT(keel_launch_info, KEEL_STRUCT_LAUNCH_INFO);
  uint32_t process = 0;
  if (find_launch(&launch)) {
    if (options.processes != 1 && options.processes != launch.world) {
      throw UsageError(fmt::format("--procs {}: {} has started {}", options.processes,
                                   launch.launcher, launch.world));
    }
    options.processes = launch.world;
    process = launch.rank;
    // Printed at once: the processes wait for one another, and the variables may belong to another
    // job.
    if (process == 0 && launch.world > 1) {
      print(fmt::format("# rank 0 of {} processes by the environment variables of {}\n",
                        launch.world, launch.launcher));
      std::fflush(stdout);
    }
  }
  fit_ranks_to_devices(&options);
  check_perf_options(options);
  return PerfJob(options, process).run() ? 0 : 1;
}

}  // namespace

void add_perf_command(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("perf", "Time collectives, and verify them");
  command->footer(
      "Options and columns are those of nccl-tests, of which there is a program an operation.\n"
      "Times are of the slowest thread. Exit code 1: a result was wrong.\n"
      "Operations: all_reduce, reduce, broadcast, all_gather, reduce_scatter, all_to_all,\n"
      "gather, scatter, send_recv, barrier, all\n"
      "Examples:\n"
      "  keel perf all_reduce -b 8 -e 64M -f 2 -g 4\n"
      "  keel perf all --procs 2 -d bfloat16 -b 1K -e 1M -f 4\n"
      "  keel perf all_reduce --devices cpu:0,vulkan:0 --explain\n"
      "  keel perf all_reduce --plugin build/libkeel_mychip.so --devices mychip:0,mychip:1\n"
      "  keel perf all_reduce --procs 4 -b 64K -e 16M -f 4 --peers openmpi,mpich,gloo\n"
      "  keel perf all --procs 4 --tune");
  auto options = std::make_shared<PerfOptions>();
  add_perf_options(*command, options);
  command->callback([options, exit_code] { *exit_code = run(*options); });
}

}  // namespace keel::cli
