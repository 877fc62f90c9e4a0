// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/rendezvous.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/bootstrap_address.h"
#include "collectives/bootstrap/namespaces.h"
#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/sockets.h"

namespace keel::testing {
namespace {

constexpr int64_t kTestTimeoutNs = 60'000'000'000;
constexpr int64_t kShortNs = 50'000'000;

// Number of calls of the factory, which creates an object of one page.
std::atomic<uint32_t> g_factory_calls{0};
Status make_segment(const std::vector<PeerInfo>& peer_infos, FileDescriptor* out_segment) {
  ++g_factory_calls;
  EXPECT_FALSE(peer_infos.empty());
  *out_segment = make_sealed_object();
  return {};
}
Status make_no_segment(const std::vector<PeerInfo>&, FileDescriptor*) {
  return failure(KEEL_OUT_OF_MEMORY, "no segment today");
}

uint64_t own_start_time() {
  uint64_t start_time = 0;
  EXPECT_TRUE(process_start_time(getpid(), &start_time).ok());
  return start_time;
}

PeerInfo peer_info(uint32_t rank) {
  // Read once: the kernel visits all threads for it, and there may be a thousand.
  static const uint64_t start_time = own_start_time();
  PeerInfo self;
  self.rank = rank;
  self.pid = 4242;  // ignored: the kernel's pid counts
  self.start_time = start_time;
  self.process.bytes[0] = static_cast<uint8_t>(getpid());
  self.process.bytes[1] = static_cast<uint8_t>(getpid() >> 8);
  self.flags = rank * 3;
  self.device = fmt::format("cpu:{}", rank);
  return self;
}

uint64_t inode_of(const FileDescriptor& fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd.get(), &info), 0);
  return info.st_ino;
}

Status attend(const keel_unique_id& id, uint32_t rank, uint32_t world, Rendezvous* out_rendezvous,
              int64_t timeout_ns = kTestTimeoutNs) {
  return attend_rendezvous(id, peer_info(rank), world, Deadline::after(timeout_ns), out_rendezvous);
}

keel_unique_id id_of(const std::string& text) {
  keel_unique_id id = {};
  text.copy(id.text, sizeof(id.text) - 1);
  return id;
}

// A rank on its own thread.
class Rank {
 public:
  Rank(const keel_unique_id& id, uint32_t rank, uint32_t world, int64_t timeout_ns = kTestTimeoutNs)
      : thread_([=, this] { status_ = attend(id, rank, world, &rendezvous_, timeout_ns); }) {}
  ~Rank() {
    if (thread_.joinable()) thread_.join();
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  const Status& status() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  const Rendezvous& rendezvous() const { return rendezvous_; }

 private:
  Rendezvous rendezvous_;
  Status status_;
  std::thread thread_;
};

// Waits until |probe|, a rank that repeatedly joins and gives up, gets the answer "|absent| ...
// have not come": then all remaining ranks have arrived.
void wait_until_only(const keel_unique_id& id, uint32_t probe, uint32_t world,
                     const std::string& absent) {
  while (true) {
    Rendezvous rendezvous;
    const Status status = attend(id, probe, world, &rendezvous, 1'000'000);
    ASSERT_EQ(status.code(), KEEL_TIMED_OUT) << status.text();
    if (std::string(status.text()).find(absent) != std::string::npos) return;
    std::this_thread::yield();
  }
}

// ---- workers ----

// Arguments FIRST_RANK COUNT WORLD ID: joins with COUNT threads, then prints the pid and each
// thread's result.
int attend_worker(const std::vector<std::string>& arguments) {
  const auto first = static_cast<uint32_t>(std::stoul(arguments[0]));
  const auto count = static_cast<uint32_t>(std::stoul(arguments[1]));
  const auto world = static_cast<uint32_t>(std::stoul(arguments[2]));
  std::vector<std::string> lines(count);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      Rendezvous rendezvous;
      const Status status = attend(id_of(arguments[3]), first + i, world, &rendezvous);
      if (!status.ok()) {
        lines[i] = fmt::format("{}: {}", status_name(status.code()), status.text());
        return;
      }
      std::set<int64_t> pids;
      bool all_right = rendezvous.peer_infos.size() == world;
      for (uint32_t rank = 0; all_right && rank < world; ++rank) {
        PeerInfo expected = peer_info(rank);
        const PeerInfo& found = rendezvous.peer_infos[rank];
        all_right =
            found.rank == rank && found.flags == expected.flags && found.device == expected.device;
        pids.insert(found.pid);
      }
      all_right = all_right && rendezvous.peer_infos[first + i].pid == getpid();
      lines[i] = fmt::format("{} {} {}", all_right, pids.size(), inode_of(rendezvous.segment));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& line : lines) say(line);
  return 0;
}

// Serves a rendezvous, prints its id, and ends without any cleanup.
int serve_worker(const std::vector<std::string>& arguments) {
  keel_unique_id id = {};
  const Status served = arguments.empty() ? serve_rendezvous(make_segment, &id)
                                          : serve_rendezvous_at(make_segment, arguments[0], &id);
  say(served.ok() ? id.text : served.text());
  hear();
  return 0;
}

// ---- tests ----

TEST(RendezvousTest, ThreadsOfEightProcesses) {
  constexpr uint32_t kProcesses = 8;
  constexpr uint32_t kThreads = 4;
  constexpr uint32_t kWorld = kProcesses * kThreads;
  g_factory_calls = 0;
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  std::vector<ChildProcess> children;
  for (uint32_t process = 0; process < kProcesses; ++process) {
    children.emplace_back("attend", std::vector<std::string>{std::to_string(process * kThreads),
                                                             std::to_string(kThreads),
                                                             std::to_string(kWorld), id.text});
  }
  std::set<std::string> lines;
  for (ChildProcess& child : children) {
    for (uint32_t i = 0; i < kThreads; ++i) lines.insert(child.read_line());
    EXPECT_EQ(child.wait(), 0);
  }
  // All threads have seen all ranks, eight processes and one segment.
  ASSERT_EQ(lines.size(), 1u) << *lines.begin() << "\n" << *lines.rbegin();
  EXPECT_TRUE(lines.begin()->starts_with("true 8 ")) << *lines.begin();
  EXPECT_EQ(g_factory_calls, 1u);
}

TEST(RendezvousTest, OneRankAlone) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  Rendezvous rendezvous;
  const Status status = attend(id, 0, 1, &rendezvous);
  ASSERT_TRUE(status.ok()) << status.text();
  ASSERT_EQ(rendezvous.peer_infos.size(), 1u);
  PeerInfo expected = peer_info(0);
  expected.pid = getpid();
  EXPECT_EQ(rendezvous.peer_infos[0], expected);
  EXPECT_NE(fcntl(rendezvous.segment.get(), F_GETFD) & FD_CLOEXEC, 0);
  // The rendezvous is over; a late rank fails at once, whatever its deadline.
  const Status late = attend(id, 0, 1, &rendezvous);
  EXPECT_EQ(late.code(), KEEL_UNAVAILABLE) << late.text();
}

TEST(RendezvousTest, AMissingRankIsNamed) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  Rank patient(id, 0, 16);
  wait_until_only(id, 5, 16, "ranks 1-4, 6-15 of 16 have not come");
  // The rank may join again, together with the missing ranks.
  std::vector<std::unique_ptr<Rank>> rest;
  for (uint32_t rank = 1; rank < 16; ++rank) {
    rest.push_back(std::make_unique<Rank>(id, rank, 16));
  }
  EXPECT_TRUE(patient.status().ok()) << patient.status().text();
  for (auto& rank : rest) EXPECT_TRUE(rank->status().ok()) << rank->status().text();
}

TEST(RendezvousTest, WhoGaveUpIsTold) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  Rendezvous rendezvous;
  EXPECT_EQ(attend(id, 2, 3, &rendezvous, kShortNs).code(), KEEL_TIMED_OUT);
  // Long enough for the server to notice that rank 2 has left.
  const Status status = attend(id, 0, 3, &rendezvous, 20 * kShortNs);
  EXPECT_EQ(status.code(), KEEL_TIMED_OUT);
  EXPECT_NE(std::string(status.text()).find("ranks 1, 2 of 3 have not come (rank 2 had, and gave"),
            std::string::npos)
      << status.text();
}

TEST(RendezvousTest, ARankThatComesTwice) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  Rank first(id, 1, 3);
  wait_until_only(id, 0, 3, "rank 2 of 3 has not come");
  Rendezvous rendezvous;
  const Status twice = attend(id, 1, 3, &rendezvous);
  EXPECT_EQ(twice.code(), KEEL_ALREADY_EXISTS);
  const std::string text = twice.text();
  EXPECT_NE(text.find("rank 1 is there already"), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(getpid())), std::string::npos) << text;
  Rank second(id, 0, 3);
  EXPECT_TRUE(attend(id, 2, 3, &rendezvous).ok());
  EXPECT_TRUE(first.status().ok()) << first.status().text();
}

TEST(RendezvousTest, AWorldThatDiffers) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  Rank first(id, 1, 3);
  wait_until_only(id, 0, 3, "rank 2 of 3 has not come");
  Rendezvous rendezvous;
  const Status other = attend(id, 3, 8, &rendezvous);
  EXPECT_EQ(other.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(
      std::string(other.text()).find("rank 3 says that the world has 8 ranks, rank 1 has said 3"),
      std::string::npos)
      << other.text();
  Rank second(id, 0, 3);
  EXPECT_TRUE(attend(id, 2, 3, &rendezvous).ok());
  EXPECT_TRUE(first.status().ok()) << first.status().text();
}

TEST(RendezvousTest, AKilledRankFailsTheOthers) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  Rank survivor(id, 0, 4);
  ChildProcess victim("attend", {"3", "1", "4", id.text});
  wait_until_only(id, 1, 4, "rank 2 of 4 has not come");
  const std::string pid = std::to_string(victim.pid());
  victim.kill();
  EXPECT_EQ(survivor.status().code(), KEEL_RANK_FAILED);
  const std::string text = survivor.status().text();
  EXPECT_NE(text.find("rank 3 (process " + pid), std::string::npos) << text;
  // Later ranks get the same failure; then the rendezvous is over.
  Rendezvous rendezvous;
  for (uint32_t rank : {1, 2}) {
    const Status late = attend(id, rank, 4, &rendezvous);
    EXPECT_EQ(late.code(), KEEL_RANK_FAILED) << late.text();
    EXPECT_NE(std::string(late.text()).find("rank 3 (process " + pid), std::string::npos);
  }
  EXPECT_EQ(attend(id, 2, 4, &rendezvous).code(), KEEL_UNAVAILABLE);
}

TEST(RendezvousTest, TheServersEndIsNoticed) {
  ChildProcess server("serve", {});
  const keel_unique_id id = id_of(server.read_line());
  Rank rank(id, 0, 3);
  wait_until_only(id, 1, 3, "rank 2 of 3 has not come");
  server.kill();
  EXPECT_EQ(rank.status().code(), KEEL_RANK_FAILED) << rank.status().text();
  EXPECT_NE(std::string(rank.status().text()).find(std::to_string(server.pid())), std::string::npos)
      << rank.status().text();
  EXPECT_EQ(server.wait(), 128 + 9);
  Rendezvous rendezvous;
  EXPECT_EQ(attend(id, 0, 2, &rendezvous).code(), KEEL_UNAVAILABLE);
}

TEST(RendezvousTest, AServerEndsCleanlyInTheMiddle) {
  ChildProcess server("serve", {});
  const keel_unique_id id = id_of(server.read_line());
  Rank rank(id, 0, 3);
  wait_until_only(id, 1, 3, "rank 2 of 3 has not come");
  server.write_line("");
  EXPECT_EQ(server.wait(), 0);  // not a sanitizer's exit status
  EXPECT_EQ(rank.status().code(), KEEL_RANK_FAILED) << rank.status().text();
}

TEST(RendezvousTest, SeveralAtOnce) {
  constexpr uint32_t kRendezvous = 8;
  constexpr uint32_t kWorld = 3;
  std::vector<keel_unique_id> ids(kRendezvous);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (keel_unique_id& id : ids) ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    for (const keel_unique_id& id : ids) ranks.push_back(std::make_unique<Rank>(id, rank, kWorld));
  }
  std::set<uint64_t> segments;
  for (auto& rank : ranks) {
    ASSERT_TRUE(rank->status().ok()) << rank->status().text();
    segments.insert(inode_of(rank->rendezvous().segment));
  }
  EXPECT_EQ(segments.size(), kRendezvous);
}

TEST(RendezvousTest, AFactoryThatFailsFailsAll) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_no_segment, &id).ok());
  Rank other(id, 1, 2);
  Rendezvous rendezvous;
  const Status status = attend(id, 0, 2, &rendezvous);
  EXPECT_EQ(status.code(), KEEL_OUT_OF_MEMORY);
  EXPECT_NE(std::string(status.text()).find("no segment today"), std::string::npos);
  EXPECT_EQ(other.status().code(), KEEL_OUT_OF_MEMORY);
}

TEST(RendezvousTest, ByName) {
  const std::string name = fmt::format("job {} with \"odd\" characters\n", getpid());
  const keel_unique_id id = rendezvous_id(name);
  Rank early(id, 1, 2);  // before the rendezvous is served
  keel_unique_id served = {};
  ASSERT_TRUE(serve_rendezvous_at(make_segment, name, &served).ok());
  EXPECT_STREQ(served.text, id.text);
  const Status again = serve_rendezvous_at(make_segment, name, &served);
  EXPECT_EQ(again.code(), KEEL_ALREADY_EXISTS);
  EXPECT_NE(std::string(again.text()).find(fmt::format("process {} ", getpid())), std::string::npos)
      << again.text();
  ChildProcess rival("serve", {name});
  // In the second line: the name contains a newline.
  EXPECT_NE((rival.read_line() + rival.read_line()).find("already"), std::string::npos);
  Rendezvous rendezvous;
  const Status status = attend(id, 0, 2, &rendezvous);
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_TRUE(early.status().ok()) << early.status().text();
  // The name is free again.
  EXPECT_TRUE(serve_rendezvous_at(make_segment, name, &served).ok());
  EXPECT_TRUE(attend(id, 0, 1, &rendezvous).ok());
}

TEST(RendezvousTest, NobodyServes) {
  Rendezvous rendezvous;
  const Status status =
      attend(rendezvous_id(fmt::format("nobody {}", getpid())), 2, 3, &rendezvous, kShortNs);
  EXPECT_EQ(status.code(), KEEL_TIMED_OUT);
  EXPECT_NE(std::string(status.text()).find("rank 2 of 3"), std::string::npos) << status.text();
}

TEST(RendezvousTest, ArgumentsOutOfBounds) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  Rendezvous rendezvous;
  EXPECT_EQ(attend(id, 0, 0, &rendezvous).code(), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(attend(id, 2, 2, &rendezvous).code(), KEEL_INVALID_ARGUMENT);
  EXPECT_EQ(attend(id, 0, kMaxWorld + 1, &rendezvous).code(), KEEL_INVALID_ARGUMENT);
  PeerInfo self = peer_info(0);
  self.device = std::string(kMaxDeviceName + 1, 'd');
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  EXPECT_EQ(attend_rendezvous(id, self, 1, deadline, &rendezvous).code(), KEEL_INVALID_ARGUMENT);
  self.device = "cpu\n0";
  EXPECT_EQ(attend_rendezvous(id, self, 1, deadline, &rendezvous).code(), KEEL_INVALID_ARGUMENT);
  self.device = std::string(kMaxDeviceName, 'd');
  const Status status = attend_rendezvous(id, self, 1, deadline, &rendezvous);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(rendezvous.peer_infos[0].device, self.device);
}

TEST(RendezvousTest, StrangersHarmNothing) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  BootstrapAddress place;
  ASSERT_TRUE(BootstrapAddress::parse(id, &place).ok());
  Rank rank(id, 0, 3);
  wait_until_only(id, 1, 3, "rank 2 of 3 has not come");
  const FileDescriptor silent = stranger(place.socket_name());
  for (const Bytes& bytes : nonsense(write_hello({3, peer_info(1)}))) {
    const FileDescriptor socket = stranger(place.socket_name());
    send_raw(socket, bytes);
    const Status answer = answer_to(socket);
    EXPECT_TRUE(answer.code() == KEEL_DATA_LOSS || answer.code() == KEEL_UNSUPPORTED)
        << answer.text();
  }
  {
    const FileDescriptor socket = stranger(place.socket_name());
    send_raw(socket, write_hello({3, peer_info(3)}));  // attend_rendezvous() would refuse it
    EXPECT_EQ(answer_to(socket).code(), KEEL_DATA_LOSS);
  }
  Rank other(id, 1, 3);
  Rendezvous rendezvous;
  EXPECT_TRUE(attend(id, 2, 3, &rendezvous).ok());
  EXPECT_TRUE(rank.status().ok()) << rank.status().text();
  // A connection that never sent a packet is answered too.
  EXPECT_EQ(answer_to(silent).code(), KEEL_UNAVAILABLE);
}

// Connects as an unprivileged user; returns 0 for a refusal that names both users.
int connect_as_nobody(const std::vector<std::string>& arguments) {
  const std::string& name = arguments[0];
  if (!become_nobody()) return 99;
  FileDescriptor socket;
  Peer peer;
  const Status refused =
      connect_to(name, Absence::kFails, Deadline::after(kTestTimeoutNs), &socket, &peer);
  if (refused.code() != KEEL_PERMISSION_DENIED) return 1;
  return std::string(refused.text()).find("uid 0, not 65534") != std::string::npos ? 0 : 2;
}

TEST(RendezvousTest, RankOfAnotherPidNamespaceIsRefusedToAll) {
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  BootstrapAddress place;
  ASSERT_TRUE(BootstrapAddress::parse(id, &place).ok());
  Rank rank(id, 0, 3);
  wait_until_only(id, 1, 3, "rank 2 of 3 has not come");
  const uint64_t elsewhere = namespace_number("pid") + 1;
  const FileDescriptor socket = stranger(place.socket_name());
  send_raw(socket, write_hello({3, peer_info(2), elsewhere}));
  Rendezvous rendezvous;
  for (const Status& status :
       {answer_to(socket), Status(rank.status()), attend(id, 1, 3, &rendezvous)}) {
    EXPECT_EQ(status.code(), KEEL_UNSUPPORTED) << status.text();
    const std::string text = status.text();
    EXPECT_NE(text.find("rank 2 (cpu:2, pid namespace " + std::to_string(elsewhere)),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("pid namespace " + std::to_string(elsewhere - 1)), std::string::npos)
        << text;
  }
}

TEST(RendezvousTest, FailureToMeetSaysWhereAndWhatToCheck) {
  const std::string socket = BootstrapAddress::named("nobody serves this").socket_name();
  Rendezvous rendezvous;
  const Status unserved = attend(rendezvous_id("nobody serves this"), 1, 2, &rendezvous, kShortNs);
  keel_unique_id id = {};
  ASSERT_TRUE(serve_rendezvous(make_segment, &id).ok());
  const Status alone = attend(id, 1, 2, &rendezvous, kShortNs);
  for (const Status& status : {unserved, alone}) {
    EXPECT_EQ(status.code(), KEEL_TIMED_OUT) << status.text();
    const std::string text = status.text();
    EXPECT_NE(text.find("'keel-meet-"), std::string::npos) << text;
    EXPECT_NE(text.find(rendezvous_conditions()), std::string::npos) << text;
  }
  EXPECT_NE(std::string(unserved.text()).find(socket), std::string::npos) << unserved.text();
}

TEST(RendezvousTest, AnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ChildProcess server("serve", {});
  BootstrapAddress place;
  ASSERT_TRUE(BootstrapAddress::parse(id_of(server.read_line()), &place).ok());
  ChildProcess nobody("nobody", {place.socket_name()});
  EXPECT_EQ(nobody.wait(), 0);
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {
      {"attend", attend_worker}, {"serve", serve_worker}, {"nobody", connect_as_nobody}};
  return all;
}

}  // namespace keel::testing
