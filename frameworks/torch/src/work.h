// SPDX-License-Identifier: Apache-2.0
// c10d::Work of one operation of a process group.
#ifndef FRAMEWORKS_TORCH_SRC_WORK_H_
#define FRAMEWORKS_TORCH_SRC_WORK_H_

#include <ATen/core/ivalue.h>
#include <keel/keel.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>
#include <vector>

#include "torch_version.h"

namespace keel_torch {

// One operation, as its Work and its error texts describe it.
struct Call {
  c10d::OpType type;
  const char* title;                  // static, for profilers: "keel:all_reduce"
  std::vector<at::Tensor> inputs;     // kept alive until the operation is done
  std::vector<at::Tensor> outputs;    // the Work's result
  std::chrono::milliseconds timeout;  // of the operation
  // Copies results to where the caller wants them, once the operation has succeeded. May be empty.
  std::function<void()> finish;

  // Returns "all_reduce": the title without its prefix.
  const char* name() const { return title + sizeof("keel:") - 1; }
};

// Base of all Works here. A Work ends once, by settle(). Thread-safe.
class KeelWork : public c10d::Work {
 public:
  KeelWork(int rank, Call call);

  // Ends the Work: runs the call's finish(), unless |failure| says that the operation failed, then
  // wakes the waiting threads and completes the future, whose callbacks run in this thread. All
  // calls but the first do nothing.
  void settle(std::exception_ptr failure);

  // Waits until the Work has ended, at most |timeout| (kNoTimeout: the operation's own deadline
  // ends the wait). Throws the operation's failure; a wait that runs out throws DistBackendError
  // and leaves the operation as it is. Returns with Python's exception when a signal handler of
  // the main thread raised one.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  bool isCompleted() override;
  bool isSuccess() const override;
  void synchronize() override { wait(); }
  void abort() override;
  std::vector<at::Tensor> result() override { return call_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }
  std::chrono::milliseconds getTimeout() const KEEL_TORCH_2_14_OVERRIDE { return call_.timeout; }

  const Call& call() const { return call_; }
  // Takes finish() from the call, for a caller that runs it before settle().
  std::function<void()> take_finish() { return std::exchange(call_.finish, nullptr); }
  void set_sequence(uint64_t sequence) { sequence_ = sequence; }
  // Returns "rank 0: all_reduce (operation 12, 1000 x Float)".
  std::string text() const;

 protected:
  // Waits for the operation at most |slice|; returns early once it has ended, which the function
  // may notice itself and then settles the Work.
  virtual void wait_slice(std::chrono::milliseconds slice);
  // Looks whether the operation has ended, without blocking, and settles the Work if so.
  virtual void poll() {}
  // Arranges that somebody settles the Work without a call of wait() or poll().
  virtual void watch() {}
  virtual void abort_group() {}

  bool has_ended() const;

 private:
  Call call_;
  uint64_t sequence_ = 0;
  std::atomic<bool> claimed_{false};
  std::mutex future_mutex_;  // a leaf: protects the two below
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  bool has_settled_ = false;
};

// Several Works as one, for coalesced calls.
class CombinedWork : public c10d::Work {
 public:
  CombinedWork(int rank, c10d::OpType type, std::vector<c10::intrusive_ptr<c10d::Work>> parts);

  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  void synchronize() override { wait(); }
  void abort() override;
  std::vector<at::Tensor> result() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const std::vector<c10::intrusive_ptr<c10d::Work>> parts_;
};

// Runs Python's signal handlers if the calling thread is the one that may. Throws what a handler
// raised, KeyboardInterrupt for example.
void run_signal_handlers();

// An exception with |text|, as PyTorch's backends throw.
std::exception_ptr make_failure(const std::string& text);

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_WORK_H_
