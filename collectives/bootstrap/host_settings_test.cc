// SPDX-License-Identifier: Apache-2.0
// Ids, addresses, secrets and launchers' variables of a rendezvous between hosts.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "collectives/bootstrap/host_bootstrap.h"
#include "collectives/bootstrap/host_secret.h"
#include "collectives/bootstrap/tcp_id.h"
#include "collectives/bootstrap/tcp_socket.h"
#include "collectives/bootstrap/testing/variable.h"

namespace keel {
namespace {

using keel::testing::Variable;

// Longer than a name may be, so that no name server is asked.
const std::string kNoHost(70, 'x');

keel_unique_id id_of(const std::string& text) {
  keel_unique_id id = {};
  text.copy(id.text, sizeof(id.text) - 1);
  return id;
}

TEST(TcpIdTest, AddressesOfBothFamiliesFit) {
  for (const char* host :
       {"127.0.0.1", "255.255.255.255", "::1", "fe80:1111:2222:3333:4444:5555:6666:7777"}) {
    TcpId id;
    id.host = host;
    id.port = 65535;
    id.job.bytes.fill(0xab);
    EXPECT_TRUE(is_host_id(id.id())) << id.id().text;
    TcpId again;
    ASSERT_TRUE(TcpId::parse(id.id(), &again).ok());
    EXPECT_EQ(again.host, id.host);
    EXPECT_EQ(again.port, id.port);
    EXPECT_EQ(again.job, id.job);
  }
}

TEST(TcpIdTest, MalformedIdsAreRefusedByName) {
  const std::string job(32, 'a');
  for (const std::string& text :
       {std::string("keel-1:tcp:"), "keel-1:tcp:127.0.0.1:1:" + job + "a",
        "keel-1:tcp:127.0.0.1:0:" + job, "keel-1:tcp:127.0.0.1:65536:" + job,
        "keel-1:tcp:::1:1:" + job, "keel-1:tcp:host:1:" + job, "keel-1:unix:" + job,
        "keel-1:tcp:127.0.0.1:1:" + std::string(32, 'A')}) {
    TcpId id;
    const Status status = TcpId::parse(id_of(text), &id);
    EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT) << text;
    EXPECT_NE(std::string(status.text()).find(text), std::string::npos);
  }
  keel_unique_id endless;
  std::memset(endless.text, 'a', sizeof(endless.text));
  EXPECT_FALSE(is_host_id(endless));
}

TEST(TcpSocketTest, NameThatDoesNotResolveIsNamed) {
  std::vector<SocketAddress> found;
  const Status status = resolve(kNoHost, 1, &found);
  EXPECT_EQ(status.code(), KEEL_NOT_FOUND);
  EXPECT_NE(std::string(status.text()).find(kNoHost), std::string::npos);
}

TEST(TcpSocketTest, PortsOutsideOfTheRangeAreNotTaken) {
  SocketAddress any;
  SocketAddress bound;
  FileDescriptor first;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &any));
  ASSERT_TRUE(listen_tcp(any, &first, &bound).ok());
  const uint16_t port = bound.port();
  const Variable range("KEEL_PORTS", fmt::format("{}-{}", port, port));
  FileDescriptor second;
  EXPECT_EQ(listen_tcp(any, &second, &bound).code(), KEEL_ALREADY_EXISTS);
  first = {};
  const Status status = listen_tcp(any, &second, &bound);
  if (status.ok()) {  // else another process was faster
    EXPECT_EQ(bound.port(), port);
  } else {
    EXPECT_EQ(status.code(), KEEL_ALREADY_EXISTS);
  }
}

TEST(TcpSocketTest, MalformedRangeOfPortsIsNamed) {
  SocketAddress any;
  SocketAddress bound;
  FileDescriptor socket;
  ASSERT_TRUE(SocketAddress::parse("127.0.0.1:0", &any));
  for (const char* bad : {"4711", "0-10", "20-10", "1-65536", "a-b", "1-", "-1"}) {
    const Variable range("KEEL_PORTS", bad);
    const Status status = listen_tcp(any, &socket, &bound);
    EXPECT_EQ(status.code(), KEEL_INVALID_ARGUMENT) << bad;
    EXPECT_NE(std::string(status.text()).find(bad), std::string::npos) << status.text();
  }
}

TEST(TcpSocketTest, InterfaceWithoutAnAddressIsNamed) {
  SocketAddress address;
  ASSERT_TRUE(interface_address("lo", &address).ok());
  EXPECT_EQ(address.host(), "127.0.0.1");
  const Status status = interface_address("keel-none0", &address);
  EXPECT_EQ(status.code(), KEEL_NOT_FOUND);
  EXPECT_NE(std::string(status.text()).find("keel-none0"), std::string::npos) << status.text();
}

class HostSecretTest : public ::testing::Test {
 protected:
  HostSecretTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "keel-secret-XXXXXX";
    folder_ = mkdtemp(pattern.data());
  }
  ~HostSecretTest() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& text, mode_t mode) {
    const std::string path = folder_ / "secret";
    std::filesystem::remove(path);
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
    return path;
  }
  std::filesystem::path folder_;
};

TEST_F(HostSecretTest, FileOfThisUserAloneIsRead) {
  const Variable set("KEEL_SECRET_FILE", file("0123456789abcdef\n", 0600));
  HostSecret secret;
  ASSERT_TRUE(HostSecret::load(&secret).ok());
  EXPECT_TRUE(secret.is_given());
}

TEST_F(HostSecretTest, ReadableFileIsRefusedWithoutShowingTheSecret) {
  const Variable set("KEEL_SECRET_FILE", file("0123456789abcdef", 0640));
  HostSecret secret;
  const Status status = HostSecret::load(&secret);
  EXPECT_EQ(status.code(), KEEL_PERMISSION_DENIED);
  EXPECT_NE(std::string(status.text()).find("600"), std::string::npos);
  EXPECT_EQ(std::string(status.text()).find("0123456789abcdef"), std::string::npos);
}

TEST_F(HostSecretTest, ShortAbsentAndOverlongSecretsAreRefused) {
  HostSecret secret;
  {
    const Variable set("KEEL_SECRET_FILE", file("too short", 0600));
    EXPECT_EQ(HostSecret::load(&secret).code(), KEEL_INVALID_ARGUMENT);
  }
  {
    const Variable set("KEEL_SECRET_FILE", file(std::string(5000, 's'), 0600));
    EXPECT_EQ(HostSecret::load(&secret).code(), KEEL_INVALID_ARGUMENT);
  }
  {
    const Variable set("KEEL_SECRET_FILE", folder_ / "absent");
    EXPECT_FALSE(HostSecret::load(&secret).ok());
  }
  {
    const Variable set("KEEL_SECRET_FD", "1x");
    EXPECT_EQ(HostSecret::load(&secret).code(), KEEL_INVALID_ARGUMENT);
  }
}

TEST_F(HostSecretTest, InheritedDescriptorIsReadAgainAndAgain) {
  const FileDescriptor memory(memfd_create("keel-secret", MFD_CLOEXEC));
  ASSERT_EQ(write(memory.get(), "0123456789abcdef", 16), 16);
  const Variable set("KEEL_SECRET_FD", std::to_string(memory.get()));
  for (int i = 0; i < 2; ++i) {
    HostSecret secret;
    const Status status = HostSecret::load(&secret);
    EXPECT_TRUE(status.ok()) << status.text();
    EXPECT_TRUE(secret.is_given());
  }
}

// Variables of a launcher, without those of the test's own.
Status server_of(const char* launcher, uint32_t world, uint32_t local_world,
                 const std::map<std::string, std::string>& variables, HostServerAddress* out) {
  keel_launch_info info = {};
  std::string_view(launcher).copy(info.launcher, sizeof(info.launcher) - 1);
  info.world = world;
  info.local_world = local_world;
  return read_host_server(
      [&](const char* name) -> const char* {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      info, out);
}

TEST(HostLauncherTest, JobOfOneHostNeedsNoServer) {
  HostServerAddress address;
  EXPECT_EQ(
      server_of("torchrun", 4, 4, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}}, &address).code(),
      KEEL_NOT_FOUND);
}

TEST(HostLauncherTest, GivenServerWinsOverTheLaunchers) {
  HostServerAddress address;
  const std::map<std::string, std::string> variables = {
      {"KEEL_SERVER", "[::1]:4711"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "1"}};
  ASSERT_TRUE(server_of("torchrun", 4, 4, variables, &address).ok());
  EXPECT_EQ(address.host, "::1");
  EXPECT_EQ(address.ports, std::vector<uint16_t>{4711});
  for (const char* bad : {"host", "host:", ":1", "host:0", "host:65536", "host:1x"}) {
    EXPECT_EQ(server_of("torchrun", 4, 4, {{"KEEL_SERVER", bad}}, &address).code(),
              KEEL_INVALID_ARGUMENT)
        << bad;
  }
}

TEST(HostLauncherTest, TorchrunsPortIsLeftToTorchrun) {
  HostServerAddress address;
  ASSERT_TRUE(
      server_of("torchrun", 4, 2, {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}}, &address)
          .ok());
  EXPECT_EQ(address.host, "node1");
  EXPECT_EQ(address.ports.front(), 29501);
  EXPECT_EQ(
      server_of("torchrun", 4, 2, {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "x"}}, &address).code(),
      KEEL_INVALID_ARGUMENT);
}

TEST(HostLauncherTest, FirstNodeOfSlurmServes) {
  for (const auto& [list, node] : std::map<std::string, std::string>{{"node[01-04,7],x", "node01"},
                                                                     {"node[7,9]", "node7"},
                                                                     {"a,b", "a"},
                                                                     {"only", "only"},
                                                                     {"n[1-2]-ib,m", "n1-ib"},
                                                                     {"a,n[1-2]", "a"}}) {
    HostServerAddress address;
    const Status status = server_of(
        "Slurm", 4, 2,
        {{"SLURM_STEP_NODELIST", list}, {"SLURM_JOB_ID", "4000000"}, {"SLURM_STEP_ID", "3"}},
        &address);
    ASSERT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(address.host, node);
    EXPECT_GE(address.ports.front(), 20000);
    EXPECT_LT(address.ports.back(), 32768);
  }
}

TEST(HostLauncherTest, LauncherWithoutAnAddressIsToldOfKeelServer) {
  for (const char* launcher : {"Open MPI", "MPICH", "keel run"}) {
    HostServerAddress address;
    const Status status = server_of(launcher, 4, 2, {}, &address);
    EXPECT_EQ(status.code(), KEEL_FAILED_PRECONDITION);
    EXPECT_NE(std::string(status.text()).find("KEEL_SERVER"), std::string::npos);
    EXPECT_NE(std::string(status.text()).find(launcher), std::string::npos);
  }
}

}  // namespace
}  // namespace keel
