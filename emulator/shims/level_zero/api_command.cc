// SPDX-License-Identifier: Apache-2.0
// Immediate command lists, and events.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "emulator/shims/level_zero/api.h"
#include "emulator/shims/level_zero/handles.h"
#include "emulator/shims/level_zero/simt_kernels.h"

using namespace keel::emulator::level_zero;  // NOLINT: the functions below are C functions
using keel::emulator::Access;
using keel::emulator::Address;
using keel::emulator::address_of;
using keel::emulator::Clock;
using keel::emulator::Code;
using keel::emulator::Completion;
using keel::emulator::Status;
using keel::emulator::Stream;
using keel::emulator::Time;

namespace {

// Appends what |body| enqueues on the list's stream, behind |waits|, and the signal of |signal|.
template <typename Body>
ze::Result append(const char* function, ze::CommandList handle, ze::Event signal,
                  uint32_t wait_count, ze::Event* waits, Body&& body) {
  return answer(function, [&](Driver& driver) {
    const std::shared_ptr<ListObject> list = Lists::get().find(function, handle);
    if (wait_count != 0 && waits == nullptr) return ze::kInvalidSize;
    Status status = list->device->alive();
    for (uint32_t i = 0; status.ok() && i < wait_count; ++i) {
      const auto completion = Events::get().find(function, waits[i])->current();
      if (!completion->is_done()) status = list->stream->wait(completion);
    }
    if (!status.ok()) return result_of(status);
    const ze::Result result = body(driver, *list);
    if (result != ze::kSuccess || signal == nullptr) return result;
    return result_of(list->stream->record(Events::get().find(function, signal)->current()));
  });
}

// Copies between any two addresses. The memory of another device is reached through its chip.
ze::Result copy(Driver& driver, ListObject& list, void* destination, const void* source,
                size_t size) {
  const auto within = [](const void* pointer, const void* begin, size_t bytes) {
    return pointer >= begin && pointer < static_cast<const char*>(begin) + bytes;
  };
  if (within(destination, source, size) || within(source, destination, size)) {
    return ze::kOverlappingRegions;
  }
  Chip* const to = driver.owner(address_of(destination));
  Chip* const from = driver.owner(address_of(source));
  Stream& stream = *list.stream;
  const bool is_foreign =
      (to != nullptr && to != list.chip) || (from != nullptr && from != list.chip);
  if (is_foreign && (to == nullptr || from == nullptr)) {
    end_process("zeCommandListAppendMemoryCopy",
                "a list copies between the host and another device's memory");
  }
  if (is_foreign) {
    std::shared_ptr<keel::emulator::Device> to_chip;
    std::shared_ptr<keel::emulator::Device> from_chip;
    Status status = to->device(&to_chip);
    if (status.ok()) status = from->device(&from_chip);
    if (!status.ok()) return result_of(status);
    return result_of(
        stream.copy_peer(*to_chip, address_of(destination), *from_chip, address_of(source), size));
  }
  if (to != nullptr && from != nullptr) {
    return result_of(stream.copy_within(address_of(destination), address_of(source), size));
  }
  if (to != nullptr) return result_of(stream.copy_from_host(address_of(destination), source, size));
  if (from != nullptr) return result_of(stream.copy_to_host(destination, address_of(source), size));
  return result_of(stream.launch({}, {}, [=](Access&) {
    std::memcpy(destination, source, size);
    return Status();
  }));
}

Status run_kernel(const KernelObject& launched, const keel::emulator::spirv::Launch& launch,
                  Access& access) {
  if (launched.kernel != nullptr) {
    const auto& [x, y, z] = launch.grid;
    return run_simt_kernel(*launched.module->library, *launched.kernel, {x, y, z},
                           launch.arguments[0].bytes.data(), access);
  }
  Status status =
      keel::emulator::spirv::run(*launched.module->spirv, *launched.spirv, launch, access);
  if (!status.ok()) {
    std::fprintf(stderr, "keel: emulated Level Zero: kernel %s: %s\n", launched.spirv->name.c_str(),
                 status.text().c_str());
  }
  return status;
}

}  // namespace

extern "C" {

ze::Result zeCommandListCreateImmediate(ze::Context context, ze::Device device,
                                        const ze::QueueDesc* desc, ze::CommandList* list) {
  return answer("zeCommandListCreateImmediate", [&](Driver& driver) {
    (void)Contexts::get().find("zeCommandListCreateImmediate", context);
    Chip& chip = driver.chip("zeCommandListCreateImmediate", device);
    if (desc == nullptr || list == nullptr) return ze::kInvalidNullPointer;
    const uint32_t groups = driver.settings().copy_engine != 0 ? 2 : 1;
    if (desc->ordinal >= groups || desc->index != 0) return ze::kInvalidArgument;
    if (desc->priority > ze::kPriorityHigh) return ze::kInvalidEnumeration;
    if (desc->mode != ze::kQueueAsynchronous) return ze::kUnsupportedFeature;
    auto made = std::make_shared<ListObject>();
    made->chip = &chip;
    made->is_copy_only = desc->ordinal == 1;
    Status status = chip.device(&made->device);
    constexpr int kPriorities[] = {0, 1, -1};  // of the emulated chip
    if (status.ok()) {
      status = Stream::create(made->device, kPriorities[desc->priority], &made->stream);
    }
    if (status.ok()) *list = Lists::get().add(std::move(made));
    return result_of(status);
  });
}

// Cancels work that has not run. Works on a lost device.
ze::Result zeCommandListDestroy(ze::CommandList list) {
  return answer("zeCommandListDestroy", [&](Driver&) {
    Lists::get().remove("zeCommandListDestroy", list);
    return ze::kSuccess;
  });
}

ze::Result zeCommandListAppendWriteGlobalTimestamp(ze::CommandList list, uint64_t* destination,
                                                   ze::Event signal, uint32_t wait_count,
                                                   ze::Event* waits) {
  return append("zeCommandListAppendWriteGlobalTimestamp", list, signal, wait_count, waits,
                [&](Driver&, ListObject& on) {
                  auto reached = std::make_shared<Completion>();
                  reached->notify([destination, seen = reached.get()](const Status& status) {
                    if (!status.ok()) return;
                    *destination = static_cast<uint64_t>(seen->time().time_since_epoch().count());
                  });
                  return result_of(on.stream->record(std::move(reached)));
                });
}

ze::Result zeCommandListAppendBarrier(ze::CommandList list, ze::Event signal, uint32_t wait_count,
                                      ze::Event* waits) {
  return append("zeCommandListAppendBarrier", list, signal, wait_count, waits,
                [](Driver&, ListObject&) { return ze::kSuccess; });
}

ze::Result zeCommandListAppendMemoryCopy(ze::CommandList list, void* destination,
                                         const void* source, size_t size, ze::Event signal,
                                         uint32_t wait_count, ze::Event* waits) {
  if (destination == nullptr || source == nullptr) return ze::kInvalidNullPointer;
  return append(
      "zeCommandListAppendMemoryCopy", list, signal, wait_count, waits,
      [&](Driver& driver, ListObject& on) { return copy(driver, on, destination, source, size); });
}

ze::Result zeCommandListAppendMemoryFill(ze::CommandList list, void* destination,
                                         const void* pattern, size_t pattern_size, size_t size,
                                         ze::Event signal, uint32_t wait_count, ze::Event* waits) {
  if (destination == nullptr || pattern == nullptr) return ze::kInvalidNullPointer;
  return append("zeCommandListAppendMemoryFill", list, signal, wait_count, waits,
                [&](Driver&, ListObject& on) {
                  const size_t most = on.is_copy_only ? 1 : 8;
                  if (pattern_size == 0 || pattern_size > most ||
                      (pattern_size & (pattern_size - 1)) != 0 || size % pattern_size != 0) {
                    return ze::kInvalidSize;
                  }
                  return result_of(on.stream->fill(address_of(destination), pattern,
                                                   static_cast<uint32_t>(pattern_size), size));
                });
}

ze::Result zeCommandListAppendLaunchKernel(ze::CommandList list, ze::Kernel kernel,
                                           const ze::GroupCount* groups, ze::Event signal,
                                           uint32_t wait_count, ze::Event* waits) {
  constexpr const char* kName = "zeCommandListAppendLaunchKernel";
  if (groups == nullptr) return ze::kInvalidNullPointer;
  return append(kName, list, signal, wait_count, waits, [&](Driver&, ListObject& on) {
    if (on.is_copy_only) return ze::kInvalidCommandListType;
    const std::shared_ptr<KernelObject> launched = Kernels::get().find(kName, kernel);
    if (launched->module->chip != on.chip) end_process(kName, "a kernel of another device");
    keel::emulator::spirv::Launch launch;
    {
      const std::lock_guard lock(launched->mutex);
      for (const auto& argument : launched->arguments) {
        if (!argument) end_process(kName, "an argument of the kernel was never set");
        launch.arguments.push_back(*argument);
      }
      if (launched->group[0] == 0) end_process(kName, "the kernel's group size was never set");
      // The argument has addresses of memory, which the driver does not see.
      constexpr uint32_t kAll = ze::kIndirectHost | ze::kIndirectDevice | ze::kIndirectShared;
      if (launched->kernel != nullptr && launched->indirect != kAll) {
        end_process(kName,
                    "the kernel accesses memory that zeKernelSetIndirectAccess did not name");
      }
      launch.group = launched->group;
    }
    launch.grid = {groups->x, groups->y, groups->z};
    return result_of(on.stream->launch({.takes_host_time = true}, {},
                                       [launched, launch = std::move(launch)](Access& access) {
                                         return run_kernel(*launched, launch, access);
                                       }));
  });
}

ze::Result zeEventPoolCreate(ze::Context context, const ze::EventPoolDesc* desc,
                             uint32_t device_count, ze::Device* devices, ze::EventPool* pool) {
  return answer("zeEventPoolCreate", [&](Driver& driver) {
    (void)Contexts::get().find("zeEventPoolCreate", context);
    if (desc == nullptr || pool == nullptr) return ze::kInvalidNullPointer;
    if (desc->count == 0) return ze::kInvalidSize;
    auto made = std::make_shared<PoolObject>();
    made->count = desc->count;
    for (uint32_t i = 0; i < device_count; ++i) {
      made->chips.push_back(&driver.chip("zeEventPoolCreate", devices[i]));
    }
    // Without a list, all devices of the context.
    for (const auto& chip : driver.chips()) {
      if (device_count == 0) made->chips.push_back(chip.get());
    }
    *pool = Pools::get().add(std::move(made));
    return ze::kSuccess;
  });
}

ze::Result zeEventPoolDestroy(ze::EventPool pool) {
  return answer("zeEventPoolDestroy", [&](Driver&) {
    const auto destroyed = Pools::get().find("zeEventPoolDestroy", pool);
    {
      const std::lock_guard lock(destroyed->mutex);
      if (!destroyed->taken.empty())
        end_process("zeEventPoolDestroy", "an event of the pool lives");
    }
    Pools::get().remove("zeEventPoolDestroy", pool);
    return ze::kSuccess;
  });
}

ze::Result zeEventCreate(ze::EventPool pool, const ze::EventDesc* desc, ze::Event* event) {
  return answer("zeEventCreate", [&](Driver&) {
    const auto from = Pools::get().find("zeEventCreate", pool);
    if (desc == nullptr || event == nullptr) return ze::kInvalidNullPointer;
    if (desc->index >= from->count) return ze::kInvalidSize;
    {
      const std::lock_guard lock(from->mutex);
      if (!from->taken.insert(desc->index).second) {
        end_process("zeEventCreate", fmt::format("place {} of the pool is taken", desc->index));
      }
    }
    *event = Events::get().add(std::make_shared<EventObject>(from, desc->index));
    return ze::kSuccess;
  });
}

ze::Result zeEventDestroy(ze::Event event) {
  return answer("zeEventDestroy", [&](Driver&) {
    Events::get().remove("zeEventDestroy", event);
    return ze::kSuccess;
  });
}

ze::Result zeEventHostSignal(ze::Event event) {
  return answer("zeEventHostSignal", [&](Driver&) {
    Events::get()
        .find("zeEventHostSignal", event)
        ->current()
        ->complete_and_notify({}, Clock::now());
    return ze::kSuccess;
  });
}

// The work before the signal of an event that never comes says nothing here: a lost device is seen
// by zeDeviceGetStatus and by waits.
ze::Result zeEventQueryStatus(ze::Event event) {
  return answer("zeEventQueryStatus", [&](Driver&) {
    const auto completion = Events::get().find("zeEventQueryStatus", event)->current();
    return completion->is_done() && completion->status().ok() ? ze::kSuccess : ze::kNotReady;
  });
}

ze::Result zeEventHostSynchronize(ze::Event event, uint64_t timeout) {
  return answer("zeEventHostSynchronize", [&](Driver&) {
    const auto waited_for = Events::get().find("zeEventHostSynchronize", event);
    const auto completion = waited_for->current();
    constexpr uint64_t kLongest = uint64_t{1} << 62;
    const Time begun = Clock::now();
    const auto wanted = std::chrono::nanoseconds(static_cast<int64_t>(std::min(timeout, kLongest)));
    while (true) {
      const auto waited = Clock::now() - begun;
      const auto slice = std::min<Clock::duration>(wanted - waited, std::chrono::milliseconds(5));
      const Status status = completion->wait_until(Clock::now() + slice);
      if (status.ok()) return ze::kSuccess;
      if (status.code() != Code::kTimedOut) return ze::kDeviceLost;
      if (waited_for->is_lost()) return ze::kDeviceLost;
      if (Clock::now() - begun >= wanted) return ze::kNotReady;
    }
  });
}

ze::Result zeEventHostReset(ze::Event event) {
  return answer("zeEventHostReset", [&](Driver&) {
    Events::get().find("zeEventHostReset", event)->reset();
    return ze::kSuccess;
  });
}

}  // extern "C"
