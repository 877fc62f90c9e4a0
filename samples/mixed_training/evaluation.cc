// SPDX-License-Identifier: Apache-2.0
#include "samples/mixed_training/evaluation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>
#include <random>
#include <vector>

#include "samples/mixed_training/parameters.h"

namespace mixed_training {

double held_out_bits_per_byte(Model& model, const Corpus& corpus) {
  double nats = 0;
  std::vector<float> losses;
  const int64_t total = corpus.held_out_rows();
  for (int64_t first = 0; first < total; first += model.max_rows()) {
    const int64_t rows = std::min(model.max_rows(), total - first);
    losses.resize(static_cast<size_t>(rows));
    corpus.held_out(first, model.next_batch(rows));
    model.forward();
    model.read_row_losses(losses);
    model.stream().synchronize();
    nats = std::accumulate(losses.begin(), losses.end(), nats);
  }
  return nats / static_cast<double>(total) / std::numbers::ln2;
}

std::string generate(Model& model, std::string_view prompt, int64_t length, double temperature,
                     uint64_t seed) {
  std::string text(prompt);
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::array<float, kVocabulary> logits;
  std::array<double, kVocabulary> cumulative;
  for (int64_t i = 0; i < length; ++i) {
    const Batch batch = model.next_batch(1);
    const std::string_view context = std::string_view(text).substr(text.size() - kContext);
    std::transform(context.begin(), context.end(), batch.contexts.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
    batch.labels[0] = -1;  // no loss: the next byte is unknown
    model.forward();
    model.read_logits(logits);
    model.stream().synchronize();
    const float largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (size_t byte = 0; byte < logits.size(); ++byte) {
      sum += std::exp((logits[byte] - largest) / temperature);
      cumulative[byte] = sum;
    }
    const auto drawn =
        std::upper_bound(cumulative.begin(), cumulative.end(), uniform(generator) * sum);
    const auto byte = std::min<int64_t>(drawn - cumulative.begin(), kVocabulary - 1);
    text.push_back(static_cast<char>(byte));
  }
  return text.substr(prompt.size());
}

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return c != '\n' && c != '\t' && (c < ' ' || c > '~'); }, '?');
  return text;
}

}  // namespace mixed_training
