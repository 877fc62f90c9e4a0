// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/testing/sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <utility>

#include "collectives/bootstrap/unix_socket.h"

namespace keel::testing {

namespace {
constexpr int64_t kTestTimeoutNs = 60'000'000'000;
constexpr uid_t kNobody = 65534;
}  // namespace

FileDescriptor make_object(int seals) {
  FileDescriptor object(memfd_create("keel-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(object.get(), 4096), 0);
  EXPECT_EQ(fcntl(object.get(), F_ADD_SEALS, seals), 0);
  return object;
}

FileDescriptor make_sealed_object() {
  return make_object(F_SEAL_SHRINK);
}

FileDescriptor stranger(const std::string& name) {
  FileDescriptor socket;
  Peer peer;
  const Status connected =
      connect_to(name, Absence::kFails, Deadline::after(kTestTimeoutNs), &socket, &peer);
  EXPECT_TRUE(connected.ok()) << connected.text();
  EXPECT_EQ(peer.uid, geteuid());
  return socket;
}

Status answer_to(const FileDescriptor& socket) {
  Packet packet;
  KEEL_RETURN_IF_ERROR(receive_packet(socket.get(), Deadline::after(kTestTimeoutNs), &packet));
  Status answer;
  KEEL_RETURN_IF_ERROR(parse_answer(packet.bytes, &answer));
  return answer;
}

void send_raw(const FileDescriptor& socket, ByteView bytes) {
  EXPECT_TRUE(sockets::send_all(socket.get(), bytes.data(), bytes.size()));
}

std::vector<Bytes> nonsense(const Bytes& message) {
  std::vector<Bytes> all = {{0}, Bytes(64, 0xff), Bytes(kMaxPacket + 1, 'x'), Bytes(100'000, 'x')};
  all.push_back(message);
  all.back().pop_back();
  all.push_back(message);
  all.back().push_back(0);
  for (size_t offset : {0, 4, 6, 8}) {  // magic, version, kind, size
    all.push_back(message);
    all.back()[offset] ^= 0x55;
  }
  return all;
}

bool become_nobody() {
  return setresuid(kNobody, kNobody, kNobody) == 0;
}

}  // namespace keel::testing
