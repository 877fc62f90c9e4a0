// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_messages.h"

#include <utility>

#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/processors.h"
#include "collectives/transports/wire_choice.h"

namespace keel {

namespace {

constexpr uint32_t kMaxName = 255;

void put(MessageWriter& writer, const HostRank& rank) {
  writer.put(rank.peer);
  writer.put(std::string_view(rank.host));
  writer.put(std::string_view(rank.host_name));
  writer.put(std::string_view(rank.address));
  writer.put(std::string_view(rank.facts));
  writer.put(std::string_view(rank.wire));
  writer.put(std::string_view(rank.processors));
}

HostRank take_rank(MessageReader& reader) {
  HostRank rank;
  rank.peer = reader.take_peer_info();
  rank.host = reader.take_text(kMaxHostKey, "the host's key");
  rank.host_name = reader.take_text(kMaxName, "the host's name");
  rank.address = reader.take_text(kMaxAddress, "the address");
  rank.facts = reader.take_data(kMaxHostFacts, "the facts of a rank");
  rank.wire = reader.take_text(kMaxWireName, "the wire of a rank");
  rank.processors = reader.take_data(kMaxProcessorBytes, "the processors of a rank");
  return rank;
}

// A set of ranks, ascending, as a bit for each rank without empty bytes at the end.
void put(MessageWriter& writer, const std::vector<uint32_t>& ranks) {
  std::string bits(ranks.empty() ? 0 : ranks.back() / 8 + 1, '\0');
  for (const uint32_t rank : ranks) {
    bits[rank / 8] = static_cast<char>(bits[rank / 8] | 1 << rank % 8);
  }
  writer.put(std::string_view(bits));
}

std::vector<uint32_t> take_ranks(MessageReader& reader) {
  const std::string bits = reader.take_data(kMaxWorld / 8, "the set of ranks");
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < bits.size() * 8; ++rank) {
    if ((static_cast<uint8_t>(bits[rank / 8]) >> rank % 8 & 1) != 0) ranks.push_back(rank);
  }
  if (!bits.empty() && bits.back() == '\0') reader.fail("the set of ranks ends with nothing");
  return ranks;
}

}  // namespace

Bytes write_opening(const Opening& opening) {
  MessageWriter writer(MessageKind::kOpening);
  writer.put(static_cast<uint8_t>(opening.purpose));
  writer.put(opening.job);
  writer.put(opening.epoch);
  writer.put(opening.context);
  writer.put(opening.from);
  writer.put(opening.to);
  writer.put(opening.lane);
  writer.put(std::string_view(opening.address));
  writer.put(opening.nonce);
  return writer.finish();
}

Status parse_opening(ByteView bytes, Opening* out_opening) {
  MessageReader reader(bytes, MessageKind::kOpening);
  Opening opening;
  const auto purpose = reader.take<uint8_t>();
  opening.job = reader.take_token();
  opening.epoch = reader.take<uint64_t>();
  opening.context = reader.take<uint64_t>();
  opening.from = reader.take<uint32_t>();
  opening.to = reader.take<uint32_t>();
  opening.lane = reader.take<uint32_t>();
  opening.address = reader.take_text(kMaxAddress, "the address");
  opening.nonce = reader.take_array<32>();
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (purpose < static_cast<uint8_t>(Opening::Purpose::kServer) ||
      purpose > static_cast<uint8_t>(Opening::Purpose::kNotice)) {
    reader.fail(fmt::format("its purpose is {}", purpose));
  }
  if (opening.from >= kMaxWorld || opening.to >= kMaxWorld || opening.lane >= WireSet::kLanes) {
    reader.fail(
        fmt::format("lane {} from rank {} to rank {}", opening.lane, opening.from, opening.to));
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  opening.purpose = static_cast<Opening::Purpose>(purpose);
  *out_opening = std::move(opening);
  return {};
}

Bytes write_challenge(const Challenge& challenge) {
  MessageWriter writer(MessageKind::kChallenge);
  writer.put(challenge.nonce);
  writer.put(challenge.proof);
  return writer.finish();
}

Status parse_challenge(ByteView bytes, Challenge* out_challenge) {
  MessageReader reader(bytes, MessageKind::kChallenge);
  Challenge challenge;
  challenge.nonce = reader.take_array<32>();
  challenge.proof = reader.take_array<32>();
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_challenge = challenge;
  return {};
}

Bytes write_proof(const Mac& proof) {
  MessageWriter writer(MessageKind::kProof);
  writer.put(proof);
  return writer.finish();
}

Status parse_proof(ByteView bytes, Mac* out_proof) {
  MessageReader reader(bytes, MessageKind::kProof);
  const Mac proof = reader.take_array<32>();
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_proof = proof;
  return {};
}

Bytes write_host_hello(const HostHello& hello) {
  MessageWriter writer(MessageKind::kHostHello);
  writer.put(hello.world);
  writer.put(std::string_view(hello.version));
  put(writer, hello.self);
  return writer.finish();
}

Status parse_host_hello(ByteView bytes, HostHello* out_hello) {
  MessageReader reader(bytes, MessageKind::kHostHello);
  HostHello hello;
  hello.world = reader.take<uint32_t>();
  hello.version = reader.take_text(kMaxVersion, "the version");
  hello.self = take_rank(reader);
  KEEL_RETURN_IF_ERROR(reader.finish());
  reader.check_rank(hello.self.peer.rank, hello.world);
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_hello = std::move(hello);
  return {};
}

Bytes write_host_table(const HostTable& table, const ProcessToken& server) {
  MessageWriter writer(MessageKind::kHostTable);
  writer.put(table.job);
  writer.put(table.epoch);
  writer.put(server);
  writer.put(static_cast<uint32_t>(table.ranks.size()));
  for (const HostRank& rank : table.ranks) put(writer, rank);
  return writer.finish();
}

Status parse_host_table(ByteView bytes, HostTable* out_table, ProcessToken* out_server) {
  constexpr size_t kLeastRank = 108;  // with empty texts
  MessageReader reader(bytes, MessageKind::kHostTable);
  HostTable table;
  table.job = reader.take_token();
  table.epoch = reader.take<uint64_t>();
  const ProcessToken server = reader.take_token();
  const auto world = reader.take<uint32_t>();
  if (world == 0 || world > kMaxWorld || reader.left() < world * kLeastRank) {
    reader.fail(fmt::format("{} ranks do not fit into it", world));
  }
  while (table.ranks.size() < world && reader.left() > 0) {
    table.ranks.push_back(take_rank(reader));
    if (table.ranks.back().peer.rank != table.ranks.size() - 1)
      reader.fail("ranks are out of order");
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (table.ranks.size() != world) reader.fail("ranks are missing");
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_table = std::move(table);
  *out_server = server;
  return {};
}

Bytes write_notice(const Notice& notice) {
  MessageWriter writer(MessageKind::kNotice);
  writer.put(static_cast<uint8_t>(notice.kind));
  writer.put(notice.rank);
  writer.put_status(notice.status, kMaxAnswerText);
  return writer.finish();
}

Status parse_notice(ByteView bytes, Notice* out_notice) {
  MessageReader reader(bytes, MessageKind::kNotice);
  Notice notice;
  const auto kind = reader.take<uint8_t>();
  notice.rank = reader.take<uint32_t>();
  notice.status = reader.take_status(kMaxAnswerText);
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (kind < static_cast<uint8_t>(Notice::Kind::kAlive) ||
      kind > static_cast<uint8_t>(Notice::Kind::kReady)) {
    reader.fail(fmt::format("a notice of kind {}", kind));
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  notice.kind = static_cast<Notice::Kind>(kind);
  *out_notice = std::move(notice);
  return {};
}

Bytes write_regroup_ask(const RegroupAsk& ask) {
  MessageWriter writer(MessageKind::kRegroupAsk);
  writer.put(ask.context);
  writer.put(ask.position);
  writer.put(ask.absent_ns);
  writer.put(static_cast<uint8_t>(ask.withdraws ? 1 : 0));
  put(writer, ask.members);
  return writer.finish();
}

Status parse_regroup_ask(ByteView bytes, RegroupAsk* out_ask) {
  MessageReader reader(bytes, MessageKind::kRegroupAsk);
  RegroupAsk ask;
  ask.context = reader.take<uint64_t>();
  ask.position = reader.take<uint32_t>();
  ask.absent_ns = reader.take<int64_t>();
  const auto withdraws = reader.take<uint8_t>();
  ask.members = take_ranks(reader);
  KEEL_RETURN_IF_ERROR(reader.finish());
  reader.check_rank(ask.position, static_cast<uint32_t>(ask.members.size()));
  if (ask.absent_ns < 0 || withdraws > 1) reader.fail("its time or its kind is impossible");
  KEEL_RETURN_IF_ERROR(reader.finish());
  ask.withdraws = withdraws != 0;
  *out_ask = std::move(ask);
  return {};
}

Bytes write_regroup(const Regroup& regroup) {
  MessageWriter writer(MessageKind::kRegroup);
  writer.put(std::string_view(regroup.id));
  writer.put(regroup.rank);
  put(writer, regroup.left);
  return writer.finish();
}

Status parse_regroup(ByteView bytes, Regroup* out_regroup) {
  MessageReader reader(bytes, MessageKind::kRegroup);
  Regroup regroup;
  regroup.id = reader.take_text(sizeof(keel_unique_id::text) - 1, "the id");
  regroup.rank = reader.take<uint32_t>();
  regroup.left = take_ranks(reader);
  KEEL_RETURN_IF_ERROR(reader.finish());
  reader.check_rank(regroup.rank, static_cast<uint32_t>(regroup.left.size()));
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_regroup = std::move(regroup);
  return {};
}

}  // namespace keel
