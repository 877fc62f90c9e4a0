// SPDX-License-Identifier: Apache-2.0
// A TCP port where the service thread lets in authenticated peers.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_HOST_LISTENER_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_HOST_LISTENER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/handshake.h"
#include "collectives/bootstrap/host_secret.h"
#include "collectives/bootstrap/tcp_channel.h"
#include "core/status.h"

namespace keel {

// Answers the handshake of each process that connects. A process that does not finish it within
// a limit, sends more than kMaxStrangerBytes in a message or something else is closed. Beyond
// |most| unfinished handshakes the listener closes the oldest: a flood takes neither all
// descriptors nor the place of a peer whose handshake takes a few round trips. Thread-safe.
class HostListener : public std::enable_shared_from_this<HostListener> {
 public:
  // Calls on the service thread: |admit| as in HandshakeAcceptor, |on_peer| with the connection of
  // a peer that has the secret.
  using OnPeer = std::function<void(const Opening& opening, FileDescriptor socket)>;
  // |socket|: of listen_tcp().
  static Status open(FileDescriptor socket, HostSecret secret, HandshakeAcceptor::Admit admit,
                     OnPeer on_peer, std::shared_ptr<HostListener>* out_listener,
                     size_t most = kMaxStrangers, int64_t limit_ns = kHandshakeNs);
  HostListener(HostSecret secret, HandshakeAcceptor::Admit admit, OnPeer on_peer, size_t most,
               int64_t limit_ns)
      : secret_(std::move(secret)),
        admit_(std::move(admit)),
        on_peer_(std::move(on_peer)),
        most_(most),
        limit_ns_(limit_ns) {}

  // No callback runs after the return, except when the caller is one. The owner must call it.
  void close();

  // The ranks of a large job come at once, so the limit is above theirs.
  static constexpr size_t kMaxStrangers = 4096;

 private:
  struct Stranger {
    std::shared_ptr<TcpChannel> channel;
    HandshakeAcceptor handshake;
  };

  void on_event(int socket, uint64_t id, uint32_t events);
  void let_in(FileDescriptor socket);
  void on_message(uint64_t number, ByteView message);
  void drop(uint64_t number);
  bool drop_oldest();

  const HostSecret secret_;
  const HandshakeAcceptor::Admit admit_;
  const OnPeer on_peer_;
  const size_t most_;
  const int64_t limit_ns_;
  uint64_t id_ = 0;
  bool is_short_ = false;  // of descriptors or memory; for the service thread
  std::mutex mutex_;
  bool is_closed_ = false;
  uint64_t next_ = 1;
  std::map<uint64_t, std::shared_ptr<Stranger>> strangers_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_HOST_LISTENER_H_
