// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/lifelines.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/proc_peers.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/log.h"

namespace keel {

namespace {

// Replace the number of a connection.
constexpr int kClosed = -1;
constexpr int kPipe = -2;  // of ProcPeers

// Checks without waiting.
bool listens(const ProcessToken& owner) {
  if (ProcPeer other; ProcPeers::get().find(owner, &other)) {
    FileDescriptor unused;
    return open_lifeline(other, &unused).code() != KEEL_NOT_FOUND;
  }
  FileDescriptor socket;
  Peer peer;
  const Status connected =
      connect_to(share_name(owner), Absence::kFails, Deadline::after(0), &socket, &peer);
  return connected.code() != KEEL_NOT_FOUND;
}

}  // namespace

Lifelines& Lifelines::get() {
  static Lifelines& instance = *new Lifelines;
  return instance;
}

Status Lifelines::watch(const ProcessToken& owner, std::function<void()> on_cut,
                        uint64_t* out_watch) {
  std::lock_guard lock(mutex_);
  Line& line = lines_[owner];
  if (line.watches.empty()) {
    // The owner's listen queue holds as many connections as there may be ranks.
    constexpr int64_t kConnectLimitNs = 1'000'000'000;
    const Status connected = connect(owner, Deadline::after(kConnectLimitNs), &line.entry);
    if (!connected.ok()) {
      lines_.erase(owner);
      if (connected.code() != KEEL_UNAVAILABLE && connected.code() != KEEL_TIMED_OUT) {
        return connected;
      }
      log(KEEL_LOG_WARNING, "an exec of process {} would not be noticed: {}", owner.hex(),
          connected.text());
      *out_watch = 0;
      return {};
    }
  }
  *out_watch = next_watch_++;
  line.watches.emplace(*out_watch, std::move(on_cut));
  return {};
}

Status Lifelines::connect(const ProcessToken& owner, const Deadline& deadline,
                          uint64_t* out_entry) {
  FileDescriptor socket;
  Peer peer;
  ProcPeer other;
  const bool is_pipe = ProcPeers::get().find(owner, &other);
  Status status = is_pipe
                      ? open_lifeline(other, &socket)
                      : connect_to(share_name(owner), Absence::kFails, deadline, &socket, &peer);
  if (status.ok() && !is_pipe) status = send_packet(socket.get(), write_hold(), {});
  // The owner has already closed its sockets.
  const bool is_closed = status.code() == KEEL_NOT_FOUND || status.code() == KEEL_ABORTED;
  if (is_closed) {
    socket = FileDescriptor(eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK));  // readable at once
    if (!socket) return system_failure(errno, "eventfd");
    status = {};
  }
  KEEL_RETURN_IF_ERROR(status);
  const int number = is_closed ? kClosed : is_pipe ? kPipe : socket.get();
  // One-shot: epoll would report a closed connection repeatedly.
  return ServiceThread::get().add(
      std::move(socket), EPOLLIN | EPOLLONESHOT,
      [this, owner, number](uint64_t entry, uint32_t events) {
        on_event(owner, number, entry, events);
      },
      out_entry);
}

void Lifelines::unwatch(uint64_t watch) {
  uint64_t unused = 0;
  {
    std::lock_guard lock(mutex_);
    for (auto line = lines_.begin(); line != lines_.end(); ++line) {
      if (line->second.watches.erase(watch) == 0) continue;
      if (line->second.watches.empty()) {
        unused = line->second.entry;
        lines_.erase(line);
      }
      break;
    }
  }
  if (unused != 0) ServiceThread::get().remove(unused);
}

void Lifelines::on_event(const ProcessToken& owner, int socket, uint64_t entry, uint32_t events) {
  if (events != 0) {
    Packet packet;
    const bool has_packets = socket != kClosed && socket != kPipe;
    const Status received =
        has_packets ? receive_packet(socket, &packet) : failure(KEEL_ABORTED, "the peer has gone");
    if (received.code() == KEEL_NOT_READY) {
      (void)ServiceThread::get().set_events(entry, EPOLLIN | EPOLLONESHOT);
      return;
    }
    if (received.code() == KEEL_ABORTED) {
      ServiceThread::get().set_deadline(entry, Deadline::after(kGraceNs));
      return;
    }
    // The server only answers when it cannot hold the connection: it is out of file descriptors.
    Status answer = received;
    if (received.ok()) (void)parse_answer(packet.bytes, &answer);
    log(KEEL_LOG_WARNING, "an exec of process {} would not be noticed: {}", owner.hex(),
        answer.text());
    drop(owner, entry);
    return;
  }
  std::map<uint64_t, std::function<void()>> watches;
  {
    std::lock_guard lock(mutex_);
    const auto line = lines_.find(owner);
    if (line != lines_.end() && line->second.entry == entry) {
      // An owner that still listens has lost only the connection, for lack of memory.
      const bool is_cut = !listens(owner);
      if (is_cut) watches = std::move(line->second.watches);
      if (is_cut || !connect(owner, Deadline::after(0), &line->second.entry).ok()) {
        lines_.erase(line);
      }
    }
  }
  ServiceThread::get().remove(entry);
  for (const auto& [watch, on_cut] : watches) on_cut();
}

void Lifelines::drop(const ProcessToken& owner, uint64_t entry) {
  {
    std::lock_guard lock(mutex_);
    const auto line = lines_.find(owner);
    if (line != lines_.end() && line->second.entry == entry) lines_.erase(line);
  }
  ServiceThread::get().remove(entry);
}

}  // namespace keel
