// Tests of the schema validator, and of the schemas in docs/json/ themselves.
// Not of what the program prints: the tests of apps/ do that with this validator.
#include "tests/support/json_schema.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace minicpm::testing {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

json GoodRun() {
  return json::parse(R"({
    "text": "a cup", "reasoning": "", "token_ids": [64, 10525], "finish_reason": "stop",
    "usage": {"prompt_tokens": 215, "completion_tokens": 2, "image_tokens": 192, "audio_tokens": 0, "video_tokens": 0,
              "image_views": 3, "cached_tokens": 0},
    "timing_ms": {"load": 1.5, "image_decode": 2, "image_encode": 3, "audio_encode": 0, "prefill": 4, "first_token": 9.1,
                  "decode": 5, "total": 20},
    "model": {"family": "minicpm-v-4_5", "weights_sha256": null, "engine": "native", "isa": "avx2", "threads": 2}
  })");
}

TEST(JsonSchemaTest, EverySchemaOfTheDocumentsIsSound) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MINICPM_SOURCE_DIR) + "/docs/json")) {
    const std::string name = entry.path().filename().string();
    ASSERT_THAT(name, ::testing::EndsWith(".schema.json"));
    const json schema = LoadSchema(name);
    EXPECT_THAT(CheckSchema(schema), IsEmpty()) << name;
    EXPECT_EQ(schema.value("$schema", ""), "https://json-schema.org/draft/2020-12/schema") << name;
    EXPECT_EQ(schema.value("$id", ""), name);
    ++count;
  }
  EXPECT_GE(count, 2);
}

TEST(JsonSchemaTest, AcceptsAGoodAnswerAndKeysThatWereAdded) {
  json run = GoodRun();
  EXPECT_THAT(ValidateJson(LoadSchema("run.schema.json"), run), IsEmpty());
  run["later"] = "an added key";
  run["usage"]["later"] = 1;
  EXPECT_THAT(ValidateJson(LoadSchema("run.schema.json"), run), IsEmpty());
}

TEST(JsonSchemaTest, NamesWhatIsMissingOrWrong) {
  const json schema = LoadSchema("run.schema.json");
  json run = GoodRun();
  run["usage"].erase("image_views");
  EXPECT_THAT(ValidateJson(schema, run), ElementsAre("/usage: lacks 'image_views'"));
  run = GoodRun();
  run["token_ids"][1] = 1.5;
  EXPECT_THAT(ValidateJson(schema, run), ElementsAre(HasSubstr("/token_ids/1: expected \"integer\", found number")));
  run = GoodRun();
  run["finish_reason"] = "tired";
  EXPECT_THAT(ValidateJson(schema, run), ElementsAre(HasSubstr("/finish_reason: expected one of")));
  run = GoodRun();
  run["timing_ms"]["decode"] = -1;
  EXPECT_THAT(ValidateJson(schema, run), ElementsAre(HasSubstr("/timing_ms/decode: -1 is below the minimum")));
  run = GoodRun();
  run["model"]["weights_sha256"] = 7;
  EXPECT_THAT(ValidateJson(schema, run),
              ElementsAre(HasSubstr("/model/weights_sha256: expected [\"string\",\"null\"]")));
  EXPECT_THAT(ValidateJson(schema, json::array()), ElementsAre(HasSubstr("/: expected \"object\"")));
}

TEST(JsonSchemaTest, FollowsReferencesAndAdditionalProperties) {
  const json schema = json::parse(R"({"type": "object", "additionalProperties": {"$ref": "#/$defs/n"},
    "$defs": {"n": {"type": "integer", "maximum": 3}}})");
  EXPECT_THAT(ValidateJson(schema, json{{"a", 3}}), IsEmpty());
  EXPECT_THAT(ValidateJson(schema, json{{"a", 4}}), ElementsAre(HasSubstr("/a: 4 is above the maximum")));
  const json closed = json::parse(R"({"properties": {"a": {}}, "additionalProperties": false})");
  EXPECT_THAT(ValidateJson(closed, json{{"b", 1}}), ElementsAre(HasSubstr("unexpected key 'b'")));
}

TEST(JsonSchemaTest, CountsItems) {
  const json schema = json::parse(R"({"type": "array", "minItems": 1, "maxItems": 2, "items": {"minLength": 1}})");
  EXPECT_THAT(ValidateJson(schema, json::array()), ElementsAre(HasSubstr("too few")));
  EXPECT_THAT(ValidateJson(schema, json{"a", "b", "c"}), ElementsAre(HasSubstr("too many")));
  EXPECT_THAT(ValidateJson(schema, json{""}), ElementsAre(HasSubstr("/0: the string is too short")));
}

TEST(JsonSchemaTest, RefusesKeywordsItDoesNotKnow) {
  const json schema = json::parse(R"({"type": "string", "pattern": "^a"})");
  EXPECT_THAT(ValidateJson(schema, "b"), ElementsAre(HasSubstr("'pattern' is not supported")));
  EXPECT_THAT(CheckSchema(json::parse(R"({"properties": {"a": {"oneOf": []}}})")),
              ElementsAre(HasSubstr("#/properties/a")));
  EXPECT_THAT(CheckSchema(json::parse(R"({"required": ["a"], "items": {"$ref": "#/$defs/x"}})")),
              ::testing::UnorderedElementsAre(HasSubstr("requires \"a\""), HasSubstr("leads nowhere")));
}

TEST(JsonSchemaTest, RefusesTextThatIsNotOneDocument) {
  EXPECT_THAT(ValidateText("run.schema.json", GoodRun().dump()), IsEmpty());
  EXPECT_THAT(ValidateText("run.schema.json", GoodRun().dump() + "progress"),
              Contains(HasSubstr("not one JSON document")));
}

}  // namespace
}  // namespace minicpm::testing
