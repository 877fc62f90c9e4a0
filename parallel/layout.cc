// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

namespace keel::parallel {
namespace {

constexpr float kDeviation = 0.02F;

// Calls |copy|(offset in the whole, offset in the shard, count) for each run of elements.
template <typename Copy>
void for_each_run(const Parameter& parameter, const Copy& copy) {
  if (parameter.shard_axis < 0) {
    copy(0, 0, parameter.full_size());
    return;
  }
  const auto axis = static_cast<size_t>(parameter.shard_axis);
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < parameter.shape.size(); ++i) {
    if (i < axis) outer *= parameter.shape[i];
    if (i > axis) inner *= parameter.shape[i];
  }
  const int64_t run = (parameter.shard_end - parameter.shard_begin) * inner;
  for (int64_t i = 0; i < outer; ++i) {
    copy((i * parameter.shape[axis] + parameter.shard_begin) * inner, i * run, run);
  }
}

}  // namespace

Layout::Layout(const ModelShape& shape, const StagePlace& place) : shape_(shape), place_(place) {
  check(shape, place.tensor_parts);
  const int64_t width = shape.width;
  const bool gpt2 = !shape.is_llama();
  // Each layer adds to the residual twice; the smaller deviation keeps the sum of all additions as
  // large as one.
  const float residual = kDeviation / std::sqrt(2.0F * static_cast<float>(shape.layers));
  if (place.first || (place.last && gpt2)) {
    begin_unit("tokens");
    tokens = add("tokens.weight", {shape.vocabulary, width}, 0, kDeviation);
    end_unit();
    // Two stages hold the table, and add their gradients.
    units.back().tied = gpt2 && place.first != place.last;
    parameters[tokens].tied = units.back().tied && !place.first;
  }
  if (place.first && gpt2) {
    begin_unit("positions");
    positions = add("positions.weight", {shape.context, width}, -1, kDeviation);
    parameters[positions].partial_gradient = place.sequence && place.tensor_parts > 1;
    end_unit();
  }
  for (int64_t index = place.first_layer; index < place.first_layer + place.layers; ++index) {
    const std::string layer = "layers." + std::to_string(index) + ".";
    begin_unit("layers." + std::to_string(index));
    BlockIds ids;
    ids.unit = units.size() - 1;
    ids.attention_norm = add_norm(layer + "attention_norm");
    // A key/value head stays with the query heads that read it.
    const int64_t head = shape.head_size(), group = shape.heads / shape.kv_heads * head;
    ids.query = add_linear(layer + "query", width, width, 0, kDeviation, group);
    ids.key = add_linear(layer + "key", shape.kv_width(), width, 0, kDeviation, head);
    ids.value = add_linear(layer + "value", shape.kv_width(), width, 0, kDeviation, head);
    ids.projection = add_linear(layer + "projection", width, width, 1, residual, group);
    ids.mlp_norm = add_norm(layer + "mlp_norm");
    if (!gpt2) ids.gate = add_linear(layer + "gate", shape.mlp_width, width, 0, kDeviation);
    ids.up = add_linear(layer + "up", shape.mlp_width, width, 0, kDeviation);
    ids.down = add_linear(layer + "down", width, shape.mlp_width, 1, residual);
    end_unit();
    blocks.push_back(ids);
  }
  if (!place.last) return;
  begin_unit("norm");
  norm = add_norm("norm");
  end_unit();
  if (gpt2) {
    head = tokens;
    return;
  }
  begin_unit("head");
  head = add("head.weight", {shape.vocabulary, width}, 0, kDeviation);
  end_unit();
}

size_t Layout::add(const std::string& name, std::vector<int64_t> shape, int axis, float deviation,
                   float mean, int64_t grain) {
  Parameter parameter;
  parameter.name = name;
  parameter.decays = shape.size() > 1;
  if (axis >= 0 && place_.tensor_parts > 1) {
    const PartOf part =
        part_of(shape[static_cast<size_t>(axis)] / grain, place_.tensor_rank, place_.tensor_parts);
    parameter.shard_axis = axis;
    parameter.shard_begin = part.begin * grain;
    parameter.shard_end = part.end * grain;
  }
  parameter.shape = std::move(shape);
  parameter.unit = units.size() - 1;
  parameter.deviation = deviation;
  parameter.mean = mean;
  parameters.push_back(std::move(parameter));
  units.back().parameters.push_back(parameters.size() - 1);
  return parameters.size() - 1;
}

LinearIds Layout::add_linear(const std::string& name, int64_t outputs, int64_t inputs, int axis,
                             float deviation, int64_t grain) {
  LinearIds ids;
  ids.weight = add(name + ".weight", {outputs, inputs}, axis, deviation, 0, grain);
  // The bias of a matrix divided by columns is added once, behind the sum over the ranks.
  if (!shape_.is_llama())
    ids.bias = add(name + ".bias", {outputs}, axis == 0 ? 0 : -1, 0, 0, grain);
  return ids;
}

NormIds Layout::add_norm(const std::string& name) {
  const bool partial = place_.sequence && place_.tensor_parts > 1;
  NormIds ids;
  ids.gain = add(name + ".weight", {shape_.width}, -1, 0, /*mean=*/1);
  parameters[ids.gain].partial_gradient = partial;
  if (shape_.is_llama()) return ids;
  ids.bias = add(name + ".bias", {shape_.width}, -1, 0);
  parameters[ids.bias].partial_gradient = partial;
  return ids;
}

void Layout::end_unit() {
  Unit& unit = units.back();
  const auto place = [&](bool partial, bool decays) {
    for (const size_t id : unit.parameters) {
      Parameter& parameter = parameters[id];
      if (parameter.partial_gradient != partial || parameter.decays != decays) continue;
      parameter.offset = unit.size;
      // Rows of Llama's gate and up adjoin, so that one product computes both.
      const bool adjoins = parameter.name.ends_with(".gate.weight");
      unit.size += adjoins
                       ? parameter.size()
                       : (parameter.size() + kUnitAlignment - 1) / kUnitAlignment * kUnitAlignment;
    }
  };
  // A unit that has partial matrices (positions) has nothing else.
  place(true, false);
  const int64_t partial_vectors = unit.size;
  place(true, true);
  unit.partial_end = unit.size;
  const bool only_partial_matrices = unit.partial_end > partial_vectors;
  place(false, false);
  unit.matrices = only_partial_matrices ? partial_vectors : unit.size;
  place(false, true);
}

std::vector<float> initial_values(const Parameter& parameter, uint64_t seed) {
  std::vector<float> values(static_cast<size_t>(parameter.full_size()), parameter.mean);
  if (parameter.deviation == 0) return values;
  uint64_t hash = 0xcbf29ce484222325 ^ seed;  // FNV-1a
  for (const char c : parameter.name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  std::mt19937_64 generator(hash);
  std::normal_distribution<float> normal(parameter.mean, parameter.deviation);
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<float> shard_of(const Parameter& parameter, const std::vector<float>& whole) {
  std::vector<float> shard(static_cast<size_t>(parameter.size()));
  for_each_run(parameter, [&](int64_t in_whole, int64_t in_shard, int64_t count) {
    std::copy_n(whole.begin() + in_whole, count, shard.begin() + in_shard);
  });
  return shard;
}

void put_shard(const Parameter& parameter, const std::vector<float>& shard,
               std::vector<float>& whole) {
  for_each_run(parameter, [&](int64_t in_whole, int64_t in_shard, int64_t count) {
    std::copy_n(shard.begin() + in_shard, count, whole.begin() + in_whole);
  });
}

}  // namespace keel::parallel
