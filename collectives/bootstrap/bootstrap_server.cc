// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/bootstrap_server.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "collectives/bootstrap/listener.h"
#include "collectives/bootstrap/namespaces.h"
#include "collectives/bootstrap/rank_list.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"
#include "core/log.h"

namespace keel {

namespace {

// Limit for a new connection to send its hello.
constexpr int64_t kHelloLimitNs = 10'000'000'000;

// Creates one file with |bytes| for all ranks; each rank reads it independently.
Status make_sealed_file(ByteView bytes, FileDescriptor* out_file) {
  FileDescriptor file(memfd_create("keel-roster", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file) return system_failure(errno, "memfd_create");
  while (!bytes.empty()) {
    const ssize_t put = write(file.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return system_failure(put == 0 ? ENOSPC : errno, "write");
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  if (fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) !=
      0) {
    return system_failure(errno, "sealing it");
  }
  *out_file = std::move(file);
  return {};
}

}  // namespace

Status BootstrapServer::start(const BootstrapAddress& place, SegmentFactory factory) {
  auto server = std::make_shared<BootstrapServer>(place, factory);
  return start_listening(
      place.socket_name(),
      [server](FileDescriptor socket, const Peer& peer) {
        server->on_peer(std::move(socket), peer);
      },
      &server->listener_);
}

void BootstrapServer::on_peer(FileDescriptor socket, const Peer& peer) {
  const Connection connection = {.socket = socket.get(), .peer = peer};
  uint64_t id = 0;
  const Status added = ServiceThread::get().add(
      std::move(socket), EPOLLIN,
      [self = shared_from_this()](uint64_t each, uint32_t events) {
        try {
          self->on_event(each, events);
        } catch (...) {  // the service thread closes the socket, whose number may be reused
          self->forget(each);
          throw;
        }
      },
      &id);
  if (!added.ok()) {
    log(KEEL_LOG_WARNING, "{}: process {} is not let in: {}", place_.text(), peer.pid,
        added.text());
    return;
  }
  connections_.emplace(id, connection);
  ServiceThread::get().set_deadline(id, Deadline::after(kHelloLimitNs));
}

void BootstrapServer::on_event(uint64_t id, uint32_t events) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  Connection& connection = found->second;
  if (connection.has_come) {
    on_word(id, connection);
    return;
  }
  if (events == 0) {
    leave(id, failure(KEEL_TIMED_OUT, "{}: no word for {} s", place_.text(),
                      kHelloLimitNs / 1'000'000'000));
    return;
  }
  Packet packet;
  Status status = receive_packet(connection.socket, &packet);
  if (status.code() == KEEL_NOT_READY) return;
  if (status.ok()) status = on_hello(id, connection, packet.bytes);
  if (!status.ok()) leave(id, status.with_prefix(place_.text() + ": "));
}

// The caller sends a returned failure as the answer.
Status BootstrapServer::on_hello(uint64_t id, Connection& connection, ByteView bytes) {
  Hello hello;
  KEEL_RETURN_IF_ERROR(parse_hello(bytes, &hello));
  if (members_.empty() && failure_.ok()) {
    world_ = hello.world;
    first_rank_ = hello.self.rank;
  }
  KEEL_RETURN_IF_ERROR(check_place(hello));
  const uint32_t rank = hello.self.rank;
  if (failure_.ok()) {
    // Without this rank the job cannot form, and another attempt does not change the rank's
    // namespace.
    const Status visible = check_namespace(hello, connection.peer);
    if (!visible.ok()) fail(visible.with_prefix(place_.text() + ": "));
  }
  if (!failure_.ok()) {
    answered_.insert(rank);
    stop_listening_if_all_know();
    leave(id, failure_);
    return {};
  }
  hello.self.pid = connection.peer.pid;
  connection.has_come = true;
  connection.rank = rank;
  ServiceThread::get().set_deadline(id, std::nullopt);
  gave_up_.erase(rank);
  members_.emplace(rank, Member{id, std::move(hello.self)});
  if (members_.size() == world_) complete();
  return {};
}

Status BootstrapServer::check_place(const Hello& hello) const {
  if (hello.world != world_) {
    // Prefer a present rank to one that has given up.
    const uint32_t other = members_.empty() ? first_rank_ : members_.begin()->first;
    return failure(KEEL_INVALID_ARGUMENT,
                   "rank {} says that the world has {} ranks, rank {} has said {}", hello.self.rank,
                   hello.world, other, world_);
  }
  const auto member = members_.find(hello.self.rank);
  if (member != members_.end()) {
    return failure(KEEL_ALREADY_EXISTS, "rank {} is there already: process {}, device '{}'",
                   hello.self.rank, member->second.peer_info.pid, member->second.peer_info.device);
  }
  return {};
}

// The pids in the roster are valid in this process's pid namespace. In another namespace they name
// no process, or a different one, whose end would be mistaken for the rank's.
Status BootstrapServer::check_namespace(const Hello& hello, const Peer& peer) {
  const uint64_t own = namespace_number("pid");
  const uint64_t theirs = hello.pid_namespace;
  const bool is_other = own != 0 && theirs != 0 && own != theirs;
  if (!is_other && peer.pid > 0) return {};
  return failure(
      KEEL_UNSUPPORTED,
      "rank {} ({}, pid namespace {}) and the process {} that serves the rendezvous (pid "
      "namespace {}) are in different pid namespaces: start all ranks in one (containers: "
      "one for all, or that of the host)",
      hello.self.rank, hello.self.device, theirs, getpid(), own);
}

// Handles input from an arrived rank: the end of the connection, or the question at its deadline.
void BootstrapServer::on_word(uint64_t id, const Connection& connection) {
  Packet packet;
  Status status = receive_packet(connection.socket, &packet);
  if (status.code() == KEEL_NOT_READY) return;
  const bool has_gone = !status.ok();
  if (status.ok()) status = parse_question(packet.bytes);
  const uint32_t rank = connection.rank;
  if (status.ok()) {
    const Status answer = failure(KEEL_TIMED_OUT, "{}: {}", place_.text(), absent_ranks());
    members_.erase(rank);
    gave_up_.insert(rank);
    leave(id, answer);
    return;
  }
  const std::string who = fmt::format("{}: rank {} (process {}, device '{}')", place_.text(), rank,
                                      connection.peer.pid, members_.at(rank).peer_info.device);
  fail(has_gone ? failure(KEEL_RANK_FAILED, "{} has ended while it waited for the others", who)
                : failure(KEEL_RANK_FAILED, "{}: {}", who, status.text()));
}

// Returns "ranks 3-7, 12 of 16 have not come".
std::string BootstrapServer::absent_ranks() const {
  std::vector<uint32_t> absent;
  for (uint32_t rank = 0; rank < world_; ++rank) {
    if (!members_.contains(rank)) absent.push_back(rank);
  }
  std::string text = fmt::format("{} of {} {} not come", rank_list(absent), world_,
                                 absent.size() == 1 ? "has" : "have");
  if (!gave_up_.empty()) {
    text += fmt::format(" ({} had, and gave up)", rank_list({gave_up_.begin(), gave_up_.end()}));
  }
  return text;
}

void BootstrapServer::leave(uint64_t id, const Status& answer) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  send_answer(found->second.socket, answer);
  connections_.erase(found);
  ServiceThread::get().remove(id);
}

void BootstrapServer::forget(uint64_t id) {
  connections_.erase(id);
  std::erase_if(members_, [&](const auto& each) { return each.second.connection == id; });
}

void BootstrapServer::complete() {
  // A process that connects after the first answer finds no listener, and the name is free.
  ServiceThread::get().remove(listener_);
  Status told;
  try {
    told = tell_everybody();
  } catch (const std::bad_alloc&) {
    told = Status::no_memory();
  }
  if (!told.ok()) {
    fail(told.with_prefix(
        fmt::format("{}: process {}, which serves it: ", place_.text(), getpid())));
    return;
  }
  send_strangers_away();
}

void BootstrapServer::send_strangers_away() {
  for (const auto& [id, connection] : connections_) {
    if (!connection.has_come) {
      send_answer(connection.socket, failure(KEEL_UNAVAILABLE, "{} is over", place_.text()));
    }
    ServiceThread::get().remove(id);
  }
  connections_.clear();
}

Status BootstrapServer::tell_everybody() {
  std::vector<PeerInfo> peer_infos;
  peer_infos.reserve(members_.size());
  for (const auto& [rank, member] : members_) peer_infos.push_back(member.peer_info);
  FileDescriptor segment;
  KEEL_RETURN_IF_ERROR(factory_(peer_infos, &segment));
  FileDescriptor roster;
  KEEL_RETURN_IF_ERROR(
      make_sealed_file(write_roster(peer_infos), &roster).with_prefix("the roster: "));
  const Bytes answer = write_answer({});
  const std::array<int, 2> descriptors = {roster.get(), segment.get()};
  for (const auto& [rank, member] : members_) {
    const Status sent = send_packet(connections_.at(member.connection).socket, answer, descriptors);
    if (sent.ok()) continue;
    // Too late to stop the ranks already answered: ranks that watch this one detect its end.
    log(KEEL_LOG_WARNING, "{}: rank {} is not told that all have come: {}", place_.text(), rank,
        sent.text());
  }
  return {};
}

// Answers the ranks present now, and the ranks that arrive later.
void BootstrapServer::fail(const Status& status) {
  failure_ = status;
  const std::map<uint32_t, Member> members = std::exchange(members_, {});
  for (const auto& [rank, member] : members) answered_.insert(rank);
  stop_listening_if_all_know();
  for (const auto& [rank, member] : members) leave(member.connection, failure_);
}

void BootstrapServer::stop_listening_if_all_know() {
  if (answered_.size() == world_) ServiceThread::get().remove(listener_);
}

}  // namespace keel
