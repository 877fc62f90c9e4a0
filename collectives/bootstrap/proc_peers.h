// SPDX-License-Identifier: Apache-2.0
// Processes of this host in other network namespaces, reached through /proc instead of sockets.
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_PROC_PEERS_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_PROC_PEERS_H_

#include <cstdint>
#include <map>
#include <mutex>

#include "base/ipc/file_descriptor.h"
#include "collectives/bootstrap/identity.h"
#include "core/status.h"

namespace keel {

// Read end of a pipe that a process keeps and never writes to. The kernel closes the write end when
// the process ends or execs, and whoever has opened the read end through /proc sees that.
struct Lifeline {
  int32_t number = -1;  // of the descriptor, in the process
  ObjectId pipe;
  bool operator==(const Lifeline&) const = default;
};

struct ProcPeer {
  int64_t pid = 0;
  uint64_t start_time = 0;  // process_start_time()
  Lifeline lifeline;
};

// Names of abstract Unix sockets are visible in one network namespace alone. For processes added
// here, fetch_object() and Lifelines use the functions below instead of a connection. Process-wide
// singleton, never destroyed. Thread-safe.
class ProcPeers {
 public:
  static ProcPeers& get();
  ProcPeers(const ProcPeers&) = delete;
  ProcPeers& operator=(const ProcPeers&) = delete;

  // Returns this process's lifeline, made by the first call. The service thread owns the write end,
  // which a forked child closes. KEEL_UNAVAILABLE when out of file descriptors.
  Status own_lifeline(Lifeline* out_lifeline);
  // Entries stay until the process ends, a hundred bytes for each process ever met so.
  void add(const ProcessToken& process, const ProcPeer& peer);
  bool find(const ProcessToken& process, ProcPeer* out_peer);

 private:
  ProcPeers() = default;

  std::mutex mutex_;
  std::map<ProcessToken, ProcPeer> peers_;
  Lifeline own_;
  FileDescriptor read_end_;  // the service thread has the write end
};

// Opens the memfd |id| of |peer|, which has it open, as a new file description that may write.
// Neither waits for |peer| nor asks it: works while |peer| is stopped. The kernel asks for what
// ptrace(2) calls PTRACE_MODE_READ: the same user, and no capability that this process lacks.
// KEEL_RANK_FAILED when |peer| has ended; KEEL_NOT_FOUND when |peer| has no such object;
// KEEL_PERMISSION_DENIED; KEEL_UNSUPPORTED where /proc belongs to another pid namespace;
// KEEL_FAILED_PRECONDITION when the object may shrink.
Status fetch_through_proc(const ProcPeer& peer, const ObjectId& id, FileDescriptor* out_fd);
// Opens the lifeline of |peer|. KEEL_NOT_FOUND when |peer| has ended or replaced its program;
// otherwise as above.
Status open_lifeline(const ProcPeer& peer, FileDescriptor* out_read_end);

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_PROC_PEERS_H_
