// SPDX-License-Identifier: Apache-2.0
// The training text, and the batches taken from it.
#ifndef KEEL_SAMPLES_MIXED_TRAINING_CORPUS_H_
#define KEEL_SAMPLES_MIXED_TRAINING_CORPUS_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace mixed_training {

inline constexpr const char* kDefaultText = "/usr/share/common-licenses";

// Host memory for several rows: kContext bytes of context per row, and the byte after them.
struct Batch {
  std::span<int32_t> contexts;  // rows * kContext
  std::span<int32_t> labels;    // rows
};

// A text with its last tenth held out of training. Immutable; usable from any thread.
class Corpus {
 public:
  // Throws std::invalid_argument, naming --text, for a text that is empty or too short for batches
  // of |batch_rows|.
  Corpus(std::string text, int64_t batch_rows);
  // Reads the regular file |path|; if empty, all files of kDefaultText, in the order of their
  // names.
  static Corpus load(const std::filesystem::path& path, int64_t batch_rows);

  // Fills |rows| with rows [first_row, first_row + labels) of the batch of |step|. A row depends
  // only on the seed, the step and its number, so the batch is the same however it is split.
  void sample(uint64_t seed, int64_t step, int64_t first_row, const Batch& rows) const;
  // Fills |rows| with the held-out rows from |first_row| on.
  void held_out(int64_t first_row, const Batch& rows) const;

  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  int64_t training_size() const { return training_size_; }
  int64_t held_out_rows() const;
  // Returns kContext bytes of held-out text.
  std::string_view prompt() const;

 private:
  void copy_row(int64_t position, int64_t row, const Batch& rows) const;

  std::string text_;
  int64_t training_size_;
};

}  // namespace mixed_training

#endif  // KEEL_SAMPLES_MIXED_TRAINING_CORPUS_H_
