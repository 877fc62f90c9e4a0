// SPDX-License-Identifier: Apache-2.0
// Ranks of several hosts that end, stop or leave, each in a process with its own KEEL_HOST_ID.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {
namespace {

constexpr int64_t kTestTimeoutNs = 120'000'000'000;

keel_unique_id id_of(const std::string& text) {
  keel_unique_id id = {};
  text.copy(id.text, sizeof(id.text) - 1);
  return id;
}

Status wait_for_failure(const HostSession& session) {
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (session.failure().ok() && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return session.failure();
}

// Arguments: id ("" : serves one and says it), rank, world, host. Commands on standard input:
//  leave: leaves the job.   await: says the failure of the job.   ring: one message around all.
//  wait: waits for a message of the next rank, and says the failure that report() returns.
int rank_process(const std::vector<std::string>& arguments) {
  setenv("KEEL_HOST_ID", arguments[3].c_str(), 1);
  keel_unique_id id = id_of(arguments[0]);
  if (arguments[0].empty()) {
    const Status served = serve_hosts({"", {0}}, &id);  // 127.0.0.1, or KEEL_INTERFACE
    say(served.ok() ? id.text : served.text());
  }
  auto rank = static_cast<uint32_t>(std::stoul(arguments[1]));
  auto world = static_cast<uint32_t>(std::stoul(arguments[2]));
  PeerInfo self;
  self.rank = rank;
  self.pid = getpid();
  self.process = MemHandleServer::get().token();
  self.device = "cpu:0";
  std::unique_ptr<HostSession> session;
  const Status joined =
      HostSession::join(id, self, world, "", Deadline::after(kTestTimeoutNs), &session);
  say(joined.ok() ? fmt::format("{} hosts", session->table().hosts().size()) : joined.text());
  if (!joined.ok()) return 1;
  std::unique_ptr<WireSet> wires;
  if (!session->open_wires(0, &wires).ok()) return 1;
  const auto run = [&](std::vector<WireRequest*> requests) {
    const Deadline deadline = Deadline::after(kTestTimeoutNs);
    for (const WireRequest* each : requests) {
      while (!each->is_done() && !deadline.passed()) {
        if (wires->progress()) continue;
        wires->park(20'000'000);
        if (session->has_outlived_server()) session->look_for(wires->unconnected());
      }
    }
  };
  for (std::string command = hear(); !command.empty(); command = hear()) {
    const uint32_t next = (rank + 1) % world;
    const uint32_t before = (rank + world - 1) % world;
    WireRequest send;
    WireRequest receive;
    uint32_t out = rank;
    uint32_t in = UINT32_MAX;
    send.set_memory(&out, sizeof(out));
    receive.set_memory(&in, sizeof(in));
    if (command == "ring") {
      wires->post_receive(before, 0, receive);
      wires->post_send(next, 0, send);
      run({&send, &receive});
      say(receive.status().ok() ? fmt::format("from {}", in) : receive.status().text());
    } else if (command == "wait") {
      wires->post_receive(next, 0, receive);
      run({&receive});
      uint32_t peer = UINT32_MAX;
      const Status failed = wires->failure(&peer);
      say(peer == UINT32_MAX ? wait_for_failure(*session).text()  // judged meanwhile
                             : session->report(peer, failed).text());
    } else if (command == "regroup") {
      // Until no further rank fails on the way.
      Status status;
      do {
        std::unique_ptr<HostSession> next_session;
        HostSession::RegroupRequest request;
        for (uint32_t each = 0; each < world; ++each) request.members.push_back(each);
        HostSession::RegroupPlace place;
        status = session->regroup(request, Deadline::after(kTestTimeoutNs), &place);
        if (status.ok()) {
          self.rank = place.rank;
          status = HostSession::join(place.id, self, static_cast<uint32_t>(place.left.size()), "",
                                     Deadline::after(kTestTimeoutNs), &next_session);
        }
        if (status.ok()) {
          wires.reset();
          session = std::move(next_session);
          rank = self.rank;
          world = static_cast<uint32_t>(session->table().ranks.size());
          status = session->open_wires(0, &wires);
        }
      } while (status.code() == KEEL_RANK_FAILED);
      say(status.ok() ? fmt::format("rank {} of {}, epoch {}", rank, world, session->table().epoch)
                      : status.text());
    } else if (command == "await") {
      say(wait_for_failure(*session).text());
    } else if (command == "abort") {
      session->abort(failure(KEEL_ABORTED, "rank {} has had enough", rank));
      say("aborted");
    } else if (command == "leave") {
      wires.reset();
      session->leave();
      session.reset();
      say("left");
      return 0;
    }
  }
  return 0;
}

// Processes of |hosts.size()| ranks that have met.
class HostFailureTest : public ::testing::Test {
 protected:
  // |connects|: whether neighbours exchange a message, which connects them.
  void start(const std::vector<std::string>& hosts, const std::string& number_of_hosts,
             bool connects = true) {
    const std::string world = std::to_string(hosts.size());
    std::string id;
    for (size_t rank = 0; rank < hosts.size(); ++rank) {
      ranks_.push_back(std::make_unique<ChildProcess>(
          "rank", std::vector<std::string>{id, std::to_string(rank), world, hosts[rank]}));
      if (rank == 0) id = ranks_[0]->read_line();
    }
    for (auto& each : ranks_) ASSERT_EQ(each->read_line(), number_of_hosts + " hosts");
    for (auto& each : ranks_) {
      if (connects) each->write_line("ring");
    }
    for (size_t rank = 0; connects && rank < hosts.size(); ++rank) {
      ASSERT_EQ(ranks_[rank]->read_line(),
                fmt::format("from {}", (rank + hosts.size() - 1) % hosts.size()));
    }
  }
  // Every rank but |gone| tells one failure with |parts|.
  void expect_all_tell(const std::string& command, size_t gone,
                       const std::vector<std::string>& parts) {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank != gone) ranks_[rank]->write_line(command);
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (rank == gone) continue;
      const std::string told = ranks_[rank]->read_line();
      for (const std::string& part : parts) {
        EXPECT_NE(told.find(part), std::string::npos) << "rank " << rank << ": " << told;
      }
    }
  }
  // Rank 0 leaves in order, and its process, the server, ends.
  void end_server() {
    ranks_[0]->write_line("leave");
    ASSERT_EQ(ranks_[0]->read_line(), "left");
    ASSERT_EQ(ranks_[0]->wait(), 0);
  }
  void expect_told(size_t rank, const std::string& part) {
    const std::string told = ranks_[rank]->read_line();
    EXPECT_NE(told.find(part), std::string::npos) << "rank " << rank << ": " << told;
  }
  std::vector<std::unique_ptr<ChildProcess>> ranks_;
};

TEST_F(HostFailureTest, KilledRankIsNamedWithItsHostToAll) {
  start({"a", "b", "a", "b"}, "2");
  ranks_[3]->kill();
  expect_all_tell("await", 3, {"rank 3", "host 'b'", "closed"});
}

TEST_F(HostFailureTest, KilledRankIsTheFailureOfRanksThatWaitForOthersToo) {
  start({"a", "b", "c"}, "3");
  for (size_t rank : {0, 2}) ranks_[rank]->write_line("wait");
  ranks_[1]->kill();
  for (size_t rank : {0, 2}) {
    const std::string told = ranks_[rank]->read_line();
    EXPECT_NE(told.find("rank 1"), std::string::npos) << told;
    EXPECT_NE(told.find("host 'b'"), std::string::npos) << told;
  }
}

TEST_F(HostFailureTest, KilledServerIsNamed) {
  start({"a", "b", "c"}, "3");
  ranks_[0]->kill();
  expect_all_tell("await", 0, {"rank 0", "host 'a'"});
}

TEST_F(HostFailureTest, AbortReachesAll) {
  start({"a", "b", "c"}, "3");
  ranks_[1]->write_line("abort");
  ASSERT_EQ(ranks_[1]->read_line(), "aborted");
  expect_all_tell("await", 3, {"rank 1 has had enough"});
}

// Its host still acknowledges, so a stopped rank is not taken for failed; the deadline of an
// operation judges that.
TEST_F(HostFailureTest, StoppedRankIsNotAccused) {
  setenv("KEEL_TCP_SILENCE_MS", "500", 1);
  start({"a", "b"}, "2");
  unsetenv("KEEL_TCP_SILENCE_MS");
  ASSERT_EQ(::kill(ranks_[1]->pid(), SIGSTOP), 0);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // several times the kernel's limit
  ASSERT_EQ(::kill(ranks_[1]->pid(), SIGCONT), 0);
  for (auto& each : ranks_) each->write_line("ring");
  EXPECT_EQ(ranks_[0]->read_line(), "from 1");
  EXPECT_EQ(ranks_[1]->read_line(), "from 0");
}

TEST_F(HostFailureTest, RanksThatAreLeftMeetAgainAndGoOn) {
  start({"a", "b", "c", "b"}, "3");
  ranks_[1]->kill();
  expect_all_tell("await", 1, {"rank 1"});
  for (size_t rank : {0, 2, 3}) ranks_[rank]->write_line("regroup");
  EXPECT_EQ(ranks_[0]->read_line(), "rank 0 of 3, epoch 2");
  EXPECT_EQ(ranks_[2]->read_line(), "rank 1 of 3, epoch 2");
  EXPECT_EQ(ranks_[3]->read_line(), "rank 2 of 3, epoch 2");
  for (size_t rank : {0, 2, 3}) ranks_[rank]->write_line("ring");
  EXPECT_EQ(ranks_[0]->read_line(), "from 2");
  EXPECT_EQ(ranks_[2]->read_line(), "from 0");
  EXPECT_EQ(ranks_[3]->read_line(), "from 1");
}

// One of them ends before, while or after the others ask to go on.
TEST_F(HostFailureTest, OneMoreRankMayEndWhileTheOthersRegroup) {
  start({"a", "b", "c", "d"}, "4");
  ranks_[1]->kill();
  expect_all_tell("await", 1, {"rank 1"});
  for (size_t rank : {0, 2}) ranks_[rank]->write_line("regroup");
  ranks_[3]->kill();
  EXPECT_EQ(ranks_[0]->read_line(), "rank 0 of 2, epoch 2");
  EXPECT_EQ(ranks_[2]->read_line(), "rank 1 of 2, epoch 2");
}

// The process that serves may end once its ranks have left; the others still see who fails.
TEST_F(HostFailureTest, ServerMayLeaveBeforeTheOthers) {
  start({"a", "b", "c"}, "3");
  end_server();
  ranks_[1]->write_line("wait");  // for rank 2
  ranks_[2]->kill();
  expect_told(1, "rank 2");
}

// Rank 1 alone waits for rank 2, and tells rank 3, which has a wire to rank 2 only. Both go on.
TEST_F(HostFailureTest, RankThatFindsAnEndTellsAllOnceTheServerHasLeft) {
  start({"a", "b", "c", "d"}, "4");
  end_server();
  ranks_[1]->write_line("wait");
  ranks_[3]->write_line("await");
  ranks_[2]->kill();
  expect_told(1, "rank 2 (cpu:0");
  expect_told(3, "rank 2 (cpu:0");
  for (const size_t rank : {1, 3}) ranks_[rank]->write_line("regroup");
  EXPECT_EQ(ranks_[1]->read_line(), "rank 0 of 2, epoch 2");
  EXPECT_EQ(ranks_[3]->read_line(), "rank 1 of 2, epoch 2");
}

TEST_F(HostFailureTest, AbortReachesAllOnceTheServerHasLeft) {
  start({"a", "b", "c", "d"}, "4", /*connects=*/false);
  end_server();
  for (const size_t rank : {2, 3}) ranks_[rank]->write_line("await");
  ranks_[1]->write_line("abort");
  ASSERT_EQ(ranks_[1]->read_line(), "aborted");
  for (const size_t rank : {2, 3}) expect_told(rank, "rank 1 has had enough");
}

// A rank that aborts and ends at once still tells the others.
TEST_F(HostFailureTest, LastWordsReachAllOnceTheServerHasLeft) {
  start({"a", "b", "c", "d"}, "4", /*connects=*/false);
  end_server();
  for (const size_t rank : {1, 2}) ranks_[rank]->write_line("await");
  ranks_[3]->write_line("abort");
  ranks_[3]->write_line("leave");
  ASSERT_EQ(ranks_[3]->read_line(), "aborted");
  for (const size_t rank : {1, 2}) expect_told(rank, "rank 3 has had enough");
}

// Rank 2, from which a connection would come, ends without one.
TEST_F(HostFailureTest, RankThatNeverConnectsIsNamedOnceTheServerHasLeft) {
  start({"a", "b", "c", "d"}, "4", /*connects=*/false);
  end_server();
  ranks_[2]->kill();
  ranks_[1]->write_line("wait");
  ranks_[3]->write_line("await");
  expect_told(1, "rank 2 (cpu:0");
  expect_told(3, "rank 2 (cpu:0");
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"rank", rank_process}};
  return all;
}

}  // namespace keel::testing
