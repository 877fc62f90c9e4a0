// SPDX-License-Identifier: Apache-2.0
// Result files.
#ifndef KEEL_SAMPLES_TRAIN_GPT_OUTPUT_H_
#define KEEL_SAMPLES_TRAIN_GPT_OUTPUT_H_

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

namespace train_gpt {

// A file written at the end of a run. The results of the previous run remain until then.
class Output {
 public:
  // Throws std::invalid_argument, naming |option|, for an unwritable path, so a training does not
  // fail after hours. With an empty |path| nothing is written.
  Output(std::string option, std::filesystem::path path);

  // Replaces the file as a whole. On failure throws std::runtime_error; the old file remains.
  void write(const std::function<void(std::ostream&)>& content) const;

 private:
  std::string option_;
  std::filesystem::path path_;
};

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_OUTPUT_H_
