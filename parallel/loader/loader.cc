// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <keel/error.hpp>
#include <keel/parallel/loader.hpp>
#include <mutex>
#include <thread>

#include "base/printable.h"

namespace keel::parallel {
inline namespace v0 {

std::string LoaderState::text() const {
  std::array<char, 96> line{};
  std::snprintf(line.data(), line.size(), "seed=%llu next_sample=%lld files=%016llx",
                static_cast<unsigned long long>(seed), static_cast<long long>(next_sample),
                static_cast<unsigned long long>(fingerprint));
  return line.data();
}

LoaderState LoaderState::parse(const std::string& text) {
  unsigned long long seed = 0;
  long long next = 0;
  unsigned long long fingerprint = 0;
  LoaderState state;
  if (std::sscanf(text.c_str(), "seed=%llu next_sample=%lld files=%llx", &seed, &next,
                  &fingerprint) == 3) {
    state = {seed, next, fingerprint};
  }
  // Anything beside a text() makes another text.
  if (next < 0 || state.text() != text) {
    throw Error(KEEL_INVALID_ARGUMENT,
                "'" + keel::printable(text.substr(0, 96)) + "' is no state of a loader");
  }
  return state;
}

struct Loader::Shared {
  // A batch in the ring, by step modulo the ring's size.
  struct Place {
    Batch batch;
    bool is_ready = false;
    std::exception_ptr failure;
  };

  Shared(const TokenFiles& given, const LoaderOptions& chosen)
      : files(given), options(chosen), ring(static_cast<size_t>(chosen.ahead) + 1) {}

  Place& place(int64_t step) { return ring[static_cast<size_t>(step) % ring.size()]; }

  const TokenFiles& files;
  const LoaderOptions options;
  int64_t start = 0;  // first sample of step 0

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Place> ring;
  int64_t next_read = 0;   // step that the next free thread reads
  int64_t next_given = 0;  // step that next() returns
  bool is_stopping = false;
  double waited = 0;
  std::vector<std::thread> threads;
};

void Loader::run(Shared& shared) {
  const LoaderOptions& options = shared.options;
  const auto context = static_cast<size_t>(shared.files.context());
  while (true) {
    int64_t step = 0;
    {
      std::unique_lock lock(shared.mutex);
      // The batch that next() returned last stays as it is.
      shared.changed.wait(lock, [&] {
        return shared.is_stopping ||
               shared.next_read < shared.next_given + static_cast<int64_t>(options.ahead);
      });
      if (shared.is_stopping) return;
      step = shared.next_read++;
    }
    Shared::Place& place = shared.place(step);
    std::exception_ptr failure;
    try {
      Batch& batch = place.batch;
      batch.first_sample = shared.start + step * options.batch + options.first;
      batch.tokens.resize(static_cast<size_t>(options.count) * context);
      batch.labels.resize(batch.tokens.size());
      for (int64_t i = 0; i < options.count; ++i) {
        const int64_t sample = batch.first_sample + i;
        const int64_t of_epoch = shared.files.samples();
        const size_t at = static_cast<size_t>(i) * context;
        shared.files.read(shuffled(options.seed, sample / of_epoch, sample % of_epoch, of_epoch),
                          std::span(batch.tokens).subspan(at, context),
                          std::span(batch.labels).subspan(at, context));
      }
    } catch (...) {
      failure = std::current_exception();
    }
    const std::lock_guard lock(shared.mutex);
    place.failure = failure;
    place.is_ready = true;
    shared.changed.notify_all();
  }
}

Loader::Loader(const TokenFiles& files, const LoaderOptions& options)
    : Loader(files, options, LoaderState{options.seed, 0, files.fingerprint()}) {}

Loader::Loader(const TokenFiles& files, const LoaderOptions& options, const LoaderState& state) {
  if (options.batch < 1 || options.first < 0 || options.count < 1 ||
      options.count > options.batch - options.first) {
    throw Error(KEEL_INVALID_ARGUMENT, "loader: samples " + std::to_string(options.first) + " to " +
                                           std::to_string(options.first + options.count) +
                                           " of a batch of " + std::to_string(options.batch));
  }
  if (options.threads < 1 || options.ahead < 1) {
    throw Error(KEEL_INVALID_ARGUMENT, "loader: " + std::to_string(options.threads) + " threads, " +
                                           std::to_string(options.ahead) +
                                           " steps ahead; both must be 1 or more");
  }
  if (state.fingerprint != files.fingerprint() || state.next_sample < 0) {
    throw Error(KEEL_INVALID_ARGUMENT,
                "loader: the state '" + state.text() + "' is of other token files");
  }
  LoaderOptions chosen = options;
  chosen.seed = state.seed;
  shared_ = std::make_unique<Shared>(files, chosen);
  shared_->start = state.next_sample;
  for (int i = 0; i < chosen.threads; ++i) {
    shared_->threads.emplace_back([shared = shared_.get()] { run(*shared); });
  }
}

Loader::~Loader() {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->is_stopping = true;
  }
  shared_->changed.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

const Loader::Batch& Loader::next() {
  std::unique_lock lock(shared_->mutex);
  if (shared_->next_given > 0) shared_->place(shared_->next_given - 1).is_ready = false;
  Shared::Place& place = shared_->place(shared_->next_given);
  if (!place.is_ready) {
    const auto begin = std::chrono::steady_clock::now();
    shared_->changed.wait(lock, [&] { return place.is_ready; });
    shared_->waited +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  if (place.failure != nullptr) std::rethrow_exception(place.failure);
  ++shared_->next_given;
  shared_->changed.notify_all();
  return place.batch;
}

LoaderState Loader::state() const {
  const std::lock_guard lock(shared_->mutex);
  return {shared_->options.seed, shared_->start + shared_->next_given * shared_->options.batch,
          shared_->files.fingerprint()};
}

double Loader::waited_seconds() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->waited;
}

}  // namespace v0
}  // namespace keel::parallel
