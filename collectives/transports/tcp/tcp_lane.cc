// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/tcp/tcp_lane.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "collectives/bootstrap/tcp_socket.h"

namespace keel {

namespace {

constexpr size_t kMostPieces = 64;
constexpr size_t kMostMessages = 8;  // of one sendmsg

// Appends the ranges of |pieces| from byte |skip| on, as far as they fit.
size_t append(std::span<const iovec> pieces, uint64_t skip, iovec* out, size_t count, size_t most) {
  for (const iovec& piece : pieces) {
    if (skip >= piece.iov_len) {
      skip -= piece.iov_len;
      continue;
    }
    if (count == most) break;
    out[count++] = {static_cast<uint8_t*>(piece.iov_base) + skip, piece.iov_len - skip};
    skip = 0;
  }
  return count;
}

// Shortens |pieces| to |most| bytes. Returns how many are left.
size_t cut(std::span<iovec> pieces, uint64_t most) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].iov_len >= most) {
      pieces[i].iov_len = most;
      return i + 1;
    }
    most -= pieces[i].iov_len;
  }
  return pieces.size();
}

}  // namespace

void TcpLane::attach(FileDescriptor socket) {
  socket_ = std::move(socket);
  staging_ = std::make_unique<uint8_t[]>(kStagingBytes);
  silence_ = SilenceWatch(kWireSilences * silence_ns());
}

Status TcpLane::look_for_silence(int64_t now_ns) {
  if (!socket_) return {};
  const SilenceWatch::Acknowledgements acknowledgements = SilenceWatch::read(socket_.get());
  silence_.note_send(now_ns, acknowledgements);
  if (silence_.remaining_ns(now_ns, acknowledgements) != 0) return {};
  return connection_failure(ETIMEDOUT);
}

void TcpLane::post_send(WireRequest& request) {
  if (is_idle()) silence_.restart();
  request.start();
  sends_.push(request);
}

void TcpLane::post_receive(WireRequest& request) {
  if (is_idle()) silence_.restart();
  request.start();
  receives_.push(request);
}

Status TcpLane::move(bool* in_out_has_moved, WireSet::Traffic* traffic) {
  if (!socket_) return {};
  KEEL_RETURN_IF_ERROR(send_some(in_out_has_moved, traffic));
  return receive_some(in_out_has_moved, traffic);
}

Status TcpLane::send_some(bool* in_out_has_moved, WireSet::Traffic* traffic) {
  uint64_t turn = 0;
  while (sends_.first != nullptr && turn < turn_bytes_) {
    std::array<FrameHeader, kMostMessages> headers;
    std::array<iovec, kMostPieces> pieces;
    size_t count = 0;
    size_t messages = 0;
    uint64_t skip = sent_;
    for (WireRequest* each = sends_.first;
         each != nullptr && messages < kMostMessages && count + 1 < kMostPieces;
         each = each->next_) {
      FrameHeader& header = headers[messages];
      header = {.lane = lane_,
                .epoch = epoch_,
                .sequence = send_sequence_ + messages,
                .bytes = each->posted_bytes(),
                .mark = each->mark()};
      ++messages;
      if (skip < sizeof(header)) {
        pieces[count++] = {reinterpret_cast<uint8_t*>(&header) + skip, sizeof(header) - skip};
        skip = sizeof(header);
      }
      const size_t before = count;
      count = append(each->pieces(), skip - sizeof(header), pieces.data(), count, kMostPieces);
      skip = 0;
      // A message of more pieces than fit goes alone, and in several calls.
      if (count - before < each->pieces().size() && count == kMostPieces) break;
    }
    count = cut(std::span(pieces).first(count), turn_bytes_);
    const ssize_t put = sockets::send(socket_.get(), std::span(pieces).first(count), MSG_DONTWAIT);
    if (put < 0) return errno == EAGAIN ? Status() : connection_failure(errno);
    *in_out_has_moved = true;
    turn += static_cast<uint64_t>(put);
    uint64_t left = static_cast<uint64_t>(put) + sent_;
    while (sends_.first != nullptr) {
      const uint64_t bytes = sends_.first->posted_bytes();
      if (left < sizeof(FrameHeader) + bytes) break;
      left -= sizeof(FrameHeader) + bytes;
      ++send_sequence_;
      ++traffic->messages_sent;
      traffic->bytes_sent += bytes;
      sends_.pop().finish(Status());
    }
    sent_ = left;
  }
  return {};
}

Status TcpLane::read_into(iovec* pieces, size_t count, size_t* out_read) {
  const ssize_t got = sockets::receive(socket_.get(), std::span(pieces, count), MSG_DONTWAIT);
  if (got == 0) return connection_failure(0);
  if (got < 0 && errno != EAGAIN) return connection_failure(errno);
  *out_read = got < 0 ? 0 : static_cast<size_t>(got);
  return {};
}

Status TcpLane::take_header(WireRequest& request) {
  FrameHeader header;
  std::memcpy(&header, staging_.get() + staged_begin_, sizeof(header));
  staged_begin_ += sizeof(header);
  if (header.magic != FrameHeader::kMagic || header.lane != lane_ || header.epoch != epoch_ ||
      header.sequence != receive_sequence_ || header.bytes > kMaxFrameBytes) {
    return failure(KEEL_DATA_LOSS,
                   "a frame is malformed: epoch {}, lane {}, sequence {}, {} bytes; expected epoch "
                   "{}, lane {}, sequence {}",
                   header.epoch, header.lane, header.sequence, header.bytes, epoch_, lane_,
                   receive_sequence_);
  }
  has_header_ = true;
  message_bytes_ = header.bytes;
  received_ = 0;
  is_discarded_ = header.bytes != request.posted_bytes();
  request.note_message(header.mark, header.bytes);
  return {};
}

void TcpLane::take_staged(WireRequest& request) {
  uint64_t bytes = std::min<uint64_t>(staged_end_ - staged_begin_, message_bytes_ - received_);
  if (is_discarded_) {
    staged_begin_ += bytes;
    received_ += bytes;
    return;
  }
  while (bytes != 0) {
    iovec piece = {};
    append(request.pieces(), received_, &piece, 0, 1);
    const size_t part = std::min<uint64_t>(bytes, piece.iov_len);
    std::memcpy(piece.iov_base, staging_.get() + staged_begin_, part);
    staged_begin_ += part;
    received_ += part;
    bytes -= part;
  }
}

Status TcpLane::receive_some(bool* in_out_has_moved, WireSet::Traffic* traffic) {
  uint64_t turn = 0;
  while (receives_.first != nullptr && turn < turn_bytes_) {
    WireRequest& request = *receives_.first;
    if (!has_header_ && staged_end_ - staged_begin_ >= sizeof(FrameHeader)) {
      KEEL_RETURN_IF_ERROR(take_header(request));
    }
    if (has_header_) {
      take_staged(request);
      if (received_ == message_bytes_) {
        const bool fits = !is_discarded_;
        has_header_ = false;
        ++receive_sequence_;
        ++traffic->messages_received;
        traffic->bytes_received += message_bytes_;
        *in_out_has_moved = true;
        WireRequest& done = receives_.pop();
        done.finish(fits ? Status()
                         : failure(KEEL_INVALID_ARGUMENT, "a message of {} bytes came, not of {}",
                                   message_bytes_, done.posted_bytes()));
        continue;
      }
    }
    // All staged bytes are used, or are the start of a header.
    std::array<iovec, kMostPieces> pieces;
    size_t count = 0;
    uint64_t direct = 0;
    if (has_header_) {
      staged_begin_ = staged_end_ = 0;
      const uint64_t left = message_bytes_ - received_;
      if (!is_discarded_) {
        count = append(request.pieces(), received_, pieces.data(), 0, kMostPieces - 1);
        for (size_t i = 0; i < count; ++i) direct += pieces[i].iov_len;
      }
      // Bytes behind the message only if the message itself fits into this read.
      if (is_discarded_) {
        pieces[count++] = {staging_.get(), std::min<uint64_t>(left, kStagingBytes)};
      } else if (direct == left) {
        pieces[count++] = {staging_.get(), kStagingBytes};
      }
    } else {
      if (staged_begin_ != 0) {
        std::memmove(staging_.get(), staging_.get() + staged_begin_, staged_end_ - staged_begin_);
        staged_end_ -= staged_begin_;
        staged_begin_ = 0;
      }
      pieces[count++] = {staging_.get() + staged_end_, kStagingBytes - staged_end_};
    }
    size_t got = 0;
    KEEL_RETURN_IF_ERROR(read_into(pieces.data(), count, &got));
    if (got == 0) return {};
    *in_out_has_moved = true;
    turn += got;
    const uint64_t placed = std::min<uint64_t>(got, direct);
    received_ += placed;
    staged_end_ += got - placed;
  }
  return {};
}

void TcpLane::end_requests(const Status& why) {
  while (sends_.first != nullptr) sends_.pop().finish(why);
  while (receives_.first != nullptr) receives_.pop().finish(why);
}

}  // namespace keel
