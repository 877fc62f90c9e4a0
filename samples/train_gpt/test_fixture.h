// SPDX-License-Identifier: Apache-2.0
// Shared by the tests of this folder: models small enough for milliseconds on the CPU.
#ifndef KEEL_SAMPLES_TRAIN_GPT_TEST_FIXTURE_H_
#define KEEL_SAMPLES_TRAIN_GPT_TEST_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <keel/keel.hpp>
#include <string>
#include <vector>

#include "samples/train_gpt/config.h"

namespace train_gpt {

// Returns the first device of backend $KEEL_TEST_BACKEND, else of the CPU, so whole models can test
// any chip's kernels.
inline keel::Device test_device() {
  const char* backend = std::getenv("KEEL_TEST_BACKEND");
  return keel::Device::find(backend == nullptr ? "cpu" : backend);
}

inline ModelConfig tiny_config(Architecture architecture) {
  ModelConfig config;
  config.architecture = architecture;
  config.layers = 2;
  config.width = 16;
  config.heads = 4;
  config.kv_heads = config.is_llama() ? 2 : 4;
  config.mlp_width = 24;
  config.context = 8;
  return config;
}

// Returns text with a learnable pattern.
inline std::string lines_of_text(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "line " + std::to_string(i * i) + " of the text\n";
  return text;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// A temporary folder; the destructor deletes it.
class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "train_gpt_test.XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// Returns the message of the |Exception| that |call| throws; empty if none.
template <typename Exception, typename Call>
std::string message_of(Call&& call) {
  try {
    call();
    return {};
  } catch (const Exception& error) {
    return error.what();
  }
}

class ArchitectureTest : public testing::TestWithParam<Architecture> {};

inline std::string architecture_name(const testing::TestParamInfo<Architecture>& info) {
  return name(info.param);
}

}  // namespace train_gpt

#endif  // KEEL_SAMPLES_TRAIN_GPT_TEST_FIXTURE_H_
