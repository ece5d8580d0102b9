// One changed byte anywhere is found and named; bundles of other versions and families are refused.
#include "convert/verify.h"

#include <gmock/gmock.h>

#include <fstream>
#include <random>

#include "convert/convert_test_util.h"
#include "engine/engine.h"
#include "store/checkpoint.h"

namespace minicpm {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto done = ConvertCheckpoint(test::TinyConversion("minicpm-v-4_5", folder_, "int4"));
    ASSERT_TRUE(done.has_value()) << done.error().message;
    manifest_ = done->manifest;
  }
  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Problems, or the error, one a line.
  std::string Verify() const {
    VerifyOptions options;
    options.folder = folder_;
    options.n_threads = 2;
    options.selftest = false;
    const auto report = VerifyBundle(options);
    if (!report.has_value()) return report.error().message;
    std::string text;
    for (const VerifyProblem& problem : report->problems) text += problem.what + "\n";
    return text;
  }

  // Changes one byte, verifies, changes it back.
  std::string VerifyWithFlip(const std::string& name, uint64_t at, unsigned char mask = 1) {
    Flip(name, at, mask);
    const std::string text = Verify();
    Flip(name, at, mask);
    return text;
  }
  void Flip(const std::string& name, uint64_t at, unsigned char mask) const {
    std::fstream file(Path(name), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const auto byte = static_cast<char>(file.get() ^ mask);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }

  const test::TempDir dir_;
  const std::string folder_ = dir_.File("bundle");
  BundleManifest manifest_;
};

TEST_F(VerifyTest, AWholeBundleHasNoProblems) {
  VerifyOptions options;
  options.folder = folder_;
  options.n_threads = 3;
  const auto report = VerifyBundle(options);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_THAT(report->problems, IsEmpty());
  EXPECT_THAT(report->notes, IsEmpty());
  EXPECT_EQ(report->n_tensors, static_cast<int64_t>(manifest_.tensors.size()));
  EXPECT_EQ(report->n_files, static_cast<int64_t>(manifest_.files.size()) + 2);
  EXPECT_GT(report->n_bytes, manifest_.weights.bytes);
}

TEST_F(VerifyTest, AFlippedByteInATensorNamesIt) {
  const auto bundle = Checkpoint::Open(folder_);
  ASSERT_TRUE(bundle.has_value());
  std::mt19937 random(3);
  for (const BundleTensor& tensor : manifest_.tensors) {
    const Checkpoint::Place place = bundle->PlaceOf(tensor.name);
    const uint64_t at = place.offset + random() % place.bytes;
    EXPECT_THAT(VerifyWithFlip(kBundleWeightsName, at, static_cast<unsigned char>(1 + random() % 255)),
                HasSubstr("tensor \"" + tensor.name + "\" was changed"));
  }
  EXPECT_EQ(Verify(), "");
}

TEST_F(VerifyTest, AFlippedByteInHeaderOrPadNamesTheFile) {
  for (const uint64_t at : {0u, 3u, 7u, 8u, 9u, 100u, 1000u, 5000u, 20000u, (2u << 20) - 1}) {
    EXPECT_THAT(VerifyWithFlip(kBundleWeightsName, at), HasSubstr(kBundleWeightsName)) << at;
  }
  const auto file = SafetensorsFile::Open(Path(kBundleWeightsName));
  ASSERT_TRUE(file.has_value());
  int n_pads = 0;
  for (const auto& entry : file->entries()) {
    if (!entry.name.starts_with(kPadPrefix)) continue;
    ++n_pads;
    const auto at = static_cast<uint64_t>(static_cast<const std::byte*>(entry.view.data) - file->bytes().data());
    EXPECT_THAT(VerifyWithFlip(kBundleWeightsName, at), HasSubstr("\"" + entry.name + "\" must hold zeros"));
  }
  EXPECT_GT(n_pads, 0);
}

TEST_F(VerifyTest, AFlippedByteInAnyOtherFileNamesIt) {
  std::mt19937 random(5);
  std::vector<std::string> names = {kBundleFileName};
  for (const BundleFile& file : manifest_.files) names.push_back(file.name);
  EXPECT_GE(names.size(), 8u);
  for (const std::string& name : names) {
    const uint64_t bytes = std::filesystem::file_size(Path(name));
    for (int i = 0; i < (name == kBundleFileName ? 60 : 4); ++i) {
      const uint64_t at = i == 0 ? 0 : i == 1 ? bytes - 1 : random() % bytes;
      EXPECT_THAT(VerifyWithFlip(name, at, static_cast<unsigned char>(1u << random() % 8)), HasSubstr("/" + name))
          << at;
    }
  }
}

TEST_F(VerifyTest, FilesThatComeOrGoAreNoticed) {
  std::filesystem::rename(Path("vocab.json"), dir_.File("vocab.json"));
  EXPECT_THAT(Verify(), HasSubstr("vocab.json"));
  std::filesystem::rename(dir_.File("vocab.json"), Path("vocab.json"));
  dir_.Write("bundle/chat_template.jinja", "{{ messages }}");
  EXPECT_THAT(Verify(), HasSubstr("chat_template.jinja: is not listed"));
  std::filesystem::remove(Path("chat_template.jinja"));
  dir_.Write("bundle/notes.txt", "tried on Monday");
  dir_.Write("bundle/accuracy.json", "{}");
  EXPECT_EQ(Verify(), "");
  std::filesystem::resize_file(Path(kBundleWeightsName), manifest_.weights.bytes - 1);
  EXPECT_THAT(Verify(), HasSubstr(kBundleWeightsName));
}

TEST_F(VerifyTest, BrokenPromisesOfPackedWeightsAreNamed) {
  // Hashes that fit, as if a faulty program had written the bundle.
  const auto bundle = Checkpoint::Open(folder_);
  BundleManifest m = manifest_;
  for (BundleTensor& tensor : m.tensors) {
    if (tensor.dtype != DType::kInt8Packed) continue;
    const Checkpoint::Place place = bundle->PlaceOf(tensor.name);
    std::string bytes = test::ReadFileBytes(Path(kBundleWeightsName));
    bytes[place.offset + 64] = '\0';  // 0 is no 7-bit weight
    std::ofstream(Path(kBundleWeightsName), std::ios::binary) << bytes;
    std::ofstream(dir_.File("piece"), std::ios::binary) << bytes.substr(place.offset, place.bytes);
    tensor.sha256 = HashFile(dir_.path(), "piece", nullptr, nullptr)->sha256;
    dir_.Write("bundle/bundle.json", SealedManifest(m));
    EXPECT_THAT(Verify(), HasSubstr(tensor.name + "\", row 0, column 0: not a 7-bit weight"));
    return;
  }
  FAIL() << "no INT8 tensor";
}

TEST_F(VerifyTest, OtherVersionsAndFamiliesAreRefusedInASentence) {
  std::string text = test::ReadFileBytes(Path(kBundleFileName));
  const std::string version = "\"format_version\": 1";
  std::string newer = text;
  newer.replace(newer.find(version), version.size(), "\"format_version\": 2");
  dir_.Write("bundle/bundle.json", newer);
  const auto refused = Engine::Open(folder_, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("format version 2"));

  std::string layout = text;
  const std::string layout_version = "\"layout_version\":1";
  layout.replace(layout.find(layout_version), layout_version.size(), "\"layout_version\":9");
  dir_.Write("bundle/bundle.json", layout);
  EXPECT_THAT(Engine::Open(folder_, {}).error().message, HasSubstr("layout_version 9"));

  BundleManifest other = manifest_;
  other.family = "minicpm-v-2_6";
  dir_.Write("bundle/bundle.json", SealedManifest(other));
  EXPECT_THAT(Engine::Open(folder_, {}).error().message, HasSubstr("of family \"minicpm-v-2_6\", but config.json"));
}

TEST(Verify, WhatIsNoBundleIsRefused) {
  VerifyOptions options;
  options.folder = test::TinyModelFolder("minicpm-v-4_5");
  EXPECT_THAT(VerifyBundle(options).error().message, HasSubstr("has no bundle.json"));
  options.folder += "/none";
  EXPECT_THAT(VerifyBundle(options).error().message, HasSubstr("no such folder"));
}

TEST(SelfTest, FindsAModelThatAnswersOtherwise) {
  const test::TempDir dir;
  ConvertOptions convert = test::TinyConversion("minicpm-v-4_5", dir.File("b"), "int8");
  convert.selftest = true;
  ASSERT_TRUE(ConvertCheckpoint(convert).has_value());
  for (const char* isa : {"", "scalar"}) {
    const auto result = RunSelfTest(dir.File("b"), 2, isa, nullptr);
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_EQ(result->n_compared, 32);
    EXPECT_GE(result->n_decisive, 4);
    EXPECT_THAT(result->mismatches, IsEmpty());
    EXPECT_TRUE(*isa == '\0' || result->n_close == 0);
  }
  // The same test on another model of the same tokenizer.
  convert.folder = dir.File("other");
  convert.checkpoint = test::TinyModelFolder("minicpm-o-4_5");
  convert.selftest = false;
  ASSERT_TRUE(ConvertCheckpoint(convert).has_value());
  std::filesystem::copy(dir.File("b/selftest.json"), dir.File("other/selftest.json"));
  const auto result = RunSelfTest(dir.File("other"), 2, "", nullptr);
  ASSERT_TRUE(result.has_value()) << result.error().message;
  EXPECT_GE(result->mismatches.size(), 3u);
}

}  // namespace
}  // namespace minicpm
