// SPDX-License-Identifier: Apache-2.0
// The text to learn, and the sequences taken from it.
#ifndef KEEL_SAMPLES_TRAIN_GPT_DATA_H_
#define KEEL_SAMPLES_TRAIN_GPT_DATA_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace train_gpt {

inline constexpr const char* kDefaultText = "/usr/share/common-licenses";

// Host memory of some sequences: their tokens, and of each token the one after it.
struct Batch {
  std::span<int32_t> tokens;  // sequences * context
  std::span<int32_t> labels;  // the same
};

// A text whose last tenth is held out of training. Immutable.
class Corpus {
 public:
  // Throws std::invalid_argument, naming --text, for a text too short for sequences of |context|.
  Corpus(std::string text, int64_t context);
  // The regular file |path|; empty: all of kDefaultText, in the order of the names.
  static Corpus load(const std::filesystem::path& path, int64_t context);

  // The training's sequences from number |first| on. Numbers run through epochs: each has every
  // block of the text once, in an order of its own, and cut at places of its own. A sequence
  // depends on the seed and its number alone, so these two are all there is to go on from.
  void sequences(uint64_t seed, int64_t first, const Batch& batch) const;
  // Held-out sequences from |first| on; those beyond the last have labels that do not count.
  void held_out(int64_t first, const Batch& batch) const;

  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  int64_t sequences_of_epoch() const { return blocks_; }
  int64_t held_out_sequences() const;
  // The first bytes that were not trained on.
  std::string_view prompt(int64_t length) const;
  // Tells texts apart.
  uint64_t fingerprint() const;

 private:
  void copy(int64_t position, int64_t sequence, const Batch& batch) const;

  std::string text_;
  int64_t context_;
  int64_t training_size_;
  int64_t blocks_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_DATA_H_
