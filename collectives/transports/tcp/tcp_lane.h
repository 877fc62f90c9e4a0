// SPDX-License-Identifier: Apache-2.0
// One connection of a wire: frames in both directions.
#ifndef KEEL_COLLECTIVES_TRANSPORTS_TCP_TCP_LANE_H_
#define KEEL_COLLECTIVES_TRANSPORTS_TCP_TCP_LANE_H_

#include <array>
#include <cstdint>
#include <memory>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/silence_watch.h"
#include "collectives/transports/wire.h"
#include "collectives/transports/wire_queue.h"
#include "core/status.h"

namespace keel {

// In front of each message. Little-endian, as all hosts of Keel.
struct FrameHeader {
  static constexpr uint32_t kMagic = 0x4d52464b;  // "KFRM"
  uint32_t magic = kMagic;
  uint32_t lane = 0;
  uint64_t epoch = 0;
  uint64_t sequence = 0;
  uint64_t bytes = 0;
  WireMark mark = {};
};
static_assert(sizeof(FrameHeader) == 48);

// Longest message: a header with more is malformed.
inline constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 40;

// Queues of posted requests and their progress over a nonblocking socket. Bytes go straight from
// and into the memory of the requests; only what arrives in front of a receive of up to
// kStagingBytes passes through a buffer, so that many short messages cost one system call. For one
// thread; allocates at construction and attach() only.
class TcpLane {
 public:
  // |turn_bytes|: see kTurnBytes and kSmallTurnBytes.
  TcpLane(uint32_t peer, uint32_t lane, uint64_t epoch, uint64_t turn_bytes)
      : peer_(peer), lane_(lane), epoch_(epoch), turn_bytes_(turn_bytes) {}

  uint32_t peer() const { return peer_; }
  bool is_attached() const { return static_cast<bool>(socket_); }
  // Takes the connected, authenticated socket.
  void attach(FileDescriptor socket);
  int socket() const { return socket_.get(); }

  void post_send(WireRequest& request);
  void post_receive(WireRequest& request);
  bool is_idle() const { return sends_.first == nullptr && receives_.first == nullptr; }
  // Moves what can be moved at once, some |turn_bytes| in each direction. Ends requests. A failure
  // leaves the requests posted.
  Status move(bool* in_out_has_moved, WireSet::Traffic* traffic);
  // Call from time to time while requests are posted. A failure: data is on the way, and the other
  // host has acknowledged nothing for kWireSilences times silence_ms().
  Status look_for_silence(int64_t now_ns);
  // Ends all posted requests with |why|. The lane must not move() again.
  void end_requests(const Status& why);

  static constexpr size_t kStagingBytes = 16384;
  // Bytes of one direction before the other has its turn.
  static constexpr uint64_t kTurnBytes = 4 << 20;
  // Same, between ranks of one machine, and the most of one sendmsg there. What a longer call
  // leaves in the socket is sent by the peer's processor as it acknowledges, in competition with
  // this rank's calls: over veth TCP's backlog grows 4 to 13 times as long, and by BBR segments
  // overtake each other, so that TCP repeats some and shrinks its window. 2 MiB in each direction,
  // us: 830 to 1550 at once and in turns of 64 KiB and more, 525 to 560 in turns of 32 to 44 KiB,
  // 850 of 16 KiB, by BBR and by CUBIC (2 cores, Granite Rapids, Linux 6.18). 4 ranks on 2 cores,
  // all_reduce of 64 MiB by turns of 4 MiB and of 40 KiB, ms: 139 and 89 over veth, 79 and 76 over
  // loopback.
  static constexpr uint64_t kSmallTurnBytes = 40 << 10;

 private:
  Status send_some(bool* in_out_has_moved, WireSet::Traffic* traffic);
  Status receive_some(bool* in_out_has_moved, WireSet::Traffic* traffic);
  Status take_header(WireRequest& request);
  // Copies staged bytes of the message into |request|.
  void take_staged(WireRequest& request);
  // |*out_count| 0: the socket has nothing now.
  Status read_into(iovec* pieces, size_t count, size_t* out_read);

  const uint32_t peer_;
  const uint32_t lane_;
  const uint64_t epoch_;
  const uint64_t turn_bytes_;
  FileDescriptor socket_;
  SilenceWatch silence_{0};
  WireQueue sends_;
  WireQueue receives_;
  uint64_t send_sequence_ = 0;
  uint64_t sent_ = 0;  // bytes of the first send, with its header
  uint64_t receive_sequence_ = 0;
  bool has_header_ = false;
  uint64_t message_bytes_ = 0;  // of the first receive, with its header
  uint64_t received_ = 0;       // of |message_bytes_|
  bool is_discarded_ = false;   // the message does not fit the memory
  std::unique_ptr<uint8_t[]> staging_;
  size_t staged_begin_ = 0;
  size_t staged_end_ = 0;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_TRANSPORTS_TCP_TCP_LANE_H_
