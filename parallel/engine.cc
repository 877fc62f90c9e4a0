// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <keel/parallel/engine.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "parallel/engine_impl.h"
#include "parallel/settings.h"

namespace keel::parallel {
inline namespace v0 {
namespace {

constexpr int32_t kAlone = KEEL_NO_COLOR;

[[noreturn]] void refuse(const std::string& complaint) {
  throw Error(KEEL_INVALID_ARGUMENT, complaint);
}

std::string text(int64_t value) {
  return std::to_string(value);
}

// Runs |allocate| on each rank. A rank whose device is full stops all ranks here, where none waits
// for a collective of it.
template <typename Allocate>
void allocate_on_all(Mesh& mesh, const Allocate& allocate) {
  keel_status status = KEEL_OK;
  std::string failure;
  try {
    allocate();
  } catch (const Error& error) {
    status = error.status();
    failure = text_of(error);
  }
  const std::vector<uint64_t> all = mesh.gather(static_cast<uint64_t>(status));
  if (status != KEEL_OK) throw Error(status, mesh.rank_name(mesh.rank()) + ": " + failure);
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == KEEL_OK) continue;
    throw Error(static_cast<keel_status>(all[rank]),
                mesh.rank_name(static_cast<int64_t>(rank)) + " could not allocate its stages");
  }
}

}  // namespace

Engine::Engine(Mesh& mesh, const Settings& settings, std::shared_ptr<Schedule> schedule)
    : mesh_(mesh),
      settings_(settings),
      schedule_(schedule ? std::move(schedule) : std::make_shared<FillDrainSchedule>()),
      stream_(mesh.device()) {
  // Ranks that disagree would fail in a collective, or train two models: they stop here.
  mesh.agree("config", settings.text() + " schedule=" + schedule_->name());
  mesh.agree("seed", text(static_cast<int64_t>(settings.seed)));
  settings_ = complete(settings, mesh, schedule_->chunks());
  impl_ = std::make_unique<Impl>(stream_);
  Impl& impl = *impl_;
  const auto group_of = [&](const char* axis) {
    return static_cast<uint32_t>(mesh.shape().neighbour(mesh.rank(), axis, 0));
  };
  const ChannelSpans data{&impl.recorder, group_of("dp"), SpanKind::kGradientBucket,
                          SpanKind::kValueGather, SpanKind::kGradientScatter};
  const ChannelSpans tensor{&impl.recorder, group_of("tp"), SpanKind::kTensorCollective,
                            SpanKind::kTensorCollective, SpanKind::kTensorCollective};
  const auto channel = [&](const char* axis, const ChannelSpans& spans) {
    return mesh.size_of(axis) > 1 ? Channel(mesh.axis(axis), &traffic_[axis], spans) : Channel();
  };
  impl.data = channel("dp", data);
  impl.tensor = channel("tp", tensor);
  impl.pipeline = channel("pp", {});  // schedules record the messages
  // No other group of kCollective has this number, which is above those of ranks.
  const auto all = static_cast<uint32_t>(mesh.size());
  if (mesh.size() > 1) {
    impl.world = Channel(mesh.world(), &traffic_["world"], {&impl.recorder, all});
  }
  if (mesh.size_of("dp") > 1) {
    impl.urgent_data = mesh.axis("dp").duplicate(KEEL_COMM_URGENT);
    impl.urgent = Channel(*impl.urgent_data, &traffic_["dp"], data);
  }
  const int64_t pipeline_ranks = mesh.size_of("pp"), here = mesh.coordinate("pp");
  if (pipeline_ranks > 1 && !settings_.model.is_llama()) {
    const bool is_end = here == 0 || here == pipeline_ranks - 1;
    const uint32_t group = group_of("pp");
    impl.tied_comm = mesh.split(is_end ? static_cast<int32_t>(group) : kAlone);
    if (is_end) impl.tied = Channel(*impl.tied_comm, &traffic_["tied"], {&impl.recorder, group});
  }
  take_share();
  make_stages();
  set_values([&](const Parameter& parameter) { return initial_values(parameter, settings_.seed); });
}

void Engine::take_share() {
  const int64_t data_rank = mesh_.coordinate("dp");
  const auto own = settings_.shares.begin() + data_rank;
  impl_->own_share = *own;
  impl_->first_share = std::accumulate(settings_.shares.begin(), own, int64_t{0});
}

void Engine::set_shares(const std::vector<int64_t>& shares) {
  Settings wanted = settings_;
  wanted.shares = shares;
  mesh_.agree("shares", wanted.text());
  settings_ = complete(wanted, mesh_, schedule_->chunks());
  take_share();
  allocate_on_all(mesh_, [&] {
    for (const auto& stage : impl_->stages) stage->set_sequences(impl_->own_share);
  });
}

void Engine::make_stages() {
  Impl& impl = *impl_;
  allocate_on_all(mesh_, [&] {
    for (int64_t chunk = 0; chunk < schedule_->chunks(); ++chunk) make_stage(chunk);
    impl.figures = impl.memory.zeroes({4});
    impl.found = impl.memory.take({1}, KEEL_INT32);
    stream_.synchronize();
  });
}

void Engine::make_stage(int64_t chunk) {
  Impl& impl = *impl_;
  const StoreSettings store{settings_.sharding, settings_.bucket_bytes, settings_.check_gradients,
                            settings_.precision == Precision::kBFloat16};
  const StoreChannels channels{impl.data, impl.urgent, impl.tensor, &impl.recorder};
  const int64_t ranks = mesh_.size_of("pp");
  const int64_t number = chunk * ranks + mesh_.coordinate("pp");
  StagePlace place;
  place.first_layer = std::accumulate(settings_.stage_layers.begin(),
                                      settings_.stage_layers.begin() + number, int64_t{0});
  place.layers = settings_.stage_layers[static_cast<size_t>(number)];
  place.first = number == 0;
  place.last = number == ranks * schedule_->chunks() - 1;
  place.tensor_rank = mesh_.coordinate("tp");
  place.tensor_parts = mesh_.size_of("tp");
  place.sequence = settings_.sequence_parallel;
  impl.stages.push_back(std::make_unique<TransformerStage>(settings_, place, impl.own_share,
                                                           impl.memory, store, channels));
  impl.optimizers.push_back(std::make_unique<Optimizer>(impl.memory, impl.stages.back()->store()));
}

Engine::~Engine() {
  try {
    stream_.synchronize();
  } catch (const Error&) {
    // The failure has been reported where the step waited.
  }
}

std::vector<Stage*> Engine::stages() {
  std::vector<Stage*> stages;
  for (const auto& stage : impl_->stages) stages.push_back(stage.get());
  return stages;
}

// ---- a step

int64_t Engine::counted(std::span<const int32_t> labels) const {
  return std::count_if(labels.begin(), labels.end(), [&](int32_t label) {
    return label >= 0 && label < settings_.model.vocabulary;
  });
}

Engine::Share Engine::share() const {
  return {impl_->first_share * settings_.micro_batches, impl_->own_share * settings_.micro_batches};
}

namespace {

void check_batch(std::span<const int32_t> tokens, std::span<const int32_t> labels,
                 int64_t expected) {
  if (static_cast<int64_t>(tokens.size()) == expected &&
      static_cast<int64_t>(labels.size()) == expected) {
    return;
  }
  refuse("a batch has " + text(static_cast<int64_t>(tokens.size())) + " tokens and " +
         text(static_cast<int64_t>(labels.size())) + " labels instead of " + text(expected));
}

double inverse(int64_t count) {
  return count == 0 ? 0 : 1.0 / static_cast<double>(count);
}

}  // namespace

Schedule::Run Engine::make_run(std::span<const int32_t> tokens, std::span<const int32_t> labels) {
  check_batch(tokens, labels, settings_.batch * settings_.model.context);
  // Micro-batch m of all ranks of axis dp together is sequences [m * s, (m + 1) * s) of the batch,
  // s = batch / micro_batches; this rank's are own_share of them.
  const auto place_of = [this](int64_t micro_batch) {
    return micro_batch * (settings_.batch / settings_.micro_batches) + impl_->first_share;
  };
  return passes_of(tokens, labels, inverse(counted(labels)), place_of, step_ * settings_.batch);
}

Schedule::Run Engine::make_share_run(std::span<const int32_t> tokens,
                                     std::span<const int32_t> labels) {
  check_batch(tokens, labels, share().count * settings_.model.context);
  const std::vector<uint64_t> counts = mesh_.gather(static_cast<uint64_t>(counted(labels)));
  int64_t all = 0;  // ranks of one coordinate of axis dp have read the same
  for (int64_t rank = 0; rank < mesh_.size(); ++rank) {
    if (mesh_.shape().coordinate(rank, "tp") == 0 && mesh_.shape().coordinate(rank, "pp") == 0) {
      all += static_cast<int64_t>(counts[static_cast<size_t>(rank)]);
    }
  }
  const auto place_of = [this](int64_t micro_batch) { return micro_batch * impl_->own_share; };
  return passes_of(tokens, labels, inverse(all), place_of, step_ * settings_.batch + share().first);
}

// |place_of|: the first of this rank's sequences of a micro-batch, in |tokens|, whose first
// sequence is |first_number| of the training.
Schedule::Run Engine::passes_of(std::span<const int32_t> tokens, std::span<const int32_t> labels,
                                double scale, const std::function<int64_t(int64_t)>& place_of,
                                int64_t first_number) {
  Schedule::Run run{mesh_,
                    stages(),
                    settings_.micro_batches,
                    scale,
                    {},
                    {},
                    impl_->pipeline,
                    impl_->recorder,
                    static_cast<uint32_t>(mesh_.shape().neighbour(mesh_.rank(), "pp", 0))};
  run.load = [this, tokens, labels, place_of, first_number](Stage& stage, size_t slot,
                                                            int64_t micro_batch) {
    const int64_t sequence = place_of(micro_batch);
    const auto context = static_cast<size_t>(settings_.model.context);
    const size_t first = static_cast<size_t>(sequence) * context;
    const size_t count = static_cast<size_t>(impl_->own_share) * context;
    stage.set_batch(slot, tokens.subspan(first, count), labels.subspan(first, count),
                    static_cast<uint64_t>(first_number + sequence));
  };
  run.count_loss = [this](Stage& stage, size_t slot) {
    // Every rank of axis tp has the loss; the first counts it.
    if (mesh_.coordinate("tp") != 0) return;
    const Tensor sum = impl_->memory.take({1});
    const keel_tensor losses = stage.losses(slot);
    ops::sum(stream_, {.x = reshaped(losses, {count_of(losses), 1}), .y = sum, .axis = 0});
    const keel_tensor loss = elements_of(impl_->figures, 2, 1);
    ops::add(stream_, {.a = loss, .b = sum, .c = loss});
  };
  return run;
}

StepResult Engine::step(std::span<const int32_t> tokens, std::span<const int32_t> labels,
                        double rate) {
  Schedule::Run run = make_run(tokens, labels);
  return run_step(run, rate);
}

StepResult Engine::step_share(std::span<const int32_t> tokens, std::span<const int32_t> labels,
                              double rate) {
  Schedule::Run run = make_share_run(tokens, labels);
  return run_step(run, rate);
}

StepResult Engine::run_step(Schedule::Run& run, double rate) {
  clear(stream_, impl_->figures);
  for (const auto& stage : impl_->stages) stage->store().begin_step(settings_.micro_batches);
  schedule_->run(run);
  for (const auto& stage : impl_->stages) stage->store().end_step();
  sum_tied();
  record_optimizer([&] { sum_figures(); });
  std::array<float, 4> figures{};
  stream_.copy(Device(), figures.data(), stream_.device(), impl_->figures.view().data,
               sizeof(figures));
  // The host waits before the optimizer, so that a gradient that is not finite harms no weight.
  if (!settings_.check_gradients) record_optimizer([&] { update(rate); });
  stream_.synchronize();
  if (!std::isfinite(figures[2]) || !std::isfinite(figures[3])) report_not_finite();
  if (settings_.check_gradients) record_optimizer([&] { update(rate); });
  ++step_;
  return {step_, static_cast<double>(figures[2]) * run.scale,
          std::sqrt(static_cast<double>(figures[3]))};
}

double Engine::evaluate(std::span<const int32_t> tokens, std::span<const int32_t> labels) {
  Schedule::Run run = make_run(tokens, labels);
  return run_evaluation(run);
}

double Engine::evaluate_share(std::span<const int32_t> tokens, std::span<const int32_t> labels) {
  Schedule::Run run = make_share_run(tokens, labels);
  return run_evaluation(run);
}

void Engine::record_optimizer(const std::function<void()>& enqueue) {
  record(impl_->recorder, stream_,
         {SpanKind::kOptimizer, static_cast<uint32_t>(mesh_.coordinate("pp"))}, enqueue);
}

double Engine::run_evaluation(Schedule::Run& run) {
  StepRecorder* const recorder = std::exchange(impl_->recorder, nullptr);  // steps alone
  clear(stream_, impl_->figures);
  // Forward alone needs no schedule: a stage sends what it has computed, in the order of stages.
  const int64_t ranks = impl_->pipeline.ranks(), here = impl_->pipeline.rank();
  for (int64_t i = 0; i < settings_.micro_batches; ++i) {
    for (Stage* stage : run.stages) {
      const int64_t count = stage->boundary_rows() * stage->boundary_columns();
      run.load(*stage, 0, i);
      if (!stage->is_first()) {
        impl_->pipeline.recv(stage->input(0).data, count, (here + ranks - 1) % ranks, stream_);
      }
      stage->forward(0);
      if (stage->is_last()) {
        run.count_loss(*stage, 0);
      } else {
        impl_->pipeline.send(stage->output(0).data, count, (here + 1) % ranks, stream_);
      }
      stage->discard(0);
    }
  }
  if (impl_->world.ranks() > 1) {
    impl_->world.all_reduce(elements_of(impl_->figures, 2, 1).data, 1, stream_);
  }
  std::array<float, 4> figures{};
  stream_.copy(Device(), figures.data(), stream_.device(), impl_->figures.view().data,
               sizeof(figures));
  stream_.synchronize();
  impl_->recorder = recorder;
  return static_cast<double>(figures[2]) * run.scale;
}

void Engine::sum_tied() {
  if (impl_->tied.ranks() == 1) return;
  for (const auto& stage : impl_->stages) {
    const std::vector<Unit>& units = stage->units();
    for (size_t unit = 0; unit < units.size(); ++unit) {
      if (!units[unit].tied) continue;
      const keel_tensor gradients = stage->store().owned(unit).gradients;
      impl_->tied.all_reduce(gradients.data, count_of(gradients), stream_);
    }
  }
}

void Engine::sum_figures() {
  const auto scalar = [&](int64_t index) {
    return reshaped(elements_of(impl_->figures, index, 1), {});
  };
  const keel_tensor found = reshaped(impl_->found, {});
  for (const auto& optimizer : impl_->optimizers) {
    optimizer->add_squares(scalar(0), scalar(1), found);
  }
  // Each square is to count once in the sum over all ranks.
  const double copies = settings_.sharding == 0 ? static_cast<double>(mesh_.size_of("dp")) : 1;
  const auto tensor = static_cast<double>(mesh_.size_of("tp"));
  ops::axpy(stream_, {.x = scalar(1), .y = scalar(0), .out = scalar(0), .alpha = 1 / tensor});
  ops::scale(stream_, {.x = scalar(0), .y = scalar(3), .alpha = 1 / copies});
  if (impl_->world.ranks() > 1) {
    impl_->world.all_reduce(elements_of(impl_->figures, 2, 2).data, 2, stream_);
  }
}

void Engine::update(double rate) {
  const keel_tensor squares = reshaped(elements_of(impl_->figures, 3, 1), {});
  for (size_t i = 0; i < impl_->stages.size(); ++i) {
    impl_->optimizers[i]->update(settings_.optimizer, rate, step_ + 1, squares);
    impl_->stages[i]->store().publish_values();
  }
}

void Engine::report_not_finite() {
  // Units of this rank, as numbers that any rank can name.
  constexpr uint64_t kTokens = 1, kPositions = 2, kNorm = 3, kHead = 4, kLayers = 5;
  uint64_t code = 0;
  for (const auto& stage : impl_->stages) {
    const std::vector<bool> found = stage->store().not_finite();
    for (size_t unit = 0; unit < found.size(); ++unit) {
      if (!found[unit] || code != 0) continue;
      const std::string& name = stage->units()[unit].name;
      code = name == "tokens"      ? kTokens
             : name == "positions" ? kPositions
             : name == "norm"      ? kNorm
             : name == "head"      ? kHead
                                   : kLayers + std::stoull(name.substr(name.find('.') + 1));
    }
  }
  const std::vector<uint64_t> codes = mesh_.gather(code);
  std::string where;
  for (size_t rank = 0; rank < codes.size(); ++rank) {
    if (codes[rank] == 0) continue;
    static constexpr const char* kNames[] = {"", "tokens", "positions", "norm", "head"};
    where += (where.empty() ? "" : ", ") + std::string("rank ") + std::to_string(rank) + " (" +
             mesh_.devices()[rank] + "): " +
             (codes[rank] < kLayers ? std::string(kNames[codes[rank]])
                                    : "layers." + std::to_string(codes[rank] - kLayers));
  }
  if (where.empty()) where = "on no rank alone: the sum of squares overflows";
  throw Error(KEEL_DATA_LOSS,
              "step " + std::to_string(step_ + 1) + ": a gradient is not finite; " + where);
}

}  // namespace v0
}  // namespace keel::parallel
