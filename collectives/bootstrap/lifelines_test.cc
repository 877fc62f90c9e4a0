// SPDX-License-Identifier: Apache-2.0
#include "collectives/bootstrap/lifelines.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <map>
#include <string>
#include <vector>

#include "collectives/bootstrap/mem_handle_server.h"
#include "collectives/bootstrap/testing/child_process.h"

namespace keel::testing {
namespace {

// Prints its token, then obeys one line: "exec", or ends.
int listening_worker(const std::vector<std::string>&) {
  if (!MemHandleServer::get().listen().ok()) return 1;
  say(MemHandleServer::get().token().hex());
  if (hear() == "exec") execl("/bin/cat", "cat", nullptr);  // until its input ends
  return 0;
}

ProcessToken token_of(const std::string& hex) {
  ProcessToken token;
  for (size_t i = 0; i < token.bytes.size() && 2 * i + 2 <= hex.size(); ++i) {
    token.bytes[i] = static_cast<uint8_t>(std::stoul(hex.substr(2 * i, 2), nullptr, 16));
  }
  return token;
}

// A watch whose call a test can await.
class Watch {
 public:
  explicit Watch(const ProcessToken& owner) {
    const Status status = Lifelines::get().watch(
        owner, [this] { cut_.set_value(); }, &watch_);
    EXPECT_TRUE(status.ok()) << status.text();
  }
  void wait() { cut_.get_future().wait(); }
  void unwatch() { Lifelines::get().unwatch(watch_); }

 private:
  std::promise<void> cut_;
  uint64_t watch_ = 0;
};

TEST(LifelinesTest, ExecIsNoticedByAllWhoWatch) {
  ChildProcess child("listen", {});
  const ProcessToken token = token_of(child.read_line());
  Watch first(token);
  Watch second(token);
  child.write_line("exec");
  first.wait();
  second.wait();
  // The process lives on, with another program.
  child.write_line("echoed");
  EXPECT_EQ(child.read_line(), "echoed");
}

TEST(LifelinesTest, EndIsNoticed) {
  ChildProcess child("listen", {});
  Watch watch(token_of(child.read_line()));
  child.kill();
  watch.wait();
}

TEST(LifelinesTest, ProcessThatWasGoneBeforeIsNoticed) {
  ChildProcess child("listen", {});
  const ProcessToken token = token_of(child.read_line());
  child.kill();
  child.wait();
  Watch watch(token);
  watch.wait();
}

// After the first connection is dropped, a second connection still detects the end.
TEST(LifelinesTest, ProcessCanBeWatchedAnew) {
  ChildProcess child("listen", {});
  const ProcessToken token = token_of(child.read_line());
  Watch first(token);
  Watch second(token);
  first.unwatch();
  second.unwatch();
  Watch third(token);
  child.write_line("exec");
  third.wait();
}

}  // namespace

const std::map<std::string, Worker>& workers() {
  static const std::map<std::string, Worker> all = {{"listen", listening_worker}};
  return all;
}

}  // namespace keel::testing
