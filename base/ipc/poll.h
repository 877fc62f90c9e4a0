// SPDX-License-Identifier: Apache-2.0
// Waits for descriptors.
#ifndef KEEL_BASE_IPC_POLL_H_
#define KEEL_BASE_IPC_POLL_H_

#include <poll.h>

#include <chrono>
#include <span>

namespace keel {

// poll(2) until |deadline|, also when signals interrupt it: the number of entries that are ready, 0
// at the deadline, or -1 and errno. A passed deadline still looks once.
int poll_until(std::span<pollfd> entries, std::chrono::steady_clock::time_point deadline);

// The same for one descriptor.
inline int poll_until(int fd, short events, std::chrono::steady_clock::time_point deadline) {
  pollfd entry = {fd, events, 0};
  return poll_until({&entry, 1}, deadline);
}

}  // namespace keel

#endif  // KEEL_BASE_IPC_POLL_H_
