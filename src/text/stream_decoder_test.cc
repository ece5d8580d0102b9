// Tests of StreamDecoder: whatever the ids, what comes out is valid UTF-8 at every step and complete at the end.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/utf8.h"
#include "text/test_text.h"
#include "text/tokenizer.h"

namespace minicpm {
namespace {

Tokenizer ByteTokenizer() {
  // "\x98\x80a" begins inside a character and ends outside: tokens need not respect characters.
  return testing::FromJson(
             testing::TestTokenizerJson({{"\xf0", "\x9f"}, {"\x98", "\x80"}, {"\x98\x80", "a"}}, {{"<s>"}}))
      .value();
}

TEST(StreamDecoder, HoldsBackAnIncompleteCharacter) {
  const Tokenizer t = ByteTokenizer();
  StreamDecoder decoder(t);
  EXPECT_EQ(decoder.Push('h'), "h");
  EXPECT_EQ(decoder.Push(256), "");  // f0 9f
  EXPECT_EQ(decoder.Push(258),
            "\U0001f600"
            "a");                    // 98 80 a
  EXPECT_EQ(decoder.Push(259), "");  // special
  EXPECT_EQ(decoder.Push(0xe4), "");
  EXPECT_EQ(decoder.Push('x'), "\ufffdx");
  EXPECT_EQ(decoder.Push(0xe4), "");
  EXPECT_EQ(decoder.Finish(), "\ufffd");
  EXPECT_EQ(decoder.Finish(), "");
}

TEST(StreamDecoder, CanShowSpecialTokens) {
  const Tokenizer t = ByteTokenizer();
  StreamDecoder decoder(t, /*skip_special=*/false);
  EXPECT_EQ(decoder.Push(259), "<s>");
  EXPECT_EQ(decoder.Push(-7), "");
  EXPECT_EQ(decoder.Push(1 << 30), "");
}

TEST(StreamDecoder, RandomIdsGiveTheRepairedTextOfAllOfThem) {
  const Tokenizer t = ByteTokenizer();
  std::mt19937 rng(21);
  const std::vector<int32_t> likely = {0xf0, 0x9f, 0x98, 0x80, 0xe4, 0xb8, 0xad, 0xc3,
                                       0xa9, 'a',  256,  257,  258,  0xff, 0xed, 0xa0};
  for (int round = 0; round < 5000; ++round) {
    std::vector<int32_t> ids;
    for (size_t n = rng() % 30; n > 0; --n) {
      ids.push_back(rng() % 4 == 0 ? static_cast<int32_t>(rng() % 260) : likely[rng() % likely.size()]);
    }
    StreamDecoder decoder(t);
    std::string text;
    for (const int32_t id : ids) {
      const std::string_view piece = decoder.Push(id);
      ASSERT_TRUE(IsValidUtf8(piece));
      text += piece;
    }
    text += decoder.Finish();
    ASSERT_EQ(text, ReplaceInvalidUtf8(t.Decode(ids, true)));
  }
}

}  // namespace
}  // namespace minicpm
