// Tests of MappedFile and ReadWholeFile: content, moves, and every kind of path that is no readable file.
#include "os/mapped_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/support/temp_dir.h"

namespace minicpm {
namespace {

using test::TempDir;

std::string Text(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, MapsAndMoves) {
  const TempDir dir;
  MappedFile a = MappedFile::Open(dir.Write("a", "first")).value();
  MappedFile b = MappedFile::Open(dir.Write("b", "second")).value();
  EXPECT_EQ(Text(a), "first");
  const std::byte* data = a.bytes().data();
  MappedFile c = std::move(a);
  EXPECT_EQ(c.bytes().data(), data);
  EXPECT_TRUE(a.bytes().empty());  // NOLINT(bugprone-use-after-move): a moved-from file is empty
  b = std::move(c);
  EXPECT_EQ(Text(b), "first");
  std::filesystem::remove(dir.File("a"));
  EXPECT_EQ(Text(b), "first");  // the mapping outlives the name
  EXPECT_TRUE(MappedFile().bytes().empty());
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  const TempDir dir;
  const auto file = MappedFile::Open(dir.Write("empty", ""));
  ASSERT_TRUE(file.has_value());
  EXPECT_TRUE(file->bytes().empty());
}

TEST(MappedFile, SaysWhyAPathIsNoFile) {
  const TempDir dir;
  dir.Write("file", "x");
  ASSERT_EQ(::mkfifo(dir.File("pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("nowhere", dir.File("dangling"));
  std::filesystem::create_symlink("loop", dir.File("loop"));
  std::filesystem::create_symlink("file", dir.File("good"));
  struct Case {
    std::string name;
    ErrorCode code;
    std::string message;
  };
  const Case cases[] = {
      {"absent", ErrorCode::kNotFound, ": no such file"},
      {"file/below", ErrorCode::kNotFound, ": no such file"},
      {".", ErrorCode::kUnsupported, ": is a folder, expected a file"},
      {"pipe", ErrorCode::kUnsupported, ": not a regular file"},  // must not wait for a writer
      {"dangling", ErrorCode::kNotFound, ": is a link to a file that does not exist"},
      {"loop", ErrorCode::kIo, ": cannot open: Too many levels of symbolic links"},
      {std::string(300, 'n'), ErrorCode::kIo, ": cannot open: File name too long"},
      {std::string("file\0x", 6), ErrorCode::kNotFound, ": no such file (the name holds a zero byte)"},
  };
  for (const Case& c : cases) {
    const std::string path = dir.path() + "/" + c.name;
    const std::string expected = Printable(path, 4096) + c.message;
    const auto mapped = MappedFile::Open(path);
    ASSERT_FALSE(mapped.has_value()) << path;
    EXPECT_EQ(mapped.error().code, c.code) << path;
    EXPECT_EQ(mapped.error().message, expected);
    const auto text = ReadWholeFile(path, 100);
    ASSERT_FALSE(text.has_value()) << path;
    EXPECT_EQ(text.error().message, expected);
  }
  EXPECT_TRUE(MappedFile::Open(dir.File("good")).has_value());
}

TEST(ReadWholeFile, ReadsUpToTheLimit) {
  const TempDir dir;
  const std::string big(300000, 'b');
  const std::string path = dir.Write("big", big);
  EXPECT_EQ(ReadWholeFile(path, 300000).value(), big);
  EXPECT_EQ(ReadWholeFile(path, SIZE_MAX).value(), big);
  const auto refused = ReadWholeFile(path, 299999);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message, path + ": has 300000 bytes, at most 299999 are accepted");
  EXPECT_EQ(ReadWholeFile(dir.Write("empty", ""), 0).value(), "");
}

// Files under /proc claim a size of 0.
TEST(ReadWholeFile, DoesNotTrustTheSize) {
  const auto status = ReadWholeFile("/proc/self/status", 1 << 20);
  ASSERT_TRUE(status.has_value());
  EXPECT_GT(status->size(), 100u);
  const auto refused = ReadWholeFile("/proc/self/status", 10);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace minicpm
