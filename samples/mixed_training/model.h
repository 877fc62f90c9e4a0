// SPDX-License-Identifier: Apache-2.0
// The model on one device: parameters, forward pass, backward pass and update.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_MODEL_H_
#define KEEL_SAMPLES_MIXED_TRAINING_MODEL_H_

#include <cstdint>
#include <keel/keel.hpp>
#include <span>

#include "samples/mixed_training/corpus.h"
#include "samples/mixed_training/parameters.h"

namespace mixed_training {

// Hyperparameters of one AdamW step; |step| counts from 1.
struct AdamW {
  double learning_rate;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double epsilon = 1e-8;
  double weight_decay = 0.6;  // high: the default text has only 0.8 bytes per parameter
  int64_t step = 1;
};

// logits = (gelu(gelu(x W1 + b1) W2 + b2)) W3 + b3, where x is the embeddings of the last kContext
// bytes side by side. All buffers are allocated once, for |max_rows|; a batch with fewer rows uses
// the first rows of every buffer. All members except the constructor only enqueue on stream(), so
// that one thread can keep many devices busy. Not thread-safe.
class Model {
 public:
  Model(keel::Device device, const ParameterLayout& layout, int64_t max_rows);

  const keel::Stream& stream() const { return stream_; }
  int64_t max_rows() const { return max_rows_; }

  // Uploads the parameters; |values| must stay valid until the stream is done.
  void load(std::span<const float> values);
  // Returns pinned memory for the next batch of |rows| <= max_rows. The stream must be idle: the
  // upload of the last batch may still read this memory.
  Batch next_batch(int64_t rows);

  // Uploads the batch; computes logits and the loss of each row in nats.
  void forward();
  // Computes the gradient of |scale| * (sum of the rows' losses), and the sum itself, last in the
  // same buffer, so that one collective sums both over the devices.
  void backward(double scale);
  void update(const AdamW& settings);

  // layout.size() floats, then the loss.
  const keel::Buffer& gradient() const { return gradient_; }
  const keel::Buffer& parameters() const { return parameters_; }
  // Enqueue copies to host memory, which must stay valid until the stream is done.
  void read_gradient(std::span<float> values);    // layout.size()
  void read_loss(float* value);                   // after backward or the all-reduce
  void read_row_losses(std::span<float> values);  // the batch's rows
  void read_logits(std::span<float> values);      // the batch's rows * kVocabulary

 private:
  // The tensors of a batch: views of the buffers below, with the batch's number of rows.
  struct Views {
    keel_tensor contexts, labels;             // [rows * kContext], [rows], int32
    keel_tensor embedded, d_embedded;         // [rows * kContext, kEmbedding]
    keel_tensor input, d_input;               // the same as [rows, kContext * kEmbedding]
    keel_tensor linear1, hidden1, d_hidden1;  // [rows, hidden]
    keel_tensor linear2, hidden2, d_hidden2;  // [rows, hidden]
    keel_tensor logits;                       // [rows, kVocabulary]; later its gradient
    keel_tensor losses, logsumexp;            // [rows]
    keel_tensor losses_column, loss;          // [rows, 1] and its sum, [1]
  };
  Views make_views(int64_t rows) const;

  void linear(const keel_tensor& x, ParameterId weight, ParameterId bias, const keel_tensor& y);
  void linear_backward(const keel_tensor& x, const keel_tensor& dy, ParameterId weight,
                       ParameterId bias, const keel_tensor& dx);
  void read(const keel_tensor& source, std::span<float> values);

  ParameterLayout layout_;
  int64_t max_rows_;
  keel::Stream stream_;
  keel::Buffer parameters_, gradient_, moment1_, moment2_;
  keel::Buffer host_batch_, batch_;  // contexts, then labels
  keel::Buffer embedded_, linear1_, hidden1_, linear2_, hidden2_, logits_, losses_, logsumexp_;
  keel::Buffer d_embedded_, d_hidden1_, d_hidden2_;
  int64_t rows_;
  Views views_;
};

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_MODEL_H_
