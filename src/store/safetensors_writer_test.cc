// Tests of the safetensors writer: bytes as the Python library writes them, and nothing on disk when something is
// wrong.
#include "store/safetensors_writer.h"

#include <filesystem>
#include <numeric>

#include "gtest/gtest.h"
#include "tests/support/safetensors_bytes.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using test::ReadFileBytes;
using test::TempDir;

int FilesIn(const TempDir& dir) {
  const std::filesystem::directory_iterator files(dir.path());
  return static_cast<int>(std::distance(begin(files), end(files)));
}

std::string CreateError(std::vector<OutputTensor> tensors) {
  const TempDir dir;
  const auto writer = SafetensorsWriter::Create(dir.File("w.safetensors"), tensors);
  EXPECT_EQ(FilesIn(dir), writer.has_value() ? 1 : 0);
  if (writer.has_value()) return "no error";
  EXPECT_EQ(writer.error().code, ErrorCode::kInvalidArgument);
  return writer.error().message.substr(dir.path().size() + 1);
}

// tests/data/store/python.safetensors was written by safetensors 0.8.0 for Python, with one tensor of every dtype.
TEST(SafetensorsWriter, WritesTheBytesOfThePythonLibrary) {
  const std::string original = MINICPM_SOURCE_DIR "/tests/data/store/python.safetensors";
  const SafetensorsFile file = SafetensorsFile::Open(original).value();
  ASSERT_EQ(file.entries().size(), 9u);
  std::vector<SafetensorsFile::Entry> shuffled(file.entries().rbegin(), file.entries().rend());
  const TempDir dir;
  ASSERT_TRUE(WriteSafetensors(dir.File("w.safetensors"), shuffled, file.metadata()).has_value());
  EXPECT_EQ(ReadFileBytes(dir.File("w.safetensors")), ReadFileBytes(original));
  EXPECT_EQ(FilesIn(dir), 1);
}

TEST(SafetensorsWriter, TakesTheDataInPiecesOfAnySize) {
  const TempDir dir;
  const std::string path = dir.File("w.safetensors");
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0f);
  const std::vector<OutputTensor> specs = {{"x", DType::kF32, {10, 100}}, {"\"\n\xc3\xa9", DType::kU8, {0}}};
  {
    SafetensorsWriter writer = SafetensorsWriter::Create(path, specs, {{"k", "v\t"}}).value();
    std::span<const std::byte> rest = std::as_bytes(std::span(values));
    for (size_t n = 1; !rest.empty(); n = n * 3 % 701) {
      const size_t piece = std::min(n, rest.size());
      ASSERT_TRUE(writer.Append(rest.first(piece)).has_value());
      rest = rest.subspan(piece);
    }
    EXPECT_FALSE(std::filesystem::exists(path));
    ASSERT_TRUE(writer.Finish().has_value());
  }
  const SafetensorsFile file = SafetensorsFile::Open(path).value();
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.entries()[0].view.as<float>()[999], 999.0f);
  EXPECT_EQ(file.entries()[1].name, "\"\n\xc3\xa9");
  EXPECT_EQ(file.metadata().at("k"), "v\t");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.entries()[0].view.data) % 8, 0u);
}

TEST(SafetensorsWriter, LeavesNothingBehindWhenUnfinished) {
  const TempDir dir;
  const std::string path = dir.Write("w.safetensors", "the old one");
  const std::vector<OutputTensor> specs = {{"x", DType::kU8, {4}}};
  {
    SafetensorsWriter writer = SafetensorsWriter::Create(path, specs).value();
    ASSERT_TRUE(writer.Append(test::AsBytes("abc")).has_value());
    EXPECT_EQ(writer.Append(test::AsBytes("de")).error().message, path + ": 2 bytes of data given, 1 expected");
    EXPECT_EQ(writer.Finish().error().message, path + ": 1 bytes of data are missing");
    EXPECT_EQ(FilesIn(dir), 2);
  }
  EXPECT_EQ(FilesIn(dir), 1);
  EXPECT_EQ(ReadFileBytes(path), "the old one");
}

TEST(SafetensorsWriter, RefusesWhatTheReaderWould) {
  const int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(CreateError({{"", DType::kU8, {1}}}),
            "w.safetensors: tensor \"\" has a name that is empty, reserved or not UTF-8");
  EXPECT_EQ(CreateError({{"__metadata__", DType::kU8, {1}}}),
            "w.safetensors: tensor \"__metadata__\" has a name that is empty, reserved or not UTF-8");
  EXPECT_EQ(CreateError({{"\xff", DType::kU8, {1}}}),
            "w.safetensors: tensor \"?\" has a name that is empty, reserved or not UTF-8");
  EXPECT_EQ(CreateError({{"a", DType::kU8, {1}}, {"a", DType::kU8, {1}}}),
            "w.safetensors: tensor \"a\" is listed twice");
  EXPECT_EQ(CreateError({{"a", DType::kF32, {huge}}}), "w.safetensors: tensor \"a\" has a size that overflows");
  EXPECT_EQ(CreateError({{"a", DType::kF32, {huge, 0}}}), "w.safetensors: tensor \"a\" has a size that overflows");
  EXPECT_EQ(CreateError({{"a", DType::kU8, {huge}}, {"b", DType::kU8, {huge}}}),
            "w.safetensors: tensor \"b\" has a size that overflows");
  EXPECT_EQ(CreateError({{"a", DType::kU8, {-1}}}), "w.safetensors: tensor \"a\" has a size that overflows");
  EXPECT_EQ(CreateError({{"a", DType::kU8, {3}}, {"b", DType::kF32, {1}}}),
            "w.safetensors: tensor \"b\" would not be aligned to its element size");
  EXPECT_EQ(CreateError({}), "no error");
}

TEST(SafetensorsWriter, NamesTheFolderThatIsMissing) {
  const TempDir dir;
  const auto writer = SafetensorsWriter::Create(dir.File("no/w.safetensors"), {});
  ASSERT_FALSE(writer.has_value());
  EXPECT_EQ(writer.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(writer.error().message, dir.File("no/w.safetensors") + ": cannot create: No such file or directory");
}

}  // namespace
}  // namespace minicpm
