// SPDX-License-Identifier: Apache-2.0
#include "work.h"

#include <ATen/record_function.h>
#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace keel_torch {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The longest wait without a look at Python's signals.
constexpr milliseconds kSlice{100};

// The tensors whose shapes profilers show: the caller's, not joined or staged ones. Copied for
// profilers alone.
std::optional<std::vector<at::Tensor>> profiled(const Call& call) {
  if (!at::hasCallbacks()) return std::nullopt;
  const std::vector<at::Tensor>& tensors = call.inputs.empty() ? call.outputs : call.inputs;
  if (tensors.empty()) return std::nullopt;
  if (call.type == c10d::OpType::ALLREDUCE_COALESCED) return call.outputs;
  return std::vector<at::Tensor>{tensors.front()};
}

// A future of |outputs|; one of a keel device makes the streams of its callbacks, and of the
// threads that wait, run after the outputs' work.
c10::intrusive_ptr<c10::ivalue::Future> new_future(const std::vector<at::Tensor>& outputs) {
  std::vector<c10::Device> devices;
  if (!outputs.empty() && !outputs.front().device().is_cpu()) {
    devices.push_back(outputs.front().device());
  }
  return c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()),
                                                  std::move(devices));
}

// Completes |future| with |outputs|, or with the failure that keeps it from that.
void complete(c10::ivalue::Future& future, const std::vector<at::Tensor>& outputs) {
  try {
    future.markCompleted(at::IValue(outputs));
  } catch (...) {
    if (!future.completed()) future.setError(std::current_exception());
  }
}

}  // namespace

void run_signal_handlers() {
  if (!Py_IsInitialized() || PyGILState_GetThisThreadState() == nullptr) return;
  const pybind11::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

std::exception_ptr make_failure(const std::string& text) {
  try {
    C10_THROW_ERROR(DistBackendError, text);
  } catch (...) {
    return std::current_exception();
  }
}

KeelWork::KeelWork(int rank, Call call)
    : Work(rank, call.type, call.title, profiled(call)), call_(std::move(call)) {}

std::string KeelWork::text() const {
  std::string text = "rank " + std::to_string(rank_) + ": " + call_.name() + " (operation " +
                     std::to_string(sequence_);
  const auto& tensors = call_.inputs.empty() ? call_.outputs : call_.inputs;
  if (!tensors.empty()) {
    text += ", " + std::to_string(tensors.front().numel()) + " x " +
            c10::toString(tensors.front().scalar_type());
  }
  return text + ")";
}

void KeelWork::settle(std::exception_ptr failure) {
  if (claimed_.exchange(true)) return;
  if (!failure && call_.finish) {
    try {
      call_.finish();
    } catch (...) {
      failure = std::current_exception();
    }
  }
  call_.finish = nullptr;
  finish(failure);
  c10::intrusive_ptr<c10::ivalue::Future> future;
  {
    std::lock_guard lock(future_mutex_);
    has_settled_ = true;
    future = future_;
  }
  if (!future) return;
  if (failure) {
    future->setError(failure);
  } else {
    complete(*future, call_.outputs);
  }
}

bool KeelWork::has_ended() const {
  std::lock_guard lock(mutex_);
  return completed_;
}

void KeelWork::wait_slice(milliseconds slice) {
  std::unique_lock lock(mutex_);
  cv_.wait_for(lock, slice, [this] { return completed_; });
}

bool KeelWork::wait(milliseconds timeout) {
  const auto end = steady_clock::now() + timeout;
  while (!has_ended()) {
    milliseconds slice = kSlice;
    if (timeout > kNoTimeout) {
      const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
      if (left <= milliseconds(0)) {
        std::rethrow_exception(
            make_failure("keel: " + text() + ": Operation timed out: the wait of " +
                         std::to_string(timeout.count()) + " ms ran out; the operation goes on"));
      }
      slice = std::min(slice, left);
    }
    wait_slice(slice);
    if (!has_ended()) run_signal_handlers();
  }
  if (const std::exception_ptr failure = exception()) std::rethrow_exception(failure);
  return true;
}

bool KeelWork::isCompleted() {
  if (!has_ended()) poll();
  return has_ended();
}

bool KeelWork::isSuccess() const {
  std::lock_guard lock(mutex_);
  return completed_ && !exception_;
}

void KeelWork::abort() {
  abort_group();
}

c10::intrusive_ptr<c10::ivalue::Future> KeelWork::getFuture() {
  {
    std::lock_guard lock(future_mutex_);
    if (future_) return future_;
    future_ = new_future(call_.outputs);
    if (!has_settled_) {
      watch();
      return future_;
    }
  }
  if (const std::exception_ptr failure = exception()) {
    future_->setError(failure);
  } else {
    complete(*future_, call_.outputs);
  }
  return future_;
}

CombinedWork::CombinedWork(int rank, c10d::OpType type,
                           std::vector<c10::intrusive_ptr<c10d::Work>> parts)
    : Work(rank, type), parts_(std::move(parts)) {}

bool CombinedWork::wait(milliseconds timeout) {
  if (timeout <= kNoTimeout) {
    for (const auto& part : parts_) part->wait();
    return true;
  }
  const auto end = steady_clock::now() + timeout;
  for (const auto& part : parts_) {
    const auto left = std::chrono::ceil<milliseconds>(end - steady_clock::now());
    part->wait(std::max(left, milliseconds(1)));  // 0 would be no deadline
  }
  return true;
}

bool CombinedWork::isCompleted() {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->isCompleted(); });
}

bool CombinedWork::isSuccess() const {
  return std::all_of(parts_.begin(), parts_.end(),
                     [](const auto& part) { return part->isSuccess(); });
}

std::exception_ptr CombinedWork::exception() const {
  for (const auto& part : parts_) {
    if (const std::exception_ptr failure = part->exception()) return failure;
  }
  return nullptr;
}

void CombinedWork::abort() {
  for (const auto& part : parts_) part->abort();
}

std::vector<at::Tensor> CombinedWork::result() {
  std::vector<at::Tensor> all;
  for (const auto& part : parts_) {
    const std::vector<at::Tensor> some = part->result();
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

c10::intrusive_ptr<c10::ivalue::Future> CombinedWork::getFuture() {
  c10::List<c10::intrusive_ptr<c10::ivalue::Future>> futures(
      c10::FutureType::create(c10::ListType::create(c10::TensorType::get())));
  for (const auto& part : parts_) futures.push_back(part->getFuture());
  return c10::collectAll(futures)->then(
      [tensors = result()](c10::ivalue::Future& all) {
        all.value();  // throws a part's failure
        return at::IValue(tensors);
      },
      c10::ListType::create(c10::TensorType::get()));
}

}  // namespace keel_torch
