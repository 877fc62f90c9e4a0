#include "core/device.h"

#include "core/event.h"
#include "core/stream.h"

namespace keel {

Device::Device(const Backend& backend, uint32_t ordinal, const keel_device_info& info)
    : backend_(backend),
      ordinal_(ordinal),
      name_(fmt::format("{}:{}", backend.name(), ordinal)),
      info_(info),
      memory_(*this) {}

Device::~Device() {
  close();
}

Status Device::open() {
  if (is_open()) return {};
  std::lock_guard lock(mutex_);
  if (is_open()) return {};
  keel_plugin_device* native = nullptr;
  KEEL_RETURN_IF_ERROR(plugin_status(device_table()->open(backend_.instance(), ordinal_, &native),
                                     name_, "device.open"));
  native_ = native;
  open_.store(true, std::memory_order_release);
  return {};
}

void Device::close() {
  if (!is_open()) return;
  std::vector<Ref<Stream>> streams;
  {
    std::lock_guard lock(mutex_);
    streams.swap(idle_streams_);
  }
  for (auto& stream : streams) stream->close();
  streams.clear();  // their records come back to the pool here
  memory_.release_all();
  for (auto& pool : idle_records_) {
    for (EventRecord* record : pool) {
      stream_table()->event_destroy(record->native());
      delete record;
    }
    pool.clear();
  }
  device_table()->close(native_);
  native_ = nullptr;
  open_.store(false, std::memory_order_release);
}

Status Device::check(keel_status code, const char* call) {
  if (code == KEEL_OK) return {};
  if (code == KEEL_DEVICE_LOST) lost_.store(true, std::memory_order_relaxed);
  return plugin_status(code, name_, call);
}

Status Device::check_alive() const {
  if (!lost_.load(std::memory_order_relaxed)) return {};
  return failure(KEEL_DEVICE_LOST, "{} is lost", name_);
}

Status Device::new_record(uint32_t flags, Ref<EventRecord>* out_record) {
  const bool timing = (flags & KEEL_EVENT_TIMING) != 0;
  {
    std::lock_guard lock(mutex_);
    auto& pool = idle_records_[timing ? 1 : 0];
    if (!pool.empty()) {
      *out_record = Ref<EventRecord>::adopt(pool.back());
      pool.pop_back();
      (*out_record)->prepare();
      return {};
    }
  }
  if (timing && !claims(KEEL_CLAIM_TIMING)) {
    return failure(KEEL_UNSUPPORTED, "{} has no timing events", name_);
  }
  keel_plugin_event* native = nullptr;
  KEEL_RETURN_IF_ERROR(
      check(stream_table()->event_create(native_, timing ? KEEL_EVENT_TIMING : 0, &native),
            "stream.event_create"));
  *out_record = Ref<EventRecord>::adopt(new EventRecord(*this, native, flags));
  return {};
}

void Device::recycle(EventRecord* record) {
  std::lock_guard lock(mutex_);
  idle_records_[record->timing() ? 1 : 0].push_back(record);
}

Status Device::lease_stream(Ref<Stream>* out_stream) {
  {
    std::lock_guard lock(mutex_);
    std::erase_if(idle_streams_, [](const Ref<Stream>& stream) { return stream->has_failed(); });
    for (auto& stream : idle_streams_) {
      if (!stream->is_idle()) continue;
      std::swap(stream, idle_streams_.back());
      *out_stream = std::move(idle_streams_.back());
      idle_streams_.pop_back();
      return {};
    }
  }
  return Stream::create(*this, /*priority=*/0, out_stream);
}

void Device::return_stream(Ref<Stream> stream) {
  std::lock_guard lock(mutex_);
  idle_streams_.push_back(std::move(stream));
}

}  // namespace keel
