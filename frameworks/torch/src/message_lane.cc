// SPDX-License-Identifier: Apache-2.0
#include "message_lane.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "device/devices.h"
#include "runtime.h"
#include "tensors.h"

namespace keel_torch {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::steady_clock;

// The longest wait for a message without a look whether the group has ended.
constexpr nanoseconds kLook = milliseconds(100);

std::string what_of(const std::exception& error) {
  const auto* const own = dynamic_cast<const c10::Error*>(&error);
  return own != nullptr ? own->what_without_backtrace() : error.what();
}

std::exception_ptr wrong_size(const KeelWork& work, const at::Tensor& tensor, uint64_t bytes) {
  return make_failure("keel: " + work.text() + " failed: the message has " + std::to_string(bytes) +
                      " bytes, the tensor " + std::to_string(tensor.nbytes()));
}

}  // namespace

// Marks the work that the calling thread's current stream of |device| holds.
class MessageLane::CallerEvent {
 public:
  explicit CallerEvent(c10::Device device) {
    check(keel_event_create(0, &handle_), "creating an event");
    const keel_status status = keel_event_record(handle_, device::stream_of(device.index()));
    if (status != KEEL_OK) (void)keel_event_destroy(handle_);
    check(status, "recording an event of the caller's stream");
  }
  ~CallerEvent() { (void)keel_event_destroy(handle_); }
  CallerEvent(const CallerEvent&) = delete;
  CallerEvent& operator=(const CallerEvent&) = delete;

  keel_event handle() const { return handle_; }

 private:
  keel_event handle_{};
};

MessageLane::MessageLane(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<const Lane> group,
                         c10::Device device, const Ends& ends, milliseconds timeout)
    : store_(std::move(store)),
      group_(std::move(group)),
      device_(device),
      ends_(ends),
      sender_(ends.sends ? ends.rank : ends.peer),
      receiver_(ends.sends ? ends.peer : ends.rank),
      key_("keel/messages/" + std::to_string(sender_) + "/" + std::to_string(receiver_) +
           (device.is_cpu() ? "" : "/device")),
      timeout_(timeout) {}

void MessageLane::start() {
  thread_ = std::thread([self = shared_from_this()] { self->work_off(); });
}

void MessageLane::add(c10::intrusive_ptr<KeelWork> work, at::Tensor tensor, int64_t tag) {
  Request request{std::move(work), std::move(tensor), tag, nullptr};
  if (!device_.is_cpu()) request.event = std::make_shared<CallerEvent>(device_);
  at::Tensor bytes;
  {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) {
      C10_THROW_ERROR(DistBackendError, "keel: " + request.work->text() + ": " + failure_);
    }
    const auto kept = std::find_if(kept_.begin(), kept_.end(),
                                   [&](const Message& message) { return message.tag == tag; });
    if (kept == kept_.end()) {
      requests_.push_back(std::move(request));
      changed_.notify_all();
      return;
    }
    bytes = std::move(kept->bytes);
    kept_.erase(kept);
  }
  // The lane's thread may be waiting for the message of another tag.
  deliver(request, bytes);
}

void MessageLane::set_timeout(milliseconds timeout) {
  std::lock_guard lock(mutex_);
  timeout_ = timeout;
}

void MessageLane::close(steady_clock::time_point deadline) {
  if (!thread_.joinable()) return;
  if (Runtime::get().is_forked()) return thread_.detach();
  const bool is_own_thread = thread_.get_id() == std::this_thread::get_id();
  {
    std::unique_lock lock(mutex_);
    if (is_own_thread) {
      is_idle_ = true;  // in a callback of a message that is done, and ends the group
    } else {
      changed_.wait_until(lock, deadline, [this] { return is_idle_ && requests_.empty(); });
    }
  }
  stop("the process group has ended");
  if (is_own_thread) {
    thread_.detach();
  } else {
    thread_.join();
  }
}

void MessageLane::stop(const std::string& reason) {
  keel_comm comm{};
  {
    std::lock_guard lock(mutex_);
    if (failure_.empty()) failure_ = reason;
    // A lane without a message in flight leaves: the peer may still be finishing the last one.
    if (!is_idle_) comm = comm_;
  }
  changed_.notify_all();
  if (comm.id != 0) (void)keel_comm_abort(comm);
}

void MessageLane::work_off() {
  try {
    while (true) {
      {
        std::unique_lock lock(mutex_);
        is_idle_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !requests_.empty() || !failure_.empty(); });
        if (!failure_.empty()) break;
        is_idle_ = false;
      }
      if (comm_.id == 0) connect();
      apply_timeout();
      if (ends_.sends) {
        send_first();
      } else {
        receive();
      }
    }
  } catch (const std::exception& error) {
    {
      std::lock_guard lock(mutex_);
      if (failure_.empty()) failure_ = what_of(error);
    }
    if (comm_.id != 0) (void)keel_comm_abort(comm_);
  }
  fail_all();
  if (comm_.id != 0) (void)keel_comm_destroy(comm_);
  if (header_ != nullptr) (void)keel_free(keel_device_of(device_), header_);
  stream_.reset();
}

void MessageLane::fail_all() {
  std::deque<Request> requests;
  std::list<Message> kept;
  std::string failure;
  {
    std::lock_guard lock(mutex_);
    requests.swap(requests_);
    kept.swap(kept_);
    failure = failure_;
  }
  for (const Request& request : requests) {
    request.work->settle(make_failure("keel: " + request.work->text() + " failed: " + failure));
  }
}

void MessageLane::check_peer() const {
  {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(failure_.empty(), failure_);
  }
  const std::string absence = group_->absence(ends_.peer);
  if (absence.empty()) return;
  // A sender that has joined the pair may have sent the message, which Keel buffers, and left. The
  // pair's communicator then ends the wait; for a sender that left before, nothing would.
  bool may_have_sent = false;
  if (!ends_.sends && group_->absence(ends_.rank).empty()) {
    try {
      may_have_sent = store_->check({key_ + "/joined"});
    } catch (const std::exception&) {
      // The rank that serves the store has ended: the absence is the reason.
    }
  }
  TORCH_CHECK(may_have_sent, absence);
}

// Waits for the peer in the store, not in Keel, so that the end of the peer, of the group or of the
// lane ends the wait: the receiver answers the sender's call, and then both join.
void MessageLane::connect() {
  const std::string call = key_ + "/call";
  const std::string answer = key_ + "/answer";
  const auto begin = steady_clock::now();
  milliseconds timeout{};
  store_->set(ends_.sends ? call : answer, std::vector<uint8_t>{1});
  milliseconds pause{1};
  while (!store_->check({ends_.sends ? answer : call})) {
    check_peer();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [this] { return !failure_.empty(); });
    timeout = timeout_;
    TORCH_CHECK(steady_clock::now() - begin < timeout, "timed out after ", timeout.count(),
                " ms: the peer has made no call for the message");
    pause = std::min(2 * pause, milliseconds(50));
  }
  {
    const std::lock_guard lock(mutex_);
    timeout = timeout_;
  }
  const keel_comm comm =
      join(*store_, key_, device_, ends_.sends ? 0 : 1, 2, timeout, [this] { check_peer(); });
  {
    std::lock_guard lock(mutex_);
    comm_ = comm;
    TORCH_CHECK(failure_.empty(), failure_);
  }
  if (ends_.sends) store_->set(key_ + "/joined", std::vector<uint8_t>{1});
  applied_timeout_ = timeout;
  stream_.emplace(device_);
  if (device_.is_cpu()) return;
  stream_->make_current();
  check(keel_alloc(keel_device_of(device_), KEEL_MEMORY_DEVICE, kHeader, &header_),
        "allocating a message's header");
}

void MessageLane::apply_timeout() {
  milliseconds timeout{};
  {
    const std::lock_guard lock(mutex_);
    timeout = timeout_;
  }
  if (timeout == applied_timeout_) return;
  check(keel_comm_timeout_set(comm_, nanoseconds(timeout).count()), "setting a message's timeout");
  applied_timeout_ = timeout;
}

std::string MessageLane::named(const std::string& text) const {
  static constexpr std::string_view kRank = "rank ";
  std::string renamed;
  for (size_t at = 0; at < text.size(); ++at) {
    renamed += text[at];
    if (!renamed.ends_with(kRank) || at + 1 == text.size()) continue;
    const char number = text[at + 1];
    if (number != '0' && number != '1') continue;
    renamed += std::to_string(number == '0' ? sender_ : receiver_);
    ++at;
  }
  return renamed;
}

void MessageLane::fail(keel_status status) const {
  const std::string text = named(failure_text(status));
  const std::string absence = group_->absence(ends_.rank);
  C10_THROW_ERROR(DistBackendError, absence.empty() ? text : absence);
}

// A peer's absence alone ends no wait here: the pair's communicator knows which messages the peer
// has finished.
void MessageLane::synchronize() {
  keel_status status = KEEL_OK;
  while (true) {
    status = keel_stream_synchronize(stream_->handle(), kLook.count());
    // The operation's own deadline, not the wait's, ends the message.
    if (status != KEEL_TIMED_OUT) break;
    status = keel_stream_query(stream_->handle());
    if (status != KEEL_NOT_READY) break;
    const std::string absence = group_->absence(ends_.rank);
    TORCH_CHECK(absence.empty(), absence);
  }
  if (status != KEEL_OK) fail(status);
}

void MessageLane::transfer(void* data, uint64_t bytes) {
  const keel_status status = ends_.sends
                                 ? keel_send(comm_, data, bytes, KEEL_UINT8, 1, stream_->handle())
                                 : keel_recv(comm_, data, bytes, KEEL_UINT8, 0, stream_->handle());
  if (status != KEEL_OK) fail(status);
  synchronize();
}

void MessageLane::transfer_packet() {
  if (device_.is_cpu()) {
    transfer(&packet_, sizeof(packet_));
    return;
  }
  const keel_device own = keel_device_of(device_);
  if (ends_.sends) {
    check(keel_copy(stream_->handle(), own, header_, KEEL_HOST, &packet_, kHeader),
          "copying a message's header");
  }
  transfer(header_, kHeader);
  if (ends_.sends) return;
  check(keel_copy(stream_->handle(), KEEL_HOST, &packet_, own, header_, kHeader),
        "copying a message's header");
  finish_copies();
}

uint64_t MessageLane::first_bytes() const {
  return device_.is_cpu() ? std::min<uint64_t>(packet_.bytes, packet_.data.size()) : 0;
}

keel_stream MessageLane::current_stream() const {
  return device::stream_of(device_.index());
}

void MessageLane::wait_for_caller(const Request& request) const {
  if (!request.event) return;
  check(keel_stream_wait_event(current_stream(), request.event->handle()),
        "waiting for the caller's stream");
}

void MessageLane::finish_copies() const {
  if (device_.is_cpu()) return;
  check(keel_stream_synchronize(current_stream(), KEEL_TIMEOUT_OPERATIONS), "copying a message");
}

void MessageLane::put(const at::Tensor& flat, at::Tensor tensor) const {
  if (flat.is_same(tensor)) return;
  tensor.copy_(flat);
  finish_copies();
}

void MessageLane::deliver(const Request& request, const at::Tensor& bytes) {
  const uint64_t size = bytes.nbytes();
  const bool fits = size == request.tensor.nbytes();
  if (fits && size > 0) {
    wait_for_caller(request);
    const at::Tensor flat = flat_output(request.tensor, device_);
    if (device_.is_cpu()) {
      std::memcpy(flat.data_ptr(), bytes.const_data_ptr(), size);
    } else {
      const keel_device own = keel_device_of(device_);
      check(keel_copy(current_stream(), own, flat.data_ptr(), own, bytes.const_data_ptr(), size),
            "copying a message");
      finish_copies();
    }
    put(flat, request.tensor);
  }
  remove(request.work);
  request.work->settle(fits ? nullptr : wrong_size(*request.work, request.tensor, size));
}

// The first request stays in the queue until it is done, so that fail_all() ends it too.
void MessageLane::send_first() {
  Request request = first();
  wait_for_caller(request);
  packet_ = {request.tag, request.tensor.nbytes(), {}};
  auto* const data = static_cast<char*>(request.tensor.data_ptr());
  std::copy_n(data, first_bytes(), packet_.data.data());
  transfer_packet();
  const uint64_t rest = packet_.bytes - first_bytes();
  if (rest > 0) transfer(data + first_bytes(), rest);
  remove(request.work);
  request.work->settle(nullptr);
}

// Receives the next message, to the first request of its tag.
void MessageLane::receive() {
  transfer_packet();
  std::optional<Request> request;
  {
    const std::lock_guard lock(mutex_);
    request = request_for(packet_.tag);
  }
  const uint64_t rest = packet_.bytes - first_bytes();
  const bool fits = request && request->tensor.nbytes() == packet_.bytes;
  if (fits) wait_for_caller(*request);
  const at::Tensor flat = fits ? flat_output(request->tensor, device_)
                               : at::empty({static_cast<int64_t>(packet_.bytes)},
                                           at::TensorOptions(at::kByte).device(device_));
  auto* const data = static_cast<char*>(flat.data_ptr());
  std::copy_n(packet_.data.data(), first_bytes(), data);
  if (rest > 0) transfer(data + first_bytes(), rest);
  if (fits) {
    put(flat, request->tensor);
    remove(request->work);
    request->work->settle(nullptr);
    return;
  }
  if (!request) {
    const std::lock_guard lock(mutex_);
    request = request_for(packet_.tag);  // made during the transfer
    if (!request) kept_.push_back({packet_.tag, flat});
  }
  if (request) deliver(*request, flat);
}

MessageLane::Request MessageLane::first() const {
  std::lock_guard lock(mutex_);
  return requests_.front();
}

std::optional<MessageLane::Request> MessageLane::request_for(int64_t tag) const {
  for (const Request& request : requests_) {
    if (request.tag == tag) return request;
  }
  return std::nullopt;
}

void MessageLane::remove(const c10::intrusive_ptr<KeelWork>& work) {
  std::lock_guard lock(mutex_);
  const auto found = std::find_if(requests_.begin(), requests_.end(),
                                  [&](const Request& request) { return request.work == work; });
  if (found != requests_.end()) requests_.erase(found);
}

}  // namespace keel_torch
