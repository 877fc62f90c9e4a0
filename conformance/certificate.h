// SPDX-License-Identifier: Apache-2.0
// The certificate of a run: what `keel conform verify` checks again later.
#ifndef KEEL_CONFORMANCE_CERTIFICATE_H_
#define KEEL_CONFORMANCE_CERTIFICATE_H_

#include <string>
#include <vector>

#include "conformance/report.h"

namespace keel::conformance {

// SHA-256 as 64 hex digits.
std::string sha256_of_text(const std::string& text);
// Of a file; false, and a sentence in |error|, when it cannot be read.
bool sha256_of_file(const std::string& path, std::string* out_digest, std::string* error);

// The JSON text. Its "results_sha256" is results_digest, its "digest" over all
// the rest. A digest finds changes; it proves nothing about who made it.
std::string certificate_text(const Report& report);

struct Certificate {
  std::string backend;
  std::string plugin_path;
  std::string plugin_sha256;
  std::string results_sha256;
  std::string profile;
  RunSettings settings;
  std::vector<std::string> levels;  // certified ones
};

// Reads a certificate and checks its form and digest. False, and a sentence in |error|,
// for one that is damaged or was changed; |out_certificate| is then as it was.
bool read_certificate(const std::string& text, Certificate* out_certificate, std::string* error);

// The digest of ids and outcomes of the certified levels, which another run with the same
// seed repeats.
std::string results_digest(const Report& report);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_CERTIFICATE_H_
