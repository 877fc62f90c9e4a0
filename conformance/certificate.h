// SPDX-License-Identifier: Apache-2.0
// The certificate of a run, which `keel conform verify` checks later.
#ifndef KEEL_CONFORMANCE_CERTIFICATE_H_
#define KEEL_CONFORMANCE_CERTIFICATE_H_

#include <map>
#include <string>
#include <vector>

#include "conformance/report.h"

namespace keel::conformance {

// Returns the SHA-256 digest as 64 hex digits.
std::string sha256_of_text(const std::string& text);
// Computes the digest of a file. On a read error, returns false and puts a sentence in |error|.
bool sha256_of_file(const std::string& path, std::string* out_digest, std::string* error);

// Returns the certificate as JSON text. "results_sha256" is results_digest(); "digest" covers all
// remaining members. The digest detects changes; it does not authenticate the author.
std::string certificate_text(const Report& report);

struct Certificate {
  std::string backend;
  std::string plugin_path;
  std::string plugin_sha256;
  std::string results_sha256;
  std::string profile;
  RunSettings settings;
  std::vector<std::string> levels;  // certified levels
  std::string failures;             // failures_text() of the run
  size_t waived = 0;                // cases that failed by a waiver
  // The first letter of the outcome of each case of a certified level, in the order of the cases;
  // certificates of earlier versions lack it.
  std::map<Level, std::string> outcomes;
};

// Returns how work was made to fail in the cases that passed: "real" by the chip itself, "injected"
// by the plugin's keel_test_table, "real and injected", or "untested".
std::string failures_text(const Report& report);

// Reads a certificate and checks its form and digest. If the certificate is damaged or was changed,
// returns false, puts a sentence in |error| and leaves |out_certificate| unchanged.
bool read_certificate(const std::string& text, Certificate* out_certificate, std::string* error);

// Returns the digest of the case ids and outcomes of the certified levels. Another run with the
// same seed reproduces the digest.
std::string results_digest(const Report& report);

// Says where |report|, a run of the certified levels, differs from the run of the certificate: the
// first case with another outcome, else the first level that is not certified. Call it where the
// digests differ or the run failed.
std::string first_difference(const Certificate& certificate, const Report& report);

}  // namespace keel::conformance

#endif  // KEEL_CONFORMANCE_CERTIFICATE_H_
