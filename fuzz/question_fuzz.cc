// SPDX-License-Identifier: Apache-2.0
// Fuzzes the arguments of `keel ops`: operator, dtype, shapes and attributes.
#include "fuzz/bytes.h"
#include "tools/command.h"
#include "tools/keel/op_question.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  keel::fuzz::Bytes bytes({data, size});
  const auto schemas = keel::ops::schemas();
  const auto index = bytes.below(static_cast<uint32_t>(schemas.size()));
  const auto& schema = *schemas[index];
  keel::cli::CaseOptions options;
  // The rest is text: one word per option; words with "=" are attributes.
  std::string word;
  while (!bytes.empty()) {
    const char next = static_cast<char>(bytes.byte());
    if (next != ' ') word += next;
    if (word.empty() || (next != ' ' && !bytes.empty())) continue;
    const bool is_attribute = word.find('=') != std::string::npos;
    (is_attribute ? options.attributes : options.shapes).push_back(word);
    word.clear();
  }
  try {
    keel::cli::make_call(keel::cli::make_case(schema, options));
  } catch (const keel::cli::UsageError&) {
  }
  return 0;
}
