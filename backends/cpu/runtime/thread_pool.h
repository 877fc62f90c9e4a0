// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_BACKENDS_CPU_RUNTIME_THREAD_POOL_H_
#define KEEL_BACKENDS_CPU_RUNTIME_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <keel/plugin_kit.hpp>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace keel::cpu {

// Cores that this process may use, limited by its CPU quota; at least 1. Reads files: 0.1 ms.
uint32_t usable_cores();

// The core budget of one device. A stream's thread borrows a core while it computes, and helper
// threads take the free cores inside parallel_for. At most |cores| threads of the device compute at
// once, whatever the number of streams. Idle threads are parked. Thread-safe.
class ThreadPool {
 public:
  explicit ThreadPool(int cores);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int cores() const { return cores_; }

  // One core of the budget, held by the constructing thread. The first constructor blocks until a
  // core is free; the second holds none if no core is free.
  class Core {
   public:
    explicit Core(ThreadPool& pool) : pool_(pool) { pool_.acquire(); }
    Core(ThreadPool& pool, std::try_to_lock_t) : pool_(pool), is_held_(pool.take_spare(1) == 1) {}
    ~Core() {
      if (is_held_) pool_.release(1);
    }
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

    bool is_held() const { return is_held_; }

   private:
    ThreadPool& pool_;
    const bool is_held_ = true;
  };

  // Duration of a piece. A helper takes some 10 us to wake, and the waking thread spends 2 us.
  // Brief pieces, of 2 us and more, are therefore shared only with helpers that are awake; a helper
  // stays awake for 100 us after its last piece. One of 32 brief jobs that find a helper parked
  // wakes it.
  enum class Pieces { kLong, kBrief };

  // Calls body(begin, end) for pieces of [0, count) of |grain| elements (the last piece may be
  // shorter), on this thread, which holds a Core, and on as many helpers as there are free cores.
  // Returns when all pieces are done. |body| must not throw and must not depend on the thread that
  // runs a piece. Long pieces should take 50 us or more.
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

  // Like parallel_for, with a |body| that may throw and returns a status. Returns the status of a
  // failed piece, or KEEL_OK if none failed.
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
  // One parallel_for, on the stack of its caller.
  struct alignas(64) Job {
    void (*call)(const void* body, int64_t begin, int64_t end);
    const void* body;
    int64_t count;
    int64_t grain;
    Pieces pieces;
    // Written while the job runs, hence on its own cache line.
    alignas(64) std::atomic<int64_t> next{0};
    std::atomic<int> helped{0};  // finished helpers; each helper's last access to the job

    void work();
  };

  // A thread that works on other threads' jobs. Aligned to its own cache line, because the helper
  // spins on |job|.
  struct alignas(64) Helper {
    // Null: the helper is free. A thread posts a job by replacing null with the job. The helper
    // takes the job by replacing the job with &taken_; the poster takes the job back by replacing
    // the job with null.
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
  // Protects only parking. A waiting thread increments its counter before the last check of its
  // condition; the thread that fulfils the condition checks for waiting threads afterwards. Hence
  // at least one of the two sees the other.
  std::mutex mutex_;
  std::condition_variable core_free_;
  std::condition_variable job_done_;
  std::atomic<int> free_cores_;
  std::atomic<int> waiting_{0};          // threads waiting for a core
  std::atomic<int> waiting_for_job_{0};  // threads waiting for the helpers of their job
  std::atomic<uint32_t> not_woken_{0};   // times a helper was parked for a brief job
  std::atomic<bool> stopping_{false};
  std::vector<std::unique_ptr<Helper>> helpers_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_RUNTIME_THREAD_POOL_H_
