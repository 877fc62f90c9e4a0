// SPDX-License-Identifier: Apache-2.0
// Fuzzes the bootstrap messages between ranks, and unique ids.
#include <algorithm>
#include <cstring>

#include "collectives/bootstrap/bootstrap_address.h"
#include "collectives/bootstrap/messages.h"

namespace {

// An accepted message is written as it was read.
void expect_same(const keel::Bytes& written, keel::ByteView read) {
  if (!std::equal(written.begin(), written.end(), read.begin(), read.end())) __builtin_trap();
}

void read_id(keel::ByteView bytes) {
  keel_unique_id id = {};
  std::memcpy(id.text, bytes.data(), std::min(bytes.size(), sizeof(id.text)));
  keel::BootstrapAddress place;
  if (!keel::BootstrapAddress::parse(id, &place).ok()) return;
  if (std::strcmp(place.id().text, id.text) != 0) __builtin_trap();
  if (place.socket_name().size() > 107) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const keel::ByteView bytes(data, size);
  keel::ObjectId object;
  if (keel::parse_request(bytes, &object).ok()) expect_same(keel::write_request(object), bytes);
  if (keel::parse_hold(bytes).ok()) expect_same(keel::write_hold(), bytes);
  keel::Hello hello;
  if (keel::parse_hello(bytes, &hello).ok()) {
    if (hello.self.rank >= hello.world) __builtin_trap();
    expect_same(keel::write_hello(hello), bytes);
  }
  if (keel::parse_question(bytes).ok()) expect_same(keel::write_question(), bytes);
  keel::Status answer;
  if (keel::parse_answer(bytes, &answer).ok()) expect_same(keel::write_answer(answer), bytes);
  std::vector<keel::PeerInfo> peer_infos;
  if (keel::parse_roster(bytes, &peer_infos).ok()) {
    expect_same(keel::write_roster(peer_infos), bytes);
  }
  if (size != 0) read_id(bytes);
  return 0;
}
