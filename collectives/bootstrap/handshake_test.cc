// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/handshake.h"

#include <gtest/gtest.h>

#include <string>

namespace keel {
namespace {

const HostSecret kSecret{std::string("sixteen bytes or more")};
const HostSecret kOther{std::string("another secret of another job")};

Opening opening() {
  Opening opening;
  opening.purpose = Opening::Purpose::kWire;
  opening.job.bytes.fill(7);
  opening.epoch = 3;
  opening.from = 5;
  opening.to = 2;
  opening.lane = 1;
  opening.address = "10.0.0.1:4711";
  return opening;
}

Status admit_all(const Opening&) {
  return {};
}

TEST(HandshakeTest, BothSidesWithTheSecretAgree) {
  HandshakeInitiator initiator(kSecret, opening());
  HandshakeAcceptor acceptor(kSecret, admit_all);
  Bytes opened;
  Bytes challenge;
  Bytes proof;
  Bytes answer;
  ASSERT_TRUE(initiator.open(&opened).ok());
  ASSERT_TRUE(acceptor.on_message(opened, &challenge).ok());
  EXPECT_FALSE(acceptor.is_done());
  ASSERT_TRUE(initiator.on_challenge(challenge, &proof).ok());
  ASSERT_TRUE(acceptor.on_message(proof, &answer).ok());
  EXPECT_TRUE(acceptor.is_done());
  EXPECT_TRUE(HandshakeInitiator::on_answer(answer).ok());
  EXPECT_EQ(acceptor.opening().from, 5u);
  EXPECT_LT(opened.size(), kMaxStrangerBytes);
}

TEST(HandshakeTest, AcceptorWithAnotherSecretGetsNoProof) {
  HandshakeInitiator initiator(kSecret, opening());
  HandshakeAcceptor acceptor(kOther, admit_all);
  Bytes opened;
  Bytes challenge;
  Bytes proof;
  ASSERT_TRUE(initiator.open(&opened).ok());
  ASSERT_TRUE(acceptor.on_message(opened, &challenge).ok());
  const Status status = initiator.on_challenge(challenge, &proof);
  EXPECT_EQ(status.code(), KEEL_PERMISSION_DENIED);
  EXPECT_NE(std::string(status.text()).find("KEEL_SECRET_FILE"), std::string::npos);
  EXPECT_TRUE(proof.empty());
}

// A proof of an earlier handshake is over another nonce.
TEST(HandshakeTest, ReplayedProofIsRefused) {
  HandshakeInitiator initiator(kSecret, opening());
  HandshakeAcceptor first(kSecret, admit_all);
  HandshakeAcceptor second(kSecret, admit_all);
  Bytes opened;
  Bytes challenge;
  Bytes proof;
  Bytes reply;
  ASSERT_TRUE(initiator.open(&opened).ok());
  ASSERT_TRUE(first.on_message(opened, &challenge).ok());
  ASSERT_TRUE(initiator.on_challenge(challenge, &proof).ok());
  ASSERT_TRUE(second.on_message(opened, &reply).ok());
  const Status status = second.on_message(proof, &reply);
  EXPECT_EQ(status.code(), KEEL_PERMISSION_DENIED);
  EXPECT_FALSE(second.is_done());
  EXPECT_EQ(HandshakeInitiator::on_answer(reply).code(), KEEL_PERMISSION_DENIED);
}

// The acceptor's own proof, sent back to it, is not the initiator's.
TEST(HandshakeTest, ReflectedProofIsRefused) {
  HandshakeInitiator initiator(kSecret, opening());
  HandshakeAcceptor acceptor(kSecret, admit_all);
  Bytes opened;
  Bytes reply;
  ASSERT_TRUE(initiator.open(&opened).ok());
  ASSERT_TRUE(acceptor.on_message(opened, &reply).ok());
  Challenge challenge;
  ASSERT_TRUE(parse_challenge(reply, &challenge).ok());
  EXPECT_EQ(acceptor.on_message(write_proof(challenge.proof), &reply).code(),
            KEEL_PERMISSION_DENIED);
}

TEST(HandshakeTest, EveryFieldOfTheOpeningIsProven) {
  const auto differs = [](const auto& change) {
    HandshakeInitiator initiator(kSecret, opening());
    HandshakeAcceptor acceptor(kSecret, admit_all);
    Bytes opened;
    Bytes challenge;
    Bytes proof;
    EXPECT_TRUE(initiator.open(&opened).ok());
    Opening changed;
    EXPECT_TRUE(parse_opening(opened, &changed).ok());
    change(changed);
    EXPECT_TRUE(acceptor.on_message(write_opening(changed), &challenge).ok());
    return initiator.on_challenge(challenge, &proof).code() == KEEL_PERMISSION_DENIED;
  };
  EXPECT_FALSE(differs([](Opening&) {}));
  EXPECT_TRUE(differs([](Opening& each) { each.job.bytes[15] ^= 1; }));
  EXPECT_TRUE(differs([](Opening& each) { ++each.epoch; }));
  EXPECT_TRUE(differs([](Opening& each) { ++each.context; }));
  EXPECT_TRUE(differs([](Opening& each) { ++each.from; }));
  EXPECT_TRUE(differs([](Opening& each) { ++each.to; }));
  EXPECT_TRUE(differs([](Opening& each) { ++each.lane; }));
  EXPECT_TRUE(differs([](Opening& each) { each.address += '0'; }));
  EXPECT_TRUE(differs([](Opening& each) { each.nonce[0] ^= 1; }));
}

TEST(HandshakeTest, RefusalBeforeTheProofIsToldWithItsReason) {
  HandshakeInitiator initiator(kSecret, opening());
  HandshakeAcceptor acceptor(kSecret, [](const Opening&) {
    return failure(KEEL_NOT_FOUND, "another job's server listens here");
  });
  Bytes opened;
  Bytes reply;
  Bytes proof;
  ASSERT_TRUE(initiator.open(&opened).ok());
  EXPECT_EQ(acceptor.on_message(opened, &reply).code(), KEEL_NOT_FOUND);
  EXPECT_EQ(initiator.on_challenge(reply, &proof).code(), KEEL_NOT_FOUND);
}

TEST(HandshakeTest, MessagesOutOfTurnAreRefused) {
  HandshakeAcceptor acceptor(kSecret, admit_all);
  Bytes reply;
  EXPECT_EQ(acceptor.on_message(write_proof(Mac{}), &reply).code(), KEEL_DATA_LOSS);
  EXPECT_FALSE(acceptor.is_done());
  Bytes opened;
  HandshakeInitiator initiator(kSecret, opening());
  ASSERT_TRUE(initiator.open(&opened).ok());
  opened[4] ^= 2;  // the format's version
  HandshakeAcceptor other(kSecret, admit_all);
  EXPECT_EQ(other.on_message(opened, &reply).code(), KEEL_UNSUPPORTED);
}

}  // namespace
}  // namespace keel
