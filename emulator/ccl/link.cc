// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/link.h"

#include <unistd.h>

#include <keel/thread_start.hpp>
#include <type_traits>
#include <utility>

#include "base/ipc/socket.h"

namespace keel::emulator::ccl {
namespace {

static_assert(std::is_trivially_copyable_v<Frame>);

// Precedes each message. Another build of the library has other sizes, or another magic number.
struct Prefix {
  uint32_t magic = 0x636c6b65;
  uint32_t frame_bytes = sizeof(Frame);
  uint64_t payload_bytes = 0;
};

// More than any emulated device has.
constexpr uint64_t kMostBytes = uint64_t{1} << 40;

FileDescriptor checked(FileDescriptor socket) {
  sockets::Peer peer;
  const bool is_same_user = sockets::peer_of(socket.get(), &peer) == 0 && peer.uid == geteuid();
  return is_same_user ? std::move(socket) : FileDescriptor();
}

}  // namespace

Status Message::status() const {
  if (frame.code == Code::kOk) return {};
  return {frame.code, std::string(reinterpret_cast<const char*>(payload.data()), payload.size())};
}

FileDescriptor Link::connect_to(const std::string& root_address) {
  FileDescriptor socket;
  if (sockets::connect(SocketAddress::named(root_address), SOCK_STREAM, &socket) != 0) return {};
  return checked(std::move(socket));
}

FileDescriptor Link::listen_at(const std::string& root_address) {
  FileDescriptor socket;
  (void)sockets::listen(SocketAddress::named(root_address), SOCK_STREAM, &socket);
  return socket;
}

FileDescriptor Link::accept_from(int listening) {
  FileDescriptor socket;
  if (sockets::accept(listening, 0, &socket) != 0) return {};
  return checked(std::move(socket));
}

Link::Link(FileDescriptor socket)
    : socket_(std::move(socket)),
      writer_(kit::start_thread<std::thread>("keel-emu-link", [this] { write(); })) {}

Link::~Link() {
  close();
  writer_.join();
}

void Link::send(const Frame& frame, std::vector<std::byte> payload) {
  {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    outgoing_.push_back({frame, std::move(payload)});
  }
  changed_.notify_all();
}

void Link::send(Frame frame, const Status& status) {
  const auto* const text = reinterpret_cast<const std::byte*>(status.text().data());
  frame.code = status.code();
  send(frame, std::vector<std::byte>(text, text + status.text().size()));
}

bool Link::receive(Message* out_message) {
  Prefix prefix;
  if (!sockets::receive_all(socket_.get(), &prefix, sizeof(prefix)) ||
      prefix.magic != Prefix().magic || prefix.frame_bytes != sizeof(Frame) ||
      prefix.payload_bytes > kMostBytes) {
    return false;
  }
  out_message->payload.resize(prefix.payload_bytes);
  return sockets::receive_all(socket_.get(), &out_message->frame, sizeof(Frame)) &&
         sockets::receive_all(socket_.get(), out_message->payload.data(), prefix.payload_bytes);
}

void Link::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  shutdown(socket_.get(), SHUT_RDWR);
}

void Link::write() {
  while (true) {
    Message message;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_closed_ || !outgoing_.empty(); });
      if (is_closed_) return;
      message = std::move(outgoing_.front());
      outgoing_.pop_front();
    }
    Prefix prefix;
    prefix.payload_bytes = message.payload.size();
    if (!sockets::send_all(socket_.get(), &prefix, sizeof(prefix)) ||
        !sockets::send_all(socket_.get(), &message.frame, sizeof(Frame)) ||
        !sockets::send_all(socket_.get(), message.payload.data(), message.payload.size())) {
      return;
    }
  }
}

}  // namespace keel::emulator::ccl
