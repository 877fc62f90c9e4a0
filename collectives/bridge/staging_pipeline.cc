// SPDX-License-Identifier: Apache-2.0
#include "collectives/bridge/staging_pipeline.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/shared_file.h"
#include "core/copy.h"
#include "core/drain.h"
#include "core/log.h"
#include "core/observer.h"
#include "core/staging.h"

namespace keel {

namespace {

constexpr uint32_t kWindows = 4;

}  // namespace

StagingPipeline::~StagingPipeline() {
  // After a failure both streams may still have work in flight: the device reuses the streams only
  // when they are idle, and the pool reuses the memory only after all streams have passed it.
  const bool is_idle = leaving_.is_idle() && entering_.is_idle();
  if (to_host_) device_.return_stream(std::move(to_host_));
  if (to_device_) device_.return_stream(std::move(to_device_));
  if (memory_ == nullptr) return;
  if (!shared_) {
    device_.memory().free(memory_).ok();
    return;
  }
  MemHandleServer::get().withdraw(object_);
  if (!is_idle) {
    // The device may still write to the windows: leak the memory rather than let it be reused.
    log(KEEL_LOG_WARNING, "{}: a staging window is left behind, a copy into it has not ended",
        device_.name());
    return;
  }
  if (registered_) {
    const keel_memory_table* table = device_.memory_table();
    (void)device_.check(table->host_unregister(device_.native(), memory_),
                        "memory.host_unregister");
  }
  munmap(memory_, kWindows * window_bytes_);
}

Status StagingPipeline::allocate_private() {
  void* memory = nullptr;
  KEEL_RETURN_IF_ERROR(alloc_staging(device_, kWindows * window_bytes_, &memory));
  memory_ = static_cast<char*>(memory);
  return {};
}

Status StagingPipeline::allocate_shared() {
  const uint64_t bytes = kWindows * window_bytes_;
  FileDescriptor file;
  KEEL_RETURN_IF_ERROR(create_shared_file("keel-stage", bytes, &file).with_prefix("a stage: "));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (memory == MAP_FAILED) {
    return failure(KEEL_OUT_OF_MEMORY, "no address space for {} bytes to stage in: {}", bytes,
                   std::strerror(errno));
  }
  const Status published = MemHandleServer::get().publish(std::move(file), &object_);
  if (!published.ok()) {
    munmap(memory, bytes);
    return published;
  }
  memory_ = static_cast<char*>(memory);
  place_.device = object_.device;
  place_.inode = object_.inode;
  return {};
}

Status StagingPipeline::prepare(bool device_copies) {
  if (memory_ == nullptr) {
    KEEL_RETURN_IF_ERROR(shared_ ? allocate_shared() : allocate_private());
    place_.address = reinterpret_cast<uint64_t>(memory_);
  }
  if (!device_copies || to_host_) return {};
  const keel_memory_table* table = device_.memory_table();
  // Pageable windows are only slower: the plugin stages the copies once more.
  if (shared_ && device_.has(KEEL_CAPABILITY_HOST_REGISTER) &&
      KEEL_HAS(keel_memory_table, table, host_register)) {
    void* address = nullptr;
    registered_ = device_
                      .check(table->host_register(device_.native(), memory_,
                                                  kWindows * window_bytes_, &address),
                             "memory.host_register")
                      .ok();
  }
  Ref<Stream> to_host;
  KEEL_RETURN_IF_ERROR(device_.lease_stream(&to_host, urgent_));
  Ref<Stream> to_device;
  const Status leased = device_.lease_stream(&to_device, urgent_);
  if (!leased.ok()) {
    device_.return_stream(std::move(to_host));
    return leased;
  }
  to_host_ = std::move(to_host);
  to_device_ = std::move(to_device);
  return {};
}

void StagingPipeline::settle() {
  // A window's copies end within milliseconds, or never on a hung device.
  constexpr int64_t kSettleLimitNs = 5'000'000'000;
  const Deadline deadline = Deadline::after(kSettleLimitNs);
  if (to_host_) leaving_.settle(*to_host_, deadline);
  if (to_device_) entering_.settle(*to_device_, deadline);
}

Status StagingPipeline::fetch(uint64_t round, const Buffer& buffer, uint64_t offset,
                              uint64_t window_offset, uint64_t bytes) {
  if (bytes == 0) return {};
  char* const window = in(round) + window_offset;
  traffic_.to_host += bytes;
  observers::tell([&](Observer& observer) { observer.bridged(bytes); });
  if (buffer.host != nullptr) {
    const HostSpan span("host copy", [&](AccessList& accesses) {
      accesses.reads(&device_, buffer.device + offset, bytes);
    });
    std::memcpy(window, buffer.host + offset, bytes);
    return {};
  }
  KEEL_RETURN_IF_ERROR(leaving_.begin(*to_host_, round, count_, bytes));
  KEEL_RETURN_IF_ERROR(
      submit_copy(*to_host_, KEEL_COPY_DEVICE_TO_HOST, window, buffer.device + offset, bytes));
  return leaving_.end(*to_host_, round, count_, bytes);
}

Status StagingPipeline::await_fetched(uint64_t round, WaitContext& wait_context) {
  return leaving_.await(round, count_, wait_context);
}

Status StagingPipeline::deliver(uint64_t round, const Buffer& buffer, uint64_t offset,
                                uint64_t window_offset, uint64_t bytes) {
  if (bytes == 0) return {};
  const char* const window = out(round) + window_offset;
  traffic_.to_device += bytes;
  observers::tell([&](Observer& observer) { observer.bridged(bytes); });
  KEEL_RETURN_IF_ERROR(entering_.begin(*to_device_, round, count_, bytes));
  KEEL_RETURN_IF_ERROR(
      submit_copy(*to_device_, KEEL_COPY_HOST_TO_DEVICE, buffer.device + offset, window, bytes));
  KEEL_RETURN_IF_ERROR(entering_.end(*to_device_, round, count_, bytes));
  entering_.finish_host_timing(round, count_);
  return {};
}

Status StagingPipeline::await_delivered(uint64_t round, WaitContext& wait_context) {
  return entering_.await(round, count_, wait_context);
}

// ---- one direction --------------------------------------------------------------

Status StagingPipeline::Way::begin(Stream& stream, uint64_t round, uint32_t count, uint64_t bytes) {
  Window& window = windows_[round % count];
  const Device& device = stream.device();
  if (measured_ >= kMeasured || bytes < kLeastBytes || window.begun || window.done) return {};
  if (!device.has(KEEL_CAPABILITY_TIMING) ||
      !KEEL_HAS(keel_stream_table, device.stream_table(), event_elapsed)) {
    // The time of a copy behind others would include theirs.
    const bool is_alone = std::none_of(windows_.begin(), windows_.end(),
                                       [](const Window& other) { return !!other.done; });
    if (is_alone) {
      window.bytes = 0;
      window.begun_at = std::chrono::steady_clock::now();
    }
    return {};
  }
  window.bytes = 0;
  return stream.record(KEEL_EVENT_TIMING, &window.begun);
}

Status StagingPipeline::Way::end(Stream& stream, uint64_t round, uint32_t count, uint64_t bytes) {
  Window& window = windows_[round % count];
  window.bytes += bytes;
  Status recorded;
  try {
    recorded = stream.record(window.begun ? KEEL_EVENT_TIMING : 0, &window.done);
  } catch (const std::bad_alloc&) {
    recorded = Status::no_memory();
  }
  has_untold_ = has_untold_ || !recorded.ok();
  return recorded;
}

Status StagingPipeline::Way::await(uint64_t round, uint32_t count, WaitContext& wait_context) {
  // After a failure the window keeps its events: the copy may still be running.
  Window& window = windows_[round % count];
  if (window.done) KEEL_RETURN_IF_ERROR(wait_context.wait(window.done));
  if (window.begun) measure(window);
  if (window.done && is_timed_by_host(window)) measure_by_host(window);
  window = {};
  return {};
}

void StagingPipeline::Way::finish_host_timing(uint64_t round, uint32_t count) {
  Window& window = windows_[round % count];
  if (!is_timed_by_host(window) || !window.done) return;
  constexpr int64_t kMostNs = 50'000'000;
  (void)window.done->wait(Deadline::after(kMostNs));
  measure_by_host(window);
  window.begun_at = {};
}

bool StagingPipeline::Way::is_timed_by_host(const Window& window) {
  return window.begun_at != std::chrono::steady_clock::time_point();
}

void StagingPipeline::Way::measure_by_host(const Window& window) {
  const auto elapsed = std::chrono::steady_clock::now() - window.begun_at;
  add_rate(window.bytes, static_cast<uint64_t>(std::chrono::nanoseconds(elapsed).count()));
}

void StagingPipeline::Way::measure(const Window& window) {
  if (!window.done) return;
  Device& device = window.done->device();
  WakeList wake;
  const bool is_timed = window.begun->query(wake).ok() && window.done->timing();
  advance_all(wake);
  uint64_t elapsed = 0;
  if (!is_timed || !device
                        .check(device.stream_table()->event_elapsed(
                                   window.begun->native(), window.done->native(), &elapsed),
                               "stream.event_elapsed")
                        .ok()) {
    return;
  }
  add_rate(window.bytes, elapsed);
}

void StagingPipeline::Way::add_rate(uint64_t bytes, uint64_t elapsed_ns) {
  // The rate has been published: ignore windows that began before the last measurement.
  if (measured_ >= kMeasured) return;
  // Keep the fastest rate: the first copy of a row includes the latency, and the host may notice
  // the end of a copy late.
  if (elapsed_ns != 0) rate_ = std::max(rate_, static_cast<double>(bytes) / elapsed_ns);
  ++measured_;
}

void StagingPipeline::Way::settle(Stream& stream, const Deadline& deadline) {
  for (const Window& window : windows_) {
    if (window.done) (void)window.done->wait(deadline);
  }
  // drain() may lack memory for an event: retry until it reports that the work ended.
  constexpr auto kPause = std::chrono::milliseconds(1);
  while (has_untold_) {
    try {
      has_untold_ = may_still_run(stream.drain(deadline));
    } catch (const std::bad_alloc&) {
    }
    if (deadline.passed()) return;
    if (has_untold_) std::this_thread::sleep_for(kPause);
  }
}

bool StagingPipeline::Way::is_idle() const {
  return !has_untold_ && std::all_of(windows_.begin(), windows_.end(), [](const Window& window) {
    return !window.done || window.done->state() == EventRecord::State::kDone;
  });
}

}  // namespace keel
