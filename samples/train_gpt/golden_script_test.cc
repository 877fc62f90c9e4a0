// SPDX-License-Identifier: Apache-2.0
// Tests that goldens.py reproduces the goldens in the source tree.
#include <sys/wait.h>

#include <array>
#include <cstdio>

#include "samples/train_gpt/golden.h"
#include "samples/train_gpt/test_fixture.h"

namespace train_gpt {
namespace {

// Debian's PyTorch needs Debian's Python, which need not be the first one in PATH.
constexpr const char* kPython = "/usr/bin/python3";
constexpr int kNoPyTorch = 77;  // the script's exit code
constexpr int kNoPython = 127;  // the shell's

// Other versions of PyTorch and BLAS round differently.
constexpr Tolerance kTolerance = {/*gradient=*/1e-5, /*loss=*/1e-5, /*gradient_norm=*/1e-5};

struct Outcome {
  int exit_code;
  std::string output;  // stdout and stderr
};

Outcome run_script(const std::filesystem::path& folder) {
  const std::string command = std::string(kPython) +
                              " -B '" KEEL_SOURCE_DIR "/samples/train_gpt/goldens.py' --output '" +
                              folder.string() + "' 2>&1";
  Outcome outcome{-1, {}};
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return outcome;
  std::array<char, 4096> chunk;
  size_t count = 0;
  while ((count = fread(chunk.data(), 1, chunk.size(), pipe)) > 0) {
    outcome.output.append(chunk.data(), count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

TEST(GoldenScript, WritesWhatIsInTheTree) {
  const Folder folder;
  const Outcome outcome = run_script(folder / "");
  if (outcome.exit_code == kNoPyTorch || outcome.exit_code == kNoPython) {
    GTEST_SKIP() << kPython << " has no PyTorch";
  }
  ASSERT_EQ(outcome.exit_code, 0) << outcome.output;
  for (const Architecture architecture : {Architecture::kGpt2, Architecture::kLlama}) {
    SCOPED_TRACE(name(architecture));
    const Golden kept = read_golden(golden_folder(), architecture);
    const Golden made = read_golden(folder / "", architecture);
    EXPECT_EQ(made.layout.config(), kept.layout.config());
    expect_close(made.course, kept, kTolerance);
  }
}

}  // namespace
}  // namespace train_gpt
