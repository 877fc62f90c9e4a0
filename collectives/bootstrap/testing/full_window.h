// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TESTING_FULL_WINDOW_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TESTING_FULL_WINDOW_H_

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstdint>

#include "base/ipc/socket.h"

namespace keel::testing {

// Returns how often in a row the kernel has asked about a full window, and the other side has
// answered, on the TCP connection of this process with the most. Three times take 1.4 s.
inline uint32_t full_window_probes() {
  uint32_t most = 0;
  for (int descriptor = 0; descriptor < 256; ++descriptor) {
    tcp_info info = {};
    if (sockets::get_option(descriptor, IPPROTO_TCP, TCP_INFO, &info) != 0) continue;
    if (info.tcpi_unacked == 0) most = std::max<uint32_t>(most, info.tcpi_backoff);
  }
  return most;
}

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TESTING_FULL_WINDOW_H_
