// SPDX-License-Identifier: Apache-2.0
// A stage of a GPT-2 or Llama: embedding, blocks and head, in the order that slots ask for.
#ifndef KEEL_PARALLEL_STAGE_H_
#define KEEL_PARALLEL_STAGE_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <keel/parallel/engine.hpp>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "parallel/block.h"
#include "parallel/head.h"
#include "parallel/layers.h"
#include "parallel/layout.h"
#include "parallel/store.h"
#include "parallel/tensor_group.h"

namespace keel::parallel {

class TransformerStage : public Stage {
 public:
  // All references outlive the stage.
  TransformerStage(const Settings& settings, const StagePlace& place, int64_t sequences,
                   Memory& memory, const StoreSettings& store, const StoreChannels& channels);
  ~TransformerStage() override;

  bool is_first() const override { return place_.first; }
  bool is_last() const override { return place_.last; }
  int64_t first_layer() const override { return place_.first_layer; }
  int64_t layers() const override { return place_.layers; }
  Stream& stream() override { return memory_.stream(); }
  const std::vector<Unit>& units() const override { return layout_.units; }
  const std::vector<Parameter>& parameters() const override { return layout_.parameters; }
  int64_t boundary_rows() const override { return context_.own_rows(); }
  int64_t boundary_columns() const override { return context_.shape.width; }

  void set_batch(size_t slot, std::span<const int32_t> tokens, std::span<const int32_t> labels,
                 uint64_t number) override;
  keel_tensor input(size_t slot) override;
  keel_tensor output(size_t slot) override;
  keel_tensor output_gradient(size_t slot) override;
  keel_tensor input_gradient(size_t slot) override;
  void forward(size_t slot) override;
  void backward_data(size_t slot, double scale) override;
  void backward_weight(size_t slot) override;
  void backward(size_t slot, double scale) override;
  void discard(size_t slot) override;
  keel_tensor losses(size_t slot) override;

  // For the following micro-batches, of another number of sequences. No slot may be in use; waits.
  void set_sequences(int64_t sequences);

  Store& store() { return store_; }
  const Layout& layout() const { return layout_; }

 private:
  struct Slot {
    uint64_t number = 0;
    std::vector<int32_t> host;  // tokens, labels, own labels, owners
    Tensor ids;                 // the same on the device
    Event uploaded;
    bool uploading = false;
    Tensor input, output, d_output, d_input;
    std::vector<Block::Saved> blocks;
    Head::Saved head;
  };

  Slot& slot(size_t number) { return slots_[number]; }
  keel_tensor part(const Slot& slot, int64_t index) const;
  Head::Labels labels(const Slot& slot) const;
  void upload_positions(const ModelShape& shape);
  void make_layers();  // for the sequences of |context_|
  // Parts of the backward passes.
  Tensor head_data(Slot& slot, double scale);
  void head_weight(Slot& slot);
  Tensor block_data(Slot& slot, size_t block, Tensor d);
  void block_weight(Slot& slot, size_t block);
  void embedding_weight(Slot& slot);
  // The unit that the pass reads behind |unit|.
  size_t after(size_t unit) const;

  StagePlace place_;
  const ModelShape shape_;
  Layout layout_;
  Memory& memory_;
  Store store_;
  TensorGroup group_;
  LayerContext context_;
  const std::vector<Recompute> recompute_;  // as in Settings
  Positions positions_;
  std::optional<Embedding> embedding_;
  std::vector<Block> blocks_;
  std::optional<Head> head_;
  std::map<size_t, Slot> slots_;
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_STAGE_H_
