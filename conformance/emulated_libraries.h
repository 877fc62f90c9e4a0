// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_
#define KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_

#include <filesystem>
#include <string>
#include <string_view>

namespace keel::conformance {

// Returns the folder keel beside libkeel; empty if it is not known.
std::filesystem::path keel_folder();

// Makes plugins load the emulated chip's vendor libraries, installed in keel/emulated beside
// libkeel, a folder per plugin: sets KEEL_<PLUGIN>_LIBRARY_FOLDER for this process and its
// children. Call it before Keel is initialized and before other threads start. Returns false, with
// a sentence in |error|, if the libraries are not installed.
bool use_emulated_libraries(std::string* error);
// Returns whether KEEL_<PLUGIN>_LIBRARY_FOLDER, set by this process or by a user, directs |plugin|
// to the emulated libraries.
bool uses_emulated_libraries(const std::string& plugin);

// Prefix of the message of a passed case if the emulator replaces the kernel's library with the
// reference implementation. The pass shows only that the plugin calls the library correctly.
inline constexpr std::string_view kMarshalling = "marshalling: ";
// Returns this message for |kernel|; empty if the kernel itself ran.
std::string marshalling_of(std::string_view kernel);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_
