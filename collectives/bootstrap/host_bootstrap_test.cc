// SPDX-License-Identifier: Apache-2.0
// Ranks that meet over the loopback interface, each on a thread of this process.
#include "collectives/bootstrap/host_bootstrap.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "collectives/bootstrap/host_listener.h"
#include "collectives/bootstrap/host_messages.h"
#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/tcp_dialog.h"
#include "collectives/bootstrap/tcp_id.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "collectives/bootstrap/testing/variable.h"

namespace keel {
namespace {

// Longer than a name may be, so that no name server is asked.
const std::string kNoHost(70, 'x');

constexpr int64_t kTestTimeoutNs = 60'000'000'000;
constexpr int64_t kShortNs = 2'000'000'000;

PeerInfo peer_info(uint32_t rank) {
  PeerInfo self;
  self.rank = rank;
  self.pid = getpid();
  self.process.bytes.fill(static_cast<uint8_t>(rank + 1));
  self.device = "cpu:0";
  return self;
}

// A rank that joins on a thread of its own.
class Rank {
 public:
  Rank(const keel_unique_id& id, uint32_t rank, uint32_t world, int64_t timeout_ns = kTestTimeoutNs)
      : thread_([=, this] {
          status_ = HostSession::join(id, peer_info(rank), world, fmt::format("facts {}", rank),
                                      Deadline::after(timeout_ns), &session_);
          is_done_ = true;
        }) {}
  ~Rank() {
    if (thread_.joinable()) thread_.join();
  }
  Status join() {
    if (thread_.joinable()) thread_.join();
    return status_;
  }
  bool is_done() const { return is_done_; }
  HostSession& session() { return *session_; }
  void end() { session_.reset(); }

 private:
  Status status_;
  std::unique_ptr<HostSession> session_;
  std::atomic<bool> is_done_{false};
  std::thread thread_;  // the last member: uses the others
};

keel_unique_id serve(const std::string& host = "127.0.0.1") {
  keel_unique_id id = {};
  const Status status = serve_hosts({host, {0}}, &id);
  EXPECT_TRUE(status.ok()) << status.text();
  return id;
}

std::vector<std::unique_ptr<Rank>> meet(const keel_unique_id& id, uint32_t world) {
  std::vector<std::unique_ptr<Rank>> ranks;
  for (uint32_t rank = 0; rank < world; ++rank) {
    ranks.push_back(std::make_unique<Rank>(id, rank, world));
  }
  for (auto& each : ranks) {
    const Status status = each->join();
    EXPECT_TRUE(status.ok()) << status.text();
  }
  return ranks;
}

Status wait_for_failure(const HostSession& session) {
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (session.failure().ok() && !deadline.passed()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return session.failure();
}

bool has(const Status& status, const std::string& part) {
  return std::string(status.text()).find(part) != std::string::npos;
}

TEST(HostBootstrapTest, AllRanksGetOneTable) {
  constexpr uint32_t kWorld = 5;
  const auto ranks = meet(serve(), kWorld);
  for (uint32_t rank = 0; rank < kWorld; ++rank) {
    const HostTable& table = ranks[rank]->session().table();
    ASSERT_EQ(table.ranks.size(), kWorld);
    EXPECT_EQ(table.ranks, ranks[0]->session().table().ranks);
    EXPECT_EQ(table.ranks[rank].facts, fmt::format("facts {}", rank));
    EXPECT_EQ(table.ranks[rank].peer.process, peer_info(rank).process);
    EXPECT_EQ(table.hosts().size(), 1u);
    EXPECT_EQ(ranks[rank]->session().rank(), rank);
    EXPECT_TRUE(ranks[rank]->session().failure().ok());
  }
}

TEST(HostBootstrapTest, RankIsPresentUntilItHasFinishedOrEnded) {
  const auto ranks = meet(serve(), 3);
  constexpr uint64_t kContext = 7;
  const auto find = [&](uint32_t rank, uint64_t context) {
    return ranks[0]->session().find_present(rank, context, Deadline::after(kTestTimeoutNs)).code();
  };
  EXPECT_EQ(find(1, kContext), KEEL_OK);
  EXPECT_EQ(find(2, kContext), KEEL_OK);
  ranks[1]->session().finish(kContext, {KEEL_FAILED_PRECONDITION, "gone on"});
  EXPECT_EQ(find(1, kContext), KEEL_RANK_FAILED);
  EXPECT_EQ(find(1, kContext + 1), KEEL_OK);
  ranks[2]->end();
  EXPECT_EQ(find(2, kContext), KEEL_RANK_FAILED);
}

// KEEL_INTERFACE is the name of an interface, and server and ranks share the ports.
TEST(HostBootstrapTest, RanksListenAtThePortsOfTheInterface) {
  SocketAddress address;
  FileDescriptor socket;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &address));
  ASSERT_TRUE(listen_tcp(address, &socket, &address).ok());
  const uint32_t last = std::max<uint32_t>(address.port(), 1024);
  const uint32_t first = last - 63;  // the last one is taken
  const keel::testing::Variable range("KEEL_PORTS", fmt::format("{}-{}", first, last));
  const keel::testing::Variable loopback("KEEL_INTERFACE", "lo");
  const keel_unique_id id = serve("");
  const auto ranks = meet(id, 2);
  TcpId parsed;
  ASSERT_TRUE(TcpId::parse(id, &parsed).ok());
  std::set<uint32_t> ports = {parsed.port};
  EXPECT_EQ(parsed.host, "127.0.0.1");
  for (const HostRank& each : ranks[0]->session().table().ranks) {
    SocketAddress listening;
    ASSERT_TRUE(SocketAddress::parse(each.address, &listening));
    EXPECT_EQ(listening.host(), "127.0.0.1");
    ports.insert(listening.port());
  }
  EXPECT_EQ(ports.size(), 3u);
  EXPECT_GE(*ports.begin(), first);
  EXPECT_LT(*ports.rbegin(), last);
}

// Without a launcher, ranks take the addresses of a list in turn; those of another family are of no
// use.
TEST(HostBootstrapTest, RanksTakeTheInterfacesOfAListInTurn) {
  const keel::testing::Variable list("KEEL_INTERFACE", "127.0.0.2,::1,127.0.0.3");
  const keel_unique_id id = serve("");
  TcpId parsed;
  ASSERT_TRUE(TcpId::parse(id, &parsed).ok());
  EXPECT_EQ(parsed.host, "127.0.0.2") << "the server has the first";
  const auto ranks = meet(id, 3);
  const char* const wanted[] = {"127.0.0.2", "127.0.0.3", "127.0.0.2"};
  for (uint32_t rank = 0; rank < 3; ++rank) {
    SocketAddress listening;
    const std::string& address = ranks[0]->session().table().ranks[rank].address;
    ASSERT_TRUE(SocketAddress::parse(address, &listening));
    EXPECT_EQ(listening.host(), wanted[rank]);
    const ChosenInterface& chosen = ranks[rank]->session().interface();
    EXPECT_EQ(chosen.address.host(), wanted[rank]);
    EXPECT_STREQ(chosen.reason_name(), "local_rank");
  }
}

TEST(HostBootstrapTest, ListWithoutAUsableInterfaceNamesEach) {
  const keel_unique_id id = serve("127.0.0.1");
  const keel::testing::Variable list("KEEL_INTERFACE", "keel-none,::1");
  Rank rank(id, 0, 1);
  const Status status = rank.join();
  EXPECT_EQ(status.code(), KEEL_NOT_FOUND);
  EXPECT_TRUE(
      has(status, "KEEL_INTERFACE is 'keel-none,::1': keel-none does not exist, ::1 is not"))
      << status.text();
}

TEST(HostBootstrapTest, NearestInterfaceOfALoopbackJobIsTheLoopback) {
  const keel::testing::Variable nearest("KEEL_INTERFACE", "nearest");
  const auto ranks = meet(serve(""), 2);
  for (const auto& each : ranks) {
    const ChosenInterface& chosen = each->session().interface();
    EXPECT_EQ(chosen.name, "lo");
    EXPECT_EQ(chosen.address.host(), "127.0.0.1");
    EXPECT_STREQ(chosen.reason_name(), "route");
  }
}

TEST(HostBootstrapTest, RanksMeetOverIpv6) {
  SocketAddress address;
  FileDescriptor socket;
  SocketAddress bound;
  ASSERT_TRUE(SocketAddress::parse("[::1]:0", &address));
  if (!listen_tcp(address, &socket, &bound).ok()) GTEST_SKIP() << "this host has no IPv6";
  const auto ranks = meet(serve("::1"), 2);
  EXPECT_EQ(ranks[1]->session().table().ranks[0].address.substr(0, 6), "[::1]:");
}

TEST(HostBootstrapTest, WiresOfTheSessionMoveData) {
  const auto ranks = meet(serve(), 2);
  std::unique_ptr<WireSet> wires[2];
  for (uint32_t rank = 0; rank < 2; ++rank) {
    ASSERT_TRUE(ranks[rank]->session().open_wires(5, &wires[rank]).ok());
  }
  EXPECT_EQ(ranks[0]->session().open_wires(5, &wires[0]).code(), KEEL_ALREADY_EXISTS);
  uint64_t out = 4711;
  uint64_t in = 0;
  WireRequest send;
  WireRequest receive;
  send.set_memory(&out, sizeof(out));
  receive.set_memory(&in, sizeof(in));
  wires[0]->post_send(1, 0, send);
  wires[1]->post_receive(0, 0, receive);
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (!receive.is_done() && !deadline.passed()) {
    wires[0]->progress();
    if (!wires[1]->progress()) wires[1]->park(1'000'000);
  }
  EXPECT_EQ(in, 4711u);
}

TEST(HostBootstrapTest, MissingRanksAreNamedAtTheDeadline) {
  const keel_unique_id id = serve();
  Rank rank(id, 1, 4, kShortNs);
  const Status status = rank.join();
  EXPECT_EQ(status.code(), KEEL_TIMED_OUT);
  EXPECT_TRUE(has(status, "ranks 0, 2, 3 of 4")) << status.text();
  meet(id, 4);  // the rank may join again
}

TEST(HostBootstrapTest, SecondRankOfANumberIsRefused) {
  const keel_unique_id id = serve();
  Rank one(id, 0, 2);
  Rank other(id, 0, 2);
  Rank last(id, 1, 2);
  const Status a = one.join();
  const Status b = other.join();
  EXPECT_TRUE(last.join().ok());
  EXPECT_NE(a.ok(), b.ok());
  const Status& refused = a.ok() ? b : a;
  // The refused rank came before or after the last one.
  EXPECT_TRUE(refused.code() == KEEL_ALREADY_EXISTS || refused.code() == KEEL_UNAVAILABLE)
      << refused.text();
}

TEST(HostBootstrapTest, RankWithAnotherWorldIsRefused) {
  const keel_unique_id id = serve();
  Rank of_two(id, 0, 2);
  Rank of_three(id, 1, 3);
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (!of_two.is_done() && !of_three.is_done() && !deadline.passed()) std::this_thread::yield();
  // The one that came second.
  Rank& refused = of_two.is_done() ? of_two : of_three;
  const Status status = refused.join();
  EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_TRUE(has(status, "2 ranks") || has(status, "said 2")) << status.text();
  if (&refused == &of_three) {
    EXPECT_TRUE(Rank(id, 1, 2).join().ok());
    EXPECT_TRUE(of_two.join().ok());
  } else {
    Rank first(id, 0, 3);
    EXPECT_TRUE(Rank(id, 2, 3).join().ok());
    EXPECT_TRUE(of_three.join().ok());
  }
}

TEST(HostBootstrapTest, EndedServerIsUnavailable) {
  const keel_unique_id id = serve();
  meet(id, 1);
  Rank late(id, 0, 1);
  EXPECT_EQ(late.join().code(), KEEL_UNAVAILABLE);
}

TEST(HostBootstrapTest, AbortReachesEveryRankWithOneText) {
  const auto ranks = meet(serve(), 3);
  std::atomic<int> calls{0};
  ranks[2]->session().set_on_failure([&](const Status&) { ++calls; });
  ranks[1]->session().abort(failure(KEEL_ABORTED, "rank 1 aborted: no more"));
  for (const auto& each : ranks) {
    const Status status = wait_for_failure(each->session());
    EXPECT_EQ(status.code(), KEEL_ABORTED);
    EXPECT_STREQ(status.text(), "rank 1 aborted: no more");
  }
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  while (calls == 0 && !deadline.passed()) std::this_thread::yield();
  ranks[2]->session().set_on_failure({});
  EXPECT_EQ(calls, 1);
  // Later wires are cancelled.
  std::unique_ptr<WireSet> wires;
  ASSERT_TRUE(ranks[0]->session().open_wires(1, &wires).ok());
  WireRequest request;
  wires->post_receive(1, 0, request);
  wires->progress();
  EXPECT_TRUE(request.is_done());
  EXPECT_EQ(request.status().code(), KEEL_ABORTED);
}

TEST(HostBootstrapTest, ReportedWireBecomesThePeersFailure) {
  const auto ranks = meet(serve(), 3);
  const Status verdict =
      ranks[0]->session().report(2, failure(KEEL_RANK_FAILED, "the cable is cut"));
  EXPECT_EQ(verdict.code(), KEEL_RANK_FAILED);
  EXPECT_TRUE(has(verdict, "rank 2") && has(verdict, "the cable is cut")) << verdict.text();
  EXPECT_STREQ(wait_for_failure(ranks[1]->session()).text(), verdict.text());
  EXPECT_EQ(ranks[1]->session().failed_ranks(), std::vector<uint32_t>{2});
}

TEST(HostBootstrapTest, LeavingInOrderIsNoFailure) {
  auto ranks = meet(serve(), 3);
  ranks[0]->end();
  ranks[1]->end();
  // An abort, which comes after the leaves on the same connection, is the first failure.
  ranks[2]->session().abort(failure(KEEL_ABORTED, "the last one"));
  EXPECT_STREQ(wait_for_failure(ranks[2]->session()).text(), "the last one");
}

TEST(HostBootstrapTest, WithoutASecretOnlyLoopbackIsServedAndTheRefusalHelps) {
  SocketAddress found;
  if (!interface_address("", &found).ok() || found.is_loopback()) {
    GTEST_SKIP() << "this host has the loopback interface alone";
  }
  keel_unique_id id = {};
  const Status status = serve_hosts({found.host(), {0}}, &id);
  EXPECT_EQ(status.code(), KEEL_FAILED_PRECONDITION);
  EXPECT_TRUE(has(status, "KEEL_SECRET_FILE")) << status.text();
}

TEST(HostBootstrapTest, NamesThatDoNotResolveAndPortsThatAreTakenAreNamed) {
  keel_unique_id id = {};
  EXPECT_TRUE(has(serve_hosts({kNoHost, {0}}, &id), kNoHost));
  const keel_unique_id first = serve();
  TcpId parsed;
  ASSERT_TRUE(TcpId::parse(first, &parsed).ok());
  const Status taken = serve_hosts({"127.0.0.1", {parsed.port}}, &id);
  EXPECT_EQ(taken.code(), KEEL_ALREADY_EXISTS);
  EXPECT_TRUE(has(taken, std::to_string(parsed.port))) << taken.text();
}

// Two jobs with one address: the second takes the next port, and its ranks find it there.
TEST(HostBootstrapTest, TwoJobsShareTheirPorts) {
  const keel_unique_id first = serve();
  TcpId taken;
  ASSERT_TRUE(TcpId::parse(first, &taken).ok());
  const HostServerAddress address = {"127.0.0.1", {taken.port, 0}};
  keel_unique_id second = {};
  ASSERT_TRUE(serve_hosts_at(address, "the second job", &second).ok());
  TcpId own;
  ASSERT_TRUE(TcpId::parse(second, &own).ok());
  std::unique_ptr<HostSession> session;
  const HostServerAddress known = {"127.0.0.1", {taken.port, own.port}};
  const Status joined = HostSession::join_at(known, "the second job", peer_info(0), 1, "",
                                             Deadline::after(kTestTimeoutNs), &session);
  EXPECT_TRUE(joined.ok()) << joined.text();
  // A rank of a third job finds neither, and says so at its deadline.
  std::unique_ptr<HostSession> none;
  const Status other = HostSession::join_at({"127.0.0.1", {taken.port}}, "a third job",
                                            peer_info(0), 1, "", Deadline::after(kShortNs), &none);
  EXPECT_EQ(other.code(), KEEL_TIMED_OUT);
  EXPECT_TRUE(has(other, "another job")) << other.text();
}

SocketAddress address_of(const keel_unique_id& id) {
  TcpId parsed;
  SocketAddress address;
  EXPECT_TRUE(TcpId::parse(id, &parsed).ok());
  EXPECT_TRUE(SocketAddress::parse(fmt::format("{}:{}", parsed.host, parsed.port), &address));
  return address;
}

// Scanners, half a header, sizes that lie, another protocol.
TEST(HostBootstrapTest, StrangersDoNoHarm) {
  const keel_unique_id id = serve();
  const SocketAddress address = address_of(id);
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  std::vector<Bytes> words = {
      {},
      {'G', 'E', 'T', ' ', '/', ' ', 'H', 'T', 'T', 'P', '/', '1', '.', '1', '\n'},
      {0x4b, 0x45},
      Bytes(5000, 0xff)};
  Bytes lying = write_opening({});
  const uint32_t lie = UINT32_MAX;
  std::memcpy(lying.data() + kMessageSizeOffset, &lie, sizeof(lie));
  words.push_back(lying);
  Bytes half = write_opening({});
  half.resize(half.size() / 2);
  words.push_back(half);
  words.push_back(write_proof({}));
  words.push_back(write_notice({}));
  std::vector<std::unique_ptr<TcpDialog>> strangers;
  for (size_t i = 0; i < 48; ++i) {
    auto dialog = std::make_unique<TcpDialog>();
    ASSERT_TRUE(dialog->connect(address, 2500, deadline).ok()) << i;
    static_cast<void>(dialog->send(words[i % words.size()], deadline));
    strangers.push_back(std::move(dialog));
  }
  meet(id, 2);
  // A malformed message closes its connection at once.
  Bytes reply;
  EXPECT_EQ(strangers[4]->receive(1024, deadline, &reply).code(), KEEL_RANK_FAILED);
}

// The oldest unfinished handshake is closed when more come than are kept, and a newcomer gets in.
TEST(HostListenerTest, FloodTakesThePlaceOfTheOldestStranger) {
  SocketAddress address;
  FileDescriptor socket;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &address));
  ASSERT_TRUE(listen_tcp(address, &socket, &address).ok());
  const HostSecret secret{std::string("a secret of sixteen bytes")};
  std::atomic<int> peers{0};
  std::shared_ptr<HostListener> listener;
  constexpr size_t kMost = 8;
  ASSERT_TRUE(HostListener::open(
                  std::move(socket), secret, [](const Opening&) { return Status(); },
                  [&](const Opening&, FileDescriptor) { ++peers; }, &listener, kMost)
                  .ok());
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  std::vector<std::unique_ptr<TcpDialog>> flood;
  for (size_t i = 0; i < 3 * kMost; ++i) {
    flood.push_back(std::make_unique<TcpDialog>());
    ASSERT_TRUE(flood.back()->connect(address, 2500, deadline).ok());
  }
  Bytes message;
  EXPECT_EQ(flood[0]->receive(1024, deadline, &message).code(), KEEL_RANK_FAILED);
  TcpDialog dialog;
  ASSERT_TRUE(dialog.connect(address, 2500, deadline).ok());
  Opening opening;
  opening.address = address.text();
  HandshakeInitiator handshake(secret, opening);
  Bytes proof;
  ASSERT_TRUE(handshake.open(&message).ok());
  ASSERT_TRUE(dialog.send(message, deadline).ok());
  ASSERT_TRUE(dialog.receive(kMaxStrangerBytes, deadline, &message).ok());
  ASSERT_TRUE(handshake.on_challenge(message, &proof).ok());
  ASSERT_TRUE(dialog.send(proof, deadline).ok());
  ASSERT_TRUE(dialog.receive(kMaxStrangerBytes, deadline, &message).ok());
  EXPECT_TRUE(HandshakeInitiator::on_answer(message).ok());
  while (peers == 0 && !deadline.passed()) std::this_thread::yield();
  listener->close();
  EXPECT_EQ(peers, 1);
}

// Before its first message, and before its proof.
TEST(HostListenerTest, StrangerThatSaysNoMoreIsClosedAtTheLimit) {
  SocketAddress address;
  FileDescriptor socket;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &address));
  ASSERT_TRUE(listen_tcp(address, &socket, &address).ok());
  const HostSecret secret{std::string("a secret of sixteen bytes")};
  std::shared_ptr<HostListener> listener;
  constexpr int64_t kLimitNs = 1'000'000;
  ASSERT_TRUE(HostListener::open(
                  std::move(socket), secret, [](const Opening&) { return Status(); },
                  [](const Opening&, FileDescriptor) {}, &listener, HostListener::kMaxStrangers,
                  kLimitNs)
                  .ok());
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  Bytes message;
  TcpDialog silent;
  ASSERT_TRUE(silent.connect(address, 2500, deadline).ok());
  EXPECT_EQ(silent.receive(kMaxStrangerBytes, deadline, &message).code(), KEEL_RANK_FAILED);
  TcpDialog unproven;
  ASSERT_TRUE(unproven.connect(address, 2500, deadline).ok());
  Opening opening;
  opening.address = address.text();
  HandshakeInitiator handshake(secret, opening);
  ASSERT_TRUE(handshake.open(&message).ok());
  ASSERT_TRUE(unproven.send(message, deadline).ok());
  Status received;
  while (received.ok()) received = unproven.receive(kMaxStrangerBytes, deadline, &message);
  EXPECT_EQ(received.code(), KEEL_RANK_FAILED) << received.text();
  listener->close();
}

// A rank of another Keel, after a proper handshake, is refused by name.
TEST(HostBootstrapTest, RankOfAnotherVersionIsNamed) {
  const keel_unique_id id = serve();
  TcpId parsed;
  ASSERT_TRUE(TcpId::parse(id, &parsed).ok());
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  TcpDialog dialog;
  ASSERT_TRUE(dialog.connect(address_of(id), 2500, deadline).ok());
  const HostSecret none;
  HandshakeInitiator handshake(none, {.job = parsed.job, .address = "anything"});
  Bytes message;
  Bytes proof;
  ASSERT_TRUE(handshake.open(&message).ok());
  ASSERT_TRUE(dialog.send(message, deadline).ok());
  ASSERT_TRUE(dialog.receive(kMaxStrangerBytes, deadline, &message).ok());
  ASSERT_TRUE(handshake.on_challenge(message, &proof).ok());
  ASSERT_TRUE(dialog.send(proof, deadline).ok());
  ASSERT_TRUE(dialog.receive(kMaxStrangerBytes, deadline, &message).ok());
  HostHello hello;
  hello.world = 2;
  hello.version = "0.0.1";
  hello.self.peer = peer_info(0);
  hello.self.host_name = "old-host";
  ASSERT_TRUE(dialog.send(write_host_hello(hello), deadline).ok());
  ASSERT_TRUE(dialog.receive(2048, deadline, &message).ok());
  Status answer;
  ASSERT_TRUE(parse_answer(message, &answer).ok());
  EXPECT_EQ(answer.code(), KEEL_UNSUPPORTED);
  EXPECT_TRUE(has(answer, "0.0.1") && has(answer, "old-host")) << answer.text();
}

TEST(HostBootstrapTest, WrongSecretIsRefusedOnBothSides) {
  std::string pattern = std::filesystem::temp_directory_path() / "keel-hosts-XXXXXX";
  const std::filesystem::path folder = mkdtemp(pattern.data());
  const auto use = [&](const std::string& text) {
    const std::string path = folder / text;
    std::ofstream(path) << text;
    std::filesystem::permissions(
        path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    setenv("KEEL_SECRET_FILE", path.c_str(), 1);
  };
  use("the secret of the server");
  const keel_unique_id id = serve();
  use("a secret of another job");
  {
    Rank rank(id, 0, 1);
    const Status status = rank.join();
    EXPECT_EQ(status.code(), KEEL_PERMISSION_DENIED);
    EXPECT_TRUE(has(status, "KEEL_SECRET_FILE")) << status.text();
  }
  use("the secret of the server");
  meet(id, 1);
  unsetenv("KEEL_SECRET_FILE");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace keel
