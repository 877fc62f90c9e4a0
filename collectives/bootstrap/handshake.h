// SPDX-License-Identifier: Apache-2.0
// Mutual challenge and response at the start of a connection between hosts.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_HANDSHAKE_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_HANDSHAKE_H_

#include <functional>

#include "collectives/bootstrap/host_messages.h"
#include "collectives/bootstrap/host_secret.h"
#include "core/status.h"

namespace keel {

// Limit for a handshake, on both sides.
inline constexpr int64_t kHandshakeNs = 5'000'000'000;

// Both sides prove the possession of the secret over the whole opening (job, epoch, ranks, address)
// and fresh nonces of both; the acceptor goes first, so a process that pretends to be the server
// learns nothing. The classes neither read nor write sockets.
//
//   connecting process          accepting process
//     opening              ->
//                          <-     challenge: nonce, proof "acceptor"
//     proof "initiator"    ->
//                          <-     answer
class HandshakeInitiator {
 public:
  // |opening|: all but the nonce. |secret| must outlive the object.
  HandshakeInitiator(const HostSecret& secret, Opening opening)
      : secret_(secret), opening_(std::move(opening)) {}
  Status open(Bytes* out_message);
  // KEEL_PERMISSION_DENIED if the acceptor does not have the secret; the failure of an acceptor
  // that answers a refusal in place of a challenge.
  Status on_challenge(ByteView bytes, Bytes* out_proof);
  // Returns the acceptor's answer.
  static Status on_answer(ByteView bytes);

 private:
  const HostSecret& secret_;
  Opening opening_;
};

class HandshakeAcceptor {
 public:
  // Decides from the unproven opening alone whether the peer may go on: must cost little.
  using Admit = std::function<Status(const Opening& opening)>;
  HandshakeAcceptor(const HostSecret& secret, Admit admit)
      : secret_(secret), admit_(std::move(admit)) {}

  // Takes the peer's next message. |*out_reply|: what to send, also after a failure (a refusal);
  // may be empty. After a failure the connection must be closed.
  Status on_message(ByteView bytes, Bytes* out_reply);
  // Whether the peer has proven that it has the secret.
  bool is_done() const { return state_ == State::kDone; }
  const Opening& opening() const { return opening_; }

 private:
  enum class State { kOpening, kProof, kDone };
  Status on_opening(ByteView bytes, Bytes* out_reply);
  Status on_proof(ByteView bytes);

  const HostSecret& secret_;
  const Admit admit_;
  State state_ = State::kOpening;
  Opening opening_;
  Nonce nonce_ = {};
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_HANDSHAKE_H_
