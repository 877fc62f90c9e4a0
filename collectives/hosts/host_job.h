// SPDX-License-Identifier: Apache-2.0
// One rank's part in a job across hosts, shared by its communicators.
#ifndef KEEL_COLLECTIVES_HOSTS_HOST_JOB_H_
#define KEEL_COLLECTIVES_HOSTS_HOST_JOB_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "collectives/bootstrap/host_bootstrap.h"
#include "core/status.h"

namespace keel {

// Owns the rank's session and passes its verdict on: a rank that fails ends all communicators of
// the job. Leaves the job in the destructor, unless the job has failed. Thread-safe.
class HostJob {
 public:
  explicit HostJob(std::unique_ptr<HostSession> session);
  ~HostJob();
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;

  HostSession& session() { return *session_; }
  const HostTable& table() const { return session_->table(); }

  // Calls |on_failure| once with the verdict, on a service thread, or at once if there is one. Must
  // not block. After unwatch() it no longer runs.
  uint64_t watch(std::function<void(const Status&)> on_failure);
  void unwatch(uint64_t number);

 private:
  void fail(const Status& status);

  std::mutex mutex_;
  Status failure_;
  uint64_t next_ = 1;
  std::map<uint64_t, std::function<void(const Status&)>> watchers_;
  const std::unique_ptr<HostSession> session_;
};

}  // namespace keel

#endif  // KEEL_COLLECTIVES_HOSTS_HOST_JOB_H_
