// SPDX-License-Identifier: Apache-2.0
// Tests the findings about ranks that are behind, and the command on a real job's files.
#include "tools/keel/flight.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <keel/keel.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tools/testing/keel_command.h"

namespace keel::cli {
namespace {

using testing::contains;
using testing::lines;
using testing::Result;

// ---- who is behind -----------------------------------------------------------------

Json operation(uint64_t sequence, const char* state, const char* name = "all_reduce") {
  return {{"sequence", sequence}, {"operation", name}, {"state", state}};
}

Json rank(uint32_t number, std::vector<Json> operations, Json alive = true,
          const char* host = "a") {
  return {{"rank", number}, {"host", host}, {"alive", alive}, {"operations", operations}};
}

std::string findings(uint32_t world, std::vector<Json> ranks) {
  return flight_findings({{"name", "x"}, {"world", world}, {"ranks", ranks}});
}

TEST(FlightFindings, NothingToSay) {
  const std::vector<Json> same = {operation(1, "done"), operation(2, "running")};
  EXPECT_EQ(findings(2, {rank(0, same), rank(1, same)}), "");
  EXPECT_EQ(findings(2, {rank(0, {}), rank(1, {})}), "");
  EXPECT_EQ(findings(8, {rank(5, same)}), "") << "one file is not about the others";
}

TEST(FlightFindings, TheOneBehindIsNamed) {
  EXPECT_EQ(findings(3, {rank(0, {operation(121, "running"), operation(122, "queued")}),
                         rank(1, {operation(120, "done"), operation(123, "queued")}),
                         rank(2, {operation(118, "running"), operation(119, "queued")})}),
            "rank 2 is at all_reduce #118, the others are at #121 or later\n");
  EXPECT_EQ(findings(2, {rank(0, {operation(7, "running")}), rank(1, {operation(4, "queued")})}),
            "rank 1 is at all_reduce #4, the other is at #7\n");
}

TEST(FlightFindings, WhoHasCalledNothingMore) {
  EXPECT_EQ(findings(3, {rank(0, {operation(117, "done"), operation(118, "running")}),
                         rank(1, {operation(117, "failed", "broadcast")}),
                         rank(2, {operation(118, "running")})}),
            "rank 1 has called nothing after broadcast #117, the others are at #118 or later\n");
  EXPECT_EQ(findings(3, {rank(0, {}), rank(1, {}), rank(2, {operation(0, "running")})}),
            "ranks 0, 1 have called nothing yet, the other is at #0\n");
}

TEST(FlightFindings, WhoHasNotBegunWhatTheOthersHave) {
  EXPECT_EQ(findings(2, {rank(0, {operation(5, "queued")}), rank(1, {operation(5, "running")})}),
            "rank 0 has not begun all_reduce #5, the others have\n");
}

TEST(FlightFindings, TheEndedAndTheMissing) {
  const std::vector<Json> same = {operation(2, "running")};
  EXPECT_EQ(findings(4, {rank(0, same), rank(3, same, /*alive=*/false)}),
            "the process of rank 3 has ended\n"
            "no file of ranks 1, 2: on another host, or ended in good order\n");
  EXPECT_EQ(findings(100, {rank(0, same), rank(1, same)}),
            "no file of ranks 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 and 82 more: "
            "on another host, or ended in good order\n");
}

TEST(FlightFindings, RanksOfSeveralHostsAreNamedWithTheirHosts) {
  const std::vector<Json> same = {operation(2, "running")};
  EXPECT_EQ(findings(3, {rank(0, same), rank(1, {operation(1, "running")}, nullptr, "b"),
                         rank(2, same, /*alive=*/false, "b")}),
            "rank 1 (b) is at all_reduce #1, the others are at #2 or later\n"
            "the process of rank 2 (b) has ended\n");
}

// ---- the command -------------------------------------------------------------------

// One of a job's two ranks, in its own process: both ranks broadcast, then only rank 0 calls an
// all_reduce. Rank 0 writes the job's id to |id|, rank 1 reads the id there. Writes a byte to
// |ready|, then waits to be killed.
[[noreturn]] void run_rank(uint32_t rank, std::array<int, 2> id, int ready) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("KEEL_BACKENDS", "cpu", 1);
  try {
    const Runtime runtime;
    const Device device = Device::find("cpu");
    keel_unique_id job = {};
    if (rank == 0) job = make_unique_id();
    const ssize_t moved =
        rank == 0 ? write(id[1], &job, sizeof(job)) : read(id[0], &job, sizeof(job));
    if (moved != sizeof(job)) _exit(1);
    Communicator communicator = Communicator::join(device, job, rank, 2);
    const Stream stream(device);
    const Buffer buffer = Buffer::of<float>(device, 4);
    communicator.broadcast(buffer.data(), buffer.data(), 4, KEEL_FLOAT32, 0, stream);
    stream.synchronize();
    if (rank == 0) {
      communicator.all_reduce(buffer.data(), buffer.data(), 4, KEEL_FLOAT32, KEEL_SUM, stream);
    }
    if (write(ready, "x", 1) == 1) {
      while (true) pause();
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %u: %s\n", rank, error.what());
  }
  _exit(1);
}

class FlightCommand : public ::testing::Test {
 protected:
  FlightCommand() {
    char folder[] = "/tmp/keel-flight-command-XXXXXX";
    folder_ = mkdtemp(folder);
    setenv("KEEL_FLIGHT_DIR", folder, 1);
  }
  ~FlightCommand() override {
    for (int rank = 0; rank < 2; ++rank) kill_rank(rank);
    unsetenv("KEEL_FLIGHT_DIR");
    std::filesystem::remove_all(folder_);
  }

  void SetUp() override { start({}); }

  // Fails the test if the ranks do not reach the end of run_rank. |hosts|: of each rank, with a
  // folder each; empty: both are of this host.
  void start(const std::vector<std::string>& hosts) {
    std::array<int, 2> ready{};
    std::array<int, 2> id{};
    ASSERT_EQ(pipe(ready.data()), 0);
    ASSERT_EQ(pipe(id.data()), 0);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      pids_[rank] = fork();
      ASSERT_GE(pids_[rank], 0);
      if (pids_[rank] != 0) continue;
      if (!hosts.empty()) {
        setenv("KEEL_HOST_ID", hosts[rank].c_str(), 1);
        setenv("KEEL_INTERFACE", "127.0.0.1", 1);
        setenv("KEEL_FLIGHT_DIR", (folder_ + "/" + hosts[rank]).c_str(), 1);
      }
      run_rank(rank, id, ready[1]);
    }
    for (const int end : {ready[1], id[0], id[1]}) close(end);
    char byte = 0;
    ssize_t came = 1;
    for (int rank = 0; rank < 2 && came == 1; ++rank) came = read(ready[0], &byte, 1);
    close(ready[0]);
    ASSERT_EQ(came, 1) << "a rank has failed";
  }

  void kill_rank(int rank) {
    const pid_t pid = std::exchange(pids_[rank], 0);
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  static std::string rank_line(int rank, pid_t pid, std::string host = {}) {
    if (host.empty()) {
      std::array<char, 256> name = {};
      gethostname(name.data(), name.size() - 1);
      host = name.data();
    }
    return "rank " + std::to_string(rank) + " on cpu:0, process " + std::to_string(pid) +
           " on host '" + host + "'";
  }

  // Returns the output of `keel flight` for |where|.
  static std::string said_of(const std::string& where) {
    const Result result = testing::keel({"flight", where});
    EXPECT_EQ(result.exit_code, 0) << result.error;
    return result.out;
  }

  // Returns the words of the first line of |text| that contains |part|.
  static std::vector<std::string> words_of_line(const std::string& text, const std::string& part) {
    std::vector<std::string> words;
    for (const std::string& line : lines(text)) {
      if (!contains(line, part)) continue;
      std::string word;
      for (const char letter : line + ' ') {
        if (letter != ' ') {
          word += letter;
        } else if (!word.empty()) {
          words.push_back(std::exchange(word, {}));
        }
      }
      return words;
    }
    return words;
  }

  std::string folder_;
  std::array<pid_t, 2> pids_{};
};

TEST_F(FlightCommand, OfAJobThatHangsTheOneBehindIsNamed) {
  const std::string text = said_of(folder_);
  EXPECT_TRUE(contains(text,
                       ", 2 ranks\nrank 1 has called nothing after broadcast #0, the other "
                       "is at #1\n"))
      << text;
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_TRUE(contains(text, "\n" + rank_line(rank, pids_[rank]) + "\n")) << text;
  }
  // Rank 0's line, which is printed first.
  const auto words = words_of_line(text, "  all_reduce ");
  ASSERT_GE(words.size(), 7U) << text;
  EXPECT_EQ(std::vector(words.begin(), words.begin() + 6),
            (std::vector<std::string>{"1", "all_reduce", "4", "float32", "sum", "0"}));
  EXPECT_TRUE(words[6] == "queued" || words[6] == "running") << text;
  EXPECT_EQ(words_of_line(text, "  broadcast ").at(6), "done") << text;
}

TEST_F(FlightCommand, AProcessIsAskedAboutByItsNumber) {
  const std::string text = said_of(std::to_string(pids_[1]));
  EXPECT_TRUE(contains(text, rank_line(1, pids_[1]))) << text;
  EXPECT_TRUE(contains(text, "  broadcast ")) << text;
  EXPECT_FALSE(contains(text, "rank 0 on")) << text;
  EXPECT_FALSE(contains(text, "all_reduce")) << text;
}

TEST_F(FlightCommand, WhatWasKilledIsStillRead) {
  const std::array<pid_t, 2> pids = pids_;
  kill_rank(0);
  std::string text = said_of(folder_);
  EXPECT_TRUE(contains(text, "\nthe process of rank 0 has ended\n")) << text;
  EXPECT_TRUE(contains(text, rank_line(0, pids[0]) + ", which has ended\n")) << text;
  EXPECT_TRUE(contains(text, rank_line(1, pids[1]) + "\n")) << text;
  kill_rank(1);
  text = said_of(folder_);
  EXPECT_TRUE(contains(text, "\nthe process of ranks 0, 1 has ended\n")) << text;
  EXPECT_TRUE(contains(text, "rank 1 has called nothing after broadcast #0")) << text;
  const auto words = words_of_line(text, "  all_reduce ");
  ASSERT_GE(words.size(), 7U) << text;
  EXPECT_TRUE(words[6] == "queued" || words[6] == "running") << text;

  const Json data = Json::parse(testing::keel({"flight", folder_, "--json"}).out);
  ASSERT_EQ(data.at("communicators").size(), 1U) << data.dump();
  const Json& ranks = data["communicators"][0].at("ranks");
  ASSERT_EQ(ranks.size(), 2U);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks[rank].at("pid"), pids[rank]);
    EXPECT_EQ(ranks[rank].at("alive"), false);
    const std::string file = ranks[rank].at("file");
    EXPECT_TRUE(contains(said_of(file), rank_line(rank, pids[rank]))) << file;
  }
}

TEST_F(FlightCommand, ARubbishFileIsListedWithTheReason) {
  const std::string rubbish = folder_ + "/flight-0-1-0";
  FILE* const file = std::fopen(rubbish.c_str(), "w");
  ASSERT_NE(file, nullptr);
  std::fputs("no flight", file);
  std::fclose(file);
  const std::string text = said_of(folder_);
  EXPECT_TRUE(contains(text, "unreadable: ")) << text;
  EXPECT_TRUE(contains(text, rubbish)) << text;
  EXPECT_TRUE(contains(text, rank_line(0, pids_[0]))) << text;
  EXPECT_EQ(testing::keel({"flight", rubbish}).exit_code, 1);
}

// The ranks' folders are copied into one while the ranks hang, as an operator gathers those of
// several machines.
class FlightOfHosts : public FlightCommand {
 protected:
  void SetUp() override { start({"a", "b"}); }
};

TEST_F(FlightOfHosts, GatheredFilesNameTheRankBehindAndNoDeath) {
  namespace fs = std::filesystem;
  const std::string gathered = folder_ + "/gathered";
  ASSERT_TRUE(fs::create_directory(gathered));
  for (const char* host : {"a", "b"}) {
    for (const auto& file : fs::directory_iterator(folder_ + "/" + host)) {
      fs::copy(file.path(), fs::path(gathered) / file.path().filename());
    }
  }
  const std::array<pid_t, 2> pids = pids_;
  const auto expect_hang = [&](const std::string& text) {
    EXPECT_TRUE(contains(text,
                         ", 2 ranks\nrank 1 (b) has called nothing after broadcast #0, the other "
                         "is at #1\n\n"))
        << text;
    EXPECT_TRUE(
        contains(text, rank_line(0, pids[0], "a") + ", whose process cannot be seen here\n"))
        << text;
    EXPECT_TRUE(
        contains(text, rank_line(1, pids[1], "b") + ", whose process cannot be seen here\n"))
        << text;
    EXPECT_FALSE(contains(text, "ended")) << text;
  };
  expect_hang(said_of(gathered));
  EXPECT_TRUE(contains(said_of(folder_ + "/b"), rank_line(1, pids[1], "b") + "\n"));
  for (int rank = 0; rank < 2; ++rank) kill_rank(rank);
  expect_hang(said_of(gathered));
  EXPECT_TRUE(contains(said_of(folder_ + "/b"), "the process of rank 1 has ended\n"));

  const Json data = Json::parse(testing::keel({"flight", gathered, "--json"}).out);
  for (int rank = 0; rank < 2; ++rank) {
    const Json& each = data.at("communicators").at(0).at("ranks").at(rank);
    EXPECT_TRUE(each.at("alive").is_null()) << each.dump();
    EXPECT_EQ(each.at("host"), rank == 0 ? "a" : "b");
  }
}

TEST(FlightCommandWithout, AFolderThatIsNotThereIsAFailureThatNamesIt) {
  const Result result = testing::keel({"flight", "/nowhere/flight"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(contains(result.error, "/nowhere/flight")) << result.error;
}

}  // namespace
}  // namespace keel::cli
