// SPDX-License-Identifier: Apache-2.0
// Identifiers of processes, shared memory objects and ranks on one host.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_IDENTITY_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_IDENTITY_H_

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "core/chip.h"
#include "core/status.h"

namespace keel {

// Identifies one process for its lifetime and is never reused: drawn at random, because the kernel
// reuses pids.
struct ProcessToken {
  std::array<uint8_t, 16> bytes = {};
  auto operator<=>(const ProcessToken&) const = default;  // NOLINT(modernize-use-nullptr)
  // 32 hexadecimal digits.
  std::string hex() const;
};

// Identifies a memfd while any process has the file open: st_dev and st_ino.
struct ObjectId {
  uint64_t device = 0;
  uint64_t inode = 0;
  auto operator<=>(const ObjectId&) const = default;  // NOLINT(modernize-use-nullptr)
};

// Physical chip of a rank's device, for comparison with those of ranks in other processes.
struct PeerChip {
  std::array<uint8_t, 16> boot = {};  // boot id of the kernel: containers share it; 0: unknown
  ChipId id;
  bool operator==(const PeerChip&) const = default;
  // The chip of a device of this process.
  static PeerChip of(const keel_device_info& device);
};

// Peer info of one rank, exchanged at the rendezvous.
struct PeerInfo {
  uint32_t rank = 0;
  int64_t pid = 0;
  uint64_t start_time = 0;  // of the process: process_start_time()
  ProcessToken process;
  uint32_t flags = 0;  // defined by the ranks, opaque to the rendezvous
  std::string device;  // name, up to kMaxDeviceName bytes without control characters
  PeerChip chip;
  bool operator==(const PeerInfo&) const = default;
  // Whether both ranks are known to drive one chip. Its address or UUID alone does not tell, since
  // software drivers report the same ones on every machine.
  bool shares_chip_with(const PeerInfo& other) const;
};
inline constexpr uint32_t kMaxDeviceName = 79;
// Most ranks of one rendezvous. Each rank holds an open connection to the serving process.
inline constexpr uint32_t kMaxWorld = 4096;

// Draws 128 bits from the kernel's generator.
Status random_bytes(std::array<uint8_t, 16>* out_bytes);
std::string hex_text(const std::array<uint8_t, 16>& bytes);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_IDENTITY_H_
