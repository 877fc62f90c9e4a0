// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "collectives/bootstrap/handshake.h"
#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/host_interfaces.h"
#include "collectives/bootstrap/host_secret.h"
#include "collectives/bootstrap/processors.h"
#include "collectives/bootstrap/shared_table.h"
#include "collectives/bootstrap/tcp_dialog.h"
#include "collectives/bootstrap/tcp_host_session.h"
#include "collectives/bootstrap/tcp_id.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "collectives/transports/wire_choice.h"
#include "core/insiders.h"

namespace keel {

namespace {

// How long a rank waits after its deadline for the list of missing ranks.
constexpr int64_t kGraceNs = 1'000'000'000;

// One rank on its way into the job.
class Joining {
 public:
  Joining(const PeerInfo& self, uint32_t world, const std::string& facts, const Deadline& deadline)
      : world_(world), deadline_(deadline) {
    hello_.world = world;
    hello_.version =
        fmt::format("{}.{}.{}", KEEL_VERSION_MAJOR, KEEL_VERSION_MINOR, KEEL_VERSION_PATCH);
    hello_.self.peer = self;
    hello_.self.host = host_key();
    hello_.self.host_name = host_name();
    hello_.self.facts = facts;
    hello_.self.processors = own_processors();
  }

  Status check() const {
    if (world_ == 0 || world_ > kMaxWorld) {
      return failure(KEEL_INVALID_ARGUMENT, "world is {}; 1 to {} ranks may meet", world_,
                     kMaxWorld);
    }
    if (rank() >= world_) {
      return failure(KEEL_INVALID_ARGUMENT, "rank is {}, world {}", rank(), world_);
    }
    HostHello again;
    return parse_host_hello(write_host_hello(hello_), &again)
        .with_prefix(fmt::format("rank {}: ", rank()));
  }

  // |waits|: a server that does not listen yet is waited for.
  Status join(const std::vector<SocketAddress>& addresses, const ProcessToken& job, bool waits,
              std::unique_ptr<HostSession>* out_session) {
    KEEL_RETURN_IF_ERROR(HostSecret::load(&secret_));
    KEEL_RETURN_IF_ERROR(silence_ms(&silence_));
    KEEL_RETURN_IF_ERROR(chosen_wire(&hello_.self.wire).with_prefix(who()));
    const Status connected = connect(addresses, job, waits);
    KEEL_RETURN_IF_ERROR(connected.with_prefix(who()));
    KEEL_RETURN_IF_ERROR(open_port().with_prefix(who()));
    std::shared_ptr<const HostTable> table;
    ProcessToken server;
    KEEL_RETURN_IF_ERROR(meet(&table, &server).with_prefix(who()));
    hub_->set_table(table);
    return TcpHostSession::open(dialog_.take(), std::move(hub_), std::move(table), server, rank(),
                                out_session);
  }

 private:
  uint32_t rank() const { return hello_.self.peer.rank; }
  std::string who() const { return fmt::format("rank {} of {}: ", rank(), world_); }

  // Whether another attempt may succeed.
  static bool may_pass(const Status& status, bool waits) {
    switch (status.code()) {
      case KEEL_UNAVAILABLE:  // no process listens
      case KEEL_NOT_FOUND:    // another job's server
      case KEEL_DATA_LOSS:    // another program's port
        return waits;
      case KEEL_RANK_FAILED:  // closed within the handshake, as by a server under a flood
      case KEEL_TIMED_OUT:
        return true;
      default:
        return false;
    }
  }

  // Whether another attempt's failure explains more: no process listens, or the last attempt was
  // cut short by the deadline.
  static bool says_little(const Status& status) {
    return status.code() == KEEL_UNAVAILABLE || status.code() == KEEL_TIMED_OUT;
  }

  Status connect(const std::vector<SocketAddress>& addresses, const ProcessToken& job, bool waits) {
    constexpr std::chrono::milliseconds kPause(20);
    Status last;
    while (true) {
      for (const SocketAddress& address : addresses) {
        if (!secret_.is_given() && !address.is_loopback()) {
          return failure(KEEL_FAILED_PRECONDITION,
                         "the server is at {}, beyond the loopback interface, and this rank has no "
                         "secret: set KEEL_SECRET_FILE or KEEL_SECRET_FD (docs/hosts.md)",
                         address.text());
        }
        Status status = greet(address, job);
        if (status.ok()) return status;
        status = status.with_prefix(fmt::format("the server at {}: ", address.text()));
        if (!may_pass(status, waits)) return status;
        if (last.ok() || says_little(last) || !says_little(status)) last = status;
        if (deadline_.passed()) {
          if (deadline_.is_cut_off()) return {KEEL_ABORTED, insiders::kCutOff};
          return failure(KEEL_TIMED_OUT, "{}", last.text());
        }
      }
      std::this_thread::sleep_for(kPause);
    }
  }

  // Connects and proves the secret.
  Status greet(const SocketAddress& address, const ProcessToken& job) {
    const Deadline limit = Deadline::after(std::min(kHandshakeNs, deadline_.remaining_ns()));
    KEEL_RETURN_IF_ERROR(dialog_.connect(address, silence_, limit));
    HandshakeInitiator handshake(secret_, {.purpose = Opening::Purpose::kServer,
                                           .job = job,
                                           .from = rank(),
                                           .address = address.text()});
    Bytes message;
    KEEL_RETURN_IF_ERROR(handshake.open(&message));
    KEEL_RETURN_IF_ERROR(dialog_.send(message, limit));
    KEEL_RETURN_IF_ERROR(dialog_.receive(kMaxStrangerBytes, limit, &message));
    Bytes proof;
    KEEL_RETURN_IF_ERROR(handshake.on_challenge(message, &proof));
    KEEL_RETURN_IF_ERROR(dialog_.send(proof, limit));
    KEEL_RETURN_IF_ERROR(dialog_.receive(kMaxStrangerBytes, limit, &message));
    KEEL_RETURN_IF_ERROR(HandshakeInitiator::on_answer(message));
    return dialog_.end_handshake();
  }

  // The wire port is on the interface that reaches the server, or on the one of KEEL_INTERFACE.
  Status open_port() {
    SocketAddress route;
    KEEL_RETURN_IF_ERROR(own_address(dialog_.get(), &route));
    ChosenInterface chosen;
    KEEL_RETURN_IF_ERROR(find_interface(route, hello_.self.peer, &chosen));
    const SocketAddress& bind = chosen.address;
    if (!secret_.is_given() && !bind.is_loopback()) {
      return failure(KEEL_FAILED_PRECONDITION,
                     "without a secret, KEEL_INTERFACE must be the loopback interface, and {} is "
                     "not",
                     bind.host());
    }
    KEEL_RETURN_IF_ERROR(WireHub::open(bind, secret_, rank(), &hub_));
    hub_->set_interface(std::move(chosen));
    hello_.self.address = hub_->address().text();
    return {};
  }

  Status meet(std::shared_ptr<const HostTable>* out_table, ProcessToken* out_server) {
    KEEL_RETURN_IF_ERROR(dialog_.send(write_host_hello(hello_), deadline_));
    Bytes message;
    Status received = dialog_.wait_readable(deadline_);
    if (received.code() == KEEL_TIMED_OUT) {
      KEEL_RETURN_IF_ERROR(dialog_.send(write_question(), Deadline::after(kGraceNs)));
      received = dialog_.wait_readable(Deadline::after(kGraceNs));
    }
    KEEL_RETURN_IF_ERROR(received);
    received = dialog_.receive(kMaxHostTableBytes, Deadline::after(kHandshakeNs), &message);
    if (received.code() == KEEL_RANK_FAILED) {
      return failure(KEEL_RANK_FAILED, "the process that serves the rendezvous has ended: {}",
                     received.text());
    }
    KEEL_RETURN_IF_ERROR(received);
    Status answer;
    if (parse_answer(message, &answer).ok()) {
      return answer.ok() ? failure(KEEL_DATA_LOSS, "the server sent no table") : answer;
    }
    KEEL_RETURN_IF_ERROR(share_host_table(std::move(message), out_table, out_server));
    const HostTable& table = **out_table;
    if (table.ranks.size() != world_ ||
        table.ranks[rank()].peer.process != hello_.self.peer.process) {
      return failure(KEEL_DATA_LOSS,
                     "the table has {} ranks, not {}, or another process as rank {}",
                     table.ranks.size(), world_, rank());
    }
    return table.check_wires();
  }

  const uint32_t world_;
  const Deadline deadline_;
  HostHello hello_;
  HostSecret secret_;
  uint32_t silence_ = 0;
  TcpDialog dialog_;
  std::shared_ptr<WireHub> hub_;
};

}  // namespace

Status HostSession::join(const keel_unique_id& id, const PeerInfo& self, uint32_t world,
                         const std::string& facts, const Deadline& deadline,
                         std::unique_ptr<HostSession>* out_session) {
  TcpId parsed;
  KEEL_RETURN_IF_ERROR(TcpId::parse(id, &parsed));
  std::vector<SocketAddress> addresses;
  KEEL_RETURN_IF_ERROR(resolve(parsed.host, parsed.port, &addresses));
  Joining joining(self, world, facts, deadline);
  KEEL_RETURN_IF_ERROR(joining.check());
  return joining.join(addresses, parsed.job, /*waits=*/false, out_session);
}

Status HostSession::join_at(const HostServerAddress& address, const std::string& name,
                            const PeerInfo& self, uint32_t world, const std::string& facts,
                            const Deadline& deadline, std::unique_ptr<HostSession>* out_session) {
  Joining joining(self, world, facts, deadline);
  KEEL_RETURN_IF_ERROR(joining.check());
  ProcessToken job;
  KEEL_RETURN_IF_ERROR(job_token(name, &job));
  std::vector<SocketAddress> addresses;
  for (const uint16_t port : address.ports) {
    std::vector<SocketAddress> found;
    KEEL_RETURN_IF_ERROR(resolve(address.host, port, &found)
                             .with_prefix(fmt::format("rank {} of {}: ", self.rank, world)));
    SocketAddress interface;
    if (found[0].is_loopback() && !names_loopback(address.host) &&
        interface_address("", &interface).ok()) {
      interface.set_port(port);  // as the server on this host does
      if (HostSecret secret; HostSecret::load(&secret).ok() && secret.is_given()) {
        addresses.push_back(interface);
      }
    }
    addresses.insert(addresses.end(), found.begin(), found.end());
  }
  if (addresses.empty()) return {KEEL_INVALID_ARGUMENT, "the server's address has no port"};
  return joining.join(addresses, job, /*waits=*/true, out_session);
}

}  // namespace keel
