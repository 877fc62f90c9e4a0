// SPDX-License-Identifier: Apache-2.0
#include "conformance/support_table.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "conformance/emulated_libraries.h"
#include "conformance/json_count.h"
#include "conformance/levels.h"
#include "conformance/report.h"

namespace keel::conformance {

namespace {

using Json = nlohmann::json;

std::string cell(const Json& level) {
  const Json& counts = level.at("counts");
  const uint64_t passed = get_count<uint32_t>(counts.at("pass"));
  uint64_t failed = 0;
  for (const char* outcome : {"fail", "crash", "timeout"}) {
    failed += get_count<uint32_t>(counts.at(outcome));
  }
  if (passed + failed == 0) return "-";
  std::string text = std::to_string(passed);
  if (failed != 0) text += " of " + std::to_string(passed + failed);
  return level.at("certified").get<bool>() ? "**" + text + "**" : text;
}

// What the operators that passed were computed by: a chip; on the emulated one the backend's own
// kernels, from their source; or what the emulator has in the place of a vendor's library.
std::string proof(const Json& report) {
  if (report.at("target").at("device_name").get<std::string>().empty()) return "-";
  if (!report.value("emulated", false)) return "real";
  uint64_t passed = 0;
  uint64_t marshalled = 0;
  for (const Json& result : report.at("results")) {
    if (result.at("outcome") != "pass") continue;
    if (!result.at("id").get<std::string>().starts_with("ops/")) continue;
    ++passed;
    if (result.at("message").get<std::string>().starts_with(kMarshalling)) ++marshalled;
  }
  if (passed == 0) return "emulated";
  if (marshalled == 0) return "own source emulated";
  if (marshalled == passed) return "marshalling only";
  return "own source emulated, " + std::to_string(marshalled) + " of " + std::to_string(passed) +
         " operators' cases marshalling only";
}

std::string row(const Json& report) {
  const Json& target = report.at("target");
  const auto device = target.at("device_name").get<std::string>();
  std::string text = "| " + target.at("backend").get<std::string>() + " | " +
                     (device.empty() ? "none" : device) + " | " + proof(report) + " |";
  for (const Json& level : report.at("levels")) text += " " + cell(level) + " |";
  return text + " " + report.at("date").get<std::string>() + " |\n";
}

}  // namespace

int print_support_table(const std::vector<std::string>& files) {
  std::string head;
  std::string rule;
  std::string rows;
  for (const std::string& file : files) {
    try {
      const Json report = Json::parse(std::ifstream(file));
      if (report.at("format") != Report::kFormat) {
        std::cerr << file << ": not a report of format " << Report::kFormat << "\n";
        return 2;
      }
      if (head.empty()) {
        head = "| backend | device | proof |";
        rule = "|---|---|---|";
        for (const Json& level : report.at("levels")) {
          head += " " + level.at("level").get<std::string>() + " |";
          rule += "---|";
        }
      }
      rows += row(report);
    } catch (const Json::exception& error) {
      std::cerr << file << ": not a report: " << error.what() << "\n";
      return 2;
    }
  }
  std::cout << head << " date |\n" << rule << "---|\n" << rows;
  return 0;
}

}  // namespace keel::conformance
