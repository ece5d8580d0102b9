// Tests of tokenizer.h: added tokens and trust, NFC, the files of a checkpoint, decoding, and ids made by other
// people's code.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "text/test_text.h"

namespace minicpm {
namespace {

using ::testing::ElementsAre;
using testing::FromJson;
using ::testing::IsEmpty;
using testing::Json;
using testing::TestTokenizerJson;

const std::vector<std::pair<std::string, std::string>> kMerges = {
    {"h", "i"}, {"\xc3", "\xa9"}, {" ", "hi"}, {"<", "u"}, {"<u", "n"}, {"k", ">"}, {"<un", "k>"}};
enum : int32_t { kHi = 256, kEacute, kSpaceHi, kLessU, kLessUn, kKGreater, kUnk, kEnd, kThink, kEnd2 };

Tokenizer Small() {
  return FromJson(TestTokenizerJson(kMerges, {{"<|e|>"}, {"<think>", false}, {"<|e|>2"}, {"<unk>", true, false, kUnk}}))
      .value();
}

std::vector<int32_t> Pieces(const Tokenizer& tokenizer, std::vector<TextPiece> pieces) {
  return tokenizer.Encode(pieces);
}

TEST(Tokenizer, EncodesBytesAndMerges) {
  const Tokenizer t = Small();
  EXPECT_THAT(t.Encode("hi hi!"), ElementsAre(kHi, kSpaceHi, '!'));
  EXPECT_THAT(t.Encode("\u4e2d"), ElementsAre(0xe4, 0xb8, 0xad));
  EXPECT_THAT(t.Encode(""), IsEmpty());
  EXPECT_EQ(t.vocab_size(), kEnd2 + 1);
}

TEST(Tokenizer, AddedTokensOnlyInTrustedText) {
  const Tokenizer t = Small();
  EXPECT_THAT(t.Encode("hi<|e|>hi", true), ElementsAre(kHi, kEnd, kHi));
  EXPECT_THAT(t.Encode("<|e|>"), ElementsAre('<', '|', 'e', '|', '>'));
  EXPECT_THAT(t.Encode("<think>"), ElementsAre('<', 't', kHi, 'n', 'k', '>')) << "not special, but added";
  EXPECT_THAT(t.Encode("<think>", true), ElementsAre(kThink));
}

TEST(Tokenizer, TheLeftmostAndThenTheLongestAddedTokenWins) {
  const Tokenizer t = Small();
  EXPECT_THAT(t.Encode("<|e|>2<|e|>3", true), ElementsAre(kEnd2, kEnd, '3'));
  EXPECT_THAT(t.Encode("<<|e|><|e|", true), ElementsAre('<', kEnd, '<', '|', 'e', '|'));
}

TEST(Tokenizer, ABaseEntryPromotedToSpecialIsMatchedWhole) {
  const Tokenizer t = Small();
  EXPECT_THAT(t.Encode("<unk><unk>", true), ElementsAre(kUnk, kUnk));
  EXPECT_TRUE(t.IsSpecial(kUnk));
  EXPECT_EQ(t.Bytes(kUnk), "<unk>");
  EXPECT_EQ(t.AddedTokenId("<unk>"), kUnk);
  // "<u" + "nk>" of the pre-tokenizer's cut: '<unk', '>' - so plain text cannot produce the special id by accident.
  EXPECT_THAT(t.Encode("<unk>"), ElementsAre(kLessUn, 'k', '>'));
}

TEST(Tokenizer, StretchesAreEncodedAsOneTextAndMatchedOnlyInsideTrust) {
  const Tokenizer t = Small();
  EXPECT_THAT(Pieces(t, {{"h", false}, {"i", true}}), ElementsAre(kHi)) << "merges cross the seam";
  EXPECT_THAT(Pieces(t, {{"<|e", true}, {"|>", true}}), ElementsAre(kEnd)) << "trusted neighbours are one stretch";
  EXPECT_THAT(Pieces(t, {{"<|e", true}, {"|>", false}}), ElementsAre('<', '|', 'e', '|', '>'));
  EXPECT_THAT(Pieces(t, {{"<|e|>", true}, {"2", false}}), ElementsAre(kEnd, '2')) << "the longer one is half untrusted";
  EXPECT_THAT(Pieces(t, {{"<|e|>", false}, {"<|e|>", true}, {"<|e|>", false}}),
              ElementsAre('<', '|', 'e', '|', '>', kEnd, '<', '|', 'e', '|', '>'));
  EXPECT_THAT(Pieces(t, {{"", true}, {"h", false}, {"", false}, {"i", false}}), ElementsAre(kHi));
}

TEST(Tokenizer, AddedTokensComeBeforeNfc) {
  const Tokenizer t = Small();
  EXPECT_THAT(t.Encode("e\u0301"), ElementsAre(kEacute));
  // '>' + U+0338 would compose to U+226F; the token is taken out first.
  EXPECT_THAT(t.Encode("<|e|>\u0338", true), ElementsAre(kEnd, 0xcc, 0xb8));
}

TEST(Tokenizer, NormalizedAddedTokensAreMatchedInTheComposedText) {
  const Tokenizer t = FromJson(TestTokenizerJson({}, {{"K\u00e9", false, true}, {"<x>", false, true}})).value();
  EXPECT_THAT(t.Encode("\u212ae\u0301", true), ElementsAre(256)) << "Kelvin sign and combining accent";
  EXPECT_THAT(t.Encode("<x>a<x>", true), ElementsAre(257, 'a', 257));
  EXPECT_THAT(t.Encode("<x>\u0338", true), ElementsAre('<', 'x', 0xe2, 0x89, 0xaf)) << "> is no longer there";
  EXPECT_THAT(t.Encode("<x>"), ElementsAre('<', 'x', '>'));
  EXPECT_THAT(Pieces(t, {{"<x", true}, {">", false}}), ElementsAre('<', 'x', '>'));
  EXPECT_THAT(Pieces(t, {{"Ke", true}, {"\u0301", false}}), ElementsAre('K', 0xc3, 0xa9)) << "half of it is untrusted";
}

TEST(Tokenizer, InvalidUtf8IsReplacedAndNeverTrusted) {
  const Tokenizer t = Small();
  EXPECT_THAT(t.Encode("h\xffi"), ElementsAre('h', 0xef, 0xbf, 0xbd, 'i'));
  EXPECT_THAT(t.Encode("\xe4\xb8<|e|>\xc3", true), ElementsAre(0xef, 0xbf, 0xbd, kEnd, 0xef, 0xbf, 0xbd));
  // A character cut by a seam is whole again.
  EXPECT_THAT(Pieces(t, {{"\xc3", true}, {"\xa9", false}}), ElementsAre(kEacute));
  EXPECT_THAT(Pieces(t, {{"<|e|>\xc3", true}, {"\xa9\xff", false}, {"<|e|>", true}}),
              ElementsAre(kEnd, kEacute, 0xef, 0xbf, 0xbd, kEnd));
}

TEST(Tokenizer, Decodes) {
  const Tokenizer t = Small();
  const std::vector<int32_t> ids = {kEnd, kHi, kThink, kSpaceHi, -1, 100000, 0xc3};
  EXPECT_EQ(t.Decode(ids, false), "<|e|>hi<think> hi\xc3");
  EXPECT_EQ(t.Decode(ids, true), "hi<think> hi\xc3");
  EXPECT_EQ(t.Bytes(-5), "");
  EXPECT_EQ(t.Bytes(t.vocab_size()), "");
  EXPECT_FALSE(t.IsSpecial(-1));
  EXPECT_FALSE(t.IsSpecial(kThink));
  EXPECT_EQ(t.AddedTokenId("hi"), -1);
}

TEST(Tokenizer, RandomTextComesBackFromItsIds) {
  const Tokenizer t = Small();
  std::mt19937 rng(5);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    AppendUtf8(text, 'a');
    text += testing::RandomText(rng, {U'h', U'i', U' ', U'<', U'u', U'\n', 0xe9, 0x4e2d, 0x1f600, 0}, 40);
    ASSERT_EQ(t.Decode(t.Encode(text), false), text);
  }
}

TEST(Tokenizer, AMegabyteOfMarksOrSpacesOrLettersIsEncoded) {
  const Tokenizer t = Small();
  for (const std::string unit : {"\u0301\u0334", " ", "a", "<|e|", "'", "\xff"}) {
    std::string text;
    while (text.size() < (size_t{1} << 20)) text += unit;
    EXPECT_FALSE(t.Encode(text, true).empty());
  }
}

// --- files ---

TokenizerFiles OldFiles() {
  const Json json = TestTokenizerJson(kMerges);
  TokenizerFiles files;
  files.vocab_json = json["model"]["vocab"].dump();
  files.merges_txt = "#version: 0.2\n";
  for (const Json& merge : json["model"]["merges"]) *files.merges_txt += std::string(merge) + "\n";
  return files;
}

TEST(TokenizerFiles, VocabAndMergesWithAddedTokensFromTheConfig) {
  TokenizerFiles files = OldFiles();
  files.tokenizer_config_json = R"({"model_max_length": 1000000000000000019884624838656, "added_tokens_decoder": {
      "262": {"content": "<unk>", "special": true, "normalized": false},
      "300": {"content": "<|e|>", "special": true, "normalized": false},
      "301": {"content": "<think>", "special": false, "normalized": false}}})";
  files.added_tokens_json = R"({"<|e|>": 300, "<think>": 301})";
  const Tokenizer t = Tokenizer::FromFiles(files).value();
  EXPECT_THAT(t.Encode("hi<unk><think><|e|>", true), ElementsAre(kHi, kUnk, 301, 300));
  EXPECT_TRUE(t.IsSpecial(300));
  EXPECT_FALSE(t.IsSpecial(301));
  EXPECT_EQ(t.vocab_size(), 302);
  EXPECT_EQ(t.Bytes(280), "") << "a hole between the vocabulary and the added tokens";
}

TEST(TokenizerFiles, AddedTokensJsonAloneTakesSpecialFromTheConfigsRoles) {
  TokenizerFiles files = OldFiles();
  files.added_tokens_json = R"({"<e>": 300, "<f>": 301, "<g>": 302, "<h>": 303})";
  files.tokenizer_config_json =
      R"({"eos_token": "<e>", "pad_token": {"content": "<f>"}, "additional_special_tokens": ["<g>"], "bos_token": null})";
  const Tokenizer t = Tokenizer::FromFiles(files).value();
  EXPECT_TRUE(t.IsSpecial(300) && t.IsSpecial(301) && t.IsSpecial(302));
  EXPECT_FALSE(t.IsSpecial(303));
  EXPECT_THAT(t.Encode("<e><f><g><h>", true), ElementsAre(300, 301, 302, 303));
}

TEST(TokenizerFiles, TokenizerJsonIsPreferredAndItsMergesCount) {
  TokenizerFiles files = OldFiles();
  files.merges_txt = "#version: 0.2\n";  // a shorter list
  EXPECT_THAT(Tokenizer::FromFiles(files).value().Encode("hi"), ElementsAre('h', 'i'));
  files.tokenizer_json = TestTokenizerJson(kMerges).dump();
  EXPECT_THAT(Tokenizer::FromFiles(files).value().Encode("hi"), ElementsAre(kHi));
}

TEST(TokenizerFiles, MergesAsPairsAndCarriageReturns) {
  Json json = TestTokenizerJson(kMerges);
  for (Json& merge : json["model"]["merges"]) {
    const std::string text = merge;
    merge = Json::array({text.substr(0, text.find(' ')), text.substr(text.find(' ') + 1)});
  }
  EXPECT_THAT(FromJson(json).value().Encode(" hi"), ElementsAre(kSpaceHi));
  TokenizerFiles files = OldFiles();
  std::string with_returns;
  for (const char c : *files.merges_txt) with_returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  files.merges_txt = with_returns;
  EXPECT_THAT(Tokenizer::FromFiles(files).value().Encode(" hi"), ElementsAre(kSpaceHi));
}

TEST(TokenizerFiles, WithoutANormaliserNothingIsComposed) {
  Json json = TestTokenizerJson(kMerges, {{"<x>", false, true}});
  json["normalizer"] = nullptr;
  const Tokenizer t = FromJson(json).value();
  EXPECT_THAT(t.Encode("e\u0301<x>", true), ElementsAre('e', 0xcc, 0x81, 263));
}

// --- ids that other people's code made (reference/check_product_tokenizer.py --write) ---

std::string SourcePath(const std::string& path) { return std::string(MINICPM_SOURCE_DIR) + "/" + path; }

void ExpectVectors(const Tokenizer& tokenizer, const std::string& path, size_t at_least) {
  std::ifstream in(SourcePath(path));
  std::string line;
  size_t n = 0;
  while (std::getline(in, line)) {
    const Json vector = Json::parse(line);
    const std::string text = vector["text"];
    const std::vector<int32_t> ids = vector["ids"];
    ASSERT_EQ(tokenizer.Encode(text, vector["special"]), ids) << text;
    ++n;
  }
  EXPECT_GE(n, at_least) << path;
}

TEST(TokenizerVectors, TinyModels) {
  for (const std::string family : {"minicpm-v-2_6", "minicpm-v-4_5", "minicpm-o-4_5"}) {
    auto tokenizer = Tokenizer::Load(SourcePath("models/tiny/" + family));
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    ExpectVectors(*tokenizer, "tests/data/text/ids-" + family + ".jsonl", 100);
  }
}

TEST(TokenizerVectors, SampleIdsOfTheRealVocabulary) {
  const std::string folder = SourcePath(".cache/test-data/tokenizer-qwen3");
  if (!std::filesystem::exists(folder + "/tokenizer.json")) {
    GTEST_SKIP() << "tools/get-test-data tokenizer has not been run";
  }
  auto tokenizer = Tokenizer::Load(folder);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  ExpectVectors(*tokenizer, "tests/data/text/ids-qwen.jsonl", 10);
}

}  // namespace
}  // namespace minicpm
