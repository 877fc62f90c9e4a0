// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/store_messages.h"

#include <utility>

#include "collectives/bootstrap/message_codec.h"

namespace keel {

namespace {

constexpr uint32_t kMaxPlaceText = 64;

void put_lifeline(MessageWriter& writer, const Lifeline& lifeline) {
  writer.put(lifeline.number);
  writer.put(lifeline.pipe.device);
  writer.put(lifeline.pipe.inode);
}

Lifeline take_lifeline(MessageReader& reader) {
  Lifeline lifeline;
  lifeline.number = reader.take<int32_t>();
  lifeline.pipe.device = reader.take<uint64_t>();
  lifeline.pipe.inode = reader.take<uint64_t>();
  return lifeline;
}

}  // namespace

Bytes write_store_arrival(const StoreArrival& arrival) {
  MessageWriter writer(MessageKind::kStoreArrival);
  writer.put(arrival.ticket);
  writer.put(arrival.world);
  writer.put(arrival.self);
  writer.put(std::string_view(arrival.place.host));
  writer.put(std::string_view(arrival.place.boot));
  writer.put(arrival.place.pid_namespace);
  writer.put(arrival.place.net_namespace);
  put_lifeline(writer, arrival.lifeline);
  return writer.finish();
}

Status parse_store_arrival(ByteView bytes, StoreArrival* out_arrival) {
  MessageReader reader(bytes, MessageKind::kStoreArrival);
  StoreArrival arrival;
  arrival.ticket = reader.take_token();
  arrival.world = reader.take<uint32_t>();
  arrival.self = reader.take_peer_info();
  arrival.place.host = reader.take_text(kMaxPlaceText, "the host's id");
  arrival.place.boot = reader.take_text(kMaxPlaceText, "the boot id");
  arrival.place.pid_namespace = reader.take<uint64_t>();
  arrival.place.net_namespace = reader.take<uint64_t>();
  arrival.lifeline = take_lifeline(reader);
  KEEL_RETURN_IF_ERROR(reader.finish());
  reader.check_rank(arrival.self.rank, arrival.world);
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_arrival = std::move(arrival);
  return {};
}

Bytes write_store_roster(const StoreRoster& roster) {
  MessageWriter writer(MessageKind::kStoreRoster);
  writer.put(std::string_view(roster.id));
  writer.put(roster.segment.device);
  writer.put(roster.segment.inode);
  writer.put(static_cast<uint32_t>(roster.ranks.size()));
  for (const StoreRoster::Rank& rank : roster.ranks) {
    writer.put(rank.ticket);
    writer.put(rank.peer);
    writer.put(rank.net_namespace);
    put_lifeline(writer, rank.lifeline);
  }
  return writer.finish();
}

Status parse_store_roster(ByteView bytes, StoreRoster* out_roster) {
  MessageReader reader(bytes, MessageKind::kStoreRoster);
  StoreRoster roster;
  roster.id = reader.take_text(sizeof(keel_unique_id) - 1, "the rendezvous id");
  roster.segment.device = reader.take<uint64_t>();
  roster.segment.inode = reader.take<uint64_t>();
  const auto world = reader.take<uint32_t>();
  if (world > kMaxWorld) reader.fail(fmt::format("a world of {} ranks", world));
  while (roster.ranks.size() < world && reader.left() > 0) {
    StoreRoster::Rank& rank = roster.ranks.emplace_back();
    rank.ticket = reader.take_token();
    rank.peer = reader.take_peer_info();
    rank.net_namespace = reader.take<uint64_t>();
    rank.lifeline = take_lifeline(reader);
    if (rank.peer.rank != roster.ranks.size() - 1) reader.fail("ranks are out of order");
  }
  KEEL_RETURN_IF_ERROR(reader.finish());
  if (roster.ranks.empty() || roster.ranks.size() != world) reader.fail("ranks are missing");
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_roster = std::move(roster);
  return {};
}

Bytes write_store_report(const StoreReport& report) {
  MessageWriter writer(MessageKind::kStoreReport);
  writer.put(report.ticket);
  writer.put_status(report.result, kMaxAnswerText);
  return writer.finish();
}

Status parse_store_report(ByteView bytes, StoreReport* out_report) {
  MessageReader reader(bytes, MessageKind::kStoreReport);
  StoreReport report;
  report.ticket = reader.take_token();
  report.result = reader.take_status(kMaxAnswerText);
  KEEL_RETURN_IF_ERROR(reader.finish());
  *out_report = std::move(report);
  return {};
}

}  // namespace keel
