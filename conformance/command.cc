// SPDX-License-Identifier: Apache-2.0
#include "conformance/command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "conformance/here.h"
#include "conformance/perf_command.h"
#include "conformance/plan.h"
#include "conformance/protocol.h"
#include "conformance/session.h"
#include "conformance/sharer.h"
#include "conformance/slot_probe.h"
#include "conformance/support_table.h"
#include "conformance/worker.h"

namespace keel::conformance {

namespace {

// Returns the arguments of this process, without the program name.
std::vector<std::string> command_line() {
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (!words.empty()) words.erase(words.begin());
  return words;
}

void add_target_options(CLI::App& command, SessionOptions* options) {
  RunSettings& settings = options->settings;
  command.add_option("--backend", settings.choice.backend, "a plugin in Keel's folder, by name")
      ->type_name("NAME");
  command.add_option("--plugin", settings.choice.plugin, "a plugin file")->type_name("FILE");
  command.add_flag("--emulated", settings.choice.emulated,
                   "with the vendor's libraries over the emulated chip");
  command.add_option("--device", settings.choice.ordinal, "which of the backend's devices (0)")
      ->type_name("ORDINAL");
  command
      .add_option("--kernels", settings.choice.kernels,
                  "a folder with kernels.json: binaries of the suite's kernels for a format that "
                  "the suite has none in")
      ->type_name("FOLDER");
  command.add_option("--level", options->levels, "a level; may be given again (all)")
      ->type_name("LEVEL")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--filter", options->filter, "only cases whose id fits the glob")
      ->type_name("GLOB");
  command
      .add_option("--profile", options->profile, "quick: small shapes; full: everything (quick)")
      ->check(CLI::IsMember({"quick", "full"}));
}

void add_run(CLI::App& conform, int* exit_code) {
  CLI::App& run = *conform.add_subcommand("run", "Run the cases of a plugin");
  const auto options = std::make_shared<SessionOptions>();
  add_target_options(run, options.get());
  run.add_option("--seed", options->settings.seed, "of all inputs (42)")->type_name("N");
  const CLI::Option* const timeout =
      run.add_option("--timeout", options->settings.timeout_seconds,
                     "seconds after which a case is killed (20; up to 60 on a machine with more "
                     "than two busy threads a core)")
          ->type_name("S")
          ->check(CLI::Range(1, 86400));
  run.add_option("--jobs", options->settings.jobs,
                 "workers that run operators side by side (one a core where the device computes on "
                 "the host, else 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  run.add_option("--within", options->within_seconds,
                 "seconds after which no case is begun: the report has those before, and the run "
                 "is no pass")
      ->type_name("S")
      ->check(CLI::Range(1, 86400));
  run.add_option("--every", options->every,
                 "a sample: the first of every N cases of each level, which certifies nothing (1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000));
  run.add_flag("--here", options->here,
               "in this process, with what the plugin prints seen at once; certifies nothing");
  const auto gdb = std::make_shared<bool>(false);
  run.add_flag("--gdb", *gdb, "--here under gdb, which stops in the plugin");
  run.add_option(
         "--rerun-failed", options->rerun_failed,
         "only the cases that failed in a report written by --json, with its seed, profile, "
         "timeout and device; all of them if the plugin did not load")
      ->type_name("FILE");
  run.add_flag("--fail-fast", options->fail_fast, "begin no case after one has failed");
  run.add_option("--json", options->json_file, "write the report as JSON")->type_name("FILE");
  run.add_option("--junit", options->junit_file, "write the report as JUnit XML")
      ->type_name("FILE");
  run.add_option("--certificate", options->certificate_file, "write the certificate")
      ->type_name("FILE");
  run.add_option("--waivers", options->waivers_file, "known failures to let pass for a while")
      ->type_name("FILE");
  run.callback([options, timeout, gdb, exit_code, &run] {
    if (timeout->count() == 0) options->settings.timeout_seconds = default_timeout_seconds();
    std::string error;
    if (!options->rerun_failed.empty() &&
        !take_from_report([&](const char* option) { return run.count(option) != 0; }, options.get(),
                          &error)) {
      fmt::print(stderr, "keel conform: {}\n", error);
      *exit_code = kExitUsage;
      return;
    }
    *exit_code = *gdb ? start_debugger(command_line()) : run_session(*options, nullptr);
  });
}

void add_list(CLI::App& conform, int* exit_code) {
  CLI::App& list = *conform.add_subcommand("list", "List the cases for a plugin");
  const auto options = std::make_shared<SessionOptions>();
  add_target_options(list, options.get());
  list.callback([options, exit_code] { *exit_code = list_session(*options); });
}

void add_verify(CLI::App& conform, int* exit_code) {
  CLI::App& verify = *conform.add_subcommand("verify", "Check a certificate and its plugin file");
  const auto file = std::make_shared<std::string>();
  const auto rerun = std::make_shared<bool>(false);
  verify.add_option("certificate", *file, "the certificate")->required()->type_name("FILE");
  verify.add_flag("--rerun", *rerun, "run its levels again");
  verify.callback([file, rerun, exit_code] { *exit_code = verify_session(*file, *rerun); });
}

}  // namespace

void add_conform_command(CLI::App& app, int* exit_code) {
  CLI::App& conform = *app.add_subcommand("conform", "Test whether a plugin does what it claims");
  conform.require_subcommand(1);
  conform.footer(
      "Examples:\n"
      "  keel conform run --backend cpu\n"
      "  keel conform run --plugin build/libkeel_mychip.so --level core,async --json report.json\n"
      "  keel conform run --backend vulkan --filter 'ops/matmul/*' --seed 7\n"
      "  keel conform run --backend cuda --emulated\n"
      "  keel conform run --plugin build/libkeel_mychip.so --level kernels --kernels "
      "mychip_kernels\n"
      "  keel conform list --backend cpu --level memory\n"
      "  keel conform verify certificate.json");
  add_run(conform, exit_code);
  add_list(conform, exit_code);
  add_verify(conform, exit_code);
  add_perf_command(conform, exit_code);
  CLI::App& table =
      *conform.add_subcommand("table", "Print what is supported where, from JSON reports");
  const auto files = std::make_shared<std::vector<std::string>>();
  table.add_option("files", *files, "of conform run --json")->type_name("FILE")->required();
  const auto compiled = std::make_shared<std::string>();
  table
      .add_option("--compiled", *compiled,
                  "Lines \"BACKEND: TARGETS\" of what kernels are compiled for")
      ->type_name("FILE");
  table.footer(
      "Example:\n"
      "  keel conform table --compiled build/compiled_kernels.txt cpu.json vulkan.json");
  table.callback(
      [files, compiled, exit_code] { *exit_code = print_support_table(*files, *compiled); });
  CLI::App& worker = *app.add_subcommand(kWorkerCommand);
  worker.group("");  // not in the help
  worker.callback([exit_code] { *exit_code = worker_main(); });
  CLI::App& sharer = *app.add_subcommand(kSharerCommand);
  sharer.group("");
  sharer.callback([exit_code] { *exit_code = sharer_main(); });
  CLI::App& probe = *app.add_subcommand(kSlotProbeCommand);
  probe.group("");
  const auto probed = std::make_shared<std::string>();
  probe.add_option("plugin", *probed)->required();
  probe.callback([probed, exit_code] { *exit_code = slot_probe_main(*probed); });
}

}  // namespace keel::conformance
