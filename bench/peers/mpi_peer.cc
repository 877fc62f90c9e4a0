// SPDX-License-Identifier: Apache-2.0
// An MPI as a peer_contender, compiled once with each installed MPI. mpirun's command line chooses
// launcher and transports; this file chooses algorithms, so that one launch finds the best one for
// each size.
#include <mpi.h>
#include <sched.h>

#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/peers/options.h"
#include "bench/peers/ranks.h"
#include "bench/peers/trial.h"

namespace keel::bench::peers {

namespace {

void check(int code, const char* what) {
  if (code != MPI_SUCCESS) throw std::runtime_error(what);
}
#define KEEL_CHECK_MPI(call) check(call, #call)

// Sets an integer variable of the library. Returns false if the library has no such variable.
bool set_variable(const char* name, int value) {
  int index = 0;
  if (MPI_T_cvar_get_index(name, &index) != MPI_SUCCESS) return false;
  MPI_T_cvar_handle handle;
  int count = 0;
  if (MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS) return false;
  const bool set = count == 1 && MPI_T_cvar_write(handle, &value) == MPI_SUCCESS;
  MPI_T_cvar_handle_free(&handle);
  return set;
}

// An algorithm of Open MPI's "tuned" component. Open MPI reads the choice when a communicator is
// created, so each algorithm has its own communicator.
struct Algorithm {
  const char* name;
  int number;
  int segment = 0;    // bytes; 0: the component's choice
  bool even = false;  // only for an even number of ranks
};

const std::map<Operation, std::vector<Algorithm>> kTuned = {
    {Operation::kAllReduce,
     {{"recursive doubling", 3}, {"segmented ring", 5, 1 << 20}, {"rabenseifner", 6}}},
    {Operation::kBroadcast, {{"pipeline", 3, 128 << 10}, {"binomial", 6}, {"knomial", 7}}},
    {Operation::kAllGather, {{"ring", 4}, {"neighbor exchange", 5, 0, true}}},
    {Operation::kReduceScatter, {{"recursive halving", 3}}},
    {Operation::kAllToAll, {{"linear", 1}, {"pairwise", 2}}},
};

// Prefix of the variable's name.
const std::map<Operation, std::string> kTunedVariables = {
    {Operation::kAllReduce, "coll_tuned_allreduce_algorithm"},
    {Operation::kBroadcast, "coll_tuned_bcast_algorithm"},
    {Operation::kAllGather, "coll_tuned_allgather_algorithm"},
    {Operation::kReduceScatter, "coll_tuned_reduce_scatter_block_algorithm"},
    {Operation::kAllToAll, "coll_tuned_alltoall_algorithm"},
};

struct MpiWay {
  std::string name;
  MPI_Comm comm;
  bool with_counts = false;  // reduce_scatter by the call with one count per rank
  bool yields = false;       // non-blocking calls that yield between tests
};

class Mpi : public PeerContender {
 public:
  Mpi() {
    KEEL_CHECK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
    KEEL_CHECK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &world_));
    for (const Operation operation : kOperations) find_ways(operation);
  }

  uint32_t rank() const override { return static_cast<uint32_t>(rank_); }
  uint32_t world() const override { return static_cast<uint32_t>(world_); }

  std::vector<Way> ways(const Shape& shape) override {
    std::vector<Way> ways;
    for (const MpiWay& way : ways_.at(shape.operation)) ways.push_back({way.name});
    return ways;
  }

  void prepare(const Shape& shape, size_t way, float* send, float* receive) override {
    shape_ = shape;
    way_ = ways_.at(shape.operation)[way];
    send_ = send;
    receive_ = receive;
    counts_.assign(shape.world, static_cast<int>(shape.piece));
  }

  void run(const std::string&, uint64_t times) override {
    for (uint64_t i = 0; i < times; ++i) run_once();
  }

  // Both of these always yield: a rank that spins here would take the core of ranks still in the
  // loop.
  void barrier() override {
    MPI_Request request;
    KEEL_CHECK_MPI(MPI_Ibarrier(MPI_COMM_WORLD, &request));
    wait_yielding(&request);
  }

  double largest(double value) override {
    double most = 0;
    MPI_Request request;
    KEEL_CHECK_MPI(MPI_Iallreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD, &request));
    wait_yielding(&request);
    return most;
  }

 private:
  void find_ways(Operation operation) {
    std::vector<MpiWay>& ways = ways_[operation];
    ways.push_back({"default", MPI_COMM_WORLD});
    const std::string& variable = kTunedVariables.at(operation);
    for (const Algorithm& algorithm : kTuned.at(operation)) {
      if (algorithm.even && world_ % 2 != 0) continue;
      if (!set_variable(variable.c_str(), algorithm.number)) break;
      const std::string segment = variable + "_segmentsize";
      if (algorithm.segment != 0) set_variable(segment.c_str(), algorithm.segment);
      MPI_Comm comm;
      KEEL_CHECK_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm));
      ways.push_back({algorithm.name, comm});
      set_variable(variable.c_str(), 0);
      if (algorithm.segment != 0) set_variable(segment.c_str(), 0);
    }
    const bool is_tuned = ways.size() > 1;
    if (operation == Operation::kReduceScatter) {
      ways.push_back({"with counts", MPI_COMM_WORLD, /*with_counts=*/true});
    }
    // MPICH always spins in blocking calls: with more ranks than cores an operation takes
    // milliseconds, until the kernel takes the core away, against 13 us. Open MPI yields by itself.
    if (!is_tuned && world() > usable_cores()) {
      ways = {{"non-blocking, yielding", MPI_COMM_WORLD, false, /*yields=*/true}};
    }
  }

  void run_once() {
    if (way_.yields) {
      run_yielding();
      return;
    }
    const int piece = static_cast<int>(shape_.piece);
    switch (shape_.operation) {
      case Operation::kAllReduce:
        MPI_Allreduce(send_, receive_, piece, MPI_FLOAT, MPI_SUM, way_.comm);
        return;
      case Operation::kBroadcast:
        MPI_Bcast(receive_, piece, MPI_FLOAT, /*root=*/0, way_.comm);
        MPI_Barrier(MPI_COMM_WORLD);
        return;
      case Operation::kAllGather:
        MPI_Allgather(send_, piece, MPI_FLOAT, receive_, piece, MPI_FLOAT, way_.comm);
        return;
      case Operation::kReduceScatter:
        if (way_.with_counts) {
          MPI_Reduce_scatter(send_, receive_, counts_.data(), MPI_FLOAT, MPI_SUM, way_.comm);
        } else {
          MPI_Reduce_scatter_block(send_, receive_, piece, MPI_FLOAT, MPI_SUM, way_.comm);
        }
        return;
      case Operation::kAllToAll:
        MPI_Alltoall(send_, piece, MPI_FLOAT, receive_, piece, MPI_FLOAT, way_.comm);
        return;
    }
  }

  void run_yielding() {
    const int piece = static_cast<int>(shape_.piece);
    MPI_Request request;
    switch (shape_.operation) {
      case Operation::kAllReduce:
        MPI_Iallreduce(send_, receive_, piece, MPI_FLOAT, MPI_SUM, way_.comm, &request);
        break;
      case Operation::kBroadcast:
        MPI_Ibcast(receive_, piece, MPI_FLOAT, /*root=*/0, way_.comm, &request);
        wait_yielding(&request);
        MPI_Ibarrier(MPI_COMM_WORLD, &request);
        break;
      case Operation::kAllGather:
        MPI_Iallgather(send_, piece, MPI_FLOAT, receive_, piece, MPI_FLOAT, way_.comm, &request);
        break;
      case Operation::kReduceScatter:
        MPI_Ireduce_scatter_block(send_, receive_, piece, MPI_FLOAT, MPI_SUM, way_.comm, &request);
        break;
      case Operation::kAllToAll:
        MPI_Ialltoall(send_, piece, MPI_FLOAT, receive_, piece, MPI_FLOAT, way_.comm, &request);
        break;
    }
    wait_yielding(&request);
  }

  static void wait_yielding(MPI_Request* request) {
    for (int done = 0; done == 0;) {
      MPI_Test(request, &done, MPI_STATUS_IGNORE);
      if (done == 0) sched_yield();
    }
  }

  int rank_ = 0;
  int world_ = 0;
  std::map<Operation, std::vector<MpiWay>> ways_;
  Shape shape_ = {};
  MpiWay way_ = {"", MPI_COMM_WORLD};
  std::vector<int> counts_;
  float* send_ = nullptr;
  float* receive_ = nullptr;
};

void run(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  arm_deadline(options);
  int provided = 0;
  KEEL_CHECK_MPI(MPI_Init(&argc, &argv));
  KEEL_CHECK_MPI(MPI_T_init_thread(MPI_THREAD_SINGLE, &provided));
  Mpi mpi;
  take_cores(mpi.rank(), mpi.world());
  run_cases(mpi, options);
  KEEL_CHECK_MPI(MPI_T_finalize());
  KEEL_CHECK_MPI(MPI_Finalize());
}

}  // namespace

}  // namespace keel::bench::peers

int main(int argc, char** argv) {
  try {
    keel::bench::peers::run(argc, argv);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mpi_peer: %s\n", error.what());
    return 1;  // not finalized: the launcher ends the others
  }
}
