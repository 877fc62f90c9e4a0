// SPDX-License-Identifier: Apache-2.0
// A TCP connection, served by the service thread, that carries messages.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TCP_CHANNEL_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TCP_CHANNEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/silence_watch.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Reads one message after the other, and no byte beyond the message. Callbacks run on the service
// thread, without locks, and may close() the channel. Thread-safe.
class TcpChannel : public std::enable_shared_from_this<TcpChannel> {
 public:
  struct Callbacks {
    std::function<void(ByteView message)> on_message;
    // The connection has ended, or a message was malformed or too long. Called once, last.
    std::function<void(const Status& why)> on_end;
    std::function<void()> on_deadline;
  };

  // |limit|: bytes of the longest message that is accepted. |*out_channel| is written before a
  // callback can run.
  static Status open(FileDescriptor socket, size_t limit, Callbacks callbacks,
                     std::shared_ptr<TcpChannel>* out_channel);
  explicit TcpChannel(int socket, size_t limit, Callbacks callbacks);

  // Sends, or keeps what the socket does not take yet. A peer that does not read is ended when
  // kMaxQueued bytes are kept. A failure reaches on_end.
  void send(const Bytes& message);
  // Calls on_deadline once after |deadline|; nullopt: not.
  void set_deadline(std::optional<Deadline> deadline);
  // For use in on_deadline: sends |message|, and calls on_deadline again after |interval_ns| or
  // sooner. Ends the channel if the other host has acknowledged nothing for silence_ms(): see
  // SilenceWatch.
  void keep_alive(const Bytes& message, int64_t interval_ns);
  void set_limit(size_t limit);
  // No callback runs after the return, except when the caller is one. The kernel still sends what
  // send() gave to it.
  void close();
  // Closes the channel once all is sent, or after a second.
  void close_when_sent();
  // Closes the channel and returns a descriptor of its connection. From callbacks only. Empty when
  // bytes are still to be sent, or without descriptors.
  FileDescriptor take();

  static constexpr size_t kMaxQueued = size_t{32} << 20;

 private:
  void on_event(uint32_t events);
  // Reads one message. Returns false when nothing more can be read now.
  bool read_message();
  void flush_locked();
  void end(const Status& why);

  const int socket_;  // owned by the service thread
  uint64_t id_ = 0;
  std::mutex mutex_;  // guards the fields below; the others are the service thread's
  bool is_closed_ = false;
  bool closes_when_sent_ = false;
  SilenceWatch silence_;
  Bytes queued_;
  size_t sent_ = 0;  // bytes of |queued_|
  size_t limit_;
  Status send_failure_;
  Callbacks callbacks_;
  Bytes message_;
  size_t received_ = 0;
  size_t expected_ = 0;  // 0: the size is not known yet
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TCP_CHANNEL_H_
