// SPDX-License-Identifier: Apache-2.0
#include "emulator/ccl/link.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <keel/thread_start.hpp>
#include <new>
#include <type_traits>
#include <utility>

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

struct Address {
  sockaddr_un value = {};
  socklen_t size = 0;
};

// An abstract socket address: a killed process leaves no file behind.
Address address_at(const std::string& root_address) {
  Address address;
  address.value.sun_family = AF_UNIX;
  std::memcpy(address.value.sun_path + 1, root_address.data(),
              std::min(root_address.size(), sizeof(address.value.sun_path) - 1));
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + root_address.size());
  return address;
}

bool is_same_user(int socket) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

int checked(int socket) {
  if (socket < 0 || is_same_user(socket)) return socket;
  ::close(socket);
  return -1;
}

bool write_all(int socket, const void* data, size_t size) {
  const auto* from = static_cast<const std::byte*>(data);
  while (size != 0) {
    const ssize_t written = ::send(socket, from, size, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    from += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

bool read_all(int socket, void* data, size_t size) {
  auto* to = static_cast<std::byte*>(data);
  while (size != 0) {
    const ssize_t got = ::recv(socket, to, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

Status Message::status() const {
  if (frame.code == Code::kOk) return {};
  return {frame.code, std::string(reinterpret_cast<const char*>(payload.data()), payload.size())};
}

int Link::connect_to(const std::string& root_address) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const Address address = address_at(root_address);
  while (connect(socket, reinterpret_cast<const sockaddr*>(&address.value), address.size) != 0) {
    if (errno == EINTR) continue;
    ::close(socket);
    return -1;
  }
  return checked(socket);
}

int Link::listen_at(const std::string& root_address) {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const Address address = address_at(root_address);
  if (bind(socket, reinterpret_cast<const sockaddr*>(&address.value), address.size) == 0 &&
      listen(socket, SOMAXCONN) == 0) {
    return socket;
  }
  ::close(socket);
  return -1;
}

int Link::accept_from(int listening) {
  int socket = -1;
  do {
    socket = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  } while (socket < 0 && (errno == EINTR || errno == ECONNABORTED));
  return checked(socket);
}

Link::Link(int socket) try
    : socket_(socket),
      writer_(kit::start_thread<std::thread>("keel-emu-link", [this] { write(); })) {
} catch (const std::bad_alloc&) {
  ::close(socket);  // the exception is rethrown after the handler
}

Link::~Link() {
  close();
  writer_.join();
  ::close(socket_);
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
  if (!read_all(socket_, &prefix, sizeof(prefix)) || prefix.magic != Prefix().magic ||
      prefix.frame_bytes != sizeof(Frame) || prefix.payload_bytes > kMostBytes) {
    return false;
  }
  out_message->payload.resize(prefix.payload_bytes);
  return read_all(socket_, &out_message->frame, sizeof(Frame)) &&
         read_all(socket_, out_message->payload.data(), prefix.payload_bytes);
}

void Link::close() {
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }
  changed_.notify_all();
  shutdown(socket_, SHUT_RDWR);
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
    if (!write_all(socket_, &prefix, sizeof(prefix)) ||
        !write_all(socket_, &message.frame, sizeof(Frame)) ||
        !write_all(socket_, message.payload.data(), message.payload.size())) {
      return;
    }
  }
}

}  // namespace keel::emulator::ccl
