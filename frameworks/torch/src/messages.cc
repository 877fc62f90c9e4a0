// SPDX-License-Identifier: Apache-2.0
#include "messages.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <optional>
#include <utility>

namespace keel_torch {

using std::chrono::milliseconds;

namespace {

// The time that a rank which leaves gives its messages in flight.
constexpr milliseconds kLeave{2000};

}  // namespace

Messages::Messages(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<const Lane> group,
                   int rank, milliseconds timeout)
    : store_(std::move(store)), group_(std::move(group)), rank_(rank), timeout_(timeout) {}

Messages::~Messages() {
  close();
}

std::shared_ptr<MessageLane> Messages::lane(int peer, bool sends, c10::Device device) {
  TORCH_CHECK(peer != rank_, "keel: rank ", rank_, " cannot send to itself, nor receive");
  TORCH_CHECK(!is_closed_, "keel: the process group has ended");
  const std::tuple key{peer, sends, !device.is_cpu()};
  auto found = lanes_.find(key);
  if (found == lanes_.end()) {
    auto made = std::make_shared<MessageLane>(store_, group_, device,
                                              MessageLane::Ends{rank_, peer, sends}, timeout_);
    made->start();
    found = lanes_.emplace(key, std::move(made)).first;
  }
  const std::shared_ptr<MessageLane>& lane = found->second;
  TORCH_CHECK(lane->device() == device, "keel: a message of ", device, "; this rank's messages ",
              sends ? "to" : "from", " rank ", peer, " are of ", lane->device());
  return lane;
}

c10::intrusive_ptr<KeelWork> Messages::send(const at::Tensor& tensor, int peer, int tag) {
  std::unique_lock lock(mutex_);
  auto work = c10::make_intrusive<KeelWork>(
      rank_, Call{c10d::OpType::SEND, "keel:send", {tensor}, {tensor}, timeout_, nullptr});
  work->set_sequence(++sequence_);
  const std::shared_ptr<MessageLane> to = lane(peer, /*sends=*/true, tensor.device());
  lock.unlock();
  to->add(work, tensor, tag);
  return work;
}

c10::intrusive_ptr<KeelWork> Messages::receive(const at::Tensor& tensor, int peer, int tag) {
  std::unique_lock lock(mutex_);
  auto work = c10::make_intrusive<KeelWork>(
      rank_, Call{c10d::OpType::RECV, "keel:recv", {}, {tensor}, timeout_, nullptr});
  work->set_sequence(++sequence_);
  const std::shared_ptr<MessageLane> from = lane(peer, /*sends=*/false, tensor.device());
  lock.unlock();
  from->add(work, tensor, tag);
  return work;
}

void Messages::set_timeout(milliseconds timeout) {
  std::lock_guard lock(mutex_);
  timeout_ = timeout;
  for (const auto& [key, lane] : lanes_) lane->set_timeout(timeout);
}

void Messages::abort() {
  std::lock_guard lock(mutex_);
  for (const auto& [key, lane] : lanes_) lane->abort();
}

void Messages::close() {
  decltype(lanes_) lanes;
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
    lanes.swap(lanes_);
  }
  if (lanes.empty()) return;
  // Callbacks of futures may need Python's lock, which the caller may hold.
  std::optional<pybind11::gil_scoped_release> without_gil;
  if (Py_IsInitialized() && PyGILState_Check()) without_gil.emplace();
  const auto deadline = std::chrono::steady_clock::now() + kLeave;
  for (const auto& [key, lane] : lanes) lane->close(deadline);
}

}  // namespace keel_torch
