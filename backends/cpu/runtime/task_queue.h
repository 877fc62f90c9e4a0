// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_TASK_QUEUE_H_
#define KEEL_BACKENDS_CPU_RUNTIME_TASK_QUEUE_H_

#include <keel/abi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace keel::cpu {

class Event;
class ThreadPool;

// One entry of a stream's queue.
struct Task {
  enum class Kind : uint8_t {
    kWork,    // runs |call| with one core of the device; skipped on a failed stream
    kSignal,  // completes |event|, always
    kWait,    // waits for |event|; skipped on a failed stream
  };
  // Maximum size of a kernel's arguments; elementwise, the largest, needs 464 bytes.
  static constexpr size_t kInlineBytes = 512;

  Kind kind;
  union {
    keel_status (*call)(const void* closure, ThreadPool& pool);
    Event* event;
  };
  alignas(std::max_align_t) std::byte closure[kInlineBytes];

  // Stores |work|, a callable keel_status(ThreadPool&) of plain values.
  template <typename Work>
  void set_work(const Work& work) {
    static_assert(sizeof(Work) <= kInlineBytes);
    static_assert(std::is_trivially_copyable_v<Work> && std::is_trivially_destructible_v<Work>);
    kind = Kind::kWork;
    call = &call_work<Work>;
    ::new (static_cast<void*>(closure)) Work(work);
  }
  template <typename Work>
  static keel_status call_work(const void* work, ThreadPool& pool) {
    return (*static_cast<const Work*>(work))(pool);
  }
};

// A queue of tasks in a circular list of fixed-size chunks. push never refuses and allocates only
// while the queue grows. Tasks do not move, so the front task can run in place while other tasks
// are pushed. Not thread-safe.
class TaskQueue {
 public:
  TaskQueue() : first_(std::make_unique<Chunk>()), head_(first_.get()), tail_(first_.get()) {
    head_->next = head_;
  }

  // Appends an entry, which the caller fills.
  Task& push() {
    if (tail_used_ == kChunkTasks) {
      if (tail_->next == head_) {
        auto chunk = std::make_unique<Chunk>();
        chunk->next = head_;
        tail_->next = chunk.get();
        chunk->older = std::move(first_);
        first_ = std::move(chunk);
      }
      tail_ = tail_->next;
      tail_used_ = 0;
    }
    ++size_;
    return tail_->tasks[tail_used_++];
  }

  // Requires a non-empty queue.
  Task& front() {
    if (head_used_ == kChunkTasks) {
      head_ = head_->next;
      head_used_ = 0;
    }
    return head_->tasks[head_used_];
  }
  void pop() {
    front();  // advances head_ past a used-up chunk
    ++head_used_;
    --size_;
  }
  bool empty() const { return size_ == 0; }

 private:
  static constexpr size_t kChunkTasks = 64;
  struct Chunk {
    Chunk* next = nullptr;         // in the circular list
    std::unique_ptr<Chunk> older;  // ownership only
    Task tasks[kChunkTasks];
  };

  std::unique_ptr<Chunk> first_;
  Chunk* head_;
  Chunk* tail_;
  size_t head_used_ = 0;  // entries of head_ that were popped
  size_t tail_used_ = 0;  // entries of tail_ that were pushed
  size_t size_ = 0;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_TASK_QUEUE_H_
