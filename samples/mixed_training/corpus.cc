// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/corpus.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "samples/mixed_training/parameters.h"

namespace mixed_training {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw std::invalid_argument("--text " + path.string() + ": " + reason);
}

std::string read_file(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) refuse(path, "there is no such file");
  if (error) refuse(path, error.message());
  if (fs::is_directory(status)) refuse(path, "is a folder, not a file");
  if (!fs::is_regular_file(status)) refuse(path, "is not a regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be opened for reading");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) refuse(path, "cannot be read");
  if (text.empty()) refuse(path, "is empty");
  return text;
}

// Symbolic links are skipped: Debian has "GPL" beside "GPL-3", and a text present twice could be
// both held out and trained on.
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

}  // namespace

Corpus::Corpus(std::string text, int64_t batch_rows)
    : text_(std::move(text)), training_size_(size() - size() / 10) {
  // Batches are drawn with repetition, so sampling does not require this; but with fewer positions
  // than rows, most rows of a batch would be duplicates.
  const int64_t positions = training_size_ - kContext;
  if (positions < batch_rows || held_out_rows() < 1) {
    throw std::invalid_argument(
        "--text: " + std::to_string(size()) + " bytes are too few for --batch " +
        std::to_string(batch_rows) + ": 9/10 of them must hold " + std::to_string(batch_rows) +
        " contexts of " + std::to_string(kContext) + " bytes, and 1/10 one");
  }
}

Corpus Corpus::load(const fs::path& path, int64_t batch_rows) {
  return Corpus(path.empty() ? read_folder(kDefaultText) : read_file(path), batch_rows);
}

void Corpus::sample(uint64_t seed, int64_t step, int64_t first_row, const Batch& rows) const {
  const uint64_t step_key = mix(mix(seed) + static_cast<uint64_t>(step));
  const auto positions = static_cast<uint64_t>(training_size_ - kContext);
  for (int64_t row = 0; row < static_cast<int64_t>(rows.labels.size()); ++row) {
    const uint64_t random = mix(step_key + static_cast<uint64_t>(first_row + row));
    copy_row(static_cast<int64_t>(random % positions), row, rows);
  }
}

void Corpus::held_out(int64_t first_row, const Batch& rows) const {
  for (int64_t row = 0; row < static_cast<int64_t>(rows.labels.size()); ++row) {
    copy_row(training_size_ + first_row + row, row, rows);
  }
}

int64_t Corpus::held_out_rows() const {
  return size() - training_size_ - kContext;
}

std::string_view Corpus::prompt() const {
  return std::string_view(text_).substr(static_cast<size_t>(training_size_), kContext);
}

void Corpus::copy_row(int64_t position, int64_t row, const Batch& rows) const {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text_.data()) + position;
  std::copy_n(bytes, kContext, rows.contexts.begin() + row * kContext);
  rows.labels[static_cast<size_t>(row)] = bytes[kContext];
}

}  // namespace mixed_training
