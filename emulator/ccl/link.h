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

#include "base/ipc/file_descriptor.h"
#include "emulator/ccl/call.h"
#include "emulator/ccl/clique.h"
#include "emulator/status.h"

namespace keel::emulator::ccl {

enum class MessageKind : uint32_t {
  kHello,    // a rank has joined: |id|, |rank|, |world|
  kWelcome,  // all have joined, or why not: |code|, text
  kCall,     // the rank's call |number|: |call|
  kArrival,  // buffers are ready: the bytes, or |code| and text
  kResult,   // of call |number|: the bytes, or |code| and text
  kFailure,  // a rank's error: |code|, text
};

// The wire format, in memory layout: both ends run this library. |payload| follows the frame.
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

  // Returns |frame.code| with the text in |payload|.
  Status status() const;
};

// The connection between a remote rank and its clique: a stream socket with a writer thread, so
// send() never waits for the remote process. Thread-safe except receive(), which one thread at a
// time calls.
class Link {
 public:
  // Return a socket, or none. Processes of a different user are refused. |root_address|: the
  // socket's name.
  static FileDescriptor connect_to(const std::string& root_address);
  static FileDescriptor listen_at(const std::string& root_address);
  // Accepts a connection of |listening|. Returns a socket, or none.
  static FileDescriptor accept_from(int listening);

  explicit Link(FileDescriptor socket);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  void send(const Frame& frame, std::vector<std::byte> payload = {});
  // Sends |frame| with |status| as its code and text.
  void send(Frame frame, const Status& status);
  // Blocks for the next message; false once the connection is closed.
  bool receive(Message* out_message);
  // Closes the connection for both ends.
  void close();

 private:
  void write();

  const FileDescriptor socket_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> outgoing_;
  bool is_closed_ = false;
  std::thread writer_;
};

}  // namespace keel::emulator::ccl

#endif  // KEEL_EMULATOR_CCL_LINK_H_
