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

#include "emulator/engine.h"
#include "emulator/faults.h"
#include "emulator/memory.h"
#include "emulator/notifier.h"
#include "emulator/profile.h"
#include "emulator/status.h"

namespace keel::emulator {

class Queue;

// Each byte of an output that was not computed: a NaN in every float type, -1 in every signed one.
inline constexpr uint8_t kPoison = 0xff;

struct DeviceOptions {
  uint32_t index = 0;
  uint64_t memory_bytes = uint64_t{4} << 30;
  // Where the device's addresses begin in the range of all devices. 0: two devices often use equal
  // addresses; vendors whose pointers name their device need offsets.
  uint64_t address_offset = 0;
  // All streams share one hardware queue: a command that waits blocks the other streams.
  bool single_queue = false;
  // Each piece of work starts up to |delay_us| later, by a seeded random number.
  uint32_t delay_us = 0;
  uint64_t seed = 1;
  // Pageable host memory is read when the copy runs, not when it is enqueued.
  bool pageable_async = false;
  // A failure of work on any stream loses the device, as on chips whose context becomes unusable
  // after a failure.
  bool failure_is_loss = false;
  // Other processes can import the device's memory.
  bool shareable = false;
  // False: operators and reductions take the profile's time and check their addresses, but compute
  // nothing and fill their outputs with kPoison. For figures of machines with many chips, never for
  // results.
  bool computes = true;
  // The plugin's test table may make work fail or wait.
  bool conformance = false;
  std::optional<Profile> profile;  // none: as fast as the host
  std::vector<Fault> faults;
};

enum class EngineKind : uint8_t { kCompute, kHostToDevice, kDeviceToHost, kPeer };

// The resources that a piece of work consumes.
struct Work {
  EngineKind engine = EngineKind::kCompute;
  double bytes = 0;  // moved: over the engine's link, or to and from device memory
  double flops = 0;
  std::string_view dtype = {};  // of the flops; a string literal
  // A caller's kernel, whose bytes and flops are unknown, takes as long as the host takes. Without
  // any time, a paced chip would claim to be the faster, the more of its work is such kernels.
  bool takes_host_time = false;
};

// One emulated chip: memory, engines, faults and the loss state. Streams share ownership.
// Thread-safe.
class Device : public std::enable_shared_from_this<Device> {
 public:
  // Returns kOutOfMemory if the host's address space is limited.
  static Status create(const DeviceOptions& options, std::shared_ptr<Device>* out_device);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  // Stops the shared queue. The caller uses no stream of the device afterwards.
  void close();

  const DeviceOptions& options() const { return options_; }
  const std::string& name() const { return name_; }  // "emulated device 0"
  Memory& memory() { return *memory_; }
  const Memory& memory() const { return *memory_; }

  // Like the functions of Memory with these names, plus the faults of alloc, and kDeviceLost.
  Status allocate(uint64_t size, Address* out_address);
  Status allocate_pinned(uint64_t size, void** out_pointer);

  bool is_lost() const { return lost_.load(std::memory_order_acquire); }
  // Returns success, or kDeviceLost with the reason.
  Status alive() const;
  // Makes all running, waiting and later work on the device fail. |cause|: the code of the failure
  // that lost the device, if any.
  void lose(const std::string& why, Code cause = Code::kDeviceLost);
  // Returns kOk unless the device is lost.
  Code loss_cause() const { return is_lost() ? loss_cause_ : Code::kOk; }
  // Resumes every queue that an injected stall blocks.
  void release_stalls();
  uint64_t stall_generation() const { return stall_generation_.load(); }

  // Counts a call and returns its faults in |*out_injection|. An injected refusal, and a loss at a
  // call of the calling thread, are returned as the status.
  Status count_call(CallKind kind, Injection* out_injection);

  Engine& engine(EngineKind kind) { return engines_[static_cast<size_t>(kind)]; }
  bool is_paced() const { return options_.profile.has_value(); }
  // Returns the duration of |work| by the profile; 0 without a profile.
  Duration duration_of(const Work& work) const;
  Duration launch_latency() const;

  // Returns the queue for a new stream: the shared queue, or a new queue.
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
  Status loss_;  // both written before lost_, and never again
  Code loss_cause_ = Code::kOk;
  std::vector<std::weak_ptr<Notifier>> notifiers_;
  std::shared_ptr<Queue> shared_queue_;
  uint64_t queues_ = 0;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_DEVICE_H_
