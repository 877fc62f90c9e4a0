// SPDX-License-Identifier: Apache-2.0
// Tests that goldens.py reproduces the goldens in the source tree.
#include <chrono>
#include <string>
#include <utility>

#include "base/ipc/process.h"
#include "samples/train_gpt/golden.h"
#include "samples/train_gpt/test_fixture.h"

namespace train_gpt {
namespace {

// Debian's PyTorch needs Debian's Python, which need not be the first one in PATH.
constexpr const char* kPython = "/usr/bin/python3";
constexpr int kNoPyTorch = 77;  // the script's exit code
constexpr int kNoPython = 127;  // as a shell says it

// Other versions of PyTorch and BLAS round differently.
constexpr Tolerance kTolerance = {/*gradient=*/1e-5, /*loss=*/1e-5, /*gradient_norm=*/1e-5};

struct Outcome {
  int exit_code;
  std::string output;  // stdout and stderr
};

Outcome run_script(const std::filesystem::path& folder) {
  keel::ProcessOptions options;
  options.command = {kPython, "-B", KEEL_SOURCE_DIR "/samples/train_gpt/goldens.py", "--output",
                     folder.string()};
  options.output = keel::ProcessOptions::Stream::kPiped;
  options.errors = keel::ProcessOptions::Stream::kAsOutput;
  keel::ProgramResult result = keel::run_program(options, std::chrono::minutes(20));
  Outcome outcome{-1, std::move(result.output)};
  if (result.start_error != 0) {
    outcome.exit_code = kNoPython;
  } else if (result.end.signal == 0) {
    outcome.exit_code = result.end.exit_code;
  }
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
