// SPDX-License-Identifier: Apache-2.0
// Sends and receives with tags, over communicators of two ranks.
#ifndef FRAMEWORKS_TORCH_SRC_MESSAGES_H_
#define FRAMEWORKS_TORCH_SRC_MESSAGES_H_

#include <c10/core/Device.h>

#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <tuple>

#include "lane.h"
#include "message_lane.h"
#include "work.h"

namespace keel_torch {

// The messages of one rank. The first message in each direction between two ranks creates a
// communicator and a thread for that direction, and the first message of keel tensors another one
// of the ranks' keel devices: keel.h matches messages by order alone and runs the
// messages of one communicator one after the other, while PyTorch's programs send before they
// receive on both sides, and receive tags out of order. Thread-safe.
class Messages {
 public:
  // |group|: the communicator of all ranks, whose end is that of the messages.
  Messages(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<const Lane> group, int rank,
           std::chrono::milliseconds timeout);
  ~Messages();

  // |tensor| is flat; the Work keeps it until the peer has received it. The message is sent after
  // the work of the calling thread's current stream, if |tensor| is of a keel device.
  c10::intrusive_ptr<KeelWork> send(const at::Tensor& tensor, int peer, int tag);
  // |tensor|: where the message goes in the end. Fails if the message has another size. Receives no
  // message of the CPU's memory for a tensor of a keel device, nor the reverse.
  c10::intrusive_ptr<KeelWork> receive(const at::Tensor& tensor, int peer, int tag);

  // Sets the deadline of messages that begin later.
  void set_timeout(std::chrono::milliseconds timeout);
  // Fails all messages in flight and all later ones.
  void abort();
  // As abort(), once messages in flight are done or two seconds have passed; ends the threads.
  void close();

 private:
  // With |mutex_| held, which MessageLane::add() would keep while it waits for the caller's stream.
  std::shared_ptr<MessageLane> lane(int peer, bool sends, c10::Device device);

  const c10::intrusive_ptr<c10d::Store> store_;
  const std::shared_ptr<const Lane> group_;
  const int rank_;
  std::mutex mutex_;  // protects all below
  std::chrono::milliseconds timeout_;
  uint64_t sequence_ = 0;
  bool is_closed_ = false;
  // By peer, direction, and whether tensors of a keel device are sent.
  std::map<std::tuple<int, bool, bool>, std::shared_ptr<MessageLane>> lanes_;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_MESSAGES_H_
