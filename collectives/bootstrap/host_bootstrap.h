// SPDX-License-Identifier: Apache-2.0
// Rendezvous of ranks on several hosts over TCP, and their link for the life of a communicator.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_HOST_BOOTSTRAP_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_HOST_BOOTSTRAP_H_

#include <keel/keel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/bootstrap/host_interfaces.h"
#include "collectives/bootstrap/identity.h"
#include "collectives/transports/wire.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Key of this process's host: processes with equal keys can share memory and watch each other.
// KEEL_HOST_ID where set, else a hash of the boot id and of the network, IPC and pid namespaces.
// Up to kMaxHostKey printable bytes.
std::string host_key();
// KEEL_HOST_ID, or an empty text.
std::string given_host_id();
// Name of this host for messages: KEEL_HOST_ID where set, else the host name.
std::string host_name();
inline constexpr uint32_t kMaxHostKey = 64;
inline constexpr uint32_t kMaxHostFacts = 2560;

// One rank of the job, as it announced itself.
struct HostRank {
  PeerInfo peer;
  std::string host;          // host_key()
  std::string host_name;     // host_name()
  std::string address;       // of its wire port, "10.0.0.1:4711" or "[fe80::1]:4711"
  std::string facts;         // opaque to the bootstrap, up to kMaxHostFacts bytes
  std::string wire = "tcp";  // chosen_wire()
  std::string processors;    // own_processors()
  bool operator==(const HostRank&) const = default;
  // "rank 3 (cpu:0, process 4711 on host 'b')"
  std::string name() const;
};

// All ranks of the job. Equal on all ranks.
struct HostTable {
  ProcessToken job;    // random, drawn by the server for this rendezvous
  uint64_t epoch = 0;  // of this table; a rank with another epoch is fenced out
  std::vector<HostRank> ranks;

  // Returns KEEL_INVALID_ARGUMENT, naming two ranks, unless all ranks have chosen the same wire.
  Status check_wires() const;
  // Hosts in the order of their lowest ranks, and the ranks of each in ascending order.
  std::vector<std::vector<uint32_t>> hosts() const;
  // The ranks on the machine of |rank|, ascending; |rank| alone if the machine is unknown. Hosts
  // may share a machine.
  std::vector<uint32_t> on_machine_of(uint32_t rank) const;
  // Whether |of_machine|, the ranks on one machine, have fewer processors than there are ranks.
  bool have_few_processors(const std::vector<uint32_t>& of_machine) const;
  // A name for the rendezvous of one host's ranks (serve_rendezvous_at): distinct for each job,
  // epoch and host.
  std::string local_name(uint32_t rank) const;
};

// Where a server listens, or is looked for: candidates in this order.
struct HostServerAddress {
  std::string host;             // name, IPv4 or IPv6 address, or interface ("eth0"); "": found
  std::vector<uint16_t> ports;  // 0: any free port
};

// Whether |id| is of the form "keel-1:tcp:HOST:PORT:<32 digits>".
bool is_host_id(const keel_unique_id& id);
// Serves one rendezvous on this process's service thread and returns its id. Without a secret
// (docs/hosts.md) the address must be of the loopback interface: else KEEL_FAILED_PRECONDITION, and
// the text says how to give one. Thread-safe.
Status serve_hosts(const HostServerAddress& address, keel_unique_id* out_id);
// Like serve_hosts() for a launcher's job, |name| as in serve_rendezvous_at(): takes the first of
// the ports that is free. Ranks of the calling process join by |*out_id|, which has the address
// that the server found; other processes use HostSession::join_at().
Status serve_hosts_at(const HostServerAddress& address, const std::string& name,
                      keel_unique_id* out_id);
// The address from the launcher's variables, for the rank that serves (rank 0) and the others:
//  1. KEEL_SERVER=HOST:PORT, with any launcher;
//  2. torchrun: MASTER_ADDR, and the ports behind MASTER_PORT, which is torchrun's own;
//  3. Slurm: the first node of SLURM_STEP_NODELIST, and a port from the job's and step's numbers.
// KEEL_NOT_FOUND when all ranks run on one host by the launcher's variables, and KEEL_SERVER is not
// set: use the rendezvous of one host. KEEL_FAILED_PRECONDITION, saying how to set KEEL_SERVER,
// when the launcher gives no address.
Status read_host_server(const keel_launch_info& info, HostServerAddress* out_address);
// The same with another source of variables, for tests.
Status read_host_server(const std::function<const char*(const char* name)>& variable,
                        const keel_launch_info& info, HostServerAddress* out_address);

// A rank's link to the server, from the rendezvous to the end of its communicator. Thread-safe.
class HostSession {
 public:
  virtual ~HostSession() = default;  // leaves, if leave() was not called
  HostSession(const HostSession&) = delete;
  HostSession& operator=(const HostSession&) = delete;

  // Joins rank |self.rank| of |world| and waits for the other ranks. |facts| is exchanged with the
  // table. Failures as those of attend_rendezvous(), and KEEL_PERMISSION_DENIED when the server or
  // this rank does not have the secret of the other.
  static Status join(const keel_unique_id& id, const PeerInfo& self, uint32_t world,
                     const std::string& facts, const Deadline& deadline,
                     std::unique_ptr<HostSession>* out_session);
  static Status join_at(const HostServerAddress& address, const std::string& name,
                        const PeerInfo& self, uint32_t world, const std::string& facts,
                        const Deadline& deadline, std::unique_ptr<HostSession>* out_session);

  virtual const HostTable& table() const = 0;
  virtual uint32_t rank() const = 0;
  // The interface of this rank's wire port.
  virtual const ChosenInterface& interface() const = 0;

  // The wires of this rank in the communicator |context|: any number that the communicator's ranks
  // agree on and that no other communicator of the job has. Must be destroyed before the session.
  virtual Status open_wires(uint64_t context, std::unique_ptr<WireSet>* out_wires) = 0;

  // Fails the job with |why| on all ranks; the first failure stays. Returns at once.
  virtual void abort(const Status& why) = 0;
  // Reports that the wire to |peer| has failed with |why|, and waits, up to two seconds, for the
  // verdict of the server: another rank's end or abort is often the cause. Returns the failure that
  // all ranks get. Call before the own wires are closed, since peers see that as a failure.
  virtual Status report(uint32_t peer, const Status& why) = 0;
  // KEEL_OK, or the verdict: KEEL_RANK_FAILED naming rank, host and cause, or the abort's status.
  virtual Status failure() const = 0;
  // The ranks known to have failed, ascending.
  virtual std::vector<uint32_t> failed_ranks() const = 0;
  // Calls |on_failure| once with the verdict: at once if there is one, else on the service thread
  // or on the thread that calls abort() or report(). Must not block. An empty function removes the
  // callback; it no longer runs after the return.
  virtual void set_on_failure(std::function<void(const Status&)> on_failure) = 0;

  // Whether the process that served the job has ended, and its ranks had left in order before. From
  // then on the ranks tell each other who fails.
  virtual bool has_outlived_server() const;
  // For a rank that has_outlived_server(): looks whether |peers|, from which it waits for a
  // connection, still listen at their wire ports. One that has twice not done so, a quarter of a
  // second apart, becomes the failure of the job. May block for half a second.
  virtual void look_for(const std::vector<uint32_t>& peers);

  // The ranks of a communicator that have neither failed nor left agree on a new job without the
  // others: each calls, and joins the rendezvous that it gets. The caller ends this session
  // afterwards. If one more rank fails meanwhile, join() returns KEEL_RANK_FAILED, and all call
  // again. When the process that serves has ended, the lowest rank that is left serves in its
  // place. KEEL_TIMED_OUT, naming the ranks that are left and do not call; KEEL_FAILED_PRECONDITION
  // when this rank was left out.
  struct RegroupRequest {
    uint64_t context = 0;           // of the communicator, as in open_wires()
    std::vector<uint32_t> members;  // ranks of the job, in the order of the communicator
    int64_t absent_ns = 0;          // ranks that do not call so long are left out; 0: never
    // Called before a rank of the job counts as ended because its port is closed: KEEL_OK if the
    // process has ended. Another status ends the call, which returns it. Empty: a closed port is
    // enough.
    std::function<Status(uint32_t rank)> confirm_end;
  };
  struct RegroupPlace {
    keel_unique_id id = {};
    uint32_t rank = 0;           // of this rank in the new job
    std::vector<uint32_t> left;  // for each rank of the new job, its index in |members|
  };
  virtual Status regroup(const RegroupRequest& request, const Deadline& deadline,
                         RegroupPlace* out_place);
  // Waits until all ranks of the job have called, or the job fails. All ranks that the server
  // reaches return the same: a rank that fails after the server has seen all calls does not change
  // the result.
  virtual Status commit(const Deadline& deadline);
  // KEEL_OK if the process of |rank| runs and takes part in the communicator |context| of this job,
  // KEEL_RANK_FAILED if not. Asks until |rank| answers or its port is closed: KEEL_TIMED_OUT.
  virtual Status find_present(uint32_t rank, uint64_t context, const Deadline& deadline);
  // This rank has finished with the communicator |context|. Peers find it gone there, and get
  // |refusal| if they ask it to serve.
  virtual void finish(uint64_t context, const Status& refusal);

  // Ends this rank's part in the job: its closed connections are no failure to the others. After an
  // orderly end only.
  virtual void leave() = 0;

 protected:
  HostSession() = default;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_HOST_BOOTSTRAP_H_
