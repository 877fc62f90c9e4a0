// SPDX-License-Identifier: Apache-2.0
// A worker on a host unlike the others: odd_host.cc defines sysconf() and the functions of the wall
// clock.
#ifndef KEEL_COLLECTIVES_TESTING_ODD_HOST_H_
#define KEEL_COLLECTIVES_TESTING_ODD_HOST_H_

namespace keel::testing {

// A process with this variable is told that a page has 64 KiB. The kernel's own pages stay.
inline constexpr const char* kLargePages = "KEEL_TEST_LARGE_PAGES";
inline constexpr long kLargePage = 65536;
// A process with this variable sees a wall clock that someone sets all the time: each second
// reading is an hour fast, the others are an hour slow.
inline constexpr const char* kJumpingClock = "KEEL_TEST_JUMPING_CLOCK";

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_ODD_HOST_H_
