// SPDX-License-Identifier: Apache-2.0
#include "emulator/memory.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <mutex>

namespace keel::emulator {
namespace {

void* map(uint64_t size, int protection) {
  void* const mapped =
      mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

void* map_file(int descriptor, const SharedFileHandle& place) {
  void* const mapped = mmap(nullptr, place.size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                            descriptor, static_cast<off_t>(place.offset));
  return mapped == MAP_FAILED ? nullptr : mapped;
}

uint64_t rounded(uint64_t size) {
  return (size + Memory::kAlignment - 1) / Memory::kAlignment * Memory::kAlignment;
}

constexpr unsigned char kMarginByte = 0x5b;

Status no_allocation(Address address) {
  return {Code::kInvalidArgument, fmt::format("no allocation begins at {:#x}", address)};
}

uint64_t physical_memory() {
  return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

const DeviceRange* DeviceRange::get(std::string* out_error) {
  static const DeviceRange* const range = []() -> const DeviceRange* {
    for (uint64_t size = kMostBytes; size >= kLeastBytes; size /= 2) {
      void* const reserved = map(size, PROT_NONE);
      if (reserved != nullptr) return new DeviceRange(address_of(reserved), size);
    }
    return nullptr;
  }();
  if (range == nullptr) {
    *out_error = fmt::format("{} GiB of address space cannot be reserved for device addresses",
                             kLeastBytes >> 30);
  }
  return range;
}

std::shared_ptr<Storage> Storage::create(uint64_t size, const std::shared_ptr<SharedFile>& file) {
  if (size > UINT64_MAX - kMargin) return nullptr;
  std::optional<SharedFileHandle> place;
  void* mapped = nullptr;
  if (file == nullptr) {
    mapped = map(size + kMargin, PROT_READ | PROT_WRITE);
  } else if (file->extend(size + kMargin, &place.emplace())) {
    mapped = map_file(place->descriptor, *place);
  }
  if (mapped == nullptr) return nullptr;
  auto* const data = static_cast<std::byte*>(mapped);
  std::memset(data + size, kMarginByte, kMargin);
  return std::shared_ptr<Storage>(new Storage(data, size, file, place));
}

Status Storage::open(const SharedFileHandle& place, std::shared_ptr<Storage>* out_storage) {
  if (place.size <= kMargin) {
    return {Code::kInvalidArgument, fmt::format("{} bytes are not in an allocation", place.size)};
  }
  int descriptor = -1;
  const Status status = SharedFile::open(place, &descriptor);
  if (!status.ok()) return status;
  void* const data = map_file(descriptor, place);
  close(descriptor);
  if (data == nullptr) return {Code::kOutOfMemory, "the host has no addresses for it"};
  out_storage->reset(
      new Storage(static_cast<std::byte*>(data), place.size - kMargin, nullptr, place));
  return {};
}

Storage::~Storage() {
  munmap(data_, size_ + kMargin);
  if (file_ != nullptr) file_->discard(*place_);
}

bool Storage::is_margin_whole() const {
  const std::byte* const margin = data_ + size_;
  // A zero margin in another process's memory: that process freed the allocation.
  const bool is_freed = file_ == nullptr && place_ && margin[0] == std::byte{0};
  return (margin[0] == std::byte{kMarginByte} || is_freed) &&
         std::memcmp(margin, margin + 1, kMargin - 1) == 0;
}

Memory::Memory(const DeviceRange& range, uint64_t bytes, bool shareable, uint64_t offset)
    : range_(range),
      begin_(range.begin() + offset),
      bytes_(bytes),
      file_(shareable ? SharedFile::create() : nullptr) {}

Address Memory::find_hole(uint64_t size) const {
  Address candidate = begin_;
  for (const auto& [address, block] : device_blocks_) {
    if (address - candidate >= size + kGap) return candidate;
    candidate = address + rounded(block.size) + kGap;
  }
  const Address end = range_.begin() + range_.size();
  return candidate <= end && end - candidate >= size ? candidate : 0;
}

Status Memory::allocate(uint64_t size, Address* out_address) {
  const std::lock_guard lock(mutex_);
  const uint64_t left = bytes_ - used_;
  if (size > left || rounded(size) > left) {
    return {Code::kOutOfMemory,
            fmt::format("{} bytes asked for, {} of {} left", size, left, bytes_)};
  }
  const Address address = find_hole(rounded(size));
  std::shared_ptr<Storage> storage = address == 0 ? nullptr : Storage::create(size, file_);
  if (storage == nullptr) {
    return {Code::kOutOfMemory, address == 0 ? "the device's addresses are too fragmented"
                                             : "the host has no memory for it"};
  }
  if (size <= kPoisonedSize) std::memset(storage->data(), kPoison, size);
  device_blocks_.emplace(address, Block{size, std::move(storage)});
  used_ += rounded(size);
  *out_address = address;
  return {};
}

Status Memory::free(Address address) {
  const std::lock_guard lock(mutex_);
  const auto found = device_blocks_.find(address);
  if (found == device_blocks_.end() || found->second.imports != 0) return no_allocation(address);
  used_ -= rounded(found->second.size);
  device_blocks_.erase(found);
  return {};
}

Status Memory::share(Address address, SharedFileHandle* out_place) const {
  const std::shared_lock lock(mutex_);
  const auto found = device_blocks_.find(address);
  if (found == device_blocks_.end() || found->second.imports != 0) return no_allocation(address);
  const std::optional<SharedFileHandle>& place = found->second.storage->place();
  if (!place) return {Code::kUnsupported, "the device's memory is of this process alone"};
  *out_place = *place;
  return {};
}

Status Memory::import(const SharedFileHandle& place, Address* out_address) {
  const std::lock_guard lock(mutex_);
  for (auto& [address, block] : device_blocks_) {
    if (block.imports == 0 || block.storage->place() != place) continue;
    ++block.imports;
    *out_address = address;
    return {};
  }
  std::shared_ptr<Storage> storage;
  Status status = Storage::open(place, &storage);
  if (!status.ok()) return status;
  const uint64_t size = storage->size();
  const Address address = find_hole(rounded(size));
  if (address == 0) return {Code::kOutOfMemory, "the device's addresses are too fragmented"};
  device_blocks_.emplace(address, Block{size, std::move(storage), 1});
  *out_address = address;
  return {};
}

Status Memory::close_import(Address address) {
  const std::lock_guard lock(mutex_);
  const auto found = device_blocks_.find(address);
  if (found == device_blocks_.end() || found->second.imports == 0) {
    return {Code::kInvalidArgument, fmt::format("no import begins at {:#x}", address)};
  }
  if (--found->second.imports == 0) device_blocks_.erase(found);
  return {};
}

Status Memory::allocate_pinned(uint64_t size, void** out_pointer) {
  std::shared_ptr<Storage> storage = size > physical_memory() ? nullptr : Storage::create(size);
  if (storage == nullptr) {
    return {Code::kOutOfMemory, fmt::format("the host cannot pin {} bytes", size)};
  }
  if (size <= kPoisonedSize) std::memset(storage->data(), kPoison, size);
  *out_pointer = storage->data();
  const std::lock_guard lock(mutex_);
  host_blocks_.emplace(address_of(*out_pointer), Block{size, std::move(storage)});
  return {};
}

Status Memory::free_pinned(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = host_blocks_.find(address_of(pointer));
  if (found == host_blocks_.end() || found->second.storage == nullptr) {
    return {Code::kInvalidArgument, fmt::format("no pinned allocation begins at {}", pointer)};
  }
  host_blocks_.erase(found);
  return {};
}

Status Memory::pin(void* pointer, uint64_t size) {
  const Address address = address_of(pointer);
  if (size == 0 || is_device_address(pointer, size)) {
    return {Code::kInvalidArgument, fmt::format("{} is no host memory", pointer)};
  }
  const std::lock_guard lock(mutex_);
  const auto next = host_blocks_.lower_bound(address);
  if ((next != host_blocks_.end() && next->first - address < size) ||
      (next != host_blocks_.begin() &&
       address - std::prev(next)->first < std::prev(next)->second.size)) {
    return {Code::kInvalidArgument, fmt::format("memory at {} is pinned already", pointer)};
  }
  host_blocks_.emplace(address, Block{size, nullptr});
  return {};
}

Status Memory::unpin(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = host_blocks_.find(address_of(pointer));
  if (found == host_blocks_.end() || found->second.storage != nullptr) {
    return {Code::kInvalidArgument,
            fmt::format("no memory at {} was pinned by the caller", pointer)};
  }
  host_blocks_.erase(found);
  return {};
}

uint64_t Memory::free_bytes() const {
  const std::shared_lock lock(mutex_);
  return bytes_ - used_;
}

bool Memory::is_pinned(const void* pointer, uint64_t size) const {
  std::string ignored;
  const std::shared_lock lock(mutex_);
  return find(host_blocks_, address_of(pointer), size, &ignored) != nullptr;
}

const Memory::Blocks::value_type* Memory::find(const Blocks& blocks, Address address, uint64_t size,
                                               std::string* out_error) {
  const auto next = blocks.upper_bound(address);
  if (next != blocks.begin()) {
    const auto& found = *std::prev(next);
    const uint64_t offset = address - found.first;
    if (offset < found.second.size) {
      if (size <= found.second.size - offset) return &found;
      *out_error = fmt::format("{} bytes at {:#x} reach past the allocation of {} at {:#x}", size,
                               address, found.second.size, found.first);
      return nullptr;
    }
  }
  *out_error = fmt::format("no memory of the device at {:#x}", address);
  return nullptr;
}

Status Memory::resolve(Address address, uint64_t size, std::byte** out_data,
                       std::shared_ptr<Storage>* out_keep) const {
  std::string error;
  const std::shared_lock lock(mutex_);
  const bool on_device = range_.touches(address, size);
  const auto* const found = find(on_device ? device_blocks_ : host_blocks_, address, size, &error);
  if (found == nullptr) return {Code::kIllegalAddress, std::move(error)};
  const Block& block = found->second;
  *out_data = (block.storage == nullptr ? reinterpret_cast<std::byte*>(found->first)
                                        : block.storage->data()) +
              (address - found->first);
  *out_keep = block.storage;
  return {};
}

Status Memory::resolve_block(Address address, Reach* out_reach,
                             std::shared_ptr<Storage>* out_keep) const {
  std::string error;
  const std::shared_lock lock(mutex_);
  const bool on_device = range_.touches(address, 1);
  const auto* const found = find(on_device ? device_blocks_ : host_blocks_, address, 1, &error);
  if (found == nullptr) return {Code::kIllegalAddress, std::move(error)};
  const Block& block = found->second;
  *out_reach = {found->first, block.size,
                block.storage == nullptr ? reinterpret_cast<std::byte*>(found->first)
                                         : block.storage->data()};
  *out_keep = block.storage;
  return {};
}

Status Access::reach(Address address, uint64_t size, std::byte** out_data) {
  std::shared_ptr<Storage> keep;
  Status status = memory_.resolve(address, size, out_data, &keep);
  if (status.ok()) kept_.push_back(std::move(keep));
  return status;
}

Status Access::reach_block(Address address, Reach* out_reach) {
  std::shared_ptr<Storage> keep;
  Status status = memory_.resolve_block(address, out_reach, &keep);
  if (status.ok()) kept_.push_back(std::move(keep));
  return status;
}

Status Access::check_margins() const {
  for (const std::shared_ptr<Storage>& storage : kept_) {
    if (storage == nullptr || storage->is_margin_whole()) continue;
    return {Code::kIllegalAddress,
            fmt::format("bytes behind an allocation of {} were written to", storage->size())};
  }
  return {};
}

}  // namespace keel::emulator
