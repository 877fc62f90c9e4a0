// SPDX-License-Identifier: Apache-2.0
// Detects that another process has replaced its program (exec).
#ifndef KEEL_COLLECTIVES_BOOTSTRAP_LIFELINES_H_
#define KEEL_COLLECTIVES_BOOTSTRAP_LIFELINES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "collectives/bootstrap/identity.h"
#include "core/deadline.h"
#include "core/status.h"

namespace keel {

// Holds one connection to the MemHandleServer of each watched process, shared by all watches of the
// process; for a process of ProcPeers, the read end of its lifeline instead. A process that calls
// exec keeps its pid, so ProcessWatch does not notice, but closes its
// sockets. Process-wide singleton, never destroyed. Thread-safe.
class Lifelines {
 public:
  static Lifelines& get();
  Lifelines(const Lifelines&) = delete;
  Lifelines& operator=(const Lifelines&) = delete;

  // Calls |on_cut| once, on the service thread, kGraceNs after the process |owner| closed its
  // sockets: by exec or by its end, which ProcessWatch has reported by then. A concurrent unwatch()
  // may return before |on_cut| runs. |owner| must listen: MemHandleServer::listen(). When either
  // process is out of file descriptors, |owner| is not watched and the log says so. KEEL_FORKED;
  // KEEL_OUT_OF_MEMORY without a thread.
  Status watch(const ProcessToken& owner, std::function<void()> on_cut, uint64_t* out_watch);
  // Ignores an unknown |watch|.
  void unwatch(uint64_t watch);

  static constexpr int64_t kGraceNs = 100'000'000;

 private:
  struct Line {
    uint64_t entry = 0;  // id in the service thread
    std::map<uint64_t, std::function<void()>> watches;
  };

  Lifelines() = default;
  Status connect(const ProcessToken& owner, const Deadline& deadline, uint64_t* out_entry);
  void on_event(const ProcessToken& owner, int socket, uint64_t entry, uint32_t events);
  void drop(const ProcessToken& owner, uint64_t entry);

  std::mutex mutex_;
  uint64_t next_watch_ = 1;
  std::map<ProcessToken, Line> lines_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_BOOTSTRAP_LIFELINES_H_
