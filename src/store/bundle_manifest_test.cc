// bundle.json read and written, hostile ones refused; a weights file that does not fit its manifest is refused.
#include "store/bundle_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/checkpoint.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kDigest(64, 'a');
constexpr uint64_t kInt8Bytes = 64 + 16 * 16;

// Data of 448 bytes: an INT8 matrix [16, 16], a pad, a BF16 vector, a pad.
BundleManifest Example() {
  BundleManifest m;
  m.family = "minicpm-v-4_5";
  m.tool = "minicpm 9";
  m.created_utc = "2026-01-02T03:04:05Z";
  m.source = "quoted \" and \n";
  m.sources = {{"model.safetensors", 10, kDigest}};
  m.recipe = {{"weights", "int8"}, {"vision", "int8"}};
  m.groups = {{"language.linear", "INT8", 1, 256, kInt8Bytes, 0.01}, {"language.vectors", "source", 1, 3, 6, {}}};
  m.weights = {kBundleWeightsName, 0, kDigest};
  m.header_sha256 = kDigest;
  m.files = {{"assets/a.txt", 3, kDigest}};
  m.tensors = {{"w", DType::kInt8Packed, Shape{16, 16}, "language.linear", kInt8Bytes, kDigest},
               {"b", DType::kBF16, Shape{3}, "language.vectors", 6, kDigest}};
  m.dropped = {{"tts", DType::kF32, Shape{2, 2}}};
  return m;
}

constexpr const char* kHeader =
    R"({"w":{"dtype":"U8","shape":[320],"data_offsets":[0,320]},"b":{"dtype":"BF16","shape":[3],"data_offsets":[320,326]}})";

std::string ErrorOf(const std::string& text) {
  const auto m = ParseBundleManifest(text, "m.json");
  return m.has_value() ? "no error" : m.error().message;
}

TEST(BundleManifest, IsReadAsItWasWritten) {
  const std::string text = WriteBundleManifest(Example());
  const auto m = ParseBundleManifest(text, "m.json");
  ASSERT_TRUE(m.has_value()) << m.error().message;
  EXPECT_EQ(WriteBundleManifest(*m), text);
  EXPECT_EQ(m->source, Example().source);
  EXPECT_EQ(m->tensors[0].dtype, DType::kInt8Packed);
  EXPECT_EQ(m->Find("b")->stored_bytes, 6u);
  EXPECT_EQ(m->Find("c"), nullptr);
  ASSERT_TRUE(SealPosition(text).has_value());
  EXPECT_EQ(text.substr(*SealPosition(text), 64), std::string(64, '0'));
  EXPECT_FALSE(SealPosition(text + " ").has_value());
}

TEST(BundleManifest, HostileOnesAreRefusedWithFileAndKey) {
  const std::string good = WriteBundleManifest(Example());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from;
    return text.replace(text.find(from), from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {with("\"format_version\": 1", "\"format_version\": 2"), "format version 2"},
      {with("minicpm-bundle", "other"), "format"},
      {with("\"layout_version\":1", "\"layout_version\":2"), "layout_version 2"},
      {with("\"layout_version\":1,", ""), "layout_version"},
      {with("\"stored_bytes\":320", "\"stored_bytes\":321"), "320"},
      {with("\"stored_bytes\":6", "\"stored_bytes\":-6"), "stored_bytes"},
      {with("[16,16]", "[16,4611686018427387904]"), "shape"},
      {with("[16,16]", "[1099511627776,1099511627776]"), "stored_bytes"},
      {with("[16,16]", "[256]"), "stored_bytes"},
      {with("[16,16]", "[0,16]"), "stored_bytes"},
      {with("[16,16]", "[1,1,1,1,1,256]"), "shape"},
      {with("\"dtype\":\"BF16\"", "\"dtype\":\"Q4\""), "dtype"},
      {with("\"name\":\"b\"", "\"name\":\"w\""), "listed once"},
      {with("\"name\":\"b\"", "\"name\":\"__pad.0\""), "name"},
      {with("assets/a.txt", "../a.txt"), "inside the bundle"},
      {with("assets/a.txt", "/etc/passwd"), "inside the bundle"},
      {with("\"weights.safetensors\"", "\"other.safetensors\""), "weights.safetensors"},
      {with("\"relative_rms\":0.01", "\"relative_rms\":-1"), "relative_rms"},
      {with(kDigest, std::string(64, 'A')), "hexadecimal"},
      {good.substr(0, good.size() / 2), "JSON"},
      {"[]", "object"},
      {"", "JSON"},
  };
  for (const auto& [text, part] : cases) {
    EXPECT_THAT(ErrorOf(text), StartsWith("m.json")) << part;
    EXPECT_THAT(ErrorOf(text), HasSubstr(part));
  }
}

TEST(BundleManifest, InnerPathsStayInside) {
  for (const char* good : {"a", "a.json", "a/b.txt", "..a", "a..b/c"}) EXPECT_TRUE(IsInnerPath(good)) << good;
  for (const char* bad : {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "./a", "a\\b", "a\nb", "\xff"}) {
    EXPECT_FALSE(IsInnerPath(bad)) << bad;
  }
}

class BundleFolder : public ::testing::Test {
 protected:
  // Opens a bundle with this header; the error or "".
  std::string Open(BundleManifest m, const std::string& header, size_t data_bytes = 326) {
    std::string padded = header;
    padded.append((64 - (8 + padded.size()) % 64) % 64 + shift_, ' ');
    const std::string weights = test::SafetensorsBytes(padded, std::string(data_bytes, '\x40'));
    m.weights.bytes = weights.size() + wrong_bytes_;
    dir_.Write("bundle.json", WriteBundleManifest(m));
    dir_.Write("weights.safetensors", weights);
    auto checkpoint = Checkpoint::Open(dir_.path());
    if (!checkpoint.has_value()) return checkpoint.error().message;
    opened_.emplace(std::move(*checkpoint));
    return "";
  }
  test::TempDir dir_;
  std::optional<Checkpoint> opened_;
  size_t shift_ = 0;
  uint64_t wrong_bytes_ = 0;
};

TEST_F(BundleFolder, ShowsTensorsAsTheyAre) {
  std::string header = kHeader;
  header.insert(header.size() - 1, R"(,"__pad.0":{"dtype":"U8","shape":[10],"data_offsets":[326,336]})");
  ASSERT_EQ(Open(Example(), header, 336), "");
  ASSERT_EQ(opened_->entries().size(), 2u);
  EXPECT_TRUE(opened_->Find("__pad.0").empty());
  const auto w = opened_->Get("w", Shape{16, 16}, {DType::kBF16, DType::kInt8Packed});
  ASSERT_TRUE(w.has_value()) << w.error().message;
  EXPECT_EQ(w->dtype, DType::kInt8Packed);
  EXPECT_EQ(opened_->total_bytes(), 326u);
  EXPECT_EQ(opened_->PlaceOf("b").bytes, 6u);
  ASSERT_NE(opened_->bundle(), nullptr);
  EXPECT_THAT(opened_->Get("w", Shape{16, 16}, {DType::kF32}).error().message, HasSubstr("is INT8 [16, 16]"));
}

TEST_F(BundleFolder, WhatDoesNotFitTheManifestIsRefused) {
  BundleManifest m = Example();
  m.tensors.push_back({"c", DType::kU8, Shape{1}, "g", 1, kDigest});
  EXPECT_THAT(Open(m, kHeader), HasSubstr("lacks tensor \"c\""));
  m = Example();
  m.tensors.pop_back();
  EXPECT_THAT(Open(m, kHeader), HasSubstr("holds tensor \"b\", which bundle.json does not list"));
  m = Example();
  m.tensors[1].shape = Shape{1, 3};
  EXPECT_THAT(Open(m, kHeader), HasSubstr("tensor \"b\" is BF16 [3]"));
  m = Example();
  m.tensors[0] = {"w", DType::kU8, Shape{320}, "g", 320, kDigest};
  EXPECT_EQ(Open(m, kHeader), "");
  shift_ = 8;
  EXPECT_EQ(Open(m, kHeader), "");
  EXPECT_THAT(Open(Example(), kHeader), HasSubstr("multiple of 64"));
  shift_ = 0;
  wrong_bytes_ = 1;
  EXPECT_THAT(Open(Example(), kHeader), HasSubstr("bundle.json says"));
}

TEST_F(BundleFolder, MissingWeightsAreNamed) {
  dir_.Write("bundle.json", WriteBundleManifest(Example()));
  EXPECT_THAT(Checkpoint::Open(dir_.path()).error().message, HasSubstr("weights.safetensors"));
}

}  // namespace
}  // namespace minicpm
