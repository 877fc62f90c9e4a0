// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/byte_relay.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace keel::testing {

namespace {

constexpr size_t kMostBytes = 16384;
constexpr size_t kMostChunks = 16;  // that a connection holds in one direction

uint16_t g_relay = 0;  // of a worker

int connect_really(int socket, const sockaddr* address, socklen_t size) {
  using Connect = int (*)(int, const sockaddr*, socklen_t);
  static const auto next = reinterpret_cast<Connect>(dlsym(RTLD_NEXT, "connect"));
  return next(socket, address, size);
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

int connect_to(int socket, uint16_t port) {
  const sockaddr_in address = loopback(port);
  return connect_really(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
}

FileDescriptor listen_anywhere(uint16_t* out_port) {
  FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof(address);
  auto* const named = reinterpret_cast<sockaddr*>(&address);
  if (bind(socket.get(), named, size) != 0 || listen(socket.get(), 64) != 0 ||
      getsockname(socket.get(), named, &size) != 0) {
    return {};
  }
  *out_port = ntohs(address.sin_port);
  return socket;
}

// The port of the relay behind which |target| is; 0: none.
uint16_t ask_relay(uint16_t target) {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  uint16_t port = 0;
  const bool asked = connect_to(socket.get(), g_relay) == 0 &&
                     send(socket.get(), &target, sizeof(target), MSG_NOSIGNAL) == sizeof(target) &&
                     recv(socket.get(), &port, sizeof(port), MSG_WAITALL) == sizeof(port);
  return asked ? port : 0;
}

}  // namespace

void ByteRelay::use(const std::string& port) {
  g_relay = static_cast<uint16_t>(std::stoul(port));
}

ByteRelay::ByteRelay() : control_(listen_anywhere(&port_)), thread_([this] { run(); }) {}

ByteRelay::~ByteRelay() {
  is_over_ = true;
  thread_.join();
}

void ByteRelay::run() {
  while (!is_over_) {
    std::vector<pollfd> polled = {{control_.get(), POLLIN, 0}};
    for (const Listening& each : listening_) polled.push_back({each.socket.get(), POLLIN, 0});
    bool is_busy = false;
    for (Connection& each : connections_) {
      for (const size_t from : {0, 1}) {
        is_busy = move(each, from) || is_busy;
        const bool reads = !each.flows[from].has_ended;
        const bool has_room = each.flows[from].chunks.size() < kMostChunks;
        if (reads && has_room) polled.push_back({each.ends[from].get(), POLLIN, 0});
      }
    }
    poll(polled.data(), polled.size(), is_busy ? 1 : 20);
    if (polled[0].revents != 0) answer();
    for (size_t i = 0; i < listening_.size() && i + 1 < polled.size(); ++i) {
      if (polled[i + 1].revents != 0) admit(listening_[i]);
    }
    std::erase_if(connections_, [](const Connection& each) {
      return each.flows[0].is_closed && each.flows[1].is_closed;
    });
  }
}

void ByteRelay::answer() {
  const FileDescriptor asking(accept4(control_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  Listening made;
  uint16_t port = 0;
  if (!asking ||
      recv(asking.get(), &made.target, sizeof(made.target), MSG_WAITALL) != sizeof(made.target)) {
    return;
  }
  made.socket = listen_anywhere(&port);
  listening_.push_back(std::move(made));
  static_cast<void>(send(asking.get(), &port, sizeof(port), MSG_NOSIGNAL));
}

void ByteRelay::admit(const Listening& listening) {
  FileDescriptor peer(
      accept4(listening.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  FileDescriptor other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!peer || connect_to(other.get(), listening.target) != 0) return;
  Connection& made = connections_.emplace_back();
  made.ends[0] = std::move(peer);
  made.ends[1] = std::move(other);
}

bool ByteRelay::move(Connection& connection, size_t from) {
  Flow& flow = connection.flows[from];
  const int source = connection.ends[from].get();
  const int target = connection.ends[1 - from].get();
  const Clock::time_point now = Clock::now();
  while (!flow.has_ended && flow.chunks.size() < kMostChunks) {
    std::vector<char> bytes(kMostBytes);
    const ssize_t got = recv(source, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) break;
    flow.has_ended = got <= 0;
    if (got <= 0 || stops(from)) continue;
    bytes.resize(static_cast<size_t>(got));
    flow.chunks.push_back({now + std::chrono::milliseconds(delay_), std::move(bytes)});
  }
  if (stops(from)) return false;
  while (!flow.chunks.empty()) {
    Chunk& first = flow.chunks.front();
    if (std::max(first.due, flow.free) > now) return true;
    const ssize_t put = send(target, first.bytes.data() + first.sent,
                             first.bytes.size() - first.sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (put < 0 && errno == EAGAIN) return true;
    if (put < 0) flow.has_ended = true;
    const uint32_t rate = rate_;
    if (put > 0 && rate != 0) {
      flow.free = std::max(flow.free, now) + std::chrono::microseconds(put * 1000 / rate);
    }
    first.sent += static_cast<size_t>(std::max<ssize_t>(put, 0));
    if (put < 0 || first.sent == first.bytes.size()) flow.chunks.pop_front();
  }
  if (flow.has_ended && !flow.is_closed) {
    shutdown(target, SHUT_WR);
    flow.is_closed = true;
  }
  return false;
}

}  // namespace keel::testing

// The program's own, before libc's, also for libraries: connections of a worker to its own machine
// go to the relay.
extern "C" __attribute__((visibility("default"))) int connect(int socket, const sockaddr* address,
                                                              socklen_t size) {
  using namespace keel::testing;
  const auto* const wanted = reinterpret_cast<const sockaddr_in*>(address);
  const bool is_relayed = g_relay != 0 && address->sa_family == AF_INET &&
                          wanted->sin_addr.s_addr == htonl(INADDR_LOOPBACK);
  const uint16_t port = is_relayed ? ask_relay(ntohs(wanted->sin_port)) : 0;
  return port == 0 ? connect_really(socket, address, size) : connect_to(socket, port);
}
