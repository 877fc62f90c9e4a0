// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ucx/ucx_peer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "collectives/bootstrap/host_secret.h"

namespace keel {

namespace {

// The kernel's word about the peer, or the job's verdict, may arrive a little later than UCX's.
constexpr int64_t kEndpointGraceNs = 1'000'000'000;
// The connection beside the endpoint may end before the last data has come through UCX.
constexpr int64_t kEndGraceNs = 100'000'000;
constexpr int64_t kFarewellGraceNs = 5'000'000'000;

bool are_same(const UcxKey& a, const UcxKey& b) {
  uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i)
    difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

Deadline earlier(const std::optional<Deadline>& known, const Deadline& other) {
  return known && known->remaining_ns() < other.remaining_ns() ? *known : other;
}

}  // namespace

// ---- connecting -----------------------------------------------------------------

Status UcxPeer::attach(FileDescriptor socket) {
  Nonce nonce;
  KEEL_RETURN_IF_ERROR(draw_nonce(&nonce));
  std::copy_n(nonce.begin(), own_key_.size(), own_key_.begin());
  control_.attach(std::move(socket));
  const ByteView address = shared_.worker.address();
  control_.send(write_ucx_greeting({own_key_, {address.begin(), address.end()}}));
  return {};
}

bool UcxPeer::move_control() {
  const Status moved = control_.move();
  if (!moved.ok() && failure_.ok()) failure_ = moved;
  if (control_.end().ok()) return moved.ok();
  judgement_ =
      earlier(judgement_, Deadline::after(control_.farewell ? kFarewellGraceNs : kEndGraceNs));
  return false;
}

void UcxPeer::open() {
  if (!control_.greeting || !failure_.ok() || !end_.ok() || endpoint_error_) return;
  const bool is_higher = shared_.rank > rank_;
  if (endpoint_ == nullptr) {
    if (is_higher || control_.is_connected) make_endpoint();
  } else if (is_higher && control_.is_connected) {
    send_hello();
    is_open_ = true;
  } else if (has_hello_) {
    is_open_ = true;
  }
}

void UcxPeer::make_endpoint() {
  peer_key_ = control_.greeting->key;
  failure_ = shared_.worker.connect(control_.greeting->address, &on_error, this, &endpoint_);
  control_.greeting->address = {};
  if (!failure_.ok()) return;
  ucx::RequestParam param = {};
  param.op_attr_mask = ucx::RequestParam::kCallback | ucx::RequestParam::kUserData;
  param.callback.send = &on_connected;
  param.user_data = this;
  const ucx::Pending pending = shared_.worker.library()->ep_flush_nbx(endpoint_, &param);
  if (!ucx::is_request(pending)) on_connected(nullptr, ucx::error_of(pending), this);
}

void UcxPeer::on_connected(void* request, ucx::Result result, void* peer) {
  auto& self = *static_cast<UcxPeer*>(peer);
  if (result == ucx::Result::kOk) {
    self.control_.send(write_ucx_connected());
  } else {
    self.break_endpoint(result);
  }
  self.shared_.worker.free(request);
}

// A message that asks for a reply.
void UcxPeer::send_hello() {
  hello_ = {
      .key = peer_key_, .from = shared_.rank, .lane = UcxHeader::kHello, .epoch = shared_.epoch};
  ucx::RequestParam param = {};
  param.op_attr_mask =
      ucx::RequestParam::kCallback | ucx::RequestParam::kUserData | ucx::RequestParam::kFlags;
  param.user_data = this;
  param.callback.send = &on_hello;
  param.flags = ucx::kSendEager | ucx::kSendReply;
  const ucx::Pending pending = shared_.worker.library()->am_send_nbx(
      endpoint_, UcxWorker::kMessageId, &hello_, sizeof(hello_), nullptr, 0, &param);
  if (ucx::is_error(pending)) break_endpoint(ucx::error_of(pending));
}

void UcxPeer::on_hello(void* request, ucx::Result result, void* peer) {
  auto& self = *static_cast<UcxPeer*>(peer);
  if (result != ucx::Result::kOk) self.break_endpoint(result);
  self.shared_.worker.free(request);
}

void UcxPeer::on_error(void* peer, ucx::Endpoint* /*endpoint*/, ucx::Result result) {
  static_cast<UcxPeer*>(peer)->break_endpoint(result);
}

void UcxPeer::break_endpoint(ucx::Result result) {
  if (endpoint_error_) return;
  endpoint_error_ = result;
  judgement_ = earlier(judgement_, Deadline::after(kEndpointGraceNs));
}

int64_t UcxPeer::judges_in_ns() const {
  return judgement_ && posted_ != 0 ? judgement_->remaining_ns() : INT64_MAX;
}

Status UcxPeer::judge() {
  if (!failure_.ok()) return failure_;
  if (!judgement_ || posted_ == 0) return {};
  const Status& end = control_.end();
  bool is_due = judgement_->passed() || (!end.ok() && endpoint_error_);
  if (control_.farewell) {
    // The peer has left: it sends no more, and takes no more.
    for (size_t i = 0; i < lanes_.size(); ++i) {
      const Lane& lane = lanes_[i];
      const uint64_t needed = lane.next_receive + lane.posted_receives;
      is_due = is_due || !lane.sends.is_empty() || needed > control_.farewell->sent[i];
    }
  }
  if (!is_due) return {};
  if (!end.ok()) return end;
  return failure(KEEL_RANK_FAILED, "UCX ended the connection: {}",
                 shared_.worker.library().text(*endpoint_error_));
}

// ---- sending --------------------------------------------------------------------

void UcxPeer::post_send(uint32_t number, WireRequest& request) {
  request.start();
  ++posted_;
  lanes_[number].sends.push(request);
  launch(lanes_[number], number);
}

ucx::RequestParam UcxPeer::param_of(UcxOperation& operation, const void** out_buffer,
                                    size_t* out_count) {
  ucx::RequestParam param = {};
  param.op_attr_mask = ucx::RequestParam::kCallback | ucx::RequestParam::kUserData |
                       ucx::RequestParam::kDatatype | ucx::RequestParam::kMemoryType;
  param.user_data = &operation;
  param.memory_type = ucx::MemoryType::kHost;
  param.datatype = ucx::kBytes;
  *out_buffer = nullptr;
  *out_count = 0;
  const std::span<const iovec> pieces = operation.request->pieces();
  if (operation.header.bytes != 0 && pieces.size() == 1) {
    *out_buffer = pieces[0].iov_base;
    *out_count = pieces[0].iov_len;
  } else if (operation.header.bytes != 0) {
    param.datatype = ucx::kPieces;
    *out_buffer = pieces.data();
    *out_count = pieces.size();
  }
  return param;
}

void UcxPeer::launch(Lane& lane, uint32_t number) {
  while (is_open_ && !endpoint_error_ && !lane.sends.is_empty()) {
    const uint64_t bytes = lane.sends.first->posted_bytes();
    const uint64_t untaken = lane.next_send - lane.taken;
    // In the middle of the window a rendezvous asks how far the receiver is.
    const bool asks = bytes != 0 && lane.rendezvous == 0 && untaken >= kWindow / 2;
    if (bytes != 0 && untaken >= kWindow && !asks) return;
    UcxOperation& operation = shared_.operations.take();
    operation.peer = this;
    operation.request = &lane.sends.pop();
    operation.is_send = true;
    operation.is_rendezvous = bytes > kEagerBytes || asks;
    operation.is_in_flight = true;
    operation.header = {.key = peer_key_,
                        .from = shared_.rank,
                        .lane = number,
                        .epoch = shared_.epoch,
                        .sequence = lane.next_send++,
                        .bytes = bytes,
                        .mark = operation.request->mark()};
    if (operation.is_rendezvous) ++lane.rendezvous;
    ++in_flight_;
    const void* buffer = nullptr;
    size_t count = 0;
    ucx::RequestParam param = param_of(operation, &buffer, &count);
    param.op_attr_mask |= ucx::RequestParam::kFlags;
    param.flags = operation.is_rendezvous ? ucx::kSendRendezvous : ucx::kSendEager;
    param.callback.send = &on_sent;
    const ucx::Pending pending =
        shared_.worker.library()->am_send_nbx(endpoint_, UcxWorker::kMessageId, &operation.header,
                                              sizeof(operation.header), buffer, count, &param);
    if (!ucx::is_request(pending)) on_done(operation, ucx::error_of(pending));
  }
}

void UcxPeer::on_sent(void* request, ucx::Result result, void* user_data) {
  auto& operation = *static_cast<UcxOperation*>(user_data);
  UcxPeer& self = *operation.peer;
  self.on_done(operation, result);
  self.shared_.worker.free(request);
}

void UcxPeer::on_received(void* request, ucx::Result result, size_t /*length*/, void* user_data) {
  on_sent(request, result, user_data);
}

void UcxPeer::on_done(UcxOperation& operation, ucx::Result result) {
  operation.is_in_flight = false;
  --in_flight_;
  if (operation.is_send && operation.is_rendezvous) {
    Lane& lane = lanes_[operation.header.lane];
    --lane.rendezvous;
    if (result == ucx::Result::kOk) {
      lane.taken = std::max(lane.taken, operation.header.sequence + 1);
    }
  }
  if (!end_.ok()) {
    finish(operation, end_);
  } else if (result == ucx::Result::kOk) {
    finish(operation, operation.status);
  } else {
    broken_.push(operation);
    break_endpoint(result);
  }
}

// ---- receiving ------------------------------------------------------------------

void UcxPeer::post_receive(uint32_t number, WireRequest& request) {
  Lane& lane = lanes_[number];
  request.start();
  ++posted_;
  ++lane.posted_receives;
  lane.receives.push(request);
  match(lane);
}

ucx::Result UcxPeer::take_message(const UcxHeader& header, void* data, bool is_rendezvous) {
  // A stranger's message: dropped. The peer knows the key from the authenticated connection.
  if (!control_.is_attached() || !are_same(header.key, own_key_)) return ucx::Result::kOk;
  if (!end_.ok() || !failure_.ok()) return ucx::Result::kOk;
  if (header.lane == UcxHeader::kHello) {
    has_hello_ = true;
    return ucx::Result::kOk;
  }
  Lane& lane = lanes_[std::min<size_t>(header.lane, lanes_.size() - 1)];
  const auto place = std::lower_bound(
      lane.arrivals.begin(), lane.arrivals.end(), header.sequence,
      [](const Arrival& a, uint64_t number) { return a.header.sequence < number; });
  const bool is_known = place != lane.arrivals.end() && place->header.sequence == header.sequence;
  if (header.lane >= lanes_.size() || header.epoch != shared_.epoch || is_known ||
      header.sequence < lane.next_receive) {
    failure_ = failure(KEEL_DATA_LOSS,
                       "a message is malformed: epoch {}, lane {}, sequence {}, {} bytes; expected "
                       "epoch {}, sequence {} or later",
                       header.epoch, header.lane, header.sequence, header.bytes, shared_.epoch,
                       lane.next_receive);
    return ucx::Result::kOk;
  }
  if (!is_rendezvous && header.sequence == lane.next_receive && !lane.receives.is_empty()) {
    ++lane.next_receive;
    --lane.posted_receives;
    give(lane.receives.pop(), header, data);
    return ucx::Result::kOk;
  }
  const bool is_kept = is_rendezvous || header.bytes != 0;
  lane.arrivals.insert(place, {header, is_kept ? data : nullptr, is_rendezvous});
  return is_kept ? ucx::Result::kInProgress : ucx::Result::kOk;
}

void UcxPeer::match(Lane& lane) {
  while (!lane.receives.is_empty() && !lane.arrivals.empty()) {
    const Arrival arrival = lane.arrivals.front();
    if (arrival.header.sequence != lane.next_receive) return;
    // Without an endpoint this rank would not hear of an error that keeps the rest away.
    if (arrival.is_rendezvous && (!is_open_ || endpoint_error_)) return;
    lane.arrivals.erase(lane.arrivals.begin());
    ++lane.next_receive;
    --lane.posted_receives;
    if (arrival.is_rendezvous) {
      start_receive(lane, arrival);
    } else {
      give(lane.receives.pop(), arrival.header, arrival.data);
      release(arrival);
    }
  }
}

void UcxPeer::start_receive(Lane& lane, const Arrival& arrival) {
  UcxOperation& operation = shared_.operations.take();
  operation.peer = this;
  operation.request = &lane.receives.pop();
  operation.header = arrival.header;
  operation.is_send = false;
  operation.is_rendezvous = true;
  operation.is_in_flight = true;
  ++in_flight_;
  WireRequest& request = *operation.request;
  request.note_message(arrival.header.mark, arrival.header.bytes);
  if (request.posted_bytes() != arrival.header.bytes) {
    operation.status = failure(KEEL_INVALID_ARGUMENT, "a message of {} bytes came, not of {}",
                               arrival.header.bytes, request.posted_bytes());
    release(arrival);
    on_done(operation, ucx::Result::kOk);
    return;
  }
  const void* buffer = nullptr;
  size_t count = 0;
  ucx::RequestParam param = param_of(operation, &buffer, &count);
  param.callback.receive = &on_received;
  const ucx::Pending pending = shared_.worker.library()->am_recv_data_nbx(
      shared_.worker.get(), arrival.data, const_cast<void*>(buffer), count, &param);
  if (!ucx::is_request(pending)) on_done(operation, ucx::error_of(pending));
}

void UcxPeer::give(WireRequest& request, const UcxHeader& header, const void* data) {
  request.note_message(header.mark, header.bytes);
  ++shared_.traffic.messages_received;
  shared_.traffic.bytes_received += header.bytes;
  if (request.posted_bytes() != header.bytes) {
    finish(request, failure(KEEL_INVALID_ARGUMENT, "a message of {} bytes came, not of {}",
                            header.bytes, request.posted_bytes()));
    return;
  }
  const auto* from = static_cast<const uint8_t*>(data);
  for (const iovec& piece : request.pieces()) {
    if (piece.iov_len == 0) continue;
    std::memcpy(piece.iov_base, from, piece.iov_len);
    from += piece.iov_len;
  }
  finish(request, Status());
}

void UcxPeer::release(const Arrival& arrival) {
  if (arrival.data == nullptr) return;
  shared_.worker.library()->am_data_release(shared_.worker.get(), arrival.data);
}

Status UcxPeer::move() {
  if (!is_open_) {
    move_control();
    open();
  }
  for (uint32_t number = 0; number < lanes_.size(); ++number) {
    match(lanes_[number]);
    launch(lanes_[number], number);
  }
  return judge();
}

// ---- ending ---------------------------------------------------------------------

void UcxPeer::finish(WireRequest& request, Status status) {
  --posted_;
  request.finish(std::move(status));
}

void UcxPeer::finish(UcxOperation& operation, const Status& status) {
  WireSet::Traffic& traffic = shared_.traffic;
  if (end_.ok() && operation.is_send) {
    ++traffic.messages_sent;
    traffic.bytes_sent += operation.header.bytes;
  } else if (end_.ok()) {
    ++traffic.messages_received;
    traffic.bytes_received += operation.header.bytes;
  }
  finish(*operation.request, status);
  shared_.operations.put(operation);
}

void UcxPeer::end(const Status& why) {
  if (!end_.ok()) return;
  end_ = why;
  for (Lane& lane : lanes_) {
    while (!lane.sends.is_empty()) finish(lane.sends.pop(), why);
    while (!lane.receives.is_empty()) finish(lane.receives.pop(), why);
    lane.posted_receives = 0;
    for (const Arrival& arrival : lane.arrivals) release(arrival);
    lane.arrivals.clear();
  }
  while (!broken_.is_empty()) finish(broken_.pop(), why);
  // Requests stay with UCX until it calls back; other endpoints stay open, since to close them
  // looks to the peers like a failure of this rank.
  if (in_flight_ != 0) close(/*is_forced=*/true);
}

void UcxPeer::abandon(UcxOperation& operation) {
  operation.is_in_flight = false;
  --in_flight_;
  finish(operation, end_);
}

void UcxPeer::say_farewell() {
  if (!control_.is_attached()) return;
  UcxFarewell farewell;
  for (size_t i = 0; i < lanes_.size(); ++i) farewell.sent[i] = lanes_[i].next_send;
  control_.send(write_ucx_farewell(farewell));
}

void UcxPeer::close(bool is_forced) {
  if (endpoint_ == nullptr) return;
  closing_ = shared_.worker.disconnect(std::exchange(endpoint_, nullptr), is_forced);
}

bool UcxPeer::is_closing() {
  if (closing_ == nullptr) return false;
  if (shared_.worker.is_pending(closing_)) return true;
  forget_closing();
  return false;
}

void UcxPeer::forget_closing() {
  shared_.worker.free(std::exchange(closing_, nullptr));
}

}  // namespace keel
