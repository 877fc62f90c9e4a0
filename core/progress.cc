// SPDX-License-Identifier: Apache-2.0
#include "core/progress.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <keel/plugin_kit.hpp>
#include <keel/thread_start.hpp>
#include <new>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/log.h"
#include "core/runtime.h"
#include "core/stream.h"

namespace keel {

namespace {

using DeviceName = char[64];
using Clock = std::chrono::steady_clock;

// An event is queried once looks have seen it without its callback for this long.
constexpr auto kOverdue = std::chrono::milliseconds(500);
// A callback is given up if it is still missing this long after a look saw its event done, and
// after at least three looks, so that a process stopped in between leaves the plugin time to call.
constexpr auto kGivenUp = std::chrono::seconds(1);
constexpr int kLooksUntilGivenUp = 3;
// Pauses between looks while an event is overdue; doubled from the first to the last.
constexpr auto kFirstLook = std::chrono::milliseconds(20);
constexpr auto kLastLook = std::chrono::milliseconds(160);

// The callbacks that plugins owe, by number: a repeated or late callback finds no record instead of
// a dangling pointer. Never destroyed, since plugins outlive Keel.
class Notifications {
 public:
  static Notifications& get() {
    static Notifications& instance = *new Notifications;
    return instance;
  }

  // Throws before any change, or not at all.
  void* add(const Ref<EventRecord>& record) {
    std::list<Ref<EventRecord>> kept{record};
    std::lock_guard lock(mutex_);
    if (free_.empty()) {
      if (slots_.size() == free_.capacity()) free_.reserve(2 * slots_.size() + 8);  // for take()
      slots_.emplace_back();
      free_.push_back(slots_.size() - 1);
    }
    const uint64_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    kit::copy_text(slot.device, record->device().name().c_str());
    slot.record.swap(kept);
    return reinterpret_cast<void*>(uint64_t{slot.generation} << 32 | index);
  }

  // Calls |use|(list of the one record) with the lock held, so that forget_all() waits for the
  // call. Returns false if the callback is not owed; |out_device| then names the last device to use
  // the slot.
  template <typename Use>
  bool take(void* user, DeviceName& out_device, const Use& use) {
    const auto number = reinterpret_cast<uint64_t>(user);
    const uint64_t index = number & UINT32_MAX;
    std::lock_guard lock(mutex_);
    if (index >= slots_.size()) return false;
    Slot& slot = slots_[index];
    if (slot.generation != number >> 32 || slot.record.empty()) {
      kit::copy_text(out_device, slot.device);
      return false;
    }
    use(slot.record);
    free_locked(index);
    return true;
  }

  // Lost callbacks of one device.
  struct Lost {
    DeviceName device = {};
    uint64_t count = 0;
  };

  // Appends to |*out_overdue| the records whose callbacks are overdue at |now|, for the caller to
  // query. Gives up callbacks of events done long ago: counts them in |*out_lost| and moves their
  // records to |*out_given_up|. On std::bad_alloc, the rest is left to the next look.
  void look(Clock::time_point now, std::list<Ref<EventRecord>>* out_overdue,
            std::list<Ref<EventRecord>>* out_given_up, std::vector<Lost>* out_lost) {
    std::lock_guard lock(mutex_);
    for (uint64_t index = 0; index < slots_.size(); ++index) {
      Slot& slot = slots_[index];
      if (slot.record.empty()) continue;
      const bool is_done = slot.record.front()->state() == EventRecord::State::kDone;
      if (slot.looks == 0 || is_done != slot.seen_done) {
        slot.since = now;
        slot.looks = 1;
        slot.seen_done = is_done;
      } else if (!is_done) {
        if (now - slot.since >= kOverdue) out_overdue->push_back(slot.record.front());
      } else if (++slot.looks >= kLooksUntilGivenUp && now - slot.since >= kGivenUp) {
        const auto same = [&](const Lost& lost) {
          return std::strcmp(lost.device, slot.device) == 0;
        };
        auto lost = std::find_if(out_lost->begin(), out_lost->end(), same);
        if (lost == out_lost->end()) {
          lost = out_lost->emplace(lost);
          kit::copy_text(lost->device, slot.device);
        }
        ++lost->count;
        out_given_up->splice(out_given_up->end(), slot.record);
        free_locked(index);
      }
    }
  }

  // Releases the records of all owed callbacks; callbacks that arrive later find no record.
  void forget_all() {
    std::list<Ref<EventRecord>> forgotten;  // destroyed without the lock
    std::lock_guard lock(mutex_);
    for (uint64_t index = 0; index < slots_.size(); ++index) {
      if (slots_[index].record.empty()) continue;
      forgotten.splice(forgotten.end(), slots_[index].record);
      free_locked(index);
    }
  }

 private:
  void free_locked(uint64_t index) {
    ++slots_[index].generation;
    slots_[index].record.clear();
    slots_[index].looks = 0;
    free_.push_back(index);
  }

  struct Slot {
    uint32_t generation = 1;
    std::list<Ref<EventRecord>> record;  // one, or none
    DeviceName device = {};
    // For look(): since when, and in how many looks, the record was seen done or not done. The
    // thread that adds a record reads no clock.
    Clock::time_point since;
    int looks = 0;
    bool seen_done = false;
  };

  std::mutex mutex_;
  std::vector<Slot> slots_;
  std::vector<uint64_t> free_;
};

}  // namespace

Progress::Progress()
    : thread_(kit::start_thread<std::thread>("keel-progress", [this] { run(); })) {}

Progress::~Progress() {
  stop();
}

void Progress::stop() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    // A plugin owes each callback exactly once; a lost callback must not keep the process from
    // ending.
    changed_.wait_for(lock, std::chrono::seconds(1), [&] { return notifications_pending_ == 0; });
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  // The end of a record needs the device, and a callback needs this Progress.
  Notifications::get().forget_all();
}

void Progress::add(Records records) {
  std::lock_guard lock(mutex_);
  incoming_.splice(incoming_.end(), records);
  changed_.notify_all();
}

void Progress::watch(const Ref<EventRecord>& record) {
  Records kept{record};
  const keel_stream_table* table = record->device().stream_table();
  if (record->device().has(KEEL_CAPABILITY_NOTIFY) &&
      KEEL_HAS(keel_stream_table, table, event_notify)) {
    void* user = Notifications::get().add(record);
    {
      std::lock_guard lock(mutex_);
      ++notifications_pending_;
      if (!looks_) {
        looks_ = true;
        changed_.notify_all();
      }
    }
    if (table->event_notify(record->native(), &Progress::on_notify, user) == KEEL_OK) return;
    take_plugin_text();
    DeviceName device = {};
    const auto drop = [](Records&) {};
    if (!Notifications::get().take(user, device, drop)) return;  // the callback came nevertheless
    std::lock_guard lock(mutex_);
    --notifications_pending_;
  }
  add(std::move(kept));
}

void Progress::on_notify(void* user, keel_status) {
  DeviceName device = {};
  // The callback is only a hint: the status is queried again.
  const auto look = [](Records& records) {
    Progress& self = Runtime::get().progress();
    std::lock_guard lock(self.mutex_);
    --self.notifications_pending_;
    self.incoming_.splice(self.incoming_.end(), records);
    self.changed_.notify_all();
  };
  if (Notifications::get().take(user, device, look)) return;
  log(KEEL_LOG_ERROR, "{}: event_notify called back twice for one event, or too late", device);
}

bool Progress::look(WakeList& wake) {
  Records overdue;
  Records given_up;
  std::vector<Notifications::Lost> lost;
  try {
    Notifications::get().look(Clock::now(), &overdue, &given_up, &lost);
  } catch (const std::bad_alloc&) {
    // The next look continues.
  }
  for (const Ref<EventRecord>& record : overdue) {
    try {
      (void)record->query(wake);
    } catch (const std::bad_alloc&) {
      // Queried again at the next look.
    }
  }
  for (const Notifications::Lost& of : lost) {
    log(KEEL_LOG_ERROR,
        "{}: event_notify called back for {} event(s) neither when they were done nor in the "
        "second after; Keel found them done by event_query, late",
        of.device, of.count);
  }
  if (!given_up.empty()) {
    std::lock_guard lock(mutex_);
    notifications_pending_ -= given_up.size();
    changed_.notify_all();
  }
  return !overdue.empty();
}

void Progress::run() {
  constexpr auto kFirstPoll = std::chrono::microseconds(20);
  constexpr auto kLastPoll = std::chrono::microseconds(200);
  auto pause = kFirstPoll;
  Clock::duration look_pause = kOverdue;
  Clock::time_point next_look = Clock::time_point::max();  // max() while no callback is owed
  Records polled;
  Records arrived;
  WakeList wake;
  while (true) {
    bool look_now = false;
    {
      std::unique_lock lock(mutex_);
      const auto has_news = [&] { return stopping_ || !incoming_.empty(); };
      if (!polled.empty()) {
        changed_.wait_for(lock, pause, has_news);
      } else if (looks_ && next_look != Clock::time_point::max()) {
        changed_.wait_until(lock, next_look, has_news);
      } else {
        changed_.wait(lock, [&] { return has_news() || looks_; });
      }
      if (stopping_) return;
      arrived.swap(incoming_);
      if (looks_) {
        const Clock::time_point now = Clock::now();
        if (next_look == Clock::time_point::max()) {
          next_look = now + kOverdue;
        } else if (now >= next_look) {
          look_now = notifications_pending_ != 0;
          if (!look_now) {
            looks_ = false;
            next_look = Clock::time_point::max();
          }
        }
      }
    }
    pause = arrived.empty() ? std::min(pause * 2, kLastPoll) : kFirstPoll;
    polled.splice(polled.end(), arrived);
    std::erase_if(polled, [&](const Ref<EventRecord>& record) {
      try {
        return record->query(wake).code() != KEEL_NOT_READY;
      } catch (const std::bad_alloc&) {
        return false;  // queried again later
      }
    });
    if (look_now) {
      if (!look(wake)) {
        look_pause = kOverdue;
      } else if (look_pause == kOverdue) {
        look_pause = kFirstLook;
      } else {
        look_pause = std::min<Clock::duration>(look_pause * 2, kLastLook);
      }
      next_look = Clock::now() + look_pause;
    }
    advance_all(wake);
  }
}

}  // namespace keel
