// SPDX-License-Identifier: Apache-2.0
#include "lane_agreement.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "lane.h"

namespace keel_torch {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kFirstLook{1000};
constexpr milliseconds kLongestPause{30000};

// Number of ranks that ask; each rank's own key holds its number of calls.
constexpr char kAsking[] = "keel/lanes/asking";
constexpr char kWay[] = "keel/lanes/way";
constexpr char kDevices[] = "devices";
constexpr char kHost[] = "host";

std::string key_of(int rank) {
  return "keel/lanes/rank/" + std::to_string(rank);
}

std::string text_at(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

}  // namespace

LaneAgreement::LaneAgreement(c10::intrusive_ptr<c10d::Store> store, int rank, int size)
    : store_(std::move(store)),
      rank_(rank),
      size_(size),
      is_settled_(size == 1),
      pause_(kFirstLook) {}

bool LaneAgreement::all_have_devices(uint64_t called, milliseconds timeout,
                                     const std::function<void()>& check) {
  if (size_ == 1) return true;
  if (!has_asked_) {
    const std::string number = std::to_string(called);
    store_->set(key_of(rank_), std::vector<uint8_t>(number.begin(), number.end()));
    has_asked_ = true;
    if (store_->add(kAsking, 1) == size_) store_->compareSet(kWay, std::string(), kDevices);
  }
  if (!wait_for_key(*store_, kWay, timeout, check)) {
    std::string missing;
    for (int rank = 0; rank < size_; ++rank) {
      if (store_->check({key_of(rank)})) continue;
      missing += (missing.empty() ? "rank " : ", rank ") + std::to_string(rank);
    }
    C10_THROW_ERROR(DistBackendError,
                    "keel: creating the communicator of keel devices: Timed out "
                    "after " +
                        std::to_string(timeout.count()) + " ms: " + missing +
                        " made no collective of keel tensors, nor waits in one "
                        "of CPU tensors");
  }
  settle();
  return text_at(*store_, kWay) == kDevices;
}

void LaneAgreement::note_waiting(uint64_t called) {
  if (is_settled_.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return;
  const auto now = steady_clock::now();
  if (waiting_ != called) {
    waiting_ = called;
    since_ = now;
    pause_ = kFirstLook;
  }
  if (now - since_ < pause_) return;
  since_ = now;
  pause_ = std::min(2 * pause_, kLongestPause);
  // A store that has gone, or has no clone, ends no collective, which may need none.
  try {
    look(called);
  } catch (const std::exception&) {
    looks_.reset();
  }
}

void LaneAgreement::look(uint64_t called) {
  if (!looks_) looks_ = store_->clone();
  if (!looks_->check({kAsking})) return;
  for (int rank = 0; rank < size_; ++rank) {
    const std::string key = key_of(rank);
    if (rank == rank_ || !looks_->check({key})) continue;
    if (std::stoull(text_at(*looks_, key)) >= called) continue;
    looks_->compareSet(kWay, std::string(), kHost);
    return settle();
  }
}

}  // namespace keel_torch
