// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/rendezvous.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "collectives/bootstrap/bootstrap_address.h"
#include "collectives/bootstrap/bootstrap_server.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/namespaces.h"
#include "collectives/bootstrap/system_failure.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/insiders.h"

namespace keel {

namespace {

// How long a rank waits after its deadline for the list of missing ranks.
constexpr int64_t kGraceNs = 1'000'000'000;

Status check_peer_info(const PeerInfo& self, uint32_t world) {
  if (world == 0 || world > kMaxWorld) {
    return failure(KEEL_INVALID_ARGUMENT, "world is {}; 1 to {} ranks may meet", world, kMaxWorld);
  }
  if (self.rank >= world) {
    return failure(KEEL_INVALID_ARGUMENT, "rank is {}, world {}", self.rank, world);
  }
  // The server would refuse the hello; a check here can name the rank.
  const Hello hello = {world, self, /*pid_namespace=*/0};
  Hello again;
  const Status parsed = parse_hello(write_hello(hello), &again);
  if (!parsed.ok()) {
    return failure(KEEL_INVALID_ARGUMENT, "rank {}: {}", self.rank, parsed.text());
  }
  return {};
}

// Descriptors in an answer: the roster and the segment.
constexpr size_t kAnswerDescriptors = 2;

// Reserves descriptor numbers for the answer: a process that may open few files must fail now,
// since after all ranks have met a failure is too late.
Status reserve_descriptors(int socket, std::vector<FileDescriptor>* out_reserved) {
  for (size_t i = 0; i < kAnswerDescriptors; ++i) {
    out_reserved->emplace_back(fcntl(socket, F_DUPFD_CLOEXEC, 0));
    if (!out_reserved->back()) return system_failure(errno, "a descriptor for the answer");
  }
  return {};
}

// Receives the answer, or the failure that names the missing ranks. Frees |reserved| for the
// answer's descriptors.
Status wait_for_answer(int socket, const Deadline& deadline, std::vector<FileDescriptor> reserved,
                       Packet* out_packet) {
  const bool is_there = wait_until_readable(socket, deadline);
  reserved.clear();
  if (is_there) return receive_packet(socket, deadline, out_packet);
  if (deadline.is_cut_off()) return {KEEL_TIMED_OUT, insiders::kCutOff};
  // A server that has just answered ignores the question, and its answer is already in the queue.
  const Status asked = send_packet(socket, write_question(), {});
  if (asked.failed() && asked.code() != KEEL_ABORTED) return asked;
  return receive_packet(socket, Deadline::after(kGraceNs), out_packet);
}

Status read_roster(const FileDescriptor& file, std::vector<PeerInfo>* out_peer_infos) {
  struct stat info = {};
  if (fstat(file.get(), &info) != 0) return system_failure(errno, "fstat of the roster");
  if (!S_ISREG(info.st_mode) || info.st_size < 0 ||
      static_cast<uint64_t>(info.st_size) > kMaxRosterBytes) {
    return failure(KEEL_DATA_LOSS, "the roster is no file of up to {} bytes", kMaxRosterBytes);
  }
  Bytes bytes(static_cast<size_t>(info.st_size));
  // All ranks share the position of one open file description, so use pread().
  const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), 0);
  if (got != static_cast<ssize_t>(bytes.size())) {
    return got < 0 ? system_failure(errno, "reading the roster")
                   : failure(KEEL_DATA_LOSS, "the roster is cut short");
  }
  return parse_roster(bytes, out_peer_infos);
}

// Checks that the roster belongs to this rendezvous.
Status check_roster(const std::vector<PeerInfo>& peer_infos, const PeerInfo& self, uint32_t world) {
  if (peer_infos.size() != world) {
    return failure(KEEL_DATA_LOSS, "the roster has {} ranks, not {}", peer_infos.size(), world);
  }
  if (peer_infos[self.rank].process != self.process) {
    return failure(KEEL_DATA_LOSS, "the roster has another process as rank {}", self.rank);
  }
  return {};
}

Status serve_at_place(const BootstrapAddress& place, SegmentFactory factory,
                      keel_unique_id* out_id) {
  KEEL_RETURN_IF_ERROR(BootstrapServer::start(place, factory));
  *out_id = place.id();
  return {};
}

}  // namespace

Status serve_rendezvous(SegmentFactory factory, keel_unique_id* out_id) {
  BootstrapAddress place;
  KEEL_RETURN_IF_ERROR(BootstrapAddress::random(&place));
  return serve_at_place(place, factory, out_id);
}

Status serve_rendezvous_at(SegmentFactory factory, const std::string& name,
                           keel_unique_id* out_id) {
  return serve_at_place(BootstrapAddress::named(name), factory, out_id)
      .with_prefix(fmt::format("rendezvous '{}': ", name));
}

keel_unique_id rendezvous_id(const std::string& name) {
  return BootstrapAddress::named(name).id();
}

Status attend_rendezvous(const keel_unique_id& id, const PeerInfo& self, uint32_t world,
                         const Deadline& deadline, Rendezvous* out_rendezvous) {
  BootstrapAddress place;
  KEEL_RETURN_IF_ERROR(BootstrapAddress::parse(id, &place));
  KEEL_RETURN_IF_ERROR(check_peer_info(self, world));
  const std::string who = fmt::format("rank {} of {}, ", self.rank, world);
  FileDescriptor socket;
  Peer peer;
  const Status connected =
      connect_to(place.socket_name(), place.absence(), deadline, &socket, &peer);
  if (connected.code() == KEEL_NOT_FOUND || connected.code() == KEEL_TIMED_OUT) {
    const bool is_over = connected.code() == KEEL_NOT_FOUND;
    return failure(is_over ? KEEL_UNAVAILABLE : KEEL_TIMED_OUT,
                   "{}{} {}: {} (abstract Unix socket): {}", who, place.text(),
                   is_over ? "is over, or the process that made it has ended" : "is not served",
                   connected.text(), rendezvous_conditions());
  }
  KEEL_RETURN_IF_ERROR(connected.with_prefix(fmt::format("{}{}: ", who, place.text())));
  std::vector<FileDescriptor> reserved;
  KEEL_RETURN_IF_ERROR(reserve_descriptors(socket.get(), &reserved).with_prefix(who));
  // A server that refuses the hello may still have sent the reason.
  const Status greeted =
      send_packet(socket.get(), write_hello({world, self, namespace_number("pid")}), {});
  if (greeted.failed() && greeted.code() != KEEL_ABORTED) return greeted.with_prefix(who);

  Packet packet;
  const Status received = wait_for_answer(socket.get(), deadline, std::move(reserved), &packet);
  const std::string at = fmt::format("{}{}, process {}: ", who, place.text(), peer.pid);
  if (received.code() == KEEL_ABORTED) {
    return failure(
        KEEL_RANK_FAILED,
        "{}the process that serves the rendezvous at '{}' (abstract Unix socket) has ended, "
        "or has ended the rendezvous",
        at, place.socket_name());
  }
  KEEL_RETURN_IF_ERROR(received.with_prefix(at));
  Status answer;
  KEEL_RETURN_IF_ERROR(parse_answer(packet.bytes, &answer).with_prefix(at));
  if (answer.code() == KEEL_TIMED_OUT) {
    return failure(KEEL_TIMED_OUT, "{}{}; process {} serves at '{}' (abstract Unix socket): {}",
                   who, answer.text(), peer.pid, place.socket_name(), rendezvous_conditions());
  }
  KEEL_RETURN_IF_ERROR(answer.with_prefix(who));
  if (packet.descriptors.size() != kAnswerDescriptors) {
    return failure(KEEL_DATA_LOSS, "{}{} descriptors came, not {}", at, packet.descriptors.size(),
                   kAnswerDescriptors);
  }
  std::vector<PeerInfo> peer_infos;
  KEEL_RETURN_IF_ERROR(read_roster(packet.descriptors[0], &peer_infos).with_prefix(at));
  KEEL_RETURN_IF_ERROR(check_roster(peer_infos, self, world).with_prefix(at));
  out_rendezvous->peer_infos = std::move(peer_infos);
  out_rendezvous->segment = std::move(packet.descriptors[1]);
  return {};
}

}  // namespace keel
