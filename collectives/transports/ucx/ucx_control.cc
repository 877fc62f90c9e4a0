// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ucx/ucx_control.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/bootstrap/tcp_socket.h"
#include "collectives/transports/ucx/ucx_worker.h"

namespace keel {

namespace {

constexpr uint32_t kMagic = 0x5843554b;  // "KUCX"
enum class Kind : uint32_t { kGreeting = 1, kConnected = 2, kFarewell = 3, kProbe = 4 };

struct Frame {
  uint32_t magic = kMagic;
  Kind kind = Kind::kGreeting;
  uint32_t bytes = 0;  // behind the frame
};

void append(Bytes& bytes, const void* begin, size_t size) {
  const auto* const from = static_cast<const uint8_t*>(begin);
  bytes.insert(bytes.end(), from, from + size);
}

Bytes begin_message(Kind kind, size_t size) {
  const Frame frame{kMagic, kind, static_cast<uint32_t>(size)};
  Bytes bytes;
  append(bytes, &frame, sizeof(frame));
  return bytes;
}

}  // namespace

Bytes write_ucx_greeting(const UcxGreeting& greeting) {
  Bytes bytes = begin_message(Kind::kGreeting, greeting.key.size() + greeting.address.size());
  append(bytes, greeting.key.data(), greeting.key.size());
  append(bytes, greeting.address.data(), greeting.address.size());
  return bytes;
}

Bytes write_ucx_connected() {
  return begin_message(Kind::kConnected, 0);
}

Bytes write_ucx_probe() {
  return begin_message(Kind::kProbe, 0);
}

Bytes write_ucx_farewell(const UcxFarewell& farewell) {
  Bytes bytes = begin_message(Kind::kFarewell, sizeof(farewell.sent));
  append(bytes, farewell.sent.data(), sizeof(farewell.sent));
  return bytes;
}

void UcxControl::attach(FileDescriptor socket) {
  socket_ = std::move(socket);
  probe_ns_ = silence_ns();
  silence_ = SilenceWatch(kWireSilences * probe_ns_);
}

Status UcxControl::look_for_silence(int64_t now_ns) {
  if (!socket_ || !end_.ok()) return {};
  const SilenceWatch::Acknowledgements acknowledgements = SilenceWatch::read(socket_.get());
  silence_.note_send(now_ns, acknowledgements);
  if (silence_.remaining_ns(now_ns, acknowledgements) == 0) return connection_failure(ETIMEDOUT);
  // A peer that reads nothing gets no more: its kernel acknowledges that its window is full.
  const bool is_due = acknowledgements.is_all_acknowledged && out_.empty() && probe_ns_ != 0 &&
                      now_ns >= next_probe_;
  if (!is_due) return {};
  next_probe_ = now_ns + probe_ns_;
  send(write_ucx_probe());
  return {};
}

void UcxControl::send(const Bytes& message) {
  append(out_, message.data(), message.size());
  push();
}

void UcxControl::push() {
  while (!out_.empty() && end_.ok()) {
    const ssize_t put = sockets::send(socket_.get(), out_.data(), out_.size(), MSG_DONTWAIT);
    if (put < 0) return;  // full, or broken, which move() finds
    out_.erase(out_.begin(), out_.begin() + put);
  }
}

Status UcxControl::move() {
  if (!socket_ || !end_.ok()) return {};
  push();
  while (true) {
    std::array<uint8_t, 4096> part;
    const ssize_t got = sockets::receive(socket_.get(), part.data(), part.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      end_ = connection_failure(got == 0 ? 0 : errno);
      break;
    }
    append(in_, part.data(), static_cast<size_t>(got));
    KEEL_RETURN_IF_ERROR(take_messages());
  }
  return {};
}

Status UcxControl::take_messages() {
  while (in_.size() >= sizeof(Frame)) {
    Frame frame;
    std::memcpy(&frame, in_.data(), sizeof(frame));
    const bool is_greeting = frame.kind == Kind::kGreeting;
    const bool is_connection = frame.kind == Kind::kConnected;
    const bool is_probe = frame.kind == Kind::kProbe;
    const uint32_t most = sizeof(UcxKey) + UcxWorker::kMostAddressBytes;
    const bool is_known =
        is_greeting ? frame.bytes > sizeof(UcxKey) && frame.bytes <= most
        : is_connection || is_probe
            ? frame.bytes == 0
            : frame.kind == Kind::kFarewell && frame.bytes == sizeof(UcxFarewell::sent);
    // One of each but probes, in this order: |in_| stays small.
    const bool is_expected = !farewell && (!is_greeting || !greeting) &&
                             (!is_connection || (greeting && !is_connected)) &&
                             (!is_probe || greeting);
    if (frame.magic != kMagic || !is_known || !is_expected) {
      return failure(KEEL_DATA_LOSS, "a control message of a UCX wire is malformed: kind {}, {} B",
                     static_cast<uint32_t>(frame.kind), frame.bytes);
    }
    if (in_.size() < sizeof(Frame) + frame.bytes) return {};
    const uint8_t* const content = in_.data() + sizeof(Frame);
    if (is_greeting) {
      UcxGreeting found;
      std::memcpy(found.key.data(), content, sizeof(UcxKey));
      found.address.assign(content + sizeof(UcxKey), content + frame.bytes);
      greeting = std::move(found);
    } else if (is_connection) {
      is_connected = true;
    } else if (!is_probe) {
      UcxFarewell found;
      std::memcpy(found.sent.data(), content, sizeof(found.sent));
      farewell = found;
    }
    in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(sizeof(Frame) + frame.bytes));
  }
  return {};
}

}  // namespace keel
