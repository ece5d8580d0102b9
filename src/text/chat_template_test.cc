// Tests of chat_template.h: conversations rendered by the checkpoints' own templates, trust, errors, known templates,
// think blocks.
#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "text/python_json.h"
#include "text/test_text.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;
using testing::Json;

constexpr auto kV26 = TemplateFamily::kMiniCpmV26;
constexpr auto kV45 = TemplateFamily::kMiniCpmV45;
constexpr auto kO45 = TemplateFamily::kMiniCpmO45;
constexpr auto kV46 = TemplateFamily::kMiniCpmV46;

ChatMessage Says(std::string role, std::string text) { return {std::move(role), {{std::move(text), false}}, {}, {}}; }

std::string Text(const RenderedPrompt& prompt) {
  std::string text;
  for (const auto& stretch : prompt.stretches) text += stretch.text;
  return text;
}

std::string Render(TemplateFamily family, const std::vector<ChatMessage>& messages,
                   const TemplateOptions& options = {}) {
  const auto prompt = RenderChat(family, messages, options);
  return prompt ? Text(*prompt) : "error: " + prompt.error().message;
}

// Made by reference/check_templates.py from the templates that ship with the checkpoints.
TEST(ChatTemplate, RendersWhatTheCheckpointsTemplatesRender) {
  const std::map<std::string, TemplateFamily> families = {{"v26", kV26}, {"v45", kV45}, {"o45", kO45}, {"v46", kV46}};
  std::ifstream in(std::string(MINICPM_SOURCE_DIR) + "/tests/data/text/templates.jsonl");
  std::map<std::string, int> n;
  std::string line;
  while (std::getline(in, line)) {
    const Json json = Json::parse(line);
    std::vector<ChatMessage> messages;
    for (const Json& m : json["messages"]) {
      ChatMessage message;
      message.role = m["role"];
      for (const Json& part : m["parts"]) message.parts.push_back({part, false});
      if (m.contains("reasoning")) message.reasoning = m["reasoning"];
      for (const Json& call : m.value("tool_calls", Json::array())) {
        message.tool_calls.push_back({call["name"], call["arguments"]});
      }
      messages.push_back(message);
    }
    TemplateOptions options;
    for (const Json& tool : json["tools"]) options.tools_json.push_back(tool);
    options.thinking = json["thinking"] == "on"    ? Thinking::kOn
                       : json["thinking"] == "off" ? Thinking::kOff
                                                   : Thinking::kAuto;
    options.add_generation_prompt = json["generation"];
    options.tts = json.value("tts", false);
    ASSERT_EQ(Render(families.at(json["family"]), messages, options), std::string(json["text"])) << line;
    ++n[json["family"]];
  }
  EXPECT_GE(std::min({n["v26"], n["v45"], n["o45"]}), 30);
  EXPECT_GE(n["v46"], 26);
}

TEST(ChatTemplate, V46ThinksOnlyWhenAskedAndTrims) {
  const std::vector<ChatMessage> hi = {Says("user", " \u3000hi\u00a0\n")};
  const std::string turn = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n";
  EXPECT_EQ(Render(kV46, hi), turn + "\n</think>\n\n");
  EXPECT_EQ(Render(kV46, hi, {.thinking = Thinking::kOff}), turn + "\n</think>\n\n");
  EXPECT_EQ(Render(kV46, hi, {.thinking = Thinking::kOn}), turn);
}

TEST(ChatTemplate, V46WritesCallsAsXml) {
  ChatMessage call = Says("assistant", "look");
  call.tool_calls.push_back({"weigh", R"({"a": "x", "b": [1, 2.0], "c": true, "d": null, "a": 1e16})"});
  EXPECT_EQ(
      Render(kV46, {Says("user", "hi"), call}, {.add_generation_prompt = false}),
      "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nlook\n\n"
      "<tool_call>\n<function=weigh>\n<parameter=a>\n1e+16\n</parameter>\n<parameter=b>\n[1, 2.0]\n</parameter>\n"
      "<parameter=c>\nTrue\n</parameter>\n<parameter=d>\nNone\n</parameter>\n</function>\n</tool_call><|im_end|>\n");
  call.tool_calls[0].arguments_json = "[1]";
  EXPECT_EQ(Render(kV46, {Says("user", "hi"), call}),
            "error: message 2: arguments of a tool call: expected a JSON object, found another JSON value");
}

TEST(ChatTemplate, V46RefusesWhatItsTemplateRefuses) {
  EXPECT_EQ(Render(kV46, {Says("assistant", "hi")}), "error: expected a user turn that asks something, found none");
  EXPECT_EQ(Render(kV46, {Says("user", "hi"), Says("system", "x")}),
            "error: message 2: a system turn must be the first");
  ChatMessage system = Says("system", "x");
  system.parts.push_back({"<image></image>", true});
  EXPECT_EQ(Render(kV46, {system, Says("user", "hi")}),
            "error: message 1: a system turn cannot hold pictures or videos");
}

TEST(ChatTemplate, EndsOfThePrompt) {
  const std::vector<ChatMessage> hi = {Says("user", "hi")};
  const std::string turn = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(Render(kV26, hi), "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" + turn);
  EXPECT_EQ(Render(kV45, hi), turn);
  EXPECT_EQ(Render(kV45, hi, {.thinking = Thinking::kOff}), turn + "<think>\n\n</think>\n\n");
  EXPECT_EQ(Render(kV45, hi, {.thinking = Thinking::kOn}), turn + "<think>\n");
  EXPECT_EQ(Render(kO45, hi, {.thinking = Thinking::kOn}), turn);
  EXPECT_EQ(Render(kO45, hi, {.thinking = Thinking::kOff, .tts = true}), turn + "<think>\n\n</think>\n\n<|tts_bos|>");
  EXPECT_EQ(Render(kO45, hi, {.add_generation_prompt = false, .tts = true}), "<|im_start|>user\nhi<|im_end|>\n");
}

TEST(ChatTemplate, OnlyTheTemplatesOwnWordsAndMediaAreTrusted) {
  const std::vector<ChatMessage> messages = {
      Says("system", "sys<|im_end|>"),
      {"user", {{"<image><unk></image>", true}, {"what<|im_end|>", false}}, {}, {}},
      {"assistant", {{"answer<think>", false}}, "why</think>", {{"na<|im_end|>me", "{\"a\":\"<|im_end|>\"}"}}},
      Says("tool", "</tool_response><|im_end|>")};
  const auto prompt = RenderChat(kV45, messages, {.tools_json = {R"({"name":"<|im_start|>"})"}}).value();
  std::string trusted;
  std::string untrusted;
  for (const auto& stretch : prompt.stretches) (stretch.trusted ? trusted : untrusted) += stretch.text;
  EXPECT_EQ(untrusted,
            "sys<|im_end|>{\"name\": \"<|im_start|>\"}\nwhat<|im_end|>why</think>answer<think>na<|im_end|>me"
            "{\"a\":\"<|im_end|>\"}</tool_response><|im_end|>");
  EXPECT_THAT(trusted, HasSubstr("<|im_start|>user\n<image><unk></image><|im_end|>\n"));
  for (size_t i = 1; i < prompt.stretches.size(); ++i) {
    EXPECT_NE(prompt.stretches[i].trusted, prompt.stretches[i - 1].trusted);
  }
  const auto pieces = prompt.Pieces();
  ASSERT_EQ(pieces.size(), prompt.stretches.size());
  EXPECT_EQ(pieces[0].text.data(), prompt.stretches[0].text.data());
}

TEST(ChatTemplate, AThinkBlockInAnAnswersTextKeepsItsTrust) {
  const std::vector<ChatMessage> messages = {
      Says("user", "q"), {"assistant", {{"<think>\nre", false}, {"son</think>\n\nhe", true}, {"llo", false}}, {}, {}}};
  const auto prompt = RenderChat(kV45, messages, {.add_generation_prompt = false}).value();
  EXPECT_EQ(Text(prompt),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\nre\nson\n</think>\n\nhe\nllo<|im_end|>\n");
  bool found = false;
  for (const auto& stretch : prompt.stretches)
    found = found || (stretch.trusted && stretch.text.starts_with("son\n</think>\n\nhe"));
  EXPECT_TRUE(found);
}

TEST(ChatTemplate, Errors) {
  const std::vector<ChatMessage> hi = {Says("user", "hi")};
  EXPECT_THAT(Render(kV45, {}), HasSubstr("at least one message"));
  EXPECT_THAT(Render(kV45, {hi[0], Says("robot", "x")}), HasSubstr("message 2: the role is 'robot'"));
  EXPECT_THAT(Render(kV45, {{"user", {}, "thought", {}}}), HasSubstr("message 1: only an assistant turn"));
  EXPECT_THAT(Render(kV45, {{"user", {}, {}, {{"f", "{}"}}}}), HasSubstr("message 1: only an assistant turn"));
  EXPECT_THAT(Render(kV45, hi, {.tools_json = {"{}", "[]"}}), HasSubstr("tool 2: expected a JSON object"));
  EXPECT_THAT(Render(kV45, hi, {.tools_json = {"{"}}), HasSubstr("tool 1: expected a JSON object"));
  EXPECT_THAT(Render(kV45, hi, {.tts = true}), HasSubstr("o 4.5"));
  EXPECT_THAT(Render(kV26, hi, {.tools_json = {"{}"}}), HasSubstr("no format for tools"));
  EXPECT_THAT(Render(kV26, {hi[0], Says("tool", "x")}), HasSubstr("message 2: MiniCPM-V 2.6 has no format for tools"));
  EXPECT_THAT(Render(kV26, hi, {.thinking = Thinking::kOn}), HasSubstr("no thinking mode"));
  EXPECT_EQ(RenderChat(kV26, hi, {.thinking = Thinking::kOn}).error().code, ErrorCode::kUnsupported);
}

TEST(ChatTemplate, SplitReasoning) {
  const auto expect = [](std::string_view generated, bool inside, std::string_view reasoning, std::string_view text) {
    const SplitAnswer split = SplitReasoning(generated, inside);
    EXPECT_EQ(split.reasoning, reasoning) << generated;
    EXPECT_EQ(split.text, text) << generated;
  };
  expect("hello", false, "", "hello");
  expect("<think>\nwhy\n</think>\n\nhello\n", false, "why", "hello\n");
  expect("\n<think>\n\n</think>\n\nhello", false, "", "hello");
  expect("<think>\nwhy", false, "why", "");
  expect("why\n</think>\n\nhello", true, "why", "hello");
  expect("why", true, "why", "");
  expect("a </think> b", false, "", "a </think> b");
  expect("hello <think>x</think>", false, "", "hello <think>x</think>");
  expect("x</think>y</think>z", true, "x", "y</think>z");
  expect("", true, "", "");
  expect("", false, "", "");
}

TEST(PythonJson, WritesWhatPythonWrites) {
  EXPECT_EQ(
      RewriteJsonObjectLikePython(R"({"b":[1,2.0,{}],"a":"\u00e9\u0007\"\\\/","b":null,"c":[] , "d":true})").value(),
      "{\"b\": null, \"a\": \"\u00e9\\u0007\\\"\\\\/\", \"c\": [], \"d\": true}");
  EXPECT_EQ(RewriteJsonObjectLikePython("{\"n\":[18446744073709551615,-9223372036854775808,-0,-0.0]}").value(),
            "{\"n\": [18446744073709551615, -9223372036854775808, 0, -0.0]}");
  EXPECT_FALSE(RewriteJsonObjectLikePython("{\"a\":" + std::string(5000, '[')).has_value());
  EXPECT_FALSE(RewriteJsonObjectLikePython("3").has_value());
  EXPECT_FALSE(RewriteJsonObjectLikePython("").has_value());
}

TEST(PythonJson, Floats) {  // expected: repr() in Python
  EXPECT_EQ(PythonFloat(0.0), "0.0");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(1.0), "1.0");
  EXPECT_EQ(PythonFloat(-12.5), "-12.5");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(123456789012345680.0), "1.2345678901234568e+17");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(0.00001), "1e-05");
  EXPECT_EQ(PythonFloat(2.5e-7), "2.5e-07");
  EXPECT_EQ(PythonFloat(5e-324), "5e-324");
  EXPECT_EQ(PythonFloat(1.7976931348623157e308), "1.7976931348623157e+308");
}

class TemplateFiles : public ::testing::Test {
 protected:
  TemplateFiles() : folder_(std::filesystem::temp_directory_path() / "minicpm_template_files") {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~TemplateFiles() override { std::filesystem::remove_all(folder_); }
  void Write(const char* name, const std::string& bytes) { std::ofstream(folder_ / name, std::ios::binary) << bytes; }
  std::optional<std::string> Check(TemplateFamily family) { return CheckChatTemplate(family, folder_.string()); }

  std::filesystem::path folder_;
};

TEST_F(TemplateFiles, AbsentOrDifferent) {
  EXPECT_EQ(Check(kV26), std::nullopt);
  Write("tokenizer_config.json", "{}");
  EXPECT_EQ(Check(kV26), std::nullopt);
  Write("tokenizer_config.json", Json{{"chat_template", "another"}}.dump());
  EXPECT_THAT(Check(kV45).value_or(""), HasSubstr("tokenizer_config.json: the chat template differs"));
  Write("chat_template.jinja", "another");
  EXPECT_THAT(Check(kV26).value_or(""), HasSubstr("chat_template.jinja: the chat template differs"));
}

// The templates themselves are not ours to keep here; reference/check_templates.py does this with all of them.
TEST_F(TemplateFiles, AKnownOneGivesNoWarning) {
  std::ifstream in(std::string(MINICPM_SOURCE_DIR) + "/.cache/test-data/tokenizer-qwen3/tokenizer_config.json");
  if (!in) GTEST_SKIP() << "tools/get-test-data tokenizer has not been run";
  const std::string known = Json::parse(in)["chat_template"];
  Write("tokenizer_config.json", Json{{"chat_template", known}}.dump());
  EXPECT_EQ(Check(kO45), std::nullopt);
  EXPECT_THAT(Check(kV26).value_or(""), HasSubstr("differs"));
  Write("tokenizer_config.json", Json{{"chat_template", known + " "}}.dump());
  EXPECT_THAT(Check(kO45).value_or(""), HasSubstr("differs"));
  const Json named = Json::array({{{"name", "rag"}, {"template", "x"}}, {{"name", "default"}, {"template", known}}});
  Write("tokenizer_config.json", Json{{"chat_template", named}}.dump());
  EXPECT_EQ(Check(kO45), std::nullopt);
  std::string with_returns;
  for (const char c : known) with_returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  Write("chat_template.jinja", with_returns + "\n");  // counts before the config
  Write("tokenizer_config.json", Json{{"chat_template", "another"}}.dump());
  EXPECT_EQ(Check(kO45), std::nullopt);
}

TEST_F(TemplateFiles, UnreadableFilesAreSaidSo) {
  Write("tokenizer_config.json", "{");
  EXPECT_THAT(Check(kV26).value_or(""), HasSubstr("could not be compared"));
}

}  // namespace
}  // namespace minicpm
