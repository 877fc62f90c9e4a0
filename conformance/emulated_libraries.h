// SPDX-License-Identifier: Apache-2.0
#ifndef KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_
#define KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_

#include <string>
#include <string_view>

namespace keel::conformance {

// Has plugins look for their vendor's libraries among those over the emulated chip, which lie in
// keel/emulated beside libkeel, a folder for each plugin: sets KEEL_<PLUGIN>_LIBRARY_FOLDER for
// this process and those it starts. Before Keel is up and there are other threads. False, with a
// sentence, where there are none.
bool use_emulated_libraries(std::string* error);
// Whether KEEL_<PLUGIN>_LIBRARY_FOLDER has |plugin| look there, whoever has set it.
bool uses_emulated_libraries(const std::string& plugin);

// How the message of a case begins that passed, but by a kernel of a library whose work the
// emulator has the reference do: it shows that the plugin asks the library rightly, no more.
inline constexpr std::string_view kMarshalling = "marshalling: ";
// That message; empty for a kernel that ran itself.
std::string marshalling_of(std::string_view kernel);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_
