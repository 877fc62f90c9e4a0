// SPDX-License-Identifier: Apache-2.0
// Tests `keel ops list`: its output for each backend, and the page generated from the list.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/testing/keel_command.h"

namespace {

using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::lines;
using keel::cli::testing::Result;
using nlohmann::json;

// The project's backends with operators, in the order of docs/operators.md.
constexpr const char* kBackends[] = {"ascend", "cpu", "cuda", "hip", "level_zero", "vulkan"};
// Those with a kernel for every operator.
constexpr const char* kWholeBackends[] = {"cpu", "cuda", "hip", "level_zero", "vulkan"};

const json* find_named(const json& list, const std::string& key, const std::string& value) {
  for (const json& each : list) {
    if (each.at(key) == value) return &each;
  }
  return nullptr;
}

// Returns |arguments| such that backend |name| is available if possible: for a GPU, on the emulated
// chip.
std::vector<std::string> asking(const std::string& name, std::vector<std::string> arguments) {
  if (name != "cpu" && name != "vulkan") arguments.emplace_back("--emulated");
  return arguments;
}

struct Presence {
  std::string device;    // description of the device
  std::string why_none;  // the reason if there is none
};

// Describes the first device of backend |name| with operators.
Presence presence(const std::string& name) {
  const Result result = keel(asking(name, {"devices", "--json"}));
  if (result.exit_code != 0) return {{}, result.error};
  const json out = json::parse(result.out);
  if (const json* device = find_named(out.at("devices"), "name", name + ":0")) {
    const json& capabilities = device->at("capabilities");
    if (std::find(capabilities.begin(), capabilities.end(), "ops") != capabilities.end()) {
      return {device->at("description"), {}};
    }
    return {{}, "its device has no operators"};
  }
  const json* backend = find_named(out.at("backends"), "name", name);
  return {{}, backend == nullptr ? "no such plugin is loaded" : backend->at("reason")};
}

// ---- one backend -------------------------------------------------------------------

class OpsList : public ::testing::TestWithParam<const char*> {};

TEST_P(OpsList, JsonHasEveryRequiredOperator) {
  const std::string backend = GetParam();
  const Presence here = presence(backend);
  if (here.device.empty()) GTEST_SKIP() << backend << ": " << here.why_none;
  const Result result = keel(asking(backend, {"ops", "list", "--backend", backend, "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const json out = json::parse(result.out);
  EXPECT_EQ(out.at("backends"), json::array({backend}));
  const json* matmul = find_named(out.at("ops"), "op", "matmul");
  ASSERT_NE(matmul, nullptr);
  EXPECT_EQ(matmul->at("inputs"), json::array({"float32", "float32", "float32"}));
  for (const json& row : out.at("ops")) {
    if (row.at("required") == true) {
      EXPECT_NE(row.at("support").at(backend).at("level"), "missing") << row.dump();
    }
  }
}

TEST_P(OpsList, NothingIsMissing) {
  const std::string backend = GetParam();
  const Presence here = presence(backend);
  if (here.device.empty()) GTEST_SKIP() << backend << ": " << here.why_none;
  const Result result = keel(asking(backend, {"ops", "list", "--backend", backend, "--missing"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "");
}

const auto name_of = [](const auto& info) { return std::string(info.param); };
INSTANTIATE_TEST_SUITE_P(Backends, OpsList, ::testing::ValuesIn(kWholeBackends), name_of);

TEST(CliOpsList, ADtypeHasOneNameInItsOperator) {
  const Result result = keel({"ops", "list", "--backend", "cpu", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  std::set<std::pair<std::string, std::string>> names;
  const json out = json::parse(result.out);
  for (const json& row : out.at("ops")) {
    EXPECT_TRUE(names.emplace(row.at("op"), row.at("dtype")).second) << row.dump();
  }
  // A combination that differs from another one only in the gradient.
  const Result adamw =
      keel({"ops", "explain", "adamw", "--device", "cpu", "--dtype", "f32_g_bf16", "--json"});
  ASSERT_EQ(adamw.exit_code, 0) << adamw.error;
  EXPECT_EQ(json::parse(adamw.out).at("inputs").at(1).at("dtype"), "bfloat16");
}

TEST(CliOpsList, UnknownBackendIsNamedAmongThoseThere) {
  const Result result = keel({"ops", "list", "--backend", "cqu"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.error, "'cqu'")) << result.error;
  EXPECT_TRUE(contains(result.error, "cpu")) << result.error;
}

TEST(CliOpsList, BackendWithoutDeviceCannotBeAsked) {
  const Result result = keel({"ops", "list", "--backend", "skeleton", "--missing"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.error, "skeleton")) << result.error;
}

// ---- the page ----------------------------------------------------------------------

// The text around the table of backends, and the table's rows, split into cells.
struct Page {
  std::string text;
  std::vector<std::vector<std::string>> rows;
};

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  size_t begin = 2;
  for (size_t end; (end = row.find(" |", begin)) != std::string::npos; begin = end + 3) {
    cells.push_back(row.substr(begin, end - begin));
  }
  return cells;
}

Page page_of(const std::string& content) {
  Page page;
  bool inside = false;
  for (const std::string& line : lines(content)) {
    if (line == "<!-- end -->") inside = false;
    if (!inside) page.text += line + '\n';
    if (inside && !line.starts_with("|---")) page.rows.push_back(cells_of(line));
    if (line == "<!-- support table -->") inside = true;
  }
  return page;
}

Page written_page() {
  std::ifstream file(KEEL_SOURCE_DIR "/docs/operators.md");
  return page_of({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()});
}

// Returns the column with the given head; empty if there is none.
std::vector<std::string> column_of(const Page& page, const std::string& head) {
  std::vector<std::string> column;
  if (page.rows.empty()) return column;
  const auto& heads = page.rows[0];
  const auto found = std::find(heads.begin(), heads.end(), head);
  if (found == heads.end()) return column;
  const auto at = static_cast<size_t>(found - heads.begin());
  for (const auto& row : page.rows) column.push_back(at < row.size() ? row[at] : "");
  return column;
}

constexpr const char* kRefresh =
    "docs/operators.md is stale; refresh it: keel ops list --markdown > docs/operators.md";

TEST(CliOpsMarkdown, IsTheDocumentation) {
  const Result result = keel({"ops", "list", "--markdown"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Page written = written_page();
  const Page wanted = page_of(result.out);
  EXPECT_EQ(written.text, wanted.text) << kRefresh;
  for (const char* head : {"operator", "dtypes"}) {
    EXPECT_EQ(column_of(written, head), column_of(wanted, head)) << kRefresh;
    EXPECT_GT(column_of(written, head).size(), 2U) << head;
  }
}

class OpsMarkdown : public ::testing::TestWithParam<const char*> {};

TEST_P(OpsMarkdown, ColumnIsTheDocumentation) {
  const std::string backend = GetParam();
  const std::vector<std::string> written = column_of(written_page(), backend);
  EXPECT_GT(written.size(), 2U) << kRefresh << ", where " << backend << " has a device";
  const Presence here = presence(backend);
  if (here.device.empty()) GTEST_SKIP() << backend << ": " << here.why_none;
  if (backend == "vulkan" && !contains(here.device, "llvmpipe")) {
    GTEST_SKIP() << "the page has what lavapipe takes, here is " << here.device;
  }
  const Result result = keel({"ops", "list", "--markdown", "--backend", backend});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(written, column_of(page_of(result.out), backend)) << kRefresh;
}

INSTANTIATE_TEST_SUITE_P(Backends, OpsMarkdown, ::testing::ValuesIn(kBackends), name_of);

TEST(CliOpsMarkdown, ABackendThatCannotBeAskedIsNamedWithTheReason) {
  const Result result = keel({"ops", "list", "--markdown"}, {"KEEL_BACKENDS=cpu,skeleton"});
  ASSERT_EQ(result.exit_code, 0) << result.error;
  const Page page = page_of(result.out);
  EXPECT_EQ(page.rows.at(0), (std::vector<std::string>{"operator", "dtypes", "cpu"}));
  EXPECT_TRUE(contains(result.error, "no column of 'skeleton': skeleton: this plugin is a "))
      << result.error;
}

// A plugin with fill, add and cast, and little more of these than required.
TEST(CliOpsMarkdown, GapsAreShown) {
  const auto plugin = std::filesystem::path(std::getenv("KEEL_TEST_BIN")).parent_path() / "tests" /
                      "faulty" / "libfaulty_none.so";
  if (!std::filesystem::exists(plugin)) GTEST_SKIP() << "built without conformance's plugins";
  const Result all = keel({"ops", "list", "--markdown", "--plugin", plugin}, {"KEEL_BACKENDS=cpu"});
  ASSERT_EQ(all.exit_code, 0) << all.error;
  const Page page = page_of(all.out);
  ASSERT_EQ(page.rows.at(0).size(), 4U) << all.out;
  const std::string backend = page.rows[0][3];
  std::vector<std::string> taken;
  for (const auto& row : page.rows) {
    for (const char* op : {"[fill]", "[cast]", "[add]", "[matmul]"}) {
      if (row.at(0).starts_with(op)) taken.push_back(row.at(3));
    }
  }
  const std::string cast = "f32_bf16, bf16_f32, f32_f16, f16_f32, f16_bf16, bf16_f16";
  EXPECT_EQ(taken, (std::vector<std::string>{"f32, i32", cast, "f32", "-"})) << backend;
}

TEST(CliOpsMarkdown, ExcludesOtherForms) {
  EXPECT_EQ(keel({"ops", "list", "--markdown", "--json"}).exit_code, 2);
}

}  // namespace
