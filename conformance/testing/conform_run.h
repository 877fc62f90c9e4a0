// SPDX-License-Identifier: Apache-2.0
// Runs the keel program on plugins with one fault each.
#ifndef KEEL_CONFORMANCE_TESTING_CONFORM_RUN_H_
#define KEEL_CONFORMANCE_TESTING_CONFORM_RUN_H_

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace keel::conformance {

using Json = nlohmann::json;
namespace fs = std::filesystem;

inline std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Conform : public testing::Test {
 protected:
  void SetUp() override {
    const char* bin = std::getenv("KEEL_TEST_BIN");
    ASSERT_NE(bin, nullptr) << "KEEL_TEST_BIN is the folder of the keel program";
    keel_ = fs::path(bin) / "keel";
    // Some plugins leak. Conformance, not a sanitizer, must detect these leaks.
    const char* const sanitizer = std::getenv("ASAN_OPTIONS");
    const std::string options = sanitizer == nullptr ? "" : sanitizer + std::string(":");
    setenv("ASAN_OPTIONS", (options + "detect_leaks=0").c_str(), 1);
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    std::string name = info.name();
    std::replace(name.begin(), name.end(), '/', '_');  // of a test with a parameter
    folder_ = fs::path(testing::TempDir()) / ("keel_conform_" + name);
    fs::remove_all(folder_);
    ASSERT_TRUE(fs::create_directory(folder_));
    fs::permissions(folder_, fs::perms::owner_all);  // plugins load only from such folders
  }
  void TearDown() override { fs::remove_all(folder_); }

  static std::string plugin(const std::string& fault) {
    const fs::path tests = fs::read_symlink("/proc/self/exe").parent_path();
    return tests / "faulty" / ("libfaulty_" + fault + ".so");
  }

  // Runs `keel conform |arguments|`; output_ receives the printed text.
  int conform(const std::string& arguments) {
    const fs::path printed = folder_ / "printed.txt";
    const std::string command =
        "'" + keel_.string() + "' conform " + arguments + " > '" + printed.string() + "' 2>&1";
    const int status = std::system(command.c_str());
    output_ = read(printed);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Runs `keel conform run` on a faulty plugin; report_ receives the report. Unless |arguments| set
  // a timeout, cases get enough time for a busy machine.
  int run(const std::string& fault, const std::string& arguments) {
    const fs::path json = folder_ / "report.json";
    const std::string wait_setting =
        arguments.find("--timeout") == std::string::npos ? " --timeout 120 " : " ";
    const int status = conform("run --plugin '" + plugin(fault) + "' --json '" + json.string() +
                               "'" + wait_setting + arguments);
    report_ = Json::parse(read(json), nullptr, /*allow_exceptions=*/false);
    return status;
  }

  Json find(const std::string& id) const {
    for (const Json& result : report_.at("results")) {
      if (result.at("id") == id) return result;
    }
    ADD_FAILURE() << id << " was not run\n" << output_;
    return {{"outcome", ""}, {"message", ""}};
  }
  std::string outcome(const std::string& id) const { return find(id).at("outcome"); }
  // Repeats the run until each of |ids| has failed, together or separately: a race shows only by
  // chance, and on a busy machine the host may look too late. Returns the message of the first id.
  std::string run_until_caught(const std::string& fault, const std::string& arguments,
                               std::vector<std::string> ids) {
    constexpr int kMostRuns = 10;
    const std::string first = ids.at(0);
    std::string message;
    for (int i = 0; i < kMostRuns && !ids.empty(); ++i) {
      const int status = run(fault, arguments);
      if (!report_.is_object()) break;
      std::erase_if(ids, [&](const std::string& id) {
        if (outcome(id) != "fail") return false;
        EXPECT_EQ(status, 1) << output_;
        if (id == first) message = find(id).at("message");
        return true;
      });
    }
    for (const std::string& id : ids) ADD_FAILURE() << id << " did not fail\n" << output_;
    return message;
  }
  Json level(const std::string& name) const {
    for (const Json& each : report_.at("levels")) {
      if (each.at("level") == name) return each;
    }
    ADD_FAILURE() << "no level " << name;
    return {};
  }

  fs::path keel_;
  fs::path folder_;
  std::string output_;
  Json report_;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TESTING_CONFORM_RUN_H_
