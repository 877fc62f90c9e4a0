// SPDX-License-Identifier: Apache-2.0
#include "collectives/testing/packet_switch.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace keel::testing {

namespace {

constexpr size_t kMostBytes = 1500;
constexpr size_t kMostWaiting = 64;  // packets of a slow link; further ones are lost

ifreq request_of(const char* name) {
  ifreq request = {};
  std::strncpy(request.ifr_name, name, sizeof(request.ifr_name) - 1);
  return request;
}

bool set_address(int socket, unsigned long what, const std::string& address) {
  ifreq request = request_of("wire");
  auto& wanted = reinterpret_cast<sockaddr_in&>(request.ifr_addr);
  wanted.sin_family = AF_INET;
  inet_pton(AF_INET, address.c_str(), &wanted.sin_addr);
  return ioctl(socket, what, &request) == 0;
}

bool raise_interface(int socket, const char* name) {
  ifreq request = request_of(name);
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  return ioctl(socket, SIOCSIFFLAGS, &request) == 0;
}

// Shows the thread the interfaces of its network namespace in /sys, where UCX looks for them.
bool show_interfaces() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("keel", "/sys", "sysfs", 0, nullptr) == 0;
}

}  // namespace

std::string PacketSwitch::why_not() {
  Host host;
  return make(0, &host);
}

// On a thread of its own, since the namespace is the thread's.
std::string PacketSwitch::make(uint32_t number, Host* out_host) {
  std::string problem;
  std::thread([&] {
    const auto failed = [&](const char* what) {
      problem = std::string(what) + ": " + std::strerror(errno);
    };
    if (unshare(CLONE_NEWNET) != 0) return failed("a network namespace (root)");
    if (!show_interfaces()) return failed("/sys of a network namespace");
    out_host->space = FileDescriptor(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
    out_host->tun = FileDescriptor(open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (!out_host->tun) return failed("/dev/net/tun");
    ifreq request = request_of("wire");
    request.ifr_flags = IFF_TUN | IFF_NO_PI;
    if (ioctl(out_host->tun.get(), TUNSETIFF, &request) != 0) return failed("TUNSETIFF");
    const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!set_address(socket.get(), SIOCSIFADDR, address_of(number)) ||
        !set_address(socket.get(), SIOCSIFNETMASK, "255.255.255.0") ||
        !raise_interface(socket.get(), "wire") || !raise_interface(socket.get(), "lo")) {
      failed("the interface of a namespace");
    }
  }).join();
  return problem;
}

PacketSwitch::PacketSwitch(uint32_t hosts) : hosts_(hosts), links_(hosts * hosts) {
  for (uint32_t host = 0; host < hosts; ++host) make(host, &hosts_[host]);
  thread_ = std::thread([this] { run(); });
}

PacketSwitch::~PacketSwitch() {
  is_over_ = true;
  thread_.join();
}

std::string PacketSwitch::namespace_of(uint32_t host) const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(hosts_[host].space.get());
}

std::string PacketSwitch::rename_interface(uint32_t host, const std::string& name) {
  std::string problem;
  std::thread([&] {
    if (!enter(namespace_of(host))) {
      problem = "setns";
      return;
    }
    const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request = request_of("wire");
    std::strncpy(request.ifr_newname, name.c_str(), sizeof(request.ifr_newname) - 1);
    int error = ioctl(socket.get(), SIOCSIFNAME, &request) == 0 ? 0 : errno;
    if (error == EBUSY) {  // before Linux 6.2, only an interface that is down gets another name
      ifreq down = request_of("wire");
      ioctl(socket.get(), SIOCSIFFLAGS, &down);
      error = ioctl(socket.get(), SIOCSIFNAME, &request) == 0 ? 0 : errno;
      raise_interface(socket.get(), error == 0 ? name.c_str() : "wire");
    }
    if (error != 0) problem = std::strerror(error);
  }).join();
  return problem;
}

bool PacketSwitch::enter(const std::string& path) {
  const FileDescriptor space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return space && setns(space.get(), CLONE_NEWNET) == 0 && show_interfaces();
}

void PacketSwitch::run() {
  std::vector<pollfd> polled;
  for (const Host& each : hosts_) polled.push_back({each.tun.get(), POLLIN, 0});
  while (!is_over_) {
    if (poll(polled.data(), polled.size(), deliver()) <= 0) continue;
    for (uint32_t host = 0; host < polled.size(); ++host) {
      if (polled[host].revents != 0) take(host);
    }
  }
}

uint64_t PacketSwitch::draw() {
  state_ += 0x9e3779b97f4a7c15;
  uint64_t value = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
  return value ^ (value >> 31);
}

void PacketSwitch::take(uint32_t from) {
  constexpr int kMostAtOnce = 64;
  char packet[kMostBytes];
  for (int i = 0; i < kMostAtOnce; ++i) {
    const ssize_t got = read(hosts_[from].tun.get(), packet, sizeof(packet));
    constexpr ssize_t kHeader = 20;
    if (got < kHeader) return;
    constexpr size_t kDestination = 19;  // last byte of the address in an IPv4 header
    const auto to = static_cast<uint8_t>(packet[kDestination]) - 1u;
    if (packet[0] >> 4 != 4 || to >= hosts_.size()) continue;
    Link& way = link(from, to);
    if (draw() % 1000 < way.loss || way.waiting.size() >= kMostWaiting) {
      ++lost_;
      continue;
    }
    const uint32_t rate = way.rate;
    if (rate == 0 && way.waiting.empty()) {
      if (write(hosts_[to].tun.get(), packet, static_cast<size_t>(got)) < 0) ++lost_;
      continue;
    }
    const Clock::time_point begin =
        way.waiting.empty() ? Clock::now() : std::max(Clock::now(), way.waiting.back().due);
    const auto time = std::chrono::microseconds(rate == 0 ? 0 : got * 1000 / rate);
    way.waiting.push_back({begin + time, {packet, packet + got}});
  }
}

int PacketSwitch::deliver() {
  const Clock::time_point now = Clock::now();
  Clock::time_point next = now + std::chrono::milliseconds(100);
  for (uint32_t i = 0; i < links_.size(); ++i) {
    std::deque<Waiting>& waiting = links_[i].waiting;
    for (; !waiting.empty() && waiting.front().due <= now; waiting.pop_front()) {
      const std::vector<char>& packet = waiting.front().packet;
      if (write(hosts_[i % hosts_.size()].tun.get(), packet.data(), packet.size()) < 0) ++lost_;
    }
    if (!waiting.empty()) next = std::min(next, waiting.front().due);
  }
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(next - now).count());
}

}  // namespace keel::testing
