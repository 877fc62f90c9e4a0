#include "core/device.h"

#include <algorithm>
#include <new>

#include "core/epoch.h"
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

void Device::release_all() {
  if (!is_open()) return;
  std::vector<Ref<Stream>> streams;
  {
    std::lock_guard lock(mutex_);
    streams.swap(idle_streams_);
    streams.insert(streams.end(), unfinished_streams_.begin(), unfinished_streams_.end());
    unfinished_streams_.clear();
  }
  for (auto& stream : streams) stream->close();
  {
    // Those that hang go with the rest: there is no later time to wait for them.
    std::lock_guard lock(mutex_);
    streams.insert(streams.end(), unfinished_streams_.begin(), unfinished_streams_.end());
    unfinished_streams_.clear();
  }
  for (auto& stream : streams) stream->abandon();
  streams.clear();
  reclaim_all_retired();  // their records, and with them the native streams
  retired_modules_.unload_all();
  memory_.release_all();
}

void Device::close() {
  if (!is_open()) return;
  reclaim_all_retired();  // records and streams need the device for their end
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
  if (code == KEEL_DEVICE_LOST) lost_.store(true, std::memory_order_relaxed);
  return plugin_status(code, name_, call);
}

Status Device::lost() const {
  return failure(KEEL_DEVICE_LOST, "{} is lost", name_);
}

Status Device::lease_stream(Ref<Stream>* out_stream) {
  // Looked at without the lock: asking a stream takes a record of this device, and may
  // let other streams go on.
  std::vector<Ref<Stream>> returned;
  {
    std::lock_guard lock(mutex_);
    returned.swap(idle_streams_);
  }
  // For want of memory none is usable; they must all go back, or nobody would close them.
  const auto usable = std::find_if(returned.begin(), returned.end(), [](const auto& stream) {
    try {
      return stream->has_failed() ? stream->recover(Deadline::after(0)).ok() : stream->is_idle();
    } catch (const std::bad_alloc&) {
      return false;
    }
  });
  const bool found = usable != returned.end();
  if (found) {
    *out_stream = std::move(*usable);
    returned.erase(usable);
  }
  {
    std::lock_guard lock(mutex_);
    if (idle_streams_.empty()) {
      idle_streams_.swap(returned);
    } else {
      idle_streams_.insert(idle_streams_.end(), returned.begin(), returned.end());
    }
  }
  return found ? Status() : Stream::create(*this, /*priority=*/0, out_stream, /*internal=*/true);
}

void Device::return_stream(Ref<Stream> stream) {
  std::lock_guard lock(mutex_);
  idle_streams_.push_back(std::move(stream));
}

void Device::keep_unfinished(Ref<Stream> stream) {
  std::lock_guard lock(mutex_);
  unfinished_streams_.push_back(std::move(stream));
}

}  // namespace keel
