// SPDX-License-Identifier: Apache-2.0
// A relay for the TCP connections of a host's ranks, which pass through the test.
#ifndef KEEL_COLLECTIVES_TESTING_BYTE_RELAY_H_
#define KEEL_COLLECTIVES_TESTING_BYTE_RELAY_H_

#include <poll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/ipc/file_descriptor.h"

namespace keel::testing {

// Carries the bytes of connections within this machine, without privileges. byte_relay.cc defines
// connect(), with which a worker that has called use() connects to the relay in place of 127.0.0.1.
// Kernels still acknowledge all that is sent: PacketSwitch loses packets. Thread-safe.
class ByteRelay {
 public:
  ByteRelay();
  ~ByteRelay();
  ByteRelay(const ByteRelay&) = delete;
  ByteRelay& operator=(const ByteRelay&) = delete;

  // For workers: the argument of use().
  std::string port() const { return std::to_string(port_); }
  static void use(const std::string& port);

  // For both directions.
  void delay(uint32_t milliseconds) { delay_ = milliseconds; }
  // Bytes a millisecond; 0: no limit.
  void slow(uint32_t bytes) { rate_ = bytes; }
  // No byte more goes to the ranks that connected (or to those that were connected to), and no
  // connection is closed.
  void stop(bool is_to_connecting) { (is_to_connecting ? stops_down_ : stops_up_) = true; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Chunk {
    Clock::time_point due;
    std::vector<char> bytes;
    size_t sent = 0;
  };
  // One direction of a connection.
  struct Flow {
    std::deque<Chunk> chunks;
    bool has_ended = false;  // nothing more comes
    bool is_closed = false;  // the end is passed on
    Clock::time_point free;  // when a slow link takes the next chunk
  };
  struct Listening {
    FileDescriptor socket;
    uint16_t target = 0;
  };
  struct Connection {
    std::array<FileDescriptor, 2> ends;  // of the rank that connected, and of the other one
    std::array<Flow, 2> flows;           // from ends[0], from ends[1]
  };

  void run();
  void answer();
  void admit(const Listening& listening);
  bool stops(size_t from) const { return from == 0 ? stops_up_ : stops_down_; }
  // Returns whether bytes wait.
  bool move(Connection& connection, size_t from);

  uint16_t port_ = 0;
  FileDescriptor control_;  // listens at |port_|
  std::deque<Listening> listening_;
  std::deque<Connection> connections_;
  std::atomic<bool> is_over_{false};
  std::atomic<uint32_t> delay_{0};
  std::atomic<uint32_t> rate_{0};
  std::atomic<bool> stops_up_{false};
  std::atomic<bool> stops_down_{false};
  std::thread thread_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_BYTE_RELAY_H_
