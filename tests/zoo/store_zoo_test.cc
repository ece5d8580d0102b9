// Bad-input zoo of the store: every truncation, every flipped bit and thousands of seeded mutations of headers and
// configuration. Nothing may crash or hand out a view that leaves the file; what is accepted must keep every promise.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>

#include "gtest/gtest.h"
#include "store/checkpoint.h"
#include "store/json.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using test::PaddedHeader;
using test::SafetensorsBytes;
using test::TempDir;

std::string ValidFile() {
  return SafetensorsBytes(
      PaddedHeader(
          R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
          R"("b\u00e9":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"empty":{"dtype":"I8","shape":[0,9],)"
          R"("data_offsets":[32,32]},"c":{"dtype":"U8","shape":[1,1,5],"data_offsets":[32,37]}})"),
      std::string(37, 'w'));
}

// An exact copy on the heap, aligned as a mapping is, so that a sanitizer sees any step outside.
class ExactCopy {
 public:
  explicit ExactCopy(std::string_view bytes) : size_(bytes.size()), bytes_(new std::byte[std::max<size_t>(size_, 1)]) {
    std::memcpy(bytes_.get(), bytes.data(), size_);
  }
  std::span<const std::byte> span() const { return {bytes_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<std::byte[]> bytes_;
};

// True when accepted. Checks on the way that the data of the views is exactly the end of the file, piece by piece.
bool ParseAndCheck(std::string_view bytes) {
  const ExactCopy copy(bytes);
  const auto file = SafetensorsFile::Parse(copy.span(), "zoo");
  if (!file.has_value()) {
    EXPECT_TRUE(file.error().message.starts_with("zoo")) << file.error().message;
    EXPECT_EQ(Printable(file.error().message, 10000), file.error().message);
    return false;
  }
  const std::byte* end = copy.span().data() + copy.span().size();
  const std::byte* expected = nullptr;
  unsigned touched = 0;
  for (const auto& entry : file->entries()) {
    const auto* data = static_cast<const std::byte*>(entry.view.data);
    const size_t n = entry.view.bytes();
    EXPECT_TRUE(data >= copy.span().data() + 8 && data <= end && n <= static_cast<size_t>(end - data));
    EXPECT_TRUE(expected == nullptr || data == expected);
    if (n > 0) touched += static_cast<unsigned>(data[0]) + static_cast<unsigned>(data[n - 1]);
    expected = data + n;
  }
  EXPECT_TRUE(expected == nullptr || expected == end);
  return touched < UINT32_MAX;
}

TEST(StoreZoo, EveryTruncationIsRefused) {
  const std::string valid = ValidFile();
  ASSERT_TRUE(ParseAndCheck(valid));
  const TempDir dir;
  for (size_t n = 0; n < valid.size(); ++n) {
    EXPECT_FALSE(ParseAndCheck(std::string_view(valid).substr(0, n))) << n;
    if (n % 16 == 0) {  // the same through a real mapping
      dir.Write("model.safetensors", std::string_view(valid).substr(0, n));
      EXPECT_FALSE(Checkpoint::Open(dir.path()).has_value()) << n;
    }
  }
  EXPECT_FALSE(ParseAndCheck(valid + "x"));
}

TEST(StoreZoo, EveryFlippedBitOfTheHeader) {
  const std::string valid = ValidFile();
  const size_t header_end = valid.size() - 37;
  int accepted = 0;
  for (size_t bit = 0; bit < header_end * 8; ++bit) {
    std::string broken = valid;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    accepted += ParseAndCheck(broken) ? 1 : 0;
  }
  // Letters inside names and metadata may change unnoticed (and F32 [2,3] has no twin of the same size); structure may
  // not.
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, static_cast<int>(header_end * 8) / 4);
}

TEST(StoreZoo, SeededMutations) {
  const std::string valid = ValidFile();
  const size_t header_end = valid.size() - 37;
  std::mt19937 random(20240607);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  const std::string_view tokens[] = {"0",
                                     "9223372036854775807",
                                     "18446744073709551615",
                                     "-1",
                                     "1e999",
                                     "[",
                                     "]",
                                     "{",
                                     "}",
                                     "\"",
                                     ",",
                                     ":",
                                     "null",
                                     "\\u0000",
                                     "\xff",
                                     "__metadata__",
                                     "data_offsets",
                                     "F32",
                                     "a.weight"};
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string broken = valid;
    for (size_t step = 0; step <= below(3); ++step) {
      const size_t at = below(header_end);
      const std::string_view token = tokens[below(std::size(tokens))];
      switch (below(4)) {
        case 0:
          broken[at] = static_cast<char>(random());
          break;
        case 1:
          broken.erase(at, 1 + below(12));
          break;
        case 2:
          broken.insert(at, token);
          break;
        default:
          broken.replace(at, std::min(token.size(), broken.size() - at), token);
          break;
      }
      if (below(2) == 0) {  // keep the length right, so that the JSON is reached
        const uint64_t length = broken.size() - 8 - 37;
        std::memcpy(broken.data(), &length, 8);
      }
    }
    accepted += ParseAndCheck(broken) ? 1 : 0;
  }
  EXPECT_GT(accepted, 0);  // otherwise the mutations never get past the first check
}

TEST(StoreZoo, IndexTruncatedAndFlipped) {
  const TempDir dir;
  dir.Write("s1.safetensors", ValidFile());
  const std::string valid =
      R"({"metadata":{"total_size":37},"weight_map":{"a.weight":"s1.safetensors","c":"s1.safetensors"}})";
  const auto opens = [&](std::string_view text) {
    dir.Write("model.safetensors.index.json", text);
    return Checkpoint::Open(dir.path()).has_value();
  };
  ASSERT_TRUE(opens(valid));
  for (size_t n = 0; n < valid.size(); ++n) EXPECT_FALSE(opens(std::string_view(valid).substr(0, n))) << n;
  for (size_t bit = 0; bit < valid.size() * 8; ++bit) {
    std::string broken = valid;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    if (opens(broken)) {  // then only names outside the map, or white space, changed
      EXPECT_TRUE(bit / 8 < valid.find("weight_map")) << broken;
    }
  }
}

TEST(StoreZoo, ConfigTruncatedFlippedAndAskedForEverything) {
  const std::string valid =
      R"({"model_type":"minicpmv","hidden_size":3584,"rope_theta":1e6,"tie":false,"eos_token_id":[151645,151643],)"
      R"("vision_config":{"hidden_size":1152,"layers":null},"mean":[0.5,0.5,0.5]})";
  const std::vector<std::string> keys = {"model_type",   "hidden_size",   "rope_theta", "tie",
                                         "eos_token_id", "vision_config", "mean",       "absent"};
  // Every getter on every key: an error must be one printable sentence that begins with the file.
  const auto ask = [&](std::string_view text) {
    const auto object = JsonObject::Parse(text, "config.json");
    const auto check = [](const auto& result) {
      if (result.has_value()) return;
      EXPECT_TRUE(result.error().message.starts_with("config.json: ")) << result.error().message;
      EXPECT_EQ(Printable(result.error().message, 10000), result.error().message);
    };
    check(object);
    if (!object.has_value()) return false;
    for (const std::string& key : keys) {
      check(object->Int(key, 1, 65536));
      check(object->NumberOr(key, 1.0, 0, 1e9));
      check(object->BoolOr(key, true));
      check(object->StringOr(key, ""));
      check(object->IntListOr(key, {}, 0, 200000));
      check(object->NumberListOr(key, {}));
      check(object->StringListOr(key, {}));
      check(object->ObjectList(key));
      const auto inner = object->ObjectOrNull(key);
      check(inner);
      if (inner.has_value() && inner->has_value()) check((*inner)->Int("hidden_size", 1, 65536));
    }
    return true;
  };
  ASSERT_TRUE(ask(valid));
  for (size_t n = 0; n < valid.size(); ++n) EXPECT_FALSE(ask(std::string_view(valid).substr(0, n))) << n;
  for (size_t bit = 0; bit < valid.size() * 8; ++bit) {
    std::string broken = valid;
    broken[bit / 8] = static_cast<char>(broken[bit / 8] ^ (1 << (bit % 8)));
    ask(broken);
  }
}

}  // namespace
}  // namespace minicpm
