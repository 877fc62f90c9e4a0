// SPDX-License-Identifier: Apache-2.0
#include "backends/hip/run_time_compiler.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <keel/plugin_kit.hpp>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/gpu/hip_sources.h"
#include "vendor/hiprtc.h"

namespace keel::gpu {
namespace {

// Architectures, and the first runtime whose compiler knows them. The compiler of ROCm 5.2.3 was
// tried with each: it knows those of the first two lines, and ended the process at the others.
constexpr struct {
  std::string_view architecture;
  int version;
} kKnown[] = {
    {"gfx900", 50200000},  {"gfx906", 50200000},  {"gfx908", 50200000},  {"gfx90a", 50200000},
    {"gfx1010", 50200000}, {"gfx1030", 50200000}, {"gfx1031", 50200000}, {"gfx1032", 50200000},
    {"gfx942", 60000000},  {"gfx1100", 60000000},
};

bool is_known(std::string_view architecture, int version) {
  for (const auto& [known, first] : kKnown) {
    if (known == architecture) return version >= first;
  }
  return false;
}

struct Compiler {
  decltype(&hiprtcCreateProgram) create = nullptr;
  decltype(&hiprtcCompileProgram) compile = nullptr;
  decltype(&hiprtcGetProgramLogSize) log_size = nullptr;
  decltype(&hiprtcGetProgramLog) log = nullptr;
  decltype(&hiprtcGetCodeSize) code_size = nullptr;
  decltype(&hiprtcGetCode) code = nullptr;
  decltype(&hiprtcDestroyProgram) destroy = nullptr;
  decltype(&hiprtcGetErrorString) text = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function** out_function) {
  void* const address = dlsym(library, name);
  std::memcpy(out_function, &address, sizeof(address));
  return address != nullptr;
}

// Finds the compiler in libhiprtc.so of the runtime's folder and number, else in the runtime.
bool find_compiler(const void* own_function, Compiler* out_compiler) {
  constexpr std::string_view kRuntime = "libamdhip64.so";
  Dl_info info = {};
  if (dladdr(own_function, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string runtime = info.dli_fname;
  std::vector<std::string> paths = {runtime};
  if (const size_t place = runtime.rfind(kRuntime); place != std::string::npos) {
    std::string beside = runtime;
    paths.insert(paths.begin(), beside.replace(place, kRuntime.size(), "libhiprtc.so"));
  }
  for (const std::string& path : paths) {
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed
    if (library == nullptr) continue;
    Compiler& found = *out_compiler;
    if (find(library, "hiprtcCreateProgram", &found.create) &&
        find(library, "hiprtcCompileProgram", &found.compile) &&
        find(library, "hiprtcGetProgramLogSize", &found.log_size) &&
        find(library, "hiprtcGetProgramLog", &found.log) &&
        find(library, "hiprtcGetCodeSize", &found.code_size) &&
        find(library, "hiprtcGetCode", &found.code) &&
        find(library, "hiprtcDestroyProgram", &found.destroy) &&
        find(library, "hiprtcGetErrorString", &found.text)) {
      return true;
    }
  }
  return false;
}

// Returns the beginning of the compiler's log, on one line.
std::string log_of(const Compiler& compiler, hiprtcProgram program) {
  constexpr size_t kMost = 400;
  size_t size = 0;
  if (compiler.log_size(program, &size) != HIPRTC_SUCCESS || size == 0) return {};
  std::string log(size, '\0');
  if (compiler.log(program, log.data()) != HIPRTC_SUCCESS) return {};
  log.resize(std::min(std::strlen(log.c_str()), kMost));
  for (char& letter : log) {
    if (letter == '\n') letter = ' ';
  }
  return ": " + log;
}

bool compile(const Compiler& compiler, const char* family, const std::string& architecture,
             std::string* out_code, std::string* out_why) {
  std::vector<const char*> names;
  std::vector<const char*> texts;
  for (const simt::Source& source : simt::hip_sources()) {
    names.push_back(source.name);
    texts.push_back(source.text);
  }
  const std::string text = "#include \"kernels/gpu/" + std::string(family) + ".cc\"\n";
  hiprtcProgram program = nullptr;
  hiprtcResult result = compiler.create(&program, text.c_str(), family,
                                        static_cast<int>(names.size()), texts.data(), names.data());
  const char* call = "hiprtcCreateProgram";
  std::string log;
  if (result == HIPRTC_SUCCESS) {
    const std::string target = "--offload-arch=" + architecture;
    // As the code objects of the build are compiled.
    const char* options[] = {target.c_str(), "-O3", "-std=c++20", "-ffp-contract=off"};
    call = "hiprtcCompileProgram";
    result = compiler.compile(program, static_cast<int>(std::size(options)), options);
    if (result != HIPRTC_SUCCESS) log = log_of(compiler, program);
    size_t size = 0;
    if (result == HIPRTC_SUCCESS) {
      call = "hiprtcGetCode";
      result = compiler.code_size(program, &size);
    }
    if (result == HIPRTC_SUCCESS) {
      out_code->resize(size);
      result = compiler.code(program, out_code->data());
    }
    (void)compiler.destroy(&program);
  }
  if (result == HIPRTC_SUCCESS) return true;
  *out_why = std::string(call) + " of " + family + ": " + compiler.text(result) + log;
  return false;
}

bool is_asked_for() {
  const char* const value = secure_getenv("KEEL_HIPRTC");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

bool compile_family(const char* family, const std::string& architecture, int runtime_version,
                    const void* own_function, const std::string** out_code, std::string* out_why) {
  if (!is_asked_for()) {
    *out_why = "this build has no code for " + architecture +
               "; with KEEL_HIPRTC=1 the plugin compiles the kernels, for some minutes";
    return false;
  }
  if (!is_known(architecture, runtime_version)) {
    *out_why = architecture +
               " is not on the list of what this runtime's compiler knows: it ends the process at "
               "others, and is not asked";
    return false;
  }
  // Never destroyed, like the libraries. Locked while the compiler works, so that a second device
  // waits for the first's code.
  static std::mutex& mutex = *new std::mutex;
  static auto& codes = *new std::map<std::pair<std::string, std::string>, std::string>;
  const std::lock_guard lock(mutex);
  const std::pair<std::string, std::string> key(architecture, family);
  if (const auto made = codes.find(key); made != codes.end()) {
    *out_code = &made->second;
    return true;
  }
  Compiler compiler;
  if (!find_compiler(own_function, &compiler)) {
    *out_why = "there is no hiprtc beside the runtime, nor in it";
    return false;
  }
  kit::log(KEEL_LOG_INFO, "hip: compiling the kernels of %s for %s", family, architecture.c_str());
  std::string code;
  if (!compile(compiler, family, architecture, &code, out_why)) return false;
  *out_code = &codes.emplace(key, std::move(code)).first->second;
  return true;
}

}  // namespace keel::gpu
