// Implementation of alert.h.
#include "alert.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/utf8.h"

namespace minicpm::cli {
namespace {

constexpr size_t kMaxPatternBytes = 8192;
constexpr uint32_t kMatchLimit = 1'000'000;  // about a tenth of a second
constexpr uint32_t kHeapLimitKib = 64 * 1024;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};

std::string Message(int error) {
  PCRE2_UCHAR text[256] = {};
  pcre2_get_error_message(error, text, sizeof(text));
  return Printable(reinterpret_cast<const char*>(text));
}

// Number of the character that begins at or before byte `offset`, from 1.
size_t CharacterAt(std::string_view utf8, size_t offset) {
  size_t n = 1;
  for (size_t pos = 0; pos < std::min(offset, utf8.size());) {
    pos += DecodeUtf8(utf8, pos).length;
    if (pos <= offset) ++n;
  }
  return n;
}

}  // namespace

struct AlertPattern::Impl {
  std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>> code;
};

AlertPattern::AlertPattern(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
AlertPattern::AlertPattern(AlertPattern&&) noexcept = default;
AlertPattern& AlertPattern::operator=(AlertPattern&&) noexcept = default;
AlertPattern::~AlertPattern() = default;

Result<AlertPattern> AlertPattern::Compile(std::string_view pattern) {
  if (pattern.empty() || pattern.size() > kMaxPatternBytes) {
    return Fail(ErrorCode::kInvalidArgument, "expected a regular expression of 1 to " +
                                                 std::to_string(kMaxPatternBytes) + " bytes, found " +
                                                 std::to_string(pattern.size()));
  }
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto impl = std::make_unique<Impl>();
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr));
  if (impl->code == nullptr) {
    return Fail(ErrorCode::kInvalidArgument, "expected a regular expression, found an error at character " +
                                                 std::to_string(CharacterAt(pattern, offset)) + " of \"" +
                                                 Printable(pattern) + "\": " + Message(error));
  }
  return AlertPattern(std::move(impl));
}

Result<bool> AlertPattern::Matches(std::string_view text) const {
  const std::string valid = ReplaceInvalidUtf8(text);
  const std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>> data(
      pcre2_match_data_create_from_pattern(impl_->code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>> context(
      pcre2_match_context_create(nullptr));
  if (data == nullptr || context == nullptr) return Fail(ErrorCode::kResourceExhausted, "out of memory");
  pcre2_set_match_limit(context.get(), kMatchLimit);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  const int found = pcre2_match(impl_->code.get(), reinterpret_cast<PCRE2_SPTR>(valid.data()), valid.size(), 0, 0,
                                data.get(), context.get());
  if (found >= 0) return true;
  if (found == PCRE2_ERROR_NOMATCH) return false;
  return Fail(ErrorCode::kResourceExhausted, "the regular expression could not be searched for in an answer of " +
                                                 std::to_string(text.size()) + " bytes: " + Message(found));
}

}  // namespace minicpm::cli
