// SPDX-License-Identifier: Apache-2.0
#include "conformance/support_table.h"

#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/json_value.h"
#include "base/printable.h"
#include "base/strict_json.h"
#include "conformance/emulated_libraries.h"
#include "conformance/levels.h"
#include "conformance/report.h"
#include "conformance/text_file.h"

namespace keel::conformance {

namespace {

using Json = nlohmann::json;

std::string cell(const JsonValue& level) {
  const JsonValue counts = level.at("counts");
  const uint64_t passed = counts.at("pass").count<uint32_t>();
  uint64_t failed = 0;
  for (const char* outcome : {"fail", "crash", "timeout"}) {
    failed += counts.at(outcome).count<uint32_t>();
  }
  if (passed + failed == 0) return "-";
  std::string text = std::to_string(passed);
  if (failed != 0) text += " of " + std::to_string(passed + failed);
  return level.at("certified").boolean() ? "**" + text + "**" : text;
}

// Returns how the passed operators were computed: by a real chip; on the emulated chip from the
// backend's own kernel source; or by the emulator's replacement of a vendor library.
std::string proof(const JsonValue& report) {
  if (report.at("target").at("device_name").text().empty()) return "-";
  if (!report.has("emulated") || !report.at("emulated").boolean()) return "real";
  uint64_t passed = 0;
  uint64_t marshalled = 0;
  for (const JsonValue& result : report.at("results").elements()) {
    if (result.at("outcome").text() != "pass") continue;
    if (!result.at("id").text().starts_with("ops/")) continue;
    ++passed;
    if (result.at("message").text().starts_with(kMarshalling)) ++marshalled;
  }
  if (passed == 0) return "emulated";
  if (marshalled == 0) return "own source emulated";
  if (marshalled == passed) return "marshalling only";
  return "own source emulated, " + std::to_string(marshalled) + " of " + std::to_string(passed) +
         " operators' cases marshalling only";
}

// Targets of each backend's compiled kernels, by backend.
using CompiledKernels = std::map<std::string, std::string>;

CompiledKernels parse_compiled(const std::string& text) {
  CompiledKernels compiled;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (colon != std::string::npos) compiled[line.substr(0, colon)] = line.substr(colon + 2);
  }
  return compiled;
}

std::string row(const JsonValue& report, const CompiledKernels& compiled) {
  const JsonValue target = report.at("target");
  const std::string device = target.at("device_name").text();
  const std::string backend = target.at("backend").text();
  const auto kernels = compiled.find(backend);
  std::string text = "| " + backend + " | " + (device.empty() ? "none" : device) + " | " +
                     (kernels == compiled.end() ? "-" : kernels->second) + " | " + proof(report) +
                     " |";
  for (const JsonValue& level : report.at("levels").elements()) text += " " + cell(level) + " |";
  return text + " " + report.at("date").text() + " |\n";
}

// Throws JsonError with the problem of |file|.
Json read_report(const std::string& file) {
  std::string text;
  if (!read_file(file, &text)) throw JsonError("cannot be read");
  Json report;
  std::string error;
  if (!parse_json(text, &report, &error)) throw JsonError("not a report: " + error);
  if (!report.is_object() || report.value("format", Json()) != Report::kFormat) {
    throw JsonError("not a report of format " + std::to_string(Report::kFormat));
  }
  return report;
}

}  // namespace

int print_support_table(const std::vector<std::string>& files, const std::string& compiled) {
  std::string compiled_text;
  if (!compiled.empty() && !read_file(compiled, &compiled_text)) {
    std::cerr << printable(compiled) << ": cannot be read\n";
    return 2;
  }
  const CompiledKernels compiled_kernels = parse_compiled(compiled_text);
  std::string head;
  std::string rule;
  std::string rows;
  for (const std::string& file : files) {
    try {
      const Json json = read_report(file);
      const JsonValue report(json);
      if (head.empty()) {
        head = "| backend | device | compiles for | proof |";
        rule = "|---|---|---|---|";
        for (const JsonValue& level : report.at("levels").elements()) {
          head += " " + level.at("level").text() + " |";
          rule += "---|";
        }
      }
      rows += row(report, compiled_kernels);
    } catch (const JsonError& error) {
      std::cerr << printable(file + ": " + error.what()) << "\n";
      return 2;
    }
  }
  std::cout << head << " date |\n" << rule << "---|\n" << rows;
  return 0;
}

}  // namespace keel::conformance
