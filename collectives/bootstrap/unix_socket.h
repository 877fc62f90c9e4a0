// SPDX-License-Identifier: Apache-2.0
// Packets, with descriptors, between processes of one user on one host.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_UNIX_SOCKET_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_UNIX_SOCKET_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ipc/socket.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// All sockets are SOCK_SEQPACKET (a message arrives whole or not at all) with names of
// SocketAddress::named().

// Largest packet, in bytes.
inline constexpr size_t kMaxPacket = 1024;

struct Packet {
  std::vector<uint8_t> bytes;
  std::vector<FileDescriptor> descriptors;
};

using sockets::Peer;

// Creates a socket that listens at |name|, up to 107 bytes. KEEL_ALREADY_EXISTS, naming the owning
// process, when |name| is in use.
Status listen_at(const std::string& name, FileDescriptor* out_socket);

// Behavior at a name without a listener: fail, or wait for a listener.
enum class Absence { kFails, kIsWaitedFor };
// Connects to the process that listens at |name|. KEEL_NOT_FOUND without a listener;
// KEEL_TIMED_OUT; KEEL_PERMISSION_DENIED when a process of another user listens, which may have
// taken the name; KEEL_UNAVAILABLE when this process is out of file descriptors.
Status connect_to(const std::string& name, Absence absence, const Deadline& deadline,
                  FileDescriptor* out_socket, Peer* out_peer);

// Never blocks: the queue of a socket whose peer reads has room for the few packets sent here.
// KEEL_ABORTED when the peer has closed or does not read. The caller keeps the descriptors.
Status send_packet(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors);

// Receives a pending packet without blocking: KEEL_NOT_READY when none is pending. KEEL_ABORTED
// when the peer has closed; KEEL_UNAVAILABLE when this process may not open the received
// descriptors; KEEL_DATA_LOSS for a packet that is too long or has too many descriptors.
Status receive_packet(int socket, Packet* out_packet);
// Whether data or the end of the connection can be read before |deadline|.
bool wait_until_readable(int socket, const Deadline& deadline);
// Waits for the next packet and receives it: KEEL_TIMED_OUT at |deadline|.
Status receive_packet(int socket, const Deadline& deadline, Packet* out_packet);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_UNIX_SOCKET_H_
