// SPDX-License-Identifier: Apache-2.0
// Hybrid-parallel training: one rank of a job that trains a GPT-2 or Llama on a mesh.
//
//   keel::parallel::Mesh mesh(std::move(world), device, MeshShape::parse("pp=2,dp=2,tp=2"));
//   keel::parallel::Settings settings;
//   settings.model.layers = 8;
//   settings.batch = 16;
//   keel::parallel::Engine engine(mesh, settings);
//   StepResult result = engine.step(tokens, labels, /*rate=*/1e-3);
//
// Every rank constructs an engine with equal settings and calls the same members in the same order.
#ifndef KEEL_PARALLEL_ENGINE_HPP_
#define KEEL_PARALLEL_ENGINE_HPP_

#include <cstdint>
#include <functional>
#include <keel/keel.hpp>
#include <keel/parallel/mesh.hpp>
#include <keel/parallel/model.hpp>
#include <keel/parallel/timeline.hpp>
#include <keel/parallel/traffic.hpp>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace keel::parallel {

class Store;

inline namespace v0 {

// Activations that a layer drops after the forward pass, and the backward pass computes again.
enum class Recompute { kNone, kSelective, kFull };  // nothing; attention; the whole layer

// The dtype that matrix products read. All else is float32: other operators, weights, gradients,
// moments, and what ranks send.
enum class Precision { kFloat32, kBFloat16 };

// AdamW (Loshchilov and Hutter, 2019).
struct OptimizerSettings {
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8;
  double weight_decay = 0.1;  // of matrices
  double clip = 1.0;          // largest norm of the gradient; 0: no limit
};

struct Settings {
  ModelShape model;
  uint64_t seed = 1;
  int64_t batch = 8;          // sequences of a step, over all ranks
  int64_t micro_batches = 1;  // parts of a rank's sequences, whose gradients are added
  // Sequences of one micro-batch for each coordinate of axis dp, for chips of different speed;
  // empty: equal. Each token has the same weight in the gradient, whatever the shares.
  std::vector<int64_t> shares;
  int64_t sharding = 0;             // of axis dp: 0 none, 1 to 3 the levels of ZeRO
  int64_t bucket_bytes = 25 << 20;  // of gradients that one all_reduce sums, without sharding
  Precision precision = Precision::kFloat32;
  bool sequence_parallel = false;     // divides rows over axis tp between the products
  int64_t chunks = 1;                 // of products beside communication, on axis tp
  std::vector<Recompute> recompute;   // of each layer; empty: none; one: of all layers
  std::vector<int64_t> stage_layers;  // of each stage of axis pp; empty: as equal as possible
  bool check_gradients = true;        // name rank, layer and step of a gradient that is not finite
  OptimizerSettings optimizer;

  std::string text() const;  // one line, equal for equal settings; without the seed
};

// Distributes |sequences| in proportion to |speeds|, at least one to each: by largest remainder.
std::vector<int64_t> shares_by_speed(int64_t sequences, const std::vector<double>& speeds);

// Shares of axis dp by measured speed. Each rank passes the |seconds| that its own passes took in a
// step with |shares|, without their waits (computing_seconds); the slowest rank of a coordinate of
// axis dp is the speed of the coordinate. Returns |shares| unless others shorten the longest passes
// by the part |gain| at least. Every rank calls, with the same |shares| and |gain|, and gets the
// same; waits. Throws KEEL_INVALID_ARGUMENT unless |shares| has a number for each rank of axis dp.
std::vector<int64_t> measured_shares(Mesh& mesh, const std::vector<int64_t>& shares, double seconds,
                                     double gain = 0.05);

// A pipeline's order of forward and backward passes.
class Schedule {
 public:
  // Arguments of run().
  struct Run {
    Mesh& mesh;
    std::vector<Stage*> stages;  // this rank's, one a chunk: chunk c is stage c * pp + coordinate
    int64_t micro_batches;
    double scale;  // of losses, for Stage::backward_data()
    // Uploads micro-batch |micro_batch| into |slot|; for every stage, before its forward pass.
    std::function<void(Stage& stage, size_t slot, int64_t micro_batch)> load;
    // Adds the slot's losses to the step's loss; for the last stage, after its forward pass.
    std::function<void(Stage& stage, size_t slot)> count_loss;
    Channel pipeline;                  // axis pp; of one rank where it has one
    StepRecorder* recorder = nullptr;  // gets passes and messages; NULL: none
    uint32_t group = 0;                // of the messages, for Span::group
  };
  virtual ~Schedule() = default;
  virtual std::string name() const = 0;
  virtual int64_t chunks() const { return 1; }  // stages of each rank
  // Idle share of a step on equal stages; 0: not known.
  virtual double bubble(int64_t /*ranks*/, int64_t /*micro_batches*/) const { return 0; }
  // Operations that libkeel counts on communicators of the schedule's own.
  virtual uint64_t operations() const { return 0; }
  // Enqueues one step's passes: each micro-batch once through each stage, both ways.
  virtual void run(Run& run) = 0;
};

// All forward passes, then all backward passes, without overlap between stages:
//
//   stage 0  F0 F1 F2 .. .. .. B0 B1 B2      Source: Huang et al., "GPipe", NeurIPS 2019
//   stage 1  .. F0 F1 F2 B0 B1 B2 .. ..
class FillDrainSchedule : public Schedule {
 public:
  std::string name() const override { return "fill-drain"; }
  double bubble(int64_t ranks, int64_t micro_batches) const override {
    return static_cast<double>(ranks - 1) / static_cast<double>(micro_batches + ranks - 1);
  }
  void run(Run& run) override;
};

struct StepResult {
  int64_t step = 0;          // counts from 1
  double loss = 0;           // mean of the tokens that count, nats
  double gradient_norm = 0;  // before clipping
};

// One rank. Not thread-safe; ranks may be threads of one process.
class Engine {
 public:
  // |mesh| outlives the engine. Throws Error(KEEL_INVALID_ARGUMENT) for settings that the mesh
  // cannot run, and on all ranks, naming the odd ones, if a rank has other settings or another
  // seed. Without |schedule|: FillDrainSchedule.
  Engine(Mesh& mesh, const Settings& settings, std::shared_ptr<Schedule> schedule = nullptr);
  ~Engine();

  const Settings& settings() const { return settings_; }
  Mesh& mesh() { return mesh_; }
  Stream& stream() { return stream_; }
  int64_t steps() const { return step_; }
  void set_steps(int64_t steps) { step_ = steps; }  // done so far, of a training that goes on
  std::vector<Stage*> stages();

  // One step on the whole batch, which every rank passes: batch * context tokens and labels; a
  // negative label does not count. Waits for the result. Throws Error(KEEL_DATA_LOSS) on all ranks
  // for a gradient that is not finite, before any weight changes.
  StepResult step(std::span<const int32_t> tokens, std::span<const int32_t> labels, double rate);
  // The mean loss on a batch, without any change.
  double evaluate(std::span<const int32_t> tokens, std::span<const int32_t> labels);

  // The sequences that this rank reads of a step's |batch|: all ranks of one coordinate of axis dp
  // have the same.
  struct Share {
    int64_t first = 0, count = 0;  // in sequences; LoaderOptions::first and ::count
  };
  Share share() const;
  // Changes Settings::shares from the next step on: gradients, weights and moments stay what they
  // are, since each token weighs the same whatever the shares. Every rank calls; waits. Throws
  // KEEL_INVALID_ARGUMENT as the constructor, and then changes nothing. If a rank has no memory for
  // its share, throws on all ranks: the engine is of no more use.
  void set_shares(const std::vector<int64_t>& shares);
  // As step() and evaluate(), for a caller that has read share() alone; the ranks add up how many
  // labels count. With several micro-batches a sequence belongs to another micro-batch than with
  // step(), so that losses differ by rounding.
  StepResult step_share(std::span<const int32_t> tokens, std::span<const int32_t> labels,
                        double rate);
  double evaluate_share(std::span<const int32_t> tokens, std::span<const int32_t> labels);

  // Part of a parameter that this rank's optimizer updates: elements [begin, end) of the shard,
  // flat. Without sharding all ranks of axis dp have the same pieces.
  struct Piece {
    const Parameter* parameter;
    int64_t begin, end;
    keel_tensor value, first_moment, second_moment;  // flat, device memory
  };
  std::vector<Piece> pieces();
  // After the caller has written values of pieces(): gives them to the other ranks of axis dp.
  void publish();

  // This rank's tensor-parallel shard of each parameter, by name, on the host. Every rank calls.
  std::map<std::string, std::vector<float>> download_values();
  std::map<std::string, std::vector<float>> download_gradients();  // summed, of the last step
  // Sets values from whole tensors by name; every rank calls.
  void set_values(const std::function<std::vector<float>(const Parameter&)>& whole);

  // Records passes, optimizer and communication of the following steps, each of which the caller
  // starts and finishes. Borrowed; NULL ends it. A step that is not recorded costs a comparison for
  // each operation.
  void set_recorder(StepRecorder* recorder);
  // Operations of this rank's part of a step, without recomputation: the sum over all ranks is
  // training_flops_per_token() of the batch.
  double step_flops() const;
  double bubble() const;  // of the schedule, for analyse()

  // Bytes sent on an axis since the construction.
  const Traffic& traffic(const std::string& axis) { return traffic_[axis]; }
  // Operations that have ended on the communicators of |axis|, whose ever, as libkeel counts:
  // behind a synchronize(), traffic(axis).calls while the engine alone uses the axis.
  uint64_t operations(const std::string& axis);
  uint64_t bytes_in_use() const;
  uint64_t peak_bytes() const;  // since the construction, or the last reset
  void reset_peak();

  // For the proof's tests, which make mistakes on purpose: the parts behind the interface.
  Store& store(size_t stage);

 private:
  struct Impl;

  Schedule::Run make_run(std::span<const int32_t> tokens, std::span<const int32_t> labels);
  Schedule::Run make_share_run(std::span<const int32_t> tokens, std::span<const int32_t> labels);
  Schedule::Run passes_of(std::span<const int32_t> tokens, std::span<const int32_t> labels,
                          double scale, const std::function<int64_t(int64_t)>& place_of,
                          int64_t first_number);
  void take_share();
  void make_stages();
  void make_stage(int64_t chunk);
  StepResult run_step(Schedule::Run& run, double rate);
  double run_evaluation(Schedule::Run& run);
  int64_t counted(std::span<const int32_t> labels) const;
  void sum_tied();
  void sum_figures();
  void update(double rate);
  void record_optimizer(const std::function<void()>& enqueue);
  [[noreturn]] void report_not_finite();

  Mesh& mesh_;
  Settings settings_;
  std::shared_ptr<Schedule> schedule_;
  std::map<std::string, Traffic> traffic_;
  Stream stream_;
  int64_t step_ = 0;
  std::unique_ptr<Impl> impl_;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_ENGINE_HPP_
