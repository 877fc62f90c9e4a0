// SPDX-License-Identifier: Apache-2.0
#include "messages.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "device/devices.h"
#include "lane.h"
#include "lane_stream.h"
#include "runtime.h"
#include "tensors.h"

namespace keel_torch {

namespace {

using std::chrono::milliseconds;

// The first part of a message, of one size, as the receiver does not know the message's.
struct Packet {
  int64_t tag;
  uint64_t bytes;               // of the message
  std::array<char, 1008> data;  // of messages of the CPU's memory alone
};

// Bytes of a packet that a device sends.
constexpr uint64_t kHeader = offsetof(Packet, data);

struct Message {
  int64_t tag;
  at::Tensor bytes;
};

// The time that a rank which leaves gives its messages in flight.
constexpr milliseconds kLeave{2000};

}  // namespace

// Marks the work that the calling thread's current stream of |device| holds.
class CallerEvent {
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

// The messages from one rank to another. The thread runs them one after the other.
class MessageLane {
 public:
  MessageLane(c10::intrusive_ptr<c10d::Store> store, c10::Device device, int rank, int peer,
              bool sends, milliseconds timeout)
      : store_(std::move(store)),
        device_(device),
        sends_(sends),
        sender_(sends ? rank : peer),
        receiver_(sends ? peer : rank),
        key_("keel/messages/" + std::to_string(sender_) + "/" + std::to_string(receiver_) +
             (device.is_cpu() ? "" : "/device")),
        timeout_(timeout),
        thread_([this] { work_off(); }) {}
  ~MessageLane() { close(); }

  c10::Device device() const { return device_; }

  void add(c10::intrusive_ptr<KeelWork> work, at::Tensor tensor, int64_t tag) {
    std::shared_ptr<CallerEvent> event;
    if (!device_.is_cpu()) event = std::make_shared<CallerEvent>(device_);
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) {
      C10_THROW_ERROR(DistBackendError, "keel: " + work->text() + ": " + failure_);
    }
    requests_.push_back({std::move(work), std::move(tensor), tag, std::move(event)});
    changed_.notify_all();
  }

  void abort() { stop("the process group was aborted"); }

  void close() {
    if (Runtime::get().is_forked()) {
      if (thread_.joinable()) thread_.detach();
      return;
    }
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kLeave, [this] { return is_idle_ && requests_.empty(); });
    }
    stop("the process group has ended");
    if (!thread_.joinable()) return;
    if (thread_.get_id() == std::this_thread::get_id()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

 private:
  struct Request {
    c10::intrusive_ptr<KeelWork> work;
    at::Tensor tensor;
    int64_t tag;
    std::shared_ptr<CallerEvent> event;  // of the work that the message comes after; may be null
  };

  void stop(const std::string& reason) {
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

  void work_off() {
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
        if (sends_) {
          send_first();
        } else {
          receive_first();
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
    kept_.clear();
    stream_.reset();
  }

  // Keel's text, with the numbers that the pair's ranks have in the group.
  std::string named(const std::string& text) const {
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

  static std::string what_of(const std::exception& error) {
    const auto* const own = dynamic_cast<const c10::Error*>(&error);
    return own != nullptr ? own->what_without_backtrace() : error.what();
  }

  void fail_all() {
    std::deque<Request> requests;
    std::string failure;
    {
      std::lock_guard lock(mutex_);
      requests.swap(requests_);
      failure = failure_;
    }
    for (const Request& request : requests) {
      request.work->settle(make_failure("keel: " + request.work->text() + " failed: " + failure));
    }
  }

  // Waits for the peer in the store, not in Keel, so that stop() can end the wait: the receiver
  // answers the sender's id, and then both join.
  void connect() {
    const std::string answer = key_ + "/answer";
    const auto end = std::chrono::steady_clock::now() + timeout_;
    if (sends_) {
      store_->set(key_ + "/call", std::vector<uint8_t>{1});
    } else {
      store_->set(answer, std::vector<uint8_t>{1});
    }
    milliseconds pause{1};
    while (!store_->check({sends_ ? answer : key_ + "/call"})) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, pause, [this] { return !failure_.empty(); });
      TORCH_CHECK(failure_.empty(), failure_);
      TORCH_CHECK(std::chrono::steady_clock::now() < end, "timed out after ", timeout_.count(),
                  " ms: the peer has made no call for the message");
      pause = std::min(2 * pause, milliseconds(50));
    }
    const keel_comm comm = join(*store_, key_, device_, sends_ ? 0 : 1, 2, timeout_, [this] {
      const std::lock_guard lock(mutex_);
      TORCH_CHECK(failure_.empty(), failure_);
    });
    {
      std::lock_guard lock(mutex_);
      comm_ = comm;
      TORCH_CHECK(failure_.empty(), failure_);
    }
    stream_.emplace(device_);
    if (device_.is_cpu()) return;
    stream_->make_current();
    check(keel_alloc(keel_device_of(device_), KEEL_MEMORY_DEVICE, kHeader, &header_),
          "allocating a message's header");
  }

  void synchronize() {
    keel_status status;
    do {
      status = keel_stream_synchronize(stream_->handle(), 1'000'000'000);
      // The operation's own deadline, not the wait's, ends the message.
    } while (status == KEEL_TIMED_OUT && keel_stream_query(stream_->handle()) == KEEL_NOT_READY);
    if (status == KEEL_TIMED_OUT) status = keel_stream_query(stream_->handle());
    TORCH_CHECK(status == KEEL_OK, named(failure_text(status)));
  }

  void transfer(void* data, uint64_t bytes) {
    const keel_status status =
        sends_ ? keel_send(comm_, data, bytes, KEEL_UINT8, 1, stream_->handle())
               : keel_recv(comm_, data, bytes, KEEL_UINT8, 0, stream_->handle());
    TORCH_CHECK(status == KEEL_OK, named(failure_text(status)));
    synchronize();
  }

  // Copies memory of the lane's device, on the lane's stream.
  void copy(void* destination, const void* source, uint64_t bytes) {
    if (bytes == 0) return;
    if (device_.is_cpu()) {
      std::memcpy(destination, source, bytes);
      return;
    }
    const keel_device own = keel_device_of(device_);
    check(keel_copy(stream_->handle(), own, destination, own, source, bytes), "copying a message");
  }

  // Sends |packet_| or receives it. A device's header goes through the device's memory.
  void transfer_packet() {
    if (device_.is_cpu()) {
      transfer(&packet_, sizeof(packet_));
      return;
    }
    const keel_device own = keel_device_of(device_);
    if (sends_) {
      check(keel_copy(stream_->handle(), own, header_, KEEL_HOST, &packet_, kHeader),
            "copying a message's header");
    }
    transfer(header_, kHeader);
    if (sends_) return;
    check(keel_copy(stream_->handle(), KEEL_HOST, &packet_, own, header_, kHeader),
          "copying a message's header");
    synchronize();
  }

  uint64_t first_bytes() const {
    return device_.is_cpu() ? std::min<uint64_t>(packet_.bytes, packet_.data.size()) : 0;
  }

  void wait_for_caller(const Request& request) {
    if (!request.event) return;
    check(keel_stream_wait_event(stream_->handle(), request.event->handle()),
          "waiting for the caller's stream");
  }

  // The first request stays in the queue until it is done, so that fail_all() ends it too.
  void send_first() {
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

  void receive_first() {
    if (const Request request = first(); deliver_kept(request)) return;
    transfer_packet();
    std::optional<Request> request = request_for(packet_.tag);
    const uint64_t rest = packet_.bytes - first_bytes();
    const bool fits = request && request->tensor.nbytes() == packet_.bytes;
    if (fits) wait_for_caller(*request);
    const at::Tensor flat = fits ? flat_output(request->tensor, device_)
                                 : at::empty({static_cast<int64_t>(packet_.bytes)},
                                             at::TensorOptions(at::kByte).device(device_));
    auto* const data = static_cast<char*>(flat.data_ptr());
    std::copy_n(packet_.data.data(), first_bytes(), data);
    if (rest > 0) transfer(data + first_bytes(), rest);
    if (!request) {
      kept_.push_back({packet_.tag, flat});
      return;
    }
    remove(request->work);
    if (fits) put(flat, request->tensor);
    request->work->settle(fits ? nullptr : wrong_size(*request, packet_.bytes));
  }

  // Copies |flat| to |tensor| unless it is the tensor's own memory. Waits.
  void put(const at::Tensor& flat, at::Tensor tensor) {
    if (flat.is_same(tensor)) return;
    tensor.copy_(flat);
    if (!device_.is_cpu()) synchronize();
  }

  // Ends |request| with a message that came before it was asked for, if there is one.
  bool deliver_kept(const Request& request) {
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Message& message) {
      return message.tag == request.tag;
    });
    if (kept == kept_.end()) return false;
    const uint64_t bytes = kept->bytes.nbytes();
    const bool fits = bytes == request.tensor.nbytes();
    if (fits && bytes > 0) {
      wait_for_caller(request);
      const at::Tensor flat = flat_output(request.tensor, device_);
      copy(flat.data_ptr(), kept->bytes.const_data_ptr(), bytes);
      put(flat, request.tensor);
      if (!device_.is_cpu()) synchronize();
    }
    kept_.erase(kept);
    remove(request.work);
    request.work->settle(fits ? nullptr : wrong_size(request, bytes));
    return true;
  }

  static std::exception_ptr wrong_size(const Request& request, uint64_t bytes) {
    return make_failure("keel: " + request.work->text() + " failed: the message has " +
                        std::to_string(bytes) + " bytes, the tensor " +
                        std::to_string(request.tensor.nbytes()));
  }

  Request first() {
    std::lock_guard lock(mutex_);
    return requests_.front();
  }

  std::optional<Request> request_for(int64_t tag) {
    std::lock_guard lock(mutex_);
    for (const Request& request : requests_) {
      if (request.tag == tag) return request;
    }
    return std::nullopt;
  }

  void remove(const c10::intrusive_ptr<KeelWork>& work) {
    std::lock_guard lock(mutex_);
    const auto found = std::find_if(requests_.begin(), requests_.end(),
                                    [&](const Request& request) { return request.work == work; });
    if (found != requests_.end()) requests_.erase(found);
  }

  const c10::intrusive_ptr<c10d::Store> store_;
  const c10::Device device_;
  const bool sends_;
  const int sender_;  // ranks of the group
  const int receiver_;
  const std::string key_;
  const milliseconds timeout_;

  std::mutex mutex_;  // protects the five below
  std::condition_variable changed_;
  std::deque<Request> requests_;
  std::string failure_;  // why the lane is over; empty while it is not
  bool is_idle_ = false;
  keel_comm comm_{};  // written by the thread alone

  // The thread alone uses the four below.
  std::optional<LaneStream> stream_;
  void* header_ = nullptr;  // memory of a keel device, for |packet_|
  Packet packet_{};
  std::list<Message> kept_;  // messages that nobody has asked for yet

  std::thread thread_;  // last: uses all above
};

Messages::Messages(c10::intrusive_ptr<c10d::Store> store, int rank, milliseconds timeout)
    : store_(std::move(store)), rank_(rank), timeout_(timeout) {}

Messages::~Messages() {
  close();
}

MessageLane& Messages::lane(int peer, bool sends, c10::Device device) {
  TORCH_CHECK(peer != rank_, "keel: rank ", rank_, " cannot send to itself, nor receive");
  TORCH_CHECK(!is_closed_, "keel: the process group has ended");
  std::shared_ptr<MessageLane>& lane = lanes_[{peer, sends, !device.is_cpu()}];
  if (!lane) lane = std::make_shared<MessageLane>(store_, device, rank_, peer, sends, timeout_);
  TORCH_CHECK(lane->device() == device, "keel: a message of ", device, "; this rank's messages ",
              sends ? "to" : "from", " rank ", peer, " are of ", lane->device());
  return *lane;
}

c10::intrusive_ptr<KeelWork> Messages::send(const at::Tensor& tensor, int peer, int tag) {
  std::lock_guard lock(mutex_);
  auto work = c10::make_intrusive<KeelWork>(
      rank_, Call{c10d::OpType::SEND, "keel:send", {tensor}, {tensor}, timeout_, nullptr});
  work->set_sequence(++sequence_);
  lane(peer, /*sends=*/true, tensor.device()).add(work, tensor, tag);
  return work;
}

c10::intrusive_ptr<KeelWork> Messages::receive(const at::Tensor& tensor, int peer, int tag) {
  std::lock_guard lock(mutex_);
  auto work = c10::make_intrusive<KeelWork>(
      rank_, Call{c10d::OpType::RECV, "keel:recv", {}, {tensor}, timeout_, nullptr});
  work->set_sequence(++sequence_);
  lane(peer, /*sends=*/false, tensor.device()).add(work, tensor, tag);
  return work;
}

void Messages::set_timeout(milliseconds timeout) {
  std::lock_guard lock(mutex_);
  timeout_ = timeout;
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
  for (const auto& [key, lane] : lanes) lane->close();
}

}  // namespace keel_torch
