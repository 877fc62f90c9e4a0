// SPDX-License-Identifier: Apache-2.0
// The lines between the runner and its workers.
#include "conformance/protocol.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace keel::conformance {
namespace {

using Json = nlohmann::json;
using Type = WorkerAnswer::Type;

TEST(Protocol, RequestsAreReadBack) {
  WorkerRequest request;
  request.choice = {"cpu", "/a \"file\"", 3, /*emulated=*/true, "/kernels"};
  request.path = "/plugins/libkeel_cpu.so";
  request.seed = UINT64_MAX;
  request.timeout_seconds = 7;
  request.end = std::chrono::steady_clock::now();
  request.cases = {"core/a", "ops/b"};
  WorkerRequest read;
  ASSERT_TRUE(from_text(to_text(request), &read));
  EXPECT_EQ(read.choice.backend, "cpu");
  EXPECT_EQ(read.choice.plugin, "/a \"file\"");
  EXPECT_EQ(read.choice.ordinal, 3U);
  EXPECT_TRUE(read.choice.emulated);
  EXPECT_EQ(read.choice.kernels, "/kernels");
  EXPECT_EQ(read.path, request.path);
  EXPECT_EQ(read.seed, UINT64_MAX);
  EXPECT_EQ(read.timeout_seconds, 7U);
  EXPECT_EQ(read.end, request.end);
  EXPECT_EQ(read.cases, request.cases);
}

TEST(Protocol, AnswersAreRead) {
  WorkerAnswer answer;
  ASSERT_TRUE(from_text(R"({"type": "begin", "id": "core/a"})", &answer));
  EXPECT_EQ(answer.type, Type::kBegin);
  EXPECT_EQ(answer.result.id, "core/a");
  ASSERT_TRUE(from_text(
      R"({"type": "end", "id": "core/a", "outcome": "fail", "message": "why", "seconds": 0.5})",
      &answer));
  EXPECT_EQ(answer.type, Type::kEnd);
  EXPECT_EQ(answer.result.outcome, Outcome::kFail);
  EXPECT_EQ(answer.result.message, "why");
  EXPECT_DOUBLE_EQ(answer.result.seconds, 0.5);
  ASSERT_TRUE(from_text(R"({"type": "error", "text": "no", "usage": true})", &answer));
  EXPECT_EQ(answer.type, Type::kError);
  EXPECT_TRUE(answer.usage);
  const Json target = {
      {"type", "target"}, {"target", Target()}, {"on_host", true}, {"cases", Json::array()}};
  ASSERT_TRUE(from_text(target.dump(), &answer));
  EXPECT_EQ(answer.type, Type::kTarget);
  EXPECT_TRUE(answer.on_host);
  ASSERT_TRUE(from_text(R"({"type": "done"})", &answer));
  EXPECT_EQ(answer.type, Type::kDone);
}

TEST(Protocol, WhatAPluginWritesIsNoAnswer) {
  for (const char* line :
       {"", "hello", "[]", "{}", "[[[[", R"({"type": 5})", R"({"type": "other"})",
        R"({"type": "begin"})", R"({"type": "begin", "id": 1})", R"({"type": "begin", "id": ""})",
        R"({"type": "end", "id": "a", "outcome": "good", "message": "", "seconds": 0})",
        R"({"type": "end", "id": "a", "outcome": "pass", "message": "", "seconds": "0"})",
        R"({"type": "error", "text": null, "usage": false})", R"({"type": "done", "type": "done"})",
        R"({"type": "done"} {"type": "done"})",
        R"({"type": "target", "target": {"backend": "x"}, "cases": []})"}) {
    WorkerAnswer answer;
    EXPECT_FALSE(from_text(line, &answer)) << line;
  }
}

}  // namespace
}  // namespace keel::conformance
