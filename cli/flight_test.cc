// Who is behind, of what flight recorders wrote down; and the command on a real job's files.
#include "cli/flight.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <nlohmann/json.hpp>

namespace keel::cli {
namespace {

Json operation(uint64_t sequence, const char* state, const char* name = "all_reduce") {
  return {{"sequence", sequence}, {"operation", name}, {"state", state}};
}

Json rank(uint32_t number, std::vector<Json> operations, bool alive = true) {
  return {{"rank", number}, {"alive", alive}, {"operations", operations}};
}

std::string findings(uint32_t world, std::vector<Json> ranks) {
  return flight_findings({{"name", "x"}, {"world", world}, {"ranks", ranks}});
}

TEST(FlightFindings, NothingToSay) {
  const std::vector<Json> same = {operation(1, "done"), operation(2, "running")};
  EXPECT_EQ(findings(2, {rank(0, same), rank(1, same)}), "");
  EXPECT_EQ(findings(2, {rank(0, {}), rank(1, {})}), "");
  EXPECT_EQ(findings(8, {rank(5, same)}), "") << "one file is not about the others";
}

TEST(FlightFindings, TheOneBehindIsNamed) {
  EXPECT_EQ(findings(3, {rank(0, {operation(121, "running"), operation(122, "queued")}),
                         rank(1, {operation(120, "done"), operation(123, "queued")}),
                         rank(2, {operation(118, "running"), operation(119, "queued")})}),
            "rank 2 is at all_reduce #118, the others are at #121 or later\n");
  EXPECT_EQ(findings(2, {rank(0, {operation(7, "running")}), rank(1, {operation(4, "queued")})}),
            "rank 1 is at all_reduce #4, the other is at #7\n");
}

TEST(FlightFindings, WhoHasCalledNothingMore) {
  EXPECT_EQ(findings(3, {rank(0, {operation(117, "done"), operation(118, "running")}),
                         rank(1, {operation(117, "failed", "broadcast")}),
                         rank(2, {operation(118, "running")})}),
            "rank 1 has called nothing after broadcast #117, the others are at #118 or later\n");
  EXPECT_EQ(findings(3, {rank(0, {}), rank(1, {}), rank(2, {operation(0, "running")})}),
            "ranks 0, 1 have called nothing yet, the other is at #0\n");
}

TEST(FlightFindings, WhoHasNotBegunWhatTheOthersHave) {
  EXPECT_EQ(findings(2, {rank(0, {operation(5, "queued")}), rank(1, {operation(5, "running")})}),
            "rank 0 has not begun all_reduce #5, the others have\n");
}

TEST(FlightFindings, TheEndedAndTheMissing) {
  const std::vector<Json> same = {operation(2, "running")};
  EXPECT_EQ(findings(4, {rank(0, same), rank(3, same, /*alive=*/false)}),
            "the process of rank 3 has ended\n"
            "no file of ranks 1, 2: on another host, or ended in good order\n");
  EXPECT_EQ(findings(100, {rank(0, same), rank(1, same)}),
            "no file of ranks 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17 and 82 more: "
            "on another host, or ended in good order\n");
}

}  // namespace
}  // namespace keel::cli
