// SPDX-License-Identifier: Apache-2.0
// Gloo as a peer_contender. Ranks are threads, or processes that rendezvous through a folder. All
// use Gloo's tcp transport, on the loopback device if none is named: the only transport in Debian's
// package that needs no RDMA hardware.
#include <gloo/allgather.h>
#include <gloo/allgather_ring.h>
#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <stdlib.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "bench/peers/options.h"
#include "bench/peers/ranks.h"
#include "bench/peers/trial.h"

namespace keel::bench::peers {

namespace {

// A temporary folder for the ranks' rendezvous, deleted by the destructor.
class RendezvousFolder {
 public:
  RendezvousFolder() {
    std::string pattern = std::filesystem::temp_directory_path() / "gloo-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder to meet in");
    path_ = pattern;
  }
  ~RendezvousFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  RendezvousFolder(const RendezvousFolder&) = delete;
  RendezvousFolder& operator=(const RendezvousFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

class Gloo : public PeerContender {
 public:
  Gloo(uint32_t rank, const Options& options, const std::string& folder) {
    gloo::rendezvous::FileStore store(folder);
    context_ = connect(rank, options, store, "events");
    if (options.ranks > usable_cores()) return;
    polled_ = connect(rank, options, store, "polled");
    for (uint32_t peer = 0; peer < options.ranks; ++peer) {
      if (peer != rank) polled_->getPair(static_cast<int>(peer))->setSync(true, true);
    }
  }

  ~Gloo() override {
    algorithm_.reset();
    after_.reset();
    barrier();  // closing a pair while the peer sends is an error
  }

  uint32_t rank() const override { return static_cast<uint32_t>(context_->rank); }
  uint32_t world() const override { return static_cast<uint32_t>(context_->size); }

  // Sums run in place, as PyTorch calls them, which saves Gloo a copy.
  std::vector<Way> ways(const Shape& shape) override {
    std::vector<Way> ways;
    for (const Algorithm algorithm : algorithms(shape)) {
      const bool in_place =
          shape.operation == Operation::kAllReduce || shape.operation == Operation::kReduceScatter;
      const bool is_star =
          shape.operation == Operation::kBroadcast && algorithm == Algorithm::kPolledRing;
      ways.push_back({is_star ? "one to all, polled" : name_of(algorithm), in_place});
    }
    return ways;
  }

  void prepare(const Shape& shape, size_t way, float* send, float* receive) override {
    algorithm_.reset();
    after_.reset();
    const Algorithm algorithm = algorithms(shape)[way];
    switch (shape.operation) {
      case Operation::kAllReduce:
        run_ = all_reduce(shape, algorithm, receive);
        return;
      case Operation::kBroadcast:
        run_ = broadcast(shape, algorithm, receive);
        return;
      case Operation::kAllGather:
        run_ = all_gather(shape, algorithm, send, receive);
        return;
      case Operation::kReduceScatter:
        run_ = bind<gloo::ReduceScatterHalvingDoubling<float>>(
            algorithm, std::vector<float*>{receive}, static_cast<int>(shape.send),
            std::vector<int>(shape.world, static_cast<int>(shape.piece)));
        return;
      case Operation::kAllToAll:
        run_ = all_to_all(shape, send, receive);
        return;
    }
  }

  void run(const std::string&, uint64_t times) override {
    for (uint64_t i = 0; i < times; ++i) run_();
  }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  double largest(double value) override {
    gloo::AllreduceOptions options(context_);
    options.setOutput(&value, 1);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }

 private:
  using Run = std::function<void()>;

  // Two polling ranks that send to each other write until their socket buffers are full, and then
  // neither reads: 16 MiB hung so in one of a dozen launches.
  static constexpr uint64_t kMostPolled = 1 << 20;

  // Gloo's functions, then its classes, which bind buffers to pairs once. If each rank has a core,
  // the classes may poll the sockets instead of being woken by an event thread.
  enum class Algorithm {
    kFunction,
    kFunctionBcube,
    kHalvingDoubling,
    kBcube,
    kRing,
    kPolledHalvingDoubling,
    kPolledRing
  };

  static const char* name_of(Algorithm algorithm) {
    switch (algorithm) {
      case Algorithm::kFunction:
        return "function";
      case Algorithm::kFunctionBcube:
        return "function, bcube";
      case Algorithm::kHalvingDoubling:
        return "halving-doubling";
      case Algorithm::kBcube:
        return "bcube";
      case Algorithm::kRing:
        return "ring";
      case Algorithm::kPolledHalvingDoubling:
        return "halving-doubling, polled";
      case Algorithm::kPolledRing:
        return "ring, polled";
    }
    return "";
  }

  std::vector<Algorithm> algorithms(const Shape& shape) const {
    const Operation operation = shape.operation;
    const bool is_polled = polled_ != nullptr && shape.bytes() <= kMostPolled;
    std::vector<Algorithm> found;
    if (operation != Operation::kReduceScatter) found.push_back(Algorithm::kFunction);
    if (operation == Operation::kAllReduce) {
      found.insert(found.end(), {Algorithm::kFunctionBcube, Algorithm::kBcube});
    }
    const bool halves =
        operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
    if (halves) found.push_back(Algorithm::kHalvingDoubling);
    if (halves && is_polled) found.push_back(Algorithm::kPolledHalvingDoubling);
    const bool rings = operation == Operation::kAllReduce || operation == Operation::kAllGather;
    if (rings) found.push_back(Algorithm::kRing);
    if ((rings || operation == Operation::kBroadcast) && is_polled) {
      found.push_back(Algorithm::kPolledRing);
    }
    return found;
  }

  static std::shared_ptr<gloo::rendezvous::Context> connect(uint32_t rank, const Options& options,
                                                            gloo::rendezvous::Store& store,
                                                            const std::string& name) {
    const auto context = std::make_shared<gloo::rendezvous::Context>(
        static_cast<int>(rank), static_cast<int>(options.ranks));
    context->setTimeout(std::chrono::seconds(options.deadline));
    gloo::transport::tcp::attr attributes;
    if (options.interface.empty()) {
      attributes.hostname = "127.0.0.1";
    } else {
      attributes.iface = options.interface;
    }
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    gloo::rendezvous::PrefixStore own(name, store);
    context->connectFullMesh(own, device);
    return context;
  }

  bool is_polled(Algorithm algorithm) const {
    return algorithm == Algorithm::kPolledHalvingDoubling || algorithm == Algorithm::kPolledRing;
  }

  template <typename Class, typename... Arguments>
  Run bind(Algorithm algorithm, Arguments... arguments) {
    algorithm_ = std::make_unique<Class>(is_polled(algorithm) ? polled_ : context_, arguments...);
    return [this] { algorithm_->run(); };
  }

  // Options keep their data about the buffers, so they are made once for all runs.
  Run all_reduce(const Shape& shape, Algorithm algorithm, float* data) {
    const std::vector<float*> buffers = {data};
    const int count = static_cast<int>(shape.piece);
    switch (algorithm) {
      case Algorithm::kHalvingDoubling:
      case Algorithm::kPolledHalvingDoubling:
        return bind<gloo::AllreduceHalvingDoubling<float>>(algorithm, buffers, count);
      case Algorithm::kRing:
      case Algorithm::kPolledRing:
        return bind<gloo::AllreduceRingChunked<float>>(algorithm, buffers, count);
      case Algorithm::kBcube:
        return bind<gloo::AllreduceBcube<float>>(algorithm, buffers, count);
      case Algorithm::kFunction:
      case Algorithm::kFunctionBcube:
        break;
    }
    const auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setAlgorithm(algorithm == Algorithm::kFunction
                              ? gloo::AllreduceOptions::Algorithm::RING
                              : gloo::AllreduceOptions::Algorithm::BCUBE);
    options->setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    options->setOutput(data, shape.piece);
    return [options] { gloo::allreduce(*options); };
  }

  Run broadcast(const Shape& shape, Algorithm algorithm, float* data) {
    if (algorithm == Algorithm::kPolledRing) {
      const Run run = bind<gloo::BroadcastOneToAll<float>>(algorithm, std::vector<float*>{data},
                                                           static_cast<int>(shape.piece));
      after_ = std::make_unique<gloo::BarrierAllToAll>(polled_);
      return [this, run] {
        run();
        after_->run();
      };
    }
    const auto options = std::make_shared<gloo::BroadcastOptions>(context_);
    options->setOutput(data, shape.piece);
    options->setRoot(0);
    const auto after = std::make_shared<gloo::BarrierOptions>(context_);
    return [options, after] {
      gloo::broadcast(*options);
      gloo::barrier(*after);
    };
  }

  Run all_gather(const Shape& shape, Algorithm algorithm, float* send, float* receive) {
    if (algorithm != Algorithm::kFunction) {
      return bind<gloo::AllgatherRing<float>>(algorithm, std::vector<const float*>{send}, receive,
                                              static_cast<int>(shape.piece));
    }
    const auto options = std::make_shared<gloo::AllgatherOptions>(context_);
    options->setInput(send, shape.send);
    options->setOutput(receive, shape.receive);
    return [options] { gloo::allgather(*options); };
  }

  Run all_to_all(const Shape& shape, float* send, float* receive) {
    const auto options = std::make_shared<gloo::AlltoallOptions>(context_);
    options->setInput(send, shape.send);
    options->setOutput(receive, shape.receive);
    return [options] { gloo::alltoall(*options); };
  }

  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::shared_ptr<gloo::rendezvous::Context> polled_;  // null with more ranks than cores
  std::unique_ptr<gloo::Algorithm> algorithm_;
  std::unique_ptr<gloo::Algorithm> after_;
  Run run_;
};

// Ranks that `keel run` has started.
void run_launched(Options options) {
  if (options.meet.empty()) throw std::invalid_argument("--mode launched wants --meet");
  const LaunchedRank own = launched_rank();
  options.ranks = own.ranks;
  Gloo gloo(own.rank, options, options.meet);
  run_cases(gloo, options);
}

int run(int argc, char** argv) {
  const Options options = read_options(argc, argv);
  arm_deadline(options);
  if (options.mode == Mode::kLaunched) {
    run_launched(options);
    return 0;
  }
  const RendezvousFolder folder;
  const RankFunction rank_function = [&](uint32_t rank) {
    arm_deadline(options);  // a child does not inherit the parent's
    Gloo gloo(rank, options, folder.path());
    run_cases(gloo, options);
  };
  return options.mode == Mode::kThreads ? run_in_threads(options.ranks, rank_function)
                                        : run_in_processes(options.ranks, rank_function);
}

}  // namespace

}  // namespace keel::bench::peers

int main(int argc, char** argv) {
  try {
    return keel::bench::peers::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo_peer: %s\n", error.what());
    return 1;
  }
}
