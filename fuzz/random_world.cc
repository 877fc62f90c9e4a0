// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <utility>

#include "fuzz/random_calls.h"

namespace keel::fuzz {

World::World(std::vector<keel_device> devices) : devices_(std::move(devices)) {
  for (size_t i = 0; i < kLanes; ++i) lanes_[i].device = devices_[i % devices_.size()];
}

World::~World() {
  finish();
}

void World::check(const char* call, keel_status status) {
  calls_.fetch_add(1, std::memory_order_relaxed);
  if (status == KEEL_OK) successes_.fetch_add(1, std::memory_order_relaxed);
  if (status == KEEL_OK || status == KEEL_NOT_READY) return;
  const char* why = nullptr;
  if (status != KEEL_UNKNOWN && std::strcmp(keel_status_name(status), "KEEL_UNKNOWN") == 0) {
    why = "a status that is none";
  } else if (status == KEEL_INTERNAL) {
    why = keel_last_error();  // no user call may find Keel inconsistent
  } else if (*keel_last_error() == '\0') {
    why = "a failure without a text";
  }
  if (why != nullptr) report(call, status, why);
}

void World::report(const char* call, keel_status status, const char* why) {
  std::lock_guard lock(problem_mutex_);
  if (!problem_.empty()) return;
  problem_ = std::string(call) + ": " + keel_status_name(status) + ": " + why;
}

std::string World::problem() {
  std::lock_guard lock(problem_mutex_);
  return problem_;
}

void World::finish() {
  const auto ended = [&](const char* call, keel_status status) {
    check(call, status);
    if (status == KEEL_INVALID_HANDLE) report(call, status, "at the end");
  };
  for (auto& rank : comm_) {
    if (rank != 0) ended("keel_comm_destroy", keel_comm_destroy({rank.exchange(0)}));
  }
  for (auto& gate : gates_) {
    if (gate != 0) ended("keel_gate_destroy", keel_gate_destroy({gate.exchange(0)}));
  }
  for (auto& event : events_) {
    if (event != 0) ended("keel_event_destroy", keel_event_destroy({event.exchange(0)}));
  }
  for (Lane& lane : lanes_) {
    if (lane.stream != 0) ended("keel_stream_destroy", keel_stream_destroy({lane.stream}));
    lane.stream = 0;
    for (const Lane::Block& block : lane.blocks) {
      ended("keel_free", keel_free(block.device, block.base));
    }
    lane.blocks.clear();
  }
}

}  // namespace keel::fuzz
