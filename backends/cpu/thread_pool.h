#ifndef KEEL_BACKENDS_CPU_THREAD_POOL_H_
#define KEEL_BACKENDS_CPU_THREAD_POOL_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <keel/plugin_kit.hpp>
#include <mutex>
#include <thread>
#include <vector>

namespace keel::cpu {

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
    ~Core() { pool_.release(); }
    Core(const Core&) = delete;
    Core& operator=(const Core&) = delete;

   private:
    ThreadPool& pool_;
  };

  // Calls body(begin, end) for pieces of [0, count) of |grain| (the last one may
  // be shorter), on this thread, which holds a Core, and on as many helpers as
  // have spare cores. Returns when all are done. |body| must not throw and must
  // not depend on which thread gets which piece. A wake-up costs about 10 us:
  // give it pieces of 50 us or more.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) {
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
    run(job);
  }

  // The same with a |body| that may throw and returns a status: that of a piece that failed,
  // KEEL_OK where none did.
  template <typename Body>
  keel_status try_for(int64_t count, int64_t grain, const Body& body) {
    std::atomic<keel_status> failure{KEEL_OK};
    parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      const keel_status status = kit::guard([&] { return body(begin, end); });
      if (status != KEEL_OK) failure.store(status, std::memory_order_relaxed);
    });
    return failure.load(std::memory_order_relaxed);
  }

 private:
  // One parallel_for; lives on the stack of its caller.
  struct Job {
    void (*call)(const void* body, int64_t begin, int64_t end);
    const void* body;
    int64_t count;
    int64_t grain;
    std::atomic<int64_t> next{0};
    std::atomic<int> active{0};  // helpers at work; rises under mutex_ only
    // Guarded by mutex_:
    int wanted = 0;  // cores reserved for helpers that have not come yet
    Job* following = nullptr;

    void work();
  };

  void acquire();
  void release();
  void run(Job& job);
  void help();
  void unlist(Job& job);

  const int cores_;
  std::mutex mutex_;
  std::condition_variable core_free_;
  std::condition_variable job_posted_;
  std::condition_variable job_done_;
  int free_cores_;
  int waiting_ = 0;                  // for a core
  int parked_ = 0;                   // helpers
  std::atomic<Job*> jobs_{nullptr};  // those with wanted > 0; written under mutex_ only
  bool stopping_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace keel::cpu

#endif  // KEEL_BACKENDS_CPU_THREAD_POOL_H_
