// SPDX-License-Identifier: Apache-2.0
// The C functions of memory and copies.
#include <array>
#include <keel/plugin_kit.hpp>
#include <new>
#include <utility>

#include "core/api.h"
#include "core/copy.h"
#include "core/passthrough_allocator.h"
#include "core/pinned_segment_cache.h"
#include "core/profiler.h"
#include "core/validation/leaks.h"
#include "core/validation/validation.h"

using keel::Allocation;
using keel::api_call;
using keel::api_fast_path_call;
using keel::api_nonblocking_call;
using keel::Device;
using keel::Endpoint;
using keel::EpochSection;
using keel::failure;
using keel::find_device;
using keel::find_stream;
using keel::Ref;
using keel::report_answer;
using keel::Runtime;
using keel::Status;
using keel::Stream;

namespace {

// Counts native work on shared streams as enqueued. Allocates nothing, since memory must be
// freeable when no memory is left.
[[gnu::noinline]] keel_status note_native_work() {
  return api_call([]() -> Status {
    constexpr size_t kAtATime = 32;
    Ref<Stream> last;
    while (true) {
      std::array<Ref<Stream>, kAtATime> streams;
      const size_t count = Runtime::get().streams_after(last.get(), streams);
      if (count == 0) return {};
      for (size_t i = 0; i < count; ++i) streams[i]->note_native_work();
      last = std::move(streams[count - 1]);
    }
  });
}

// After a successful free with the passthrough allocator (passthrough_allocator): returns idle
// segments to the plugin, which may wait for the device.
template <typename FindDevice>
[[gnu::noinline, gnu::cold]] void give_back_idle(const FindDevice& find_device_of) {
  (void)api_call([&]() -> Status {
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device_of(&found));
    found->memory().trim();
    return {};
  });
}

Status unpin_host(Device& device, void* pointer) {
  const keel_memory_table* const table = device.memory_table();
  if (!KEEL_HAS(keel_memory_table, table, host_unregister)) return {};
  return device.check(table->host_unregister(device.native(), pointer), "memory.host_unregister");
}

}  // namespace

keel_status keel_alloc(keel_device device, keel_memory_kind kind, uint64_t size,
                       void** out_pointer) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_pointer)
    Device* found = nullptr;
    {
      EpochSection section;  // the plugin may be slow after this
      KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    }
    void* pointer = nullptr;
    KEEL_RETURN_IF_ERROR(found->memory().alloc(kind, size, &pointer));
    if (keel::validation::enabled() && size != 0) {
      keel::validation::note_memory(*found, pointer, size);
    }
    *out_pointer = pointer;
    return {};
  });
}

keel_status keel_free(keel_device device, void* pointer) {
  if (Stream::any_shared()) [[unlikely]] {
    const keel_status noted = note_native_work();
    if (noted != KEEL_OK) return noted;
  }
  const keel_status status = api_nonblocking_call([&]() -> Status {
    Device* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    if (keel::validation::enabled()) keel::validation::forget_memory(*found, pointer);
    return found->memory().free(pointer);
  });
  if (keel::passthrough_allocator::enabled() && status == KEEL_OK) [[unlikely]] {
    give_back_idle([&](Ref<Device>* out) { return find_device(device, "device", out); });
  }
  return status;
}

keel_status keel_alloc_on_stream(keel_stream stream, uint64_t size, void** out_pointer) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(out_pointer)
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    void* pointer = nullptr;
    KEEL_RETURN_IF_ERROR(found->device().memory().alloc(*found, size, &pointer));
    if (keel::validation::enabled() && size != 0) {
      keel::validation::note_memory(found->device(), pointer, size);
    }
    *out_pointer = pointer;
    return {};
  });
}

keel_status keel_free_on_stream(keel_stream stream, void* pointer) {
  const keel_status status = api_nonblocking_call([&]() -> Status {
    Stream* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    if (keel::validation::enabled()) keel::validation::forget_memory(found->device(), pointer);
    found->note_native_work();
    return found->device().memory().free(*found, pointer);
  });
  if (keel::passthrough_allocator::enabled() && status == KEEL_OK) [[unlikely]] {
    give_back_idle([&](Ref<Device>* out) -> Status {
      Ref<Stream> found;
      KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
      *out = Ref<Device>(&found->device());
      return {};
    });
  }
  return status;
}

keel_status keel_memory_stats_get(keel_device device, keel_memory_stats* out_stats) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(keel::check_struct(out_stats, KEEL_STRUCT_MEMORY_STATS,
                                            sizeof(keel_memory_stats), "out_stats"));
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    found->memory().get_stats(out_stats);
    return {};
  });
}

keel_status keel_memory_stats_reset_peaks(keel_device device) {
  return api_call([&]() -> Status {
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    found->memory().reset_peaks();
    return {};
  });
}

keel_status keel_memory_snapshot(keel_device device, char* out_text, uint64_t* in_out_size) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(in_out_size)
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    return keel::return_text(found->memory().snapshot(), out_text, in_out_size);
  });
}

keel_status keel_memory_trim(keel_device device) {
  return api_call([&]() -> Status {
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    found->memory().trim();
    return {};
  });
}

namespace {

// Finds a device that reads and writes host memory at the host's addresses.
Status find_all_memory_device(keel_device device, Ref<Device>* out_device) {
  KEEL_RETURN_IF_ERROR(find_device(device, "device", out_device));
  if ((*out_device)->info().type == KEEL_DEVICE_CPU) return {};
  return failure(KEEL_UNSUPPORTED, "{} is no CPU device: it does not reach all memory",
                 (*out_device)->name());
}

}  // namespace

keel_status keel_host_register(keel_device device, void* pointer, uint64_t size) {
  return api_call([&]() -> Status {
    Ref<Device> found;
    if (pointer == nullptr && size == KEEL_ALL_MEMORY) {
      KEEL_RETURN_IF_ERROR(find_all_memory_device(device, &found));
      found->host_registrations().add_all();
      return {};
    }
    if (size != 0) KEEL_REQUIRE(pointer)
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    const keel_memory_table* table = found->memory_table();
    if (!found->has(KEEL_CAPABILITY_HOST_REGISTER) ||
        !KEEL_HAS(keel_memory_table, table, host_register)) {
      return failure(KEEL_UNSUPPORTED, "{} cannot pin host memory of the caller", found->name());
    }
    if (size == 0) return {};
    keel::PinnedSegmentCache::get().yield(*found, pointer, size);
    KEEL_RETURN_IF_ERROR(found->host_registrations().add(
        pointer, size,
        [&](void* at, uint64_t bytes, void** out_device_pointer) {
          return found->check(table->host_register(found->native(), at, bytes, out_device_pointer),
                              "memory.host_register");
        },
        [&](void* at) { return unpin_host(*found, at); }));
    if (!keel::validation::enabled()) return {};
    try {
      keel::validation::note_registration(*found, pointer, size);
    } catch (const std::bad_alloc&) {
      // After a failed registration the caller has nothing to unregister.
      found->host_registrations()
          .remove(pointer, [&](void* at) { return unpin_host(*found, at); })
          .ok();
      return Status::no_memory();
    }
    return {};
  });
}

keel_status keel_host_unregister(keel_device device, void* pointer) {
  return api_call([&]() -> Status {
    Ref<Device> found;
    if (pointer == nullptr) {
      KEEL_RETURN_IF_ERROR(find_all_memory_device(device, &found));
      return found->host_registrations().remove_all([&](uintptr_t begin, uintptr_t end) {
        return Runtime::get().check_unused(*found, begin, end);
      });
    }
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    const keel_memory_table* table = found->memory_table();
    if (!found->has(KEEL_CAPABILITY_HOST_REGISTER) ||
        !KEEL_HAS(keel_memory_table, table, host_unregister)) {
      return failure(KEEL_UNSUPPORTED, "{} cannot pin host memory of the caller", found->name());
    }
    KEEL_RETURN_IF_ERROR(found->host_registrations().remove(
        pointer, [&](void* at) { return unpin_host(*found, at); },
        [&](uintptr_t begin, uintptr_t end) {
          return Runtime::get().check_unused(*found, begin, end);
        }));
    if (keel::validation::enabled()) keel::validation::forget_registration(*found, pointer);
    return {};
  });
}

keel_status keel_memory_find(keel_device device, const void* pointer, keel_memory_info* out_info) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(pointer)
    KEEL_RETURN_IF_ERROR(keel::check_struct(out_info, KEEL_STRUCT_MEMORY_INFO,
                                            sizeof(keel_memory_info), "out_info"));
    Ref<Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    Allocation allocation;
    if (!found->memory().find(pointer, &allocation)) {
      return failure(KEEL_NOT_FOUND, "pointer {} is not memory of {}", pointer, found->name());
    }
    out_info->base = allocation.base;
    out_info->size = allocation.size;
    out_info->kind = allocation.kind;
    out_info->host_alias = allocation.host_alias;
    return {};
  });
}

namespace {

// Resolves one side of a copy on |owner|. For a copy, pinned memory of a device counts as host
// memory.
inline Status resolve_endpoint(Device& owner, keel_device handle, void* pointer, uint64_t size,
                               const char* device_name, const char* pointer_name,
                               Endpoint* out_endpoint) {
  out_endpoint->pointer = pointer;
  if (handle.id == 0) {
    if (pointer == nullptr) return failure(KEEL_INVALID_ARGUMENT, "{} is NULL", pointer_name);
    return {};
  }
  Device* device = &owner;  // open, since it has a stream
  if (handle.id != owner.handle()) KEEL_RETURN_IF_ERROR(find_device(handle, device_name, &device));
  Allocation allocation;
  KEEL_RETURN_IF_ERROR(device->memory().check_range(pointer, size, pointer_name, &allocation));
  if (allocation.kind == KEEL_MEMORY_DEVICE) out_endpoint->device = device;
  return {};
}

bool overlap(const Endpoint& a, const Endpoint& b, uint64_t size) {
  if (a.device != b.device) return false;
  const auto first = reinterpret_cast<uintptr_t>(a.pointer);
  const auto second = reinterpret_cast<uintptr_t>(b.pointer);
  return first < second + size && second < first + size;
}

// Returns why a copy of |size| > 0 bytes is refused, or KEEL_OK.
Status check_copy(const Device& owner, const Endpoint& to, const Endpoint& from, uint64_t size) {
  if (to.device == nullptr && from.device == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT,
                   "destination and source are both host memory: that is memcpy's to copy");
  }
  if (to.device != &owner && from.device != &owner) {
    return failure(KEEL_INVALID_ARGUMENT, "stream is of {}, the copy is {} -> {}", owner.name(),
                   from.device != nullptr ? from.device->name() : "host",
                   to.device != nullptr ? to.device->name() : "host");
  }
  if (overlap(to, from, size)) {
    return failure(KEEL_INVALID_ARGUMENT, "destination and source overlap");
  }
  return {};
}

[[gnu::noinline]] keel_status copy_slow_path(keel_stream stream, keel_device destination_device,
                                             void* destination, keel_device source_device,
                                             const void* source, uint64_t size) {
  return api_call("keel_copy", [&]() -> Status {
    keel::EpochSection section;
    Stream* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    if (size == 0) return {};
    Device& owner = found->device();
    Endpoint to;
    Endpoint from;
    KEEL_RETURN_IF_ERROR(resolve_endpoint(owner, destination_device, destination, size,
                                          "destination_device", "destination", &to));
    KEEL_RETURN_IF_ERROR(resolve_endpoint(owner, source_device, const_cast<void*>(source), size,
                                          "source_device", "source", &from));
    KEEL_RETURN_IF_ERROR(check_copy(owner, to, from, size));
    keel::EnqueueCall call("copy", owner, stream);
    if (keel::is_direct(to, from)) {
      return call.end(keel::submit_direct_copy(*found, to, from, size));
    }
    const Ref<Stream> kept(found);  // the copy below may wait
    section.leave();
    return call.end(keel::enqueue_copy(kept, to, from, size));
  });
}

}  // namespace

keel_status keel_copy(keel_stream stream, keel_device destination_device, void* destination,
                      keel_device source_device, const void* source, uint64_t size) {
  // Fast path: a copy within device memory of the stream's own device, or between device and host
  // memory.
  const auto usual = [&](const keel::epoch::EpochRecord& thread, keel_status* out_status) {
    Stream* found = Runtime::opened().stream_handles().peek(stream.id);
    if (found == nullptr || size == 0) return false;
    Device& owner = found->device();
    const keel::Memory& memory = owner.memory();
    const keel::BlockLookupCache& cache = *thread.lookup_cache;
    keel_copy_kind kind = KEEL_COPY_DEVICE_TO_DEVICE;
    if (destination_device.id == owner.handle() && source_device.id == owner.handle()) [[likely]] {
      const auto to = reinterpret_cast<uintptr_t>(destination);
      const auto from = reinterpret_cast<uintptr_t>(source);
      if (to < from + size && from < to + size) return false;  // overlap
      if (!memory.is_known_range(cache, destination, size)) return false;
      if (!memory.is_known_range(cache, source, size)) return false;
    } else if (destination_device.id == owner.handle() && source_device.id == 0) {
      if (source == nullptr || !memory.is_known_range(cache, destination, size)) return false;
      kind = KEEL_COPY_HOST_TO_DEVICE;
    } else if (destination_device.id == 0 && source_device.id == owner.handle()) {
      if (destination == nullptr || !memory.is_known_range(cache, source, size)) return false;
      kind = KEEL_COPY_DEVICE_TO_HOST;
    } else {
      return false;
    }
    const auto run = [&](keel_plugin_stream* native) {
      return owner.stream_table()->copy(native, kind, destination, source, size);
    };
    if (!found->try_submit_fast_path(run, out_status)) return false;
    if (*out_status != KEEL_OK) [[unlikely]] {
      *out_status = report_answer(owner, *out_status, "stream.copy");
    }
    return true;
  };
  return api_fast_path_call(usual, [&] {
    return copy_slow_path(stream, destination_device, destination, source_device, source, size);
  });
}

keel_status keel_fill(keel_stream stream, void* destination, const void* pattern,
                      uint32_t pattern_size, uint64_t size) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(pattern)
    Ref<Stream> found;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    if (pattern_size != 1 && pattern_size != 2 && pattern_size != 4 && pattern_size != 8) {
      return failure(KEEL_INVALID_ARGUMENT, "pattern_size is {}: 1, 2, 4 or 8", pattern_size);
    }
    if (size % pattern_size != 0) {
      return failure(KEEL_INVALID_ARGUMENT, "size {} is no multiple of pattern_size {}", size,
                     pattern_size);
    }
    if (size == 0) return {};
    Allocation allocation;
    KEEL_RETURN_IF_ERROR(
        found->device().memory().check_range(destination, size, "destination", &allocation));
    if (allocation.kind != KEEL_MEMORY_DEVICE) {
      return failure(KEEL_INVALID_ARGUMENT, "destination is pinned memory: the host fills that");
    }
    if (reinterpret_cast<uintptr_t>(destination) % pattern_size != 0) {
      return failure(KEEL_INVALID_ARGUMENT, "destination is not aligned to pattern_size {}",
                     pattern_size);
    }
    keel::EnqueueCall call("fill", found->device(), stream);
    return call.end(keel::enqueue_fill(found, destination, pattern, pattern_size, size));
  });
}

keel_status keel_copy_path_get(keel_device destination_device, keel_device source_device,
                               keel_copy_path* out_path) {
  return api_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(
        keel::check_struct(out_path, KEEL_STRUCT_COPY_PATH, sizeof(keel_copy_path), "out_path"));
    keel::EpochSection section;
    Device* to = nullptr;
    Device* from = nullptr;
    if (destination_device.id != 0) {
      KEEL_RETURN_IF_ERROR(find_device(destination_device, "destination_device", &to));
    }
    if (source_device.id != 0) {
      KEEL_RETURN_IF_ERROR(find_device(source_device, "source_device", &from));
    }
    if (to == nullptr && from == nullptr) {
      return failure(KEEL_INVALID_ARGUMENT, "destination_device and source_device are the host");
    }
    const keel::CopyPath path = keel::choose_copy_path(to, from);
    out_path->route = path.route;
    out_path->steps = path.steps;
    out_path->chunk_bytes = path.chunk_bytes;
    keel::kit::copy_text(out_path->text, path.describe(to, from).c_str());
    return {};
  });
}
