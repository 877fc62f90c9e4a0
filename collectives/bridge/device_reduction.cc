// SPDX-License-Identifier: Apache-2.0
#include "collectives/bridge/device_reduction.h"

#include <algorithm>
#include <chrono>
#include <keel/plugin_kit.hpp>
#include <new>
#include <thread>

#include "core/copy.h"
#include "core/drain.h"
#include "core/log.h"
#include "core/observer.h"
#include "ops/dispatch.h"
#include "ops/schema.h"

namespace keel {

namespace {

// Smallest window in bytes, unless chunks are smaller: a link moves 256 KiB in about the time in
// which the host enqueues the copies.
constexpr uint64_t kLeastWindow = 256 << 10;
// The first window in and the last window out overlap with nothing: an eighth of the data.
constexpr uint64_t kWindowsOfAll = 8;

// c = a + b, with |count| elements each.
struct Addition {
  Addition(keel_dtype dtype, uint64_t count, const void* a, const void* b, void* c)
      : tensors{tensor(dtype, count, a), tensor(dtype, count, b), tensor(dtype, count, c)},
        inputs{&tensors[0], &tensors[1]},
        outputs{&tensors[2]} {
    call = KEEL_STRUCT_INIT(keel_op_call, KEEL_STRUCT_OP_CALL);
    call.op = KEEL_OP_ADD;
    call.input_count = 2;
    call.output_count = 1;
    call.inputs = inputs;
    call.outputs = outputs;
  }
  Addition(const Addition&) = delete;
  Addition& operator=(const Addition&) = delete;

  static keel_tensor tensor(keel_dtype dtype, uint64_t count, const void* data) {
    return kit::make_tensor(const_cast<void*>(data), dtype, {static_cast<int64_t>(count)});
  }

  const keel_tensor tensors[3];
  const keel_tensor* const inputs[2];
  const keel_tensor* const outputs[1];
  keel_op_call call;
};

// Custom kernels run on streams of the caller.
bool is_plugins(const ops::Candidate& kernel) {
  return kernel.level != KEEL_OP_NONE && kernel.custom == nullptr;
}

}  // namespace

DeviceReduction::~DeviceReduction() {
  for (Way* way : {&bringing_, &adding_, &taking_}) {
    way->over = {};
    if (way->stream) device_.return_stream(std::move(way->stream));
  }
  if (brought_ != nullptr) device_.memory().free(brought_).ok();
}

uint64_t DeviceReduction::window_bytes(uint64_t bytes, uint64_t chunk_bytes) {
  constexpr uint64_t kPage = 4096;
  const uint64_t wanted = (bytes / kWindowsOfAll + kPage - 1) / kPage * kPage;
  return std::min({std::max(wanted, kLeastWindow), kMostBytes, chunk_bytes});
}

bool DeviceReduction::has_kernels(Device& device, keel_dtype dtype, uint64_t count,
                                  uint64_t window) {
  const auto has_kernel = [&](uint64_t elements) {
    const Addition addition(dtype, elements, nullptr, nullptr, nullptr);
    ops::CheckError error;
    ops::Candidate kernel;
    return ops::check_call(addition.call, ops::Check::kLayout, &error) == KEEL_OK &&
           ops::select_kernel(device, addition.call, &kernel).ok() && is_plugins(kernel);
  };
  const uint64_t rest = count % window;
  return (count < window || has_kernel(window)) && (rest == 0 || has_kernel(rest));
}

Status DeviceReduction::get_memory_and_streams() {
  void* memory = nullptr;
  KEEL_RETURN_IF_ERROR(device_.memory().alloc(KEEL_MEMORY_DEVICE, kWindows * most_bytes_, &memory));
  brought_ = static_cast<char*>(memory);
  for (Way* way : {&bringing_, &adding_, &taking_}) {
    KEEL_RETURN_IF_ERROR(device_.lease_stream(&way->stream, urgent_));
  }
  return {};
}

bool DeviceReduction::prepare(keel_dtype dtype, uint64_t count, uint64_t window) {
  if (is_refused_ || !has_kernels(device_, dtype, count, window)) return false;
  if (taking_.stream) return true;
  const Status ready = get_memory_and_streams();
  if (!ready.ok()) {
    log(KEEL_LOG_INFO, "{}: the host sums up instead: {}", device_.name(), ready.text());
  }
  is_refused_ = !ready.ok();
  return ready.ok();
}

Status DeviceReduction::add(keel_dtype dtype, uint64_t count, const char* brought,
                            const Ends& ends) {
  // A sum of two is the same in either order, so rank order does not matter.
  const Addition addition(dtype, count, ends.own, brought, ends.own_sum);
  ops::Candidate kernel;
  KEEL_RETURN_IF_ERROR(ops::select_kernel(device_, addition.call, &kernel));
  if (!is_plugins(kernel)) {
    return failure(KEEL_INTERNAL, "{} has no kernel for {} elements that it had one for",
                   device_.name(), count);
  }
  return ops::submit_kernel(*adding_.stream, kernel, addition.call);
}

Status DeviceReduction::enqueue(uint64_t round, keel_dtype dtype, uint64_t count,
                                const Ends& ends) {
  const uint64_t bytes = count * kit::dtype_size(dtype);
  const uint32_t place = round % kWindows;
  char* const brought = brought_ + place * most_bytes_;
  // Reports only this rank's accesses: the other rank's part of the operation reports its memory.
  const auto copy = [&](Way& way, keel_copy_kind kind, void* to, const void* from,
                        const Access& own) -> Status {
    Device& device = device_;
    KEEL_RETURN_IF_ERROR(way.stream->submit(
        "copy", [&](AccessList& accesses) { accesses.add(own); },
        [&device, kind, to, from, bytes](keel_plugin_stream* native) {
          return device.check(device.stream_table()->copy(native, kind, to, from, bytes),
                              "stream.copy");
        }));
    return way.stream->record(0, &way.over[place]);
  };
  observers::tell([&](Observer& observer) { observer.bridged(2 * bytes); });
  KEEL_RETURN_IF_ERROR(copy(bringing_, KEEL_COPY_HOST_TO_DEVICE, brought, ends.others,
                            {&device_, brought, bytes, /*writes=*/true}));
  KEEL_RETURN_IF_ERROR(adding_.stream->wait(bringing_.over[place]));
  KEEL_RETURN_IF_ERROR(add(dtype, count, brought, ends));
  KEEL_RETURN_IF_ERROR(adding_.stream->record(0, &adding_.over[place]));
  KEEL_RETURN_IF_ERROR(taking_.stream->wait(adding_.over[place]));
  KEEL_RETURN_IF_ERROR(copy(taking_, KEEL_COPY_DEVICE_TO_HOST, ends.others_sum, ends.own_sum,
                            {&device_, ends.own_sum, bytes, /*writes=*/false}));
  summed_bytes_.store(summed_bytes() + bytes, std::memory_order_relaxed);  // one writer
  return {};
}

Status DeviceReduction::await(uint64_t round, WaitContext& wait_context,
                              const AbortRecord& failures) {
  const uint32_t place = round % kWindows;
  // The last of the three steps, which waits for the first two.
  KEEL_RETURN_IF_ERROR(wait_context.wait(taking_.over[place], [&] { return failures.failed(); }));
  bringing_.over[place] = adding_.over[place] = taking_.over[place] = {};
  return {};
}

void DeviceReduction::settle() {
  // A window's copies end within milliseconds, or never on a hung device.
  constexpr int64_t kSettleLimitNs = 5'000'000'000;
  constexpr auto kPause = std::chrono::milliseconds(1);
  const Deadline deadline = Deadline::after(kSettleLimitNs);
  for (Way* way : {&bringing_, &adding_, &taking_}) {
    // drain() may lack memory for an event: retry until it reports that the work ended.
    for (bool is_over = !way->stream; !is_over;) {
      try {
        is_over = !may_still_run(way->stream->drain(deadline));
      } catch (const std::bad_alloc&) {
      }
      if (is_over) break;
      if (deadline.passed()) {
        // The device could write to the ranks' memory at any later time, so mark the device lost.
        (void)device_.check(KEEL_DEVICE_LOST, "stream.copy");
        return log(KEEL_LOG_ERROR, "{}: a sum of windows of the host does not end", device_.name());
      }
      std::this_thread::sleep_for(kPause);
    }
  }
}

}  // namespace keel
