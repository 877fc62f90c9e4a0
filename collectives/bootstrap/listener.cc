// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/listener.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <utility>

#include "collectives/bootstrap/messages.h"
#include "collectives/bootstrap/service_thread.h"
#include "collectives/bootstrap/system_failure.h"
#include "core/log.h"

namespace keel {

namespace {

class Acceptor {
 public:
  Acceptor(std::string name, int socket, Accept accept)
      : name_(std::move(name)), socket_(socket), accept_(std::move(accept)) {
    open_spare();
  }

  void on_event(uint64_t id, uint32_t events) {
    if (events == 0) {  // the pause is over
      open_spare();
      const Status resumed = ServiceThread::get().set_events(id, EPOLLIN);
      if (!resumed.ok()) log(KEEL_LOG_ERROR, "'{}': {}", name_, resumed.text());
      return;
    }
    FileDescriptor peer;
    const int error = sockets::accept(socket_, SOCK_NONBLOCK, &peer);
    if (error == 0) {
      let_in(std::move(peer));
      return;
    }
    if (!sockets::is_shortage(error)) return;
    const Status refusal = system_failure(error, fmt::format("process {}", getpid()));
    // Use the spare descriptor to accept and refuse: otherwise the peer would wait in vain.
    spare_ = FileDescriptor();
    if (sockets::accept(socket_, SOCK_NONBLOCK, &peer) == 0) send_answer(peer.get(), refusal);
    peer = FileDescriptor();
    open_spare();
    if (!spare_) pause(id);
  }

 private:
  void let_in(FileDescriptor socket) {
    Peer peer;
    Status known;
    if (const int error = sockets::peer_of(socket.get(), &peer)) {
      known = system_failure(error, "SO_PEERCRED");
    } else if (peer.uid != geteuid()) {
      known = failure(KEEL_PERMISSION_DENIED, "process {} belongs to uid {}, and refuses uid {}",
                      getpid(), geteuid(), peer.uid);
    }
    if (!known.ok()) {
      send_answer(socket.get(), known);
      return;
    }
    accept_(std::move(socket), peer);
  }

  void open_spare() {
    if (!spare_) spare_ = FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
  }

  // The queue stays readable, and epoll would report it again at once.
  void pause(uint64_t id) {
    constexpr int64_t kPauseNs = 50'000'000;
    const Status paused = ServiceThread::get().set_events(id, 0);
    if (!paused.ok()) log(KEEL_LOG_ERROR, "'{}': {}", name_, paused.text());
    ServiceThread::get().set_deadline(id, Deadline::after(kPauseNs));
  }

  const std::string name_;
  const int socket_;
  const Accept accept_;
  FileDescriptor spare_;
};

}  // namespace

Status start_listening(const std::string& name, Accept accept, uint64_t* out_id) {
  FileDescriptor socket;
  KEEL_RETURN_IF_ERROR(listen_at(name, &socket));
  auto acceptor = std::make_shared<Acceptor>(name, socket.get(), std::move(accept));
  return ServiceThread::get().add(
      std::move(socket), EPOLLIN,
      [acceptor = std::move(acceptor)](uint64_t id, uint32_t events) {
        acceptor->on_event(id, events);
      },
      out_id);
}

void send_answer(int socket, const Status& status) {
  const Status sent = send_packet(socket, write_answer(status), {});
  if (!sent.ok()) log(KEEL_LOG_DEBUG, "an answer was not heard: {}", sent.text());
}

}  // namespace keel
