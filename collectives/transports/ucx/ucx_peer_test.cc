// SPDX-License-Identifier: Apache-2.0
#include "collectives/transports/ucx/ucx_peer.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/ipc/socket.h"
#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/transports/wire_choice.h"

#if __has_include(<ucp/api/ucp.h>)
#include <ucp/api/ucp.h>
#endif

namespace keel {
namespace {

// ---- the declarations -----------------------------------------------------------

#if __has_include(<ucp/api/ucp.h>)
static_assert(sizeof(ucp_params_t) >= sizeof(ucx::Params));
static_assert(offsetof(ucp_params_t, estimated_num_eps) ==
              offsetof(ucx::Params, estimated_num_eps));
static_assert(offsetof(ucp_worker_params_t, thread_mode) ==
              offsetof(ucx::WorkerParams, thread_mode));
static_assert(offsetof(ucp_ep_params_t, err_handler) == offsetof(ucx::EndpointParams, err_handler));
static_assert(offsetof(ucp_request_param_t, cb) == offsetof(ucx::RequestParam, callback));
static_assert(offsetof(ucp_request_param_t, user_data) == offsetof(ucx::RequestParam, user_data));
static_assert(offsetof(ucp_request_param_t, memory_type) ==
              offsetof(ucx::RequestParam, memory_type));
static_assert(offsetof(ucp_am_handler_param_t, arg) == offsetof(ucx::HandlerParam, argument));
static_assert(sizeof(ucs_status_t) == sizeof(ucx::Result));
static_assert(ucp_dt_make_contig(1) == ucx::kBytes && UCP_DATATYPE_IOV == ucx::kPieces);
#endif

// ---- the library ----------------------------------------------------------------

TEST(UcxLibraryTest, MissingLibraryIsNamed) {
  UcxLibrary library;
  const Status missing = UcxLibrary::open("libnone-of-that-name.so.0", "libm.so.6", &library);
  EXPECT_EQ(missing.code(), KEEL_UNAVAILABLE);
  EXPECT_NE(std::string(missing.text()).find("libnone-of-that-name.so.0"), std::string::npos);
}

TEST(UcxLibraryTest, MissingFunctionIsNamed) {
  UcxLibrary library;
  const Status other = UcxLibrary::open("libm.so.6", "libm.so.6", &library);
  EXPECT_EQ(other.code(), KEEL_UNAVAILABLE);
  EXPECT_NE(std::string(other.text()).find("libm.so.6 has no function ucp_get_version"),
            std::string::npos)
      << other.text();
}

struct sigaction action_of(int number) {
  struct sigaction action = {};
  sigaction(number, nullptr, &action);
  return action;
}
const struct sigaction kFirstHangup = action_of(SIGHUP);
const struct sigaction kFirstFault = action_of(SIGSEGV);

TEST(UcxLibraryTest, SignalHandlersOfTheProgramStay) {
  const UcxLibrary* library = nullptr;
  const Status opened = UcxLibrary::get(&library);
  if (!opened.ok()) GTEST_SKIP() << opened.text();
  EXPECT_EQ(action_of(SIGHUP).sa_handler, kFirstHangup.sa_handler);
  EXPECT_EQ(action_of(SIGSEGV).sa_handler, kFirstFault.sa_handler);
}

TEST(WireChoiceTest, SettingChoosesTheWire) {
  std::string wire;
  unsetenv("KEEL_WIRE");
  ASSERT_TRUE(chosen_wire(&wire).ok());
  EXPECT_EQ(wire, "tcp");
  setenv("KEEL_WIRE", "carrier-pigeon", 1);
  const Status unknown = chosen_wire(&wire);
  EXPECT_EQ(unknown.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(unknown.text()).find("carrier-pigeon"), std::string::npos);
  setenv("KEEL_WIRE", "ucx", 1);
  const Status ucx = chosen_wire(&wire);
  if (ucx.ok()) {
    EXPECT_TRUE(is_ucx(wire)) << wire;
  } else {
    EXPECT_EQ(ucx.code(), KEEL_UNAVAILABLE);
    EXPECT_NE(std::string(ucx.text()).find("KEEL_WIRE=ucx"), std::string::npos) << ucx.text();
  }
  unsetenv("KEEL_WIRE");
}

TEST(HostTableTest, RankWithAnotherWireIsNamed) {
  HostTable table;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    table.ranks.emplace_back();
    table.ranks.back().peer.rank = rank;
  }
  EXPECT_TRUE(table.check_wires().ok());
  table.ranks[2].wire = "ucx 1.13";
  const Status differs = table.check_wires();
  EXPECT_EQ(differs.code(), KEEL_INVALID_ARGUMENT);
  EXPECT_NE(std::string(differs.text()).find("rank 2"), std::string::npos) << differs.text();
  EXPECT_NE(std::string(differs.text()).find("'ucx 1.13'"), std::string::npos) << differs.text();
}

// ---- the connection beside the endpoint -----------------------------------------

struct Pair {
  Pair() { EXPECT_EQ(sockets::open_pair(SOCK_STREAM | SOCK_NONBLOCK, &first, &second), 0); }
  FileDescriptor first;
  FileDescriptor second;
};

TEST(UcxControlTest, GreetingAndFarewellArriveInParts) {
  Pair pair;
  UcxControl control;
  control.attach(std::move(pair.first));
  UcxGreeting greeting;
  greeting.key.fill(7);
  greeting.address = {1, 2, 3};
  UcxFarewell farewell;
  farewell.sent = {1, 0, UINT64_MAX, 4};
  Bytes bytes = write_ucx_greeting(greeting);
  for (const Bytes& next : {write_ucx_probe(), write_ucx_connected(), write_ucx_probe(),
                            write_ucx_probe(), write_ucx_farewell(farewell)}) {
    bytes.insert(bytes.end(), next.begin(), next.end());
  }
  for (const uint8_t byte : bytes) {
    EXPECT_FALSE(control.farewell);
    ASSERT_TRUE(sockets::send_all(pair.second.get(), &byte, 1));
    ASSERT_TRUE(control.move().ok());
  }
  ASSERT_TRUE(control.greeting && control.is_connected && control.farewell);
  EXPECT_EQ(*control.greeting, greeting);
  EXPECT_EQ(*control.farewell, farewell);
  EXPECT_TRUE(control.end().ok());
  pair.second = FileDescriptor();
  ASSERT_TRUE(control.move().ok());
  EXPECT_EQ(control.end().code(), KEEL_RANK_FAILED);
}

TEST(UcxControlTest, MalformedMessagesAreRefused) {
  const Bytes good = write_ucx_greeting({{}, {1, 2, 3}});
  std::vector<Bytes> bad(6, good);
  bad[0][0] ^= 1;                                         // magic number
  bad[1][4] = 9;                                          // kind
  bad[2][10] = 0xff;                                      // more bytes than an address may have
  bad[3].insert(bad[3].end(), good.begin(), good.end());  // twice
  bad[4] = write_ucx_connected();                         // before the greeting
  bad[5] = write_ucx_probe();                             // likewise
  for (const Bytes& bytes : bad) {
    Pair pair;
    UcxControl control;
    control.attach(std::move(pair.first));
    ASSERT_TRUE(sockets::send_all(pair.second.get(), bytes.data(), bytes.size()));
    EXPECT_EQ(control.move().code(), KEEL_DATA_LOSS);
  }
}

// ---- strangers ------------------------------------------------------------------

struct Receiver {
  UcxShared shared;
  std::unique_ptr<UcxPeer> peer;
  uint64_t messages = 0;
  static ucx::Result on_message(void* self, const void* header, size_t size, void* data, size_t,
                                const ucx::ReceiveParam* param) {
    auto& receiver = *static_cast<Receiver*>(self);
    ++receiver.messages;
    UcxHeader found;
    EXPECT_EQ(size, sizeof(found));
    std::memcpy(&found, header, sizeof(found));
    return receiver.peer->take_message(found, data,
                                       (param->recv_attr & ucx::ReceiveParam::kRendezvous) != 0);
  }
};

// A process that reaches the port of UCX, and was told no key, delivers nothing.
TEST(UcxPeerTest, MessagesWithoutTheKeyAreDropped) {
  setenv("UCX_TLS", "tcp", 0);
  const UcxLibrary* library = nullptr;
  const Status found = UcxLibrary::get(&library);
  if (!found.ok()) GTEST_SKIP() << found.text();
  Receiver receiver;
  receiver.shared.epoch = 3;
  const Status opened = receiver.shared.worker.open(*library, /*is_loopback=*/true, 2,
                                                    &Receiver::on_message, &receiver);
  ASSERT_TRUE(opened.ok()) << opened.text();
  receiver.peer = std::make_unique<UcxPeer>(1, receiver.shared);
  Pair pair;
  ASSERT_TRUE(receiver.peer->attach(std::move(pair.first)).ok());
  UcxControl control;
  control.attach(std::move(pair.second));
  ASSERT_TRUE(control.move().ok());
  ASSERT_TRUE(control.greeting);

  UcxWorker stranger;
  const auto drop = [](void*, const void*, size_t, void*, size_t, const ucx::ReceiveParam*) {
    return ucx::Result::kOk;
  };
  ASSERT_TRUE(stranger.open(*library, /*is_loopback=*/true, 2, drop, nullptr).ok());
  ucx::Endpoint* endpoint = nullptr;
  const auto on_error = [](void*, ucx::Endpoint*, ucx::Result) {};
  ASSERT_TRUE(stranger.connect(control.greeting->address, on_error, nullptr, &endpoint).ok());
  uint32_t got = 0;
  WireRequest request;
  request.set_memory(&got, sizeof(got));
  receiver.peer->post_receive(0, request);
  const Deadline deadline = Deadline::after(60'000'000'000);
  for (uint32_t turn = 0; turn < 3; ++turn) {
    UcxHeader header;
    header.key = control.greeting->key;
    if (turn != 2) header.key[turn * 15] ^= 1;
    header.epoch = 3;
    header.bytes = sizeof(turn);
    ucx::RequestParam param = {};
    param.op_attr_mask = ucx::RequestParam::kFlags;
    param.flags = ucx::kSendEager;
    const ucx::Pending pending = library->functions().am_send_nbx(
        endpoint, UcxWorker::kMessageId, &header, sizeof(header), &turn, sizeof(turn), &param);
    ASSERT_FALSE(ucx::is_error(pending));
    while ((receiver.messages == turn || stranger.is_pending(pending)) && !deadline.passed()) {
      stranger.progress();
      receiver.shared.worker.progress();
    }
    stranger.free(pending);
    EXPECT_EQ(request.is_done(), turn == 2) << turn;
  }
  EXPECT_EQ(got, 2u);
  EXPECT_TRUE(request.is_done() && request.status().ok());
  const ucx::Pending closing = stranger.disconnect(endpoint, /*is_forced=*/true);
  while (stranger.is_pending(closing) && !deadline.passed()) stranger.progress();
  stranger.free(closing);
}

}  // namespace
}  // namespace keel
