// SPDX-License-Identifier: Apache-2.0
// A control segment for tests of its parts.
#ifndef KEEL_COLLECTIVES_TESTING_TEST_SEGMENT_H_
#define KEEL_COLLECTIVES_TESTING_TEST_SEGMENT_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>

#include "collectives/transports/control_segment.h"

namespace keel::testing {

// Returns a new segment of |world| ranks.
inline std::unique_ptr<ControlSegment> make_segment(uint32_t world, bool oversubscribed = false) {
  FileDescriptor file;
  std::unique_ptr<ControlSegment> segment;
  EXPECT_TRUE(ControlSegment::create(world, oversubscribed, &file).ok());
  EXPECT_TRUE(ControlSegment::map(file, &segment).ok());
  return segment;
}

}  // namespace keel::testing

#endif  // KEEL_COLLECTIVES_TESTING_TEST_SEGMENT_H_
