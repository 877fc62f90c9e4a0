// SPDX-License-Identifier: Apache-2.0
#include "emulator/simt/machine.h"

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

namespace keel::emulator::simt {

thread_local Machine* Machine::current_ = nullptr;

const Kernel* Registration::find(const char* family, const char* name) {
  const Kernel* each = first_;
  while (each != nullptr &&
         (std::strcmp(each->name, name) != 0 || std::strcmp(each->family, family) != 0)) {
    each = each->next;
  }
  return each;
}

Outcome Machine::run(std::string* out_error) {
  // Epochs of two launches differ, because a thread's shared memory keeps its cells' epochs.
  static std::atomic<uint64_t> launches{0};
  epoch_ = launches.fetch_add(1) << 32;
  Machine* const before = std::exchange(current_, this);
  warps_.resize((kernel_.threads + kWarpThreads - 1) / kWarpThreads);
  bool good = true;
  for (uint32_t z = 0; z < grid_.z && good; ++z) {
    for (uint32_t y = 0; y < grid_.y && good; ++y) {
      for (uint32_t x = 0; x < grid_.x && good; ++x) {
        block_ = {x, y, z};
        good = run_block();
      }
    }
  }
  current_ = before;
  if (!good) *out_error = text_.data();
  return outcome_;
}

bool Machine::run_block() {
  first_epoch_ = ++epoch_;
  next_thread_ = 0;
  finished_ = 0;
  while (finished_ < kernel_.threads) {
    Worker* worker = nullptr;
    if (!ready_.empty()) {
      worker = ready_.front();
      ready_.pop_front();
    } else if (next_thread_ < kernel_.threads) {
      worker = take_idle();
      if (worker == nullptr) {
        outcome_ = Outcome::kOutOfMemory;
        std::snprintf(text_.data(), text_.size(), "no memory for the stacks of %s", kernel_.name);
        return false;
      }
    } else {
      outcome_ = Outcome::kFailed;
      std::snprintf(text_.data(), text_.size(),
                    "%s, block (%u,%u,%u): %u threads wait, %zu of them at a barrier, for others "
                    "that do not come there; %u have ended",
                    kernel_.name, block_.x, block_.y, block_.z, kernel_.threads - finished_,
                    at_barrier_.size(), finished_);
      return false;
    }
    running_ = worker;
    thread_ = worker->thread;
    worker->fiber->resume();
    if (outcome_ != Outcome::kDone) return false;
  }
  return true;
}

Machine::Worker* Machine::take_idle() {
  if (!idle_.empty()) {
    Worker* const worker = idle_.back();
    idle_.pop_back();
    return worker;
  }
  auto worker = std::make_unique<Worker>();
  worker->machine = this;
  worker->fiber = Fiber::create(work, worker.get());
  if (worker->fiber == nullptr) return nullptr;
  workers_.push_back(std::move(worker));
  return workers_.back().get();
}

// The body of a fiber: runs threads that have not begun, in this block and later blocks.
void Machine::work(void* user) {
  Worker& self = *static_cast<Worker*>(user);
  Machine& machine = *self.machine;
  while (true) {
    while (machine.next_thread_ < machine.kernel_.threads) {
      self.thread = machine.thread_ = machine.next_thread_++;
      machine.kernel_.invoke(machine.arguments_);
      ++machine.finished_;
    }
    machine.idle_.push_back(&self);
    self.fiber->suspend();
  }
}

void Machine::wait() {
  running_->fiber->suspend();
}

void Machine::barrier() {
  if (at_barrier_.size() + 1 < kernel_.threads) {
    at_barrier_.push_back(running_);
    wait();
    return;
  }
  ++epoch_;
  ready_.insert(ready_.end(), at_barrier_.begin(), at_barrier_.end());
  at_barrier_.clear();
}

const std::array<uint64_t, kWarpThreads>& Machine::exchange(uint64_t value) {
  const uint32_t first = thread_ / kWarpThreads * kWarpThreads;
  Warp& warp = warps_[thread_ / kWarpThreads];
  // Two buffers in turn: a thread that is ahead writes the next buffer, and no thread is ahead by
  // two.
  auto& given = warp.given[warp.turn];
  given[thread_ - first] = value;
  if (warp.waiting.size() + 1 < std::min(kWarpThreads, kernel_.threads - first)) {
    warp.waiting.push_back(running_);
    wait();
  } else {
    warp.turn ^= 1;
    ready_.insert(ready_.end(), warp.waiting.begin(), warp.waiting.end());
    warp.waiting.clear();
  }
  return given;
}

Extent Machine::reach(uint64_t address, uint64_t size, uint64_t alignment) {
  if (address % alignment != 0) {
    fail(Outcome::kIllegalAddress, "an access of %llu bytes at 0x%llx, which is not aligned so",
         static_cast<unsigned long long>(size), static_cast<unsigned long long>(address));
  }
  const auto holds = [&](const Extent& extent) {
    return size <= extent.size && address - extent.begin <= extent.size - size;
  };
  for (const Extent& each : extents_) {
    if (holds(each)) return each;
  }
  char why[200] = "it ends behind the end of its allocation";
  {
    Extent found;
    std::string text;
    if (memory_.find(address, &found, &text)) {
      if (holds(found)) {
        extents_[next_extent_++ % extents_.size()] = found;
        return found;
      }
    } else {
      std::snprintf(why, sizeof(why), "%s", text.c_str());
    }
  }
  fail(Outcome::kIllegalAddress, "an access of %llu bytes at 0x%llx: %s",
       static_cast<unsigned long long>(size), static_cast<unsigned long long>(address), why);
}

// Runs no destructors on the thread's stack: it holds only objects that need none.
void Machine::fail(Outcome outcome, const char* format, ...) {
  outcome_ = outcome;
  const int length =
      std::snprintf(text_.data(), text_.size(), "%s, block (%u,%u,%u), thread %u: ", kernel_.name,
                    block_.x, block_.y, block_.z, thread_);
  va_list list;
  va_start(list, format);
  std::vsnprintf(text_.data() + length, text_.size() - static_cast<size_t>(length), format, list);
  va_end(list);
  wait();
  __builtin_unreachable();
}

}  // namespace keel::emulator::simt
