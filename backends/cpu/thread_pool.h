// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_THREAD_POOL_H_
#define KEEL_BACKENDS_CPU_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace keel::cpu {

// Cores that this process may use and has the time of, 1 at least. Reads files: 0.1 ms.
uint32_t usable_cores();

// The core budget of one device. Stream threads borrow a core while they
// compute, and helper threads take the spare ones inside parallel_for, so that
// never more than |cores| threads of the device compute at once, however many
// streams it has. Idle threads are parked. Thread-safe.
class ThreadPool {
 public:
  explicit ThreadPool(int cores);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int cores() const { return cores_; }

  // One core of the budget, held by the thread that constructs it; the
  // constructor waits until one is free.
  class Core {
   public:
    explicit Core(ThreadPool& pool) : pool_(pool) { pool_.acquire(); }
    ~Core() { pool_.release(1); }
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

   private:
    ThreadPool& pool_;
  };

  // What a piece takes. To be woken takes a helper some 10 us, and who wakes it 2 of them, so that
  // brief pieces, of 2 us and more, are shared with helpers that are awake, as they are for 100 us
  // after their last piece; one is woken for every 32nd job that found it parked.
  enum class Pieces { kLong, kBrief };

  // Calls body(begin, end) for pieces of [0, count) of |grain| (the last one may
  // be shorter), on this thread, which holds a Core, and on as many helpers as
  // have spare cores. Returns when all are done. |body| must not throw and must
  // not depend on which thread gets which piece. Long ones should take 50 us or
  // more.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body, Pieces pieces = Pieces::kLong) {
    if (cores_ == 1 || count <= grain) {
      if (count > 0) body(int64_t{0}, count);
      return;
    }
    Job job;
    job.call = [](const void* context, int64_t begin, int64_t end) {
      (*static_cast<const Body*>(context))(begin, end);
    };
    job.body = &body;
    job.count = count;
    job.grain = grain;
    job.pieces = pieces;
    run(job);
  }

  // The same with a |body| that may throw and returns a status: that of a piece that failed,
  // KEEL_OK where none did.
  template <typename Body>
  keel_status try_for(int64_t count, int64_t grain, const Body& body,
                      Pieces pieces = Pieces::kLong) {
    std::atomic<keel_status> failure{KEEL_OK};
    const auto try_piece = [&](int64_t begin, int64_t end) {
      const keel_status status = kit::guard([&] { return body(begin, end); });
      if (status != KEEL_OK) failure.store(status, std::memory_order_relaxed);
    };
    parallel_for(count, grain, try_piece, pieces);
    return failure.load(std::memory_order_relaxed);
  }

 private:
  // One parallel_for; lives on the stack of its caller.
  struct alignas(64) Job {
    void (*call)(const void* body, int64_t begin, int64_t end);
    const void* body;
    int64_t count;
    int64_t grain;
    Pieces pieces;
    // Written while it runs, and thus apart.
    alignas(64) std::atomic<int64_t> next{0};
    std::atomic<int> helped{0};  // helpers that took it and are done; the last they do to it

    void work();
  };

  // A thread that works on others' jobs. A line of its own: it waits for |job| by reading it.
  struct alignas(64) Helper {
    // Null: it is free, and whoever puts a job here gives it that. It takes the job by putting
    // taken_ in its place, who gave it takes it back by putting null there.
    std::atomic<Job*> job{nullptr};
    std::atomic<bool> is_parked{false};  // written under mutex_
    std::condition_variable posted;
    std::thread thread;
  };

  void stop();
  void acquire();
  void release(int cores);
  int take_spare(int most);
  void run(Job& job);
  int post(Job& job, int wanted, size_t* out_end);
  bool is_worth_waking(const Job& job);
  int take_back(Job& job, size_t end);
  void wait(Job& job, int helpers);
  void help(Helper& self);

  static Job taken_;

  const int cores_;
  // Guards only how threads park. Each counts itself in before it looks a last time for what it
  // waits for, and who brings that looks for parked ones afterwards: one of them sees the other.
  std::mutex mutex_;
  std::condition_variable core_free_;
  std::condition_variable job_done_;
  std::atomic<int> free_cores_;
  std::atomic<int> waiting_{0};          // for a core
  std::atomic<int> waiting_for_job_{0};  // for helpers of theirs
  std::atomic<uint32_t> not_woken_{0};   // times a helper was parked for a brief job
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Helper>> helpers_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_THREAD_POOL_H_
