// Implementation of status.h: code names, annotation, and quoting of hostile bytes.
#include "base/status.h"

#include "base/utf8.h"

namespace minicpm {

const char* ErrorCodeName(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid_argument";
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kIo:
      return "io";
    case ErrorCode::kCorrupt:
      return "corrupt";
    case ErrorCode::kUnsupported:
      return "unsupported";
    case ErrorCode::kResourceExhausted:
      return "resource_exhausted";
  }
  return "unknown";
}

std::unexpected<Error> Annotate(std::string context, Error error) {
  context += ": ";
  context += error.message;
  return std::unexpected<Error>(Error{error.code, std::move(context)});
}

std::string Printable(std::string_view bytes, size_t max_bytes) {
  std::string out;
  size_t i = 0;
  while (i < bytes.size() && out.size() < max_bytes) {
    const Utf8Char c = DecodeUtf8(bytes, i);
    if (!c.valid || c.code_point < 0x20 || c.code_point == 0x7f) {
      out += '?';
    } else {
      out.append(bytes.substr(i, c.length));
    }
    i += c.length;
  }
  if (i < bytes.size()) out += "...";
  return out;
}

}  // namespace minicpm
