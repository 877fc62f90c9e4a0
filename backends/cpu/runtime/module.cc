// SPDX-License-Identifier: Apache-2.0
#include "backends/cpu/runtime/module.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <keel/plugin_kit.hpp>

#include "backends/cpu/runtime/device.h"
#include "backends/cpu/runtime/thread_pool.h"

namespace keel::cpu {

// One launch in a stream's queue, with its arguments.
class Launch {
 public:
  void prepare(const Stream& stream, const Kernel& kernel, const keel_launch& launch) {
    kernel_ = &kernel;
    block_ = {};
    block_.size = sizeof(block_);
    std::copy_n(launch.grid, 3, block_.grid);
    std::copy_n(launch.block, 3, block_.block);
    block_.shared_bytes = launch.dynamic_shared_bytes;
    const AddressSpace::Window window = stream.device().window();
    block_.window = window.device;
    block_.window_bytes = window.bytes;
    block_.host = window.host;

    size_t total = 0;
    for (uint32_t i = 0; i < launch.argument_count; ++i) total += cells(launch.argument_sizes[i]);
    values_.resize(total);
    arguments_.resize(launch.argument_count);
    size_t cell = 0;
    for (uint32_t i = 0; i < launch.argument_count; ++i) {
      std::memcpy(&values_[cell], launch.arguments[i], launch.argument_sizes[i]);
      arguments_[i] = &values_[cell];
      cell += cells(launch.argument_sizes[i]);
    }
  }

  // Runs on the stream's thread, which holds a core; returns itself to the module.
  keel_status run(ThreadPool& pool) {
    // Core has checked that the products below do not overflow.
    const auto count =
        static_cast<int64_t>(uint64_t{block_.grid[0]} * block_.grid[1] * block_.grid[2]);
    // Eight pieces per core balance blocks of different duration.
    const int64_t grain = std::max<int64_t>(1, count / (int64_t{8} * pool.cores()));
    std::atomic<keel_status> status{KEEL_OK};
    pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      const keel_status done = run_blocks(begin, end);
      if (done != KEEL_OK) status.store(done, std::memory_order_relaxed);
    });
    const keel_status result = status.load(std::memory_order_relaxed);
    kernel_->module.give_back(*this);
    return result;
  }

 private:
  // Aligns every argument for any type of its size.
  struct alignas(16) Cell {
    std::byte bytes[16];
  };
  static size_t cells(uint32_t size) { return (size + sizeof(Cell) - 1) / sizeof(Cell); }

  keel_status run_blocks(int64_t begin, int64_t end) const {
    keel_cpu_block block = block_;
    const std::unique_ptr<void, decltype(&std::free)> shared(
        block.shared_bytes == 0 ? nullptr
                                : std::aligned_alloc(64, (block.shared_bytes + 63) / 64 * 64),
        std::free);
    if (block.shared_bytes != 0 && !shared) return KEEL_OUT_OF_MEMORY;
    block.shared = shared.get();
    const auto first = static_cast<uint64_t>(begin);
    block.index[0] = static_cast<uint32_t>(first % block.grid[0]);
    block.index[1] = static_cast<uint32_t>(first / block.grid[0] % block.grid[1]);
    block.index[2] = static_cast<uint32_t>(first / block.grid[0] / block.grid[1]);
    return kit::guard([&] {
      for (int64_t i = begin; i < end; ++i) {
        keel_cpu_block given = block;  // the kernel's to spoil
        kernel_->function(&given, arguments_.data());
        if (++block.index[0] < block.grid[0]) continue;
        block.index[0] = 0;
        if (++block.index[1] < block.grid[1]) continue;
        block.index[1] = 0;
        ++block.index[2];
      }
      return keel_status{KEEL_OK};
    });
  }

  const Kernel* kernel_ = nullptr;
  keel_cpu_block block_ = {};
  std::vector<Cell> values_;
  std::vector<const void*> arguments_;
};

Module::Module(std::unique_ptr<SharedObject> object) : object_(std::move(object)) {}

Module::~Module() = default;

keel_status Module::load(keel_binary_format format, const void* data, uint64_t size,
                         std::unique_ptr<Module>* out_module) {
  if (format != KEEL_BINARY_SHARED_OBJECT) {
    return kit::fail(KEEL_UNSUPPORTED, "cpu: loads KEEL_BINARY_SHARED_OBJECT, not format %u",
                     format);
  }
  std::unique_ptr<SharedObject> object;
  const keel_status status = SharedObject::open(data, size, &object);
  if (status == KEEL_OK) out_module->reset(new Module(std::move(object)));
  return status;
}

Kernel* Module::find(const char* name) {
  const std::lock_guard lock(mutex_);
  const auto known = kernels_.find(std::string_view(name));
  if (known != kernels_.end()) return known->second.get();
  void* const address = object_->function(name);
  if (address == nullptr) return nullptr;
  auto kernel = std::make_unique<Kernel>(Kernel{*this, nullptr});
  std::memcpy(&kernel->function, &address, sizeof(address));
  return kernels_.emplace(name, std::move(kernel)).first->second.get();
}

Launch& Module::acquire() {
  const std::lock_guard lock(mutex_);
  if (idle_launches_.empty()) {
    launches_.push_back(std::make_unique<Launch>());
    idle_launches_.reserve(launches_.size());  // giving one back never allocates
    return *launches_.back();
  }
  Launch& launch = *idle_launches_.back();
  idle_launches_.pop_back();
  return launch;
}

void Module::give_back(Launch& launch) {
  const std::lock_guard lock(mutex_);
  idle_launches_.push_back(&launch);
}

keel_status Module::launch(Stream& stream, const Kernel& kernel, const keel_launch& launch) {
  if (launch.dynamic_shared_bytes > kMaxSharedBytes) {
    return kit::fail(KEEL_INVALID_ARGUMENT,
                     "cpu: launch.dynamic_shared_bytes is %u, at most %u are given",
                     launch.dynamic_shared_bytes, kMaxSharedBytes);
  }
  Launch& prepared = acquire();
  try {
    prepared.prepare(stream, kernel, launch);
    stream.enqueue([work = &prepared](ThreadPool& pool) { return work->run(pool); });
  } catch (...) {
    give_back(prepared);
    throw;
  }
  return KEEL_OK;
}

}  // namespace keel::cpu
