// SPDX-License-Identifier: Apache-2.0
// A process that acts as a rank only by name: it hands out its memory and does nothing else, so
// that the fuzzer writes this rank's part of shared memory.
#ifndef KEEL_FUZZ_SILENT_PEER_H_
#define KEEL_FUZZ_SILENT_PEER_H_

#include <cstdint>

#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/mem_handle_server.h"
#include "core/status.h"

namespace keel::fuzz {

struct SilentPeer {
  static constexpr uint64_t kMemory = 96 << 10;  // may exceed the actual memory

  PeerInfo peer_info;  // rank 1, "cpu:0"
  ObjectId object;     // the peer's memory
};

// Forks the peer. Call before this process starts threads. The peer ends with this process.
SilentPeer start_silent_peer();

// Returns this process's entry as rank |rank| on |device|.
PeerInfo introduce_self(uint32_t rank, const char* device);

// On a failure, prints |what| and ends the program. For conditions that no input can violate.
void require(const Status& status, const char* what);

}  // namespace keel::fuzz

#endif  // KEEL_FUZZ_SILENT_PEER_H_
