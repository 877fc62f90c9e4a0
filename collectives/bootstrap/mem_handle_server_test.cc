// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/mem_handle_server.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/ipc/poll.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/testing/child_process.h"
#include "collectives/bootstrap/testing/sockets.h"

namespace keel::testing {
namespace {

constexpr int64_t kTestTimeoutNs = 60'000'000'000;
constexpr int64_t kShortNs = 50'000'000;

Status fetch(const ProcessToken& owner, const ObjectId& id, FileDescriptor* out_fd,
             int64_t timeout_ns = kTestTimeoutNs) {
  return fetch_object(
      owner, id, Deadline::after(timeout_ns), [] { return false; }, out_fd);
}

ObjectId id_of(const FileDescriptor& fd) {
  struct stat info = {};
  EXPECT_EQ(fstat(fd.get(), &info), 0);
  return {info.st_dev, info.st_ino};
}

ProcessToken token_of(const std::string& hex) {
  ProcessToken token;
  for (size_t i = 0; i < token.bytes.size(); ++i) {
    std::from_chars(hex.data() + 2 * i, hex.data() + 2 * i + 2, token.bytes[i], 16);
  }
  return token;
}

ProcessToken random_token() {
  ProcessToken token;
  EXPECT_TRUE(random_bytes(&token.bytes).ok());
  return token;
}

// Parses "token device inode", as workers print it.
struct Shared {
  ProcessToken token;
  ObjectId id;
};
Shared shared_of(const std::string& line) {
  Shared shared;
  const size_t first = line.find(' ');
  const size_t second = line.find(' ', first + 1);
  EXPECT_NE(second, std::string::npos) << line;
  if (second == std::string::npos) return shared;
  shared.token = token_of(line.substr(0, first));
  shared.id = {std::stoull(line.substr(first + 1)), std::stoull(line.substr(second + 1))};
  return shared;
}

// Returns the lowest free descriptor number.
int next_descriptor() {
  return FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)).get();
}

void limit_descriptors(rlim_t limit) {
  rlimit limits = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limits), 0);
  limits.rlim_cur = limit;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limits), 0);
}

// ---- workers ----

// Publishes an object that begins with "hello".
Shared share_hello() {
  FileDescriptor object = make_sealed_object();
  EXPECT_EQ(pwrite(object.get(), "hello", 5, 0), 5);
  Shared shared = {MemHandleServer::get().token(), {}};
  const Status published = MemHandleServer::get().publish(std::move(object), &shared.id);
  EXPECT_TRUE(published.ok()) << published.text();
  return shared;
}

void say_shared(const Shared& shared) {
  say(fmt::format("{} {} {}", shared.token.hex(), shared.id.device, shared.id.inode));
}

int share_worker(const std::vector<std::string>&) {
  say_shared(share_hello());
  hear();
  return 0;
}

// Stays at its descriptor limit until it reads a line.
int full_worker(const std::vector<std::string>&) {
  const Shared shared = share_hello();
  rlimit before = {};
  if (getrlimit(RLIMIT_NOFILE, &before) != 0) return 1;
  limit_descriptors(static_cast<rlim_t>(next_descriptor()));
  say_shared(shared);
  hear();
  limit_descriptors(before.rlim_cur);
  say("room");
  hear();
  return 0;
}

// Fetches another process's object with room for: all descriptors; only the socket; none; and
// exactly the descriptors needed.
int fetch_worker(const std::vector<std::string>& arguments) {
  const Shared shared = shared_of(arguments[0]);
  const auto try_it = [&] {
    FileDescriptor fd;
    const Status status = fetch(shared.token, shared.id, &fd);
    say(fmt::format("{} {}", status_name(status.code()), status.text()));
  };
  // The first attempt also serves the undefined-behaviour sanitizer, which checks each type once
  // and needs a pipe to do so.
  try_it();
  const int next = next_descriptor();
  for (int room : {1, 0, 2}) {
    limit_descriptors(static_cast<rlim_t>(next) + static_cast<rlim_t>(room));
    try_it();
  }
  return 0;
}

// ---- tests ----

TEST(MemHandleServerTest, AnotherProcessesObject) {
  ChildProcess owner("share", {});
  const Shared shared = shared_of(owner.read_line());
  FileDescriptor fd;
  const Status status = fetch(shared.token, shared.id, &fd);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(id_of(fd), shared.id);
  EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  std::array<char, 5> found{};
  EXPECT_EQ(pread(fd.get(), found.data(), found.size(), 0), 5);
  EXPECT_EQ(std::string(found.data(), found.size()), "hello");
  // A fetched object outlives its owner; the name does not.
  owner.write_line("");
  EXPECT_EQ(owner.wait(), 0);
  EXPECT_EQ(pread(fd.get(), found.data(), found.size(), 0), 5);
  EXPECT_EQ(fetch(shared.token, shared.id, &fd).code(), KEEL_RANK_FAILED);
}

TEST(MemHandleServerTest, IsCounted) {
  MemHandleServer& server = MemHandleServer::get();
  FileDescriptor object = make_sealed_object();
  const ObjectId expected = id_of(object);
  ObjectId id;
  EXPECT_FALSE(server.has(expected));
  ASSERT_TRUE(server.publish(FileDescriptor(dup(object.get())), &id).ok());
  EXPECT_EQ(id, expected);
  ASSERT_TRUE(server.publish(std::move(object), &id).ok());
  EXPECT_EQ(id, expected);
  FileDescriptor fetched;
  server.withdraw(id);
  EXPECT_TRUE(server.has(id));
  EXPECT_TRUE(fetch(server.token(), id, &fetched).ok());
  server.withdraw(id);
  EXPECT_FALSE(server.has(id));
  server.withdraw(id);
  const Status gone = fetch(server.token(), id, &fetched);
  EXPECT_EQ(gone.code(), KEEL_NOT_FOUND) << gone.text();
}

TEST(MemHandleServerTest, ItsOwnNeedsNoQuestion) {
  const Shared shared = share_hello();
  FileDescriptor found;
  const Status opened = MemHandleServer::get().open(shared.id, &found);
  ASSERT_TRUE(opened.ok()) << opened.text();
  EXPECT_EQ(id_of(found), shared.id);
  MemHandleServer::get().withdraw(shared.id);
  char text[6] = {};
  EXPECT_EQ(pread(found.get(), text, 5, 0), 5);
  EXPECT_STREQ(text, "hello");
  EXPECT_EQ(MemHandleServer::get().open(shared.id, &found).code(), KEEL_NOT_FOUND);
}

TEST(MemHandleServerTest, WhatMayShrinkIsNotShared) {
  ObjectId id;
  const Status status = MemHandleServer::get().publish(make_object(F_SEAL_GROW), &id);
  EXPECT_EQ(status.code(), KEEL_FAILED_PRECONDITION) << status.text();
  EXPECT_EQ(MemHandleServer::get().publish(FileDescriptor(open("/dev/null", O_RDONLY)), &id).code(),
            KEEL_FAILED_PRECONDITION);
}

TEST(MemHandleServerTest, ManyAtOnce) {
  const Shared shared = share_hello();
  std::vector<std::thread> threads;
  std::array<int, 8> failures{};
  for (int& failed : failures) {
    threads.emplace_back([&failed, &shared] {
      for (int time = 0; time < 50; ++time) {
        FileDescriptor fd;
        if (!fetch(shared.token, shared.id, &fd).ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, (std::array<int, 8>{}));
  MemHandleServer::get().withdraw(shared.id);
}

TEST(MemHandleServerTest, StrangersHarmNothing) {
  const Shared shared = share_hello();
  const std::string name = share_name(shared.token);
  const FileDescriptor silent = stranger(name);
  for (const Bytes& bytes : nonsense(write_request(shared.id))) {
    const FileDescriptor socket = stranger(name);
    send_raw(socket, bytes);
    const Status answer = answer_to(socket);
    EXPECT_TRUE(answer.code() == KEEL_DATA_LOSS || answer.code() == KEEL_UNSUPPORTED)
        << answer.text();
  }
  stranger(name);  // closes without a request
  FileDescriptor fd;
  EXPECT_TRUE(fetch(shared.token, shared.id, &fd).ok());
  // Unrequested descriptors are closed again.
  const int before = next_descriptor();
  for (int time = 0; time < 10; ++time) {
    const FileDescriptor socket = stranger(name);
    const std::array<int, 2> unwanted = {fd.get(), fd.get()};
    ASSERT_TRUE(send_packet(socket.get(), write_request(shared.id), unwanted).ok());
    EXPECT_TRUE(answer_to(socket).ok());
  }
  EXPECT_TRUE(fetch(shared.token, shared.id, &fd).ok());
  EXPECT_LE(next_descriptor(), before + 2);
  MemHandleServer::get().withdraw(shared.id);
}

// A fake server at |token|'s name: calls |answer| with the connection after reading the request.
class Liar {
 public:
  Liar(const ProcessToken& token, std::function<void(int socket)> answer) {
    const Status listening = listen_at(share_name(token), &listening_);
    EXPECT_TRUE(listening.ok()) << listening.text();
    thread_ = std::thread([this, answer = std::move(answer)] {
      FileDescriptor socket;
      EXPECT_TRUE(wait_until_readable(listening_.get(), Deadline::after(kTestTimeoutNs)));
      EXPECT_EQ(sockets::accept(listening_.get(), 0, &socket), 0);
      Packet request;
      EXPECT_TRUE(receive_packet(socket.get(), Deadline::after(kTestTimeoutNs), &request).ok());
      answer(socket.get());
    });
  }
  ~Liar() { thread_.join(); }
  Liar(const Liar&) = delete;
  Liar& operator=(const Liar&) = delete;

 private:
  FileDescriptor listening_;
  std::thread thread_;
};

// Returns the result of fetching |id| from such a server.
Status fetch_from_liar(const ObjectId& id, const std::function<void(int socket)>& answer,
                       int64_t timeout_ns = kTestTimeoutNs) {
  const ProcessToken token = random_token();
  const Liar liar(token, answer);
  FileDescriptor fd;
  const Status status = fetch(token, id, &fd, timeout_ns);
  EXPECT_FALSE(fd);
  return status;
}

void send_objects(int socket, const std::vector<int>& objects) {
  EXPECT_TRUE(send_packet(socket, write_answer({}), objects).ok());
}

TEST(MemHandleServerTest, LiesAreSeenThrough) {
  const FileDescriptor wanted = make_sealed_object();
  const FileDescriptor other = make_sealed_object();
  const FileDescriptor unsealed = make_object(0);
  const int before = next_descriptor();
  const Status another =
      fetch_from_liar(id_of(wanted), [&](int socket) { send_objects(socket, {other.get()}); });
  EXPECT_EQ(another.code(), KEEL_FAILED_PRECONDITION);
  EXPECT_NE(std::string(another.text()).find("another object"), std::string::npos)
      << another.text();
  const Status may_shrink =
      fetch_from_liar(id_of(unsealed), [&](int socket) { send_objects(socket, {unsealed.get()}); });
  EXPECT_EQ(may_shrink.code(), KEEL_FAILED_PRECONDITION);
  EXPECT_NE(std::string(may_shrink.text()).find("sealed"), std::string::npos) << may_shrink.text();
  for (const std::vector<int>& count : {std::vector<int>{}, {wanted.get(), wanted.get()}}) {
    const Status counted =
        fetch_from_liar(id_of(wanted), [&](int socket) { send_objects(socket, count); });
    EXPECT_EQ(counted.code(), KEEL_DATA_LOSS) << counted.text();
  }
  EXPECT_LE(next_descriptor(), before);
}

TEST(MemHandleServerTest, AnswersThatAreNone) {
  const FileDescriptor wanted = make_sealed_object();
  for (const Bytes& bytes : nonsense(write_answer({}))) {
    const Status status = fetch_from_liar(id_of(wanted), [&](int socket) {
      EXPECT_TRUE(sockets::send_all(socket, bytes.data(), bytes.size()));
    });
    EXPECT_TRUE(status.code() == KEEL_DATA_LOSS || status.code() == KEEL_UNSUPPORTED)
        << status.text();
  }
  EXPECT_EQ(fetch_from_liar(id_of(wanted), [](int) {}).code(), KEEL_RANK_FAILED);
  // Silence until the deadline: the fake server waits for its peer to close.
  const Status silent = fetch_from_liar(
      id_of(wanted),
      [](int socket) { poll_until(socket, 0, Deadline::Clock::now() + std::chrono::minutes(1)); },
      kShortNs);
  EXPECT_EQ(silent.code(), KEEL_TIMED_OUT) << silent.text();
}

TEST(MemHandleServerTest, AnOwnerWithTooManyFilesSaysSo) {
  ChildProcess owner("full", {});
  const Shared shared = shared_of(owner.read_line());
  FileDescriptor fd;
  for (int time = 0; time < 3; ++time) {
    const Status status = fetch(shared.token, shared.id, &fd);
    EXPECT_EQ(status.code(), KEEL_UNAVAILABLE);
    EXPECT_NE(std::string(status.text()).find("RLIMIT_NOFILE"), std::string::npos) << status.text();
  }
  owner.write_line("");
  EXPECT_EQ(owner.read_line(), "room");
  const Status status = fetch(shared.token, shared.id, &fd);
  EXPECT_TRUE(status.ok()) << status.text();
}

TEST(MemHandleServerTest, OneWhoMayOpenNoMoreFilesIsTold) {
  const Shared shared = share_hello();
  ChildProcess fetcher(
      "fetch", {fmt::format("{} {} {}", shared.token.hex(), shared.id.device, shared.id.inode)});
  EXPECT_EQ(fetcher.read_line(), "KEEL_OK ");
  for (int time = 0; time < 2; ++time) {  // no descriptor for the object; none for the socket
    const std::string line = fetcher.read_line();
    EXPECT_TRUE(line.starts_with("KEEL_UNAVAILABLE")) << line;
    EXPECT_NE(line.find("RLIMIT_NOFILE"), std::string::npos) << line;
  }
  EXPECT_EQ(fetcher.read_line(), "KEEL_OK ");
  EXPECT_EQ(fetcher.wait(), 0);
  MemHandleServer::get().withdraw(shared.id);
}

// Fetches as an unprivileged user; returns 0 if the client distrusts the server, and the server,
// asked anyway, refuses and names this user.
int ask_as_nobody(const std::vector<std::string>& arguments) {
  const std::string& name = arguments[0];
  if (!become_nobody()) return 99;
  FileDescriptor socket;
  Peer peer;
  const Deadline deadline = Deadline::after(kTestTimeoutNs);
  const Status refused = connect_to(name, Absence::kFails, deadline, &socket, &peer);
  if (refused.code() != KEEL_PERMISSION_DENIED) return 1;
  FileDescriptor raw;
  if (sockets::connect(SocketAddress::named(name), SOCK_SEQPACKET, &raw) != 0) return 2;
  const Status answer = answer_to(raw);
  if (answer.code() != KEEL_PERMISSION_DENIED) return 3;
  return std::string(answer.text()).find("refuses uid 65534") != std::string::npos ? 0 : 4;
}

TEST(MemHandleServerTest, AnotherUserIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ChildProcess owner("share", {});
  const Shared shared = shared_of(owner.read_line());
  ChildProcess nobody("nobody", {share_name(shared.token)});
  EXPECT_EQ(nobody.wait(), 0);
}

TEST(MemHandleServerTest, TokensAreOneAProcess) {
  ChildProcess other("share", {});
  EXPECT_NE(shared_of(other.read_line()).token, MemHandleServer::get().token());
  EXPECT_EQ(MemHandleServer::get().token().hex().size(), 32u);
  EXPECT_EQ(token_of(MemHandleServer::get().token().hex()), MemHandleServer::get().token());
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"share", share_worker},
                                                    {"full", full_worker},
                                                    {"fetch", fetch_worker},
                                                    {"nobody", ask_as_nobody}};
  return all;
}

}  // namespace keel::testing
