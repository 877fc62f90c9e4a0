// SPDX-License-Identifier: Apache-2.0
#include "parallel/stage.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace keel::parallel {
namespace {

enum Part : int64_t { kTokens, kLabels, kOwnLabels, kOwners, kParts };

// |choices|: Settings::recompute.
Recompute recompute_of(const std::vector<Recompute>& choices, int64_t layer) {
  if (choices.empty()) return Recompute::kNone;
  return choices.size() == 1 ? choices[0] : choices.at(static_cast<size_t>(layer));
}

}  // namespace

TransformerStage::TransformerStage(const Settings& settings, const StagePlace& place,
                                   int64_t sequences, Memory& memory, const StoreSettings& store,
                                   const StoreChannels& channels)
    : place_(place),
      shape_(settings.model),
      layout_(settings.model, place),
      memory_(memory),
      store_(memory, layout_, store, channels),
      group_(memory, channels.tensor, place.sequence, settings.chunks),
      context_{shape_,        memory,    store_,        group_,
               settings.seed, sequences, store.rounded, channels.recorder},
      recompute_(settings.recompute) {
  make_layers();
}

void TransformerStage::make_layers() {
  upload_positions(shape_);
  embedding_.reset();
  blocks_.clear();
  head_.reset();
  if (place_.first) embedding_.emplace(context_, layout_, positions_);
  for (size_t i = 0; i < layout_.blocks.size(); ++i) {
    const int64_t layer = place_.first_layer + static_cast<int64_t>(i);
    blocks_.emplace_back(context_, positions_, layout_.blocks[i], layer,
                         recompute_of(recompute_, layer));
  }
  if (place_.last) head_.emplace(context_, layout_);
}

void TransformerStage::set_sequences(int64_t sequences) {
  memory_.stream().synchronize();  // uploads read the slots' host memory
  slots_.clear();
  context_.sequences = sequences;
  make_layers();
}

TransformerStage::~TransformerStage() {
  // Uploads read the slots' host memory.
  try {
    memory_.stream().synchronize();
  } catch (const Error&) {
    // The failure has been reported where the step waited.
  }
}

void TransformerStage::upload_positions(const ModelShape& shape) {
  const int64_t tokens = context_.tokens();
  std::vector<int32_t> places(static_cast<size_t>(tokens));
  std::vector<int32_t> boundaries(static_cast<size_t>(context_.sequences) + 1);
  for (int64_t i = 0; i < tokens; ++i) {
    places[static_cast<size_t>(i)] = static_cast<int32_t>(i % shape.context);
  }
  for (size_t i = 0; i < boundaries.size(); ++i) {
    boundaries[i] = static_cast<int32_t>(static_cast<int64_t>(i) * shape.context);
  }
  Stream& stream = memory_.stream();
  const auto upload = [&](const Tensor& tensor, const auto& values) {
    stream.copy(stream.device(), tensor.view().data, Device(), values.data(),
                values.size() * sizeof(values[0]));
  };
  positions_.of_token = memory_.take({tokens}, KEEL_INT32);
  positions_.boundaries = memory_.take({context_.sequences + 1}, KEEL_INT32);
  upload(positions_.of_token, places);
  upload(positions_.boundaries, boundaries);
  std::vector<float> cosines, sines;
  if (shape.is_llama()) {
    const int64_t pairs = shape.head_size() / 2;
    for (int64_t position = 0; position < shape.context; ++position) {
      for (int64_t pair = 0; pair < pairs; ++pair) {
        const double angle =
            static_cast<double>(position) *
            std::pow(shape.rope_theta, -static_cast<double>(pair) / static_cast<double>(pairs));
        cosines.push_back(static_cast<float>(std::cos(angle)));
        sines.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    positions_.cosines = memory_.take({shape.context, pairs});
    positions_.sines = memory_.take({shape.context, pairs});
    upload(positions_.cosines, cosines);
    upload(positions_.sines, sines);
  }
  stream.synchronize();  // the host's vectors end here
}

// ---- slots

keel_tensor TransformerStage::part(const Slot& slot, int64_t index) const {
  return elements_of(slot.ids, index * context_.tokens(), context_.tokens());
}

void TransformerStage::set_batch(size_t number, std::span<const int32_t> tokens,
                                 std::span<const int32_t> labels, uint64_t first_sequence) {
  const auto count = static_cast<size_t>(context_.tokens());
  if (tokens.size() != count || labels.size() != count) {
    throw Error(KEEL_INVALID_ARGUMENT, "a micro-batch has " + std::to_string(tokens.size()) +
                                           " tokens instead of " + std::to_string(count));
  }
  Slot& target = slot(number);
  target.number = first_sequence;
  if (target.blocks.empty()) target.blocks.resize(blocks_.size());
  if (!place_.first && !place_.last) return;
  if (std::exchange(target.uploading, false)) target.uploaded.wait();
  target.host.resize(count * kParts);
  const int64_t ranks = place_.tensor_parts;
  for (size_t i = 0; i < count; ++i) {
    const int32_t label = labels[i];
    // Shards are [v * t / T, v * (t + 1) / T).
    int64_t owner = -1;
    for (int64_t rank = 0; label >= 0 && label < shape_.vocabulary && rank < ranks; ++rank) {
      if (label < shape_.vocabulary * (rank + 1) / ranks) {
        owner = rank;
        break;
      }
    }
    const bool own = owner == place_.tensor_rank;
    const auto first = static_cast<int32_t>(shape_.vocabulary * owner / ranks);
    target.host[kTokens * count + i] = tokens[i];
    target.host[kLabels * count + i] = owner < 0 ? -1 : label;
    target.host[kOwnLabels * count + i] = own ? label - first : -1;
    target.host[kOwners * count + i] = static_cast<int32_t>(owner);
  }
  if (!target.ids) target.ids = memory_.take({kParts * context_.tokens()}, KEEL_INT32);
  Stream& stream = memory_.stream();
  stream.copy(stream.device(), target.ids.view().data, Device(), target.host.data(),
              target.host.size() * sizeof(int32_t));
  target.uploaded.record(stream);
  target.uploading = true;
}

Head::Labels TransformerStage::labels(const Slot& slot) const {
  return {part(slot, kLabels), part(slot, kOwnLabels), part(slot, kOwners)};
}

keel_tensor TransformerStage::input(size_t number) {
  Slot& target = slot(number);
  if (!target.input) target.input = memory_.take({boundary_rows(), boundary_columns()});
  return target.input;
}

keel_tensor TransformerStage::output_gradient(size_t number) {
  Slot& target = slot(number);
  if (!target.d_output) target.d_output = memory_.take({boundary_rows(), boundary_columns()});
  return target.d_output;
}

keel_tensor TransformerStage::output(size_t number) {
  return slot(number).output;
}

keel_tensor TransformerStage::input_gradient(size_t number) {
  return slot(number).d_input;
}

keel_tensor TransformerStage::losses(size_t number) {
  return slot(number).head.losses;
}

size_t TransformerStage::after(size_t unit) const {
  return unit + 1 < layout_.units.size() ? unit + 1 : kNone;
}

// ---- passes

void TransformerStage::forward(size_t number) {
  Slot& target = slot(number);
  Tensor x = std::exchange(target.input, Tensor());
  const auto with = [&](std::initializer_list<size_t> units, size_t next, const auto& pass) {
    for (const size_t unit : units) store_.acquire_values(unit, next);
    pass();
    for (const size_t unit : units) store_.release_values(unit);
  };
  const auto unit_of = [&](size_t parameter) { return layout_.parameters[parameter].unit; };
  if (embedding_) {
    const size_t tokens = unit_of(layout_.tokens);
    const size_t last = layout_.positions == kNone ? tokens : unit_of(layout_.positions);
    const auto embed = [&] { x = embedding_->forward(part(target, kTokens)); };
    if (last == tokens) {
      with({tokens}, after(last), embed);
    } else {
      with({tokens, last}, after(last), embed);
    }
  }
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const size_t unit = blocks_[i].unit();
    with({unit}, after(unit),
         [&] { x = blocks_[i].forward(target.blocks[i], std::move(x), target.number); });
  }
  if (!head_) {
    target.output = std::move(x);
    return;
  }
  with({unit_of(layout_.norm.gain), unit_of(layout_.head)}, kNone,
       [&] { head_->forward(target.head, std::move(x), labels(target)); });
}

Tensor TransformerStage::head_data(Slot& target, double scale) {
  const size_t norm = layout_.parameters[layout_.norm.gain].unit;
  const size_t head = layout_.parameters[layout_.head].unit;
  store_.acquire_values(norm, kNone);
  store_.acquire_values(head, blocks_.empty() ? kNone : blocks_.back().unit());
  store_.acquire_gradients(norm);
  Tensor d = head_->backward_data(target.head, labels(target), scale);
  store_.release_values(head);
  store_.release_values(norm);
  return d;
}

void TransformerStage::head_weight(Slot& target) {
  const size_t head = layout_.parameters[layout_.head].unit;
  store_.acquire_gradients(head);
  store_.acquire_gradients(layout_.parameters[layout_.norm.gain].unit);
  head_->backward_weight(target.head);
  // GPT-2's one table is complete only behind the embedding.
  if (!place_.first || layout_.head != layout_.tokens) store_.release_gradients(head);
  store_.release_gradients(layout_.parameters[layout_.norm.gain].unit);
}

Tensor TransformerStage::block_data(Slot& target, size_t block, Tensor d) {
  const size_t unit = blocks_[block].unit();
  store_.acquire_values(unit, block > 0 ? blocks_[block - 1].unit() : kNone);
  store_.acquire_gradients(unit);
  d = blocks_[block].backward_data(target.blocks[block], std::move(d));
  store_.release_values(unit);
  return d;
}

void TransformerStage::block_weight(Slot& target, size_t block) {
  // Another micro-batch's passes may have completed the unit since block_data().
  store_.acquire_gradients(blocks_[block].unit());
  blocks_[block].backward_weight(target.blocks[block]);
  store_.release_gradients(blocks_[block].unit());
}

void TransformerStage::embedding_weight(Slot& target) {
  const size_t tokens = layout_.parameters[layout_.tokens].unit;
  const bool placed = layout_.positions != kNone;
  const size_t positions = placed ? layout_.parameters[layout_.positions].unit : kNone;
  store_.acquire_gradients(tokens);
  if (placed) store_.acquire_gradients(positions);
  embedding_->backward_weight(part(target, kTokens), std::move(target.d_input));
  if (placed) store_.release_gradients(positions);
  store_.release_gradients(tokens);
}

void TransformerStage::backward_data(size_t number, double scale) {
  Slot& target = slot(number);
  Tensor d = std::exchange(target.d_output, Tensor());
  target.output.reset();
  if (head_) d = head_data(target, scale);
  for (size_t i = blocks_.size(); i-- > 0;) d = block_data(target, i, std::move(d));
  target.d_input = std::move(d);
}

void TransformerStage::backward_weight(size_t number) {
  Slot& target = slot(number);
  if (head_) head_weight(target);
  for (size_t i = blocks_.size(); i-- > 0;) block_weight(target, i);
  if (embedding_) embedding_weight(target);
  target.d_input.reset();
}

void TransformerStage::backward(size_t number, double scale) {
  Slot& target = slot(number);
  Tensor d = std::exchange(target.d_output, Tensor());
  target.output.reset();
  if (head_) {
    d = head_data(target, scale);
    head_weight(target);
  }
  for (size_t i = blocks_.size(); i-- > 0;) {
    d = block_data(target, i, std::move(d));
    block_weight(target, i);
  }
  target.d_input = std::move(d);
  // On another stage than the first, the caller sends the input's gradient, which stays until the
  // slot is used again.
  if (embedding_) embedding_weight(target);
}

void TransformerStage::discard(size_t number) {
  Slot& target = slot(number);
  for (Tensor* tensor : {&target.input, &target.output, &target.d_output, &target.d_input}) {
    tensor->reset();
  }
  for (Block::Saved& saved : target.blocks) saved = Block::Saved();
  target.head = Head::Saved();
}

}  // namespace keel::parallel
