// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_DEVICE_H_
#define KEEL_EMULATOR_DEVICE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/bell.h"
#include "emulator/engine.h"
#include "emulator/faults.h"
#include "emulator/memory.h"
#include "emulator/profile.h"
#include "emulator/status.h"

namespace keel::emulator {

class Queue;

struct DeviceOptions {
  uint32_t index = 0;
  uint64_t memory_bytes = uint64_t{4} << 30;
  // All streams share one hardware queue: what waits in it holds up the others.
  bool single_queue = false;
  // Each piece of work starts up to so much later, by a seeded random number.
  uint32_t delay_us = 0;
  uint64_t seed = 1;
  // Pageable host memory is read when the copy runs, not when it is enqueued.
  bool pageable_async = false;
  // A failure of work on any stream loses the device, as on chips whose context dies of it.
  bool failure_is_loss = false;
  // Other processes can be given a part in its memory.
  bool shareable = false;
  // Work may be made to fail or wait through the plugin's test table.
  bool conformance = false;
  std::optional<Profile> profile;  // none: as fast as the host
  std::vector<Fault> faults;
};

enum class EngineKind : uint8_t { kCompute, kHostToDevice, kDeviceToHost, kPeer };

// What a piece of work takes.
struct Work {
  EngineKind engine = EngineKind::kCompute;
  double bytes = 0;  // moved: by the engine's link, or to and from device memory
  double flops = 0;
  std::string_view dtype = {};  // of the flops; a literal
};

// One emulated chip: memory, engines, faults, and whether it is lost. Streams hold it.
// Thread-safe.
class Device : public std::enable_shared_from_this<Device> {
 public:
  // kOutOfMemory where the host's address space is limited.
  static Status create(const DeviceOptions& options, std::shared_ptr<Device>* out_device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // Stops the shared queue. No stream of the device is used any more.
  void close();

  const DeviceOptions& options() const { return options_; }
  const std::string& name() const { return name_; }  // "emulated device 0"
  Memory& memory() { return *memory_; }
  const Memory& memory() const { return *memory_; }

  // As Memory's functions of the name, with the faults of alloc, and kDeviceLost.
  Status allocate(uint64_t size, Address* out_address);
  Status allocate_pinned(uint64_t size, void** out_pointer);

  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  // Success, or kDeviceLost with why.
  Status alive() const;
  // From now on everything on the device fails, also what runs and what waits. |cause|: the
  // code of the failure that it was lost of, if one.
  void lose(const std::string& why, Code cause = Code::kDeviceLost);
  // Of a device that is lost.
  Code loss_cause() const { return is_lost() ? loss_cause_ : Code::kOk; }
  // Lets go of every queue that hangs in a stall.
  void release_stalls();
  uint64_t stall_generation() const { return stall_generation_.load(); }

  // Counts a call and says what goes wrong; a refusal and a loss on the calling thread
  // are the status.
  Status count_call(CallKind kind, Injection* out_injection);

  Engine& engine(EngineKind kind) { return engines_[static_cast<size_t>(kind)]; }
  bool is_paced() const { return options_.profile.has_value(); }
  // How long |work| takes by the profile; 0 without one.
  Duration duration_of(const Work& work) const;
  Duration launch_latency() const;

  // The queue for a new stream: the shared one, or one of its own.
  std::shared_ptr<Queue> queue();

 private:
  Device(const DeviceOptions& options, const DeviceRange& range);
  void ring_all();

  const DeviceOptions options_;
  const std::string name_;
  const std::unique_ptr<Memory> memory_;
  FaultPlan faults_;
  std::array<Engine, 4> engines_;
  std::atomic<bool> lost_{false};
  std::atomic<uint64_t> stall_generation_{0};

  mutable std::mutex mutex_;
  Status loss_;  // these two are written before lost_, and not again
  Code loss_cause_ = Code::kOk;
  std::vector<std::weak_ptr<Bell>> bells_;
  std::shared_ptr<Queue> shared_queue_;
  uint64_t queues_ = 0;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_DEVICE_H_
