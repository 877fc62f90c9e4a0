// docs/operators.md, written from the schema table.
#ifndef KEEL_OPS_DOCS_H_
#define KEEL_OPS_DOCS_H_

#include <string>

namespace keel::ops {

std::string operators_markdown();

}  // namespace keel::ops

#endif  // KEEL_OPS_DOCS_H_
