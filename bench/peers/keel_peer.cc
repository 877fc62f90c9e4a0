// SPDX-License-Identifier: Apache-2.0
// Keel as a peer_contender: ranks are processes or threads, buffers are Keel's or foreign. Links
// only the public interface, as a framework does.
#include <keel/keel.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>

#include "bench/peers/options.h"
#include "bench/peers/ranks.h"
#include "bench/peers/trial.h"

namespace keel::bench::peers {

namespace {

void check(keel_status status, const char* what) {
  if (status != KEEL_OK) {
    throw std::runtime_error(std::string(what) + ": " + keel_status_name(status) + ", " +
                             keel_last_error());
  }
}
#define KEEL_CHECK(call) check(call, #call)

class Keel : public PeerContender {
 public:
  // |id| is NULL if a launcher started the ranks.
  Keel(uint32_t rank, const Options& options, const keel_unique_id* id)
      : rank_(rank), world_(options.ranks), foreign_(options.foreign) {
    KEEL_CHECK(keel_device_find("cpu", &device_));
    keel_comm_options comm_options = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    comm_options.timeout_ns = int64_t{options.deadline} * 1'000'000'000;
    if (id == nullptr) {
      KEEL_CHECK(keel_comm_init_env(device_, &comm_options, &comm_));
    } else {
      KEEL_CHECK(keel_comm_init_rank(device_, id, rank_, world_, &comm_options, &comm_));
    }
    KEEL_CHECK(keel_stream_create(device_, /*priority=*/0, &stream_));
    KEEL_CHECK(keel_alloc(device_, KEEL_MEMORY_DEVICE, sizeof(double), &scratch_));
    scratch_host_ = static_cast<double*>(host_alias(scratch_));
  }

  ~Keel() override {
    keel_comm_destroy(comm_);
    keel_stream_destroy(stream_);
    for (void* pointer : registered_) keel_host_unregister(device_, pointer);
    for (void* pointer : allocated_) keel_free(device_, pointer);
    keel_free(device_, scratch_);
  }

  uint32_t rank() const override { return rank_; }
  uint32_t world() const override { return world_; }

  float* allocate(uint64_t elements) override {
    if (foreign_) {
      float* memory = PeerContender::allocate(elements);
      KEEL_CHECK(keel_host_register(device_, memory, elements * sizeof(float)));
      registered_.push_back(memory);
      return memory;
    }
    void* pointer = nullptr;
    KEEL_CHECK(keel_alloc(device_, KEEL_MEMORY_DEVICE, elements * sizeof(float), &pointer));
    allocated_.push_back(pointer);
    float* alias = static_cast<float*>(host_alias(pointer));
    std::fill(alias, alias + elements, 0.0f);
    device_pointers_[alias] = pointer;
    return alias;
  }

  std::vector<Way> ways(const Shape&) override { return {{"default"}}; }
  std::vector<std::string> forms() const override { return {"blocking", "stream"}; }

  void prepare(const Shape& shape, size_t, float* send, float* receive) override {
    shape_ = shape;
    send_ = device_pointer(send);
    receive_ = device_pointer(receive);
  }

  void run(const std::string& form, uint64_t times) override {
    if (form == "blocking") {
      for (uint64_t i = 0; i < times; ++i) {
        enqueue();
        wait();
      }
      return;
    }
    for (uint64_t i = 0; i < times; ++i) {
      enqueue();
      // An unbounded queue would time the allocation of its entries.
      if (i % 1024 == 1023) wait();
    }
    wait();
  }

  void barrier() override {
    KEEL_CHECK(keel_barrier(comm_, stream_));
    wait();
  }

  double largest(double value) override {
    *scratch_host_ = value;
    KEEL_CHECK(keel_all_reduce(comm_, scratch_, scratch_, 1, KEEL_FLOAT64, KEEL_MAX, stream_));
    wait();
    return *scratch_host_;
  }

 private:
  // Returns the host address of |pointer|, the start of an allocation.
  void* host_alias(void* pointer) const {
    keel_memory_info info = KEEL_STRUCT_INIT(keel_memory_info, KEEL_STRUCT_MEMORY_INFO);
    KEEL_CHECK(keel_memory_find(device_, pointer, &info));
    if (info.host_alias == nullptr) throw std::runtime_error("the host cannot reach the buffers");
    return static_cast<char*>(info.host_alias) +
           (static_cast<char*>(pointer) - static_cast<char*>(info.base));
  }

  void* device_pointer(float* alias) const {
    const auto found = device_pointers_.find(alias);
    return found == device_pointers_.end() ? alias : found->second;
  }

  void wait() { KEEL_CHECK(keel_stream_synchronize(stream_, KEEL_TIMEOUT_DEFAULT)); }

  void enqueue() {
    const uint64_t piece = shape_.piece;
    switch (shape_.operation) {
      case Operation::kAllReduce:
        KEEL_CHECK(keel_all_reduce(comm_, send_, receive_, piece, KEEL_FLOAT32, KEEL_SUM, stream_));
        return;
      case Operation::kBroadcast:
        KEEL_CHECK(
            keel_broadcast(comm_, send_, receive_, piece, KEEL_FLOAT32, /*root=*/0, stream_));
        return;
      case Operation::kAllGather:
        KEEL_CHECK(keel_all_gather(comm_, send_, receive_, piece, KEEL_FLOAT32, stream_));
        return;
      case Operation::kReduceScatter:
        KEEL_CHECK(
            keel_reduce_scatter(comm_, send_, receive_, piece, KEEL_FLOAT32, KEEL_SUM, stream_));
        return;
      case Operation::kAllToAll:
        KEEL_CHECK(keel_all_to_all(comm_, send_, receive_, piece, KEEL_FLOAT32, stream_));
        return;
    }
  }

  const uint32_t rank_;
  const uint32_t world_;
  const bool foreign_;
  keel_device device_ = {};
  keel_comm comm_ = {};
  keel_stream stream_ = {};
  void* scratch_ = nullptr;
  double* scratch_host_ = nullptr;
  std::vector<void*> registered_;
  std::vector<void*> allocated_;
  std::map<float*, void*> device_pointers_;
  Shape shape_ = {};
  void* send_ = nullptr;
  void* receive_ = nullptr;
};

class Runtime {
 public:
  Runtime() { KEEL_CHECK(keel_init(nullptr)); }
  ~Runtime() { keel_shutdown(); }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

void run_rank(uint32_t rank, const Options& options, Blackboard& board) {
  if (rank == 0) {
    keel_unique_id own = {};
    KEEL_CHECK(keel_unique_id_create(&own));
    board.write(own.text);
  }
  const std::string text = board.read(options.deadline);
  keel_unique_id id = {};
  text.copy(id.text, sizeof(id.text) - 1);
  Keel keel(rank, options, &id);
  run_cases(keel, options);
}

void run_launched(Options options) {
  const LaunchedRank own = launched_rank();
  options.ranks = own.ranks;
  Runtime runtime;
  Keel keel(own.rank, options, nullptr);
  run_cases(keel, options);
}

int run(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  arm_deadline(options);
  if (options.mode == Mode::kLaunched) {
    run_launched(options);
    return 0;
  }
  Blackboard board;
  if (options.mode == Mode::kThreads) {
    Runtime runtime;
    return run_in_threads(options.ranks, [&](uint32_t rank) { run_rank(rank, options, board); });
  }
  return run_in_processes(options.ranks, [&](uint32_t rank) {
    arm_deadline(options);  // a child does not inherit the parent's
    Runtime runtime;
    run_rank(rank, options, board);
  });
}

}  // namespace

}  // namespace keel::bench::peers

int main(int argc, char** argv) {
  try {
    return keel::bench::peers::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "keel_peer: %s\n", error.what());
    return 1;
  }
}
