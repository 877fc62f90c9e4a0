// SPDX-License-Identifier: Apache-2.0
// The bound: the best time on a host whose ranks are threads of one program that read one another's
// buffers in place and write only their own result. There is no copy between the user's buffers, no
// queue and no system call. The remaining cost is memory traffic and the two waits that correctness
// needs: before reading the other ranks' buffers, and before writing one's own buffer again.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <vector>

#include "bench/peers/options.h"
#include "bench/peers/ranks.h"
#include "bench/peers/rendezvous_point.h"
#include "bench/peers/trial.h"

namespace keel::bench::peers {

namespace {

// Sum the first elements of 2, 4 or 8 buffers, as a tree, so that additions do not wait for one
// another.
#if defined(__x86_64__)
#define KEEL_WIDEST_VECTORS [[gnu::target_clones("avx512f", "avx2", "default")]]
#else
#define KEEL_WIDEST_VECTORS
#endif

KEEL_WIDEST_VECTORS void add_2(float* __restrict out, const float* const* in, uint64_t count) {
  const float *a = in[0], *b = in[1];
  for (uint64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
}

KEEL_WIDEST_VECTORS void add_4(float* __restrict out, const float* const* in, uint64_t count) {
  const float *a = in[0], *b = in[1], *c = in[2], *d = in[3];
  for (uint64_t i = 0; i < count; ++i) out[i] = (a[i] + b[i]) + (c[i] + d[i]);
}

KEEL_WIDEST_VECTORS void add_8(float* __restrict out, const float* const* in, uint64_t count) {
  const float *a = in[0], *b = in[1], *c = in[2], *d = in[3];
  const float *e = in[4], *f = in[5], *g = in[6], *h = in[7];
  for (uint64_t i = 0; i < count; ++i) {
    out[i] = ((a[i] + b[i]) + (c[i] + d[i])) + ((e[i] + f[i]) + (g[i] + h[i]));
  }
}

// State shared by all ranks.
struct Team {
  Team(uint32_t ranks, bool spin) : rendezvous(ranks, spin), send(ranks), receive(ranks) {}
  RendezvousPoint rendezvous;
  std::vector<const float*> send;
  std::vector<const float*> receive;
};

class Direct : public PeerContender {
 public:
  Direct(uint32_t rank, uint32_t world, Team& team) : rank_(rank), world_(world), team_(team) {}

  uint32_t rank() const override { return rank_; }
  uint32_t world() const override { return world_; }

  // Every rank computes a small sum itself, which saves a barrier; a large sum is divided.
  std::vector<Way> ways(const Shape& shape) override {
    if (shape.operation != Operation::kAllReduce) return {{"pull"}};
    if (shape.piece < world_) return {{"whole"}};
    if (shape.piece > 64 << 10) return {{"shards"}};
    return {{"whole"}, {"shards"}};
  }

  void prepare(const Shape& shape, size_t way, float* send, float* receive) override {
    shape_ = shape;
    shards_ = ways(shape)[way].name == "shards";
    send_ = send;
    receive_ = receive;
    team_.send[rank_] = send;
    team_.receive[rank_] = receive;
    barrier();
  }

  void run(const std::string&, uint64_t times) override {
    for (uint64_t i = 0; i < times; ++i) {
      barrier();
      run_once();
      barrier();
    }
  }

  void barrier() override { team_.rendezvous.arrive_and_wait(rank_); }
  double largest(double value) override { return team_.rendezvous.largest(rank_, value); }

 private:
  void run_once() {
    const uint64_t piece = shape_.piece;
    switch (shape_.operation) {
      case Operation::kAllReduce:
        if (shards_) {
          reduce_in_shards();
        } else {
          sum(/*first=*/0, piece, receive_);
        }
        return;
      case Operation::kBroadcast:
        if (rank_ != 0) copy(receive_, team_.send[0], piece);
        return;
      case Operation::kAllGather:
        for_others([&](uint32_t from) { copy(receive_ + from * piece, team_.send[from], piece); });
        return;
      case Operation::kReduceScatter:
        sum(rank_ * piece, piece, receive_);
        return;
      case Operation::kAllToAll:
        for_others([&](uint32_t from) {
          copy(receive_ + from * piece, team_.send[from] + rank_ * piece, piece);
        });
        return;
    }
  }

  void reduce_in_shards() {
    const uint64_t first = shard(rank_);
    sum(first, shard(rank_ + 1) - first, receive_ + first);
    barrier();
    for_others([&](uint32_t from) {
      if (from == rank_) return;
      const uint64_t start = shard(from);
      copy(receive_ + start, team_.receive[from] + start, shard(from + 1) - start);
    });
  }

  // Start of the shard of |rank|, on a cache line, so that two ranks never write one line.
  uint64_t shard(uint32_t rank) const {
    constexpr uint64_t kLine = 64 / sizeof(float);
    return std::min((shape_.piece * rank / world_ + kLine - 1) / kLine * kLine, shape_.piece);
  }

  // Visits this rank first, because its data is in its own cache, then the other ranks in turn, so
  // that no two ranks read from the same one.
  template <typename Function>
  void for_others(Function function) {
    for (uint32_t i = 0; i < world_; ++i) function((rank_ + i) % world_);
  }

  // Sums |count| elements from |first| on over all ranks' send buffers.
  void sum(uint64_t first, uint64_t count, float* out) {
    const float* in[8];
    for (uint32_t i = 0; i < world_; ++i) in[i] = team_.send[i] + first;
    if (world_ == 2) {
      add_2(out, in, count);
    } else if (world_ == 4) {
      add_4(out, in, count);
    } else {
      add_8(out, in, count);
    }
  }

  static void copy(float* out, const float* in, uint64_t count) {
    std::memcpy(out, in, count * sizeof(float));
  }

  const uint32_t rank_;
  const uint32_t world_;
  Team& team_;
  Shape shape_ = {};
  bool shards_ = false;
  float* send_ = nullptr;
  float* receive_ = nullptr;
};

int run(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  if (options.ranks != 2 && options.ranks != 4 && options.ranks != 8) {
    throw std::invalid_argument("the bound is for 2, 4 or 8 ranks");
  }
  arm_deadline(options);
  Team team(options.ranks, /*spin=*/options.ranks <= usable_cores());
  return run_in_threads(options.ranks, [&](uint32_t rank) {
    Direct direct(rank, options.ranks, team);
    run_cases(direct, options);
  });
}

}  // namespace

}  // namespace keel::bench::peers

int main(int argc, char** argv) {
  try {
    return keel::bench::peers::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "direct_bound: %s\n", error.what());
    return 1;
  }
}
