// Level collectives: the vendor's own library behind the ccl table. Keel's collectives
// do not run on it yet, so there is nothing that a case could call.
#include "conformance/harness.h"

namespace keel::conformance {

void add_collectives_cases(const Environment&, std::vector<Case>* cases) {
  cases->push_back(
      {.id = "collectives/native", .claims = KEEL_CLAIM_CCL, .body = [](const Context&) {
         unsupported("Keel has no path to a plugin's ccl table yet");
       }});
}

}  // namespace keel::conformance
