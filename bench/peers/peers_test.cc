// SPDX-License-Identifier: Apache-2.0
// Tests the code shared by all peers: shapes, patterns, the command line, the printed lines, and
// the timing loop, with a library of known faults.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "bench/peers/measurement.h"
#include "bench/peers/options.h"
#include "bench/peers/pattern.h"
#include "bench/peers/ranks.h"
#include "bench/peers/rendezvous_point.h"
#include "bench/peers/trial.h"

namespace keel::bench::peers {
namespace {

TEST(Shape, CountsBytesAsNcclTestsDoes) {
  EXPECT_EQ(make_shape(Operation::kAllReduce, 1024, 4).piece, 256u);
  const Shape gather = make_shape(Operation::kAllGather, 1024, 4);
  EXPECT_EQ(gather.send, 64u);
  EXPECT_EQ(gather.receive, 256u);
  const Shape scatter = make_shape(Operation::kReduceScatter, 1024, 4);
  EXPECT_EQ(scatter.send, 256u);
  EXPECT_EQ(scatter.receive, 64u);
  EXPECT_EQ(make_shape(Operation::kAllToAll, 1024, 4).bytes(), 1024u);
  EXPECT_EQ(make_shape(Operation::kAllGather, 8, 8).bytes(), 32u);  // a whole element per rank
}

TEST(Shape, OperationsHaveNames) {
  for (const Operation operation : kOperations) {
    EXPECT_EQ(find_operation(name_of(operation)), operation);
  }
  EXPECT_FALSE(find_operation("all"));
}

// Computes the result of an operation on |rank| by its definition, element by element.
std::vector<float> perform(const Shape& shape, uint32_t rank, uint32_t seed) {
  std::vector<std::vector<float>> sent(shape.world, std::vector<float>(shape.send));
  for (uint32_t i = 0; i < shape.world; ++i) fill_send(shape, i, seed, sent[i].data());
  std::vector<float> result(shape.receive);
  for (uint64_t i = 0; i < shape.receive; ++i) {
    const uint64_t from = i / shape.piece;
    switch (shape.operation) {
      case Operation::kAllReduce:
        for (const auto& values : sent) result[i] += values[i];
        break;
      case Operation::kBroadcast:
        result[i] = sent[0][i];
        break;
      case Operation::kAllGather:
        result[i] = sent[from][i % shape.piece];
        break;
      case Operation::kReduceScatter:
        for (const auto& values : sent) result[i] += values[rank * shape.piece + i];
        break;
      case Operation::kAllToAll:
        result[i] = sent[from][rank * shape.piece + i % shape.piece];
        break;
    }
  }
  return result;
}

TEST(Pattern, TakesTheRightResultAndNoOther) {
  for (const Operation operation : kOperations) {
    const Shape shape = make_shape(operation, 80000, 4);  // more than a block of the check
    for (uint32_t rank = 0; rank < shape.world; ++rank) {
      std::vector<float> result = perform(shape, rank, /*seed=*/1);
      EXPECT_FALSE(find_wrong(shape, rank, 1, result.data())) << name_of(operation);
      EXPECT_TRUE(find_wrong(shape, rank, 2, result.data())) << "the data of another run";
      result.back() += 1;
      EXPECT_EQ(find_wrong(shape, rank, 1, result.data()), shape.receive - 1);
      poison(result.data(), shape.receive);
      EXPECT_EQ(find_wrong(shape, rank, 1, result.data()), 0u);
    }
  }
}

TEST(Pattern, NoticesPiecesInEachOthersPlace) {
  const Shape shape = make_shape(Operation::kAllGather, 4096, 4);
  std::vector<float> result = perform(shape, 0, 1);
  std::swap_ranges(result.begin(), result.begin() + shape.piece, result.begin() + shape.piece);
  EXPECT_TRUE(find_wrong(shape, 0, 1, result.data()));
  const Shape reduce = make_shape(Operation::kAllReduce, 4096, 4);
  std::vector<float> sums = perform(reduce, 0, 1);
  std::swap_ranges(sums.begin(), sums.begin() + 256, sums.begin() + 256);
  EXPECT_TRUE(find_wrong(reduce, 0, 1, sums.data()));
}

TEST(Options, AreRead) {
  const char* arguments[] = {"peer",    "--ops",      "broadcast,all_to_all",
                             "--bytes", "8,65536",    "--seconds",
                             "0.25",    "--ranks",    "4",
                             "--mode",  "threads",    "--buffers",
                             "foreign", "--deadline", "7",
                             "--times", "3"};
  const Options options = read_options(std::size(arguments), arguments);
  EXPECT_EQ(options.operations,
            (std::vector<Operation>{Operation::kBroadcast, Operation::kAllToAll}));
  EXPECT_EQ(options.bytes, (std::vector<uint64_t>{8, 65536}));
  EXPECT_EQ(options.seconds, 0.25);
  EXPECT_EQ(options.ranks, 4u);
  EXPECT_EQ(options.deadline, 7u);
  EXPECT_EQ(options.times, 3u);
  EXPECT_EQ(options.mode, Mode::kThreads);
  EXPECT_TRUE(options.foreign);
}

TEST(Options, ThatMakeNoSenseAreRefused) {
  const auto read = [](const char* option, const char* value) {
    const char* arguments[] = {"peer", option, value};
    return read_options(value == nullptr ? 2 : 3, arguments);
  };
  EXPECT_THROW(read("--ops", "all"), std::invalid_argument);
  EXPECT_THROW(read("--bytes", "8,"), std::invalid_argument);
  EXPECT_THROW(read("--bytes", "0"), std::invalid_argument);
  EXPECT_THROW(read("--seconds", "-1"), std::invalid_argument);
  EXPECT_THROW(read("--mode", "fibers"), std::invalid_argument);
  EXPECT_THROW(read("--ranks", nullptr), std::invalid_argument);
  EXPECT_THROW(read("--rank", "2"), std::invalid_argument);
}

TEST(Measurement, ComesBackFromItsLine) {
  const Measurement measurement = {
      Operation::kReduceScatter, 4, 8, 16, "ring \"fast\"", "stream", 1000, 0.375, true};
  const std::optional<Measurement> read = parse_line(to_line(measurement));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->operation, Operation::kReduceScatter);
  EXPECT_EQ(read->ranks, 4u);
  EXPECT_EQ(read->bytes, 8u);
  EXPECT_EQ(read->moved, 16u);
  EXPECT_EQ(read->way, "ring \"fast\"");
  EXPECT_EQ(read->form, "stream");
  EXPECT_EQ(read->times, 1000u);
  EXPECT_EQ(read->microseconds, 0.375);
  EXPECT_TRUE(read->right);
}

TEST(Measurement, IsNotReadFromOtherLines) {
  EXPECT_FALSE(parse_line(""));
  EXPECT_FALSE(parse_line("mpirun has detected an attempt to run as root"));
  EXPECT_FALSE(parse_line("{\"op\":\"all_reduce\"}"));
  EXPECT_FALSE(parse_line("{\"op\":\"all_reduce\",\"ranks\":2"));
  std::string line = to_line({Operation::kAllReduce, 2, 8, 8, "w", "f", 1, 1.5, true});
  ASSERT_TRUE(parse_line(line));
  EXPECT_FALSE(parse_line(line.replace(line.find("1.5"), 3, "0.0")));
}

// A single rank, for which every operation copies its own data; with faults to detect.
class Alone : public PeerContender {
 public:
  enum class Fault { kNone, kSlowWay, kWrongElement, kNothingDone };
  explicit Alone(Fault fault) : fault_(fault) {}

  uint32_t rank() const override { return 0; }
  uint32_t world() const override { return 1; }
  // Large sizes have only one algorithm.
  std::vector<Way> ways(const Shape& shape) override {
    if (shape.bytes() > 64 << 10) return {{"first"}};
    return {{"first"}, {"second"}};
  }
  void prepare(const Shape& shape, size_t way, float* send, float* receive) override {
    shape_ = shape;
    way_ = way;
    send_ = send;
    receive_ = receive;
  }
  void run(const std::string&, uint64_t times) override {
    for (uint64_t i = 0; i < times; ++i) {
      ++runs;
      if (fault_ == Fault::kNothingDone) return;
      if (fault_ == Fault::kSlowWay && way_ == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
      std::copy(send_, send_ + shape_.send, receive_);
      if (fault_ == Fault::kWrongElement) receive_[shape_.receive - 1] += 1;
    }
  }
  void barrier() override {}
  double largest(double value) override { return value; }

  uint64_t runs = 0;

 private:
  const Fault fault_;
  Shape shape_ = {};
  size_t way_ = 0;
  float* send_ = nullptr;
  float* receive_ = nullptr;
};

std::vector<Measurement> measure(Alone& alone) {
  Options options;
  options.operations = {Operation::kAllReduce, Operation::kAllToAll};
  options.bytes = {8, 4096};
  options.seconds = 0.004;
  testing::internal::CaptureStdout();
  run_cases(alone, options);
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::vector<Measurement> measurements;
  for (std::string line; std::getline(lines, line);) {
    const std::optional<Measurement> measurement = parse_line(line);
    if (measurement) measurements.push_back(*measurement);
  }
  return measurements;
}

TEST(Trial, MeasuresEveryCase) {
  Alone alone(Alone::Fault::kNone);
  const std::vector<Measurement> measurements = measure(alone);
  ASSERT_EQ(measurements.size(), 4u);
  uint64_t timed = 0;
  for (const Measurement& measurement : measurements) {
    EXPECT_TRUE(measurement.right);
    EXPECT_GT(measurement.microseconds, 0);
    EXPECT_GE(measurement.times, 2u);
    timed += measurement.times;
  }
  EXPECT_GT(alone.runs, timed);  // includes runs that are not timed
  EXPECT_EQ(measurements[3].operation, Operation::kAllToAll);
  EXPECT_EQ(measurements[3].bytes, 4096u);
}

TEST(Trial, TakesTheFastestWay) {
  Alone alone(Alone::Fault::kSlowWay);
  for (const Measurement& measurement : measure(alone)) EXPECT_EQ(measurement.way, "second");
}

TEST(Trial, TakesTheOnlyWayHoweverSlowItWasBefore) {
  Alone alone(Alone::Fault::kSlowWay);
  Options options;
  options.bytes = {64 << 10, 128 << 10};
  options.seconds = 0.004;
  testing::internal::CaptureStdout();
  run_cases(alone, options);
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(parse_line(line).value().way, "second");
  std::getline(lines, line);
  EXPECT_EQ(parse_line(line).value().way, "first");
  EXPECT_TRUE(parse_line(line).value().right);
}

TEST(Trial, NoticesWrongResults) {
  for (const Alone::Fault fault : {Alone::Fault::kWrongElement, Alone::Fault::kNothingDone}) {
    Alone alone(fault);
    const std::vector<Measurement> measurements = measure(alone);
    ASSERT_EQ(measurements.size(), 4u);
    for (const Measurement& measurement : measurements) EXPECT_FALSE(measurement.right);
  }
}

TEST(RendezvousPoint, LetsNobodyPassBeforeAllHaveCome) {
  constexpr uint32_t kRanks = 4;
  constexpr int kRendezvous = 500;
  RendezvousPoint rendezvous(kRanks, /*spin=*/false);
  std::vector<int> arrived(kRanks, 0);  // plain ints: only the barriers order accesses
  std::atomic<int> early = 0;
  run_in_threads(kRanks, [&](uint32_t rank) {
    for (int i = 0; i < kRendezvous; ++i) {
      arrived[rank] = i;
      rendezvous.arrive_and_wait(rank);
      for (const int other : arrived) early += other != i;
      if (rendezvous.largest(rank, rank + i) != kRanks - 1 + i) ++early;
    }
  });
  EXPECT_EQ(early, 0);
}

TEST(Ranks, AreProcessesThatShareABlackboard) {
  Blackboard board;
  std::atomic<int> not_shared = 0;
  EXPECT_EQ(run_in_processes(3,
                             [&](uint32_t rank) {
                               ++not_shared;
                               if (rank == 2) board.write("here");
                               if (board.read(/*seconds=*/60) != "here")
                                 throw std::logic_error("?");
                             }),
            0);
  EXPECT_EQ(not_shared, 0);
}

TEST(Ranks, EndTogetherWhenOneFails) {
  // The other ranks would sleep longer than the test may take.
  EXPECT_EQ(run_in_processes(3,
                             [](uint32_t rank) {
                               if (rank == 1) throw std::runtime_error("no luck");
                               std::this_thread::sleep_for(std::chrono::hours(1));
                             }),
            1);
}

TEST(Ranks, ABlackboardThatStaysEmptyIsNotReadForEver) {
  Blackboard board;
  EXPECT_THROW(board.read(/*seconds=*/0), std::runtime_error);
  EXPECT_THROW(board.write(std::string(256, 'x')), std::runtime_error);
}

}  // namespace
}  // namespace keel::bench::peers
