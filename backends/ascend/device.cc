// SPDX-License-Identifier: Apache-2.0
#include "backends/ascend/device.h"

#include <algorithm>
#include <keel/plugin_kit.hpp>
#include <map>
#include <mutex>
#include <utility>

namespace keel::ascend {
namespace {

// Host memory that the plugin has pinned: the runtime pins it for all its devices.
class PinnedRanges {
 public:
  static PinnedRanges& get() {
    static PinnedRanges& ranges = *new PinnedRanges;
    return ranges;
  }
  using Sizes = std::map<std::pair<const Sdk*, uintptr_t>, uint64_t>;

  // Room for a range, so that add() after the runtime's call does not fail.
  static Sizes::node_type make_room() {
    Sizes one;
    one.emplace(Sizes::key_type(), 0);
    return one.extract(one.begin());
  }
  void add(Sizes::node_type room, const Sdk& sdk, const void* pointer, uint64_t size) {
    room.key() = {&sdk, reinterpret_cast<uintptr_t>(pointer)};
    room.mapped() = size;
    const std::lock_guard lock(mutex_);
    sizes_.insert(std::move(room));
  }
  void remove(const Sdk& sdk, const void* pointer) {
    const std::lock_guard lock(mutex_);
    sizes_.erase({&sdk, reinterpret_cast<uintptr_t>(pointer)});
  }
  // Whether one range contains [pointer, pointer + size).
  bool contain(const Sdk& sdk, const void* pointer, uint64_t size) {
    const auto begin = reinterpret_cast<uintptr_t>(pointer);
    const std::lock_guard lock(mutex_);
    auto found = sizes_.upper_bound({&sdk, begin});
    if (found == sizes_.begin() || (--found)->first.first != &sdk) return false;
    const uint64_t offset = begin - found->first.second;
    return offset < found->second && size <= found->second - offset;
  }

 private:
  std::mutex mutex_;
  Sizes sizes_;
};

struct Registrations {
  struct Range {
    uint64_t size;
    uint32_t holders;
  };
  std::mutex mutex;
  // The runtime registers a range once for all its devices.
  std::map<std::pair<const Sdk*, void*>, Range> ranges;

  static Registrations& get() {
    static Registrations& registrations = *new Registrations;
    return registrations;
  }
};

}  // namespace

keel_status Device::open(const Sdk& sdk, uint32_t ordinal, std::unique_ptr<Device>* out_device) {
  if (ordinal >= sdk.device_count()) {
    return kit::fail(KEEL_NOT_FOUND, "ascend: there is no device %u", ordinal);
  }
  const Functions& acl = sdk.functions();
  std::unique_ptr<Device> device(new Device(sdk, ordinal));
  keel_status status = KEEL_OK;
  {
    ContextKeeper keeper(acl);
    keeper.expect_change();
    status = device->check("aclrtSetDevice", acl.aclrtSetDevice(static_cast<int32_t>(ordinal)));
    if (status != KEEL_OK) return status;
    device->is_set_ = true;
    status = device->check("aclrtGetCurrentContext", acl.aclrtGetCurrentContext(&device->context_));
  }
  if (status != KEEL_OK) return status;
  if (acl.aclrtDeviceGetStreamPriorityRange != nullptr) {
    status = device->call("aclrtDeviceGetStreamPriorityRange", [&](const Functions& functions) {
      return functions.aclrtDeviceGetStreamPriorityRange(&device->least_priority_,
                                                         &device->greatest_priority_);
    });
    if (status != KEEL_OK) return status;
  }
  if (acl.aclrtCtxSetSysParamOpt != nullptr) {
    status = device->call("aclrtCtxSetSysParamOpt", [&](const Functions& functions) {
      return functions.aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1);
    });
    if (status != KEEL_OK && status != KEEL_UNSUPPORTED) return status;
    device->fixes_order_ = status == KEEL_OK;
  }
  *out_device = std::move(device);
  return KEEL_OK;
}

Device::~Device() {
  if (!is_set_) return;
  pinned_pool_->close();
  for (const auto& block : pinned_pool_->blocks()) {
    (void)free(KEEL_MEMORY_PINNED, block->memory);
  }
  (void)functions().aclrtResetDevice(static_cast<int32_t>(ordinal_));
}

keel_status Device::say_lost() const {
  return kit::fail(KEEL_DEVICE_LOST, "ascend: device %u is lost: error %d", ordinal_, loss_.load());
}

keel_status Device::check(const char* name, aclError error) noexcept {
  if (error == ACL_SUCCESS) return KEEL_OK;
  if (is_fatal(error)) {
    aclError none = ACL_SUCCESS;
    loss_.compare_exchange_strong(none, error);
  }
  return kit::fail(status_of(error), "ascend: %s", sdk_.text_of(name, error).c_str());
}

uint32_t Device::native_priority(int32_t priority) const {
  const int32_t low = std::min(least_priority_, greatest_priority_);
  const int32_t high = std::max(least_priority_, greatest_priority_);
  const int32_t step = greatest_priority_ <= least_priority_ ? priority : -priority;
  const int64_t wanted = int64_t{least_priority_} + std::clamp(step, -64, 64);
  return static_cast<uint32_t>(std::clamp<int64_t>(wanted, low, high));
}

bool Device::is_pinned(const void* pointer, uint64_t size) const {
  return PinnedRanges::get().contain(sdk_, pointer, size);
}

bool Device::take_executor_bytes(uint64_t bytes) {
  uint64_t taken = executor_bytes_.load();
  do {
    if (taken + bytes > kExecutorBytes) return false;
  } while (!executor_bytes_.compare_exchange_weak(taken, taken + bytes));
  return true;
}

keel_status Device::alloc(keel_memory_kind kind, uint64_t size, void** out_pointer) {
  if (kind == KEEL_MEMORY_PINNED) {
    auto room = PinnedRanges::make_room();
    const keel_status status = call("aclrtMallocHost", [&](const Functions& acl) {
      return acl.aclrtMallocHost(out_pointer, size);
    });
    if (status == KEEL_OK) {
      PinnedRanges::get().add(std::move(room), sdk_, *out_pointer, size);
    }
    return status;
  }
  if (kind != KEEL_MEMORY_DEVICE) {
    return kit::fail(KEEL_UNSUPPORTED, "ascend: no memory of kind %u", kind);
  }
  return call("aclrtMalloc", [&](const Functions& acl) {
    return acl.aclrtMalloc(out_pointer, size, ACL_MEM_MALLOC_HUGE_FIRST);
  });
}

keel_status Device::free(keel_memory_kind kind, void* pointer) {
  if (kind == KEEL_MEMORY_PINNED) {
    PinnedRanges::get().remove(sdk_, pointer);
    return release("aclrtFreeHost",
                   [&](const Functions& acl) { return acl.aclrtFreeHost(pointer); });
  }
  return release("aclrtFree", [&](const Functions& acl) { return acl.aclrtFree(pointer); });
}

keel_status Device::host_register(void* pointer, uint64_t size, void** out_device_pointer) {
  *out_device_pointer = nullptr;  // copies alone use the memory
  Registrations& registrations = Registrations::get();
  const std::lock_guard lock(registrations.mutex);
  const auto found = registrations.ranges.find({&sdk_, pointer});
  if (found != registrations.ranges.end() && found->second.size == size) {
    ++found->second.holders;
    return KEEL_OK;
  }
  if (found != registrations.ranges.end()) {
    return kit::fail(KEEL_ALREADY_EXISTS, "ascend: the memory is registered with another size");
  }
  auto room = PinnedRanges::make_room();
  const auto added =
      registrations.ranges.emplace(std::pair(&sdk_, pointer), Registrations::Range{size, 1}).first;
  const keel_status status = call("aclrtHostRegisterV2", [&](const Functions& acl) {
    return acl.aclrtHostRegisterV2(pointer, size, ACL_HOST_REG_PINNED);
  });
  if (status != KEEL_OK) {
    registrations.ranges.erase(added);
    return status;
  }
  PinnedRanges::get().add(std::move(room), sdk_, pointer, size);
  return KEEL_OK;
}

keel_status Device::host_unregister(void* pointer) {
  Registrations& registrations = Registrations::get();
  const std::lock_guard lock(registrations.mutex);
  const auto found = registrations.ranges.find({&sdk_, pointer});
  if (found == registrations.ranges.end()) {
    return kit::fail(KEEL_FAILED_PRECONDITION, "ascend: the memory is not registered");
  }
  if (--found->second.holders != 0) return KEEL_OK;
  registrations.ranges.erase(found);
  PinnedRanges::get().remove(sdk_, pointer);
  return release("aclrtHostUnregister",
                 [&](const Functions& acl) { return acl.aclrtHostUnregister(pointer); });
}

keel_status Device::memory_info(uint64_t* out_free, uint64_t* out_total) {
  size_t free = 0;
  size_t total = 0;
  const keel_status status = call("aclrtGetMemInfo", [&](const Functions& acl) {
    const aclError error = acl.aclrtGetMemInfo(ACL_HBM_MEM, &free, &total);
    // Chips without HBM have DDR.
    const bool is_answered = error == ACL_SUCCESS && total != 0;
    return is_answered || is_fatal(error) ? error : acl.aclrtGetMemInfo(ACL_DDR_MEM, &free, &total);
  });
  *out_free = free;
  *out_total = total;
  return status;
}

keel_status Device::native_handle(uint32_t which, void** out_handle) const {
  if (which != 0) {
    return kit::fail(KEEL_UNSUPPORTED,
                     "ascend: no native handle %u: 0, the context, is the only one", which);
  }
  *out_handle = context_;
  return KEEL_OK;
}

}  // namespace keel::ascend
