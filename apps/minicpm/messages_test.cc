// Messages JSON: what it may say, what is refused with which sentence, and that writing and reading agree.
#include "messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "media_source.h"
#include "tests/support/temp_dir.h"

namespace minicpm::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// Pretends that every address is a picture of 2 x 1 pixels, three samples or a video of four seconds, except those with
// "missing" in them.
Result<AddressedMedia> FakeLoad(MediaType type, const std::string& url, const std::string& name) {
  if (url.find("missing") != std::string::npos) return Fail(ErrorCode::kNotFound, url + ": no such file");
  MessagePart part;
  if (type == MediaType::kAudio) {
    part.audio = MakeAudioInput(name, {0.0f, 0.5f, -0.5f});
    return AddressedMedia{part, url};
  }
  if (type == MediaType::kVideo) {
    auto video = std::make_shared<VideoInput>();
    video->name = name;
    video->info.duration_s = 4;
    part.video = video;
    return AddressedMedia{part, url};
  }
  part.image = MakeImageInput(name, Image{2, 1, {1, 2, 3, 4, 5, 6}});
  return AddressedMedia{part, url};
}

Result<Conversation> Parse(const std::string& json) { return ParseConversation(json, "m.json", FakeLoad); }

std::string ErrorOf(const std::string& json) {
  const auto conversation = Parse(json);
  return conversation.has_value() ? "no error" : conversation.error().message;
}

std::string Nested(int depth) {
  std::string s(static_cast<size_t>(depth), '[');
  return s + std::string(static_cast<size_t>(depth), ']');
}

TEST(Messages, PlainList) {
  const auto c = Parse(R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  ASSERT_TRUE(c.has_value()) << c.error().message;
  ASSERT_EQ(c->messages.size(), 2u);
  EXPECT_EQ(c->messages[0].role, "system");
  EXPECT_EQ(c->messages[1].parts[0].text, "Hi");
  EXPECT_TRUE(c->tools_json.empty());
}

TEST(Messages, PartsKeepTheirOrder) {
  const auto c = Parse(R"({"messages":[{"role":"user","content":[
      {"type":"text","text":"before"},{"type":"image_url","image_url":{"url":"a.png","detail":"high"}},
      {"type":"text","text":"after"}]}]})");
  ASSERT_TRUE(c.has_value()) << c.error().message;
  const auto& parts = c->messages[0].parts;
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].text, "before");
  ASSERT_NE(parts[1].image, nullptr);
  EXPECT_EQ(parts[1].image->name, "m.json: message 1, part 2");
  EXPECT_EQ(parts[2].text, "after");
  ASSERT_EQ(c->media.size(), 1u);
  EXPECT_EQ(c->media[0].url, "a.png");
}

TEST(Messages, SoundAndVideo) {
  const auto c = Parse(R"([{"role":"user","content":[
      {"type":"video_url","video_url":{"url":"v.mp4"}},
      {"type":"audio_url","audio_url":{"url":"a.wav"}},
      {"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]}])");
  ASSERT_TRUE(c.has_value()) << c.error().message;
  const auto& parts = c->messages[0].parts;
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_NE(parts[0].video, nullptr);
  EXPECT_NE(parts[1].audio, nullptr);
  EXPECT_NE(parts[2].audio, nullptr);
  EXPECT_EQ(c->media[1].url, "a.wav");
  EXPECT_EQ(c->media[2].url, "data:audio/x;base64,AAAA");
  const auto again = Parse(WriteConversation(*c));
  ASSERT_TRUE(again.has_value()) << again.error().message;
  EXPECT_NE(again->messages[0].parts[0].video, nullptr);
  EXPECT_EQ(again->media[2].url, c->media[2].url);
}

TEST(Messages, BrokenSoundAndVideo) {
  const auto part = [](const std::string& json) { return ErrorOf(R"([{"role":"user","content":[)" + json + "]}]"); };
  EXPECT_THAT(part(R"({"type":"input_audio","input_audio":"AAAA"})"), HasSubstr("\"data\""));
  EXPECT_THAT(part(R"({"type":"input_audio","input_audio":{"format":"wav"}})"), HasSubstr("\"data\" must be a text"));
  EXPECT_THAT(part(R"({"type":"video_url","video_url":{}})"), HasSubstr("\"url\" must be a text"));
  EXPECT_THAT(part(R"({"type":"smell_url","smell_url":{}})"), HasSubstr("video_url, found \"smell_url\""));
  EXPECT_THAT(ErrorOf(R"([{"role":"system","content":[{"type":"audio_url","audio_url":{"url":"a"}}]}])"),
              HasSubstr("cannot hold sound"));
}

TEST(Messages, ToolsAndToolCalls) {
  const auto c = Parse(R"({"tools":[{"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}}],
    "messages":[{"role":"user","content":"x"},
      {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[
        {"id":"1","type":"function","function":{"name":"f","arguments":"{\"b\": 1}"}},
        {"type":"function","function":{"name":"g","arguments":{"q":[1,2]}}}]},
      {"role":"tool","tool_call_id":"1","content":"42"}]})");
  ASSERT_TRUE(c.has_value()) << c.error().message;
  ASSERT_EQ(c->tools_json.size(), 1u);
  // The order of keys is the author's; templates print it.
  EXPECT_EQ(c->tools_json[0], R"({"type":"function","function":{"name":"f","parameters":{"z":1,"a":2}}})");
  const Message& turn = c->messages[1];
  EXPECT_TRUE(turn.parts.empty());
  EXPECT_EQ(turn.reasoning, "hm");
  ASSERT_EQ(turn.tool_calls.size(), 2u);
  EXPECT_EQ(turn.tool_calls[0].name, "f");
  EXPECT_EQ(turn.tool_calls[0].arguments_json, "{\"b\": 1}");
  EXPECT_EQ(turn.tool_calls[1].arguments_json, R"({"q":[1,2]})");
  EXPECT_EQ(c->messages[2].role, "tool");
}

TEST(Messages, RefusalsSayWhereAndWhat) {
  EXPECT_EQ(ErrorOf(""), "m.json: not valid JSON at byte 1");
  EXPECT_EQ(ErrorOf("[{]"), "m.json: not valid JSON at byte 3");
  EXPECT_THAT(ErrorOf("[] []"), StartsWith("m.json: not valid JSON at byte"));
  EXPECT_EQ(ErrorOf("3"), "m.json: expected a list of messages");
  EXPECT_EQ(ErrorOf("{}"), "m.json: expected a list of messages");
  EXPECT_EQ(ErrorOf("[]"), "m.json: expected at least one message, found none");
  EXPECT_EQ(ErrorOf(R"({"messages":[],"model":"x"})"),
            "m.json: expected the keys \"messages\" and \"tools\", found \"model\"");
  EXPECT_EQ(ErrorOf(R"([7])"), "m.json: message 1: expected an object, found 7");
  EXPECT_EQ(ErrorOf(R"([{"content":"x"}])"), "m.json: message 1: \"role\" must be a text, found nothing");
  EXPECT_EQ(ErrorOf(R"([{"role":"user","content":"x"},{"role":"robot","content":"x"}])"),
            "m.json: message 2: \"role\" must be system, user, assistant or tool, found \"robot\"");
  EXPECT_EQ(ErrorOf(R"([{"role":"user"}])"), "m.json: message 1: \"content\" is missing");
  EXPECT_EQ(ErrorOf(R"([{"role":"user","content":5}])"),
            "m.json: message 1: \"content\" must be a text or a list of parts, found 5");
  EXPECT_EQ(
      ErrorOf(R"([{"role":"user","content":[{"type":"input_audio"}]}])"),
      "m.json: message 1, part 1: \"input_audio\" must be an object {\"data\": ..., \"format\": ...}, found nothing");
  EXPECT_EQ(ErrorOf(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":"x"}]}])"),
            "m.json: message 1, part 2: \"image_url\" must be an object {\"url\": ...}, found \"x\"");
  EXPECT_EQ(ErrorOf(R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"missing.png"}}]}])"),
            "m.json: message 1, part 1: missing.png: no such file");
  EXPECT_EQ(ErrorOf(R"([{"role":"system","content":[{"type":"image_url","image_url":{"url":"a.png"}}]}])"),
            "m.json: message 1, part 1: a system message cannot hold a picture");
  EXPECT_EQ(ErrorOf(R"([{"role":"user","content":"x","tool_calls":[]}])"),
            "m.json: message 1: \"tool_calls\" belongs to assistant messages only");
  EXPECT_EQ(ErrorOf(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}])"),
            "m.json: message 1: \"arguments\" must hold a JSON object, found a list");
  EXPECT_THAT(ErrorOf(R"([{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}])"),
              StartsWith("m.json: message 1, arguments of a tool call: not valid JSON"));
  EXPECT_EQ(ErrorOf(R"({"tools":[1],"messages":[]})"), "m.json: each tool must be an object, found 1");
}

TEST(Messages, HostileJson) {
  EXPECT_EQ(ErrorOf(Nested(65)), "m.json: expected at most 64 levels, found more");
  EXPECT_EQ(ErrorOf(Nested(1000000)), "m.json: expected at most 64 levels, found more");
  EXPECT_EQ(ErrorOf(R"([{"role":"user","role":"system","content":"x"}])"),
            "m.json: the key \"role\" stands twice in one object");
  EXPECT_THAT(ErrorOf("[{\"role\":\"user\",\"content\":\"\xff\xfe\"}]"), StartsWith("m.json: not valid JSON"));
  EXPECT_THAT(ErrorOf(R"([{"role":"user","content":"\ud800"}])"), StartsWith("m.json: not valid JSON"));
  // Quoted input is cut and printable.
  const std::string error = ErrorOf("[{\"role\":\"\\u001b[2J" + std::string(5000, 'x') + "\"}]");
  EXPECT_LT(error.size(), 300u);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

TEST(Messages, EveryPrefixAndEveryFlippedByteIsAnsweredWithoutACrash) {
  const std::string good = R"({"tools":[{"a":1}],"messages":[{"role":"user","content":[{"type":"text","text":"é"}]},)"
                           R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}]})";
  ASSERT_TRUE(Parse(good).has_value()) << ErrorOf(good);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(Parse(good.substr(0, n)).has_value()) << n;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int bit : {0, 1, 5, 7}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      const auto c = Parse(bad);
      if (!c.has_value()) {
        EXPECT_THAT(c.error().message, StartsWith("m.json"));
      }
    }
  }
}

TEST(Messages, WhatIsWrittenIsReadBack) {
  const std::string text = R"({"messages":[{"role":"system","content":"s"},
    {"role":"user","content":[{"type":"image_url","image_url":{"url":"/p/a.png"}},{"type":"text","text":"q"}]},
    {"role":"assistant","content":"a","reasoning_content":"r",
     "tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"x\":1}"}}]}],"tools":[{"n":1}]})";
  const auto first = Parse(text);
  ASSERT_TRUE(first.has_value()) << first.error().message;
  const std::string written = WriteConversation(*first);
  const auto second = Parse(written);
  ASSERT_TRUE(second.has_value()) << second.error().message << written;
  EXPECT_EQ(WriteConversation(*second), written);
  ASSERT_EQ(second->messages.size(), 3u);
  EXPECT_EQ(second->media[0].url, "/p/a.png");
  EXPECT_EQ(second->messages[1].parts[1].text, "q");
  EXPECT_EQ(second->messages[2].reasoning, "r");
  EXPECT_EQ(second->messages[2].tool_calls[0].arguments_json, "{\"x\":1}");
  EXPECT_EQ(second->tools_json[0], R"({"n":1})");
}

TEST(Messages, SystemMessageIsSetReplacedAndRemoved) {
  auto c = *Parse(R"([{"role":"user","content":"x"}])");
  SetSystem(c, "one");
  SetSystem(c, "two");
  ASSERT_EQ(c.messages.size(), 2u);
  EXPECT_EQ(c.messages[0].role, "system");
  EXPECT_EQ(c.messages[0].parts[0].text, "two");
  SetSystem(c, "");
  ASSERT_EQ(c.messages.size(), 1u);
  EXPECT_EQ(c.messages[0].role, "user");
}

std::string Decoded(std::string_view base64) {
  const auto bytes = DecodeBase64(base64);
  if (!bytes.has_value()) return "error: " + bytes.error().message;
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

TEST(Base64, VectorsOfRfc4648) {
  EXPECT_EQ(Decoded(""), "");
  EXPECT_EQ(Decoded("Zg=="), "f");
  EXPECT_EQ(Decoded("Zm8="), "fo");
  EXPECT_EQ(Decoded("Zm9v"), "foo");
  EXPECT_EQ(Decoded("Zm9vYg=="), "foob");
  EXPECT_EQ(Decoded("Zm9vYmE="), "fooba");
  EXPECT_EQ(Decoded("Zm9vYmFy"), "foobar");
  EXPECT_EQ(Decoded("+/+/"), "\xfb\xff\xbf");
}

TEST(Base64, BrokenTextIsRefused) {
  for (const char* text :
       {"Z", "Zg", "Zg=", "Zm9", "Z===", "====", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "Zg==Zg==", "Zm-_"}) {
    EXPECT_THAT(Decoded(text), StartsWith("error: base64 text: ")) << text;
  }
}

std::string PathOf(const std::string& url, const std::string& base = "/base") {
  const auto source = ResolveMediaUrl(url, base);
  if (!source.has_value()) return "error: " + source.error().message;
  return source->path.empty()
             ? "bytes: " + std::string(reinterpret_cast<const char*>(source->bytes.data()), source->bytes.size())
             : source->path;
}

TEST(PictureUrls, PathsAndFileUrls) {
  EXPECT_EQ(PathOf("a.png"), "/base/a.png");
  EXPECT_EQ(PathOf("../x/a b.png"), "/base/../x/a b.png");
  EXPECT_EQ(PathOf("/abs/a.png"), "/abs/a.png");
  EXPECT_EQ(PathOf("a.png", ""), "a.png");
  EXPECT_EQ(PathOf("photo:1.png"), "/base/photo:1.png");
  EXPECT_EQ(PathOf("50%25.png"), "/base/50%25.png");  // a path is taken as it stands
  EXPECT_EQ(PathOf("file:///abs/a%20b.png"), "/abs/a b.png");
  EXPECT_EQ(PathOf("file://localhost/abs/a.png"), "/abs/a.png");
  EXPECT_EQ(PathOf("file://a.png"), "/base/a.png");
  EXPECT_EQ(PathOf("FILE:///A.png"), "/A.png");
  EXPECT_EQ(PathOf("file:///a%C3%A9.png"), "/a\xc3\xa9.png");
}

TEST(PictureUrls, Data) {
  EXPECT_EQ(PathOf("data:image/png;base64,Zm9v"), "bytes: foo");
  EXPECT_EQ(PathOf("DATA:;BASE64,Zm9v"), "bytes: foo");
  EXPECT_THAT(PathOf("data:image/png,abc"), HasSubstr("expected data:TYPE/SUBTYPE;base64,BYTES"));
  EXPECT_THAT(PathOf("data:image/png;base64"), HasSubstr("expected data:TYPE/SUBTYPE;base64,BYTES"));
  EXPECT_THAT(PathOf("data:image/png;base64,"), HasSubstr("holds no bytes"));
  EXPECT_THAT(PathOf("data:image/png;base64,Zm9"), HasSubstr("base64 text"));
}

TEST(PictureUrls, NothingIsFetched) {
  EXPECT_EQ(PathOf("https://example.com/a.png"),
            "error: URL \"https://example.com/a.png\": nothing is fetched from the network, expected a path or a "
            "data: URL");
  EXPECT_THAT(PathOf("HTTP://example.com/a.png"), HasSubstr("nothing is fetched"));
  EXPECT_THAT(PathOf("ftp://example.com/a.png"), HasSubstr("expected a path, a file:// or a data: URL"));
  for (const char* url : {"", "file://", "file:///a%00b", "file:///a%2", "file:///a%zz"}) {
    EXPECT_THAT(PathOf(url), StartsWith("error: ")) << url;
  }
}

TEST(MessagesFile, PicturesLieBesideIt) {
  const test::TempDir dir;
  const std::string path = dir.Write(
      "talk/m.json", R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"pic/dot.bmp"}}]}])");
  const MediaFlags flags;
  MediaLoader loader(flags);
  EXPECT_THAT(ReadConversation(path, loader).error().message, HasSubstr(dir.File("talk/pic/dot.bmp")));
  // A 1 x 1 picture: file header, 40-byte info header, one padded row of blue, green, red.
  std::string bmp("BM\x3a\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\1\0\0\0\1\0\0\0\1\0\x18\0\0\0\0\0\4\0\0\0", 38);
  bmp += std::string(16, '\0') + std::string("\1\2\3\0", 4);
  dir.Write("talk/pic/dot.bmp", bmp);
  const auto c = ReadConversation(path, loader);
  ASSERT_TRUE(c.has_value()) << c.error().message;
  EXPECT_EQ(c->messages[0].parts[0].image->image.rgb, (std::vector<uint8_t>{3, 2, 1}));
  EXPECT_EQ(c->media[0].url, dir.File("talk/pic/dot.bmp"));
}

}  // namespace
}  // namespace minicpm::cli
