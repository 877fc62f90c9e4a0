// SPDX-License-Identifier: Apache-2.0
// State of an engine that callers read and set: parameters, figures, the recorder.
#include <algorithm>
#include <keel/parallel/engine.hpp>
#include <string>

#include "parallel/engine_impl.h"

namespace keel::parallel {
inline namespace v0 {

// ---- parameters

std::vector<Engine::Piece> Engine::pieces() {
  std::vector<Piece> pieces;
  for (const auto& optimizer : impl_->optimizers) {
    for (Piece& piece : optimizer->pieces()) pieces.push_back(piece);
  }
  return pieces;
}

void Engine::publish() {
  for (const auto& stage : impl_->stages) stage->store().publish_values();
  stream_.synchronize();
}

namespace {

// Splits the flat array of a unit by parameters.
template <typename Download>
std::map<std::string, std::vector<float>> by_name(TransformerStage& stage,
                                                  const Download& download) {
  std::map<std::string, std::vector<float>> found;
  for (size_t unit = 0; unit < stage.units().size(); ++unit) {
    const std::vector<float> flat = download(unit);
    for (const size_t id : stage.units()[unit].parameters) {
      const Parameter& parameter = stage.parameters()[id];
      const auto first = flat.begin() + parameter.offset;
      found[parameter.name].assign(first, first + parameter.size());
    }
  }
  return found;
}

}  // namespace

std::map<std::string, std::vector<float>> Engine::download_values() {
  std::map<std::string, std::vector<float>> all;
  for (const auto& stage : impl_->stages) {
    all.merge(by_name(*stage, [&](size_t unit) { return stage->store().download_values(unit); }));
  }
  return all;
}

std::map<std::string, std::vector<float>> Engine::download_gradients() {
  std::map<std::string, std::vector<float>> all;
  for (const auto& stage : impl_->stages) {
    all.merge(
        by_name(*stage, [&](size_t unit) { return stage->store().download_gradients(unit); }));
  }
  return all;
}

void Engine::set_values(const std::function<std::vector<float>(const Parameter&)>& whole) {
  for (const auto& stage : impl_->stages) {
    for (size_t unit = 0; unit < stage->units().size(); ++unit) {
      std::vector<float> flat(static_cast<size_t>(stage->units()[unit].size), 0.0F);
      for (const size_t id : stage->units()[unit].parameters) {
        const Parameter& parameter = stage->parameters()[id];
        const std::vector<float> all = whole(parameter);
        if (static_cast<int64_t>(all.size()) != parameter.full_size()) {
          throw Error(KEEL_INVALID_ARGUMENT, parameter.name + " has " +
                                                 std::to_string(parameter.full_size()) +
                                                 " elements, not " + std::to_string(all.size()));
        }
        const std::vector<float> shard = shard_of(parameter, all);
        std::copy(shard.begin(), shard.end(), flat.begin() + parameter.offset);
      }
      stage->store().upload(unit, flat);
    }
  }
}

// ---- figures

void Engine::set_recorder(StepRecorder* recorder) {
  impl_->recorder = recorder;
}

double Engine::step_flops() const {
  ModelShape shape = settings_.model;
  shape.layers = 0;
  const double head = training_flops_per_token(shape);
  shape.layers = 1;
  const double layer = training_flops_per_token(shape) - head;
  double of_token = 0;
  for (const auto& stage : impl_->stages) {
    of_token += layer * static_cast<double>(stage->layers()) + (stage->is_last() ? head : 0);
  }
  return of_token * static_cast<double>(share().count * settings_.model.context) /
         static_cast<double>(mesh_.size_of("tp"));
}

double Engine::bubble() const {
  return schedule_->bubble(mesh_.size_of("pp"), settings_.micro_batches);
}

uint64_t Engine::operations(const std::string& axis) {
  if (axis == "tied") return impl_->tied.ranks() > 1 ? impl_->tied_comm->stats().operations : 0;
  if (mesh_.size_of(axis) == 1) return 0;
  uint64_t count = mesh_.axis(axis).stats().operations;
  if (axis == "dp") count += impl_->urgent_data->stats().operations;
  if (axis == "pp") count += schedule_->operations();
  return count;
}

uint64_t Engine::bytes_in_use() const {
  return impl_->memory.bytes();
}

uint64_t Engine::peak_bytes() const {
  return impl_->memory.peak();
}

void Engine::reset_peak() {
  impl_->memory.reset_peak();
}

Store& Engine::store(size_t stage) {
  return impl_->stages.at(stage)->store();
}

}  // namespace v0
}  // namespace keel::parallel
