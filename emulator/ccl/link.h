// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_EMULATOR_CCL_LINK_H_
#define KEEL_EMULATOR_CCL_LINK_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "emulator/ccl/call.h"
#include "emulator/ccl/clique.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

enum class MessageKind : uint32_t {
  kHello,    // a rank has come: |id|, |rank|, |world|
  kWelcome,  // all have come, or why not: |code|, text
  kCall,     // the rank's call |number|: |call|
  kArrival,  // its buffers are ready: what they hold, or |code| and text
  kResult,   // of call |number|: the bytes, or |code| and text
  kFailure,  // a rank's error: |code|, text
};

// What the two ends say, as it lies in memory: both are this library. Behind it goes |payload|.
struct Frame {
  MessageKind kind = MessageKind::kHello;
  Code code = Code::kOk;
  uint32_t rank = 0;
  uint32_t world = 0;
  uint64_t number = 0;
  Call call = {};
  UniqueId id = {};
};
struct Message {
  Frame frame;
  std::vector<std::byte> payload;

  // |frame.code| with the text that came.
  Status status() const;
};

// Between a rank of another process and the clique that it is of: a stream socket with a thread
// that writes, so that nobody who says something waits for the other process. Thread-safe, but
// for receive(), which one thread at a time calls.
class Link {
 public:
  // A socket, or -1. Processes of another user are refused.
  static int connect_to(const std::string& door);
  static int listen_at(const std::string& door);
  // A socket of the listening one; -1.
  static int accept_from(int listening);

  // Owns |socket|.
  explicit Link(int socket);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(const Frame& frame, std::vector<std::byte> payload = {});
  // What came to |status|, in |frame|.
  void send(Frame frame, const Status& status);
  // Blocks; false once there is nothing more to come.
  bool receive(Message* out_message);
  // Both ends find nothing more.
  void close();

 private:
  void write();

  const int socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> outgoing_;
  bool is_closed_ = false;
  std::thread writer_;
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_LINK_H_
