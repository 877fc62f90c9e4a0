// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/handshake.h"

#include <utility>

#include "collectives/bootstrap/messages.h"

namespace keel {

namespace {

constexpr const char* kInitiator = "keel initiator";
constexpr const char* kAcceptor = "keel acceptor";

Status wrong_secret(const char* who) {
  return failure(KEEL_PERMISSION_DENIED,
                 "{} does not have this process's secret: give all ranks the same KEEL_SECRET_FILE "
                 "or KEEL_SECRET_FD",
                 who);
}

}  // namespace

Status HandshakeInitiator::open(Bytes* out_message) {
  KEEL_RETURN_IF_ERROR(draw_nonce(&opening_.nonce));
  *out_message = write_opening(opening_);
  return {};
}

Status HandshakeInitiator::on_challenge(ByteView bytes, Bytes* out_proof) {
  Challenge challenge;
  const Status parsed = parse_challenge(bytes, &challenge);
  if (!parsed.ok()) {
    Status refusal;
    if (parse_answer(bytes, &refusal).ok() && !refusal.ok()) return refusal;
    return parsed;
  }
  Mac expected = {};
  KEEL_RETURN_IF_ERROR(secret_.prove(kAcceptor, opening_, challenge.nonce, &expected));
  if (!are_equal(expected, challenge.proof)) return wrong_secret("the process that answers");
  Mac proof = {};
  KEEL_RETURN_IF_ERROR(secret_.prove(kInitiator, opening_, challenge.nonce, &proof));
  *out_proof = write_proof(proof);
  return {};
}

Status HandshakeInitiator::on_answer(ByteView bytes) {
  Status answer;
  KEEL_RETURN_IF_ERROR(parse_answer(bytes, &answer));
  return answer;
}

Status HandshakeAcceptor::on_message(ByteView bytes, Bytes* out_reply) {
  out_reply->clear();
  Status status;
  switch (state_) {
    case State::kOpening:
      status = on_opening(bytes, out_reply);
      break;
    case State::kProof:
      status = on_proof(bytes);
      if (status.ok()) *out_reply = write_answer(Status());
      break;
    case State::kDone:
      status = failure(KEEL_INTERNAL, "the handshake is over");
      break;
  }
  if (!status.ok()) *out_reply = write_answer(status);
  return status;
}

Status HandshakeAcceptor::on_opening(ByteView bytes, Bytes* out_reply) {
  KEEL_RETURN_IF_ERROR(parse_opening(bytes, &opening_));
  KEEL_RETURN_IF_ERROR(admit_(opening_));
  Challenge challenge;
  KEEL_RETURN_IF_ERROR(draw_nonce(&nonce_));
  challenge.nonce = nonce_;
  KEEL_RETURN_IF_ERROR(secret_.prove(kAcceptor, opening_, nonce_, &challenge.proof));
  *out_reply = write_challenge(challenge);
  state_ = State::kProof;
  return {};
}

Status HandshakeAcceptor::on_proof(ByteView bytes) {
  Mac proof = {};
  KEEL_RETURN_IF_ERROR(parse_proof(bytes, &proof));
  Mac expected = {};
  KEEL_RETURN_IF_ERROR(secret_.prove(kInitiator, opening_, nonce_, &expected));
  if (!are_equal(expected, proof)) return wrong_secret("the process that connected");
  state_ = State::kDone;
  return {};
}

}  // namespace keel
