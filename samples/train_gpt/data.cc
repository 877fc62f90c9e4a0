// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/data.h"

#include <algorithm>
#include <bit>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

namespace train_gpt {
namespace {

namespace fs = std::filesystem;

constexpr int32_t kIgnored = -1;  // a label that does not count

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw std::invalid_argument("--text " + path.string() + ": " + reason);
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) refuse(path, "there is no such file");
  if (error) refuse(path, error.message());
  if (!fs::is_regular_file(status)) refuse(path, "is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be opened for reading");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) refuse(path, "cannot be read");
  return text;
}

// Symbolic links are skipped: a text present twice could be both held out and trained on.
std::string read_folder(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    if (!entry.is_symlink() && entry.is_regular_file()) files.push_back(entry.path());
  }
  if (files.empty()) refuse(folder, "the default text is not on this machine; give --text FILE");
  std::sort(files.begin(), files.end());
  std::string text;
  for (const fs::path& file : files) text += read_file(file);
  return text;
}

// splitmix64's finaliser: every bit of the result depends on every bit of |value|.
uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

// Returns the position of |index| in a shuffle of [0, count), without the shuffled array: a Feistel
// network permutes the next power of four, and an index beyond |count| is permuted again until it
// is inside.
uint64_t shuffled(uint64_t key, uint64_t index, uint64_t count) {
  const int half_bits = (std::bit_width(std::max<uint64_t>(count, 2) - 1) + 1) / 2;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  do {
    uint64_t left = index >> half_bits;
    uint64_t right = index & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      left ^= mix(mix(key + round) + right) & mask;
      std::swap(left, right);
    }
    index = left << half_bits | right;
  } while (index >= count);
  return index;
}

}  // namespace

Corpus::Corpus(std::string text, int64_t context)
    : text_(std::move(text)),
      context_(context),
      training_size_(size() - size() / 10),
      // A sequence reads one token past its end, and an epoch may start up to context - 1 later.
      blocks_((training_size_ - context) / context) {
  if (blocks_ < 1 || held_out_sequences() < 1) {
    throw std::invalid_argument("--text: " + std::to_string(size()) +
                                " bytes are too few for --context " + std::to_string(context) +
                                ": 9/10 of them must hold two sequences, and 1/10 one");
  }
}

Corpus Corpus::load(const fs::path& path, int64_t context) {
  return Corpus(path.empty() ? read_folder(kDefaultText) : read_file(path), context);
}

void Corpus::sequences(uint64_t seed, int64_t first, const Batch& batch) const {
  const auto count = static_cast<int64_t>(batch.tokens.size()) / context_;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t epoch = (first + i) / blocks_;
    const uint64_t key = mix(mix(seed) + static_cast<uint64_t>(epoch));
    const auto shift = static_cast<int64_t>(mix(key) % static_cast<uint64_t>(context_));
    const auto block = static_cast<int64_t>(shuffled(
        key, static_cast<uint64_t>((first + i) % blocks_), static_cast<uint64_t>(blocks_)));
    copy(block * context_ + shift, i, batch);
  }
}

void Corpus::held_out(int64_t first, const Batch& batch) const {
  const auto count = static_cast<int64_t>(batch.tokens.size()) / context_;
  for (int64_t i = 0; i < count; ++i) {
    if (first + i < held_out_sequences()) {
      copy(training_size_ + (first + i) * context_, i, batch);
      continue;
    }
    std::fill_n(batch.tokens.begin() + i * context_, context_, 0);
    std::fill_n(batch.labels.begin() + i * context_, context_, kIgnored);
  }
}

int64_t Corpus::held_out_sequences() const {
  return (size() - training_size_ - 1) / context_;
}

std::string_view Corpus::prompt(int64_t length) const {
  return std::string_view(text_).substr(static_cast<size_t>(training_size_),
                                        static_cast<size_t>(length));
}

uint64_t Corpus::fingerprint() const {
  uint64_t hash = mix(text_.size());
  for (const char byte : text_) hash = mix(hash ^ static_cast<unsigned char>(byte));
  return hash;
}

void Corpus::copy(int64_t position, int64_t sequence, const Batch& batch) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text_.data()) + position;
  std::copy_n(bytes, context_, batch.tokens.begin() + sequence * context_);
  std::copy_n(bytes + 1, context_, batch.labels.begin() + sequence * context_);
}

}  // namespace train_gpt
