// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/tcp_channel.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/tcp_dialog.h"

namespace keel {

namespace {

int64_t now_ns() {
  return std::chrono::nanoseconds(Deadline::Clock::now().time_since_epoch()).count();
}

}  // namespace

TcpChannel::TcpChannel(int socket, size_t limit, Callbacks callbacks)
    : socket_(socket), silence_(silence_ns()), limit_(limit), callbacks_(std::move(callbacks)) {}

Status TcpChannel::open(FileDescriptor socket, size_t limit, Callbacks callbacks,
                        std::shared_ptr<TcpChannel>* out_channel) {
  auto channel = std::make_shared<TcpChannel>(socket.get(), limit, std::move(callbacks));
  *out_channel = channel;
  std::lock_guard lock(channel->mutex_);  // callbacks wait until |id_| is known
  const Status added = ServiceThread::get().add(
      std::move(socket), EPOLLIN,
      [channel](uint64_t, uint32_t events) { channel->on_event(events); }, &channel->id_);
  if (!added.ok()) {
    channel->is_closed_ = true;
    out_channel->reset();
  }
  return added;
}

void TcpChannel::on_event(uint32_t events) {
  std::unique_lock lock(mutex_);
  if (is_closed_) return;
  // A callback may drop the last other reference to the channel.
  const std::shared_ptr<TcpChannel> self = shared_from_this();
  if (events == 0) {
    const bool gives_up = closes_when_sent_;
    lock.unlock();
    if (gives_up) {
      close();
    } else if (callbacks_.on_deadline) {
      callbacks_.on_deadline();
    }
    return;
  }
  if ((events & EPOLLOUT) != 0 || !send_failure_.ok()) flush_locked();
  const Status failed = send_failure_;
  const bool is_sent = closes_when_sent_ && queued_.empty();
  const bool leaves = closes_when_sent_;
  lock.unlock();
  if (leaves) {
    if (is_sent || !failed.ok()) close();
    return;
  }
  // A peer may have said why before it closed: what has arrived is read before a failure counts.
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0) {
    constexpr int kMostMessages = 64;  // other connections wait for this thread
    for (int i = 0; i < kMostMessages && read_message(); ++i) {
    }
  }
  if (!failed.ok()) end(failed);
}

bool TcpChannel::read_message() {
  size_t limit = 0;
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    limit = limit_;
  }
  const size_t wanted = expected_ == 0 ? kMessageHeader : expected_;
  // Memory grows with what has come, not with the size that a stranger states.
  constexpr size_t kStep = 65536;
  const size_t step = std::min(wanted - received_, kStep);
  message_.resize(received_ + step);
  const ssize_t got = sockets::receive(socket_, message_.data() + received_, step);
  if (got < 0) {
    if (errno != EAGAIN) end(connection_failure(errno));
    return false;
  }
  if (got == 0) {
    end(received_ == 0 ? connection_failure(0)
                       : failure(KEEL_RANK_FAILED,
                                 "the connection was closed by the other side within a message"));
    return false;
  }
  received_ += static_cast<size_t>(got);
  if (received_ < wanted) return true;
  if (expected_ == 0) {
    const Status known = message_size(message_, limit, &expected_);
    if (!known.ok()) {
      end(known);
      return false;
    }
    if (expected_ > kMessageHeader) return true;
  }
  Bytes message = std::move(message_);
  message_.clear();
  received_ = 0;
  expected_ = 0;
  if (callbacks_.on_message) callbacks_.on_message(message);
  return true;
}

void TcpChannel::send(const Bytes& message) {
  std::lock_guard lock(mutex_);
  if (is_closed_ || closes_when_sent_ || !send_failure_.ok()) return;
  silence_.note_send(now_ns(), SilenceWatch::read(socket_));
  queued_.insert(queued_.end(), message.begin(), message.end());
  const size_t before = queued_.size() - message.size();
  if (before == 0) {
    flush_locked();
  } else if (queued_.size() - sent_ > kMaxQueued) {
    send_failure_ = failure(KEEL_RANK_FAILED, "the other side does not read");
    // Calls on_event, also on another thread.
    static_cast<void>(ServiceThread::get().set_events(id_, EPOLLIN | EPOLLOUT));
  }
}

void TcpChannel::flush_locked() {
  while (sent_ < queued_.size() && send_failure_.ok()) {
    const ssize_t put = sockets::send(socket_, queued_.data() + sent_, queued_.size() - sent_);
    if (put >= 0) {
      sent_ += static_cast<size_t>(put);
    } else if (errno == EAGAIN) {
      static_cast<void>(ServiceThread::get().set_events(id_, EPOLLIN | EPOLLOUT));
      return;
    } else {
      send_failure_ = connection_failure(errno);
    }
  }
  queued_.clear();
  sent_ = 0;
  // After a failure EPOLLOUT stays, so that the service thread calls on_end.
  const uint32_t events = send_failure_.ok() ? uint32_t{EPOLLIN} : EPOLLIN | EPOLLOUT;
  static_cast<void>(ServiceThread::get().set_events(id_, events));
}

void TcpChannel::set_deadline(std::optional<Deadline> deadline) {
  std::lock_guard lock(mutex_);
  if (!is_closed_) ServiceThread::get().set_deadline(id_, deadline);
}

void TcpChannel::keep_alive(const Bytes& message, int64_t interval_ns) {
  // A limit that is nearly over is looked at again soon.
  constexpr int64_t kLeastNs = 10'000'000;
  int64_t remaining = 0;
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return;
    remaining = silence_.remaining_ns(now_ns(), SilenceWatch::read(socket_));
  }
  if (remaining == 0) {
    // A host that is not heard may still hear. A reset reaches it now; the end of the stream would
    // wait behind what it has not acknowledged.
    static_cast<void>(sockets::reset_at_close(socket_));
    end(connection_failure(ETIMEDOUT));
    return;
  }
  send(message);
  set_deadline(Deadline::after(std::min(interval_ns, std::max(kLeastNs, remaining))));
}

void TcpChannel::set_limit(size_t limit) {
  std::lock_guard lock(mutex_);
  limit_ = limit;
}

void TcpChannel::close() {
  {
    std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  ServiceThread::get().remove(id_);
}

void TcpChannel::close_when_sent() {
  std::unique_lock lock(mutex_);
  if (is_closed_) return;
  if (queued_.empty()) {
    lock.unlock();
    close();
    return;
  }
  constexpr int64_t kGraceNs = 1'000'000'000;
  closes_when_sent_ = true;
  static_cast<void>(ServiceThread::get().set_events(id_, EPOLLOUT));
  ServiceThread::get().set_deadline(id_, Deadline::after(kGraceNs));
}

FileDescriptor TcpChannel::take() {
  std::unique_lock lock(mutex_);
  FileDescriptor taken;
  if (!is_closed_ && queued_.empty() && send_failure_.ok()) {
    taken = FileDescriptor(fcntl(socket_, F_DUPFD_CLOEXEC, 0));
  }
  lock.unlock();
  close();
  return taken;
}

void TcpChannel::end(const Status& why) {
  {
    std::lock_guard lock(mutex_);
    if (is_closed_) return;
  }
  close();
  if (callbacks_.on_end) callbacks_.on_end(why);
}

}  // namespace keel
