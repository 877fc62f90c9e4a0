#ifndef KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_
#define KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_

#include <string>

namespace keel::conformance {

// Has plugins look for their vendor's libraries among those over the emulated chip, which lie in
// keel/emulated beside libkeel, a folder for each plugin: sets KEEL_<PLUGIN>_LIBRARY_FOLDER for
// this process and those it starts. Before Keel is up and there are other threads. False, with a
// sentence, where there are none.
bool use_emulated_libraries(std::string* error);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_EMULATED_LIBRARIES_H_
