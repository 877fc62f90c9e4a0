// SPDX-License-Identifier: Apache-2.0
// The fixture of the emulated chip's tests.
#ifndef KEEL_EMULATOR_TESTING_EMULATOR_TEST_H_
#define KEEL_EMULATOR_TESTING_EMULATOR_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "emulator/completion.h"
#include "emulator/device.h"
#include "emulator/event.h"
#include "emulator/stream.h"

namespace keel::emulator {

// A deadline long enough for any loaded machine; only a hang reaches it.
inline Time test_timeout() {
  return Clock::now() + std::chrono::seconds(60);
}

inline void expect_ok(const Status& status) {
  EXPECT_TRUE(status.ok()) << static_cast<int>(status.code()) << " " << status.text();
}
inline void expect_fails(Code code, const std::string& text, const Status& status) {
  EXPECT_EQ(status.code(), code) << status.text();
  EXPECT_NE(status.text().find(text), std::string::npos)
      << "no '" << text << "' in '" << status.text() << "'";
}

class EmulatorTest : public ::testing::Test {
 protected:
  static std::shared_ptr<Device> make_device(const DeviceOptions& options = {}) {
    std::shared_ptr<Device> device;
    expect_ok(Device::create(options, &device));
    return device;
  }
  // |faults| in the syntax of the settings.
  static std::shared_ptr<Device> make_faulty(const std::string& faults, uint32_t index = 0) {
    DeviceOptions options;
    options.index = index;
    expect_ok(parse_faults(faults, &options.faults));
    return make_device(options);
  }
  static std::unique_ptr<Stream> make_stream(const std::shared_ptr<Device>& device,
                                             int priority = 0) {
    std::unique_ptr<Stream> stream;
    expect_ok(Stream::create(device, priority, &stream));
    return stream;
  }
  static Address alloc(Device& device, uint64_t bytes) {
    Address address = 0;
    expect_ok(device.allocate(bytes, &address));
    return address;
  }
  static void write(Stream& stream, Address address, const std::vector<uint32_t>& words) {
    expect_ok(stream.copy_from_host(address, words.data(), words.size() * 4));
  }
  static std::vector<uint32_t> read(Stream& stream, Address address, size_t words) {
    std::vector<uint32_t> values(words);
    expect_ok(stream.copy_to_host(values.data(), address, words * 4));
    expect_ok(stream.synchronize(test_timeout()));
    return values;
  }
  static Status fill(Stream& stream, Address address, uint32_t word, size_t words) {
    return stream.fill(address, &word, sizeof(word), words * 4);
  }
  static std::shared_ptr<Completion> close_gate(Stream& stream) {
    auto gate = std::make_shared<Completion>();
    expect_ok(stream.wait(gate));
    return gate;
  }
  static void open(Completion& gate) { gate.complete_and_notify({}, Clock::now()); }
};

}  // namespace keel::emulator

#endif  // KEEL_EMULATOR_TESTING_EMULATOR_TEST_H_
