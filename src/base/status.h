// Error values: Result<T> is a value or an Error with a code and one sentence. Not for bugs of ours: those use check.h.
// The sentence names the file, tensor or option, what was expected and what was found.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace minicpm {

enum class ErrorCode {
  kInvalidArgument,    // the caller asked for something that makes no sense (option, request)
  kNotFound,           // a file, tensor or token that must exist does not
  kIo,                 // the operating system said no
  kCorrupt,            // bytes from outside break their own format
  kUnsupported,        // well-formed, but nothing here can handle it
  kResourceExhausted,  // a limit (bytes, pixels, context, memory) would be passed
};

// Short stable name of a code, for JSON and logs, e.g. "corrupt".
const char* ErrorCodeName(ErrorCode code);

struct Error {
  ErrorCode code;
  std::string message;  // one sentence, UTF-8, safe to print (readers escape hostile bytes with Printable())
};

template <class T>
using Result = std::expected<T, Error>;
using Status = Result<void>;

inline std::unexpected<Error> Fail(ErrorCode code, std::string message) {
  return std::unexpected<Error>(Error{code, std::move(message)});
}

// Puts `context` and ": " before the message of `error`; for callers that know the file or option.
std::unexpected<Error> Annotate(std::string context, Error error);

// Copy of `bytes` cut to `max_bytes`, with control characters and invalid UTF-8 replaced by '?'; for quoting hostile
// input.
std::string Printable(std::string_view bytes, size_t max_bytes = 120);

}  // namespace minicpm

#define MINICPM_CONCAT_(a, b) a##b
#define MINICPM_CONCAT(a, b) MINICPM_CONCAT_(a, b)

// Returns from the enclosing function when `expr` (a Status or Result) holds an error.
#define MINICPM_TRY(expr)                                                      \
  do {                                                                         \
    if (auto try_result = (expr); !try_result.has_value())                     \
      return std::unexpected<::minicpm::Error>(std::move(try_result).error()); \
  } while (0)

// MINICPM_ASSIGN(auto x, MakeX());  declares or assigns x, or returns the error.
#define MINICPM_ASSIGN(lhs, expr) MINICPM_ASSIGN_(MINICPM_CONCAT(assign_result_, __LINE__), lhs, expr)
#define MINICPM_ASSIGN_(tmp, lhs, expr)                                                   \
  auto tmp = (expr);                                                                      \
  if (!tmp.has_value()) return std::unexpected<::minicpm::Error>(std::move(tmp).error()); \
  lhs = std::move(tmp).value()
