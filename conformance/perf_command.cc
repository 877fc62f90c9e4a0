// SPDX-License-Identifier: Apache-2.0
#include "conformance/perf_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>

#include "base/printable.h"
#include "conformance/emulated_libraries.h"
#include "conformance/harness.h"
#include "conformance/kernel_binaries.h"
#include "conformance/levels.h"
#include "conformance/perf_figures.h"
#include "conformance/session.h"
#include "conformance/slot_probe.h"
#include "tensorfile/replacement.h"

namespace keel::conformance {

namespace {

constexpr uint64_t kMiB = 1 << 20;
constexpr uint32_t kTimeoutSeconds = 80;  // each wait may take a quarter

struct PerfOptions {
  PluginChoice choice;
  uint32_t mebibytes = 64;
  PerfSettings settings;
  std::string json_file;
};

struct PerfReport {
  Target target;
  PerfFigures figures;
  double seconds = 0;  // duration of the measurement
};

int complain(const std::string& text, int exit_code) {
  fmt::print(stderr, "keel conform perf: {}\n", text);
  return exit_code;
}

// Makes the path of the plugin file absolute, as keel_plugin_load requires.
bool resolve(PluginChoice* choice, std::string* error) {
  if (choice->backend.empty() == choice->plugin.empty()) {
    *error = "one of --backend and --plugin says what to measure";
    return false;
  }
  if (choice->emulated && !use_emulated_libraries(error)) return false;
  if (!choice->kernels.empty() && !use_kernel_folder(choice->kernels, error)) return false;
  if (choice->plugin.empty()) return true;
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::canonical(choice->plugin, failed);
  if (failed) {
    *error = fmt::format("--plugin: there is no file {}", printable(choice->plugin));
    return false;
  }
  choice->plugin = path.string();
  return true;
}

std::string value_text(double value, PerfUnit unit) {
  return fmt::format("{:.{}f} {}", value, value < 10 ? 2 : value < 100 ? 1 : 0, unit_text(unit));
}

// Formats "1.4 x" for a latency, "62 %" for a rate.
std::string ratio_text(const PerfFigure& figure) {
  return figure.unit == PerfUnit::kMicroseconds ? fmt::format("{:.1f} x", figure.ratio())
                                                : fmt::format("{:.0f} %", 100 * figure.ratio());
}

void print_report(const PerfReport& report) {
  const Target& target = report.target;
  fmt::print("{} ({}), plugin {}\n", printable(target.device), printable(target.device_name),
             printable(target.path));
  fmt::print("capabilities: {}\n\n", capability_text(target.capabilities));
  fmt::print("{:<32} {:>14} {:>14}  {:<28} {:>7}\n", "figure", "measured", "roof", "", "ratio");
  for (const PerfFigure& each : report.figures.figures) {
    fmt::print("{:<32} {:>14}", each.name, value_text(each.value, each.unit));
    if (each.has_roof()) {
      fmt::print(" {:>14}  {:<28} {:>7}", value_text(each.roof_value, each.unit), each.roof,
                 ratio_text(each));
    }
    fmt::print("\n");
  }
  for (const PerfLeftOut& each : report.figures.left_out) {
    fmt::print("{:<32} left out: {}\n", each.name, each.reason);
  }
  for (const PerfFigure& each : report.figures.figures) {
    if (each.hint.empty()) continue;
    fmt::print("\n{}, {} of {}:\n  {}\n", each.name, ratio_text(each), each.roof, each.hint);
  }
  fmt::print("\n{:.1f} s. docs/fast-plugin.md explains each figure.\n", report.seconds);
}

nlohmann::ordered_json json_of(const PerfReport& report, const PerfOptions& options) {
  using Json = nlohmann::ordered_json;
  const Target& target = report.target;
  Json figures = Json::array();
  for (const PerfFigure& each : report.figures.figures) {
    Json figure = {{"name", each.name},   {"unit", unit_text(each.unit)},
                   {"value", each.value}, {"bytes", each.bytes},
                   {"roof", nullptr},     {"hint", each.hint}};
    if (each.has_roof()) {
      figure["roof"] = {{"name", each.roof}, {"value", each.roof_value}, {"ratio", each.ratio()}};
    }
    figures.push_back(std::move(figure));
  }
  Json left_out = Json::array();
  for (const PerfLeftOut& each : report.figures.left_out) {
    left_out.push_back({{"name", each.name}, {"reason", each.reason}});
  }
  return {{"format", 1},
          {"keel", target.keel_version},
          {"plugin", target.path},
          {"emulated", options.choice.emulated},
          {"device", target.device},
          {"device_name", target.device_name},
          {"driver", target.driver},
          {"capabilities", capability_names(target.capabilities)},
          {"most_bytes", options.settings.bytes},
          {"seconds", report.seconds},
          {"figures", std::move(figures)},
          {"left_out", std::move(left_out)}};
}

int run_perf(PerfOptions options) {
  std::string error;
  if (!resolve(&options.choice, &error)) return complain(error, kExitUsage);
  if (!options.json_file.empty()) {
    try {
      tensorfile::check_put_file(options.json_file);
    } catch (const tensorfile::FileError& failure) {
      return complain(failure.what(), kExitUsage);
    }
  }
  options.settings.bytes = options.mebibytes * kMiB;
  const auto start = std::chrono::steady_clock::now();
  Environment environment;
  bool usage = false;
  if (!start_environment(options.choice, kTimeoutSeconds, &environment, &error, &usage)) {
    return complain(error, usage ? kExitUsage : kExitFailed);
  }
  if (!environment.target.has_device()) {
    return complain(fmt::format("{} has no device: {}", environment.target.backend,
                                printable(environment.target.no_device)),
                    kExitFailed);
  }
  options.settings.has_event_wait = has_event_wait(environment.target.path);
  PerfReport report;
  report.target = environment.target;
  try {
    report.figures = measure_figures(environment, options.settings);
  } catch (const CaseFailure& failure) {
    return complain(fmt::format("{}: {}", environment.target.device, failure.what()), kExitFailed);
  }
  keel_shutdown();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  print_report(report);
  if (options.json_file.empty()) return 0;
  try {
    tensorfile::put_file(
        options.json_file,
        json_of(report, options).dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
            "\n");
  } catch (const tensorfile::FileError& failure) {
    return complain(failure.what(), kExitFailed);
  }
  return 0;
}

}  // namespace

void add_perf_command(CLI::App& conform, int* exit_code) {
  CLI::App& perf =
      *conform.add_subcommand("perf", "Measure a plugin beside what the machine can do");
  const auto options = std::make_shared<PerfOptions>();
  perf.add_option("--backend", options->choice.backend, "a plugin in Keel's folder, by name")
      ->type_name("NAME");
  perf.add_option("--plugin", options->choice.plugin, "a plugin file")->type_name("FILE");
  perf.add_flag("--emulated", options->choice.emulated,
                "with the vendor's libraries over the emulated chip, whose speed says nothing of "
                "the chip's");
  perf.add_option("--device", options->choice.ordinal, "which of the backend's devices (0)")
      ->type_name("ORDINAL");
  perf.add_option("--kernels", options->choice.kernels,
                  "a folder with kernels.json, as of conform run, for launches")
      ->type_name("FOLDER");
  perf.add_option("--mib", options->mebibytes,
                  "most MiB of a copy, fill or operator, less where the device is slow (64)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  perf.add_option("--seconds", options->settings.seconds, "that all figures take, about (10)")
      ->type_name("S")
      ->check(CLI::Range(0.1, 600.0));
  perf.add_option("--json", options->json_file, "write the figures as JSON")->type_name("FILE");
  perf.footer(
      "Examples:\n"
      "  keel conform perf --plugin build/libkeel_mychip.so\n"
      "  keel conform perf --backend vulkan --mib 16 --json vulkan-perf.json");
  perf.callback([options, exit_code] { *exit_code = run_perf(*options); });
}

}  // namespace keel::conformance
