// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_MEMORY_H_
#define KEEL_EMULATOR_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "emulator/shared_file.h"
#include "emulator/status.h"

namespace keel::emulator {

// An address in a device's own space, or a host address the device can reach.
using Address = uint64_t;

inline Address address_of(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

// Where the addresses of all devices lie: a range that the host has reserved and may
// not touch, so that a device pointer dereferenced on the host faults. One for the
// process and all chips, never given back.
class DeviceRange {
 public:
#ifdef __SANITIZE_THREAD__
  // It leaves a process 1.5 TiB, in which each copy of a face's library reserves a range.
  static constexpr uint64_t kSize = uint64_t{16} << 30;
#else
  static constexpr uint64_t kSize = uint64_t{256} << 30;
#endif
  // NULL, with |*out_error|, where the address space is limited.
  static const DeviceRange* get(std::string* out_error);

  Address begin() const {
    return begin_;
  }
  // Whether any of the |size| bytes lies in the range.
  bool touches(Address address, uint64_t size) const {
    return address < begin_ + kSize && (address >= begin_ || begin_ - address < size);
  }

 private:
  explicit DeviceRange(Address begin) : begin_(begin) {}
  const Address begin_;
};

// Memory of the host, backed once it is touched.
class Storage {
 public:
  // NULL when there is none. Anonymous, or a piece of |file|.
  static std::shared_ptr<Storage> create(uint64_t size,
                                         const std::shared_ptr<SharedFile>& file = nullptr);
  // What lies at |place|, of another process. The status is SharedFile::open's, or kOutOfMemory.
  static Status open(const SharedPlace& place, std::shared_ptr<Storage>* out_storage);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  // Of a piece of a file, whoever's, with what lies behind this.
  const std::optional<SharedPlace>& place() const { return place_; }
  // Whether what lies behind it is as it was: code of this machine that writes past the end, whose
  // accesses nobody sees, writes there first. Those of all processes that have it in common.
  bool is_margin_whole() const;

 private:
  static constexpr uint64_t kMargin = 4096;

  Storage(std::byte* data, uint64_t size, std::shared_ptr<SharedFile> file,
          const std::optional<SharedPlace>& place)
      : data_(data), size_(size), file_(std::move(file)), place_(place) {}
  std::byte* const data_;
  const uint64_t size_;
  const std::shared_ptr<SharedFile> file_;  // NULL: anonymous, or another process's
  const std::optional<SharedPlace> place_;
};

// Memory in one piece, and where the host finds it.
struct Reach {
  Address begin;
  uint64_t size;
  std::byte* data;
};

// What a device can reach: its own memory, and host memory pinned for it. Each device's
// addresses begin at the start of the range, so those of two devices are often equal.
// Thread-safe.
class Memory {
 public:
  static constexpr uint64_t kAlignment = 256;
  // Fresh allocations up to this size are filled with kPoison, so that what was never
  // written shows; larger ones read as zeroes.
  static constexpr uint64_t kPoisonedSize = 1 << 20;
  static constexpr unsigned char kPoison = 0xa5;
  // Addresses between two allocations that are of neither: an access just outside of one is not
  // inside the next.
  static constexpr uint64_t kGap = 4096;

  // |shareable|: other processes can be given a part in allocations.
  Memory(const DeviceRange& range, uint64_t bytes, bool shareable);

  // First-fit by address: what was freed is handed out again at once.
  Status allocate(uint64_t size, Address* out_address);
  // kInvalidArgument if |address| is not where an allocation begins.
  Status free(Address address);
  // Where another process finds the allocation that begins at |address|, which kInvalidArgument
  // says there is none of. kUnsupported where memory is not shareable.
  Status share(Address address, SharedPlace* out_place) const;
  // Memory that another process shares, until close_import. A place that is imported already has
  // the same address, and is to be closed once more. It takes nothing of free_bytes.
  Status import(const SharedPlace& place, Address* out_address);
  // kInvalidArgument if |address| is not one that import gave.
  Status close_import(Address address);
  Status allocate_pinned(uint64_t size, void** out_pointer);
  Status free_pinned(void* pointer);
  // Memory of the caller's, which keeps it until unpin.
  Status pin(void* pointer, uint64_t size);
  Status unpin(void* pointer);

  uint64_t total_bytes() const { return bytes_; }
  uint64_t free_bytes() const;
  // Whether the device may read and write these host bytes at any time.
  bool is_pinned(const void* pointer, uint64_t size) const;
  // Whether a host range strays into the addresses of devices.
  bool is_device_address(const void* pointer, uint64_t size) const {
    return range_.touches(address_of(pointer), size);
  }

  // Where the host finds |size| bytes at |address|, all in one allocation, pinned block
  // or pinned range; |*out_keep| keeps them from going meanwhile. kIllegalAddress, with
  // what lies near.
  Status resolve(Address address, uint64_t size, std::byte** out_data,
                 std::shared_ptr<Storage>* out_keep) const;
  // The whole of what |address| lies in.
  Status resolve_block(Address address, Reach* out_reach, std::shared_ptr<Storage>* out_keep) const;

 private:
  struct Block {
    uint64_t size;
    std::shared_ptr<Storage> storage;  // NULL: the caller's own
    uint32_t imports = 0;              // of another process's memory: closes to come
  };
  using Blocks = std::map<Address, Block>;

  // The block that holds the range, or NULL with |*out_error|.
  static const Blocks::value_type* find(const Blocks& blocks, Address address, uint64_t size,
                                        std::string* out_error);
  // Where |size| bytes fit; 0 when nowhere.
  Address find_hole(uint64_t size) const;

  const DeviceRange& range_;
  const uint64_t bytes_;
  const std::shared_ptr<SharedFile> file_;  // of device memory; NULL: not shareable
  mutable std::shared_mutex mutex_;
  uint64_t used_ = 0;
  Blocks device_blocks_;
  Blocks host_blocks_;
};

// The memory accesses of one piece of work: checked, and held until it is done.
class Access {
 public:
  explicit Access(const Memory& memory) : memory_(memory) {}
  // See Memory::resolve.
  Status reach(Address address, uint64_t size, std::byte** out_data);
  // See Memory::resolve_block.
  Status reach_block(Address address, Reach* out_reach);
  // kIllegalAddress where somebody has written behind what was reached.
  Status check_margins() const;

 private:
  const Memory& memory_;
  std::vector<std::shared_ptr<Storage>> kept_;
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_MEMORY_H_
