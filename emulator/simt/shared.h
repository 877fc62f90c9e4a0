// SPDX-License-Identifier: Apache-2.0
// Shared memory of a block, with race detection.
#ifndef KEEL_EMULATOR_SIMT_SHARED_H_
#define KEEL_EMULATOR_SIMT_SHARED_H_

#include <cstddef>
#include <cstdint>

#include "emulator/simt/machine.h"

namespace keel::emulator::simt {

// The last accesses of a cell: thread and epoch, see Machine::epoch. All zero: never accessed.
struct Touch {
  static constexpr uint32_t kSeveral = ~uint32_t{0};
  uint64_t write_epoch;
  uint64_t read_epoch;
  uint32_t writer;
  uint32_t reader;
};

// A cell as an expression: reads on conversion to a value, writes on assignment.
template <typename T>
class SharedCell {
 public:
  SharedCell(T* value, Touch* touch, const char* name, size_t index)
      : value_(value), touch_(touch), name_(name), index_(index) {}

  operator T() const {  // NOLINT: implicit, like an array element
    Machine& machine = Machine::current();
    const uint64_t epoch = machine.epoch();
    if (touch_->write_epoch < machine.first_epoch()) {
      machine.fail(Outcome::kFailed, "reads shared %s[%zu], which nobody has written", name_,
                   index_);
    }
    if (touch_->write_epoch == epoch && touch_->writer != machine.thread()) {
      machine.fail(Outcome::kFailed,
                   "a race: reads shared %s[%zu], which thread %u has written since the last "
                   "barrier",
                   name_, index_, touch_->writer);
    }
    const bool is_first = touch_->read_epoch != epoch;
    touch_->read_epoch = epoch;
    if (is_first) {
      touch_->reader = machine.thread();
    } else if (touch_->reader != machine.thread()) {
      touch_->reader = Touch::kSeveral;
    }
    return *value_;
  }

  SharedCell& operator=(T value) {
    Machine& machine = Machine::current();
    const uint64_t epoch = machine.epoch();
    if (touch_->write_epoch == epoch && touch_->writer != machine.thread()) {
      machine.fail(Outcome::kFailed,
                   "a race: writes shared %s[%zu], which thread %u has written since the last "
                   "barrier",
                   name_, index_, touch_->writer);
    }
    if (touch_->read_epoch == epoch && touch_->reader != machine.thread()) {
      machine.fail(Outcome::kFailed,
                   "a race: writes shared %s[%zu], which %s has read since the last barrier", name_,
                   index_, touch_->reader == Touch::kSeveral ? "more than one" : "another thread");
    }
    touch_->write_epoch = epoch;
    touch_->writer = machine.thread();
    *value_ = value;
    return *this;
  }
  SharedCell& operator=(const SharedCell& other) { return *this = static_cast<T>(other); }
  SharedCell& operator+=(T value) { return *this = static_cast<T>(*this) + value; }

 private:
  T* value_;
  Touch* touch_;
  const char* name_;
  size_t index_;
};

// One per host thread, which runs one block at a time. Values of an earlier block count as
// unwritten: epochs identify the block.
template <typename T, size_t kCount>
class SharedArray {
 public:
  SharedCell<T> at(size_t index, const char* name) {
    if (index >= kCount) {
      Machine::current().fail(Outcome::kIllegalAddress, "shared %s[%zu], which ends at %zu", name,
                              index, kCount);
    }
    return {&values_[index], &touches_[index], name, index};
  }

 private:
  T values_[kCount];
  Touch touches_[kCount];
};

// A SharedArray with its name, for error texts.
template <typename T, size_t kCount>
class SharedView {
 public:
  SharedView(SharedArray<T, kCount>* array, const char* name) : array_(array), name_(name) {}
  SharedCell<T> operator[](size_t index) const { return array_->at(index, name_); }

 private:
  SharedArray<T, kCount>* array_;
  const char* name_;
};

}  // namespace keel::emulator::simt

#endif  // KEEL_EMULATOR_SIMT_SHARED_H_
