// SPDX-License-Identifier: Apache-2.0
// Packets, with descriptors, between the processes of one user on one host.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_UNIX_SOCKET_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_UNIX_SOCKET_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "collectives/bootstrap/file_descriptor.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Sockets here are SOCK_SEQPACKET, so that a message comes whole or not at all, in Linux's
// abstract namespace, so that a name goes with the process that has it and no file is left.
// Processes of different network namespaces do not see each other's names.

// Bytes of the largest packet.
inline constexpr size_t kMaxPacket = 1024;
// Descriptors in one packet.
inline constexpr size_t kMaxPacketDescriptors = 4;

struct Packet {
  std::vector<uint8_t> bytes;
  std::vector<FileDescriptor> descriptors;
};

// Who has the other end, as the kernel knows it. 0 for the |pid| of a process in another pid
// namespace that cannot be seen from here.
struct Peer {
  int64_t pid = 0;
  uint32_t uid = 0;
};
Status peer_of(int socket, Peer* out_peer);

// A socket that listens at |name|, up to 107 bytes. KEEL_ALREADY_EXISTS, with the process that
// has it, when the name is in use.
Status listen_at(const std::string& name, FileDescriptor* out_socket);

// What to do about a name at which nobody listens.
enum class Absence { kFails, kIsWaitedFor };
// Connects to the process that listens at |name|. KEEL_NOT_FOUND when none does; KEEL_TIMED_OUT;
// KEEL_PERMISSION_DENIED when it is a process of another user, who may have taken the name;
// KEEL_UNAVAILABLE when this process may open no more files.
Status connect_to(const std::string& name, Absence absence, const Deadline& deadline,
                  FileDescriptor* out_socket, Peer* out_peer);

// Does not block: the queue of a socket that is read has room for the few packets of ours.
// KEEL_ABORTED when the peer has gone. The descriptors stay the caller's.
Status send_packet(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors);

// Takes the packet that has come, if any: KEEL_NOT_READY when there is none. KEEL_ABORTED when
// the peer has gone; KEEL_UNAVAILABLE when this process may not open the descriptors that came;
// KEEL_DATA_LOSS for a packet that is too long or has too many descriptors.
Status receive_packet(int socket, Packet* out_packet);
// Whether there is something, or its end, to be read by |deadline|.
bool wait_until_readable(int socket, const Deadline& deadline);
// Takes the next packet, and waits for it: KEEL_TIMED_OUT.
Status receive_packet(int socket, const Deadline& deadline, Packet* out_packet);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_UNIX_SOCKET_H_
