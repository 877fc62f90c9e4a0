// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/messages.h"

#include <string_view>
#include <utility>

#include "collectives/bootstrap/message_codec.h"

namespace keel {

Bytes write_request(const ObjectId& id) {
  MessageWriter writer(MessageKind::kRequest);
  writer.put(id.device);
  writer.put(id.inode);
  return writer.finish();
}

Status parse_request(ByteView bytes, ObjectId* out_id) {
  MessageReader reader(bytes, MessageKind::kRequest);
  ObjectId id;
  id.device = reader.take<uint64_t>();
  id.inode = reader.take<uint64_t>();
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_id = id;
  return {};
}

Bytes write_hold() {
  return MessageWriter(MessageKind::kHold).finish();
}

Status parse_hold(ByteView bytes) {
  return MessageReader(bytes, MessageKind::kHold).finish();
}

Bytes write_hello(const Hello& hello) {
  MessageWriter writer(MessageKind::kHello);
  writer.put(hello.world);
  writer.put(hello.self);
  writer.put(hello.pid_namespace);
  return writer.finish();
}

Status parse_hello(ByteView bytes, Hello* out_hello) {
  MessageReader reader(bytes, MessageKind::kHello);
  Hello hello;
  hello.world = reader.take<uint32_t>();
  hello.self = reader.take_peer_info();
  hello.pid_namespace = reader.take<uint64_t>();
  KEEL_RETURN_IF_ERROR(reader.finish());
  reader.check_rank(hello.self.rank, hello.world);
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_hello = std::move(hello);
  return {};
}

Bytes write_question() {
  return MessageWriter(MessageKind::kQuestion).finish();
}

Status parse_question(ByteView bytes) {
  return MessageReader(bytes, MessageKind::kQuestion).finish();
}

Bytes write_answer(const Status& status) {
  MessageWriter writer(MessageKind::kAnswer);
  writer.put_status(status, kMaxAnswerText);
  return writer.finish();
}

Status parse_answer(ByteView bytes, Status* out_status) {
  MessageReader reader(bytes, MessageKind::kAnswer);
  Status status = reader.take_status(kMaxAnswerText);
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_status = std::move(status);
  return {};
}

Bytes write_roster(const std::vector<PeerInfo>& peer_infos) {
  MessageWriter writer(MessageKind::kRoster);
  writer.put(static_cast<uint32_t>(peer_infos.size()));
  for (const PeerInfo& peer_info : peer_infos) writer.put(peer_info);
  return writer.finish();
}

Status parse_roster(ByteView bytes, std::vector<PeerInfo>* out_peer_infos) {
  constexpr size_t kLeastPeerInfo = 84;  // with an empty device name
  MessageReader reader(bytes, MessageKind::kRoster);
  const auto world = reader.take<uint32_t>();
  std::vector<PeerInfo> peer_infos;
  if (world > kMaxWorld || reader.left() < world * kLeastPeerInfo) {
    reader.fail(fmt::format("{} ranks do not fit into it", world));
  } else {
    peer_infos.reserve(world);
  }
  while (peer_infos.size() < world && reader.left() > 0) {
    peer_infos.push_back(reader.take_peer_info());
    reader.check_rank(peer_infos.back().rank, world);
    if (peer_infos.back().rank != peer_infos.size() - 1) reader.fail("ranks are out of order");
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (peer_infos.empty() || peer_infos.size() != world) reader.fail("ranks are missing");
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_peer_infos = std::move(peer_infos);
  return {};
}

}  // namespace keel
