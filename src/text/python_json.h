// JSON as Python's json.dumps(value, ensure_ascii=False) writes it, because that is what the templates' "tojson" does.
// Not a JSON library: for everything else use one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace minicpm {

// Re-writes the JSON object `text`: ", " and ": " between items, order kept, the last of equal keys wins.
// Errors: kInvalidArgument (not JSON, not an object, an integer beyond 64 bits).
Result<std::string> RewriteJsonObjectLikePython(std::string_view text);

// The members of the JSON object `text` as Python iterates over them, each value as str() writes it, or as JSON where
// it is an object or a list. Errors: as above.
struct PythonItem {
  std::string name, value;
};
Result<std::vector<PythonItem>> JsonObjectItemsLikePython(std::string_view text);

// repr() of a Python float.
std::string PythonFloat(double value);

}  // namespace minicpm
