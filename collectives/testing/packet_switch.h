// SPDX-License-Identifier: Apache-2.0
// A network of hosts in namespaces of this machine, whose packets pass through the test.
#ifndef KEEL_COLLECTIVES_TESTING_PACKET_SWITCH_H_
#define KEEL_COLLECTIVES_TESTING_PACKET_SWITCH_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "base/ipc/file_descriptor.h"

namespace keel::testing {

// Each host is a network namespace with a TUN interface; a thread carries the packets from one to
// another, loses a part of them, and delays those of a slow link. Wants root and /dev/net/tun, not
// netem, which many kernels lack. Thread-safe.
class PacketSwitch {
 public:
  // The reason why this process cannot make the network; empty if it can.
  static std::string why_not();

  explicit PacketSwitch(uint32_t hosts);
  ~PacketSwitch();
  PacketSwitch(const PacketSwitch&) = delete;
  PacketSwitch& operator=(const PacketSwitch&) = delete;

  // For workers: the argument of enter().
  std::string namespace_of(uint32_t host) const;
  // For workers: continues in the namespace of a host, before other threads start. False: cannot.
  static bool enter(const std::string& path);
  static std::string address_of(uint32_t host) { return "10.98.0." + std::to_string(host + 1); }

  // Renames the interface of a host from "wire" to |name|; the connections remain. Returns the
  // reason why not; empty on success.
  std::string rename_interface(uint32_t host, const std::string& name);
  // The link loses, in one direction, so many packets of 1000.
  void lose(uint32_t from, uint32_t to, uint32_t per_mille) { link(from, to).loss = per_mille; }
  // The link carries, in one direction, so many bytes a millisecond; 0: no limit.
  void slow(uint32_t from, uint32_t to, uint32_t bytes) { link(from, to).rate = bytes; }
  uint64_t lost() const { return lost_.load(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    Clock::time_point due;
    std::vector<char> packet;
  };
  struct Link {
    std::atomic<uint32_t> loss{0};
    std::atomic<uint32_t> rate{0};
    std::deque<Waiting> waiting;  // of the thread
  };
  struct Host {
    FileDescriptor space;
    FileDescriptor tun;
  };

  static std::string make(uint32_t number, Host* out_host);
  Link& link(uint32_t from, uint32_t to) { return links_[from * hosts_.size() + to]; }
  void run();
  void take(uint32_t from);
  // Returns the milliseconds until a packet of a slow link is due, up to 100.
  int deliver();
  uint64_t draw();

  std::vector<Host> hosts_;
  std::deque<Link> links_;
  std::atomic<bool> is_over_{false};
  std::atomic<uint64_t> lost_{0};
  uint64_t state_ = 1;  // of the random numbers, the same in each run
  std::thread thread_;
};

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_PACKET_SWITCH_H_
