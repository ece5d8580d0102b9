// Tests of JsonObject: every getter's happy path and its exact sentence, limits, and hostile text.
#include "store/json.h"

#include "gtest/gtest.h"

namespace minicpm {
namespace {

JsonObject Good(std::string_view text) {
  auto object = JsonObject::Parse(text, "c.json");
  EXPECT_TRUE(object.has_value()) << object.error().message;
  return std::move(object).value();
}

std::string ParseError(std::string_view text) {
  const auto object = JsonObject::Parse(text, "c.json");
  return object.has_value() ? "parsed" : object.error().message;
}

template <class T>
std::string Message(const Result<T>& result) {
  return result.has_value() ? "no error" : result.error().message;
}

TEST(JsonObject, ReadsEveryKind) {
  const JsonObject o = Good(
      R"({"i": -3, "u": 9007199254740993, "x": 1.5, "t": true, "s": "\u00e9", "n": null,
          "one": 7, "list": [1, 2], "mean": [0.5, 1], "names": ["a", "b"], "name": "c",
          "in": {"deep": {"k": 4}}, "objects": [{"k": 1}, {"k": 2}]})");
  EXPECT_EQ(o.Int("i", -10, 10).value(), -3);
  EXPECT_EQ(o.Int("u", 0, INT64_MAX).value(), 9007199254740993);
  EXPECT_EQ(o.Number("x").value(), 1.5);
  EXPECT_EQ(o.Number("i").value(), -3.0);
  EXPECT_TRUE(o.Bool("t").value());
  EXPECT_EQ(o.String("s").value(), "\xc3\xa9");
  EXPECT_FALSE(o.Has("n"));
  EXPECT_FALSE(o.Has("absent"));
  EXPECT_TRUE(o.Has("i"));
  EXPECT_EQ(o.IntListOr("one", {}, 0, 9).value(), std::vector<int64_t>({7}));
  EXPECT_EQ(o.IntListOr("list", {}, 0, 9).value(), std::vector<int64_t>({1, 2}));
  EXPECT_EQ(o.NumberListOr("mean", {}).value(), std::vector<double>({0.5, 1.0}));
  EXPECT_EQ(o.StringListOr("names", {}).value(), std::vector<std::string>({"a", "b"}));
  EXPECT_EQ(o.StringListOr("name", {}).value(), std::vector<std::string>({"c"}));
  EXPECT_EQ(o.Object("in").value().Object("deep").value().Int("k", 0, 9).value(), 4);
  EXPECT_EQ(o.ObjectList("objects").value().at(1).Int("k", 0, 9).value(), 2);
  EXPECT_EQ(o.Object("in").value().Keys(), std::vector<std::string>({"deep"}));
}

TEST(JsonObject, AbsentAndNullGiveTheFallback) {
  const JsonObject o = Good(R"({"n": null})");
  for (const char* key : {"n", "absent"}) {
    EXPECT_EQ(o.IntOr(key, 5, 10, 20).value(), 5);
    EXPECT_EQ(o.NumberOr(key, 0.5).value(), 0.5);
    EXPECT_TRUE(o.BoolOr(key, true).value());
    EXPECT_EQ(o.StringOr(key, "d").value(), "d");
    EXPECT_FALSE(o.ObjectOrNull(key).value().has_value());
    EXPECT_EQ(o.IntListOr(key, {1}, 0, 1).value(), std::vector<int64_t>({1}));
    EXPECT_EQ(o.NumberListOr(key, {1}).value(), std::vector<double>({1}));
    EXPECT_EQ(o.StringListOr(key, {"x"}).value(), std::vector<std::string>({"x"}));
    EXPECT_TRUE(o.ObjectList(key).value().empty());
  }
  EXPECT_EQ(Message(o.Int("n", 1, 2)), "c.json: \"n\" is missing, it must be a whole number from 1 to 2");
}

TEST(JsonObject, SaysWhatWasExpectedAndFound) {
  const JsonObject o = Good(
      R"({"i": 70000, "x": 1.0, "s": "a\u0001b", "l": [1, "z"], "big": 18446744073709551615, "v": {"w": {"k": []}}, "t": 1})");
  EXPECT_EQ(Message(o.Int("i", 1, 65536)), "c.json: \"i\" must be a whole number from 1 to 65536, but is 70000");
  EXPECT_EQ(Message(o.IntOr("x", 1, 1, 2)), "c.json: \"x\" must be a whole number from 1 to 2, but is 1.0");
  EXPECT_EQ(Message(o.Int("big", 0, INT64_MAX)),
            "c.json: \"big\" must be a whole number of at least 0, but is 18446744073709551615");
  EXPECT_EQ(Message(o.Int("s", INT64_MIN, INT64_MAX)), "c.json: \"s\" must be a whole number, but is \"a?b\"");
  EXPECT_EQ(Message(o.NumberOr("i", 0, 0, 1)), "c.json: \"i\" must be a number from 0.0 to 1.0, but is 70000");
  EXPECT_EQ(Message(o.Number("s")), "c.json: \"s\" must be a number, but is \"a?b\"");
  EXPECT_EQ(Message(o.Bool("t")), "c.json: \"t\" must be true or false, but is 1");
  EXPECT_EQ(Message(o.String("v")), "c.json: \"v\" must be a string, but is an object");
  EXPECT_EQ(Message(o.Object("l")), "c.json: \"l\" must be an object, but is a list of 2");
  EXPECT_EQ(Message(o.IntListOr("l", {}, 0, 9)),
            "c.json: every entry of \"l\" must be a whole number from 0 to 9, but one is \"z\"");
  EXPECT_EQ(Message(o.ObjectList("l")), "c.json: every entry of \"l\" must be an object, but one is 1");
  const JsonObject inner = o.Object("v").value().Object("w").value();
  EXPECT_EQ(inner.name(), "c.json: v.w");
  EXPECT_EQ(Message(inner.Int("k", 1, 2)), "c.json: \"v.w.k\" must be a whole number from 1 to 2, but is a list of 0");
  EXPECT_EQ(o.Complain("i", "divisible by 16").error().message, "c.json: \"i\" must be divisible by 16, but is 70000");
}

TEST(JsonObject, RefusesBrokenText) {
  EXPECT_EQ(ParseError("[1]"), "c.json: expected a JSON object, found a list of 1");
  EXPECT_EQ(ParseError(R"({"a": {"k": 1, "k": 2}})"), "c.json: holds the key \"k\" twice");
  for (const char* text : {"", " ", "{", R"({"a": 1)", R"({"a": 1}})", R"({"a" 1})", R"({"a": 1,})", R"({"a": nan})",
                           R"({"a": 1e999})", R"({'a': 1})", "{\"a\": \"\xff\"}", R"({"a": "\ud800"})", "\xff\xfe{"}) {
    const std::string message = ParseError(text);
    EXPECT_TRUE(message.starts_with("c.json: not valid JSON: ")) << text << " -> " << message;
  }
}

TEST(JsonObject, LimitsDepthAndSize) {
  const auto nested = [](int depth) {
    return "{\"a\": " + std::string(depth - 1, '[') + std::string(depth - 1, ']') + "}";
  };
  EXPECT_EQ(ParseError(nested(32)), "parsed");
  EXPECT_EQ(ParseError(nested(33)), "c.json: nests 33 levels deep, at most 32 are accepted");
  EXPECT_EQ(ParseError(std::string(3000000, '[')), "c.json: nests 3000000 levels deep, at most 32 are accepted");
  EXPECT_EQ(ParseError(R"({"a": "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[[[["})"), "parsed");
  const auto large = JsonObject::Parse(std::string((4 << 20) + 1, ' '), "c.json");
  ASSERT_FALSE(large.has_value());
  EXPECT_EQ(large.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(large.error().message, "c.json: has 4194305 bytes, at most 4194304 are accepted");
}

TEST(JsonObject, SharedTextOutlivesTheParent) {
  Result<JsonObject> inner = [] { return Good(R"({"a": {"k": "still here"}})").Object("a"); }();
  EXPECT_EQ(inner->String("k").value(), "still here");
}

}  // namespace
}  // namespace minicpm
