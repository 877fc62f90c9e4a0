// SPDX-License-Identifier: Apache-2.0
// Peers that do as they like, for tests of what listens.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SOCKETS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SOCKETS_H_

#include <string>
#include <vector>

#include "collectives/bootstrap/file_descriptor.h"
#include "collectives/bootstrap/messages.h"

namespace keel::testing {

// A memfd of one page, with |seals|.
FileDescriptor make_object(int seals);
FileDescriptor make_sealed_object();

// A connection to |name| that has sent nothing.
FileDescriptor stranger(const std::string& name);
// What |socket| is answered; a failure when that is no answer.
Status answer_to(const FileDescriptor& socket);
// Sends |bytes| whatever their size.
void send_raw(const FileDescriptor& socket, ByteView bytes);
// What strangers may say: nothing, noise, |message| cut short, too long, with another magic
// number, version, kind or size.
std::vector<Bytes> nonsense(const Bytes& message);

// For workers that root has started: goes on as a user who is not.
bool become_nobody();

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_SOCKETS_H_
