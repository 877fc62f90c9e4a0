// SPDX-License-Identifier: Apache-2.0
// The support table in README.md must have the form that the reports produce.
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "conformance/levels.h"
#include "conformance/report.h"
#include "conformance/result.h"
#include "conformance/support_table.h"

namespace keel::conformance {
namespace {

std::vector<std::string> lines_of(std::istream& text) {
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  return lines;
}

// Returns the lines that `./dev support` replaces.
std::vector<std::string> table_of_readme() {
  std::ifstream readme(KEEL_SOURCE_DIR "/README.md");
  std::vector<std::string> table;
  bool inside = false;
  for (const std::string& line : lines_of(readme)) {
    if (line == "<!-- end -->") return table;
    if (inside) table.push_back(line);
    if (line == "<!-- support table -->") inside = true;
  }
  ADD_FAILURE() << "README.md has no table between its two comments";
  return {};
}

// Returns the table of a run of all levels without a device.
std::vector<std::string> table_of_report() {
  Report report;
  report.target.backend = "chip";
  report.date = "2026-01-02";
  std::vector<Level> all;
  for (const LevelInfo& info : levels()) all.push_back(info.level);
  report.levels = summarise({}, {all, false, "none", 0});
  const std::string file = ::testing::TempDir() + "keel_readme_table.json";
  std::ofstream(file) << to_json_text(report);
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(print_support_table({file}), 0);
  std::istringstream text(::testing::internal::GetCapturedStdout());
  std::remove(file.c_str());
  return lines_of(text);
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  size_t begin = 2;
  for (size_t end; (end = row.find(" |", begin)) != std::string::npos; begin = end + 3) {
    cells.push_back(row.substr(begin, end - begin));
  }
  return cells;
}

TEST(ReadmeTable, IsWhatTheReportsGive) {
  const std::vector<std::string> written = table_of_readme();
  const std::vector<std::string> wanted = table_of_report();
  ASSERT_EQ(wanted.size(), 3U);
  ASSERT_GT(written.size(), 2U);
  EXPECT_EQ(written[0], wanted[0]);
  EXPECT_EQ(written[1], wanted[1]);
  const std::regex passed(R"(-|\d+( of \d+)?|\*\*\d+( of \d+)?\*\*)");
  const std::regex date(R"(\d{4}-\d\d-\d\d)");
  const size_t columns = cells_of(wanted[0]).size();
  const size_t first_level = columns - 1 - levels().size();
  for (size_t i = 2; i < written.size(); ++i) {
    const std::vector<std::string> cells = cells_of(written[i]);
    ASSERT_EQ(cells.size(), columns) << written[i];
    for (size_t column = 0; column < first_level; ++column) {
      EXPECT_FALSE(cells[column].empty()) << written[i];
    }
    for (size_t column = first_level; column + 1 < columns; ++column) {
      EXPECT_TRUE(std::regex_match(cells[column], passed)) << cells[column] << " in " << written[i];
    }
    EXPECT_TRUE(std::regex_match(cells.back(), date)) << written[i];
  }
}

}  // namespace
}  // namespace keel::conformance
