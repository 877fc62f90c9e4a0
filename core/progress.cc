#include "core/progress.h"

#include <chrono>

#include "core/device.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

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
    Ref<EventRecord> kept = record;
    if (table->event_notify(record->native(), &Progress::on_notify, kept.get()) == KEEL_OK) {
      (void)kept.detach();  // the callback takes it over
      return;
    }
    take_plugin_text();
    std::lock_guard lock(mutex_);
    --notifications_pending_;
  }
  add(record);
}

void Progress::on_notify(void* user, keel_status) {
  // The status is asked for anew: the callback is a hint to look.
  Progress& self = Runtime::get().progress();
  Ref<EventRecord> record = Ref<EventRecord>::adopt(static_cast<EventRecord*>(user));
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
