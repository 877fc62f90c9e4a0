// SPDX-License-Identifier: Apache-2.0
// Misbehaving peers, for tests of listeners.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SOCKETS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SOCKETS_H_

#include <string>
#include <vector>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/messages.h"

namespace keel::testing {

// Creates a memfd of one page with |seals|.
FileDescriptor make_object(int seals);
FileDescriptor make_sealed_object();

// Opens a connection to |name| without sending anything.
FileDescriptor stranger(const std::string& name);
// Receives the answer on |socket|; returns a failure when the packet is no answer.
Status answer_to(const FileDescriptor& socket);
// Sends |bytes| of any size.
void send_raw(const FileDescriptor& socket, ByteView bytes);
// Returns malformed packets: one byte, 64 bytes of 0xff, oversized ones, and |message| cut short,
// too long, or with a wrong magic number, version, kind or size.
std::vector<Bytes> nonsense(const Bytes& message);

// For workers started by root: continues as an unprivileged user.
bool become_nobody();

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SOCKETS_H_
