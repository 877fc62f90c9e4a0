// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/dump.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "tensorfile/safetensors.h"

namespace train_gpt {
namespace {

namespace fs = std::filesystem;
using keel::tensorfile::FileError;
using keel::tensorfile::TensorSource;
using keel::tensorfile::write_safetensors;

struct Tensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// Returns the parameters in the order of the backward pass.
std::vector<size_t> backward_order(const ModelIds& ids) {
  std::vector<size_t> order;
  const auto add = [&](size_t id) {
    if (id != kNone) order.push_back(id);
  };
  const auto add_linear = [&](const LinearIds& linear) {
    add(linear.weight);
    add(linear.bias);
  };
  const auto add_norm = [&](const NormIds& norm) {
    add(norm.gain);
    add(norm.bias);
  };
  if (ids.head.weight != ids.tokens) add_linear(ids.head);
  add_norm(ids.norm);
  for (auto layer = ids.layers.rbegin(); layer != ids.layers.rend(); ++layer) {
    add_linear(layer->down);
    add_linear(layer->up);
    add_norm(layer->mlp_norm);
    add_linear(layer->projection);
    add_linear(layer->query);
    add_linear(layer->key);
    add_linear(layer->value);
    add_norm(layer->attention_norm);
  }
  add(ids.tokens);
  add(ids.positions);
  return order;
}

// Concatenates the rows of all devices to those of the whole batch.
Tensor gather(Trainer& trainer, const std::string& name,
              const std::function<keel_tensor(Network&)>& of) {
  Tensor gathered{name, {}, {}};
  for (size_t rank = 0; rank < trainer.workers(); ++rank) {
    const keel_tensor part = of(trainer.network(rank));
    const std::span<const int64_t> shape(part.shape, part.rank);
    const size_t begin = gathered.values.size();
    const auto count = static_cast<size_t>(
        std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
    gathered.values.resize(begin + count);
    if (rank == 0) {
      gathered.shape.assign(shape.begin(), shape.end());
    } else {
      gathered.shape[0] += shape[0];
    }
    keel::Stream& stream = trainer.stream(rank);
    stream.copy(keel::Device(), gathered.values.data() + begin, stream.device(),
                static_cast<const std::byte*>(part.data) + part.byte_offset, count * sizeof(float));
    stream.synchronize();  // the next part may reallocate this copy's destination
  }
  return gathered;
}

std::vector<Tensor> activations(Trainer& trainer) {
  std::vector<Tensor> all;
  const size_t boundaries = trainer.network().boundaries().size();
  for (size_t i = 0; i < boundaries; ++i) {
    const std::string name = "activations." + trainer.network().boundaries()[i].name;
    all.push_back(
        gather(trainer, name, [i](Network& network) { return network.boundaries()[i].tensor; }));
  }
  all.push_back(gather(trainer, "losses", [](Network& network) { return network.losses(); }));
  const std::vector<float>& losses = all.back().values;
  const double mean =
      std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  all.push_back({"loss", {}, {static_cast<float>(mean)}});
  return all;
}

}  // namespace

Dump::Dump(fs::path folder, int64_t steps) : folder_(std::move(folder)), steps_left_(steps) {
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) throw FileError(folder_, "cannot be made: " + error.message());
}

void Dump::operator()(Trainer& trainer) {
  if (steps_left_ == 0) return;
  --steps_left_;
  const ParameterLayout& layout = trainer.weights().layout();
  std::vector<float> gradient(static_cast<size_t>(layout.size()));
  trainer.weights().download_gradient(gradient);
  trainer.stream().synchronize();
  const std::vector<Tensor> calculated = activations(trainer);

  std::vector<TensorSource> tensors;
  for (const Tensor& tensor : calculated) {
    tensors.push_back({tensor.name, "F32", tensor.shape, std::as_bytes(std::span(tensor.values))});
  }
  std::string rounding;
  for (const size_t id : backward_order(layout.ids())) {
    const Parameter& parameter = layout.all()[id];
    const std::span<const float> values = std::span(gradient).subspan(
        static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
    tensors.push_back(
        {"gradients." + parameter.name, "F32", parameter.shape, std::as_bytes(values)});
  }
  // The bias of a key shifts all scores of a query equally; softmax ignores the shift.
  for (const LayerIds& layer : layout.ids().layers) {
    if (layer.key.bias == kNone) continue;
    rounding += "gradients." + layout.all()[layer.key.bias].name + '\n';
  }
  std::string order;
  for (const TensorSource& tensor : tensors) order += tensor.name + '\n';
  const char* const precision =
      trainer.weights().precision() == Precision::kBFloat16 ? "BF16" : "F32";
  const int64_t step = trainer.step() + 1;
  write_safetensors(folder_ / fmt::format("step_{:06}.safetensors", step), tensors,
                    {{"step", std::to_string(step)},
                     {"precision", precision},
                     {"order", order},
                     {"rounding", rounding}});
}

}  // namespace train_gpt
