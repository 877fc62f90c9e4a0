// SPDX-License-Identifier: Apache-2.0
// The keel command. Exit codes: 0, 1 for a failure, 2 for a mistake in the command line.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <string>

#include "tools/command.h"
#include "tools/keel/compare.h"
#include "tools/keel/devices.h"
#include "tools/keel/flight.h"
#include "tools/keel/new_plugin.h"
#include "tools/keel/ops.h"
#include "tools/keel/ping.h"
#include "tools/keel/run.h"
#include "tools/keel/topo.h"
#include "tools/perf/perf.h"
#ifdef KEEL_CLI_CONFORM
#include "conformance/command.h"
#include "conformance/emulated_libraries.h"
#endif

namespace {

#ifdef KEEL_CLI_CONFORM
// Adds --emulated to a command, or to its subcommands.
void add_emulated_flag(CLI::App& command) {
  const auto below = command.get_subcommands({});
  for (CLI::App* each : below) add_emulated_flag(*each);
  if (!below.empty()) return;
  command.add_flag_callback(
      "--emulated",
      [] {
        std::string error;
        if (!keel::conformance::use_emulated_libraries(&error)) {
          throw keel::cli::UsageError(error);
        }
      },
      "With the vendors' libraries over the emulated chip");
}
#endif

int run(int argc, char** argv) {
  constexpr int kUsage = 2;
  CLI::App app("Keel: one interface over the chips of this machine", "keel");
  app.require_subcommand(1);
  app.footer("'keel COMMAND --help' shows examples.");
  int exit_code = 0;
  keel::cli::add_compare_command(app, &exit_code);
  keel::cli::add_devices_command(app);
  keel::cli::add_flight_command(app);
  keel::cli::add_new_plugin_command(app);
  keel::cli::add_ops_command(app);
  keel::cli::add_perf_command(app, &exit_code);
  keel::cli::add_ping_command(app);
  keel::cli::add_run_command(app, &exit_code);
  keel::cli::add_topo_command(app);
#ifdef KEEL_CLI_CONFORM
  for (const char* name : {"devices", "ops", "perf", "topo"}) {
    add_emulated_flag(*app.get_subcommand(name));
  }
  keel::conformance::add_conform_command(app, &exit_code);
#endif
  try {
    app.parse(argc, argv);  // runs the command
  } catch (const CLI::RequiredError& error) {
    // CLI11 reports only what is missing, even for a word that it could not match.
    for (const std::string& word : app.remaining(/*recurse=*/true)) {
      std::fprintf(stderr, "'%s' was not expected here\n", word.c_str());
    }
    app.exit(error);
    return kUsage;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // 0: --help
  } catch (const keel::cli::UsageError& error) {
    std::fprintf(stderr, "keel: %s\n", error.what());
    return kUsage;
  }
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kFailure = 1;
  try {
    const int exit_code = run(argc, argv);
    const bool flushed = std::fflush(stdout) == 0;
    if (flushed && std::ferror(stdout) == 0) return exit_code;  // checks earlier writes too
    std::perror("keel: standard output");
  } catch (const std::bad_alloc&) {
    std::fprintf(stderr, "keel: out of memory\n");
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "keel: %s: %s\n", error.path1().c_str(), error.code().message().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keel: %s\n", error.what());
  }
  return kFailure;
}
