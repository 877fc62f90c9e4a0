// SPDX-License-Identifier: Apache-2.0
// Communicators with a rank that cannot be made: each plugin slot used on the way fails on the
// first and on the last rank, and every rank learns at once which rank failed and why.
#include <dlfcn.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "collectives/hierarchical/testing/sim_refusing.h"
#include "core/testing/keel_test.h"

namespace keel::testing {
namespace {

constexpr uint32_t kRanks = 3;

// Result of one rank's call.
struct Told {
  keel_status status = KEEL_OK;
  std::string text;
};

class FormingTest : public KeelTest {
 protected:
  void SetUp() override {
    KeelTest::SetUp();
    devices_ = load("sim_refusing", {{"devices", std::to_string(kRanks)}});
    ASSERT_EQ(devices_.size(), kRanks);
    void* const library = dlopen(plugin_path("sim_refusing").c_str(), RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(library, nullptr);
    refuse_ = reinterpret_cast<keel_sim_refuse_fn>(dlsym(library, "keel_sim_refuse"));
    ASSERT_NE(refuse_, nullptr);
    refuse_(nullptr, 0, KEEL_OK);
  }
  void TearDown() override {
    for (const keel_comm comm : comms_) keel_comm_destroy(comm);
    refuse_(nullptr, 0, KEEL_OK);
    KeelTest::TearDown();
  }

  // Only a hang reaches the deadline: a rank that reports the deadline did not learn of the failure
  // at once.
  static keel_comm_options options(bool forbids_native = false) {
    auto made = KEEL_STRUCT_INIT(keel_comm_options, KEEL_STRUCT_COMM_OPTIONS);
    made.timeout_ns = kTestTimeout;
    made.forbid_native = forbids_native ? 1 : 0;
    return made;
  }

  // Runs |call| in one thread per rank and returns each rank's result.
  std::vector<Told> on_all(const std::function<keel_status(uint32_t rank)>& call) const {
    std::vector<Told> told(devices_.size());
    std::vector<std::jthread> threads;
    for (uint32_t rank = 0; rank < devices_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        told[rank].status = call(rank);
        if (told[rank].status != KEEL_OK) told[rank].text = keel_last_error();
      });
    }
    threads.clear();
    return told;
  }
  std::vector<Told> join(bool forbids_native = false) {
    keel_unique_id id = {};
    EXPECT_KEEL_OK(keel_unique_id_create(&id));
    std::vector<keel_comm> comms(devices_.size());
    const keel_comm_options given = options(forbids_native);
    std::vector<Told> told = on_all([&](uint32_t rank) {
      return keel_comm_init_rank(devices_[rank], &id, rank, static_cast<uint32_t>(devices_.size()),
                                 &given, &comms[rank]);
    });
    if (told[0].status == KEEL_OK) comms_ = comms;
    return told;
  }
  // Splits with the ranks in reverse order.
  std::vector<Told> split() {
    const keel_comm_options given = options();
    return on_all([&](uint32_t rank) {
      keel_comm part = {};
      const keel_status status =
          keel_comm_split(comms_[rank], 0, -static_cast<int32_t>(rank), &given, &part);
      if (status == KEEL_OK) keel_comm_destroy(part);
      return status;
    });
  }

  // |slot| refused |failing|, which returns its own code; every rank's text names |failing|.
  static void expect_told(const std::vector<Told>& told, uint32_t failing, const std::string& slot,
                          const std::string& name) {
    for (uint32_t rank = 0; rank < told.size(); ++rank) {
      SCOPED_TRACE("rank " + std::to_string(rank));
      EXPECT_EQ(told[rank].status, rank == failing ? KEEL_OUT_OF_MEMORY : KEEL_RANK_FAILED)
          << told[rank].text;
      EXPECT_NE(told[rank].text.find(name), std::string::npos) << told[rank].text;
      EXPECT_NE(told[rank].text.find(slot + " is refused by the test"), std::string::npos)
          << told[rank].text;
    }
  }
  static std::string name_of(uint32_t rank, uint32_t device) {
    return "rank " + std::to_string(rank) + " (sim:" + std::to_string(device) + ") could not";
  }

  std::vector<keel_device> devices_;
  std::vector<keel_comm> comms_;
  keel_sim_refuse_fn refuse_ = nullptr;
};

struct Refusal {
  const char* slot;
  uint32_t failing;
};
std::ostream& operator<<(std::ostream& out, const Refusal& refusal) {
  return out << refusal.slot << " of rank " << refusal.failing;
}

constexpr Refusal kOfMaking[] = {{"stream.create", 0},
                                 {"stream.create", 2},
                                 {"ccl.unique_id", 0},
                                 {"ccl.init_rank", 0},
                                 {"ccl.init_rank", 2}};
constexpr Refusal kOfParting[] = {
    {"stream.create", 0}, {"stream.create", 2}, {"ccl.split", 0}, {"ccl.split", 2}};
constexpr Refusal kOfParts[] = {{"stream.create", 0},
                                {"stream.create", 2},
                                {"ccl.unique_id", 2},
                                {"ccl.init_rank", 0},
                                {"ccl.init_rank", 2}};

class FormingRanksTest : public FormingTest, public ::testing::WithParamInterface<Refusal> {};
class FormingPartsTest : public FormingTest, public ::testing::WithParamInterface<Refusal> {};
class PartingTest : public FormingTest, public ::testing::WithParamInterface<Refusal> {};
INSTANTIATE_TEST_SUITE_P(Slots, FormingRanksTest, ::testing::ValuesIn(kOfMaking));
INSTANTIATE_TEST_SUITE_P(Slots, FormingPartsTest, ::testing::ValuesIn(kOfParts));
INSTANTIATE_TEST_SUITE_P(Slots, PartingTest, ::testing::ValuesIn(kOfParting));

TEST_P(FormingRanksTest, AllRanksAreToldWhichAndWhy) {
  const auto [slot, failing] = GetParam();
  refuse_(slot, failing, KEEL_OUT_OF_MEMORY);
  expect_told(join(), failing, slot, name_of(failing, failing));
}

TEST_P(FormingRanksTest, OneCallForAllRanksTellsWhichAndWhy) {
  const auto [slot, failing] = GetParam();
  refuse_(slot, failing, KEEL_OUT_OF_MEMORY);
  const keel_comm_options given = options();
  keel_comm comms[kRanks];
  EXPECT_FAILS(KEEL_OUT_OF_MEMORY, name_of(failing, failing),
               keel_comm_init_all(devices_.data(), kRanks, &given, comms));
  EXPECT_FAILS(KEEL_OUT_OF_MEMORY, std::string(slot) + " is refused by the test",
               keel_comm_init_all(devices_.data(), kRanks, &given, comms));
}

// A lane connects the native group with a rank that is alone.
TEST_P(FormingRanksTest, RanksOutsideTheGroupAreToldToo) {
  const auto [slot, failing] = GetParam();
  devices_.push_back(load("cpu")[0]);
  refuse_(slot, failing, KEEL_OUT_OF_MEMORY);
  expect_told(join(), failing, slot, name_of(failing, failing));
}

// The library splits the group; the ranks keep their names.
TEST_P(PartingTest, AllRanksAreToldWhichAndWhy) {
  const auto [slot, failing] = GetParam();
  ASSERT_EQ(join()[0].text, "");
  refuse_(slot, failing, KEEL_OUT_OF_MEMORY);
  expect_told(split(), failing, slot, name_of(failing, failing));
}

// A part that forms its own group: its first rank was the last rank before.
TEST_P(FormingPartsTest, RanksOfAPartAreNamedByNumbersThatAreExplained) {
  const auto [slot, failing] = GetParam();
  ASSERT_EQ(join(/*forbids_native=*/true)[0].text, "");
  refuse_(slot, failing, KEEL_OUT_OF_MEMORY);
  const std::vector<Told> told = split();
  expect_told(told, failing, slot, name_of(kRanks - 1 - failing, failing));
  for (const Told& each : told) {
    EXPECT_NE(each.text.find("whose ranks from 0 on are 2, 1, 0 of the one split"),
              std::string::npos)
        << each.text;
  }
}

TEST_F(FormingTest, ARankWhoseLibraryCannotBeAskedIsNamed) {
  for (const uint32_t question : {0u, kRanks - 1}) {
    refuse_(nullptr, 0, KEEL_OK);
    refuse_("ccl.info", question, KEEL_OUT_OF_MEMORY);
    const std::vector<Told> told = join();
    uint32_t failing = kRanks;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      if (told[rank].status == KEEL_OUT_OF_MEMORY) failing = rank;
    }
    ASSERT_NE(failing, kRanks);
    expect_told(told, failing, "ccl.info", name_of(failing, failing));
  }
}

// A library that notices another rank's end may return first.
TEST_F(FormingTest, ARankThatOnlyHeardOfTheFailureIsNotAccused) {
  refuse_("ccl.init_rank", 0, KEEL_RANK_FAILED);
  refuse_("ccl.init_rank", 2, KEEL_OUT_OF_MEMORY);
  const std::vector<Told> told = join();
  for (const Told& each : told) {
    EXPECT_NE(each.text.find(name_of(2, 2)), std::string::npos) << each.text;
    EXPECT_EQ(each.text.find("rank 0 ("), std::string::npos) << each.text;
  }
}

// From ccl.split, KEEL_UNSUPPORTED means a library without splits.
TEST_F(FormingTest, AStreamThatIsUnsupportedIsNotTakenForALibraryWithoutSplits) {
  ASSERT_EQ(join()[0].text, "");
  refuse_("stream.create", 1, KEEL_UNSUPPORTED);
  for (const Told& each : split()) {
    EXPECT_NE(each.text.find(name_of(1, 1)), std::string::npos) << each.text;
  }
}

// A failure leaves the devices and their library usable.
TEST_F(FormingTest, RanksCanBeMadeAfterAFailure) {
  refuse_("ccl.init_rank", 1, KEEL_OUT_OF_MEMORY);
  EXPECT_NE(join()[0].status, KEEL_OK);
  refuse_(nullptr, 0, KEEL_OK);
  for (const Told& each : join()) EXPECT_EQ(each.text, "");
}

}  // namespace
}  // namespace keel::testing
