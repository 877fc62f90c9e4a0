// SPDX-License-Identifier: Apache-2.0
// Fuzzes what other hosts send: handshakes, tables with the properties of a communicator, notices,
// ids, and frames of a wire.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "base/ipc/socket.h"
#include "collectives/bootstrap/handshake.h"
#include "collectives/bootstrap/host_messages.h"
#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/tcp_dialog.h"
#include "collectives/bootstrap/tcp_id.h"
#include "collectives/hosts/host_group.h"
#include "collectives/transports/tcp/tcp_lane.h"
#include "collectives/transports/ucx/ucx_control.h"

namespace {

// An accepted message is written as it was read.
void expect_same(const keel::Bytes& written, keel::ByteView read) {
  if (!std::equal(written.begin(), written.end(), read.begin(), read.end())) __builtin_trap();
}

void read_messages(keel::ByteView bytes) {
  keel::Opening opening;
  if (keel::parse_opening(bytes, &opening).ok()) {
    expect_same(keel::write_opening(opening), bytes);
  }
  keel::Challenge challenge;
  if (keel::parse_challenge(bytes, &challenge).ok()) {
    expect_same(keel::write_challenge(challenge), bytes);
  }
  keel::Mac proof;
  if (keel::parse_proof(bytes, &proof).ok()) expect_same(keel::write_proof(proof), bytes);
  keel::HostHello hello;
  if (keel::parse_host_hello(bytes, &hello).ok()) {
    if (hello.self.peer.rank >= hello.world) __builtin_trap();
    expect_same(keel::write_host_hello(hello), bytes);
  }
  keel::HostTable table;
  keel::ProcessToken server;
  if (keel::parse_host_table(bytes, &table, &server).ok()) {
    expect_same(keel::write_host_table(table, server), bytes);
  }
  keel::Notice notice;
  if (keel::parse_notice(bytes, &notice).ok()) expect_same(keel::write_notice(notice), bytes);
  keel::Regroup regroup;
  if (keel::parse_regroup(bytes, &regroup).ok()) {
    if (regroup.rank >= regroup.left.size()) __builtin_trap();
    expect_same(keel::write_regroup(regroup), bytes);
  }
  keel::RegroupAsk ask;
  if (keel::parse_regroup_ask(bytes, &ask).ok()) {
    if (ask.position >= ask.members.size()) __builtin_trap();
    expect_same(keel::write_regroup_ask(ask), bytes);
  }
  size_t size = 0;
  if (bytes.size() >= keel::kMessageHeader &&
      keel::message_size(bytes.first(keel::kMessageHeader), keel::kMaxStrangerBytes, &size).ok() &&
      size > keel::kMaxStrangerBytes) {
    __builtin_trap();
  }
}

// No sequence of messages makes a process without the secret a peer.
void shake_hands(keel::ByteView bytes) {
  static const keel::HostSecret secret(std::string("a secret that the input lacks"));
  keel::HandshakeAcceptor acceptor(secret, [](const keel::Opening&) { return keel::Status(); });
  keel::HandshakeInitiator initiator(secret, {});
  keel::Bytes reply;
  while (bytes.size() >= keel::kMessageHeader) {
    size_t size = 0;
    const auto header = bytes.first(keel::kMessageHeader);
    if (!keel::message_size(header, bytes.size(), &size).ok()) size = bytes.size();
    if (!acceptor.on_message(bytes.first(size), &reply).ok()) break;
    bytes = bytes.subspan(size);
  }
  if (acceptor.is_done()) __builtin_trap();
  if (initiator.on_challenge(bytes, &reply).ok()) __builtin_trap();
}

// The bytes as they arrive on a wire, with receives posted.
void receive_frames(keel::ByteView bytes) {
  keel::FileDescriptor own;
  keel::FileDescriptor other;
  if (keel::sockets::open_pair(SOCK_STREAM | SOCK_NONBLOCK, &own, &other) != 0) return;
  keel::TcpLane lane(1, 0, 1, keel::TcpLane::kSmallTurnBytes);
  lane.attach(std::move(own));
  const size_t taken = std::min<size_t>(bytes.size(), 60000);
  if (write(other.get(), bytes.data(), taken) < 0) return;
  shutdown(other.get(), SHUT_WR);
  std::array<std::array<uint8_t, 40>, 3> memory;
  std::array<keel::WireRequest, 3> requests;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].set_memory(memory[i].data(), i * 20);
    lane.post_receive(requests[i]);
  }
  keel::WireSet::Traffic traffic;
  keel::Status status;
  for (bool has_moved = true; has_moved && status.ok();) {
    has_moved = false;
    status = lane.move(&has_moved, &traffic);
  }
  lane.end_requests(status);
  for (const keel::WireRequest& each : requests) {
    if (!each.is_done()) __builtin_trap();
  }
}

// The bytes as they arrive beside a UCX endpoint.
void receive_control(keel::ByteView bytes) {
  keel::FileDescriptor own;
  keel::FileDescriptor other;
  if (keel::sockets::open_pair(SOCK_STREAM | SOCK_NONBLOCK, &own, &other) != 0) return;
  keel::UcxControl control;
  control.attach(std::move(own));
  const size_t taken = std::min<size_t>(bytes.size(), 60000);
  if (write(other.get(), bytes.data(), taken) < 0) return;
  shutdown(other.get(), SHUT_WR);
  if (!control.move().ok()) return;
  if (control.end().ok() || (control.is_connected && !control.greeting)) __builtin_trap();
}

// Rank 0's properties of the communicator, which come with the table. What is accepted is written
// as a text that is read as the same.
void read_agreement(keel::ByteView bytes) {
  const std::string text(bytes.begin(), bytes.end());
  keel::HostAgreement agreement;
  if (!keel::HostAgreement::read(text, &agreement).ok()) return;
  if (agreement.rules.size() > keel::kMostHostRules) __builtin_trap();
  const std::string written = agreement.write();
  keel::HostAgreement again;
  if (!keel::HostAgreement::read(written, &again).ok() || again.write() != written) {
    __builtin_trap();
  }
}

void read_id(keel::ByteView bytes) {
  keel_unique_id id = {};
  std::memcpy(id.text, bytes.data(), std::min(bytes.size(), sizeof(id.text)));
  keel::TcpId parsed;
  if (!keel::TcpId::parse(id, &parsed).ok()) return;
  if (std::strcmp(parsed.id().text, id.text) != 0) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const keel::ByteView bytes(data, size);
  read_messages(bytes);
  shake_hands(bytes);
  receive_frames(bytes);
  receive_control(bytes);
  read_agreement(bytes);
  if (size != 0) read_id(bytes);
  return 0;
}
