// SPDX-License-Identifier: Apache-2.0
// Communicators of the plugin's own ccl table over several devices of its instance. Calls that
// block until all ranks have joined run on one thread per rank, as in core.
#ifndef KEEL_CONFORMANCE_TABLE_RANKS_H_
#define KEEL_CONFORMANCE_TABLE_RANKS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "conformance/collective_values.h"
#include "conformance/table_objects.h"

namespace keel::conformance {

// Returns the ccl table. Fails the case if a required slot is missing.
const keel_ccl_table& ccl_table_of(const Context& context);
// Returns whether the library reports support for the collective.
bool ccl_can(const Context& context, keel_collective collective, keel_dtype dtype,
             keel_reduction reduction = KEEL_SUM, Where where = Where::current());

// The device of the case and further devices of its instance, at most |most| in total, which are
// opened. Ends the case as unsupported if there is no second device and |most| is more than 1, or
// if the device has a single hardware queue.
class TableDevices {
 public:
  explicit TableDevices(const Context& context, uint32_t most = 4, Where where = Where::current());
  ~TableDevices();
  TableDevices(const TableDevices&) = delete;
  TableDevices& operator=(const TableDevices&) = delete;

  uint32_t count() const { return static_cast<uint32_t>(devices_.size()); }
  keel_plugin_device* get(uint32_t index) const { return devices_[index]; }

 private:
  const Context& context_;
  std::vector<keel_plugin_device*> devices_;
};

// The ranks of one communicator, each with a stream.
class TableRanks {
 public:
  // Rank i uses device |order|[i]; with an empty |order|, device i.
  TableRanks(const Context& context, const TableDevices& devices, std::vector<uint32_t> order = {},
             Where where = Where::current());
  // Adopts existing communicators and destroys them in the end.
  TableRanks(const Context& context, const TableDevices& devices, std::vector<uint32_t> order,
             std::vector<keel_plugin_comm*> comms, Where where = Where::current());
  ~TableRanks();
  TableRanks(const TableRanks&) = delete;
  TableRanks& operator=(const TableRanks&) = delete;

  const Context& context() const { return context_; }
  uint32_t world() const { return static_cast<uint32_t>(comms_.size()); }
  // The numbers of all ranks, as ccl.split takes them.
  std::vector<uint32_t> all() const;
  keel_plugin_comm* comm(uint32_t rank) const { return comms_[rank]; }
  keel_plugin_device* device(uint32_t rank) const { return devices_.get(order_[rank]); }
  uint32_t device_index(uint32_t rank) const { return order_[rank]; }
  keel_plugin_stream* stream(uint32_t rank) const { return streams_[rank]; }

  // Runs |call|(rank) on one thread per rank and returns the observed statuses.
  std::vector<keel_status> call_all(const std::function<keel_status(uint32_t rank)>& call,
                                    Where where = Where::current()) const;
  // call_all(), and every status must be KEEL_OK.
  void need_all(const std::function<keel_status(uint32_t rank)>& call, const std::string& what,
                Where where = Where::current()) const;
  // Waits for the rank's stream and returns the status of its work, or KEEL_NOT_READY on a timeout.
  keel_status settle(uint32_t rank, Where where = Where::current()) const;
  // settle() for destructors.
  keel_status settle_unobserved(uint32_t rank) const;
  // Enqueue a copy and wait for it. The caller must observe downloaded bytes.
  void upload(uint32_t rank, std::byte* to, std::span<const std::byte> from,
              Where where = Where::current()) const;
  Bytes download(uint32_t rank, const std::byte* from, uint64_t size,
                 Where where = Where::current()) const;
  // Destroys the communicators now, after the streams have finished.
  void destroy();

 private:
  void make_streams(Where where);

  const Context& context_;
  const TableDevices& devices_;
  std::vector<uint32_t> order_;
  std::vector<keel_plugin_comm*> comms_;
  std::vector<keel_plugin_stream*> streams_;
  std::vector<keel_plugin_event*> events_;
};

// Device memory of a rank.
class RankMemory {
 public:
  RankMemory(const TableRanks& ranks, uint32_t rank, uint64_t size, Where where = Where::current());
  ~RankMemory();
  RankMemory(const RankMemory&) = delete;
  RankMemory& operator=(const RankMemory&) = delete;

  std::byte* at(uint64_t offset) const { return static_cast<std::byte*>(pointer_) + offset; }
  uint64_t size() const { return size_; }

 private:
  const keel_plugin& plugin_;
  keel_plugin_device* device_;
  const uint64_t size_;
  void* pointer_ = nullptr;
};

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_TABLE_RANKS_H_
