// SPDX-License-Identifier: Apache-2.0
#include "samples/train_gpt/generate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "samples/train_gpt/network.h"

namespace train_gpt {

std::string generate(keel::Stream& stream, const Weights& weights, std::string_view prompt,
                     int64_t length, double temperature, uint64_t seed) {
  Network network(stream, weights, /*sequences=*/1);
  const auto context = static_cast<size_t>(weights.layout().config().context);
  std::string text(prompt);
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::array<float, kVocabulary> logits;
  std::array<double, kVocabulary> cumulative;
  for (int64_t i = 0; i < length; ++i) {
    const size_t seen = std::min(text.size(), context);
    const std::string_view tail = std::string_view(text).substr(text.size() - seen);
    const Batch batch = network.next_batch();
    // Padding after the text does not affect results: attention is causal.
    std::fill(batch.tokens.begin(), batch.tokens.end(), 0);
    std::fill(batch.labels.begin(), batch.labels.end(), -1);
    std::transform(tail.begin(), tail.end(), batch.tokens.begin(),
                   [](char byte) { return static_cast<unsigned char>(byte); });
    network.forward();
    network.read_logits(static_cast<int64_t>(seen) - 1, logits);
    stream.synchronize();
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

}  // namespace train_gpt
