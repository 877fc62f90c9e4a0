// SPDX-License-Identifier: Apache-2.0
// The training text, and sequences of the text.
#ifndef KEEL_SAMPLES_TRAIN_GPT_DATA_H_
#define KEEL_SAMPLES_TRAIN_GPT_DATA_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace train_gpt {

inline constexpr const char* kDefaultText = "/usr/share/common-licenses";

// Host memory for several sequences: the tokens, and for each token the next token.
struct Batch {
  std::span<int32_t> tokens;  // sequences * context
  std::span<int32_t> labels;  // likewise
};

// A text with its last tenth held out of training. Immutable.
class Corpus {
 public:
  // Throws std::invalid_argument, naming --text, if |text| is too short for sequences of |context|.
  Corpus(std::string text, int64_t context);
  // Reads the regular file |path|; if empty, all files of kDefaultText, in the order of their
  // names.
  static Corpus load(const std::filesystem::path& path, int64_t context);

  // Fills |batch| with training sequences from number |first| on. Sequence numbers run through
  // epochs: each epoch has every block of the text once, in its own order and with its own cut
  // positions. A sequence depends only on the seed and the sequence number, so a resumed training
  // needs only these two numbers.
  void sequences(uint64_t seed, int64_t first, const Batch& batch) const;
  // Fills |batch| with held-out sequences from |first| on. Sequences beyond the last get labels
  // that do not count.
  void held_out(int64_t first, const Batch& batch) const;

  int64_t size() const { return static_cast<int64_t>(text_.size()); }
  int64_t sequences_of_epoch() const { return blocks_; }
  int64_t held_out_sequences() const;
  // Returns the first held-out bytes.
  std::string_view prompt(int64_t length) const;
  // Returns a hash that distinguishes texts.
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
