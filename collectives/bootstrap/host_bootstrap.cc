// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/host_bootstrap.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

#include "collectives/bootstrap/host_interfaces.h"
#include "collectives/bootstrap/host_secret.h"
#include "collectives/bootstrap/host_server.h"
#include "collectives/bootstrap/message_codec.h"
#include "collectives/bootstrap/namespaces.h"
#include "collectives/bootstrap/processors.h"
#include "collectives/bootstrap/tcp_id.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "collectives/flight/flight_clock.h"
#include "core/plugin_file.h"

namespace keel {

// Text that messages would refuse counts as its printable beginning.
std::string given_host_id() {
  const char* const given = trusted_environment("KEEL_HOST_ID");
  if (given == nullptr) return {};
  std::string text(std::string_view(given).substr(0, kMaxHostKey));
  for (char& each : text) {
    if (!is_printable({&each, 1})) each = '?';
  }
  return text;
}

std::string host_key() {
  std::string key = given_host_id();
  if (!key.empty()) return key;
  ProcessToken token;
  // A host without OpenSSL's hash has no key, and counts as one with its processes alone.
  const std::string whole = fmt::format("host {} {} {} {}", boot_id(), namespace_number("net"),
                                        namespace_number("ipc"), namespace_number("pid"));
  if (!job_token(whole, &token).ok()) return fmt::format("process-{}", getpid());
  return token.hex();
}

std::string host_name() {
  std::string given = given_host_id();
  if (!given.empty()) return given;
  std::array<char, 256> name = {};
  if (gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  std::string text = name.data();
  for (char& each : text) {
    if (!is_printable({&each, 1})) each = '?';
  }
  return text;
}

std::string HostRank::name() const {
  return fmt::format("rank {} ({}, process {} on host '{}')", peer.rank, peer.device, peer.pid,
                     host_name);
}

std::vector<std::vector<uint32_t>> HostTable::hosts() const {
  std::vector<std::vector<uint32_t>> found;
  std::map<std::string_view, size_t> known;
  for (const HostRank& each : ranks) {
    const auto [host, is_new] = known.emplace(each.host, found.size());
    if (is_new) found.emplace_back();
    found[host->second].push_back(each.peer.rank);
  }
  return found;
}

std::vector<uint32_t> HostTable::on_machine_of(uint32_t rank) const {
  std::vector<uint32_t> found;
  for (const HostRank& each : ranks) {
    const auto& boot = each.peer.chip.boot;
    const bool is_known = boot != decltype(PeerChip::boot){};
    const bool is_here = is_known && boot == ranks.at(rank).peer.chip.boot;
    if (is_here || each.peer.rank == rank) found.push_back(each.peer.rank);
  }
  return found;
}

bool HostTable::have_few_processors(const std::vector<uint32_t>& of_machine) const {
  std::vector<std::string> sets;
  for (const uint32_t each : of_machine) sets.push_back(ranks[each].processors);
  return are_oversubscribed(sets);
}

Status HostTable::check_wires() const {
  for (const HostRank& each : ranks) {
    if (each.wire == ranks[0].wire) continue;
    return failure(
        KEEL_INVALID_ARGUMENT,
        "{} uses the wire '{}', {} uses '{}': all hosts need the same KEEL_WIRE, and the "
        "same version of UCX",
        each.name(), each.wire, ranks[0].name(), ranks[0].wire);
  }
  return {};
}

std::string HostTable::local_name(uint32_t rank) const {
  return fmt::format("hosts:{}:{}:{}", job.hex(), epoch, ranks.at(rank).host);
}

Status HostSession::regroup(const RegroupRequest&, const Deadline&, RegroupPlace*) {
  return {KEEL_UNSUPPORTED, "this session cannot go on without ranks that failed"};
}

Status HostSession::commit(const Deadline&) {
  return {KEEL_UNSUPPORTED, "this session cannot go on without ranks that failed"};
}

Status HostSession::find_present(uint32_t, uint64_t, const Deadline&) {
  return {KEEL_UNSUPPORTED, "this session cannot go on without ranks that failed"};
}

void HostSession::finish(uint64_t, const Status&) {}

bool HostSession::has_outlived_server() const {
  return false;
}

void HostSession::look_for(const std::vector<uint32_t>&) {}

bool is_host_id(const keel_unique_id& id) {
  TcpId parsed;
  return TcpId::parse(id, &parsed).ok();
}

namespace {

Status no_secret(const SocketAddress& address) {
  return failure(
      KEEL_FAILED_PRECONDITION,
      "without a secret, ranks meet on the loopback interface alone, and {} is not: write at least "
      "{} random bytes to a file of mode 600 (head -c 32 /dev/urandom | base64), copy it to all "
      "hosts, and set KEEL_SECRET_FILE to its path, or KEEL_SECRET_FD to an inherited descriptor",
      address.host(), HostSecret::kLeastBytes);
}

Status find_address(const std::string& host, bool has_secret, SocketAddress* out_address) {
  if (host.empty()) {
    // A server belongs to no device: the first interface of a list that has a carrier will do.
    const std::string chosen = interface_setting();
    const std::vector<std::string> names = named_interfaces(chosen);
    std::vector<HostInterface> interfaces;
    if (names.size() > 1) interfaces = list_interfaces();
    Status named;
    for (const std::string& each : names) {
      const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                      [&](const auto& other) { return other.name == each; });
      if (found != interfaces.end() && !found->is_up) {
        named = failure(KEEL_NOT_FOUND, "KEEL_INTERFACE is '{}': {} is down", chosen, each);
        continue;
      }
      named = find_address(each, has_secret, out_address);
      if (named.ok()) return named;
    }
    KEEL_RETURN_IF_ERROR(named);
    if (!has_secret) return parse_address("127.0.0.1:0", out_address);
    return interface_address("", out_address);
  }
  if (interface_address(host, out_address).ok()) return {};
  std::vector<SocketAddress> found;
  KEEL_RETURN_IF_ERROR(resolve(host, 0, &found));
  *out_address = found[0];
  if (has_secret && out_address->is_loopback() && !names_loopback(host)) {
    return interface_address("", out_address);
  }
  return {};
}

Status serve(const HostServerAddress& address, const ProcessToken& job, const std::string& name,
             keel_unique_id* out_id) {
  HostSecret secret;
  KEEL_RETURN_IF_ERROR(HostSecret::load(&secret));
  SocketAddress wanted;
  KEEL_RETURN_IF_ERROR(find_address(address.host, secret.is_given(), &wanted));
  if (!secret.is_given() && !wanted.is_loopback()) return no_secret(wanted);
  FileDescriptor socket;
  SocketAddress bound;
  Status status;
  for (const uint16_t port : address.ports) {
    wanted.set_port(port);
    status = listen_tcp(wanted, &socket, &bound);
    if (status.code() != KEEL_ALREADY_EXISTS) break;
  }
  if (address.ports.empty()) status = listen_tcp(wanted, &socket, &bound);
  KEEL_RETURN_IF_ERROR(status);
  KEEL_RETURN_IF_ERROR(HostServer::start(std::move(socket), std::move(secret), job, name));
  *out_id = TcpId{bound.host(), bound.port(), job}.id();
  return {};
}

}  // namespace

Status serve_hosts(const HostServerAddress& address, keel_unique_id* out_id) {
  ProcessToken job;
  KEEL_RETURN_IF_ERROR(random_bytes(&job.bytes));
  return serve(address, job, "a rendezvous of hosts", out_id)
      .with_prefix("the rendezvous of hosts: ");
}

Status serve_hosts_at(const HostServerAddress& address, const std::string& name,
                      keel_unique_id* out_id) {
  ProcessToken job;
  KEEL_RETURN_IF_ERROR(job_token(name, &job));
  return serve(address, job, name, out_id)
      .with_prefix(fmt::format("the rendezvous of hosts of '{}': ", name));
}

}  // namespace keel
