// SPDX-License-Identifier: Apache-2.0
// TCP sockets between hosts: settings of users, and failures.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_TCP_SOCKET_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_TCP_SOCKET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/ipc/socket.h"
#include "core/status.h"

namespace keel {

// SocketAddress::parse(): KEEL_INVALID_ARGUMENT, quoting |text|.
Status parse_address(const std::string& text, SocketAddress* out_address);
// SocketAddress::resolve(): KEEL_NOT_FOUND, naming |host|.
Status resolve(const std::string& host, uint16_t port, std::vector<SocketAddress>* out_addresses);
// Whether |host| means the loopback interface if it resolves to it: "localhost" and numbers do. Any
// other name is one of this host, which resolves to a loopback address only here (Debian's
// 127.0.1.1), and other hosts reach it by the address of an interface.
bool names_loopback(const std::string& host);
// SocketAddress::of_interface(): KEEL_NOT_FOUND.
Status interface_address(const std::string& name, SocketAddress* out_address);

// Time without an acknowledgement after which a connection counts as broken: KEEL_TCP_SILENCE_MS,
// 1800 unless set. KEEL_INVALID_ARGUMENT, naming the variable, unless 500 to 3600000.
Status silence_ms(uint32_t* out_ms);
// The same in nanoseconds; 0, none, with a setting that the process has refused before.
int64_t silence_ns();
// No delay of small segments, and keepalive: the kernel ends an idle connection whose host answers
// none of nine probes in a row, which take |silence| ms or nine seconds. Of connections with data
// on the way, SilenceWatch knows.
//
// TCP_USER_TIMEOUT would do both, and accuses hosts that are well: one lost probe ends an idle
// connection, and a peer that acknowledges, but whose process does not read, ends a connection
// whose window is full.
Status set_options(int socket, uint32_t silence);
// While a connection is made: the kernel ends it if the other host acknowledges nothing for |ms|. 0
// ends that.
Status set_connect_limit(int socket, uint32_t ms);

// Listens at |address|; port 0: a free port, or one of KEEL_PORTS=FIRST-LAST where set.
// KEEL_ALREADY_EXISTS when the port is taken, KEEL_NOT_FOUND for an address of another host.
Status listen_tcp(const SocketAddress& address, FileDescriptor* out_socket,
                  SocketAddress* out_bound);
Status own_address(int socket, SocketAddress* out_address);

// Returns the failure of a connection with errno |error|: KEEL_RANK_FAILED for an ended or silent
// one. |error| 0: the peer closed.
Status connection_failure(int error);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_TCP_SOCKET_H_
