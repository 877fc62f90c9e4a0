// SPDX-License-Identifier: Apache-2.0
#include "core/device.h"

#include <new>
#include <utility>

#include "core/drain.h"
#include "core/epoch.h"
#include "core/pinned_segment_cache.h"
#include "core/slow_path_flags.h"
#include "core/staging.h"
#include "core/stream.h"

namespace keel {

Device::Device(const Backend& backend, uint32_t ordinal, const keel_device_info& info)
    : backend_(backend),
      plugin_(*backend.plugin()),
      ordinal_(ordinal),
      name_(fmt::format("{}:{}", backend.name(), ordinal)),
      info_(info),
      memory_(*this),
      retired_modules_(*this) {}

namespace {

// Reclaims every retired object. A call that is being refused is in a section and holds objects
// back, but for an instant only; so repeat.
void reclaim_for_good() {
  while (retired_count() != 0) reclaim_retired();
}

}  // namespace

Device::~Device() {
  release_all();
  close();
}

Status Device::open_now() {
  std::lock_guard lock(mutex_);
  if (is_open()) return {};
  keel_plugin_device* native = nullptr;
  KEEL_RETURN_IF_ERROR(plugin_status(device_table()->open(backend_.instance(), ordinal_, &native),
                                     name_, "device.open"));
  native_ = native;
  open_.store(true, std::memory_order_release);
  return {};
}

void Device::push(Ref<Stream>& list, Ref<Stream> stream) {
  stream->next_kept() = std::move(list);
  list = std::move(stream);
}

Ref<Stream> Device::pop(Ref<Stream>& list) {
  Ref<Stream> first = std::move(list);
  if (first) list = std::move(first->next_kept());
  return first;
}

Ref<Stream> Device::pop_locked(Ref<Stream>& list) {
  std::lock_guard lock(mutex_);
  return pop(list);
}

void Device::release_all() {
  if (!is_open()) return;
  Ref<Stream> closed;
  for (const bool urgent : {false, true}) {
    Ref<Stream>& idle = idle_streams(urgent);
    while (Ref<Stream> stream = pop_locked(idle)) push(closed, std::move(stream));
  }
  while (Ref<Stream> stream = pop_locked(unfinished_streams_)) push(closed, std::move(stream));
  while (Ref<Stream> stream = pop(closed)) stream->close();
  // Streams that still hang are released as well: no later time exists to wait for them.
  while (Ref<Stream> stream = pop_locked(unfinished_streams_)) stream->abandon();
  reclaim_for_good();  // frees their records, and so the native streams
  retired_modules_.unload_all();
  memory_.release_all();
}

void Device::close() {
  if (!is_open()) return;
  reclaim_for_good();  // records and streams need an open device to be freed
  PinnedSegmentCache::get().release(*this);
  device_table()->close(native_);
  native_ = nullptr;
  open_.store(false, std::memory_order_release);
}

int Device::staging_node() {
  int node = staging_node_.load(std::memory_order_relaxed);
  if (node == kNodeNotAsked) {
    node = find_staging_node(info_);
    staging_node_.store(node, std::memory_order_relaxed);
  }
  return node;
}

Status Device::failed(keel_status code, const char* call) {
  Status status = plugin_status(code, name_, call);
  if (code == KEEL_DEVICE_LOST) {
    {
      const std::lock_guard lock(loss_mutex_);
      if (loss_.ok()) loss_ = status;
    }
    lost_.store(true, std::memory_order_relaxed);
    slow_path_flags::g_process.fetch_or(slow_path_flags::kLostDevice, std::memory_order_relaxed);
  }
  return status;
}

void Device::give_up_work(const char* call) {
  has_given_up_.store(true);  // before the loss, by which records are done
  (void)check(KEEL_DEVICE_LOST, call);
}

Status Device::lost() const {
  const std::lock_guard lock(loss_mutex_);
  return failure(KEEL_DEVICE_LOST, "{} is lost: {}", name_, loss_.text());
}

namespace {

// Whether all work on |stream| is done; records an event.
bool has_ended(Stream& stream) {
  WakeList wake;
  Ref<EventRecord> last;
  if (!stream.fence(&last).ok()) return false;
  const bool ended = last->query(wake).ok();
  advance_all(wake);
  return ended;
}

}  // namespace

Status Device::lease_stream(Ref<Stream>* out_stream, bool urgent) {
  urgent = urgent && has(KEEL_CAPABILITY_PRIORITY);
  Ref<Stream>& idle = idle_streams(urgent);
  // Runs without the lock: the query takes a record of the stream, and may advance other streams.
  // Out of memory makes a stream unusable.
  const auto is_usable = [](Stream& stream) {
    try {
      return stream.has_failed() ? stream.recover(Deadline::after(kQuickRecoveryNs)).ok()
                                 : has_ended(stream);
    } catch (const std::bad_alloc&) {
      return false;
    }
  };
  Ref<Stream> unusable;
  Ref<Stream> found;
  while ((found = pop_locked(idle)) && !is_usable(*found)) {
    push(unusable, std::move(found));
  }
  while (Ref<Stream> stream = pop(unusable)) return_stream(std::move(stream));
  if (!found) return Stream::create(*this, urgent ? -1 : 0, out_stream, /*internal=*/true);
  *out_stream = std::move(found);
  return {};
}

void Device::return_stream(Ref<Stream> stream) {
  std::lock_guard lock(mutex_);
  Ref<Stream>& idle = idle_streams(stream->priority() < 0);
  push(idle, std::move(stream));
}

void Device::keep_unfinished(Ref<Stream> stream) {
  std::lock_guard lock(mutex_);
  push(unfinished_streams_, std::move(stream));
}

}  // namespace keel
