// SPDX-License-Identifier: Apache-2.0
// A socket name at which the service thread accepts connections.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_LISTENER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_LISTENER_H_

#include <cstdint>
#include <functional>
#include <string>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/unix_socket.h"
#include "core/status.h"

namespace keel {

// Calls |accept| on the service thread for each process of the same user that connects to |name|,
// until ServiceThread::remove(|*out_id|). A process of another user receives a refusal, and so does
// every process while this process is out of file descriptors. |*out_id| is written before |accept|
// can run. KEEL_ALREADY_EXISTS when |name| is in use.
using Accept = std::function<void(FileDescriptor socket, const Peer& peer)>;
Status start_listening(const std::string& name, Accept accept, uint64_t* out_id);

// Sends |status| as the answer to the peer's request; a peer that no longer reads is ignored.
void send_answer(int socket, const Status& status);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_LISTENER_H_
