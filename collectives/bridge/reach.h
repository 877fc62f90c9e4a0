// How the host that reduces gets at one rank's buffers.
#ifndef KEEL_COLLECTIVES_BRIDGE_REACH_H_
#define KEEL_COLLECTIVES_BRIDGE_REACH_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/deadline.h"
#include "core/device.h"
#include "core/event.h"
#include "core/observer.h"
#include "core/status.h"
#include "core/stream.h"

namespace keel {

// How long to wait: until a deadline, or until somebody gives the operation up. Waits
// are cut into slices of 20 ms so that an abort is noticed by a thread that waits for
// work the user holds behind a gate.
struct Patience {
  Deadline deadline;
  const std::atomic<bool>& cancelled;

  Status wait(const Ref<EventRecord>& record) const;
};

// Bytes a rank has moved so far.
struct ReachStats {
  uint64_t to_host = 0;
  uint64_t to_device = 0;
  uint64_t in_place = 0;
};

// One rank's side of the bridge. Chunks pass through numbered slots; for each slot the
// bridge calls, in this order,
//   fetch (if the rank is a source) -> fetched -> deliver (if a destination)
// and a slot may be fetched into again once finish_slot says its delivery is done.
// Used by one thread, the communicator's. Ranks in other processes, and hosts, become
// further kinds of reach.
class Reach {
 public:
  virtual ~Reach() = default;

  virtual const char* name() const = 0;  // "alias", "staged"
  // A new operation: work may start after |ready|.
  virtual Status begin(const Ref<EventRecord>& ready, const Patience& patience) = 0;
  // Starts to bring |bytes| at device address |source| to the host.
  virtual Status fetch(uint32_t slot, const void* source, uint64_t bytes) = 0;
  // Waits for that; |*out_data| is where the host reads them.
  virtual Status fetched(uint32_t slot, const Patience& patience, const void** out_data) = 0;
  // Where the host shall write what goes to device address |destination|.
  virtual Status target(uint32_t slot, void* destination, uint64_t bytes, void** out_data) = 0;
  // Starts to bring what was written there to the device.
  virtual Status deliver(uint32_t slot, void* destination, uint64_t bytes) = 0;
  // Waits until the slot is free again.
  virtual Status finish_slot(uint32_t slot, const Patience& patience) = 0;

  // For observers: what the host touches when it reads or writes |data|, which stands
  // for device address |address|.
  virtual Access host_access(const void* address, const void* data, uint64_t bytes,
                             bool writes) const = 0;

  const ReachStats& stats() const { return stats_; }

 protected:
  // Adds |bytes| that were moved to one of |stats_|.
  static void count(uint64_t& sum, uint64_t bytes) {
    sum += bytes;
    observers::tell([&](Observer& observer) { observer.bridged(bytes); });
  }
  ReachStats stats_;
};

// Device memory that the host can read and write in place: nothing is copied.
class AliasReach final : public Reach {
 public:
  explicit AliasReach(Device& device) : device_(device) {}

  const char* name() const override { return "alias"; }
  Status begin(const Ref<EventRecord>& ready, const Patience& patience) override;
  Status fetch(uint32_t slot, const void* source, uint64_t bytes) override;
  Status fetched(uint32_t slot, const Patience& patience, const void** out_data) override;
  Status target(uint32_t slot, void* destination, uint64_t bytes, void** out_data) override;
  Status deliver(uint32_t slot, void* destination, uint64_t bytes) override;
  Status finish_slot(uint32_t slot, const Patience& patience) override;
  Access host_access(const void* address, const void*, uint64_t bytes, bool writes) const override {
    return {&device_, address, bytes, writes};
  }

 private:
  Status alias_of(const void* pointer, void** out_alias);

  Device& device_;
  Allocation last_;  // look-ups come in runs over one buffer
  std::vector<const void*> fetched_;
};

// Device memory that goes through pinned buffers, one a slot, on two streams of its own:
// one brings chunks to the host while the other takes results back.
class StagedReach final : public Reach {
 public:
  static Status create(Device& device, uint32_t slots, uint64_t slot_bytes,
                       std::unique_ptr<Reach>* out_reach);
  ~StagedReach() override;

  const char* name() const override { return "staged"; }
  Status begin(const Ref<EventRecord>& ready, const Patience& patience) override;
  Status fetch(uint32_t slot, const void* source, uint64_t bytes) override;
  Status fetched(uint32_t slot, const Patience& patience, const void** out_data) override;
  Status target(uint32_t slot, void* destination, uint64_t bytes, void** out_data) override;
  Status deliver(uint32_t slot, void* destination, uint64_t bytes) override;
  Status finish_slot(uint32_t slot, const Patience& patience) override;
  Access host_access(const void*, const void* data, uint64_t bytes, bool writes) const override {
    return {nullptr, data, bytes, writes};
  }

 private:
  struct Slot {
    void* buffer = nullptr;
    Ref<EventRecord> fetched;
    Ref<EventRecord> delivered;
  };

  explicit StagedReach(Device& device) : device_(device) {}

  Device& device_;
  void* staging_ = nullptr;
  std::vector<Slot> slots_;
  Ref<Stream> to_host_;
  Ref<Stream> to_device_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BRIDGE_REACH_H_
