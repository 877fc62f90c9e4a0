// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/proc_peers.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <future>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "collectives/bootstrap/lifelines.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/process_watch.h"
#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/sockets.h"

namespace keel::testing {
namespace {

// Prints how the process and an object of it can be reached, then obeys one line: "exec", "fork and
// exec", or ends.
int peer_worker(const std::vector<std::string>& arguments) {
  const FileDescriptor object = make_object(arguments[0] == "sealed" ? F_SEAL_SHRINK : 0);
  ProcPeer self;
  struct stat info = {};
  if (fstat(object.get(), &info) != 0) return 4;
  if (!own_start_time(&self.start_time).ok()) return 1;
  if (!ProcPeers::get().own_lifeline(&self.lifeline).ok()) return 2;
  if (pwrite(object.get(), "peer", 4, 0) != 4) return 3;
  std::ostringstream line;
  line << getpid() << ' ' << self.start_time << ' ' << self.lifeline.number << ' '
       << self.lifeline.pipe.device << ' ' << self.lifeline.pipe.inode << ' ' << info.st_dev << ' '
       << info.st_ino;
  say(line.str());
  const std::string order = hear();
  if (order == "fork and exec" && fork() == 0) {
    hear();
    return 0;
  }
  if (!order.empty()) execl("/bin/cat", "cat", nullptr);  // until its input ends
  return 0;
}

struct Reach {
  ProcPeer peer;
  ObjectId object;
};
Reach reach_of(ChildProcess& child) {
  Reach reach;
  std::istringstream line(child.read_line());
  line >> reach.peer.pid >> reach.peer.start_time >> reach.peer.lifeline.number >>
      reach.peer.lifeline.pipe.device >> reach.peer.lifeline.pipe.inode >> reach.object.device >>
      reach.object.inode;
  EXPECT_TRUE(line) << line.str();
  return reach;
}

ProcessToken random_token() {
  ProcessToken token;
  EXPECT_TRUE(random_bytes(&token.bytes).ok());
  return token;
}

TEST(ProcPeersTest, ObjectIsOpenedForWritingThroughFetchObject) {
  ChildProcess child("peer", {"sealed"});
  const Reach reach = reach_of(child);
  const ProcessToken token = random_token();
  ProcPeers::get().add(token, reach.peer);
  FileDescriptor file;
  const Status fetched = fetch_object(
      token, reach.object, Deadline::after(0), [] { return false; }, &file);
  ASSERT_TRUE(fetched.ok()) << fetched.text();
  char* const memory =
      static_cast<char*>(mmap(nullptr, 4, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_EQ(std::string(memory, 4), "peer");
  munmap(memory, 4);
}

TEST(ProcPeersTest, UnknownObjectAndEndedProcessAreTold) {
  ChildProcess child("peer", {"sealed"});
  const Reach reach = reach_of(child);
  FileDescriptor file;
  const ObjectId none = {reach.object.device, ~reach.object.inode};
  EXPECT_EQ(fetch_through_proc(reach.peer, none, &file).code(), KEEL_NOT_FOUND);
  ProcPeer other = reach.peer;
  ++other.start_time;  // the pid was reused
  EXPECT_EQ(fetch_through_proc(other, reach.object, &file).code(), KEEL_RANK_FAILED);
  other.start_time = 0;
  EXPECT_EQ(fetch_through_proc(other, reach.object, &file).code(), KEEL_UNSUPPORTED);
  child.kill();
  child.wait();
  EXPECT_EQ(fetch_through_proc(reach.peer, reach.object, &file).code(), KEEL_RANK_FAILED);
  EXPECT_EQ(open_lifeline(reach.peer, &file).code(), KEEL_NOT_FOUND);
}

TEST(ProcPeersTest, ObjectThatMayShrinkIsRefused) {
  ChildProcess child("peer", {"unsealed"});
  const Reach reach = reach_of(child);
  FileDescriptor file;
  EXPECT_EQ(fetch_through_proc(reach.peer, reach.object, &file).code(), KEEL_FAILED_PRECONDITION);
}

TEST(ProcPeersTest, NumberOfAnotherFileIsNoLifeline) {
  ChildProcess child("peer", {"sealed"});
  Reach reach = reach_of(child);
  FileDescriptor file;
  EXPECT_TRUE(open_lifeline(reach.peer, &file).ok());
  reach.peer.lifeline.number = 0;  // the child's input is a pipe, too
  EXPECT_EQ(open_lifeline(reach.peer, &file).code(), KEEL_NOT_FOUND);
}

// The status of a watch, as an exec of the process ends it.
class ProcPeersLifelineTest : public ::testing::TestWithParam<const char*> {};

TEST_P(ProcPeersLifelineTest, EndOfTheProgramIsNoticed) {
  ChildProcess child("peer", {"sealed"});
  const ProcessToken token = random_token();
  ProcPeers::get().add(token, reach_of(child).peer);
  std::promise<void> cut;
  uint64_t watch = 0;
  const Status watched = Lifelines::get().watch(
      token, [&] { cut.set_value(); }, &watch);
  ASSERT_TRUE(watched.ok()) << watched.text();
  EXPECT_NE(watch, 0u);
  const std::string order = GetParam();
  if (order == "kill") {
    child.kill();
  } else {
    child.write_line(order);
  }
  cut.get_future().wait();
}
INSTANTIATE_TEST_SUITE_P(Ends, ProcPeersLifelineTest,
                         ::testing::Values("kill", "exec", "fork and exec"), [](const auto& info) {
                           std::string name = info.param;
                           for (char& each : name) {
                             if (each == ' ') each = '_';
                           }
                           return name;
                         });

int stranger_worker(const std::vector<std::string>& arguments) {
  ProcPeer peer;
  peer.pid = std::stoll(arguments[0]);
  peer.start_time = std::stoull(arguments[1]);
  if (!become_nobody()) return 99;
  FileDescriptor file;
  const Status refused = fetch_through_proc(peer, {1, 2}, &file);
  if (refused.code() != KEEL_PERMISSION_DENIED) return 1;
  return std::string(refused.text()).find("all ranks need the same user") != std::string::npos ? 0
                                                                                               : 2;
}

TEST(ProcPeersTest, AnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ChildProcess child("peer", {"sealed"});
  const Reach reach = reach_of(child);
  ChildProcess stranger("stranger",
                        {std::to_string(reach.peer.pid), std::to_string(reach.peer.start_time)});
  EXPECT_EQ(stranger.wait(), 0);
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"peer", peer_worker},
                                                    {"stranger", stranger_worker}};
  return all;
}

}  // namespace keel::testing
