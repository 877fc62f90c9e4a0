// SPDX-License-Identifier: Apache-2.0
// Runs the keel program on plugins with one fault each: the expected level must detect the fault.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "conformance/testing/conform_run.h"

namespace keel::conformance {

namespace {

TEST_F(Conform, CertifiesWhatIsRight) {
  const std::string certificate = (folder_ / "certificate.json").string();
  ASSERT_EQ(run("none", "--certificate '" + certificate + "'"), 0) << output_;
  for (const char* name : {"null", "core", "async", "memory", "ops"}) {
    EXPECT_EQ(level(name).at("certified"), true) << name << "\n" << output_;
  }
  EXPECT_EQ(level("collectives").at("certified"), false);  // no such capability
  EXPECT_EQ(outcome("ops/add/f32/7"), "pass");
  EXPECT_EQ(conform("verify '" + certificate + "'"), 0) << output_;
  EXPECT_NE(output_.find("null core async memory ops"), std::string::npos) << output_;
  EXPECT_NE(output_.find("; failures: injected"), std::string::npos) << output_;
}

TEST_F(Conform, CertifiesClaimsThatTheSampleLeavesOut) {
  ASSERT_EQ(run("more_claims", "--level core,async,memory"), 0) << output_;
  for (const char* id : {"async/tables/gate/streams", "memory/tables/host_alias/parts",
                         "memory/tables/managed/parts", "memory/tables/on_stream"}) {
    EXPECT_EQ(outcome(id), "pass") << output_;
  }
}

TEST_F(Conform, CertifiesALibraryOfCollectives) {
  ASSERT_EQ(run("ccl_none", "--level null,core,collectives"), 0) << output_;
  EXPECT_EQ(level("collectives").at("certified"), true) << output_;
  EXPECT_EQ(outcome("collectives/native"), "pass");
  EXPECT_EQ(outcome("collectives/all_reduce/float64/sum"), "pass");  // Keel's own algorithm
}

TEST_F(Conform, WrongLastElementIsCaughtByOps) {
  EXPECT_EQ(run("wrong_last_element", "--level core,ops"), 1);
  EXPECT_EQ(level("core").at("certified"), true) << output_;
  EXPECT_EQ(level("ops").at("certified"), false);
  for (const char* id : {"ops/add/f32/1", "ops/add/f32/255", "ops/cast/f32_bf16/7"}) {
    EXPECT_EQ(outcome(id), "fail") << id;
  }
  const Json failure = find("ops/add/f32/255");
  EXPECT_NE(failure.at("message").get<std::string>().find("first element 254"), std::string::npos)
      << failure;
  EXPECT_NE(output_.find("--filter 'ops/add/f32/255' --seed 42"), std::string::npos);
}

TEST_F(Conform, UnrepeatableIsCaughtByOps) {
  EXPECT_EQ(run("unrepeatable", "--filter 'ops/add/*'"), 1);
  EXPECT_EQ(outcome("ops/add/f32/255"), "fail");
  const Json failure = find("ops/add/f32/255");
  EXPECT_NE(failure.at("message").get<std::string>().find("of the same inputs, element 0 is"),
            std::string::npos)
      << failure;
}

TEST_F(Conform, EarlyEventIsCaughtByAsync) {
  for (const std::string id : {"async/event/not_early/query", "async/event/not_early/wait"}) {
    run_until_caught("early_event", "--filter " + id, {id});
  }
}

TEST_F(Conform, UnorderedCopyIsCaughtByAsync) {
  run_until_caught("unordered_copy", "--filter 'async/order/*'",
                   {"async/order/copy_keeps_its_place", "async/order/upload_keeps_its_place",
                    "async/order/by_event"});
}

TEST_F(Conform, FalseOkIsCaughtByMemory) {
  EXPECT_EQ(run("false_ok", "--level core,memory"), 1);
  EXPECT_EQ(level("core").at("certified"), true) << output_;
  EXPECT_EQ(outcome("memory/impossible_size/device"), "fail");
  EXPECT_EQ(outcome("memory/exhausted"), "fail");
  EXPECT_EQ(outcome("memory/kind/device"), "pass");
}

TEST_F(Conform, HangIsATimeoutAndTheRestIsRun) {
  // Uses cases that need little time even on a busy machine. Keel makes the plugin wait in slices,
  // so the plugin hangs in every wait for a device that is busy for longer than one slice.
#if defined(__SANITIZE_ADDRESS__)
  constexpr const char* kTimeout = "20";
#else
  constexpr const char* kTimeout = "10";
#endif
  EXPECT_EQ(run("hang", std::string("--filter 'async/[eg]*/[wh]*[ls]*' --timeout ") + kTimeout), 1);
  const Json hung = find("async/event/wait_keeps_deadline");
  EXPECT_EQ(hung.at("outcome"), "timeout") << output_;
  const std::string why = hung.at("message");
  EXPECT_NE(why.find("alone"), std::string::npos);
  EXPECT_NE(why.find("calls in progress:\nstream.event_wait(0x"), std::string::npos) << why;
  EXPECT_NE(why.find("the case had come to suite_async.cc:"), std::string::npos) << why;
  EXPECT_EQ(level("async").at("counts").at("timeout"), 1) << output_;
  EXPECT_EQ(outcome("async/gate/holds"), "pass");  // runs after the hung case
}

TEST_F(Conform, CrashIsACrashAndTheRestIsRun) {
  // The address sanitizer would turn the signal into a report and an exit status.
  const char* const sanitizer = std::getenv("ASAN_OPTIONS");
  const std::string options = sanitizer == nullptr ? "" : sanitizer + std::string(":");
  setenv("ASAN_OPTIONS", (options + "handle_segv=0").c_str(), 1);
  // Nearly every case on the tables uses two streams.
  EXPECT_EQ(run("crash", "--filter 'core/copy/*'"), 0) << output_;
  setenv("KEEL_LOG", "debug", 1);
  EXPECT_EQ(run("crash", "--filter 'async/[ot][ri]*/*'"), 1);
  unsetenv("KEEL_LOG");
  const Json crashed = find("async/order/by_event");
  EXPECT_EQ(crashed.at("outcome"), "crash") << output_;
  EXPECT_NE(crashed.at("message").get<std::string>().find("signal 11"), std::string::npos)
      << crashed;
  EXPECT_NE(crashed.at("message").get<std::string>().find("\nstream.create(0x"), std::string::npos)
      << crashed;
  EXPECT_NE(crashed.at("message").get<std::string>().find("a second stream"), std::string::npos)
      << crashed;
  EXPECT_EQ(outcome("async/timing/monotone"), "pass");
}

TEST_F(Conform, TheCallersChoiceOfTestsIsNotTheWorkers) {
  setenv("GTEST_FILTER", "Nothing.*", 1);
  const int status = run("none", "--filter core/device/info");
  unsetenv("GTEST_FILTER");
  EXPECT_EQ(status, 0) << output_;
  ASSERT_FALSE(report_.at("results").empty()) << output_;
  EXPECT_EQ(report_.at("results").at(0).at("outcome"), "pass") << output_;
}

TEST_F(Conform, WhatAPluginWritesToTheRunnerIsPassedOver) {
  EXPECT_EQ(run("scribble", "--level core"), 0) << output_;
  EXPECT_EQ(level("core").at("certified"), true) << output_;
  for (const Json& result : report_.at("results")) EXPECT_NE(result.at("id"), "core/none");
}

TEST_F(Conform, APluginThatAnswersForTheWorkerIsNotBelieved) {
  EXPECT_EQ(run("forger", "--level core"), 1) << output_;
  EXPECT_EQ(level("core").at("certified"), false) << output_;
  EXPECT_EQ(outcome("core/copy/roundtrip/4096"), "fail");
  EXPECT_EQ(outcome("core/copy/within/4096"), "fail");
}

TEST_F(Conform, WhatAPluginLeavesBehindDoesNotRewriteTheReport) {
  const fs::path left = folder_ / "left";
  const fs::path report = folder_ / "report.json";
  setenv("KEEL_TEST_LEFT", left.c_str(), 1);
  setenv("KEEL_TEST_REWRITTEN", report.c_str(), 1);
  EXPECT_EQ(run("leaves_process", "--filter core/device/info"), 0) << output_;
  unsetenv("KEEL_TEST_LEFT");
  unsetenv("KEEL_TEST_REWRITTEN");
  const std::string pid = read(left);
  ASSERT_FALSE(pid.empty()) << output_;
  EXPECT_EQ(kill(std::stoi(pid), 0), -1) << "process " << pid << " is still there";
  EXPECT_EQ(level("core").at("certified"), false);  // a filter excludes cases
  EXPECT_NE(output_.find("processes that the plugin had left were ended"), std::string::npos)
      << output_;
}

// A plugin with one fault, and the cases that detect it.
struct Fault {
  const char* plugin;
  const char* arguments;            // of the run
  std::vector<const char*> caught;  // cases that fail
  const char* message;              // in the first of them
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.plugin;
}

class ConformFault : public Conform, public testing::WithParamInterface<Fault> {};

TEST_P(ConformFault, IsCaught) {
  const Fault& fault = GetParam();
#if defined(__SANITIZE_ADDRESS__)
  if (std::string(fault.plugin) == "blocking_enqueue") {
    GTEST_SKIP() << "15 s of work to enqueue, and no code that the other faults do not run";
  }
#endif
  const std::string message =
      run_until_caught(fault.plugin, fault.arguments, {fault.caught.begin(), fault.caught.end()});
  EXPECT_NE(message.find(fault.message), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Faults, ConformFault,
    testing::Values(
        Fault{"false_claims",
              "--level memory,kernels",
              {"kernels/load/formats", "memory/export", "memory/kind/managed",
               "memory/host_register/4096"},
              "KERNELS is claimed"},
        Fault{"ccl_wrong_result",
              "--filter 'collectives/*/float32*'",
              {"collectives/all_reduce/float32/sum", "collectives/one_rank/calls/float32"},
              "keel_all_reduce of 1, rank 0 of 2: 1 of"},
        Fault{"ccl_false_dtype",
              "--filter 'collectives/all_reduce/float64/*'",
              {"collectives/all_reduce/float64/sum", "collectives/all_reduce/float64/max"},
              "keel_all_reduce of"},
        Fault{"ccl_false_claim",
              "--filter collectives/native",
              {"collectives/native"},
              "CCL is claimed, but an all_reduce of float32"},
        Fault{"ccl_refuses",
              "--filter collectives/broadcast/int64",
              {"collectives/broadcast/int64"},
              "ccl.run"},
        Fault{"past_end",
              "--filter 'core/copy/offsets/*'",
              {"core/copy/offsets/to1_from0_1", "core/copy/offsets/to7_from64_65537"},
              "device to device at an offset"},
        Fault{"leak", "--filter 'memory/given_back'", {"memory/given_back"}, "that were freed"},
        Fault{"export_copy",
              "--filter 'memory/export'",
              {"memory/export"},
              "memfd: what the owner wrote"},
        Fault{"late_free", "--filter 'memory/given_back'", {"memory/given_back"}, "bytes taken"},
        Fault{"early_free",
              "--filter 'memory/neighbours'",
              {"memory/neighbours"},
              "its neighbours freed"},
        Fault{"not_reentrant", "--filter 'memory/threads'", {"memory/threads"}, "thread"},
        Fault{"double_notify",
              "--filter 'multi_device/notify/*'",
              {"multi_device/notify/cpu_0"},
              "called back twice"},
        Fault{"shared_memory",
              "--filter 'multi_device/memory/*'",
              {"multi_device/memory/faulty_shared_memory_1"},
              "buffer 0 of the device"},
        Fault{"ignores_deadline",
              "--filter async/event/wait_keeps_deadline",
              {"async/event/wait_keeps_deadline"},
              "all came back at its end"},
        Fault{"backward_timing",
              "--filter async/timing/monotone",
              {"async/timing/monotone"},
              "ns to the middle"},
        Fault{"blocking_enqueue",
              "--filter async/enqueue/returns_early",
              {"async/enqueue/returns_early"},
              "returned only when they were done"},
        Fault{"lost_wait",
              "--filter async/order/by_event",
              {"async/order/by_event"},
              "behind the event"},
        Fault{"forgetful_follower",
              "--filter 'async/tables/failure/*'",
              {"async/tables/failure/follower"},
              "event_query of the follower, again"},
        Fault{"sticky_event",
              "--filter 'async/event/not_early/*'",
              {"async/event/not_early/wait", "async/event/not_early/rerecorded"},
              "the tail"}),
    [](const auto& info) { return std::string(info.param.plugin); });

// Detected before there is a device to run cases on.
TEST_F(Conform, WrongStructSizeIsRefusedWhenItIsLoaded) {
  EXPECT_EQ(conform("run --plugin '" + plugin("wrong_struct_size") + "'"), 1);
  EXPECT_NE(output_.find("does not keep to the size of the keel_device_info"), std::string::npos)
      << output_;
}

TEST_F(Conform, WaivesKnownFailuresAndRefusesToWaiveAPass) {
  const fs::path waivers = folder_ / "waivers.json";
  const auto write = [&](const std::vector<std::string>& globs) {
    Json all = Json::array();
    for (const std::string& glob : globs) {
      all.push_back({{"case", glob},
                     {"backend", "faulty_false_ok"},
                     {"reason", "known"},
                     {"expires", "2999-12-31"}});
    }
    std::ofstream(waivers) << all;
  };
  const std::string option = "--level memory --waivers '" + waivers.string() + "' ";
  const std::string certificate = (folder_ / "certificate.json").string();
  write({"memory/impossible_size/*", "memory/exhausted", "memory/tables/refused_sizes/*",
         "memory/tables/failure_of_another_thread", "memory/tables/full"});
  EXPECT_EQ(run("false_ok", option + "--certificate '" + certificate + "'"), 0) << output_;
  EXPECT_EQ(outcome("memory/exhausted"), "waived");
  EXPECT_EQ(level("memory").at("certified"), true);
  EXPECT_EQ(conform("verify --rerun '" + certificate + "'"), 0) << output_;
  EXPECT_NE(output_.find("; waived cases: "), std::string::npos) << output_;
  write({"memory/*"});
  EXPECT_EQ(run("false_ok", option), 1);
  EXPECT_EQ(outcome("memory/kind/device"), "fail");
  EXPECT_NE(output_.find("unexpected pass"), std::string::npos) << output_;
}

TEST_F(Conform, VerifyRefusesWhatWasChanged) {
  const fs::path file = folder_ / "libfaulty_none.so";
  fs::copy_file(plugin("none"), file);
  const fs::path certificate = folder_ / "certificate.json";
  ASSERT_EQ(conform("run --plugin '" + file.string() + "' --level null,core --certificate '" +
                    certificate.string() + "'"),
            0)
      << output_;
  EXPECT_EQ(conform("verify --rerun '" + certificate.string() + "'"), 0) << output_;
  EXPECT_EQ(output_.find("seed 42,"), std::string::npos) << output_;
  EXPECT_NE(output_.find("profile full"), std::string::npos) << output_;  // the sample

  std::string text = read(certificate);
  const size_t seed = text.find("\"seed\": 42");
  ASSERT_NE(seed, std::string::npos) << text;
  const fs::path tampered = folder_ / "tampered.json";
  std::ofstream(tampered) << text.replace(seed, 10, "\"seed\": 43");
  EXPECT_EQ(conform("verify '" + tampered.string() + "'"), 1);
  EXPECT_NE(output_.find("digest"), std::string::npos) << output_;

  std::ofstream(file, std::ios::app) << "another build";
  EXPECT_EQ(conform("verify '" + certificate.string() + "'"), 1);
  EXPECT_NE(output_.find("SHA-256"), std::string::npos) << output_;
}

// Otherwise a certificate would name the old file for the behaviour of the new one.
TEST_F(Conform, APluginThatChangesDuringTheRunIsNotCertified) {
  const fs::path file = folder_ / "libfaulty_hang.so";
  fs::copy_file(plugin("hang"), file);
  const fs::path json = folder_ / "report.json";
  // The runner kills the worker after one second, and once more after another.
  const std::string command = "'" + keel_.string() + "' conform run --plugin '" + file.string() +
                              "' --timeout 1 --filter async/event/wait_keeps_deadline --json '" +
                              json.string() + "' 2>&1";
  FILE* const run = popen(command.c_str(), "r");
  ASSERT_NE(run, nullptr);
  bool is_changed = false;
  char line[4096];
  while (std::fgets(line, sizeof(line), run) != nullptr) {
    output_ += line;
    if (is_changed || !std::string(line).starts_with("seed ")) continue;
    std::ofstream(file, std::ios::app) << "another build";
    is_changed = true;
  }
  EXPECT_EQ(WEXITSTATUS(pclose(run)), 1) << output_;
  EXPECT_TRUE(is_changed) << output_;
  report_ = Json::parse(read(json));
  EXPECT_EQ(report_.at("stopped"), "the plugin file changed during the run") << output_;
}

// Whether the time ends during the hanging case or before it, no later case begins.
TEST_F(Conform, WhatIsNotBegunInTimeIsCountedAndNothingIsCertified) {
  const std::string certificate = (folder_ / "certificate.json").string();
  EXPECT_EQ(
      run("hang", "--level null,async --timeout 3 --within 1 --certificate '" + certificate + "'"),
      1)
      << output_;
  const size_t cases = report_.at("cases");
  const size_t left = report_.at("not_run");
  EXPECT_GT(left, 0U) << output_;
  EXPECT_EQ(report_.at("results").size() + left, cases);
  EXPECT_EQ(report_.at("stopped"), "out of time after 1 s");
  EXPECT_EQ(report_.at("within_seconds"), 1);
  EXPECT_NE(output_.find("out of time after 1 s: " + std::to_string(cases - left) + " of " +
                         std::to_string(cases) + " cases have run\n"),
            std::string::npos)
      << output_;
  for (const Json& each : report_.at("levels")) EXPECT_EQ(each.at("certified"), false) << each;
  const Json certified = Json::parse(read(certificate));
  for (const Json& each : certified.at("levels")) EXPECT_EQ(each.at("certified"), false) << each;
}

TEST_F(Conform, ACaseThatHangsIsNotRunAgainWithoutTime) {
  const std::string id = "async/event/wait_keeps_deadline";
  EXPECT_EQ(run("hang", "--timeout 3 --within 2 --filter " + id), 1) << output_;
  EXPECT_EQ(report_.at("cases"), 1);
  for (const Json& result : report_.at("results")) {  // none on a very busy machine
    EXPECT_EQ(result.at("outcome"), "timeout");
    EXPECT_NE(result.at("message").get<std::string>().find("not run again"), std::string::npos);
  }
}

TEST_F(Conform, WithTimeLeftTheRunIsWhole) {
  EXPECT_EQ(run("none", "--level null --within 86400"), 0) << output_;
  EXPECT_EQ(report_.at("not_run"), 0);
  EXPECT_EQ(report_.at("stopped"), "");
}

TEST_F(Conform, SampleRunsTheFirstOfEveryNCasesAndCertifiesNothing) {
  EXPECT_EQ(run("none", "--every 10 --level core,async"), 0) << output_;
  ASSERT_EQ(run("none", "--every 10"), 0) << output_;
  EXPECT_EQ(report_.at("every"), 10);
  EXPECT_NE(output_.find("one of 10 cases of each level"), std::string::npos) << output_;
  const size_t sampled = report_.at("results").size();
  for (const Json& each : report_.at("levels")) EXPECT_EQ(each.at("certified"), false) << each;
  ASSERT_EQ(conform("list --profile quick --plugin '" + plugin("none") + "'"), 0) << output_;
  const auto cases = static_cast<size_t>(std::count(output_.begin(), output_.end(), '\n'));
  EXPECT_GE(sampled * 10, cases);
  EXPECT_LE(sampled, cases / 10 + report_.at("levels").size());
  EXPECT_EQ(run("none", "--every 10 --certificate '" + (folder_ / "c.json").string() + "'"), 2);
  EXPECT_NE(output_.find("--every"), std::string::npos) << output_;
}

TEST_F(Conform, FailedCasesAreRunAgainAndInOneProcess) {
  EXPECT_EQ(run("wrong_last_element", "--level null,ops --fail-fast --jobs 1 --seed 7"), 1)
      << output_;
  std::string failed;
  for (const Json& result : report_.at("results")) {
    if (result.at("outcome") == "fail") failed = result.at("id");
  }
  ASSERT_NE(failed, "") << output_;
  EXPECT_EQ(report_.at("stopped"), "stopped at the first failure");
  EXPECT_EQ(level("null").at("certified"), false);
  const std::string before = (folder_ / "before.json").string();
  fs::rename(folder_ / "report.json", before);
  EXPECT_EQ(run("wrong_last_element", "--rerun-failed '" + before + "'"), 1) << output_;
  ASSERT_EQ(report_.at("results").size(), 1U) << output_;
  EXPECT_EQ(outcome(failed), "fail");
  EXPECT_EQ(report_.at("seed"), 7);
  EXPECT_EQ(run("none", "--rerun-failed '" + before + "'"), 0) << output_;
  EXPECT_EQ(level("ops").at("certified"), false);
  EXPECT_EQ(conform("run --here --plugin '" + plugin("wrong_last_element") + "' --rerun-failed '" +
                    before + "'"),
            1)
      << output_;
  EXPECT_NE(output_.find("fail    " + failed + ": output"), std::string::npos) << output_;
  EXPECT_EQ(conform("run --here --plugin '" + plugin("none") + "' --filter 'core/device/*'"), 0)
      << output_;
  EXPECT_NE(output_.find("pass    core/device/info"), std::string::npos) << output_;
}

// Several workers produce results out of case order; the report and the printed failures must be in
// case order.
TEST_F(Conform, WorkersSideBySideGiveTheSameReport) {
  const auto run_with = [&](const std::string& jobs) {
    EXPECT_EQ(run("wrong_last_element", "--filter 'ops/a*' --jobs " + jobs), 1) << output_;
    Json report = report_;
    report["date"] = "";
    for (const char* list : {"results", "levels"}) {
      for (Json& each : report.at(list)) each["seconds"] = 0;
    }
    return report;
  };
  const auto told = [&] {
    std::vector<std::string> failures;
    std::istringstream lines(output_);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("fail ")) failures.push_back(line);
    }
    return failures;
  };
  const Json alone = run_with("1");
  const std::vector<std::string> told_alone = told();
  ASSERT_GT(alone.at("results").size(), 128U) << "more than a batch for each worker";
  EXPECT_EQ(run_with("3"), alone);
  EXPECT_FALSE(told_alone.empty());
  EXPECT_EQ(told(), told_alone) << "failures in the order of the cases";
}

// A killed run must leave its results so far in its file.
TEST_F(Conform, ARunThatIsKilledLeavesItsResults) {
  const fs::path json = folder_ / "report.json";
  const std::string file = plugin("hang");
  const pid_t pid = fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    std::freopen("/dev/null", "w", stdout);
    execl(keel_.c_str(), "keel", "conform", "run", "--plugin", file.c_str(), "--level",
          "null,async", "--timeout", "86400", "--json", json.c_str(), nullptr);
    _exit(127);
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  const auto has_results = [&] {
    report_ = Json::parse(read(json), nullptr, /*allow_exceptions=*/false);
    return report_.is_object() && !report_.at("results").empty();
  };
  while (!has_results() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_EQ(kill(pid, SIGTERM), 0);
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFSIGNALED(status)) << status;
  ASSERT_TRUE(has_results()) << read(json);
  EXPECT_EQ(report_.at("stopped"), "the run was ended before");
  EXPECT_GT(report_.at("not_run"), 0);
  EXPECT_EQ(outcome("null/load"), "pass");
  for (const Json& each : report_.at("levels")) EXPECT_EQ(each.at("certified"), false) << each;
}

TEST_F(Conform, MistakesAreExitTwoAndListWhatThereIs) {
  const std::string target = "run --plugin '" + plugin("none") + "' ";
  EXPECT_EQ(conform(target + "--filter 'core/no/such/case'"), 2);
  EXPECT_NE(output_.find("selects none"), std::string::npos) << output_;
  EXPECT_EQ(conform(target + "--level fast"), 2);
  EXPECT_NE(output_.find("multi_device"), std::string::npos) << output_;
  EXPECT_EQ(conform("run --backend no_such_backend"), 2);
  EXPECT_NE(output_.find("skeleton"), std::string::npos) << output_;
  EXPECT_EQ(conform("run"), 2);
  EXPECT_EQ(conform(target + "--waivers /no/such/file"), 2);
  EXPECT_EQ(conform(target + "--filter 'core/*' --certificate x.json"), 2);
  for (const char* within : {"0", "-1", "1.5", "soon", "86401", ""}) {
    EXPECT_EQ(conform(target + "--within '" + within + "'"), 2) << within;
    EXPECT_NE(output_.find("--within"), std::string::npos) << output_;
  }
}

TEST_F(Conform, SkeletonIsCertifiedForNullAlone) {
  EXPECT_EQ(conform("run --backend skeleton"), 0) << output_;
  EXPECT_NE(output_.find("not run: no device"), std::string::npos) << output_;
  EXPECT_EQ(conform("run --backend skeleton --level core"), 1) << output_;
}

TEST_F(Conform, AbsentSlotsAreNamed) {
  ASSERT_EQ(run("none", "--filter 'async/tables/*'"), 0) << output_;
  for (const char* reason : {"the slot query is absent\n", "the slot synchronize is absent\n",
                             "absent slots: wrap, unwrap\n"}) {
    EXPECT_NE(output_.find(reason), std::string::npos) << reason << output_;
  }
}

// No case calls through an absent slot, which would end its worker.
TEST_F(Conform, ClaimWithoutSlotsFailsEachOfItsCases) {
  ASSERT_EQ(run("false_claims", "--filter 'async/tables/*gate*'"), 1) << output_;
  const Json& results = report_.at("results");
  ASSERT_GT(results.size(), 2u);
  for (const Json& result : results) {
    EXPECT_EQ(result.at("outcome"), "fail") << result;
    EXPECT_NE(result.at("message").get<std::string>().find(
                  "NATIVE_GATE is claimed without stream.gate_create, stream.gate_destroy"),
              std::string::npos)
        << result;
  }
}

// The refusal of one format after the other is one reason, not six.
TEST_F(Conform, FormatsThatNoDeviceTakesAreListedOnce) {
  ASSERT_EQ(run("false_claims", "--level kernels"), 1) << output_;
  const std::string message = find("kernels/load/damaged").at("message");
  EXPECT_NE(message.find("PTX, a cubin, a code object, a shared object: "), std::string::npos)
      << message;
  const std::string refusal = "kernel.load";
  const size_t first = message.find(refusal);
  ASSERT_NE(first, std::string::npos) << message;
  EXPECT_EQ(message.find(refusal, first + 1), std::string::npos) << message;
}

TEST_F(Conform, ListNamesCasesWithTheirLevel) {
  EXPECT_EQ(conform("list --plugin '" + plugin("none") + "'"), 0);
  EXPECT_NE(output_.find("core          core/copy/many\n"), std::string::npos) << output_;
  EXPECT_NE(output_.find("ops           ops/adamw/"), std::string::npos);
}

}  // namespace

}  // namespace keel::conformance
