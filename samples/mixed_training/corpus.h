// SPDX-License-Identifier: Apache-2.0
// The text to learn, and the batches taken from it.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_CORPUS_H_
#define KEEL_SAMPLES_MIXED_TRAINING_CORPUS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mixed_training {

inline constexpr const char* kDefaultText = "/usr/share/common-licenses";

// Host memory of some rows: each has kContext bytes of context and the byte after them.
struct Batch {
  std::span<int32_t> contexts;  // rows * kContext
  std::span<int32_t> labels;    // rows
};

// A text whose last tenth is held out of training. Immutable; any thread may use it.
class Corpus {
 public:
  // Throws std::invalid_argument, naming --text, for a text that is not there, or that is
  // too short for batches of |batch_rows|.
  Corpus(std::string text, int64_t batch_rows);
  // The regular file |path|; empty: all of kDefaultText, in the order of the names.
  static Corpus load(const std::filesystem::path& path, int64_t batch_rows);

  // Rows [first_row, first_row + labels) of the batch of |step|. A row depends on the
  // seed, the step and its number alone, so a batch is the same however it is shared out.
  void sample(uint64_t seed, int64_t step, int64_t first_row, const Batch& rows) const;
  // The held-out rows from |first_row| on.
  void held_out(int64_t first_row, const Batch& rows) const;

  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  int64_t training_size() const { return training_size_; }
  int64_t held_out_rows() const;
  // Text that was not trained on, kContext bytes.
  std::string_view prompt() const;

 private:
  void copy_row(int64_t position, int64_t row, const Batch& rows) const;

  std::string text_;
  int64_t training_size_;
};

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_CORPUS_H_
