// SPDX-License-Identifier: Apache-2.0
// A name at which the service thread lets processes in.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_LISTENER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_LISTENER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "collectives/bootstrap/file_descriptor.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/status.h"

namespace keel {

// Calls |accept| on the service thread for each process of the same user that connects to
// |name|; processes of others are told that they are refused, and so are all while this
// process may open no more files. Until ServiceThread's remove() of |*out_id|, which is
// written before |accept| can run. KEEL_ALREADY_EXISTS when the name is in use.
using Accept = std::function<void(FileDescriptor socket, const Peer& peer)>;
Status start_listening(const std::string& name, Accept accept, uint64_t* out_id);

// Tells the peer, if it still listens, what became of what it asked for.
void send_answer(int socket, const Status& status);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_LISTENER_H_
