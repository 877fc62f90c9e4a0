// SPDX-License-Identifier: Apache-2.0
// Ranks of several hosts that end, stop, abort or call something else.
#include <gtest/gtest.h>
#include <keel/keel.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <regex>
#include <string>

#include "collectives/bootstrap/testing/scripted_rank.h"
#include "collectives/testing/wire_job.h"

namespace keel::testing {
namespace {

// ---- what the ranks run ---------------------------------------------------------

// Runs all_reduces until one fails; prints "running" after the first, and then the failure.
std::string until_failure(const WireRank& self) {
  void* data = nullptr;
  constexpr uint64_t kCount = 100'000;
  if (keel_comm_timeout_set(self.comm, self.timeout_ns) != KEEL_OK) return keel_last_error();
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, kCount * 4, &data) != KEEL_OK) {
    return keel_last_error();
  }
  for (uint64_t i = 0;; ++i) {
    const uint64_t count = i % 2 == 0 ? kCount : 100;
    keel_status status =
        keel_all_reduce(self.comm, data, data, count, KEEL_INT32, KEEL_MAX, self.stream);
    if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
    if (status != KEEL_OK) {
      say(std::string(keel_status_name(status)) + " " + keel_last_error());
      break;
    }
    if (i == 0) say("running");
  }
  return "";
}

// All but rank 1 call, at the same time, what rank 1 never does.
std::string without_rank_one(const WireRank& self) {
  constexpr uint64_t kCount = 100'000;
  void* data = nullptr;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, kCount * 4, &data) != KEEL_OK ||
      keel_all_reduce(self.comm, data, data, 100, KEEL_INT32, KEEL_MAX, self.stream) != KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return keel_last_error();
  }
  if (self.rank == 1) {
    say("called");
    hear();
    return "killed too late";
  }
  keel_status status =
      keel_all_reduce(self.comm, data, data, kCount, KEEL_INT32, KEEL_MAX, self.stream);
  say("called");
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  hear();  // the end of this process would be another failure
  return "";
}

// The last rank reduces one element more than the others.
std::string mismatch(const WireRank& self) {
  void* data = nullptr;
  const uint64_t count = self.rank + 1 == self.world ? 101 : 100;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data) != KEEL_OK) return keel_last_error();
  keel_status status =
      keel_all_reduce(self.comm, data, data, count, KEEL_FLOAT32, KEEL_SUM, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 0 waits for a message of its own host, and of rank 2, in one group; neither comes. With the
// third message of the group, rank 1 knows that rank 0 has begun.
std::string group_in_vain(const WireRank& self) {
  void* data = nullptr;
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 64, &data);
  int32_t* const numbers = static_cast<int32_t*>(data);
  if (status == KEEL_OK && self.rank == 1) {
    status = keel_recv(self.comm, numbers, 1, KEEL_INT32, 0, self.stream);
    if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  }
  if (self.rank != 0) {
    say(status == KEEL_OK ? "begun" : keel_last_error());
    hear();  // the end of this process would be another failure
    return "";
  }
  if (status == KEEL_OK) status = keel_group_start();
  if (status == KEEL_OK) status = keel_send(self.comm, numbers, 1, KEEL_INT32, 1, self.stream);
  for (const uint32_t from : {1, 2}) {
    if (status != KEEL_OK) break;
    status = keel_recv(self.comm, numbers + from, 1, KEEL_INT32, from, self.stream);
  }
  if (status == KEEL_OK) status = keel_group_end();
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 1 makes the first contact with rank 0, which is stopped.
std::string first_contact(const WireRank& self) {
  say("here");
  hear();
  if (self.rank == 0) return "";
  // Four fifths of the limit of a handshake.
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(4);
  keel_status status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  if (status == KEEL_OK) status = keel_barrier(self.comm, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  // A sanitizer on busy cores takes seconds by itself.
  const bool is_late = !kIsSlow && std::chrono::steady_clock::now() > late;
  say(std::string(keel_status_name(status)) + (is_late ? ", late: " : " ") + keel_last_error());
  hear();  // the end of this process would be another failure
  return "";
}

// Rank 2 waits for a message of rank 0, which is stopped, and sends rank 1 one: its first contacts
// with both.
std::string past_stopped(const WireRank& self) {
  void* data = nullptr;
  say("here");
  hear();
  if (self.rank == 0) return "";
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 64, &data);
  int32_t* const numbers = static_cast<int32_t*>(data);
  if (status == KEEL_OK) status = keel_group_start();
  if (self.rank == 1) {
    if (status == KEEL_OK) status = keel_recv(self.comm, numbers, 1, KEEL_INT32, 2, self.stream);
  } else {
    if (status == KEEL_OK) status = keel_recv(self.comm, numbers, 1, KEEL_INT32, 0, self.stream);
    if (status == KEEL_OK) {
      status = keel_send(self.comm, numbers + 1, 1, KEEL_INT32, 1, self.stream);
    }
  }
  if (status == KEEL_OK) status = keel_group_end();
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  hear();  // the end of this process would be another failure
  return "";
}

// Rank 1 makes the first contact with rank 0, which is stopped, with an hour to the deadline, and
// leaves.
std::string leave_in_vain(const WireRank& self) {
  constexpr int64_t kHour = 3'600'000'000'000;
  say("here");
  hear();
  if (self.rank == 0) return "";
  keel_status status = keel_comm_timeout_set(self.comm, kHour);
  if (status == KEEL_OK) status = keel_barrier(self.comm, self.stream);
  if (status == KEEL_OK) status = keel_comm_destroy(self.comm);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 1 reduces few elements, flat; the others meet in a barrier, inside their hosts first.
std::string unlike_calls(const WireRank& self) {
  void* data = nullptr;
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data);
  if (status == KEEL_OK) status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  if (status == KEEL_OK && self.rank == 1) {
    status = keel_all_reduce(self.comm, data, data, 100, KEEL_FLOAT32, KEEL_SUM, self.stream);
  } else if (status == KEEL_OK) {
    status = keel_barrier(self.comm, self.stream);
  }
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// The last rank does not make the second call, whose messages go in several steps.
std::string absent_rank(const WireRank& self) {
  void* data = nullptr;
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data);
  const auto reduce = [&] {
    if (status == KEEL_OK) {
      status = keel_all_reduce(self.comm, data, data, 100, KEEL_FLOAT32, KEEL_SUM, self.stream);
    }
    if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  };
  reduce();
  if (status == KEEL_OK) status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  if (self.rank + 1 != self.world) reduce();
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  hear();  // the end of this process would be another failure
  return "";
}

// Rank 1 waits for a message of another host, rank 0 for rank 1 in a barrier. Rank 1 gives up
// first.
std::string unlike_messages(const WireRank& self) {
  void* data = nullptr;
  keel_status status = keel_alloc(self.device, KEEL_MEMORY_DEVICE, 4096, &data);
  if (status == KEEL_OK) {
    status = keel_comm_timeout_set(self.comm, (self.rank == 1 ? 1 : 3) * self.timeout_ns);
  }
  if (status == KEEL_OK) {
    status = self.rank == 1 ? keel_recv(self.comm, data, 7, KEEL_INT32, 2, self.stream)
                            : keel_barrier(self.comm, self.stream);
  }
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// All but the last rank split.
std::string split_without_one(const WireRank& self) {
  if (self.rank + 1 == self.world) {
    hear();  // the end of this process would be another failure
    return "";
  }
  keel_comm part = {};
  keel_status status = keel_comm_timeout_set(self.comm, self.timeout_ns);
  if (status == KEEL_OK) status = keel_comm_split(self.comm, 0, 0, nullptr, &part);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 1 aborts while the others wait for it.
std::string abort_it(const WireRank& self) {
  if (self.rank == 1) {
    hear();
    keel_comm_abort(self.comm);
    say("aborted");
    hear();  // the end of this process would be another failure
    return "";
  }
  keel_status status = keel_barrier(self.comm, self.stream);
  say("running");
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// Rank 0 leaves right after a broadcast, whose data connect the other ranks with rank 0 alone. Rank
// 2 then waits for rank 3, and rank 1 for rank 2.
std::string without_rank_zero(const WireRank& self) {
  void* data = nullptr;
  constexpr uint64_t kCount = 16;
  if (keel_alloc(self.device, KEEL_MEMORY_DEVICE, kCount * 4, &data) != KEEL_OK ||
      keel_broadcast(self.comm, data, data, kCount, KEEL_INT32, 0, self.stream) != KEEL_OK ||
      keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT) != KEEL_OK) {
    return keel_last_error();
  }
  if (self.rank == 0) return "";
  say("alone");
  hear();
  if (self.rank == 3) {
    keel_comm_abort(self.comm);
    hear();  // the end of this process would be another failure
    return "";
  }
  keel_status status = keel_recv(self.comm, data, kCount, KEEL_INT32, self.rank + 1, self.stream);
  if (status == KEEL_OK) status = keel_stream_synchronize(self.stream, KEEL_TIMEOUT_DEFAULT);
  say(std::string(keel_status_name(status)) + " " + keel_last_error());
  return "";
}

// ---- the jobs -------------------------------------------------------------------

class HostFailureTest : public WireTest {};
INSTANTIATE_TEST_SUITE_P(Wires, HostFailureTest, kWires, name_of_wire);

TEST_P(HostFailureTest, OddRankIsNamed) {
  WireJob job("abc", "mismatch");
  for (size_t rank = 0; rank < 3; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("rank 2 called all_reduce(101 float32, sum)", line);
    EXPECT_SAYS("INVALID_ARGUMENT", line);
  }
  job.expect_success();
}

// Nobody reads the messages of rank 1: those that wait for it do so inside its host.
TEST_P(HostFailureTest, UnlikeCallOfOneHostIsNamedThere) {
  WireJob job("aabb", "unlike_calls", "cpu", /*staged=*/false, /*seconds=*/20);
  for (size_t rank = 0; rank < 4; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("INVALID_ARGUMENT", line);
    EXPECT_SAYS("rank 0 called barrier(), rank 1 called all_reduce(100 float32, sum)", line);
  }
  job.expect_success();
}

TEST_P(HostFailureTest, DeadlineSaysWhereTheRanksOfTheHostAre) {
  WireJob job("aabb", "unlike_messages", "cpu", /*staged=*/false, /*seconds=*/2);
  for (size_t rank = 0; rank < 4; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("TIMED_OUT", line);
    EXPECT_SAYS("rank 2 (cpu:", line);
    EXPECT_SAYS("did not answer in time: rank 0 is at barrier(), rank 1 at recv(7 int32", line);
  }
  job.expect_success();
}

TEST_P(HostFailureTest, KilledRankIsNamedToAll) {
  for (uint32_t turn = 0; turn < (kIsSlow ? 1 : 4); ++turn) {
    WireJob job(turn % 2 == 0 ? "abab" : "abc", "until_failure");
    const size_t world = turn % 2 == 0 ? 4 : 3;
    for (size_t rank = 0; rank < world; ++rank) ASSERT_EQ(job[rank].read_line(), "running");
    // At a different place of the operations each time.
    usleep(turn * 7919);
    job[1].kill();
    for (size_t rank = 0; rank < world; ++rank) {
      if (rank == 1) continue;
      const std::string line = job[rank].read_line();
      EXPECT_SAYS("RANK_FAILED", line);
      EXPECT_SAYS("rank 1 (cpu:", line);
      EXPECT_EQ(job[rank].wait(), 0);
    }
  }
}

TEST_P(HostFailureTest, KilledRankOfAnotherHostEndsAGroup) {
  WireJob job("aab", "group_in_vain");
  for (const size_t rank : {1, 2}) ASSERT_EQ(job[rank].read_line(), "begun");
  job[2].kill();
  const std::string line = job[0].read_line();
  EXPECT_SAYS("RANK_FAILED send_recv, operation 0, ", line);
  EXPECT_SAYS("rank 2 (cpu:0", line);
  job[1].write_line("end");
  for (const size_t rank : {0, 1}) EXPECT_EQ(job[rank].wait(), 0);
}

// Each survivor tells rank, host and operation, and where it has waited, if it had begun.
TEST_P(HostFailureTest, EverySurvivorNamesTheOperation) {
  const std::regex wanted(
      "RANK_FAILED.* all_reduce, operation 1(, over (tcp|ucx)( with ranks? [0-9, -]+)?|, inside "
      "host "
      "'[abc]')?: rank 1 \\(cpu:0, process [0-9]+ on host '[ab]'\\) ");
  for (const std::string hosts : {"aabb", "abab", "abc"}) {
    WireJob job(hosts, "without_rank_one");
    for (size_t rank = 0; rank < hosts.size(); ++rank) ASSERT_EQ(job[rank].read_line(), "called");
    job[1].kill();
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (rank == 1) continue;
      const std::string line = job[rank].read_line();
      EXPECT_TRUE(std::regex_search(line, wanted)) << hosts << ", rank " << rank << ": " << line;
      EXPECT_EQ(line.find("operation", line.find("operation") + 1), std::string::npos) << line;
    }
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      if (rank != 1) job[rank].write_line("end");
    }
  }
}

TEST_P(HostFailureTest, StoppedRankIsNamedAtTheDeadline) {
  WireJob job("abc", "until_failure", "cpu", /*staged=*/false, /*seconds=*/kIsSlow ? 8 : 5);
  for (size_t rank = 0; rank < 3; ++rank) ASSERT_EQ(job[rank].read_line(), "running");
  ASSERT_EQ(::kill(job[2].pid(), SIGSTOP), 0);
  for (size_t rank = 0; rank < 2; ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("rank 2 (cpu:", line);
    EXPECT_EQ(job[rank].wait(), 0);
  }
}

// By `doubling`, most ranks wait for ranks that wait themselves.
TEST_P(HostFailureTest, AbsentRankIsNamedByRanksThatWaitForOthers) {
  const std::string hosts = "abcdef";
  WireJob job(hosts, "absent_rank", "cpu", /*staged=*/false, /*seconds=*/1,
              all_on_one_core(hosts.size()));
  for (size_t rank = 0; rank + 1 < hosts.size(); ++rank) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("rank 5 (cpu:", line);
    EXPECT_SAYS("TIMED_OUT", line);
  }
  for (size_t rank = 0; rank < hosts.size(); ++rank) job[rank].write_line("end");
}

// The kernel of its host accepts the connection.
TEST_P(HostFailureTest, StoppedRankIsNamedAtTheDeadlineOfTheFirstContact) {
  WireJob job("ab", "first_contact", "cpu", /*staged=*/false, /*seconds=*/1);
  for (size_t rank = 0; rank < 2; ++rank) ASSERT_EQ(job[rank].read_line(), "here");
  ASSERT_EQ(::kill(job[0].pid(), SIGSTOP), 0);
  job[1].write_line("go");
  const std::string line = job[1].read_line();
  EXPECT_SAYS("TIMED_OUT barrier, operation 0, over", line);
  EXPECT_SAYS("rank 0 (cpu:", line);
  job[0].kill();
  job[1].write_line("end");
  EXPECT_EQ(job[1].wait(), 0);
}

TEST_P(HostFailureTest, FirstContactWithAStoppedRankHoldsUpNoOther) {
  WireJob job("abc", "past_stopped");
  for (size_t rank = 0; rank < 3; ++rank) ASSERT_EQ(job[rank].read_line(), "here");
  ASSERT_EQ(::kill(job[0].pid(), SIGSTOP), 0);
  for (const size_t rank : {1, 2}) job[rank].write_line("go");
  EXPECT_SAYS("KEEL_OK", job[1].read_line());
  job[0].kill();
  EXPECT_SAYS("rank 0 (cpu:", job[2].read_line());
  for (const size_t rank : {1, 2}) job[rank].write_line("end");
  for (const size_t rank : {1, 2}) EXPECT_EQ(job[rank].wait(), 0);
}

TEST_P(HostFailureTest, RankLeavesThatConnectsToAStoppedRank) {
  WireJob job("ab", "leave_in_vain");
  for (size_t rank = 0; rank < 2; ++rank) ASSERT_EQ(job[rank].read_line(), "here");
  ASSERT_EQ(::kill(job[0].pid(), SIGSTOP), 0);
  job[1].write_line("go");
  EXPECT_SAYS("TIMED_OUT the communicator's operations did not end in time", job[1].read_line());
  EXPECT_EQ(job[1].wait(), 0);
}

// Missed by a rank of its own host, and by ranks of other hosts alone.
TEST_P(HostFailureTest, RankThatDoesNotSplitIsNamedToAll) {
  for (const std::string hosts : {"aabb", "abc"}) {
    WireJob job(hosts, "split_without_one", "cpu", /*staged=*/false, /*seconds=*/1);
    const size_t last = hosts.size() - 1;
    for (size_t rank = 0; rank < last; ++rank) {
      const std::string line = job[rank].read_line();
      EXPECT_SAYS("TIMED_OUT", line);
      EXPECT_SAYS("rank " + std::to_string(last) + " (cpu:", line);
      if (hosts == "aabb") {
        EXPECT_SAYS("rank 2 is at split(), rank 3 at nothing", line);
      }
    }
    job[last].write_line("end");
    job.expect_success();
  }
}

TEST_P(HostFailureTest, AbortReachesAllHosts) {
  WireJob job("abc", "abort");
  EXPECT_EQ(job[0].read_line(), "running");
  EXPECT_EQ(job[2].read_line(), "running");
  job[1].write_line("now");
  EXPECT_EQ(job[1].read_line(), "aborted");
  for (const size_t rank : {0, 2}) {
    const std::string line = job[rank].read_line();
    EXPECT_SAYS("ABORTED", line);
    EXPECT_SAYS("rank 1 aborted", line);
  }
  job[1].write_line("end");
  job.expect_success();
}

// The process of rank 0 serves the job: the others tell each other who fails.
TEST_P(HostFailureTest, FailureIsToldAtOnceAfterRankZeroHasLeft) {
  for (const bool aborts : {false, true}) {
    WireJob job("abcd", "without_rank_zero");
    EXPECT_EQ(job[0].wait(), 0);
    for (const size_t rank : {1, 2, 3}) ASSERT_EQ(job[rank].read_line(), "alone");
    for (const size_t rank : {1, 2}) job[rank].write_line("go");
    if (aborts) {
      job[3].write_line("go");
    } else {
      job[3].kill();
    }
    for (const size_t rank : {1, 2}) {
      const std::string line = job[rank].read_line();
      EXPECT_SAYS(aborts ? "ABORTED" : "RANK_FAILED", line);
      EXPECT_SAYS(aborts ? "rank 3 aborted" : "rank 3 (cpu:", line);
    }
    if (aborts) job[3].write_line("end");
    for (const size_t rank : {1, 2}) EXPECT_EQ(job[rank].wait(), 0);
  }
}

}  // namespace

const std::map<std::string, WireProgram>& wire_programs() {
  static const std::map<std::string, WireProgram> programs = {
      {"until_failure", until_failure},
      {"abort", abort_it},
      {"mismatch", mismatch},
      {"without_rank_zero", without_rank_zero},
      {"without_rank_one", without_rank_one},
      {"split_without_one", split_without_one},
      {"unlike_calls", unlike_calls},
      {"absent_rank", absent_rank},
      {"unlike_messages", unlike_messages},
      {"group_in_vain", group_in_vain},
      {"first_contact", first_contact},
      {"past_stopped", past_stopped},
      {"leave_in_vain", leave_in_vain}};
  return programs;
}

}  // namespace keel::testing
