// SPDX-License-Identifier: Apache-2.0
// Tests the protocol with PyTorch's process: with the real process where Debian's PyTorch is
// installed, and with a fake one.
#include "bench/torch_peer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace keel::bench {
namespace {

TorchOptions options_with(const std::string& script) {
  TorchOptions options;
  options.script = script;
  options.sets = 2;
  return options;
}

class PlayedTorchPeer : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) / "keel_torch_peer_test";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    if (!std::filesystem::exists("/usr/bin/python3")) GTEST_SKIP() << "no /usr/bin/python3";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Writes a fake process that prints |greeting|, and answers every line with |answer|, in which
  // "{}" is replaced by the line.
  std::string play(const std::string& greeting, const std::string& answer) const {
    const std::string path = (folder_ / "played.py").string();
    std::ofstream(path) << "import sys\nprint('" << greeting << "', flush=True)\n"
                        << "for line in sys.stdin: print('" << answer
                        << "'.format(line.strip()), flush=True)\n";
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(PlayedTorchPeer, IsAskedLineByLine) {
  std::string why;
  const auto peer = TorchPeer::start(options_with(play("ready 9.9", "0.25")), &why);
  ASSERT_NE(peer, nullptr) << why;
  EXPECT_EQ(peer->name(), "PyTorch 9.9");
  EXPECT_EQ(peer->run("gelu", "2x3", "float32", "eager", 7), 0.25);
}

TEST_F(PlayedTorchPeer, SaysWhatItWasAskedAndCannot) {
  std::string why;
  const auto peer = TorchPeer::start(options_with(play("ready 9.9", "failed: {}")), &why);
  ASSERT_NE(peer, nullptr) << why;
  try {
    peer->run("gelu", "2x3", "float32", "compile", 7);
    FAIL() << "a failure is an exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "PyTorch 9.9, gelu: failed: run gelu 2x3 float32 compile 7");
  }
  EXPECT_TRUE(peer->answers());
  EXPECT_FALSE(peer->can("compile", &why));
  EXPECT_EQ(why, "failed: can compile");
}

TEST_F(PlayedTorchPeer, ThatEndsIsNoLongerAsked) {
  const std::string path = play("ready 9.9", "0.25");
  std::ofstream(path) << "print('ready 9.9')\n";
  std::string why;
  const auto peer = TorchPeer::start(options_with(path), &why);
  ASSERT_NE(peer, nullptr) << why;
  EXPECT_THROW(peer->run("gelu", "2x3", "float32", "eager", 1), std::exception);
  EXPECT_FALSE(peer->answers());
}

TEST_F(PlayedTorchPeer, ThatIsNotReadySaysWhy) {
  std::string why;
  EXPECT_EQ(TorchPeer::start(options_with(play("no PyTorch", "")), &why), nullptr);
  EXPECT_EQ(why, "/usr/bin/python3: no PyTorch");
  EXPECT_EQ(TorchPeer::start(options_with("/no/such.py"), &why), nullptr);
  EXPECT_EQ(why, "/no/such.py is missing");
}

TEST_F(PlayedTorchPeer, OfAGpuRunsByWhatItIsTold) {
  TorchOptions options = options_with(play("ready 9.9", "0.5"));
  options.device = "cuda:0";
  std::string why;
  ASSERT_EQ(setenv("KEEL_BENCH_PYTHON", "/no/such/python", 1), 0);
  EXPECT_EQ(TorchPeer::start(options, &why), nullptr);
  EXPECT_EQ(why, "/no/such/python: is not here");
  ASSERT_EQ(setenv("KEEL_BENCH_PYTHON", "/usr/bin/python3", 1), 0);
  EXPECT_NE(TorchPeer::start(options, &why), nullptr) << why;
  unsetenv("KEEL_BENCH_PYTHON");
}

// ---- the script itself -----------------------------------------------------------------------

const std::string kScript = KEEL_SOURCE_DIR "/bench/peers/torch_ops.py";
const std::string kOnPlayedGpu = KEEL_SOURCE_DIR "/bench/testing/torch_ops_on_played_gpu.py";

TEST(TorchOps, RunsEveryOperator) {
  std::string why;
  const auto peer = TorchPeer::start(options_with(kScript), &why);
  if (peer == nullptr) GTEST_SKIP() << why;
  for (const char* dtype : {"float32", "bfloat16"}) {
    for (const char* name : {"layer_norm", "rms_norm", "softmax", "cross_entropy", "gelu", "swiglu",
                             "cast", "embedding"}) {
      EXPECT_GT(peer->run(name, "8x32", dtype, "eager", 3), 0) << name;
    }
    for (const char* name : {"matmul", "matmul_transposed_a", "matmul_transposed_b"}) {
      EXPECT_GT(peer->run(name, "4x6x8", dtype, "eager", 3), 0) << name;
    }
  }
  for (const char* name : {"layer_norm_backward", "rms_norm_backward", "softmax_backward",
                           "cross_entropy_backward", "gelu_backward", "swiglu_backward", "adamw"}) {
    EXPECT_GT(peer->run(name, "8x32", "float32", "eager", 3), 0) << name;
  }
}

// Tests the GPU code path, as far as possible without a GPU.
TEST(TorchOps, RunsOnAGpu) {
  TorchOptions options = options_with(kOnPlayedGpu);
  options.device = "cuda:0";
  std::string why;
  const auto peer = TorchPeer::start(options, &why);
  if (peer == nullptr) GTEST_SKIP() << why;
  EXPECT_TRUE(peer->name().ends_with(", CUDA 9.9")) << peer->name();
  EXPECT_TRUE(peer->can("compile", &why)) << why;
  for (const char* mode : {"eager", "compile"}) {
    for (const char* name : {"layer_norm", "rms_norm", "softmax", "cross_entropy", "gelu", "swiglu",
                             "cast", "embedding", "adamw"}) {
      EXPECT_GT(peer->run(name, "8x32", "float32", mode, 3), 0) << name << ", " << mode;
    }
  }
  EXPECT_GT(peer->run("matmul_transposed_a", "4x6x8", "bfloat16", "eager", 3), 0);
}

// A missing GPU is reported.
TEST(TorchOps, WantsAGpuWhereItIsToldOfOne) {
  TorchOptions options = options_with(kScript);
  options.device = "cuda:999";
  std::string why;
  EXPECT_EQ(TorchPeer::start(options, &why), nullptr);
  EXPECT_FALSE(why.empty());
}

// Old versions have no torch.compile; without a compiler torch.compile does not work.
TEST(TorchOps, ModesAreThereOrToldToBeMissing) {
  std::string why;
  const auto peer = TorchPeer::start(options_with(kScript), &why);
  if (peer == nullptr) GTEST_SKIP() << why;
  for (const char* mode : {"eager", "compile", "fused"}) {
    why.clear();
    if (peer->can(mode, &why)) {
      EXPECT_GT(peer->run("adamw", "8x32", "float32", mode, 1), 0) << mode;
    } else {
      EXPECT_NE(why.find("PyTorch"), std::string::npos) << why;
    }
  }
  EXPECT_FALSE(peer->can("no_such_mode", &why));
  EXPECT_THROW(peer->run("no_such_operator", "8x32", "float32", "eager", 1), std::runtime_error);
  EXPECT_THROW(peer->run("gelu", "8x32", "float32", "no_such_mode", 1), std::runtime_error);
  EXPECT_GT(peer->run("gelu", "8x32", "float32", "eager", 1), 0);  // the process continues
}

}  // namespace
}  // namespace keel::bench
