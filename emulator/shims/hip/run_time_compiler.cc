// SPDX-License-Identifier: Apache-2.0
// hiprtc, which ROCm 5.2 has in the runtime's library. It compiles nothing: the code for a family
// of kernels is the family's name, for which hipModuleLoadData has the kernels compiled for the
// host. Checked is what a compiler would miss: options, and every file that a source includes.
#include <elf.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <regex>
#include <string>
#include <string_view>

#include "emulator/shims/beside.h"
#include "emulator/shims/cuda/driver.h"
#include "emulator/shims/hip/compiled_code.h"
#include "vendor/hiprtc.h"

namespace keel::emulator::hip {
namespace {

struct Program {
  std::string source;
  std::string name;
  std::map<std::string, std::string> headers;
  std::string log;
  std::string code;
};

std::atomic<uint64_t> g_compiled{0};

// Returns the first file that |text| includes and the program lacks; empty if there is none.
std::string missing_include(const Program& program, const std::string& text) {
  static const std::regex& pattern =
      *new std::regex(R"((?:^|\n)\s*#\s*include\s*[<"]([^>"\n]+)[>"])");
  for (std::sregex_iterator each(text.begin(), text.end(), pattern), end; each != end; ++each) {
    if (program.headers.count((*each)[1]) == 0) return (*each)[1];
  }
  return {};
}

// The architectures that the compilers of ROCm 5.2 and 6.0 know, of those that matter here.
bool is_known(std::string_view architecture) {
  constexpr std::string_view kKnown[] = {"gfx900", "gfx906", "gfx908", "gfx90a", "gfx1030"};
  if (architecture == "gfx942") return cuda::Driver::get().settings().version >= 60000000;
  return std::find(std::begin(kKnown), std::end(kKnown), architecture) != std::end(kKnown);
}

hiprtcResult compile(Program& program, int count, const char** options) {
  constexpr std::string_view kArchitecture = "--offload-arch=";
  std::string_view architecture;
  for (int i = 0; i < count; ++i) {
    const std::string_view option = options[i];
    if (option.starts_with(kArchitecture)) architecture = option.substr(kArchitecture.size());
  }
  if (!is_known(architecture)) undefined("hiprtcCompileProgram", "no such architecture");
  std::string missing = missing_include(program, program.source);
  for (const auto& [name, text] : program.headers) {
    if (missing.empty()) missing = missing_include(program, text);
  }
  if (!missing.empty()) program.log = "fatal error: '" + missing + "' file not found\n";
  const uint64_t wanted = cuda::Driver::get().settings().hiprtc;
  if (wanted != HIPRTC_SUCCESS) program.log = "error: as the settings say\n1 error generated\n";
  if (!program.log.empty()) {
    return wanted != HIPRTC_SUCCESS ? static_cast<hiprtcResult>(wanted) : HIPRTC_ERROR_COMPILATION;
  }
  program.code = compiled_code(program.name);
  g_compiled.fetch_add(1);
  return HIPRTC_SUCCESS;
}

Program* object(hiprtcProgram program) {
  return reinterpret_cast<Program*>(program);
}

}  // namespace

std::string compiled_code(std::string_view family) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = 224;  // EM_AMDGPU
  header.e_flags = kCompiledFlags;
  std::string code(reinterpret_cast<const char*>(&header), sizeof(header));
  return code.append(family).append(1, '\0');
}

const char* compiled_family(const void* image) {
  const auto* const bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) return nullptr;
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof(header));
  if (header.e_machine != 224 || header.e_flags != kCompiledFlags) return nullptr;
  return bytes + sizeof(header);
}

}  // namespace keel::emulator::hip

using namespace keel::emulator::hip;  // NOLINT: the functions below are C functions

extern "C" {

uint64_t keel_emulated_hip_compiled() {
  return g_compiled.load();
}

const char* hiprtcGetErrorString(hiprtcResult result) {
  switch (result) {
    case HIPRTC_SUCCESS:
      return "HIPRTC_SUCCESS";
    case HIPRTC_ERROR_INVALID_INPUT:
      return "HIPRTC_ERROR_INVALID_INPUT";
    case HIPRTC_ERROR_INVALID_PROGRAM:
      return "HIPRTC_ERROR_INVALID_PROGRAM";
    case HIPRTC_ERROR_COMPILATION:
      return "HIPRTC_ERROR_COMPILATION";
    default:
      return "HIPRTC_ERROR_INTERNAL_ERROR";
  }
}

// Refuses empty headers, as the library does.
hiprtcResult hiprtcCreateProgram(hiprtcProgram* prog, const char* src, const char* name,
                                 int numHeaders, const char** headers, const char** includeNames) {
  if (prog == nullptr || src == nullptr || name == nullptr || numHeaders < 0) {
    return HIPRTC_ERROR_INVALID_INPUT;
  }
  auto program = std::make_unique<Program>();
  program->source = src;
  program->name = name;
  for (int i = 0; i < numHeaders; ++i) {
    if (headers[i] == nullptr || *headers[i] == '\0' || includeNames[i] == nullptr) {
      return HIPRTC_ERROR_INVALID_INPUT;
    }
    program->headers[includeNames[i]] = headers[i];
  }
  *prog = reinterpret_cast<hiprtcProgram>(program.release());
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcCompileProgram(hiprtcProgram prog, int numOptions, const char** options) {
  if (prog == nullptr) return HIPRTC_ERROR_INVALID_PROGRAM;
  return compile(*object(prog), numOptions, options);
}

hiprtcResult hiprtcGetProgramLogSize(hiprtcProgram prog, size_t* logSizeRet) {
  if (prog == nullptr || logSizeRet == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  *logSizeRet = object(prog)->log.size() + 1;
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetProgramLog(hiprtcProgram prog, char* log) {
  if (prog == nullptr || log == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  std::strcpy(log, object(prog)->log.c_str());  // NOLINT: of the size that the caller asked for
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram prog, size_t* codeSizeRet) {
  if (prog == nullptr || codeSizeRet == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  *codeSizeRet = object(prog)->code.size();
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetCode(hiprtcProgram prog, char* code) {
  if (prog == nullptr || code == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  std::memcpy(code, object(prog)->code.data(), object(prog)->code.size());  // NOLINT: no text
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram* prog) {
  if (prog == nullptr) return HIPRTC_ERROR_INVALID_INPUT;
  delete object(*prog);
  *prog = nullptr;
  return HIPRTC_SUCCESS;
}

}  // extern "C"
