// SPDX-License-Identifier: Apache-2.0
// Runs the keel program on plugins that die, hang or leave processes outside of a case's own calls,
// and in one process.
#include <gtest/gtest.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include "conformance/testing/conform_run.h"

namespace keel::conformance {

namespace {

// Sets an environment variable for its lifetime.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), /*overwrite=*/1);
  }
  ~Setting() { unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* const name_;
};

// Keeps the address sanitizer from turning a plugin's signal into a report and an exit status.
void let_signals_through() {
  const char* const sanitizer = std::getenv("ASAN_OPTIONS");
  const std::string options = sanitizer == nullptr ? "" : sanitizer + std::string(":");
  setenv("ASAN_OPTIONS", (options + "handle_segv=0:handle_abort=0").c_str(), 1);
}

// Whether the process of faulty_leaves_process, which wrote its id to |left|, has ended.
bool has_ended(const fs::path& left) {
  const std::string pid = read(left);
  return !pid.empty() && kill(std::stoi(pid), 0) == -1 && errno == ESRCH;
}

TEST_F(Conform, ProcessLeftByAFailedLoadHasEndedBeforeTheReport) {
  const fs::path left = folder_ / "left";
  const Setting of_left("KEEL_TEST_LEFT", left);
  const Setting rewritten("KEEL_TEST_REWRITTEN", folder_ / "report.json");
  const Setting fails("KEEL_TEST_FAILS", "1");
  EXPECT_EQ(run("leaves_process", ""), 1) << output_;
  EXPECT_TRUE(has_ended(left)) << "process " << read(left);
  ASSERT_TRUE(report_.is_object()) << output_;
  for (const Json& each : report_.at("levels")) EXPECT_EQ(each.at("certified"), false) << each;
  EXPECT_NE(output_.find("processes that the plugin had left were ended"), std::string::npos)
      << output_;
}

TEST_F(Conform, ProcessLeftByARunWithoutAReportHasEnded) {
  const std::string target = " --plugin '" + plugin("leaves_process") + "' ";
  const Setting rewritten("KEEL_TEST_REWRITTEN", folder_ / "report.json");
  for (const std::string command :
       {"list", "run --here --filter core/device/info", "run --filter 'core/no/such/case'"}) {
    const fs::path left = folder_ / "left";
    fs::remove(left);
    const Setting of_left("KEEL_TEST_LEFT", left);
    conform(command + target);
    EXPECT_TRUE(has_ended(left)) << command << ": process " << read(left) << "\n" << output_;
  }
}

TEST_F(Conform, CrashWhileLoadingNamesTheSlot) {
  let_signals_through();
  for (const std::string call : {"query", "create_instance"}) {
    const Setting aborts("KEEL_TEST_ABORTS", call);
    EXPECT_EQ(run("crash", ""), 1) << output_;
    const Json load = find("null/load");
    EXPECT_EQ(load.at("outcome"), "crash") << output_;
    const std::string slot = call == "query" ? "keel_plugin_query_v0()" : "create_instance(";
    EXPECT_NE(load.at("message").get<std::string>().find("calls in progress:\n" + slot),
              std::string::npos)
        << load;
  }
}

TEST_F(Conform, CrashWhileLoadingIsInThisProcessWithHere) {
  let_signals_through();
  const Setting aborts("KEEL_TEST_ABORTS", "create_instance");
  constexpr int kSignalled = 128;  // as the shell reports a signal
  EXPECT_EQ(conform("run --here --plugin '" + plugin("crash") + "'"), kSignalled + SIGABRT)
      << output_;
  EXPECT_NE(output_.find("create_instance("), std::string::npos) << output_;
}

TEST_F(Conform, CrashOfACaseOnTheTablesNamesTheSlot) {
  let_signals_through();
  const Setting log("KEEL_LOG", "debug");
  EXPECT_EQ(run("crash", "--filter core/tables/fresh_thread"), 1) << output_;
  const Json crashed = find("core/tables/fresh_thread");
  EXPECT_EQ(crashed.at("outcome"), "crash") << output_;
  const std::string why = crashed.at("message");
  EXPECT_NE(why.find("calls in progress:\nstream.create(0x"), std::string::npos) << why;
  EXPECT_NE(why.find("the case had come to suite_claim_tables.cc:"), std::string::npos) << why;
  EXPECT_NE(why.find("plugin: faulty_crash: a second stream"), std::string::npos) << why;
}

// A pipe that is never empty must not keep the runner from the deadline.
TEST_F(Conform, HangThatPrintsWithoutEndIsATimeout) {
  const Setting prints("KEEL_TEST_PRINTS", "1");
  EXPECT_EQ(run("hang", "--filter async/event/wait_keeps_deadline --timeout 3"), 1) << output_;
  EXPECT_EQ(outcome("async/event/wait_keeps_deadline"), "timeout") << output_;
}

TEST_F(Conform, ClaimedSlotThatACaseWouldCallInPassingIsNamed) {
  ASSERT_EQ(run("absent_fill", "--filter 'core/tables/[fgt]*'"), 1) << output_;
  for (const char* id : {"core/tables/fresh_thread", "core/tables/given_back/streams"}) {
    EXPECT_EQ(outcome(id), "fail") << output_;
    EXPECT_NE(find(id).at("message").get<std::string>().find("FILL is claimed without stream.fill"),
              std::string::npos)
        << output_;
  }
  EXPECT_EQ(outcome("core/tables/threads/info"), "pass") << output_;
}

TEST_F(Conform, HereRefusesOptionsOfAReport) {
  for (const std::string option :
       {"--json", "--junit", "--certificate", "--waivers", "--within 9 --filter"}) {
    EXPECT_EQ(conform("run --here --plugin '" + plugin("none") + "' " + option + " x"), 2);
    EXPECT_NE(output_.find("--here and --gdb make no report"), std::string::npos)
        << option << output_;
  }
  EXPECT_FALSE(fs::exists("x"));
}

TEST_F(Conform, HereStopsAtTheFirstFailureIfAsked) {
  const std::string command = "run --here --plugin '" + plugin("wrong_last_element") +
                              "' --filter 'ops/add/f32/*' --seed 1";
  const auto failures = [&] {
    size_t count = 0;
    for (size_t at = output_.find("\nfail "); at != std::string::npos;
         at = output_.find("\nfail ", at + 1)) {
      ++count;
    }
    return count;
  };
  EXPECT_EQ(conform(command), 1) << output_;
  EXPECT_GT(failures(), 1U) << output_;
  EXPECT_EQ(conform(command + " --fail-fast"), 1) << output_;
  EXPECT_EQ(failures(), 1U) << output_;
  EXPECT_NE(output_.find("stopped at the first failure"), std::string::npos) << output_;
}

TEST_F(Conform, HereFailsCasesOfValidationProblems) {
  const std::string command = "run --here --plugin '" + plugin("double_notify") +
                              "' --filter 'multi_device/copy/*/4194305'";
  EXPECT_EQ(conform(command), 0) << output_;
  const Setting validate("KEEL_VALIDATE", "1");
  EXPECT_EQ(conform(command), 1) << output_;
  EXPECT_NE(output_.find("problems found by the validation layer"), std::string::npos) << output_;
}

TEST_F(Conform, HereSucceedsOnlyIfEveryCaseHasRun) {
  const std::string command = "run --here --plugin '" + plugin("none") + "' --filter ";
  EXPECT_EQ(conform(command + "core/device/info"), 0) << output_;
  EXPECT_EQ(conform(command + "core/tables/slots/required"), 0) << output_;
  EXPECT_EQ(conform(command + "'core/[dt]*/[ir]*'"), 1) << output_;
  EXPECT_NE(output_.find("are left out"), std::string::npos) << output_;
}

}  // namespace

}  // namespace keel::conformance
