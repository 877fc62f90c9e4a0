// SPDX-License-Identifier: Apache-2.0
#include "lane_order.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>
#include <vector>

#include "lane.h"

namespace keel_torch {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstLook{1000};
constexpr milliseconds kLongestPause{30000};

constexpr char kConflict[] = "keel/order/conflict";

std::string key_of(int rank) {
  return "keel/order/rank/" + std::to_string(rank);
}

std::string named(const std::string& text, int rank) {
  return text.empty() ? "rank " + std::to_string(rank) : text;
}

}  // namespace

LaneOrder::LaneOrder(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : store_(std::move(store)), rank_(rank), size_(size), pause_(kFirstLook) {}

void LaneOrder::begin(const std::shared_ptr<Lane>& cpu, const std::shared_ptr<Lane>& device) {
  if (size_ == 1) return;
  try {
    looks_ = store_->clone();
  } catch (const std::exception&) {
    return;  // the deadline ends the waits
  }
  cpu_ = cpu;
  device_ = device;
  has_begun_.store(true, std::memory_order_release);
  is_looking_.store(true, std::memory_order_release);
}

void LaneOrder::note_other_caller() {
  if (has_several_callers_.load(std::memory_order_relaxed)) return;
  std::thread::id first;
  if (torch::autograd::get_current_graph_task_id() != -1) {
    // Which thread called backward() is unknown, but for a thread that has called collectives.
    if (caller_.load(std::memory_order_relaxed) != first) return;
  } else if (caller_.compare_exchange_strong(first, std::this_thread::get_id())) {
    return;
  }
  has_several_callers_.store(true, std::memory_order_relaxed);
}

void LaneOrder::note_waiting() {
  if (!is_looking_.load(std::memory_order_acquire)) return;
  if (has_several_callers_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const auto now = steady_clock::now();
  if (now < next_) return;
  next_ = now + kFirstLook;
  const std::shared_ptr<Lane> cpu = cpu_.lock();
  const std::shared_ptr<Lane> device = device_.lock();
  if (!cpu || !device) return;
  const Calls calls{cpu->calls(), device->calls()};
  if (calls != seen_) {
    seen_ = calls;
    pause_ = kFirstLook;
    next_look_ = next_;
    return;
  }
  if (now < next_look_) return;
  pause_ = std::min(2 * pause_, kLongestPause);
  next_look_ = now + pause_;
  std::string found;
  // A store that has gone ends no collective, which may need none.
  try {
    found = look({calls, cpu->newest(), device->newest()});
  } catch (const std::exception&) {
    return;
  }
  if (found.empty()) return;
  is_looking_.store(false, std::memory_order_release);
  {
    const std::lock_guard conflict_lock(conflict_mutex_);
    conflict_ = std::move(found);
    is_conflict_known_ = true;
  }
  cpu->abort();
  device->abort();
}

std::string LaneOrder::look(const Record& own) {
  std::ostringstream text;
  text << own.calls.of_cpu << ' ' << own.calls.of_device << '\n'
       << own.cpu_text << '\n'
       << own.device_text << '\n';
  looks_->set(key_of(rank_), text.str());
  std::vector<std::pair<int, Record>> records{{rank_, own}};
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_ || !looks_->check({key_of(rank)})) continue;
    std::istringstream in(looks_->get_to_str(key_of(rank)));
    Record record;
    in >> record.calls.of_cpu >> record.calls.of_device;
    in.ignore();  // the end of the line
    std::getline(in, record.cpu_text);
    std::getline(in, record.device_text);
    records.emplace_back(rank, std::move(record));
  }
  for (const auto& [one, first] : records) {
    for (const auto& [other, second] : records) {
      if (first.calls.of_cpu <= second.calls.of_cpu) continue;
      if (first.calls.of_device >= second.calls.of_device) continue;
      const std::string found = "ranks wait for each other: " + named(first.cpu_text, one) +
                                " has CPU tensors, " + named(second.device_text, other) +
                                " has keel tensors. They meet in one collective only in a group "
                                "whose first collective of "
                                "keel tensors had both";
      const std::string stored = looks_->compareSet(kConflict, std::string(), found);
      return stored.empty() ? found : stored;
    }
  }
  return {};
}

std::string LaneOrder::conflict() {
  if (!has_begun_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(conflict_mutex_);
  if (is_conflict_known_) return conflict_;
  is_conflict_known_ = true;
  try {
    if (looks_->check({kConflict})) conflict_ = looks_->get_to_str(kConflict);
  } catch (...) {
    // The rank that served the store has left.
  }
  return conflict_;
}

}  // namespace keel_torch
