// Implementation of regex_splitter.h. The bound is counted, not timed: a callout before every item of the pattern adds
// up the items tried and the distance walked, so the same text always gives the same pieces.
#include "text/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <new>
#include <string>
#include <utility>

namespace minicpm {
namespace {

constexpr size_t kMaxPatternBytes = 8192;
constexpr size_t kMinSteps = 5'000'000;
constexpr size_t kStepsPerByte = 200;
constexpr uint32_t kHeapLimitKib = 256 * 1024;

template <auto Free>
struct Deleter {
  template <class T>
  void operator()(T* p) const {
    Free(p);
  }
};

// White_Space of Unicode, which is what \s means to the tokenizers (PCRE2 adds U+180E).
constexpr std::string_view kSpaceRanges =
    R"(\x{9}-\x{D}\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kWordRanges = R"(\p{L}\p{M}\p{N}\p{Pc})";

// Rewrites the few items whose meaning differs between the dialects, refuses those that have no counterpart.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Run() {
    for (pos_ = 0; pos_ < pattern_.size(); ++pos_) {
      const char c = pattern_[pos_];
      if (c == '\\') {
        MINICPM_TRY(Escape());
      } else if (c == '[') {
        MINICPM_TRY(OpenBracket());
      } else {
        if (c == ']') in_class_ = false;
        if (in_class_ && pattern_.substr(pos_).starts_with("&&")) return Refuse("&& in a class");
        out_ += c;
      }
    }
    return std::move(out_);
  }

 private:
  std::unexpected<Error> Refuse(std::string_view what) const {
    return Fail(ErrorCode::kUnsupported, "the pre-tokenizer's pattern uses " + Printable(what) +
                                             ", which is not supported: '" + Printable(pattern_) + "'");
  }

  Status Escape() {
    if (pos_ + 1 >= pattern_.size()) {
      out_ += '\\';
      return {};
    }
    const char next = pattern_[++pos_];
    switch (next) {
      case 's':
        AppendSet(kSpaceRanges);
        return {};
      case 'w':
        AppendSet(kWordRanges);
        return {};
      case 'S':
        if (in_class_) return Refuse("\\S in a class");
        out_.append("[^").append(kSpaceRanges).append("]");
        return {};
      case 'W':
      case 'b':
      case 'B':
      case 'h':
      case 'H':
      case 'C':
      case 'K':
      case 'Q':
        return Refuse(pattern_.substr(pos_ - 1, 2));
      default:
        out_ += '\\';
        out_ += next;
        return {};
    }
  }

  Status OpenBracket() {
    if (in_class_) {
      if (!pattern_.substr(pos_).starts_with("[:")) return Refuse("a class inside a class");
      const size_t end = pattern_.find(":]", pos_);
      if (end == std::string_view::npos) return Refuse("an open [: in a class");
      out_.append(pattern_, pos_, end + 2 - pos_);
      pos_ = end + 1;
      return {};
    }
    in_class_ = true;
    out_ += '[';
    if (pos_ + 1 < pattern_.size() && pattern_[pos_ + 1] == '^') out_ += pattern_[++pos_];
    if (pos_ + 1 < pattern_.size() && pattern_[pos_ + 1] == ']') return Refuse("an empty class");
    return {};
  }

  void AppendSet(std::string_view ranges) {
    if (in_class_) {
      out_ += ranges;
    } else {
      out_.append("[").append(ranges).append("]");
    }
  }

  std::string_view pattern_;
  size_t pos_ = 0;
  bool in_class_ = false;
  std::string out_;
};

struct Effort {
  size_t steps_left = 0;
  size_t last_position = 0;
};

int CountStep(pcre2_callout_block* block, void* data) {
  auto& effort = *static_cast<Effort*>(data);
  const size_t position = block->current_position;
  const size_t walked = position > effort.last_position ? position - effort.last_position : 0;
  effort.last_position = position;
  const size_t cost = walked + 1;
  if (cost > effort.steps_left) return PCRE2_ERROR_MATCHLIMIT;
  effort.steps_left -= cost;
  return 0;
}

}  // namespace

struct RegexSplitter::Impl {
  std::unique_ptr<pcre2_code, Deleter<pcre2_code_free>> code;
};

RegexSplitter::RegexSplitter(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter& RegexSplitter::operator=(RegexSplitter&&) noexcept = default;
RegexSplitter::~RegexSplitter() = default;

Result<RegexSplitter> RegexSplitter::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return Fail(ErrorCode::kUnsupported, "the pre-tokenizer's pattern has " + std::to_string(pattern.size()) +
                                             " bytes, at most " + std::to_string(kMaxPatternBytes) + " are supported");
  }
  MINICPM_ASSIGN(const std::string translated, Translator(pattern).Run());
  int error = 0;
  PCRE2_SIZE error_offset = 0;
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | PCRE2_AUTO_CALLOUT;
  auto impl = std::make_unique<Impl>();
  impl->code.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(), options, &error,
                                 &error_offset, nullptr));
  if (!impl->code) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    return Fail(ErrorCode::kCorrupt, "the pre-tokenizer's pattern '" + Printable(pattern) +
                                         "' does not compile: " + Printable(reinterpret_cast<const char*>(text)));
  }
  return RegexSplitter(std::move(impl));
}

void RegexSplitter::Split(std::string_view text, FunctionRef<void(std::string_view)> piece) const {
  const std::unique_ptr<pcre2_match_data, Deleter<pcre2_match_data_free>> data(
      pcre2_match_data_create_from_pattern(impl_->code.get(), nullptr));
  const std::unique_ptr<pcre2_match_context, Deleter<pcre2_match_context_free>> context(
      pcre2_match_context_create(nullptr));
  if (!data || !context) throw std::bad_alloc();
  Effort effort{.steps_left = kMinSteps + kStepsPerByte * text.size()};
  pcre2_set_callout(context.get(), CountStep, &effort);
  pcre2_set_heap_limit(context.get(), kHeapLimitKib);
  pcre2_set_match_limit(context.get(), UINT32_MAX);

  const auto emit = [&](size_t begin, size_t end) {
    if (end > begin) piece(text.substr(begin, end - begin));
  };
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0;   // everything before it has been given out
  size_t start = 0;  // where the next match may begin
  while (start < text.size()) {
    effort.last_position = start;
    const int rc =
        pcre2_match(impl_->code.get(), subject, text.size(), start, PCRE2_NO_UTF_CHECK, data.get(), context.get());
    if (rc < 0) break;  // no further match, or too much effort
    const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data.get());
    const size_t begin = bounds[0];
    const size_t end = bounds[1];
    if (begin < start || end < begin || end > text.size()) break;
    if (end == begin) {  // an empty match cuts here and takes nothing; go on behind the next character
      start = end + 1;
      while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) ++start;
      if (begin > done) {
        emit(done, begin);
        done = begin;
      }
      continue;
    }
    emit(done, begin);
    emit(begin, end);
    done = start = end;
  }
  emit(done, text.size());
}

}  // namespace minicpm
