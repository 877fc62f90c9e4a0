// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/silence_watch.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>

#include "base/ipc/socket.h"

namespace keel {

namespace {

constexpr int64_t kMillisecond = 1'000'000;

}  // namespace

SilenceWatch::Acknowledgements SilenceWatch::read(int socket) {
  tcp_info info = {};
  if (sockets::get_option(socket, IPPROTO_TCP, TCP_INFO, &info) != 0) return {};
  return {info.tcpi_unacked == 0, info.tcpi_last_ack_recv * kMillisecond};
}

int64_t SilenceWatch::remaining_ns(int64_t now_ns, const Acknowledgements& acknowledgements) const {
  if (limit_ns_ == 0 || !sent_ns_ || acknowledgements.is_all_acknowledged) return INT64_MAX;
  const int64_t silent = std::min(now_ns - *sent_ns_, acknowledgements.since_last_ns);
  return std::max<int64_t>(0, limit_ns_ - silent);
}

}  // namespace keel
