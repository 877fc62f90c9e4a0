// SPDX-License-Identifier: Apache-2.0
// The messages in one direction between two ranks.
#ifndef FRAMEWORKS_TORCH_SRC_MESSAGE_LANE_H_
#define FRAMEWORKS_TORCH_SRC_MESSAGE_LANE_H_

#include <c10/core/Device.h>
#include <keel/keel.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "lane.h"
#include "lane_stream.h"
#include "work.h"

namespace keel_torch {

// A communicator of the two ranks, created with the first message, and a thread that runs the
// messages one after the other. Thread-safe.
class MessageLane : public std::enable_shared_from_this<MessageLane> {
 public:
  // Rank |rank| sends to |peer|, or receives from |peer|.
  struct Ends {
    int rank;
    int peer;
    bool sends;
  };

  // |device|: of the tensors. |group|: the communicator of all ranks, whose end is this lane's.
  MessageLane(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<const Lane> group,
              c10::Device device, const Ends& ends, std::chrono::milliseconds timeout);
  // Starts the thread, which keeps the lane until close() ends it. Call once, before all below.
  void start();

  c10::Device device() const { return device_; }

  // Queues a message. |work| ends with it, or ends within the call if the message has come already.
  // Throws c10::DistBackendError if the lane is over.
  void add(c10::intrusive_ptr<KeelWork> work, at::Tensor tensor, int64_t tag);

  // Sets the deadline of messages that begin later.
  void set_timeout(std::chrono::milliseconds timeout);
  // Fails all messages in flight and all later ones.
  void abort() { stop("the process group was aborted"); }
  // As abort(), once messages in flight are done or |deadline| has passed; ends the thread.
  void close(std::chrono::steady_clock::time_point deadline);

 private:
  // The first part of a message, of one size, as the receiver does not know the message's.
  struct Packet {
    int64_t tag;
    uint64_t bytes;               // of the message
    std::array<char, 1008> data;  // of messages of the CPU's memory alone
  };
  // Bytes of a packet that a device sends.
  static constexpr uint64_t kHeader = offsetof(Packet, data);

  class CallerEvent;
  struct Request {
    c10::intrusive_ptr<KeelWork> work;
    at::Tensor tensor;
    int64_t tag;
    std::shared_ptr<CallerEvent> event;  // of the work that the message comes after; may be null
  };
  // A message that nobody has asked for yet.
  struct Message {
    int64_t tag;
    at::Tensor bytes;
  };

  void stop(const std::string& reason);
  // The thread: runs messages until the lane is over, then fails those that are left.
  void work_off();
  void fail_all();
  // Throws if the lane is over, or the group, or the peer unless it may have sent the message.
  void check_peer() const;
  void connect();
  void apply_timeout();

  // Keel's text, with the numbers that the pair's ranks have in the group.
  std::string named(const std::string& text) const;
  // Throws why a message failed: the group's failure if there is one, of which the pair's is a
  // consequence.
  [[noreturn]] void fail(keel_status status) const;

  void transfer(void* data, uint64_t bytes);
  void synchronize();
  // Sends |packet_| or receives it. A device's header goes through the device's memory.
  void transfer_packet();
  uint64_t first_bytes() const;
  void send_first();
  void receive();

  // On any thread, by its current stream of the device:
  keel_stream current_stream() const;
  void wait_for_caller(const Request& request) const;
  // Waits for copies alone.
  void finish_copies() const;
  // Copies |flat| to |tensor| unless it is the tensor's own memory.
  void put(const at::Tensor& flat, at::Tensor tensor) const;
  // Ends |request| with the message |bytes|.
  void deliver(const Request& request, const at::Tensor& bytes);

  Request first() const;
  std::optional<Request> request_for(int64_t tag) const;  // with |mutex_| held
  void remove(const c10::intrusive_ptr<KeelWork>& work);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::shared_ptr<const Lane> group_;
  const c10::Device device_;
  const Ends ends_;
  const int sender_;  // ranks of the group
  const int receiver_;
  const std::string key_;

  mutable std::mutex mutex_;  // protects all down to |comm_|
  std::condition_variable changed_;
  std::chrono::milliseconds timeout_;
  std::deque<Request> requests_;
  // No request has the tag of one of these: add() and receive() bring them together.
  std::list<Message> kept_;
  std::string failure_;  // why the lane is over; empty while it is not
  bool is_idle_ = false;
  keel_comm comm_{};  // written by the thread alone

  // The thread alone uses the four below.
  std::chrono::milliseconds applied_timeout_{};
  std::optional<LaneStream> stream_;
  void* header_ = nullptr;  // memory of a keel device, for |packet_|
  Packet packet_{};

  std::thread thread_;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_MESSAGE_LANE_H_
