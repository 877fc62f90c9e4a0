// SPDX-License-Identifier: Apache-2.0
// Training data: token files, read by threads ahead of the step, each rank its share.
//
//   TokenFiles files({"part0.bin", "part1.bin"}, TokenWidth::k16, /*context=*/1024);
//   Loader loader(files, {.seed = 1, .batch = 64, .first = 8 * rank, .count = 8});
//   while (...) { const Loader::Batch& batch = loader.next(); ... }
//   save loader.state() with the weights; a new Loader from it goes on with the same samples
#ifndef KEEL_PARALLEL_LOADER_HPP_
#define KEEL_PARALLEL_LOADER_HPP_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace keel::parallel {
inline namespace v0 {

enum class TokenWidth : uint8_t { k16 = 2, k32 = 4 };  // bytes of a token in the file

// Files of tokens, little-endian, without a header, mapped into memory. A sample is |context|
// tokens and, one place later, their labels; samples do not cross files. Immutable; threads may
// read concurrently.
class TokenFiles {
 public:
  // Throws Error: KEEL_NOT_FOUND for a file that cannot be opened, KEEL_INVALID_ARGUMENT for a file
  // that ends inside a token, or files without a sample; the file is named.
  TokenFiles(std::vector<std::filesystem::path> paths, TokenWidth width, int64_t context);
  ~TokenFiles();
  TokenFiles(const TokenFiles&) = delete;
  TokenFiles& operator=(const TokenFiles&) = delete;

  int64_t context() const { return context_; }
  int64_t samples() const { return samples_; }
  // Copies sample |number|, below samples(). The spans have context() elements. Throws
  // Error(KEEL_DATA_LOSS) for a token above 2^31 - 1.
  void read(int64_t number, std::span<int32_t> tokens, std::span<int32_t> labels) const;
  // Returns a hash of the files' sizes and of their contents at 64 places each: it tells files
  // apart with which a training could go on by mistake.
  uint64_t fingerprint() const;

 private:
  struct File;
  void unmap();

  TokenWidth width_;
  int64_t context_;
  int64_t samples_ = 0;
  std::vector<File> files_;
};

// The order of samples: a permutation of 0 to |count| - 1 in each epoch, computed place by place,
// so that no rank holds a list. A four-round Feistel network over the next even power of two,
// walked until the result is below |count| (Black and Rogaway, "Ciphers with Arbitrary Finite
// Domains", 2002).
int64_t shuffled(uint64_t seed, int64_t epoch, int64_t place, int64_t count);

// Where a training is in its data. The same on all ranks, whatever their number.
struct LoaderState {
  uint64_t seed = 0;
  int64_t next_sample = 0;   // of all ranks and epochs
  uint64_t fingerprint = 0;  // TokenFiles::fingerprint

  std::string text() const;  // one line
  // Throws Error(KEEL_INVALID_ARGUMENT) unless |text| is a text().
  static LoaderState parse(const std::string& text);
};

struct LoaderOptions {
  uint64_t seed = 0;
  int64_t batch = 1;  // samples of a step, of all ranks
  int64_t first = 0;  // of them, this rank's
  int64_t count = 1;
  int threads = 1;
  int ahead = 4;  // steps read ahead
};

// One rank's batches in order, read ahead by threads. A sample is a function of the seed and its
// number alone, so that ranks in any number see the same steps. For one thread.
class Loader {
 public:
  struct Batch {
    int64_t first_sample = 0;     // number of the first sample, of all ranks and epochs
    std::vector<int32_t> tokens;  // count * context
    std::vector<int32_t> labels;
  };

  // Borrows |files|. Throws Error(KEEL_INVALID_ARGUMENT) for a share outside of the batch.
  Loader(const TokenFiles& files, const LoaderOptions& options);
  // Goes on at |state|, with its seed. Throws Error(KEEL_INVALID_ARGUMENT) if the state is of other
  // files.
  Loader(const TokenFiles& files, const LoaderOptions& options, const LoaderState& state);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next step's batch, valid until the next call; waits for the threads. Throws a thread's
  // failure.
  const Batch& next();
  // State behind the last batch that next() has returned, whatever the threads have read ahead.
  LoaderState state() const;
  // Time that next() has waited so far.
  double waited_seconds() const;

 private:
  struct Shared;
  static void run(Shared& shared);

  std::unique_ptr<Shared> shared_;
};

}  // namespace v0
}  // namespace keel::parallel

#endif  // KEEL_PARALLEL_LOADER_HPP_
