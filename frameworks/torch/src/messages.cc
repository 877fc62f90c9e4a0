// SPDX-License-Identifier: Apache-2.0
#include "messages.h"

#include <Python.h>
#include <c10/util/Exception.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "lane.h"
#include "runtime.h"
#include "tensors.h"

namespace keel_torch {

namespace {

using std::chrono::milliseconds;

// The first part of a message, of one size, as the receiver does not know the message's.
struct Packet {
  int64_t tag;
  uint64_t bytes;  // of the message
  std::array<char, 1008> data;

  uint64_t first_bytes() const { return std::min<uint64_t>(bytes, data.size()); }
};

struct Message {
  int64_t tag;
  std::vector<char> data;
};

// The time that a rank which leaves gives its messages in flight.
constexpr milliseconds kLeave{2000};

}  // namespace

// The messages from one rank to another. The thread runs them one after the other.
class MessageLane {
 public:
  MessageLane(c10::intrusive_ptr<c10d::Store> store, int rank, int peer, bool sends,
              milliseconds timeout)
      : store_(std::move(store)),
        sends_(sends),
        sender_(sends ? rank : peer),
        receiver_(sends ? peer : rank),
        key_("keel/messages/" + std::to_string(sender_) + "/" + std::to_string(receiver_)),
        timeout_(timeout),
        thread_([this] { work_off(); }) {}
  ~MessageLane() { close(); }

  void add(c10::intrusive_ptr<KeelWork> work, at::Tensor tensor, int64_t tag) {
    std::lock_guard lock(mutex_);
    if (!failure_.empty()) {
      C10_THROW_ERROR(DistBackendError, "keel: " + work->text() + ": " + failure_);
    }
    requests_.push_back({std::move(work), std::move(tensor), tag});
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
    if (stream_.id != 0) (void)keel_stream_destroy(stream_);
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
    const keel_comm comm = join(*store_, key_, sends_ ? 0 : 1, 2, timeout_);
    {
      std::lock_guard lock(mutex_);
      comm_ = comm;
      TORCH_CHECK(failure_.empty(), failure_);
    }
    check(keel_stream_create(Runtime::get().device(), 0, &stream_), "creating a stream");
  }

  void synchronize() {
    keel_status status;
    do {
      status = keel_stream_synchronize(stream_, 1'000'000'000);
      // The operation's own deadline, not the wait's, ends the message.
    } while (status == KEEL_TIMED_OUT && keel_stream_query(stream_) == KEEL_NOT_READY);
    if (status == KEEL_TIMED_OUT) status = keel_stream_query(stream_);
    TORCH_CHECK(status == KEEL_OK, named(failure_text(status)));
  }

  void transfer(void* data, uint64_t bytes) {
    const keel_status status = sends_ ? keel_send(comm_, data, bytes, KEEL_UINT8, 1, stream_)
                                      : keel_recv(comm_, data, bytes, KEEL_UINT8, 0, stream_);
    TORCH_CHECK(status == KEEL_OK, named(failure_text(status)));
    synchronize();
  }

  // The first request stays in the queue until it is done, so that fail_all() ends it too.
  void send_first() {
    Request request = first();
    packet_ = {request.tag, request.tensor.nbytes(), {}};
    const char* const data = static_cast<const char*>(request.tensor.const_data_ptr());
    std::copy_n(data, packet_.first_bytes(), packet_.data.data());
    transfer(&packet_, sizeof(packet_));
    const uint64_t rest = packet_.bytes - packet_.first_bytes();
    if (rest > 0) transfer(const_cast<char*>(data) + packet_.first_bytes(), rest);
    remove(request.work);
    request.work->settle(nullptr);
  }

  void receive_first() {
    if (const Request request = first(); deliver_kept(request)) return;
    transfer(&packet_, sizeof(packet_));
    std::optional<Request> request = request_for(packet_.tag);
    const uint64_t first_bytes = packet_.first_bytes();
    const uint64_t rest = packet_.bytes - first_bytes;
    const bool fits = request && request->tensor.nbytes() == packet_.bytes;
    const at::Tensor flat = fits ? flat_output(request->tensor) : at::Tensor();
    std::vector<char> kept(fits ? 0 : packet_.bytes);
    char* const data = fits ? static_cast<char*>(flat.data_ptr()) : kept.data();
    std::copy_n(packet_.data.data(), first_bytes, data);
    if (rest > 0) transfer(data + first_bytes, rest);
    if (!request) {
      kept_.push_back({packet_.tag, std::move(kept)});
      return;
    }
    remove(request->work);
    if (fits && !flat.is_same(request->tensor)) request->tensor.copy_(flat);
    request->work->settle(fits ? nullptr : wrong_size(*request, packet_.bytes));
  }

  // Ends |request| with a message that came before it was asked for, if there is one.
  bool deliver_kept(const Request& request) {
    const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Message& message) {
      return message.tag == request.tag;
    });
    if (kept == kept_.end()) return false;
    const bool fits = kept->data.size() == request.tensor.nbytes();
    if (fits && !kept->data.empty()) {
      const at::Tensor flat = flat_output(request.tensor);
      std::copy(kept->data.begin(), kept->data.end(), static_cast<char*>(flat.data_ptr()));
      if (!flat.is_same(request.tensor)) request.tensor.copy_(flat);
    }
    const uint64_t bytes = kept->data.size();
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

  // The thread alone uses the three below.
  keel_stream stream_{};
  Packet packet_{};
  std::list<Message> kept_;  // messages that nobody has asked for yet

  std::thread thread_;  // last: uses all above
};

Messages::Messages(c10::intrusive_ptr<c10d::Store> store, int rank, milliseconds timeout)
    : store_(std::move(store)), rank_(rank), timeout_(timeout) {}

Messages::~Messages() {
  close();
}

MessageLane& Messages::lane(int peer, bool sends) {
  TORCH_CHECK(peer != rank_, "keel: rank ", rank_, " cannot send to itself, nor receive");
  TORCH_CHECK(!is_closed_, "keel: the process group has ended");
  std::shared_ptr<MessageLane>& lane = lanes_[{peer, sends}];
  if (!lane) lane = std::make_shared<MessageLane>(store_, rank_, peer, sends, timeout_);
  return *lane;
}

c10::intrusive_ptr<KeelWork> Messages::send(const at::Tensor& tensor, int peer, int tag) {
  std::lock_guard lock(mutex_);
  auto work = c10::make_intrusive<KeelWork>(
      rank_, Call{c10d::OpType::SEND, "keel:send", {tensor}, {tensor}, timeout_, nullptr});
  work->set_sequence(++sequence_);
  lane(peer, /*sends=*/true).add(work, tensor, tag);
  return work;
}

c10::intrusive_ptr<KeelWork> Messages::receive(const at::Tensor& tensor, int peer, int tag) {
  std::lock_guard lock(mutex_);
  auto work = c10::make_intrusive<KeelWork>(
      rank_, Call{c10d::OpType::RECV, "keel:recv", {}, {tensor}, timeout_, nullptr});
  work->set_sequence(++sequence_);
  lane(peer, /*sends=*/false).add(work, tensor, tag);
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
  std::map<std::pair<int, bool>, std::shared_ptr<MessageLane>> lanes;
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
