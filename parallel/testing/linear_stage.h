// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_PARALLEL_TESTING_LINEAR_STAGE_H_
#define KEEL_PARALLEL_TESTING_LINEAR_STAGE_H_

#include <cstdint>
#include <deque>
#include <keel/keel.hpp>
#include <keel/parallel/model.hpp>
#include <span>
#include <vector>

namespace keel::parallel {

// A stage of a model that is a product of square matrices, the smallest with which order and sums
// of a pipeline can be checked. Layer l: y = x W_l^T. The tokens are the input's numbers, and the
// loss is the sum of output * label. The three passes of a layer are one matrix product each, so
// that a paced chip takes the same time for all.
class LinearStage : public Stage {
 public:
  // Layers |first| to |first| + |count| of a model of |total|; matrices of width * width, inputs of
  // rows * width.
  LinearStage(Stream& stream, int64_t first, int64_t count, int64_t total, int64_t rows,
              int64_t width);
  // Waits for the stream: uploads read the stage's host memory.
  ~LinearStage() override;

  bool is_first() const override { return first_ == 0; }
  bool is_last() const override { return first_ + count_ == total_; }
  int64_t first_layer() const override { return first_; }
  int64_t layers() const override { return count_; }
  Stream& stream() override { return stream_; }
  const std::vector<Unit>& units() const override { return units_; }
  const std::vector<Parameter>& parameters() const override { return parameters_; }
  int64_t boundary_rows() const override { return rows_; }
  int64_t boundary_columns() const override { return width_; }

  void set_batch(size_t slot, std::span<const int32_t> tokens, std::span<const int32_t> labels,
                 uint64_t number) override;
  keel_tensor input(size_t slot) override { return matrix(at(slot).activations.front()); }
  keel_tensor output(size_t slot) override { return matrix(at(slot).activations.back()); }
  keel_tensor output_gradient(size_t slot) override { return matrix(at(slot).gradients.back()); }
  keel_tensor input_gradient(size_t slot) override { return matrix(at(slot).gradients.front()); }
  void forward(size_t slot) override;
  void backward_data(size_t slot, double scale) override;
  void backward_weight(size_t slot) override;
  void discard(size_t) override {}
  keel_tensor losses(size_t slot) override { return output(slot); }

  // Waits; the gradients of the stage's matrices, one after the other.
  std::vector<float> gradients();
  size_t slots() const { return slots_.size(); }  // used so far

 private:
  struct Slot {
    std::vector<Buffer> activations;  // of each layer's input, then the output
    std::vector<Buffer> gradients;    // likewise
    Buffer labels;
  };
  Slot& at(size_t slot);
  keel_tensor matrix(const Buffer& buffer) const { return buffer.tensor<float>({rows_, width_}); }
  keel_tensor weight(const Buffer& buffer) const { return buffer.tensor<float>({width_, width_}); }
  void upload(const Buffer& to, std::span<const int32_t> numbers);

  Stream& stream_;
  const int64_t first_, count_, total_, rows_, width_;
  std::vector<Unit> units_;
  std::vector<Parameter> parameters_;
  std::vector<Buffer> weights_, weight_gradients_;
  std::deque<Slot> slots_;
  std::deque<std::vector<float>> uploads_;  // read when the copies run
};

}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_TESTING_LINEAR_STAGE_H_
