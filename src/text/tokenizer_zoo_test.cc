// Broken tokenizer files: each gives one error with the right code, whose sentence names the file and the entry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "text/test_text.h"
#include "text/tokenizer.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;
using testing::Json;
using testing::Mapped;
using testing::TestTokenizerJson;

Json Good() { return TestTokenizerJson({{"a", "b"}, {"ab", "c"}}, {{"<x>"}}); }

void ExpectError(const Result<Tokenizer>& result, ErrorCode code, const std::vector<std::string>& words) {
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, code) << result.error().message;
  for (const std::string& word : words) EXPECT_THAT(result.error().message, HasSubstr(word));
  EXPECT_LT(result.error().message.size(), 1000U);
}

struct Animal {
  const char* name;
  std::function<void(Json&)> breaks;
  ErrorCode code;
  std::vector<std::string> words;
};

const auto kCorrupt = ErrorCode::kCorrupt;
const auto kUnsupported = ErrorCode::kUnsupported;

TEST(TokenizerZoo, TheUnbrokenOneLoads) { EXPECT_TRUE(testing::FromJson(Good()).has_value()); }

TEST(TokenizerZoo, ContentsOfTokenizerJson) {
  const std::vector<Animal> animals = {
      {"dangling left", [](Json& j) { j["model"]["merges"].push_back("zz b"); }, kCorrupt, {"merge 2", "'zz'"}},
      {"dangling right", [](Json& j) { j["model"]["merges"].push_back("a zz"); }, kCorrupt, {"merge 2", "'zz'"}},
      {"dangling result", [](Json& j) { j["model"]["merges"].push_back("b a"); }, kCorrupt, {"merge 2", "'ba'"}},
      {"merge of one part", [](Json& j) { j["model"]["merges"][0] = "ab"; }, kCorrupt, {"merge 0"}},
      {"merge of three parts", [](Json& j) { j["model"]["merges"][0] = "a b c"; }, kCorrupt, {"merge 0"}},
      {"merge with an empty part", [](Json& j) { j["model"]["merges"][1] = "ab "; }, kCorrupt, {"merge 1"}},
      {"merge of numbers", [](Json& j) { j["model"]["merges"][1] = {1, 2}; }, kCorrupt, {"merge 1"}},
      {"merge is an object", [](Json& j) { j["model"]["merges"][1] = Json::object(); }, kCorrupt, {"merge 1"}},
      {"merges are no list", [](Json& j) { j["model"]["merges"] = 3; }, kCorrupt, {"model.merges"}},
      {"no merges", [](Json& j) { j["model"].erase("merges"); }, kCorrupt, {"model.merges"}},
      {"no vocabulary", [](Json& j) { j["model"].erase("vocab"); }, kCorrupt, {"model.vocab"}},
      {"empty vocabulary", [](Json& j) { j["model"]["vocab"] = Json::object(); }, kCorrupt, {"empty"}},
      {"vocabulary is a list", [](Json& j) { j["model"]["vocab"] = Json::array(); }, kCorrupt, {"model.vocab"}},
      {"negative id", [](Json& j) { j["model"]["vocab"]["ab"] = -3; }, kCorrupt, {"'ab'"}},
      {"huge id", [](Json& j) { j["model"]["vocab"]["ab"] = 4194304; }, kCorrupt, {"'ab'", "4194303"}},
      {"id beyond 64 bits", [](Json& j) { j["model"]["vocab"]["ab"] = 18446744073709551615U; }, kCorrupt, {"'ab'"}},
      {"id is a string", [](Json& j) { j["model"]["vocab"]["ab"] = "5"; }, kCorrupt, {"'ab'"}},
      {"id is a fraction", [](Json& j) { j["model"]["vocab"]["ab"] = 1.5; }, kCorrupt, {"'ab'"}},
      {"id twice", [](Json& j) { j["model"]["vocab"]["ab"] = 97; }, kCorrupt, {"97", "'a'", "'ab'"}},
      {"a byte is missing", [](Json& j) { j["model"]["vocab"].erase("a"); }, kCorrupt, {"byte 97"}},
      {"long entry", [](Json& j) { j["model"]["vocab"][std::string(70000, 'x')] = 900; }, kCorrupt, {"too long"}},
      {"model is missing", [](Json& j) { j.erase("model"); }, kCorrupt, {"'model'"}},
      {"another model", [](Json& j) { j["model"]["type"] = "Unigram"; }, kUnsupported, {"'Unigram'", "BPE"}},
      {"model type is a number", [](Json& j) { j["model"]["type"] = 7; }, kUnsupported, {"BPE"}},
      {"suffix", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, kUnsupported, {"end_of_word_suffix"}},
      {"byte fallback", [](Json& j) { j["model"]["byte_fallback"] = true; }, kUnsupported, {"byte_fallback"}},
      {"ignore merges", [](Json& j) { j["model"]["ignore_merges"] = true; }, kUnsupported, {"ignore_merges"}},
      {"ignore merges maybe", [](Json& j) { j["model"]["ignore_merges"] = "no"; }, kCorrupt, {"ignore_merges"}},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, kUnsupported, {"dropout"}},
      {"another normaliser", [](Json& j) { j["normalizer"]["type"] = "NFKC"; }, kUnsupported, {"'NFKC'", "NFC"}},
      {"no pre-tokenizer", [](Json& j) { j["pre_tokenizer"] = nullptr; }, kUnsupported, {"pre_tokenizer"}},
      {"another pre-tokenizer",
       [](Json& j) { j["pre_tokenizer"] = {{"type", "Whitespace"}}; },
       kUnsupported,
       {"Whitespace"}},
      {"inverted",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; },
       kUnsupported,
       {"inverted"}},
      {"removed",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; },
       kUnsupported,
       {"Removed"}},
      {"string pattern",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", " "}}; },
       kUnsupported,
       {"Regex"}},
      {"prefix space",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = true; },
       kUnsupported,
       {"second step"}},
      {"broken pattern",
       [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "(["; },
       kCorrupt,
       {"pattern", "(["}},
      {"adds tokens around",
       [](Json& j) { j["post_processor"] = {{"type", "TemplateProcessing"}}; },
       kUnsupported,
       {"post_processor", "TemplateProcessing"}},
      {"another decoder", [](Json& j) { j["decoder"] = {{"type", "Metaspace"}}; }, kUnsupported, {"decoder"}},
      {"added tokens are no list", [](Json& j) { j["added_tokens"] = 1; }, kCorrupt, {"added_tokens"}},
      {"added token is no object", [](Json& j) { j["added_tokens"][0] = "x"; }, kCorrupt, {"added token"}},
      {"added token without content", [](Json& j) { j["added_tokens"][0].erase("content"); }, kCorrupt, {"content"}},
      {"added token without id", [](Json& j) { j["added_tokens"][0].erase("id"); }, kCorrupt, {"id"}},
      {"added token with a huge id", [](Json& j) { j["added_tokens"][0]["id"] = 1 << 30; }, kCorrupt, {"4194303"}},
      {"empty added token", [](Json& j) { j["added_tokens"][0]["content"] = ""; }, kCorrupt, {"added token"}},
      {"long added token", [](Json& j) { j["added_tokens"][0]["content"] = std::string(600, 'x'); }, kCorrupt, {"512"}},
      {"special is a word", [](Json& j) { j["added_tokens"][0]["special"] = "yes"; }, kCorrupt, {"special"}},
      {"strips", [](Json& j) { j["added_tokens"][0]["lstrip"] = true; }, kUnsupported, {"'<x>'", "lstrip"}},
      {"single word", [](Json& j) { j["added_tokens"][0]["single_word"] = true; }, kUnsupported, {"single_word"}},
      {"added token in another's place", [](Json& j) { j["added_tokens"][0]["id"] = 5; }, kCorrupt, {"'<x>'", "5"}},
      {"added token known by another id",
       [](Json& j) { j["added_tokens"][0]["content"] = "ab"; },
       kCorrupt,
       {"'ab'", "256", "258"}},
      {"two added tokens, one id",
       [](Json& j) {
         j["added_tokens"].push_back(j["added_tokens"][0]);
         j["added_tokens"][1]["content"] = "<y>";
       },
       kCorrupt,
       {"'<x>'", "'<y>'"}},
      {"one added token, two ids",
       [](Json& j) {
         j["added_tokens"].push_back(j["added_tokens"][0]);
         j["added_tokens"][1]["id"] = 400;
       },
       kCorrupt,
       {"'<x>'", "400", "258"}},
  };
  for (const Animal& animal : animals) {
    SCOPED_TRACE(animal.name);
    Json json = Good();
    animal.breaks(json);
    auto words = animal.words;
    words.emplace_back("tokenizer.json");
    ExpectError(testing::FromJson(json), animal.code, words);
  }
}

TEST(TokenizerZoo, FormOfTokenizerJson) {
  const std::string good = Good().dump();
  const auto load = [](std::string bytes) {
    TokenizerFiles files;
    files.tokenizer_json = std::move(bytes);
    return Tokenizer::FromFiles(files);
  };
  ASSERT_TRUE(load(good).has_value());
  for (size_t cut = 0; cut < good.size(); cut += 37)
    ExpectError(load(good.substr(0, cut)), kCorrupt, {"tokenizer.json"});
  ExpectError(load("[]"), kCorrupt, {"object"});
  ExpectError(load("null"), kCorrupt, {"object"});
  ExpectError(load(std::string(100000, '[')), kCorrupt, {"JSON"});
  ExpectError(load("{\"model\": " + std::string(100000, '{')), kCorrupt, {"JSON"});
  ExpectError(load(good + "x"), kCorrupt, {"JSON"});
  ExpectError(load("{\"model\": \"\xff\"}"), kCorrupt, {"JSON"});
  ExpectError(load(R"({"model": "\ud800"})"), kCorrupt, {"tokenizer.json"});
  std::string twice = good;
  const size_t at = twice.find("\"vocab\":{") + 9;
  twice.insert(at, "\"ab\":900,");
  ExpectError(load(twice), kCorrupt, {"'ab' twice"});
}

TEST(TokenizerZoo, ChangedBytesNeverCrash) {
  const std::string good = Good().dump();
  std::mt19937 rng(9);
  int loaded = 0;
  for (int i = 0; i < 3000; ++i) {
    TokenizerFiles files;
    files.tokenizer_json = good;
    for (int k = 0; k < 3; ++k) (*files.tokenizer_json)[rng() % good.size()] = static_cast<char>(rng());
    if (const auto tokenizer = Tokenizer::FromFiles(files)) {
      ++loaded;
      EXPECT_LE(tokenizer->Encode("abc <x> de\u0301", true).size(), 20U);
    }
  }
  EXPECT_LT(loaded, 3000);
}

TEST(TokenizerZoo, TheOtherFiles) {
  TokenizerFiles good;
  good.vocab_json = Good()["model"]["vocab"].dump();
  good.merges_txt = "a b\nab c\n";
  ASSERT_TRUE(Tokenizer::FromFiles(good).has_value());
  const auto with = [&](auto change) {
    TokenizerFiles files = good;
    change(files);
    return Tokenizer::FromFiles(files);
  };
  using F = TokenizerFiles;
  ExpectError(with([](F& f) { f.merges_txt.reset(); }), ErrorCode::kNotFound, {"tokenizer.json", "merges.txt"});
  ExpectError(with([](F& f) { f.vocab_json.reset(); }), ErrorCode::kNotFound, {"vocab.json"});
  ExpectError(with([](F& f) { f.vocab_json = "{"; }), kCorrupt, {"vocab.json"});
  ExpectError(with([](F& f) { f.vocab_json = R"({"a": []})"; }), kCorrupt, {"vocab.json", "'a'"});
  ExpectError(with([](F& f) { f.merges_txt = "a b\nab\n"; }), kCorrupt, {"merges.txt", "line 2", "'ab'"});
  ExpectError(with([](F& f) { f.merges_txt = "a b\n a b\n"; }), kCorrupt, {"merges.txt", "line 2"});
  ExpectError(with([](F& f) { f.merges_txt = "a b\na \xff\n"; }), kCorrupt, {"merges.txt", "merge 1"});
  ExpectError(with([](F& f) { f.merges_txt = "a b\n#version x\n"; }), kCorrupt, {"merges.txt", "'#version'"});
  ExpectError(with([](F& f) { f.added_tokens_json = "[1]"; }), kCorrupt, {"added_tokens.json"});
  ExpectError(with([](F& f) { f.added_tokens_json = R"({"<x>": -1})"; }), kCorrupt, {"added_tokens.json", "'<x>'"});
  const auto config = [&](const char* text) { return with([&](F& f) { f.tokenizer_config_json = text; }); };
  ExpectError(config("{"), kCorrupt, {"tokenizer_config.json", "JSON"});
  ExpectError(config("[]"), kCorrupt, {"tokenizer_config.json", "object"});
  ExpectError(config(R"({"added_tokens_decoder": []})"), kCorrupt, {"added_tokens_decoder"});
  ExpectError(config(R"({"added_tokens_decoder": {"x": {"content": "<x>"}}})"), kCorrupt, {"'x'"});
  ExpectError(config(R"({"added_tokens_decoder": {"99999999999999999999": {"content": "<x>"}}})"), kCorrupt, {"9999"});
  ExpectError(config(R"({"added_tokens_decoder": {"300": "<x>"}})"), kCorrupt, {"300", "content"});
  ExpectError(config(R"({"added_tokens_decoder": {"300": {"content": 5}}})"), kCorrupt, {"300", "content"});
  ExpectError(config(R"({"added_tokens_decoder": {"300": {"content": "<x>", "special": 1}}})"), kCorrupt, {"special"});
  ExpectError(config(R"({"added_tokens_decoder": {"300": {"content": "<x>", "rstrip": true}}})"), kUnsupported,
              {"rstrip"});
  ExpectError(config(R"({"added_tokens_decoder": {"3": {"content": "<x>"}}})"), kCorrupt, {"'<x>'", "the vocabulary"});
  ExpectError(config(std::string(100000, '[').c_str()), kCorrupt, {"tokenizer_config.json"});
}

TEST(TokenizerZoo, Folders) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "minicpm_tokenizer_zoo";
  std::filesystem::remove_all(folder);
  ExpectError(Tokenizer::Load(folder.string()), ErrorCode::kNotFound, {folder.string(), "tokenizer.json"});
  std::filesystem::create_directories(folder);
  const auto write = [&](const char* name, const std::string& bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
  };
  write("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  ExpectError(Tokenizer::Load(folder.string()), kCorrupt, {"tokenizer.json", "git-lfs pointer"});
  write("tokenizer.json", Good().dump());
  EXPECT_TRUE(Tokenizer::Load(folder.string()).has_value());
  std::filesystem::remove(folder / "tokenizer.json");
  std::filesystem::create_directory(folder / "tokenizer.json");
  ExpectError(Tokenizer::Load(folder.string()), ErrorCode::kIo, {"tokenizer.json", "not a file"});
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace minicpm
