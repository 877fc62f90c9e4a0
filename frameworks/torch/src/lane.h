// SPDX-License-Identifier: Apache-2.0
// A communicator, and the stream on which this rank's operations run one after the other.
#ifndef FRAMEWORKS_TORCH_SRC_LANE_H_
#define FRAMEWORKS_TORCH_SRC_LANE_H_

#include <keel/keel.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "lane_agreement.h"
#include "lane_stream.h"
#include "work.h"

namespace keel_torch {

class Lane;

// Waits until |store| has |key|, and returns whether it has. Polls, since a store's own wait keeps
// the store's connection from all other threads of the process, those whose calls the peer waits
// for among them. Throws what |check_group|, called between two looks, throws, and Python's
// exception when a signal handler of the main thread raised one.
bool wait_for_key(c10d::Store& store, const std::string& key, std::chrono::milliseconds timeout,
                  const std::function<void()>& check_group = {});

// Creates the communicator of |world| ranks whose id rank 0 publishes in |store| under |key|; this
// rank's device there is |device|. Blocks until all ranks have joined, or throws
// c10::DistBackendError at |timeout|. |check_group| and signals: as in wait_for_key().
keel_comm join(c10d::Store& store, const std::string& key, c10::Device device, int rank, int world,
               std::chrono::milliseconds timeout, const std::function<void()>& check_group = {});

// Work of an operation that a lane has enqueued.
class LaneWork : public KeelWork {
 public:
  LaneWork(int rank, Call call, std::shared_ptr<Lane> lane);

 protected:
  void wait_slice(std::chrono::milliseconds slice) override;
  void poll() override;
  void watch() override;
  void abort_group() override;

 private:
  friend class Lane;

  const std::shared_ptr<Lane> lane_;
  // With the lane's mutex held:
  keel_event event_{};  // 0: the stream has no later operation
  std::exception_ptr finish_failure_;
};

// Thread-safe; the order of operations is that of the calls of run().
class Lane : public std::enable_shared_from_this<Lane> {
 public:
  // Takes |comm|, whose device at this rank is |device|. |timeout|: of operations that set none.
  // |agreement|: told of operations that wait for peers; may be null.
  Lane(keel_comm comm, c10::Device device, int rank, std::chrono::milliseconds timeout,
       std::shared_ptr<LaneAgreement> agreement);
  ~Lane();

  // The device whose tensors the operations have.
  c10::Device device() const { return device_; }

  // Calls |enqueue|, which enqueues one operation of keel.h on the stream and returns its status.
  // Throws c10::DistBackendError, with the operation and the reason, where it is refused. An
  // operation that is over when |enqueue| returns is settled by this thread. On a keel device the
  // operation runs after the work of the calling thread's current stream, and the call's finish()
  // on the lane's stream.
  using Enqueue = std::function<keel_status(keel_comm, keel_stream)>;
  c10::intrusive_ptr<KeelWork> run(Call call, const Enqueue& enqueue);

  keel_comm comm() const { return comm_; }

  void set_timeout(std::chrono::milliseconds timeout);
  uint64_t sequence() const;

  // Throws c10::DistBackendError, with |what| and the reason, if the communicator has failed or
  // ended, by whichever rank. Never blocks.
  void check_alive(const std::string& what) const;
  // Returns why |rank| takes no part in the communicator any more: the communicator has failed or
  // ended, or the rank has died or left. Empty while |rank| takes part. Never blocks.
  std::string absence(int rank) const;

  // Fails all operations in flight and all later ones, on all ranks.
  void abort();
  // Leaves the communicator, once operations in flight are done; aborts them if that takes more
  // than a moment, so that a process can end. Every Work is settled afterwards.
  void close();

 private:
  friend class LaneWork;
  using Works = std::vector<c10::intrusive_ptr<LaneWork>>;
  using Settled = std::vector<std::pair<c10::intrusive_ptr<LaneWork>, std::exception_ptr>>;

  // With |mutex_| held: moves Works that have ended from |pending_| to |out|, at most |most|.
  void reap(Settled* out, size_t most = SIZE_MAX);
  // The status of a pending Work.
  keel_status query(const LaneWork& work) const;
  // Called while an operation is not done.
  void note_waiting(uint64_t called);
  void refuse_if_over(const std::string& what) const;
  void recover_stream(const KeelWork& work);
  // Enqueues the call's finish() behind the operation, on the stream of a keel device.
  void enqueue_finish(LaneWork& work);
  void apply_timeout(std::chrono::milliseconds timeout);
  // Settles |works|, one after the other, whose callbacks run in this thread.
  void settle(const Settled& works);
  void watch(c10::intrusive_ptr<LaneWork> work);
  // With |watch_mutex_| held: starts a watcher if callbacks keep all others.
  void keep_watching();
  void run_watcher();

  const keel_comm comm_;
  const c10::Device device_;
  const int rank_;
  const std::shared_ptr<LaneAgreement> agreement_;
  LaneStream stream_;

  mutable std::mutex mutex_;  // protects all below, and the order of operations
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds applied_timeout_;
  uint64_t sequence_ = 0;  // of the next operation, which is the communicator's number too
  std::deque<c10::intrusive_ptr<LaneWork>> pending_;  // in the stream's order
  std::vector<keel_event> free_events_;
  bool stream_failed_ = false;
  bool is_closed_ = false;
  std::string abort_reason_;

  // Settle Works whose futures somebody holds. A callback may wait for the future of another Work,
  // so that one watcher more is started when callbacks keep all that there are.
  std::mutex watch_mutex_;  // protects all below
  std::condition_variable watch_changed_;
  std::deque<c10::intrusive_ptr<LaneWork>> watched_;
  bool stops_watching_ = false;
  std::vector<std::thread> watchers_;
  size_t watchers_in_callbacks_ = 0;
};

}  // namespace keel_torch

#endif  // FRAMEWORKS_TORCH_SRC_LANE_H_
