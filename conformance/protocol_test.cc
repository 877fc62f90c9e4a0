// SPDX-License-Identifier: Apache-2.0
// The protocol between the runner and its workers.
#include "conformance/protocol.h"

#include <gtest/gtest.h>

#include <cstring>

namespace keel::conformance {
namespace {

using Type = WorkerAnswer::Type;

TEST(Protocol, RequestsAreReadBack) {
  WorkerRequest request;
  request.choice = {"cpu", "/a \"file\"", 3, /*emulated=*/true, "/kernels"};
  request.path = "/plugins/libkeel_cpu.so";
  request.token = UINT64_MAX - 1;
  request.seed = UINT64_MAX;
  request.timeout_seconds = 7;
  request.traced = true;
  request.end = std::chrono::steady_clock::now();
  request.cases = {"core/a", "ops/b"};
  request.fault = "lose:copy@2";
  WorkerRequest read;
  ASSERT_TRUE(from_text(to_text(request), &read));
  EXPECT_EQ(read.choice.backend, "cpu");
  EXPECT_EQ(read.choice.plugin, "/a \"file\"");
  EXPECT_EQ(read.choice.ordinal, 3U);
  EXPECT_TRUE(read.choice.emulated);
  EXPECT_EQ(read.choice.kernels, "/kernels");
  EXPECT_EQ(read.path, request.path);
  EXPECT_EQ(read.token, UINT64_MAX - 1);
  EXPECT_EQ(read.seed, UINT64_MAX);
  EXPECT_EQ(read.timeout_seconds, 7U);
  EXPECT_TRUE(read.traced);
  EXPECT_EQ(read.end, request.end);
  EXPECT_EQ(read.cases, request.cases);
  EXPECT_EQ(read.fault, request.fault);
}

TEST(Protocol, AnswersAreReadBack) {
  WorkerAnswer answer;
  ASSERT_TRUE(from_text(begin_text("core/a"), &answer));
  EXPECT_EQ(answer.type, Type::kBegin);
  EXPECT_EQ(answer.id, "core/a");
  ASSERT_TRUE(from_text(end_text("core/a", BodyEnd::kFailed, "why", 0.5), &answer));
  EXPECT_EQ(answer.type, Type::kEnd);
  EXPECT_EQ(answer.id, "core/a");
  EXPECT_EQ(answer.how, BodyEnd::kFailed);
  EXPECT_EQ(answer.text, "why");
  EXPECT_DOUBLE_EQ(answer.seconds, 0.5);
  ASSERT_TRUE(from_text(error_text("no", /*usage=*/true), &answer));
  EXPECT_EQ(answer.type, Type::kError);
  EXPECT_EQ(answer.text, "no");
  EXPECT_TRUE(answer.usage);
  ASSERT_TRUE(from_text(done_text(), &answer));
  EXPECT_EQ(answer.type, Type::kDone);
}

TEST(Protocol, WhatWasFoundIsReadBack) {
  Found found;
  found.target.backend = "mychip";
  found.info.alignment = 256;
  std::strcpy(found.info.name, "my \xff chip");  // invalid UTF-8
  found.backend_devices = {"mychip:1"};
  found.foreign_devices = {"cpu:0"};
  found.on_host = true;
  WorkerAnswer answer;
  ASSERT_TRUE(from_text(target_text(found), &answer));
  EXPECT_EQ(answer.type, Type::kTarget);
  EXPECT_EQ(answer.found.target.backend, "mychip");
  EXPECT_EQ(answer.found.info.alignment, 256U);
  EXPECT_STREQ(answer.found.info.name, found.info.name);
  EXPECT_EQ(answer.found.backend_devices, found.backend_devices);
  EXPECT_EQ(answer.found.foreign_devices, found.foreign_devices);
  EXPECT_TRUE(answer.found.on_host);
}

TEST(Protocol, WhatAPluginWritesIsNoAnswer) {
  for (const char* line :
       {"", "hello", "[]", "{}", "[[[[", R"({"type": 5})", R"({"type": "other"})",
        R"({"type": "begin"})", R"({"type": "begin", "id": 1})", R"({"type": "begin", "id": ""})",
        R"({"type": "end", "id": "a", "how": "good", "text": "", "seconds": 0})",
        R"({"type": "end", "id": "a", "how": "returned", "text": "", "seconds": "0"})",
        R"({"type": "error", "text": null, "usage": false})", R"({"type": "done", "type": "done"})",
        R"({"type": "done"} {"type": "done"})",
        R"({"type": "target", "target": {"backend": "x"}, "on_host": true})"}) {
    WorkerAnswer answer;
    EXPECT_FALSE(from_text(line, &answer)) << line;
  }
}

}  // namespace
}  // namespace keel::conformance
