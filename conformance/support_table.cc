#include "conformance/support_table.h"

#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

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

std::string row(const Json& report) {
  const Json& target = report.at("target");
  const auto device = target.at("device_name").get<std::string>();
  const char* const chip = device.empty()                    ? "-"
                           : report.value("emulated", false) ? "emulated"
                                                             : "real";
  std::string text = "| " + target.at("backend").get<std::string>() + " | " +
                     (device.empty() ? "none" : device) + " | " + chip + " |";
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
        head = "| backend | device | chip |";
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
