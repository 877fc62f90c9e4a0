// SPDX-License-Identifier: Apache-2.0
// Tests `keel run`: the environment of its processes, how a job ends, and that no process remains.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "tools/testing/keel_command.h"

namespace {

using keel::cli::testing::contains;
using keel::cli::testing::keel;
using keel::cli::testing::KeelCommand;
using keel::cli::testing::lines;
using keel::cli::testing::Result;

std::vector<std::string> run(const std::string& script, std::vector<std::string> options) {
  std::vector<std::string> arguments = {"run"};
  arguments.insert(arguments.end(), options.begin(), options.end());
  arguments.insert(arguments.end(), {"--", "sh", "-c", script});
  return arguments;
}

// Returns whether the process is gone, or dead and not yet reaped by its parent.
bool is_dead(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const size_t end = text.rfind(')');
  return end == std::string::npos || text.compare(end, 3, ") Z") == 0;
}

// Returns whether the process dies within a minute.
bool dies(pid_t pid) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!is_dead(pid)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

TEST(Run, EachProcessFindsItsPlace) {
  const std::string script =
      "echo $KEEL_RANK $KEEL_WORLD $KEEL_LOCAL_RANK $KEEL_LOCAL_WORLD $KEEL_BOOTSTRAP";
  const Result result = keel(run(script, {"-n", "3"}));
  ASSERT_EQ(result.exit_code, 0) << result.error;
  std::vector<std::string> all = lines(result.out);
  ASSERT_EQ(all.size(), 3u) << result.out;
  std::sort(all.begin(), all.end());
  std::set<std::string> names;
  for (int rank = 0; rank < 3; ++rank) {
    const std::string number = std::to_string(rank);
    const std::string place = number + " 3 " + number + " 3 ";
    ASSERT_EQ(all[rank].substr(0, place.size()), place);
    const std::string rendezvous = all[rank].substr(place.size());
    EXPECT_TRUE(rendezvous.size() >= 16 && rendezvous.size() <= 100) << rendezvous;
    EXPECT_EQ(rendezvous.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz-"),
              std::string::npos)
        << rendezvous;
    names.insert(rendezvous);
  }
  EXPECT_EQ(names.size(), 1u);
  EXPECT_FALSE(contains(keel(run(script, {"-n", "1"})).out, *names.begin()));
}

// One process has all cores; as many processes as cores have one each, and so do more processes.
TEST(Run, BindsProcessesToEvenSharesOfTheCores) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  // nproc also obeys OpenMP's variables.
  const std::string script = "unset OMP_NUM_THREADS OMP_THREAD_LIMIT; echo $KEEL_RANK $(nproc)";
  for (const int processes : {1, CPU_COUNT(&usable), 2 * CPU_COUNT(&usable)}) {
    const Result result = keel(run(script, {"-n", std::to_string(processes), "--bind"}));
    ASSERT_EQ(result.exit_code, 0) << result.error;
    const std::string cores = processes == 1 ? std::to_string(CPU_COUNT(&usable)) : "1";
    for (int rank = 0; rank < processes; ++rank) {
      EXPECT_TRUE(contains(result.out, std::to_string(rank) + " " + cores + "\n")) << result.out;
    }
  }
}

TEST(Run, ArgumentsArriveAsTheyAre) {
  const Result result =
      keel({"run", "-n", "1", "--", "printf", "<%s>", "-n", "--label", "a b", "", "--", "x"});
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_EQ(result.out, "<-n><--label><a b><><--><x>");
}

TEST(Run, TheFirstFailureIsNamedAndEndsTheJob) {
  const Result result = keel(run("[ $KEEL_RANK = 1 ] && exit 7; exec sleep 1000", {"-n", "3"}));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_TRUE(contains(result.error, "rank 1 (process ")) << result.error;
  EXPECT_TRUE(contains(result.error, "exited with code 7")) << result.error;
  EXPECT_EQ(lines(result.error).size(), 1u) << result.error;
}

TEST(Run, OthersGoOnAfterAFailureWithKeepGoing) {
  const std::string script =
      "[ $KEEL_RANK = 1 ] && exit 7; [ $KEEL_RANK = 2 ] && kill -KILL $$; "
      "sleep 0.3; echo $KEEL_RANK";
  const Result result = keel(run(script, {"-n", "4", "--keep-going"}));
  EXPECT_EQ(result.exit_code, 0) << result.error;
  EXPECT_TRUE(contains(result.out, "0\n") && contains(result.out, "3\n")) << result.out;
  EXPECT_TRUE(contains(result.error, "rank 1 (process ")) << result.error;
  EXPECT_TRUE(contains(result.error, "killed by SIGKILL")) << result.error;
  EXPECT_EQ(keel(run("exit 5", {"-n", "2", "--keep-going"})).exit_code, 5);
}

TEST(Run, ASignalIsNamed) {
  const Result result =
      keel(run("[ $KEEL_RANK = 0 ] && kill -KILL $$; exec sleep 1000", {"-n", "2"}));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_TRUE(contains(result.error, "rank 0")) << result.error;
  EXPECT_TRUE(contains(result.error, "killed by SIGKILL")) << result.error;
}

TEST(Run, WhoDoesNotHearSigtermIsKilled) {
  const std::string script =
      "trap '' TERM; if [ $KEEL_RANK = 0 ]; then while [ ! -e $READY ]; do sleep 0.01; done; exit "
      "3; "
      "fi; : > $READY; while :; do sleep 0.01; done";
  const std::string ready = ::testing::TempDir() + "keel-run-ready-" + std::to_string(getpid());
  const Result result = keel(run(script, {"-n", "2", "--grace", "0.1"}), {"READY=" + ready});
  std::remove(ready.c_str());
  EXPECT_EQ(result.exit_code, 3);
}

TEST(Run, TheTimeIsOver) {
  const Result result =
      keel(run("[ $KEEL_RANK = 1 ] || exec sleep 1000", {"-n", "3", "--timeout", "0.3"}));
  EXPECT_EQ(result.exit_code, 124);
  EXPECT_TRUE(contains(result.error, "0.3 s")) << result.error;
  EXPECT_TRUE(contains(result.error, "ranks 0, 2")) << result.error;
}

TEST(Run, AProgramThatIsNotThereIsNamed) {
  const Result result = keel({"run", "-n", "2", "--", "/nowhere/program"});
  EXPECT_EQ(result.exit_code, 127);
  EXPECT_TRUE(contains(result.error, "/nowhere/program")) << result.error;
  EXPECT_EQ(lines(result.error).size(), 1u) << result.error;
}

TEST(Run, LabelsAreBeforeWholeLines) {
  const Result result =
      keel(run("printf 'a\\nb%s' $KEEL_RANK; printf 'wrong\\n' >&2", {"-n", "2", "--label"}));
  EXPECT_EQ(result.exit_code, 0);
  std::vector<std::string> out = lines(result.out);
  std::sort(out.begin(), out.end());
  EXPECT_EQ(out, (std::vector<std::string>{"[0] a", "[0] b0", "[1] a", "[1] b1"}));
  EXPECT_TRUE(contains(result.error, "[0] wrong\n")) << result.error;
  EXPECT_TRUE(contains(result.error, "[1] wrong\n")) << result.error;
}

TEST(Run, WhatAProcessLeavesBehindIsKilled) {
  const Result result = keel(run("sleep 1000 & echo $!", {"-n", "1"}));
  EXPECT_EQ(result.exit_code, 0);
  ASSERT_FALSE(result.out.empty());
  EXPECT_TRUE(dies(std::stoi(result.out)));
}

TEST(Run, SigtermIsPassedOn) {
  KeelCommand command(
      run("trap 'echo heard; exit 0' TERM; echo ready$KEEL_RANK;"
          "while :; do sleep 0.01; done",
          {"-n", "2"}));
  ASSERT_TRUE(command.wait_for_output("ready0"));
  ASSERT_TRUE(command.wait_for_output("ready1"));
  kill(command.pid(), SIGTERM);
  const Result result = command.wait();
  EXPECT_EQ(result.exit_code, 0) << result.error;
  const std::vector<std::string> out = lines(result.out);
  EXPECT_EQ(std::count(out.begin(), out.end(), "heard"), 2) << result.out;
}

TEST(Run, IfItIsKilledSoAreItsProcesses) {
  KeelCommand command(run("echo $$ ready; exec sleep 1000", {"-n", "1"}));
  ASSERT_TRUE(command.wait_for_output("ready\n"));
  const pid_t child = std::stoi(command.out());
  kill(command.pid(), SIGKILL);
  EXPECT_EQ(command.wait().exit_code, -1);
  EXPECT_TRUE(dies(child));
}

TEST(Run, MistakesAreNamed) {
  EXPECT_TRUE(contains(keel({"run", "--", "true"}).error, "--processes"));
  EXPECT_EQ(keel({"run", "-n", "0", "--", "true"}).exit_code, 2);
  EXPECT_TRUE(
      contains(keel({"run", "-n", "2", "--timeout", "x", "--", "true"}).error, "--timeout"));
  EXPECT_EQ(keel({"run", "-n", "2"}).exit_code, 2);
}

}  // namespace
