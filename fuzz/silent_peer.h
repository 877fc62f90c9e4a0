// SPDX-License-Identifier: Apache-2.0
// Another process that is a rank only by name: it hands out its memory and does nothing else, so
// that what it would write where ranks share memory is the fuzzer's.
#ifndef KEEL_FUZZ_SILENT_PEER_H_
#define KEEL_FUZZ_SILENT_PEER_H_

#include <cstdint>

#include "collectives/bootstrap/identity.h"
#include "collectives/bootstrap/share_server.h"
#include "core/status.h"

namespace keel::fuzz {

struct SilentPeer {
  static constexpr uint64_t kMemory = 96 << 10;  // there may be less than it says

  Attendee attendee;  // rank 1, "cpu:0"
  ObjectId object;    // its memory
};

// Before anything of this process has threads. It ends with this one.
SilentPeer start_silent_peer();

// This process, as rank |rank| on |device|.
Attendee introduce_self(uint32_t rank, const char* device);

// Prints the failure and ends the program: what no input can bring about.
void require(const Status& status, const char* what);

}  // namespace keel::fuzz

#endif  // KEEL_FUZZ_SILENT_PEER_H_
