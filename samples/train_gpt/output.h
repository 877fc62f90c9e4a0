// SPDX-License-Identifier: Apache-2.0
// Files of results.
#ifndef KEEL_SAMPLES_TRAIN_GPT_OUTPUT_H_
#define KEEL_SAMPLES_TRAIN_GPT_OUTPUT_H_

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

namespace train_gpt {

// What a run writes at its end. Until then, the results of the run before stay.
class Output {
 public:
  // Throws std::invalid_argument, naming |option|, for a path that cannot be written: a training
  // should not show that after hours. An empty |path|: nothing is written.
  Output(std::string option, std::filesystem::path path);

  // Replaces the file as a whole. Throws std::runtime_error, after which the old one is there.
  void write(const std::function<void(std::ostream&)>& content) const;

 private:
  std::string option_;
  std::filesystem::path path_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_OUTPUT_H_
