#include "core/progress.h"

#include <chrono>
#include <string>
#include <utility>

#include "core/device.h"
#include "core/log.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

namespace {

// The callbacks that plugins owe, by number: one that comes twice, or late, finds nothing
// instead of an object that is gone. Never destroyed, since plugins outlive Keel.
class Notifications {
 public:
  static Notifications& get() {
    static Notifications& instance = *new Notifications;
    return instance;
  }

  void* add(Ref<EventRecord> record) {
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      free_.push_back(slots_.size());
      slots_.emplace_back();
    }
    const uint64_t index = free_.back();
    free_.pop_back();
    slots_[index].device = record->device().name();
    slots_[index].record = std::move(record);
    return reinterpret_cast<void*>(uint64_t{slots_[index].generation} << 32 | index);
  }

  // Empty when it is not owed; |*out_device| then names who was to notify last.
  Ref<EventRecord> take(void* user, std::string* out_device) {
    const auto number = reinterpret_cast<uint64_t>(user);
    const uint64_t index = number & UINT32_MAX;
    std::lock_guard lock(mutex_);
    if (index >= slots_.size()) return {};
    Slot& slot = slots_[index];
    if (slot.generation != number >> 32 || !slot.record) {
      *out_device = slot.device;
      return {};
    }
    ++slot.generation;
    free_.push_back(index);
    return std::exchange(slot.record, {});
  }

 private:
  struct Slot {
    uint32_t generation = 1;
    Ref<EventRecord> record;
    std::string device;
  };

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_;
};

}  // namespace

Progress::Progress() : thread_([this] { run(); }) {}

Progress::~Progress() {
  stop();
}

void Progress::stop() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    // A plugin owes each callback exactly once; one that never comes must not keep the
    // process from ending.
    changed_.wait_for(lock, std::chrono::seconds(1), [&] { return notifications_pending_ == 0; });
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Progress::add(Ref<EventRecord> record) {
  std::lock_guard lock(mutex_);
  incoming_.push_back(std::move(record));
  changed_.notify_all();
}

void Progress::watch(const Ref<EventRecord>& record) {
  const keel_stream_table* table = record->device().stream_table();
  if (record->device().claims(KEEL_CLAIM_NOTIFY) &&
      KEEL_HAS(keel_stream_table, table, event_notify)) {
    {
      std::lock_guard lock(mutex_);
      ++notifications_pending_;
    }
    void* user = Notifications::get().add(record);
    if (table->event_notify(record->native(), &Progress::on_notify, user) == KEEL_OK) return;
    take_plugin_text();
    std::string device;
    if (!Notifications::get().take(user, &device)) return;  // it came all the same
    std::lock_guard lock(mutex_);
    --notifications_pending_;
  }
  add(record);
}

void Progress::on_notify(void* user, keel_status) {
  std::string device;
  Ref<EventRecord> record = Notifications::get().take(user, &device);
  if (!record) {
    log(KEEL_LOG_ERROR, "{}: event_notify called back twice for one event", device);
    return;
  }
  // The status is asked for anew: the callback is a hint to look.
  Progress& self = Runtime::get().progress();
  std::lock_guard lock(self.mutex_);
  --self.notifications_pending_;
  self.incoming_.push_back(std::move(record));
  self.changed_.notify_all();  // with the lock: whoever waits for the last one may end |self|
}

void Progress::run() {
  constexpr auto kFirstPoll = std::chrono::microseconds(20);
  constexpr auto kLastPoll = std::chrono::microseconds(200);
  auto pause = kFirstPoll;
  std::vector<Ref<EventRecord>> polled;
  std::vector<Ref<EventRecord>> arrived;
  WakeList wake;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [&] { return stopping_ || !incoming_.empty(); };
      if (polled.empty()) {
        changed_.wait(lock, has_news);
      } else {
        changed_.wait_for(lock, pause, has_news);
      }
      if (stopping_) return;
      arrived.swap(incoming_);
    }
    pause = arrived.empty() ? std::min(pause * 2, kLastPoll) : kFirstPoll;
    polled.insert(polled.end(), std::make_move_iterator(arrived.begin()),
                  std::make_move_iterator(arrived.end()));
    arrived.clear();
    std::erase_if(polled, [&](const Ref<EventRecord>& record) {
      return record->query(wake).code() != KEEL_NOT_READY;
    });
    advance_all(wake);
  }
}

}  // namespace keel
