// SPDX-License-Identifier: Apache-2.0
// keel_gpu_report: combines the results in a folder, written by the steps of a run on a GPU, into
// one report. Exit codes: 0, 1 for a failure, 2 for a mistake in the command line.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

#include "bench/gpu_report.h"
#include "bench/machine.h"
#include "tensorfile/replacement.h"

int main(int argc, char** argv) {
  constexpr int kFailure = 1;
  constexpr int kUsage = 2;
  CLI::App app("Makes one report of a run on a GPU", "keel_gpu_report");
  std::string folder;
  std::string json_path;
  std::string markdown_path;
  bool emulated = false;
  bool quick = false;
  bool unfinished = false;
  app.add_option("folder", folder, "Where the steps wrote to")->required();
  app.add_option("--json", json_path, "Where to write the report")->required();
  app.add_option("--markdown", markdown_path, "Where to write it as a table")->required();
  app.add_flag("--emulated", emulated, "Says that it was an emulated GPU");
  app.add_flag("--quick", quick, "Says that sizes were small");
  app.add_flag("--unfinished", unfinished, "Says that there are steps to come");
  try {
    app.parse(argc, argv);
    keel::bench::GpuRun run = keel::bench::read_gpu_run(folder);
    run.date = keel::bench::examine_machine().date;
    run.emulated |= emulated;
    run.quick = quick;
    if (unfinished) run.facts.emplace_back("unfinished", "the run was ended before its next step");
    keel::tensorfile::put_file(json_path, keel::bench::to_json(run));
    keel::tensorfile::put_file(markdown_path, keel::bench::to_markdown(run));
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;  // 0: --help
  } catch (const std::exception& error) {
    fmt::print(stderr, "keel_gpu_report: {}\n", error.what());
    return kFailure;
  }
}
