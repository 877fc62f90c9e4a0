// SPDX-License-Identifier: Apache-2.0
// The C functions of the caller's kernels.
#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "core/api.h"
#include "core/module.h"
#include "core/profiler.h"

using keel::api_call;
using keel::api_fast_path_call;
using keel::api_nonblocking_call;
using keel::failure;
using keel::find_device;
using keel::find_handle;
using keel::find_stream;
using keel::Kernel;
using keel::Module;
using keel::Ref;
using keel::report_answer;
using keel::Runtime;
using keel::Status;
using keel::Stream;

namespace {

// CUDA and HIP take 4 KiB of arguments, the most of any interface.
constexpr uint32_t kMaxArguments = 256;
constexpr uint64_t kMaxArgumentBytes = 4096;

// A launch with its own copy of the argument values, for a stream that must hold the launch.
class HeldLaunch {
 public:
  explicit HeldLaunch(const keel_launch& launch) : launch_(launch) {
    const uint32_t count = launch.argument_count;
    sizes_.assign(launch.argument_sizes, launch.argument_sizes + count);
    pointers_.resize(count);
    // Aligns each value for any type of its size.
    constexpr size_t kAlignment = alignof(std::max_align_t);
    const auto aligned = [](size_t size) { return (size + kAlignment - 1) & ~(kAlignment - 1); };
    size_t total = 0;
    for (uint32_t size : sizes_) total += aligned(size);
    values_ = std::make_unique_for_overwrite<std::byte[]>(total);
    size_t offset = 0;
    for (uint32_t i = 0; i < count; ++i) {
      std::memcpy(values_.get() + offset, launch.arguments[i], sizes_[i]);
      pointers_[i] = values_.get() + offset;
      offset += aligned(sizes_[i]);
    }
    launch_.arguments = pointers_.data();
    launch_.argument_sizes = sizes_.data();
  }
  const keel_launch& get() const { return launch_; }

 private:
  keel_launch launch_;
  std::vector<uint32_t> sizes_;
  std::vector<const void*> pointers_;
  std::unique_ptr<std::byte[]> values_;
};

[[gnu::cold]] Status refuse_extents(const keel_launch& launch) {
  for (int axis = 0; axis < 3; ++axis) {
    if (launch.grid[axis] == 0) {
      return failure(KEEL_INVALID_ARGUMENT, "launch.grid[{}] is 0", axis);
    }
    if (launch.block[axis] == 0) {
      return failure(KEEL_INVALID_ARGUMENT, "launch.block[{}] is 0", axis);
    }
  }
  return failure(KEEL_OUT_OF_RANGE,
                 "launch.grid {}x{}x{} of launch.block {}x{}x{} is more than 2^32 - 1 threads a "
                 "block or 2^63 - 1 in all",
                 launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0], launch.block[1],
                 launch.block[2]);
}

Status check_extents(const keel_launch& launch) {
  // A product of two 32-bit numbers fits.
  uint64_t blocks = uint64_t{launch.grid[0]} * launch.grid[1];
  uint64_t threads = uint64_t{launch.block[0]} * launch.block[1];
  uint64_t total = 0;
  const bool fits = !__builtin_mul_overflow(blocks, launch.grid[2], &blocks) &&
                    !__builtin_mul_overflow(threads, launch.block[2], &threads) &&
                    threads <= UINT32_MAX && !__builtin_mul_overflow(blocks, threads, &total) &&
                    total <= INT64_MAX;
  if (!fits || total == 0) [[unlikely]] {
    return refuse_extents(launch);
  }
  return {};
}

Status check_arguments(const keel_launch& launch) {
  const uint32_t count = launch.argument_count;
  if (count == 0) return {};
  if (count > kMaxArguments) {
    return failure(KEEL_OUT_OF_RANGE, "launch.argument_count is {}, at most {} are taken", count,
                   kMaxArguments);
  }
  if (launch.arguments == nullptr || launch.argument_sizes == nullptr) {
    return failure(KEEL_INVALID_ARGUMENT, "{} is NULL, launch.argument_count is {}",
                   launch.arguments == nullptr ? "launch.arguments" : "launch.argument_sizes",
                   count);
  }
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (launch.arguments[i] == nullptr) {
      return failure(KEEL_INVALID_ARGUMENT, "launch.arguments[{}] is NULL", i);
    }
    if (launch.argument_sizes[i] == 0) {
      return failure(KEEL_INVALID_ARGUMENT, "launch.argument_sizes[{}] is 0", i);
    }
    bytes += launch.argument_sizes[i];
  }
  if (bytes > kMaxArgumentBytes) {
    return failure(KEEL_OUT_OF_RANGE, "launch has {} bytes of arguments, at most {} are taken",
                   bytes, kMaxArgumentBytes);
  }
  return {};
}

}  // namespace

keel_status keel_module_load(keel_device device, keel_binary_format format, const void* data,
                             uint64_t size, keel_module* out_module) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(data)
    KEEL_REQUIRE(out_module)
    if (size == 0) return failure(KEEL_INVALID_ARGUMENT, "size is 0");
    if (format < KEEL_BINARY_SPIRV || format > KEEL_BINARY_VENDOR) {
      return failure(KEEL_INVALID_ARGUMENT, "format {} is none of KEEL_BINARY_*", format);
    }
    Ref<keel::Device> found;
    KEEL_RETURN_IF_ERROR(find_device(device, "device", &found));
    if (!found->has(KEEL_CAPABILITY_KERNELS) || found->kernel_table() == nullptr) {
      return failure(KEEL_UNSUPPORTED, "{} runs no kernels of the caller", found->name());
    }
    found->retired_modules().collect();
    Ref<Module> module;
    KEEL_RETURN_IF_ERROR(Module::load(*found, format, data, size, &module));
    const uint64_t handle = Runtime::get().module_handles().insert(std::move(module));
    if (handle == 0) return failure(KEEL_OUT_OF_MEMORY, "all handles of this kind are taken");
    *out_module = {handle};
    return {};
  });
}

keel_status keel_module_unload(keel_module module) {
  return api_call([&]() -> Status {
    Ref<Module> removed = Runtime::get().module_handles().remove(module.id);
    if (!removed) {
      return failure(KEEL_INVALID_HANDLE, "module {:#x} is not a live handle", module.id);
    }
    keel::Device& device = removed->device();
    removed->close();
    removed = nullptr;
    keel::reclaim_retired();  // the kernels' handles, which keep the module
    device.retired_modules().collect();
    return {};
  });
}

keel_status keel_kernel_find(keel_module module, const char* name, keel_kernel* out_kernel) {
  return api_call([&]() -> Status {
    KEEL_REQUIRE(name)
    KEEL_REQUIRE(out_kernel)
    Ref<Module> found;
    KEEL_RETURN_IF_ERROR(find_handle(Runtime::get().module_handles(), module.id, "module", &found));
    uint64_t handle = 0;
    KEEL_RETURN_IF_ERROR(found->find_kernel(name, &handle));
    *out_kernel = {handle};
    return {};
  });
}

namespace {

[[gnu::noinline]] keel_status launch_in_full(keel_stream stream, keel_kernel kernel,
                                             const keel_launch* launch) {
  return api_nonblocking_call([&]() -> Status {
    KEEL_RETURN_IF_ERROR(
        keel::check_struct(launch, KEEL_STRUCT_LAUNCH, sizeof(keel_launch), "launch"));
    Stream* found = nullptr;
    KEEL_RETURN_IF_ERROR(find_stream(stream, &found));
    Kernel* launched = nullptr;
    KEEL_RETURN_IF_ERROR(
        find_handle(Runtime::get().kernel_handles(), kernel.id, "kernel", &launched));
    keel::Device& device = found->device();
    if (&launched->device() != &device) {
      return failure(KEEL_INVALID_ARGUMENT, "kernel '{}' is of {}, stream of {}", launched->name(),
                     launched->device().name(), device.name());
    }
    KEEL_RETURN_IF_ERROR(check_extents(*launch));
    KEEL_RETURN_IF_ERROR(check_arguments(*launch));
    // Passed in the size of this version of Keel: extensions are not carried, held or not.
    const keel_launch* passed = launch;
    keel_launch known;
    if (launch->header.size != sizeof(known) || launch->header.next != nullptr) {
      known = *launch;
      known.header = {sizeof(known), KEEL_STRUCT_LAUNCH, nullptr};
      passed = &known;
    }
    const auto run = [&](keel_plugin_stream* native) {
      return device.check(device.kernel_table()->launch(native, launched->native(), passed),
                          "kernel.launch");
    };
    const auto hold = [&] {
      return [&device, kernel = Ref<Kernel>(launched),
              held = std::make_shared<const HeldLaunch>(*passed)](keel_plugin_stream* native) {
        return device.check(device.kernel_table()->launch(native, kernel->native(), &held->get()),
                            "kernel.launch");
      };
    };
    // The ranges accessed by a kernel are unknown: reporting no range is better than guessing.
    keel::EnqueueCall call("kernel", device, stream);
    return call.end(found->submit(
        "kernel", [](keel::AccessList&) {}, run, hold));
  });
}

// Returns whether the launch passes check_struct, check_extents and check_arguments and can be
// passed on unchanged. Covers only the common case, one-dimensional launches of this version; false
// leaves the decision to these checks.
bool is_usual_launch(const keel_launch* launch) {
  constexpr uint64_t kTwoOnes = uint64_t{1} << 32 | 1;
  if (launch == nullptr || launch->header.type != KEEL_STRUCT_LAUNCH ||
      launch->header.size != sizeof(keel_launch) || launch->header.next != nullptr) {
    return false;
  }
  uint64_t grid_beyond = 0;
  uint64_t block_beyond = 0;
  static_assert(sizeof(launch->grid) == 12 && sizeof(launch->block) == 12);
  std::memcpy(&grid_beyond, &launch->grid[1], sizeof(grid_beyond));
  std::memcpy(&block_beyond, &launch->block[1], sizeof(block_beyond));
  if (grid_beyond != kTwoOnes || block_beyond != kTwoOnes) return false;
  // Neither 0 nor more than 2^63 - 1: positive as a signed number.
  const auto threads = static_cast<int64_t>(uint64_t{launch->grid[0]} * launch->block[0]);
  if (threads <= 0) return false;
  const uint32_t count = launch->argument_count;
  if (count == 0) return true;
  const void* const* const arguments = launch->arguments;
  const uint32_t* const sizes = launch->argument_sizes;
  if (count > kMaxArguments || arguments == nullptr || sizes == nullptr) return false;
  uint64_t bytes = 0;
  size_t left = count;
  do {
    --left;
    const uint32_t size = sizes[left];
    if (arguments[left] == nullptr || size == 0) return false;
    bytes += size;
  } while (left != 0);
  return bytes <= kMaxArgumentBytes;
}

}  // namespace

keel_status keel_kernel_launch(keel_stream stream, keel_kernel kernel, const keel_launch* launch) {
  const auto usual = [&](const keel::epoch::EpochRecord&, keel_status* out_status) {
    Runtime& runtime = Runtime::opened();
    Stream* found = runtime.stream_handles().peek(stream.id);
    if (found == nullptr) return false;
    const Kernel* launched = runtime.kernel_handles().peek(kernel.id);
    if (launched == nullptr) return false;
    keel::Device& device = found->device();
    if (&launched->device() != &device || !is_usual_launch(launch)) return false;
    const auto run = [&](keel_plugin_stream* native) {
      return device.kernel_table()->launch(native, launched->native(), launch);
    };
    if (!found->try_submit_fast_path(run, out_status)) return false;
    if (*out_status != KEEL_OK) [[unlikely]] {
      *out_status = report_answer(device, *out_status, "kernel.launch");
    }
    return true;
  };
  return api_fast_path_call(usual, [&] { return launch_in_full(stream, kernel, launch); });
}
